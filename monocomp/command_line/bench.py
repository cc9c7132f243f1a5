"""`monocomp bench`: a program's kernel, timed beside other ways to the same numbers.

Contenders take turns, round by round, so that a busy machine is fair to all. Which of them there
are depends on what they compute: SDPA is one where its results are the program's. The program
as it is written, each line a kernel of its own, shows what the derivation has brought.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from monocomp import terms as T
from monocomp.backends.eager.calls import eager
from monocomp.backends.timing import timed
from monocomp.errors import MonocompError, first_line
from monocomp.kernel import Kernel, compile
from monocomp.terms.equations import Equations

Results = tuple[torch.Tensor, ...]
_BURST = 0.01  # seconds of a measurement on the GPU, whose calls are short
_LOOSE = {"float32": 1e-3, "float64": 1e-6}  # differences of results in that dtype; else 0.05
_STORED = 3  # tensors of the largest size that eager torch has at a time


@dataclass(frozen=True)
class Contender:
    """A way to compute the outputs."""

    name: str
    about: str
    compute: Callable[[], Results]


@dataclass(frozen=True)
class Timing:
    """A contender's median seconds over some rounds, and how far its results are from the kernel's;
    or why not."""

    name: str
    about: str
    seconds: float | None
    differs: float | None
    rounds: int = 0
    problem: str = ""

    def described(self) -> dict[str, Any]:
        """Return the results as data for other tools."""
        ms = None if self.seconds is None else self.seconds * 1e3
        return {
            "name": self.name,
            "about": self.about,
            "ms": ms,
            "differs": self.differs,
            "rounds": self.rounds,
            "problem": self.problem or None,
        }


def race(
    contenders: Sequence[Contender],
    device: torch.device,
    rounds: int,
    seconds: float,
    progress: Callable[[str, int, int], None],
) -> list[Timing]:
    """Time contenders in turn.

    Args:
        contenders: the kernel, then those beside it.
        device: that of their tensors.
        rounds: how often each is timed, but for what `seconds` are over; once at least.
        seconds: how long it may take.
        progress: called with what is being done, its number, and of how many.
    """
    end = time.monotonic() + seconds
    timings: dict[str, Timing] = {}
    running: dict[str, tuple[Contender, float | None]] = {}
    first: Results | None = None
    for number, c in enumerate(contenders, 1):
        progress(f"{c.name}, first call", number, len(contenders))
        try:
            results = c.compute()
        except (MonocompError, RuntimeError, MemoryError) as error:
            if first is None:
                raise
            timings[c.name] = Timing(c.name, c.about, None, None, problem=first_line(error))
            continue
        difference = None if first is None else _difference(first, results)
        if c.name.startswith("SDPA") and not _is_close(difference, first):
            continue  # another formula
        first = first or results
        running[c.name] = c, difference
    taken: dict[str, list[float]] = {name: [] for name in running}
    for number in range(1, rounds + 1):
        if number > 1 and time.monotonic() > end:
            break
        progress("round", number, rounds)
        for name, (c, _) in running.items():
            taken[name].append(_seconds(c.compute, device))
    for name, (c, difference) in running.items():
        median, count = statistics.median(taken[name]), len(taken[name])
        timings[name] = Timing(name, c.about, median, difference, count)
    return [timings[c.name] for c in contenders if c.name in timings]


def table(timings: Sequence[Timing]) -> str:
    """Return the results as a table for readers."""
    width = max(len(t.name) for t in timings)
    ours = timings[0].seconds
    lines = [f"{'':{width}}{'time':>14}{'/ ours':>9}{'differs by':>12}"]
    for t in timings:
        if t.seconds is None or ours is None:
            lines.append(f"{t.name:{width}}{'-':>14}{'':>9}{'':>12}   {t.problem}")
            continue
        differs = "" if t.differs is None else f"{t.differs:.1e}"
        time_taken, ratio = f"{t.seconds * 1e3:.3f} ms", f"{t.seconds / ours:.2f}"
        lines.append(f"{t.name:{width}}{time_taken:>14}{ratio:>9}{differs:>12}   {t.about}")
    return "\n".join(lines)


# --- contenders ---------------------------------------------------------------------------


def contenders(
    kernel: Kernel, tensors: Mapping[str, torch.Tensor], params: Mapping[str, Any]
) -> Iterator[Contender]:
    """Yield a kernel, the program without its derivation, eager torch, and SDPA where that takes
    inputs of this form."""
    yield Contender("monocomp", "the derived kernel", _call(kernel, tensors, params))
    written = compile(kernel.derivation.first(0), backend=kernel.backend)
    yield Contender("as written", "kernels without the derivation", _call(written, tensors, params))
    yield _whole(kernel.equations, tensors, params)
    floats = [t for t in tensors.values() if t.is_floating_point() and t.ndim >= 3]
    if len(floats) == len(tensors) == 3 and not params:
        yield _sdpa("SDPA", "torch's own kernel", *floats)
        yield _sdpa("SDPA, causal", "torch's own kernel, causal", *floats, is_causal=True)


def _sdpa(
    name: str, about: str, Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, **how: Any
) -> Contender:
    """Return torch's own attention of queries, keys and values."""
    attend = torch.nn.functional.scaled_dot_product_attention
    return Contender(name, about, lambda: (attend(Q, K, V, **how),))


