"""What the benchmarks on one GPU share: contenders that are checked, then timed in turn.

Every contender is first run on fresh random data, in output memory that was filled with NaN:
all elements must be written, and the error is taken against a reference in higher precision.
Then all are timed in one process, in turn: bursts of about 3 ms, a pause before each, the order
rotated, medians over the rounds. What is prepared is not timed.

A peer that fails before it ever ran is left out from then on, and named; one that fails later is
named for that case. A rehearsal runs the same code on the CPU at tiny sizes, where the times
mean nothing; with TRITON_INTERPRET=1 it runs the emitted source.
"""

from __future__ import annotations

import gc
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from benchmarks.errors import poison
from benchmarks.peers import DTYPE as DTYPE  # these three for `compare`, in any checkout
from benchmarks.peers import OURS, Call, Prepare, is_ours
from benchmarks.peers import kernel as kernel
from benchmarks.peers import schedule as schedule
from benchmarks.report import (
    Report,
    in_one_line,
    listed,
    options,
    today,
    versions,
    write_json,
)

ROUNDS, QUICK_ROUNDS = 9, 5
BURST_MS, REST_S = 3.0, 0.004
BUSY_CYCLES = 2_000_000  # about a millisecond
SECONDS = 480.0  # what a run may take
MiB = 1 << 20


class HasWords(Protocol):
    """A case: its words are what `--only` selects by."""

    @property
    def words(self) -> tuple[str, ...]:
        """One for each kind of property, such as "causal", "N=4096", "d=64"."""


class HasJson(Protocol):
    """What was found for a case."""

    @property
    def right(self) -> bool:
        """Did ours run, and well enough?"""

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""


C = TypeVar("C", bound=HasWords)
R = TypeVar("R")


class UnknownWordError(Exception):
    """A word that no case has."""


@dataclass(frozen=True)
class Setting:
    """How a benchmark is to be run.

    Attributes:
        quick: fewer sizes and rounds.
        only: words of the cases to run; all of them, if empty.
        seconds: what the run may take; cases that no longer fit are skipped, and named.
        rehearse: tiny sizes on the CPU.
    """

    quick: bool = False
    only: Sequence[str] = ()
    seconds: float = SECONDS
    rehearse: bool = False

    @property
    def device(self) -> str:
        """Where tensors lie."""
        return "cpu" if self.rehearse else "cuda"

    @property
    def rounds(self) -> int:
        """How often each contender is timed."""
        return QUICK_ROUNDS if self.quick else ROUNDS

    def select(self, cases: Sequence[C]) -> list[C]:
        """Cases with one of the words of each kind: of `causal alibi d=64`, causal or alibi."""
        kinds = [set(self.only) & set(kind) for kind in zip(*(c.words for c in cases), strict=True)]
        unknown = set(self.only).difference(*kinds) if kinds else set(self.only)
        if unknown:
            raise UnknownWordError(f"no case is called {' or '.join(sorted(unknown))}")
        return [
            c for c in cases if all(not k or w in k for w, k in zip(c.words, kinds, strict=True))
        ]


# How fast, and how much memory?


def burst(call: Callable[[], object], count: int) -> float:
    """Milliseconds a call, over a few calls back to back. The GPU is kept busy until they have
    been launched, or the CPU's time for the first one would count."""
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    call()
    torch.cuda._sleep(BUSY_CYCLES)
    start.record()
    for _ in range(count):
        call()
    stop.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(stop)) / count


def times(
    calls: Mapping[str, Callable[[], object]], rounds: int, device: str = "cuda"
) -> dict[str, list[float]]:
    """Milliseconds of each, in every round; one plain call each on the CPU."""
    if device != "cuda":
        return {name: [_wall_ms(call)] for name, call in calls.items()}
    counts = {}
    for name, call in calls.items():
        call()
        torch.cuda.synchronize()
        counts[name] = max(2, min(40, int(BURST_MS / max(1e-3, burst(call, 2)))))
    taken: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for turn in range(rounds):
        start = turn % len(names) if names else 0
        for name in names[start:] + names[:start]:
            time.sleep(REST_S)
            taken[name].append(burst(calls[name], counts[name]))
    return taken


