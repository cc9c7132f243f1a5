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
import importlib
import math
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention

import monocomp as mc
from benchmarks.report import Report, listed, options, today, versions, write_json
from monocomp.backends.triton import table
from monocomp.sizes import packed_extents

# As the peers search their own options, first calls search schedules, unless told not to.
os.environ.setdefault("MONOCOMP_TUNE", "1")

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # in rehearsals
DTYPE = torch.float16 if INTERPRETED else torch.bfloat16  # whose products are not interpreted
ROUNDS, QUICK_ROUNDS = 9, 5
BURST_MS, REST_S = 3.0, 0.004
BUSY_CYCLES = 2_000_000  # about a millisecond
CHECKED_ROWS = 256  # at the start, in the middle and at the end
SECONDS = 480.0  # what a run may take
MiB = 1 << 20
OURS, FLEX, CUDNN, FLASH, FA3 = "monocomp", "Flex", "cuDNN", "FA2", "FA3"

Call: TypeAlias = Callable[[], Any]  # of a tensor, or several
Prepare: TypeAlias = Callable[[], Call]
Score: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
Mask: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
Mods: TypeAlias = tuple[Score | None, Mask | None]


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


# The contenders


@cache
def kernel(program: str, name: str | None = None) -> mc.Kernel:
    """A program of the library, by its name, or a text, compiled.

    In a rehearsal with TRITON_INTERPRET=1 it is emitted source that runs.
    """
    backend = "triton" if INTERPRETED else "auto"
    if program in mc.library.names():
        name = program
    return mc.compile(text(program), name=name, backend=backend)


def text(program: str) -> str:
    """The text of a program of the library, or the text itself."""
    return mc.library.load(program) if program in mc.library.names() else program


def ours(program: str, *inputs: Tensor, **params: Any) -> Prepare:
    """Our kernel; of several outputs the first."""

    def prepare() -> Call:
        compiled = kernel(program)

        def call() -> Tensor:
            result = compiled(*inputs, **params)
            first = result[0] if isinstance(result, tuple) else result
            assert isinstance(first, Tensor)
            return first

        return call

    return prepare


def schedule(program: str, *tensors: Tensor, **params: Any) -> str:
    """What is chosen for these inputs, in words; empty where nothing is to be chosen."""
    return "; ".join(schedules(program, *tensors, **params))


def schedules(program: str, *tensors: Tensor, **params: Any) -> tuple[str, ...]:
    """The same of each kernel that is launched."""
    if tensors[0].device.type != "cuda" and not INTERPRETED:
        return ()
    try:
        return _schedules(kernel(program), tensors, params)
    except Exception as fault:  # only words: no measurement is lost for them
        return (in_one_line(fault),)


def _schedules(
    compiled: mc.Kernel, tensors: Sequence[Tensor], params: Mapping[str, Any]
) -> tuple[str, ...]:
    inputs = dict(zip(compiled.declared.inputs, tensors, strict=True))
    binding = compiled.calls.bind({n: tuple(t.shape) for n, t in inputs.items()}, params)
    runner = compiled.calls.runner(inputs, binding)
    extents = packed_extents(runner.program, binding.extents)
    chosen = runner.schedules(inputs, binding.params, extents)
    return tuple(map(str, chosen))


def in_one_tile(program: str, *tensors: Tensor) -> Prepare:
    """Our kernel with the first schedule that holds every axis as one tile."""

    def prepare() -> Call:
        compiled = kernel(program)
        inputs = dict(zip(compiled.declared.inputs, tensors, strict=True))
        if tensors[0].device.type != "cuda" and not INTERPRETED:
            return ours(program, *tensors)()
        binding = compiled.calls.bind({n: tuple(t.shape) for n, t in inputs.items()}, {})
        runner = compiled.calls.runner(inputs, binding)
        legal = runner.legal(inputs, packed_extents(runner.program, binding.extents))
        chosen = tuple(next(s for s in table.ranked(x) if not s.in_two) for x in legal)
        _, plan = runner._call(inputs, binding.params, chosen)
        return lambda: plan(inputs, torch.empty)[0]

    return prepare


# FlexAttention's: the blocks that it takes by itself, and those that its own search would try,
# those before that have won more often
FLEX_OPTIONS: tuple[dict[str, int], ...] = (
    {},
    {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 3},
    {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 4, "num_stages": 3},
    {"BLOCK_M": 128, "BLOCK_N": 128, "num_warps": 8, "num_stages": 2},
)


def reset_flex() -> None:
    """Forget what was compiled, so that no limit on the number of compilations is met."""
    torch._dynamo.reset()


def flex(q: Tensor, k: Tensor, v: Tensor, score: Score | None, block_mask: Any, **how: Any) -> Call:
    """FlexAttention, compiled for these shapes; as it stands on the CPU."""
    attend: Any = flex_attention
    if q.device.type == "cuda":
        attend = torch.compile(flex_attention, dynamic=False)
    how = {"score_mod": score, "block_mask": block_mask, **how}
    if q.shape[1] != k.shape[1]:
        how["enable_gqa"] = True
    return lambda: attend(q, k, v, **how)


def sdpa(backend: SDPBackend, q: Tensor, k: Tensor, v: Tensor, **how: Any) -> Prepare:
    """A backend of scaled_dot_product_attention; whichever runs on the CPU."""
    if q.shape[1] != k.shape[1]:
        how["enable_gqa"] = True

    def call() -> Tensor:
        if q.device.type != "cuda":
            return scaled_dot_product_attention(q, k, v, **how)
        with sdpa_kernel([backend]):
            return scaled_dot_product_attention(q, k, v, **how)

    return lambda: call