def _whole(
    equations: Equations, tensors: Mapping[str, torch.Tensor], params: Mapping[str, Any]
) -> Contender:
    """Return eager torch, which computes one whole tensor after the other."""
    dtype = next((t.dtype for t in tensors.values() if t.is_floating_point()), torch.float32)
    made: list[Callable[..., Results]] = []

    def compute() -> Results:
        if not made:
            _require_memory(equations, tensors, dtype)
            made.append(eager(equations))
        return made[0](tensors, params, dtype)

    return Contender("eager torch", "whole tensors", compute)


def _call(
    kernel: Kernel, tensors: Mapping[str, torch.Tensor], params: Mapping[str, Any]
) -> Callable[[], Results]:
    return lambda: _as_tuple(kernel(**tensors, **params))


def _require_memory(
    equations: Equations, tensors: Mapping[str, torch.Tensor], dtype: torch.dtype
) -> None:
    """Refuse what would not fit, before the machine does."""
    declared = equations.declared
    sizes = {
        extent: size
        for name, tensor in tensors.items()
        for extent, size in zip(declared.extents(name), tensor.shape, strict=True)
    }
    terms = list(T.subterms(*(e.body for e in equations.equations)))
    sums = (t for t in terms if t.op == "fold" and t.attr.monoid == "sum")
    summed = {part for t in sums for part in T.open_fold(t)[1]}
    largest = 0
    for t in terms:
        if t.op == "mul" and t in summed:
            continue  # a product of matrices
        indices = {at.attr for at in T.subterms(t) if at.op == "index" and at.name in t.free}
        largest = max(largest, math.prod(sizes.get(extent, 1) for _, extent in indices))
    needed = largest * dtype.itemsize * _STORED
    if needed > _free_memory(next(iter(tensors.values())).device):
        raise MemoryError(f"about {needed / 2**30:.0f} GiB are needed, more than there are")


def _free_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return next(int(line.split()[1]) << 10 for line in file if "MemAvailable" in line)
    except (OSError, StopIteration):  # not Linux
        return 8 << 30


# --- measurements -------------------------------------------------------------------------


def _seconds(compute: Callable[[], object], device: torch.device) -> float:
    once = timed(compute, device.type)
    return once if device.type != "cuda" else timed(compute, calls=int(_BURST / once) + 1)


def _as_tuple(value: Any) -> Results:
    return value if isinstance(value, tuple) else (value,)


def _difference(ours: Results, results: Results) -> float:
    if [t.shape for t in ours] != [t.shape for t in results]:
        return float("inf")
    pairs = zip(ours, results, strict=True)
    return max(((a.double() - b.double()).abs().max().item() for a, b in pairs), default=0.0)


def _is_close(difference: float | None, results: Results | None) -> bool:
    if difference is None or results is None:
        return False
    limit = _LOOSE.get(str(results[0].dtype).removeprefix("torch."), 0.05)
    return difference <= limit
