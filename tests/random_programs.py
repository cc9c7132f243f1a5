"""Runs random programs beside the oracle, forward and gradients, in several processes.

    python -m tests.random_programs COUNT [--backend torch|triton] [--processes N] [--seconds S]
                                    [--seed K] [--timeout T] [--processors P]

Programs of even seeds make sense at random positions, those of odd seeds divide by anything
(`tests.program_generator`). Half of them run at a few elements, half at several blocks. The backend
torch computes in float64, triton in float32: on a GPU if there is one, else in Triton's
interpreter, where P processors have the plans that a GPU has with as many. Each failure is printed
with its seed; `1 --seed K` runs it alone.

A program is *refused* if an error of monocomp says so, *wrong* if an outcome is not the oracle's,
*crashed* if anything else is raised or its process dies, *timed out* if it takes longer than T
seconds, when its process is ended. After S seconds no further program is begun.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import numpy as np

from tests import program_generator

if TYPE_CHECKING:
    from monocomp.terms import Term

OUTCOMES = ("run", "refused", "wrong", "crashed", "timed out")
SMALL = {"i": 3, "k": 5, "j": 3}
LARGE = {"i": 19, "k": 37, "j": 7}
BLOCK = 16
PROFILES = [profile for profile in program_generator.PROFILES if profile != "nan"]
START = 300  # seconds that a process may take to import what it needs


@dataclass(frozen=True)
class Report:
    """The outcome of a program, a text about it, and how many slopes were compared."""

    outcome: str
    text: str = ""
    slopes: int = 0


# --- one program ------------------------------------------------------------------------------


def program_of(seed: int) -> str:
    """Return the text of a seed: the first of those drawn that is a program."""
    from monocomp.errors import MonocompError
    from monocomp.language.checker import check

    draw = program_generator.program if seed % 2 else program_generator.careful
    for attempt in range(1000):
        text = draw(1_000_003 * attempt + seed)
        try:
            check(text)
        except MonocompError:
            continue
        return text
    raise AssertionError(f"no program for the seed {seed}")


def inputs_of(text: str, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield inputs in general position and at special points, with the name of where they are."""
    from monocomp.checking.random_inputs import random_inputs
    from monocomp.costs.reading import inlined
    from monocomp.declarations.records import free_extents
    from monocomp.language.checker import check
    from monocomp.translation.translator import translate

    rng = np.random.default_rng(seed)
    largest = LARGE if seed // 2 % 2 else SMALL
    sizes = {i: int(rng.integers(1, n + 1)) for i, n in largest.items()}
    program = translate(check(text))
    used = {i: sizes[i] for i in free_extents(program.declared) if i in sizes}
    yield "general", random_inputs(program, used, dtype="float64", seed=seed)
    if seed % 2:
        logits = program.declared.masked - _multiplied_inputs([e.body for e in inlined(program)])
        for number, profile in enumerate(PROFILES):
            drawn = program_generator.inputs(31 * seed + number, profile, sizes, logits)
            yield profile, {name: drawn[name] for name in program.declared.inputs}
    else:
        yield "finite", random_inputs(program, used, dtype="float64", seed=seed, points="finite")


def _multiplied_inputs(bodies: Sequence[Term]) -> set[str]:
    """Return the names of inputs that a sum multiplies by what may be less than 0, or has an index
    that they lack: their -inf is unspecified."""
    from monocomp.terms import subterms
    from monocomp.terms.domain import MASKS_ARE_READ, REALS_ARE_READ, domain
    from monocomp.terms.facts import added_names

    sums = (t for t in subterms(*bodies) if t.op in ("fold", "fold_at"))
    elements = [t.args[-1] for t in sums if t.attr.monoid in ("sum", "mean", "var")]
    added = {t for e in elements for t in _addends(e)}
    products = [t for t in subterms(*elements) if t.op == "mul" and t.kind == "float"]
    return {
        name
        for t in products
        for f in t.args
        if domain(f, MASKS_ARE_READ).masked
        for g in t.args
        if g is not f
        if domain(g, REALS_ARE_READ).lo < 0 or (t in added and not g.free <= f.free)
        for name in added_names(f)
    }


def _addends(t: Term) -> Iterator[Term]:
    """Yield a term, what it adds up or chooses among, and the elements of sums that it is."""
    yield t
    is_sum = t.op == "fold" and t.attr.monoid == "sum"
    for part in t.args if is_sum or t.op in ("add", "where") else ():
        yield from _addends(part)


def check_program(
    text: str, seed: int, backend: str, device: str, processors: int | None = None
) -> int:
    """Compare a program's outputs and slopes with the oracle's; how many slopes there were."""
    import monocomp as mc
    from monocomp.errors import IndexRangeError
    from monocomp.language.checker import check
    from tests.agreement import check_gradients, check_outputs

    program = check(text)
    kernel = mc.compile(text, backend=backend, processors=processors)
    compared = 0
    for profile, inputs in inputs_of(text, seed):
        if backend == "triton" and profile == "large":
            continue  # overflows in float32
        note = f"at {profile} points"
        try:
            check_outputs(program, kernel, inputs, note=note, device=device)
        except IndexRangeError:
            continue
        if profile in ("general", "masked") and not re.search(r"\bstop\(", text):
            compared += check_gradients(program, kernel, inputs, note=note, device=device)
    return compared


