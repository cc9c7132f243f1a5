"""How long compiling takes: the command as a whole process, and text to source in one process.

Times are those of the processor, which others may share. The command is timed from outside, process
start included. Its peak memory, and what it has imported by its end, it says itself: a parent's
view of a child's peak also counts the parent.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from tempfile import TemporaryDirectory

import monocomp as mc
from benchmarks.report import (
    Report,
    listed,
    load,
    options,
    percentile,
    processor,
    summary,
    table,
    today,
    versions,
    write_json,
)
from monocomp.proving.monoid_laws import BUILT_IN
from monocomp.proving.proofs import certify
from monocomp.proving.rule_laws import RULE_LAWS

COMMAND = (sys.executable, "-m", "monocomp", "emit", "attention")
HEAVY = ("torch", "triton")
PROBE = f"""
import contextlib, io, json, sys
from monocomp.command_line.main import main
with contextlib.redirect_stdout(io.StringIO()) as emitted:
    status = main(["emit", "attention"])
with open("/proc/self/status") as file:
    peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
heavy = [name for name in {HEAVY!r} if name in sys.modules]
lines = emitted.getvalue().count("\\n")
print(json.dumps({{"status": status, "lines": lines, "peak": peak * 1024, "heavy": heavy}}))
"""


def unavailable() -> str | None:
    """Why this cannot be measured here."""
    return None if os.path.exists("/proc/self/status") else "it reads /proc"


def whole_process(runs: int) -> list[float]:
    """Seconds of `monocomp emit attention`, several times, with the byte code that a package has
    once it is installed."""
    taken = []
    with TemporaryDirectory() as folder:
        written = {n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"}
        written["PYTHONPYCACHEPREFIX"] = folder
        for _ in range(1 + runs):
            began = _of_children()
            subprocess.run(COMMAND, check=True, stdout=subprocess.DEVNULL, env=written)
            taken.append(_of_children() - began)
    return taken[1:]  # the first one writes it


def _of_children() -> float:
    """Return the seconds that processes have taken which have ended."""
    of = resource.getrusage(resource.RUSAGE_CHILDREN)
    return of.ru_utime + of.ru_stime


def probe() -> dict[str, object]:
    """What the process says of itself: its peak memory and the heavy modules it imported."""
    words = (sys.executable, "-c", PROBE)
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def text_to_source(runs: int) -> dict[str, list[float]]:
    """Seconds from a program's text to Triton source, by program, in this process."""
    texts = {name: mc.library.load(name) for name in mc.library.names()}
    for text in texts.values():
        mc.compile(text).source("triton")
    taken: dict[str, list[float]] = {name: [] for name in texts}
    for _ in range(runs):
        for name, text in texts.items():
            began = time.process_time()
            mc.compile(text).source("triton")
            taken[name].append(time.process_time() - began)
    return taken


def longest_proof() -> tuple[str, float]:
    """The monoid or law that takes longest to prove afresh, and its seconds."""
    taken = {}
    for name in (*BUILT_IN, *RULE_LAWS, "SE"):
        began = time.process_time()
        certify(name, fresh=True)
        taken[name] = time.process_time() - began
    slowest = max(taken, key=lambda name: taken[name])
    return slowest, taken[slowest]


def measure(quick: bool = False) -> Report:
    """The table."""
    busy = load()
    process = whole_process(3 if quick else 9)
    probes = [probe() for _ in range(1 if quick else 3)]
    peak = max(int(str(p["peak"])) for p in probes)
    heavy = sorted({str(name) for p in probes for name in p["heavy"]})  # type: ignore[attr-defined]
    programs = text_to_source(5 if quick else 20)
    every = [seconds for taken in programs.values() for seconds in taken]
    proved, proof_seconds = longest_proof()
    slowest = max(programs, key=lambda name: statistics.median(programs[name]))
    rows = [
        (
            "`monocomp emit attention`, whole process, median",
            f"{statistics.median(process):.2f} s",
            "< 1 s",
        ),
        ("the same, fastest", f"{min(process):.2f} s", ""),
        ("the same, peak memory", f"{peak / 1e6:.0f} MB", "< 150 MB"),
        ("the same, imports torch or triton", ", ".join(heavy) or "no", "no"),
        (
            "text to Triton source, warm, median over the library",
            f"{statistics.median(every) * 1e3:.0f} ms",
            "< 40 ms",
        ),
        ("the same, 99th percentile", f"{percentile(every, 0.99) * 1e3:.0f} ms", "< 300 ms"),
        (
            f"the same, slowest program (`{slowest}`), median",
            f"{statistics.median(programs[slowest]) * 1e3:.0f} ms",
            "",
        ),
        (f"longest proof afresh (`{proved}`)", f"{proof_seconds:.1f} s", "< 10 s"),
    ]
    where = f"{processor()}, {os.cpu_count()} cores; {listed(versions('sympy', 'lark'))}; {busy}"
    text = (
        f"Compile time, {today()}, {where}.\n"
        f"{len(process)} processes; {len(every) // len(programs)} compilations"
        f" of each of {len(programs)} programs.\n\n" + table(("", "measured", "target"), rows)
    )
    data = {
        "date": today(),
        "machine": where,
        "process_seconds": summary(process),
        "process_peak_bytes": peak,
        "process_heavy_imports": heavy,
        "text_to_source_seconds": {n: summary(t) for n, t in programs.items()},
        "text_to_source_median": statistics.median(every),
        "text_to_source_p99": percentile(every, 0.99),
        "longest_proof_seconds": {proved: proof_seconds},
    }
    return Report("compile_time", text, data, all(p["status"] == 0 for p in probes))


def main() -> int:
    """Print the table."""
    chosen = options(__doc__).parse_args()
    report = measure(chosen.quick)
    print(report.text)
    write_json(chosen.json, [report])
    return 0 if report.right else 1


if __name__ == "__main__":
    sys.exit(main())
