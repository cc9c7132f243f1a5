"""The jobs of a search for schedules, as workers do them: a kernel's candidates are proposed,
compiled for a GPU that need not be there, and checked and timed on one.

A candidate is timed alone, without the program's other kernels, in a CUDA graph that repeats its
launch for about 3 ms. Its results must be those of the first schedule, in memory that held NaN.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.errors import OutOfResources

from benchmarks.schedules.cases import Case, Prepared
from benchmarks.schedules.workers import Tell
from monocomp.backends.schedules import table
from monocomp.backends.schedules.features import features
from monocomp.backends.schedules.legal import Shape
from monocomp.backends.schedules.measure import poisoned, same
from monocomp.backends.schedules.schedule import Schedule
from monocomp.backends.timing import timed

BURST_MS, ROUNDS, MOST_CALLS = 3.0, 5, 50
HOPELESS = 1.5  # times the fastest: not timed again
TOLERANCE = 0.06  # of results in bf16 that are summed up in other orders

_TOO_LARGE = (OutOfResources, torch.OutOfMemoryError)

_position: dict[
    str, Any
] = {}  # of this process: the target, processors, and whether times are faked


class _Driver:
    """Stands for a GPU's driver where kernels are only compiled."""

    def __init__(self, target: GPUTarget) -> None:
        self.target = target

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def set_up(target: str, processors: int, fakes: bool, compiles: bool) -> None:
    """Make this process ready for jobs; one that compiles never touches the GPU."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    _position.update(target=target, processors=processors, fakes=fakes)
    if compiles:
        arch = int(target.removeprefix("cuda:"))
        triton.runtime.driver.set_active(_Driver(GPUTarget("cuda", arch, 32)))


@cache
def _without_elements(case: Case) -> Prepared:
    return Prepared(case, "meta", _position["target"], _position["processors"])


# --- proposals ------------------------------------------------------------------------------


def plan(tell: Tell, case: Case, most: int) -> list[dict[str, Any]]:
    """What there is to know of a case's kernels, each with its first candidates."""
    made = _without_elements(case)
    return [
        {
            "digest": made.digest(number),
            "tile": str(legal.program),
            "extents": {e: n for e in legal.program.extents() if (n := made.sizes.get(e))},
            "element_bytes": legal.element_bytes,
            "features": features(legal).numbers(),
            "first": str(legal.shape(first)),
            "candidates": [str(legal.shape(s)) for s in table.candidates(legal, most)],
        }
        for number, (legal, first) in enumerate(zip(made.legal, made.firsts, strict=True))
    ]


def propose(
    tell: Tell, case: Case, number: int, best: str | None, others: Sequence[str]
) -> list[str]:
    """Those of other kernels' shapes that this one can have, and the neighbours of its best."""
    legal = _without_elements(case).legal[number]
    found = []
    for text in others:
        schedule = legal.schedule(Shape.parse(text))
        if schedule is not None:
            found.append(legal.shape(schedule))
    if best is not None:
        found += legal.neighbours(Shape.parse(best))
    return [str(s) for s in dict.fromkeys(found)]


def _schedule(made: Prepared, number: int, text: str) -> Schedule:
    """The schedule of a shape; what comes first need not be in the space."""
    legal, first = made.legal[number], made.firsts[number]
    shape = Shape.parse(text)
    found = first if shape == legal.shape(first) else legal.schedule(shape)
    if found is None:
        raise ValueError(f"kernel {number + 1} of {made.equations.origin.name} cannot have {text}")
    return found


# --- compilation ----------------------------------------------------------------------------


def compile_kernel(tell: Tell, case: Case, number: int, text: str) -> None:
    """Compile a kernel into Triton's cache on disk, with the signature that its calls have."""
    made = _without_elements(case)
    choice = made.choice(number, _schedule(made, number, text))
    module = made.module(choice)
    is_first = choice == made.firsts  # which all others are timed beside
    wanted = {k.name for k in module.program.kernels} if is_first else made.timed(number, module)

    def launch(kernel: Any, programs: int, *args: Any, **options: Any) -> None:
        if kernel.__name__ in wanted:
            kernel.run(*args, grid=(programs,), warmup=True, **options)

    made.call(choice, launch)