def _wall_ms(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e3


def extra_memory(call: Call) -> int:
    """Bytes that a call takes at its peak beside its inputs and its outputs."""
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = call()
    torch.cuda.synchronize()
    outputs = (result,) if isinstance(result, Tensor) else result
    there = sum(x.nbytes for x in outputs if x is not None)
    return int(torch.cuda.max_memory_allocated() - before - there)


# Contests


@dataclass
class Outcome:
    """What was found for one case; contenders that do not run are in `faults`."""

    eager_error: float = math.nan
    errors: dict[str, float] = field(default_factory=dict)
    milliseconds: dict[str, list[float]] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    first_call_s: float = math.nan

    def median(self, name: str) -> float:
        """Milliseconds of a contender; NaN if it was not timed."""
        found = self.milliseconds.get(name)
        return statistics.median(found) if found else math.nan

    def best(self, names: Iterable[str]) -> float:
        """Milliseconds of the fastest of some contenders; NaN if none was timed."""
        found = [self.median(name) for name in names if name in self.milliseconds]
        return min(found, default=math.nan)

    @property
    def right(self) -> bool:
        """Did ours run, with errors that are at most that of eager torch in bf16?"""
        found = [self.errors.get(n, math.inf) for n in {*self.errors, OURS} if is_ours(n)]
        return not any(map(is_ours, self.faults)) and all(e <= self.eager_error for e in found)

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {
            "milliseconds": self.milliseconds,
            "errors": self.errors,
            "eager_error": self.eager_error,
            "extra_bytes": self.memory,
            "faults": self.faults,
            "first_call_seconds": self.first_call_s,
        }


@dataclass
class Contest(Generic[C]):
    """What was found for one case."""

    case: C
    outcome: Outcome

    @property
    def right(self) -> bool:
        """Did ours run, and well enough?"""
        return self.outcome.right


class Run:
    """One run of a benchmark: its cases in turn, the contenders of each, and what was left out.

    Attributes:
        setting: how to run.
        missing: peers that failed before they ever ran, with the reason.
        skipped: cases that no longer fitted into the time.
        failed: cases that could not be measured at all, with the reason.
    """

    def __init__(self, setting: Setting) -> None:
        warnings.filterwarnings("ignore")  # of peers; ours are errors in the tests
        torch.set_float32_matmul_precision("highest")
        self.setting = setting
        self.missing: dict[str, str] = {}
        self.skipped: list[str] = []
        self.failed: dict[str, str] = {}
        self._began = time.perf_counter()
        self._seed = torch.seed()  # fresh inputs in every run
        self._ran: set[str] = set()

    def spent(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._began

    def each(self, cases: Iterable[C], measure: Callable[[C], R]) -> list[R]:
        """What is found for the cases, as long as one more, as long as the longest, fits."""
        results, longest = [], 0.0
        for case in cases:
            words, began = " ".join(case.words), self.spent()
            if began + longest > self.setting.seconds:
                self.skipped.append(words)
                continue
            try:
                results.append(measure(case))
            except Exception as fault:
                self.failed[words] = in_one_line(fault)
                say(f"{words}: {self.failed[words]}")
            longest = max(longest, self.spent() - began)
            say(f"{words}: done, {self.spent():.0f} s")
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
        return results

    def hold(
        self,
        contenders: Mapping[str, Prepare],
        error: Callable[[Any], float],
        eager_error: float,
        *,
        memory: bool = False,
    ) -> Outcome:
        """Check, then time, whatever of the contenders runs here.

        Args:
            contenders: what prepares each.
            error: of a result; infinite where something was not written.
            eager_error: the error of eager torch in the same dtype.
            memory: measure the extra memory, too.
        """
        outcome = Outcome(eager_error)
        calls: dict[str, Call] = {}
        for name, prepare in contenders.items():
            if name in self.missing:
                continue
            try:
                call = prepare()
                began = time.perf_counter()
                like = call()
                self.wait()
                if name == OURS:
                    outcome.first_call_s = time.perf_counter() - began
                poison(like)
                del like
                outcome.errors[name] = error(call())
            except Exception as fault:
                outcome.faults[name] = in_one_line(fault)
                if not is_ours(name) and name not in self._ran:
                    self.missing[name] = outcome.faults.pop(name)
                continue
            self._ran.add(name)
            calls[name] = call
        device = self.setting.device
        if memory:
            outcome.memory = {
                n: extra_memory(c) if device == "cuda" else 0 for n, c in calls.items()
            }
        outcome.milliseconds = times(calls, self.setting.rounds, device)
        # Once more in poisoned memory, after many launches: a race would show.
        for name in filter(is_ours, calls):
            poison(calls[name]())
            outcome.errors[name] = max(outcome.errors[name], error(calls[name]()))
        return outcome

    def wait(self) -> None:
        """Until the GPU is done."""
        if self.setting.device == "cuda":
            torch.cuda.synchronize()

    def notes(self, contests: Iterable[Contest[Any]] = ()) -> list[str]:
        """When and where, and what was left out, skipped, or failed where others ran."""
        lines = [f"{today()}, {gpu_name()}; {listed(environment())}."]
        lines += [f"Left out: {name} ({reason})." for name, reason in self.missing.items()]
        if self.skipped:
            limit = f"{self.setting.seconds:.0f} s"
            lines.append(f"Skipped, as {limit} were not enough: {', '.join(self.skipped)}.")
        lines += [f"Failed: {case} ({reason})." for case, reason in self.failed.items()]
        for contest in contests:
            at = " ".join(contest.case.words)
            faults = contest.outcome.faults.items()
            lines += [f"Failed: {name} at {at} ({reason})." for name, reason in faults]
        return lines

    def to_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "date": today(),
            "gpu": gpu_name(),
            "versions": environment(),
            "seed": self._seed,
            "seconds": self.spent(),
            "missing": self.missing,
            "skipped": self.skipped,
            "failed": self.failed,
        }

    def report(
        self, name: str, lines: Iterable[str], results: Iterable[HasJson], **data: Any
    ) -> Report:
        """The report of a benchmark: right if every case could be measured, and is right.

        Args:
            name: the benchmark's module.
            lines: the words and tables.
            results: of the cases.
            data: further numbers, for other tools.
        """
        found = list(results)
        right = not self.failed and all(r.right for r in found)
        cases = [r.to_json() for r in found]
        return Report(name, "\n".join(lines), {**self.to_json(), **data, "cases": cases}, right)


def say(line: str) -> None:
    """Tell how far it is, on standard error."""
    print(line, file=sys.stderr, flush=True)


# The words around a table


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean; NaN of nothing."""
    return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan


def number(value: float, form: str = ".2f") -> str:
    """A number for a table; a dash for NaN."""
    return "-" if math.isnan(value) else format(value, form)


def numbers(values: Sequence[float], forms: Sequence[str]) -> list[str]:
    """Several of them, each in its own form."""
    return [number(value, form) for value, form in zip(values, forms, strict=True)]


def environment() -> dict[str, str]:
    """The versions of what matters on a GPU."""
    cudnn: Any = torch.backends.cudnn.version()
    return {
        **versions(),
        "torch": torch.__version__,
        **{k: v for k, v in versions("triton").items() if k == "triton"},
        "cuDNN": _cudnn_version(cudnn) if cudnn else "none",
    }


def _cudnn_version(found: int) -> str:
    """91900 is 9.19.0."""
    return f"{found // 10000}.{found // 100 % 100}.{found % 100}"


def gpu_name() -> str:
    """The GPU's name."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU, a rehearsal"


def unavailable() -> str | None:
    """Why a GPU cannot be measured here."""
    return None if torch.cuda.is_available() else "torch sees no GPU"


def main(doc: str | None, measure: Callable[[Setting], Report]) -> int:
    """Print the tables of a benchmark, by itself."""
    parser = options(doc)
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="WORD",
        help="some cases, by their words, such as causal alibi d=64 N=4096",
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="what the run may take (%(default)s)"
    )
    parser.add_argument(
        "--rehearse", action="store_true", help="tiny sizes on the CPU; the times mean nothing"
    )
    chosen = parser.parse_args()
    reason = None if chosen.rehearse else unavailable()
    if reason is not None:
        print(f"error: {reason}", file=sys.stderr)
        return 2
    try:
        setting = Setting(chosen.quick, chosen.only, chosen.seconds, chosen.rehearse)
        report = measure(setting)
    except UnknownWordError as fault:
        parser.error(str(fault))
    print(report.text)
    write_json(chosen.json, [report])
    if not report.right:
        print("error: monocomp failed, or its error exceeds that of eager torch", file=sys.stderr)
    return 0 if report.right else 1
