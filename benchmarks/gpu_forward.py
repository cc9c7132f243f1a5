"""Attention forward on one GPU: is it right, how fast is it, and how much memory does it take?

Full and causal attention from the library, bf16, beside FlexAttention and the backends of
scaled_dot_product_attention, and FlashAttention-3 where FA3_DIR names a folder with its
compiled operators and a module `fa3` is importable that wraps them: `load(folder)` and
`fwd(q, k, v, causal)` on tensors (B, N, H, D).

Every contender is first checked on fresh random data, in output memory that was filled with
NaN: all elements must be written, and the error against float32 eager torch, on some heads and
rows, must not exceed that of eager torch in bf16. Then all are timed in one process, in turn:
bursts of about 3 ms, a pause before each, the order rotated, medians over the rounds. Work is
counted as 4 * B * H * N * N * D operations, half of that for causal.
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
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import monocomp as mc
from benchmarks.report import Report, listed, options, table, today, versions, write_json
from monocomp.language.binding import bind

BATCH, HEADS = 4, 16
DTYPE = torch.bfloat16
ROUNDS, QUICK_ROUNDS = 9, 5
BURST_MS, REST_S = 3.0, 0.004
CHECKED_ROWS = 256  # at the start, in the middle and at the end
MiB = 1 << 20
OURS, FLEX, CUDNN, FLASH, FA3 = "monocomp", "Flex", "cuDNN", "FA2", "FA3"
SDPA = (CUDNN, FLASH)

Call = Callable[[], torch.Tensor]
Prepare = Callable[["Case", torch.Tensor, torch.Tensor, torch.Tensor], Call]


@dataclass(frozen=True)
class Case:
    """A program of the library at one size."""

    program: str
    length: int
    head: int

    @property
    def causal(self) -> bool:
        """Does a query see the keys up to its own place only?"""
        return self.program == "causal"

    @property
    def words(self) -> tuple[str, str, str]:
        """What `--only` is compared with."""
        return self.program, f"N={self.length}", f"d={self.head}"

    def operations(self) -> float:
        """Floating-point operations of one call."""
        full = 4 * BATCH * HEADS * self.length**2 * self.head
        return full / 2 if self.causal else full

    def inputs(self, device: str, seed: int) -> list[torch.Tensor]:
        """Random queries, keys and values, (B, H, N, D)."""
        generator = torch.Generator(device).manual_seed(seed)
        shape = (BATCH, HEADS, self.length, self.head)
        made = (
            torch.randn(shape, generator=generator, device=device, dtype=DTYPE) for _ in range(3)
        )
        return list(made)


CASES = tuple(
    Case(program, length, head)
    for head in (128, 64)
    for length in (4096, 16384)
    for program in ("attention", "causal")
)


# The contenders: what is prepared is not timed


@cache
def _kernel(program: str) -> mc.Kernel:
    return mc.compile(mc.library.load(program), name=program)


def _ours(case: Case, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Call:
    kernel = _kernel(case.program)

    def call() -> torch.Tensor:
        result = kernel(q, k, v)
        assert isinstance(result, torch.Tensor)
        return result

    return call


def _schedule(case: Case, tensors: Sequence[torch.Tensor]) -> str:
    """What the search chose for these inputs, in words."""
    kernel = _kernel(case.program)
    inputs = dict(zip(kernel.program.inputs, tensors, strict=True))
    binding = bind(kernel.program, {n: tuple(t.shape) for n, t in inputs.items()}, {})
    runner = kernel._runner(inputs, binding)
    chosen = runner.schedules(inputs, binding.params, binding.extents)
    return "; ".join(_in_words(s.to_json()) for s in chosen)


def _in_words(schedule: dict[str, Any]) -> str:
    """As in "128 x 64, 8 warps, 3 stages", and whatever else a schedule says."""
    blocks = " x ".join(str(length) for length in schedule.pop("blocks").values())
    warps, stages = schedule.pop("num_warps"), schedule.pop("num_stages")
    others = [f"{name} {value}" for name, value in schedule.items()]
    return ", ".join([blocks, f"{warps} warps", f"{stages} stages", *others])


@cache
def _compiled_flex(case: Case, device: str) -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch._dynamo.reset()  # one compilation a case, so that no limit on their number is met
    compiled = torch.compile(flex_attention, dynamic=False)
    mask = None
    if case.causal:
        mask = create_block_mask(
            lambda b, h, q, k: k <= q, None, None, case.length, case.length, device=device
        )
    return lambda q, k, v: compiled(q, k, v, block_mask=mask)


def _flex(case: Case, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Call:
    attend = _compiled_flex(case, q.device.type)
    return lambda: attend(q, k, v)


def _sdpa(backend: SDPBackend) -> Prepare:
    def prepare(case: Case, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Call:
        def call() -> torch.Tensor:
            with sdpa_kernel([backend]):
                return scaled_dot_product_attention(q, k, v, is_causal=case.causal)

        return call

    return prepare


@cache
def _fa3_module(folder: str) -> Any:
    module = importlib.import_module("fa3")
    module.load(folder)
    return module


def _fa3(case: Case, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Call:
    folder = os.environ.get("FA3_DIR")
    if not folder:
        raise LookupError("FA3_DIR is not set")
    fa3 = _fa3_module(folder)
    swapped = [x.transpose(1, 2).contiguous() for x in (q, k, v)]

    def call() -> torch.Tensor:
        result: torch.Tensor = fa3.fwd(*swapped, case.causal)[0]
        return result.transpose(1, 2)

    return call


CONTENDERS: Mapping[str, Prepare] = {
    OURS: _ours,
    FLEX: _flex,
    CUDNN: _sdpa(SDPBackend.CUDNN_ATTENTION),
    FLASH: _sdpa(SDPBackend.FLASH_ATTENTION),
    FA3: _fa3,
}


# Is it right?


@dataclass(frozen=True)
class Reference:
    """Some heads and rows of the right result, and the error of eager torch in bf16."""

    heads: tuple[tuple[int, int], ...]
    rows: torch.Tensor
    exact: torch.Tensor
    eager_error: float

    def part(self, result: torch.Tensor) -> torch.Tensor:
        """The same heads and rows of a result."""
        return torch.stack([result[b, h][self.rows] for b, h in self.heads])

    def error(self, result: torch.Tensor) -> float:
        """The relative error; infinite if an element is not finite or was not written."""
        if not bool(torch.isfinite(result).all()):
            return math.inf
        return relative_error(self.part(result), self.exact)


def relative_error(found: torch.Tensor, exact: torch.Tensor) -> float:
    """|found - exact| / |exact|."""
    difference = (found.double() - exact.double()).norm()
    return float(difference / exact.double().norm())


def reference(case: Case, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Reference:
    """Eager torch in float32 and in the inputs' dtype, where results are compared."""
    count = min(CHECKED_ROWS, case.length // 3)
    middle = (case.length - count) // 2 + 1  # starts inside a tile
    starts = (0, middle, case.length - count)
    rows = torch.cat([torch.arange(s, s + count, device=q.device) for s in starts])
    heads = ((0, 0), (BATCH - 1, HEADS - 1))
    parts = [torch.stack([x[b, h] for b, h in heads]) for x in (q, k, v)]
    exact = _eager(case, rows, *(x.float() for x in parts))
    eager = _eager(case, rows, *parts)
    return Reference(heads, rows, exact, relative_error(eager, exact))


def _eager(
    case: Case, rows: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> torch.Tensor:
    logits = q[:, rows] @ k.transpose(-1, -2) / math.sqrt(case.head)
    if case.causal:
        later = torch.arange(case.length, device=q.device) > rows[:, None]
        logits = logits.masked_fill(later, -math.inf)
    return torch.softmax(logits, dim=-1) @ v


def poison(like: torch.Tensor, blocks: int = 3) -> None:
    """Fill memory that the next outputs will lie in with NaN."""
    filled = [torch.full_like(like, math.nan) for _ in range(blocks)]
    del filled


# How fast, and how much memory?


def _burst(call: Call, count: int) -> float:
    """Milliseconds a call, over a few calls back to back."""
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    call()
    start.record()
    for _ in range(count):
        call()
    stop.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(stop)) / count


def times(calls: Mapping[str, Call], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each, in every round."""
    counts = {}
    for name, call in calls.items():
        call()
        torch.cuda.synchronize()
        counts[name] = max(2, min(40, int(BURST_MS / _burst(call, 2))))
    taken: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for turn in range(rounds):
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            time.sleep(REST_S)
            taken[name].append(_burst(calls[name], counts[name]))
    return taken


def extra_memory(call: Call) -> int:
    """Bytes that a call takes at its peak beside its inputs and its output."""
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before - result.nbytes


# A case


@dataclass
class Result:
    """What was found for one case; contenders that do not run here are left out."""

    case: Case
    errors: dict[str, float] = field(default_factory=dict)
    eager_error: float = math.nan
    milliseconds: dict[str, list[float]] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    schedule: str = ""
    first_call_s: float = math.nan

    def teraflops(self, name: str) -> float:
        """The rate of a contender."""
        return self.case.operations() / statistics.median(self.milliseconds[name]) / 1e9

    @property
    def right(self) -> bool:
        """Is monocomp's error finite, and at most that of eager torch in bf16?"""
        return self.errors.get(OURS, math.inf) <= self.eager_error

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {
            "program": self.case.program,
            "N": self.case.length,
            "d": self.case.head,
            "tflops": {name: self.teraflops(name) for name in self.milliseconds},
            "milliseconds": self.milliseconds,
            "errors": self.errors,
            "eager_bf16_error": self.eager_error,
            "extra_bytes": self.memory,
            "schedule": self.schedule,
            "first_call_seconds": self.first_call_s,
        }


def run_case(case: Case, rounds: int, missing: dict[str, str], device: str = "cuda") -> Result:
    """Check, then time, whatever of the contenders runs here.

    Args:
        missing: reasons why contenders are left out, by name; what fails here is added.
    """
    result = Result(case)
    seed = time.time_ns() % 2**31
    tensors = case.inputs(device, seed)
    right = reference(case, *tensors)
    result.eager_error = right.eager_error
    calls: dict[str, Call] = {}
    for name, prepare in CONTENDERS.items():
        if name in missing:
            continue
        try:
            call = prepare(case, *tensors)
            began = time.perf_counter()
            call()
            if device == "cuda":
                torch.cuda.synchronize()
            if name == OURS:
                result.first_call_s = time.perf_counter() - began
            poison(tensors[0])
            result.errors[name] = right.error(call())
        except Exception as fault:
            if name == OURS:
                raise
            missing[name] = " ".join(f"{type(fault).__name__}: {fault}".split())[:200]
            continue
        calls[name] = call
    if device != "cuda":
        return result
    del right
    result.schedule = _schedule(case, tensors)
    result.memory = {name: extra_memory(call) for name, call in calls.items()}
    result.milliseconds = times(calls, rounds)
    # Once more on other data, after many launches: a race would show.
    del calls
    tensors = case.inputs(device, seed + 1)
    right = reference(case, *tensors)
    again = _ours(case, *tensors)
    poison(tensors[0])
    result.errors[OURS] = max(result.errors[OURS], right.error(again()))
    return result


# The tables


def _ratio(result: Result, names: Iterable[str]) -> str:
    rates = [result.teraflops(name) for name in names if name in result.milliseconds]
    return f"{result.teraflops(OURS) / max(rates):.2f}" if rates else "-"


def _speed_table(results: Sequence[Result], shown: Sequence[str]) -> str:
    header = ["", "d", "N", *shown, "/ Flex", "/ best SDPA", "schedule"]
    rows = []
    for r in results:
        rates = [f"{r.teraflops(n):.0f}" if n in r.milliseconds else "-" for n in shown]
        ratios = [_ratio(r, [FLEX]), _ratio(r, SDPA)]
        rows.append([r.case.program, r.case.head, r.case.length, *rates, *ratios, r.schedule])
    return table(header, rows)


def _error_table(results: Sequence[Result], shown: Sequence[str]) -> str:
    header = ["", "d", "N", "error", "of eager bf16", "ratio", *(f"MiB, {n}" for n in shown)]
    rows = []
    for r in results:
        ours = r.errors[OURS]
        found = [f"{ours:.1e}", f"{r.eager_error:.1e}", f"{ours / r.eager_error:.2f}"]
        memory = [f"{r.memory[n] / MiB:.1f}" if n in r.memory else "-" for n in shown]
        rows.append([r.case.program, r.case.head, r.case.length, *found, *memory])
    return table(header, rows)


def _environment() -> dict[str, str]:
    cudnn: Any = torch.backends.cudnn.version()
    return {
        **versions(),
        "torch": torch.__version__,
        **{k: v for k, v in versions("triton").items() if k == "triton"},
        "cuDNN": _cudnn_version(cudnn) if cudnn else "none",
    }


def _cudnn_version(number: int) -> str:
    """91900 is 9.19.0."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def unavailable() -> str | None:
    """Why this cannot be measured here."""
    return None if torch.cuda.is_available() else "torch sees no GPU"


def select(only: Sequence[str], quick: bool) -> list[Case]:
    """The cases that have all these words; quick: the shorter ones."""
    cases = [c for c in CASES if not quick or c.length <= 4096]
    return [c for c in cases if all(word in c.words for word in only)]


def measure(quick: bool = False, only: Sequence[str] = ()) -> Report:
    """The tables."""
    warnings.filterwarnings("ignore")  # of peers; ours are errors in the tests
    torch.set_float32_matmul_precision("highest")
    missing: dict[str, str] = {}
    results = []
    began = time.perf_counter()
    for case in select(only, quick):
        results.append(run_case(case, QUICK_ROUNDS if quick else ROUNDS, missing))
        taken = time.perf_counter() - began
        print(f"{' '.join(case.words)}: done, {taken:.0f} s", file=sys.stderr, flush=True)
        gc.collect()
        torch.cuda.empty_cache()
    shown = [n for n in CONTENDERS if any(n in r.milliseconds for r in results)]
    environment = _environment()
    rounds = QUICK_ROUNDS if quick else ROUNDS
    lines = [
        f"Attention forward, bf16, B = {BATCH}, H = {HEADS}, TFLOP/s, medians of {rounds} rounds.",
        f"{today()}, {torch.cuda.get_device_name()}; {listed(environment)}.",
        "Flex is FlexAttention, compiled; cuDNN and FA2 (FlashAttention) are backends of SDPA.",
    ]
    lines += [f"Left out: {name} ({reason})." for name, reason in missing.items()]
    lines += ["", _speed_table(results, shown), ""]
    lines += [
        "Relative error against float32 eager torch beside that of eager torch in bf16, and",
        "memory at the peak of a call beside inputs and outputs.",
        "",
        _error_table(results, shown),
    ]
    data = {
        "date": today(),
        "gpu": torch.cuda.get_device_name(),
        "versions": environment,
        "shape": {"B": BATCH, "H": HEADS, "dtype": str(DTYPE)},
        "missing": missing,
        "seconds": time.perf_counter() - began,
        "cases": [r.to_json() for r in results],
    }
    return Report("gpu_forward", "\n".join(lines), data, all(r.right for r in results))


def main() -> int:
    """Print the tables."""
    parser = options(__doc__)
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="WORD",
        help="cases with all these words, of attention, causal, N=4096, N=16384, d=64, d=128",
    )
    chosen = parser.parse_args()
    reason = unavailable()
    if reason is not None:
        print(f"error: {reason}", file=sys.stderr)
        return 2
    if not select(chosen.only, chosen.quick):
        parser.error(f"no case is called {' '.join(chosen.only)}")
    report = measure(chosen.quick, chosen.only)
    print(report.text)
    write_json(chosen.json, [report])
    if not report.right:
        print("error: monocomp's error exceeds that of eager torch in bf16", file=sys.stderr)
    return 0 if report.right else 1


if __name__ == "__main__":
    sys.exit(main())