@cache
def fa3() -> Any:
    """The module that wraps FlashAttention-3's compiled operators, loaded."""
    folder = os.environ.get("FA3_DIR")
    if not folder:
        raise LookupError("FA3_DIR is not set")
    module = importlib.import_module("fa3")
    module.load(folder)
    return module


def rows(x: Tensor) -> Tensor:
    """A copy of (B, H, N, D) as FlashAttention-3 takes it: (B, N, H, D)."""
    return x.transpose(1, 2).contiguous()


def flash3(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, **how: Any) -> Prepare:
    """FlashAttention-3 of tensors (B, N, H, D), or of pages (P, S, H, D) with a `page_table`."""

    def prepare() -> Call:
        module = fa3()

        def call() -> Tensor:
            result: Tensor = module.fwd(q, k, v, causal, **how)[0]
            return result.transpose(1, 2)

        return call

    return prepare


# Is it right?


def relative_error(found: Tensor, exact: Tensor) -> float:
    """|found - exact| / |exact|; infinite if an element is not finite or was not written."""
    if not bool(torch.isfinite(found).all()):
        return math.inf
    difference = (found.double() - exact.double()).norm()
    return float(difference / exact.double().norm())


@dataclass(frozen=True)
class Reference:
    """Some heads and rows of the right result, and the error of eager torch in bf16."""

    heads: tuple[tuple[int, int], ...]
    rows: Tensor
    exact: Tensor
    eager_error: float

    def part(self, result: Tensor) -> Tensor:
        """The same heads and rows of a result."""
        return torch.stack([result[b, h][self.rows] for b, h in self.heads])

    def error(self, result: Tensor) -> float:
        """The relative error; infinite if any element is not finite or was not written."""
        if not bool(torch.isfinite(result).all()):
            return math.inf
        return relative_error(self.part(result), self.exact)


def reference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mods: Callable[[Mapping[str, Tensor]], Mods] = lambda extras: (None, None),
    extras: Mapping[str, Tensor] | None = None,
    heads: tuple[tuple[int, int], ...] | None = None,
    scale: float | None = None,
    wide_dtype: torch.dtype = torch.float32,
) -> Reference:
    """Eager torch in a wide dtype and in the inputs' dtype, where results are compared.

    Args:
        q: queries (B, H, N, D).
        k: keys (B, G, M, D), G a divisor of H.
        v: values (B, G, M, E).
        mods: FlexAttention's score_mod and mask_mod, from the further inputs.
        extras: the further inputs.
        heads: pairs of batch and head to compare; the first and the last by default.
        scale: of the logits; 1 / sqrt(D) by default.
        wide_dtype: what the right result is computed in.
    """
    batch, count_heads, length, _ = q.shape
    count = min(CHECKED_ROWS, -(-length // 3))
    middle = max(0, (length - count) // 2 + 1)  # starts inside a tile
    starts = (0, middle, length - count)
    rows = torch.cat([torch.arange(s, s + count, device=q.device) for s in starts])
    rows = rows.clamp(max=length - 1)
    heads = heads or ((0, 0), (batch - 1, count_heads - 1))
    given = dict(extras or {})
    wide = {n: x.to(wide_dtype) if x.is_floating_point() else x for n, x in given.items()}
    exact, eager = (
        torch.stack([_eager(q, k, v, at, rows, mods(x), dtype, scale) for at in heads])
        for x, dtype in ((wide, wide_dtype), (given, q.dtype))
    )
    return Reference(heads, rows, exact, relative_error(eager, exact))


def _eager(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    at: tuple[int, int],
    rows: Tensor,
    mods: Mods,
    dtype: torch.dtype,
    scale: float | None,
) -> Tensor:
    b, h = at
    group = h // (q.shape[1] // k.shape[1])
    queries, keys, values = (x.to(dtype) for x in (q[b, h][rows], k[b, group], v[b, group]))
    logits = queries @ keys.T * (scale or 1 / math.sqrt(q.shape[-1]))
    score, mask = mods
    batch, head = (torch.tensor(n, device=q.device) for n in at)
    places = rows[:, None], torch.arange(k.shape[2], device=q.device)[None, :]
    if score is not None:
        logits = score(logits, batch, head, *places)
    if mask is not None:
        logits = logits.masked_fill(~mask(batch, head, *places), -math.inf)
    return torch.softmax(logits, dim=-1) @ values


def poison(like: Tensor | Sequence[Tensor], blocks: int = 3) -> None:
    """Fill memory that the next outputs will lie in with NaN, or a wrong number."""
    filled = []
    for x in (like,) if isinstance(like, Tensor) else like:
        value = math.nan if x.is_floating_point() else -7777
        filled += [torch.full_like(x, value) for _ in range(blocks)]
    del filled


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


def is_ours(name: str) -> bool:
    """Is this contender one of monocomp's?"""
    return name.startswith(OURS)


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


def in_one_line(fault: BaseException) -> str:
    """An error's class and the beginning of its text."""
    name, words = type(fault).__name__, str(fault).split()
    return " ".join([f"{name}:", *words] if words[:1] != [f"{name}:"] else words)[:200]


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