# --- measurement ----------------------------------------------------------------------------

_there: dict[Case, Prepared] = {}


def measure(
    tell: Tell, case: Case, number: int, texts: Sequence[str]
) -> dict[str, tuple[float | None, str]]:
    """The milliseconds of each shape, or None and why there are none."""
    if _position["fakes"]:
        return {t: (_faked(case, number, t), "") for t in texts}
    if case not in _there:
        _there.clear()
        torch.cuda.empty_cache()
        torch.manual_seed(0)
        _there[case] = Prepared(case, "cuda", _position["target"], _position["processors"])
    made = _there[case]
    found: dict[str, tuple[float | None, str]] = {}
    tell("the first")
    expected, _ = _results(made, number, None)
    timers: dict[str, Callable[[], float]] = {}
    times: dict[str, list[float]] = {}
    pool = torch.cuda.graph_pool_handle()
    for text in texts:
        tell(text)
        try:
            results, run = _results(made, number, text)
        except Exception as fault:
            is_lost = "CUDA" in str(fault) and not isinstance(fault, _TOO_LARGE)
            if is_lost:
                raise  # an illegal access: this process can't go on
            found[text] = None, f"{type(fault).__name__}: {str(fault).strip()[:100]}"
            continue
        if not all(same(a, b, TOLERANCE) for a, b in zip(results, expected, strict=True)):
            found[text] = None, "other results than the first's"
            continue
        del results
        timers[text] = _timer(run, pool)
        times[text] = [timers[text]()]
    limit = HOPELESS * min((t[0] for t in times.values()), default=0.0)
    order = [t for t in times if times[t][0] <= limit]
    for turn in range(ROUNDS - 1 if order else 0):
        tell("all again")
        for text in order[turn % len(order) :] + order[: turn % len(order)]:
            times[text].append(timers[text]())
    return {**found, **{t: (statistics.median(taken), "") for t, taken in times.items()}}


def _results(
    made: Prepared, number: int, text: str | None
) -> tuple[tuple[torch.Tensor, ...], Callable[[], None]]:
    """The results with a shape, and what launches the kernel again."""
    chosen = made.firsts[number] if text is None else _schedule(made, number, text)
    choice = made.choice(number, chosen)
    timed = made.timed(number, made.module(choice))
    again: list[tuple[Any, ...]] = []

    def launch(kernel: Any, programs: int, *args: Any, **options: Any) -> None:
        if programs > 0:
            kernel[(programs,)](*args, **options)
            if kernel.__name__ in timed:
                again.append((kernel, programs, args, options))

    def run() -> None:
        for kernel, programs, args, options in again:
            kernel[(programs,)](*args, **options)

    results = made.call(choice, launch, poisoned)
    torch.cuda.synchronize()
    return results, run


def _timer(run: Callable[[], None], pool: Any) -> Callable[[], float]:
    """Milliseconds of a run, when called; what it returns keeps the memory of the run, which a
    graph alone does not."""
    once = timed(run) * 1e3
    calls = max(1, min(MOST_CALLS, int(BURST_MS / max(1e-3, once))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool):
        for _ in range(calls):
            run()
    graph.replay()

    def timer(kept: Callable[[], None] = run) -> float:
        return timed(graph.replay) * 1e3 / calls

    return timer


def _faked(case: Case, number: int, text: str) -> float | None:
    """A time made up from the shape: for rehearsals."""
    if _without_elements(case).legal[number].schedule(Shape.parse(text)) is None:
        return None
    return 1 + hashlib.blake2b(text.encode(), digest_size=1).digest()[0] / 255