def report_of(seed: int, backend: str, device: str, processors: int | None = None) -> Report:
    """Try the program of a seed, in kernels for a number of processors."""
    from monocomp.errors import InternalError, MonocompError
    from tests.agreement import Mismatch
    from tests.backends import running

    small = running.small_blocks if backend == "torch" else running.small_schedules
    text = ""
    try:
        text = program_of(seed)
        with small(BLOCK) if seed // 4 % 2 else nullcontext():
            return Report("run", slopes=check_program(text, seed, backend, device, processors))
    except Mismatch as fault:
        return Report("wrong", f"{text}\n{fault}")
    except InternalError:
        return Report("crashed", f"{text}\n{traceback.format_exc()}")
    except MonocompError as fault:
        return Report("refused", f"{text}\n{fault.described()}")
    except Exception:
        return Report("crashed", f"{text}\n{traceback.format_exc()}")


# --- processes --------------------------------------------------------------------------------


def serve(connection: Connection, backend: str, device: str, processors: int | None) -> None:
    """Try the programs of the seeds that arrive, and send a report of each."""
    import torch

    from tests.backends import running

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if os.environ.get("TRITON_INTERPRET") == "1":
        from tests.backends import quick_interpreter

        quick_interpreter.install()
    poisoned = running.poisoned_outputs if backend == "torch" else running.poisoned_empty
    with poisoned(), suppress(EOFError):
        connection.send(None)  # ready
        while True:
            connection.send(report_of(connection.recv(), backend, device, processors))


class Worker:
    """A process that tries one program after the other, and is replaced where one breaks it."""

    def __init__(self, timeout: float, *options: Any) -> None:
        self.timeout, self.options = timeout, options
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, *self.options), daemon=True)
        self.process.start()
        other.close()
        if not self.connection.poll(START):
            raise RuntimeError("a process does not start")
        self.connection.recv()

    def report(self, seed: int) -> Report:
        """Return the report of a seed, or that there is none."""
        self.connection.send(seed)
        outcome, fault = "timed out", f"took more than {self.timeout:g} seconds"
        with suppress(EOFError, ConnectionResetError):
            if self.connection.poll(self.timeout):
                outcome, fault = "crashed", "its process died"
                report: Report = self.connection.recv()
                if report.outcome == "crashed" and "cuda" in self.options:
                    self._replace()  # what broke may be the GPU's context
                return report
        self._replace()
        return Report(outcome, f"{program_of(seed)}\n{fault}")

    def _replace(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()
        self._start()


def reports(
    seeds: range, processes: int, seconds: float, timeout: float, *options: Any
) -> Iterator[tuple[int, Report]]:
    """Yield the report of each seed that is begun in time."""
    thread, began = threading.local(), time.monotonic()

    def begin() -> None:
        thread.worker = Worker(timeout, *options)

    def report(seed: int) -> Report | None:
        worker: Worker = thread.worker
        return worker.report(seed) if time.monotonic() - began <= seconds else None

    pool = ThreadPoolExecutor(processes, initializer=begin)
    try:
        for seed, found in zip(seeds, pool.map(report, seeds), strict=True):
            if found is not None:
                yield seed, found
    finally:
        pool.shutdown(cancel_futures=True)


def main() -> int:
    """Run the command; 1 if any program is wrong, crashes or takes too long."""
    parser = argparse.ArgumentParser(prog="python -m tests.random_programs")
    parser.add_argument("count", type=int)
    parser.add_argument("--backend", choices=("torch", "triton"), default="torch")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--processors", type=int)
    parser.add_argument("--show-refused", action="store_true")
    options = parser.parse_args()
    device = _device(options.backend)
    caches = _private_caches()
    began = time.monotonic()
    seeds = range(options.seed, options.seed + options.count)

    counts: Counter[str] = Counter()
    slopes = 0
    processes = min(options.processes, options.count)
    try:
        how = options.seconds, options.timeout, options.backend, device, options.processors
        for seed, report in reports(seeds, processes, *how):
            counts[report.outcome] += 1
            slopes += report.slopes
            is_shown = report.outcome != "refused" or options.show_refused
            if report.outcome != "run" and is_shown:
                print(f"--- seed {seed}: {report.outcome}\n{report.text}", flush=True)
            if sum(counts.values()) % 500 == 0:
                print(f"... {_line(counts, slopes, began)}", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(caches, ignore_errors=True)
    print(_line(counts, slopes, began))
    return int(any(counts[o] for o in OUTCOMES[2:]))


def _device(backend: str) -> str:
    import torch

    if backend == "torch":
        return "cpu"
    if torch.cuda.is_available():
        return "cuda"
    os.environ["TRITON_INTERPRET"] = "1"
    return "cpu"


def _private_caches() -> str:
    """Send the caches of all processes to a folder of this run."""
    folder = tempfile.mkdtemp(prefix="monocomp-random-")
    os.environ["MONOCOMP_CACHE_DIR"] = os.path.join(folder, "monocomp")
    os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")
    os.environ["MONOCOMP_TUNE"] = "0"  # right with the first schedule
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    return folder


def _line(counts: Counter[str], slopes: int, began: float) -> str:
    parts = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES)
    seconds = time.monotonic() - began
    return f"{sum(counts.values())} programs: {parts}; {slopes} slopes, {seconds:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
