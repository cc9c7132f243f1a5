"""The plans that a first call measures beside each other: streams in splits or whole, operands and
results of products stored or computed again, kernels that add up the sums of others or do not. The
first plan is for the language that takes every kernel, and runs where nothing is measured; the
others are for languages that merge no splits, whose products are faster, or that may add."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from monocomp.backends.triton.dialect import Dialect
from monocomp.backends.triton.launch import Params, Sizes, Tensors, TritonRunner
from monocomp.planning.plan import Plan
from monocomp.planning.storing import stores_matrices
from monocomp.terms.equations import Equations
from monocomp.tile import FRAGMENTS, TileProgram


def plans(
    planned: Callable[..., Plan], processors: int | None, dialects: Sequence[Dialect], adds: bool
) -> Iterator[Plan]:
    """Yield the plans for kernels in some languages, the one that needs no measurement first.

    Args:
        planned: plans for a number of processors, with `adds` for kernels that may add.
        processors: for how many the first language cuts streams into splits.
        dialects: the languages.
        adds: may kernels add, in any order?
    """
    usual = planned(processors)
    yield usual
    has_splits = any(k.splits for k in usual.kernels)
    may_gain = has_splits or stores_matrices(usual.program)
    if may_gain and not all(d.merges for d in dialects):
        whole = planned(1, matrices=False)
        if whole.program.equations != usual.program.equations:
            yield whole
    if adds and any(d.adds for d in dialects):
        adding = planned(1, matrices=False, adds=True)
        if adding.program.joined:
            yield adding


def fastest(
    runners: Sequence[TritonRunner], inputs: Tensors, params: Params, extents: Sizes
) -> tuple[TritonRunner, str]:
    """Return the runner of the plan that is fastest, as measured, and what calls take with each;
    the first where nothing is."""
    first, *alternatives = runners
    call = inputs, params, extents
    tried = [first, *(r for r in alternatives if r.gains(first, *call))]
    times = {r: r.milliseconds(*call) for r in tried} if len(tried) > 1 else {first: math.inf}
    order = [r for r in sorted(times, key=times.__getitem__) if times[r] < math.inf]
    why = ", ".join(f"{times[r]:.3g} ms {manner(r.program, r.kernels)}" for r in order)
    return next(iter(order), first), why


def manner(program: Equations, kernels: Sequence[TileProgram]) -> str:
    """Return what tells a plan from the others."""
    if any(o.dtype == FRAGMENTS for k in kernels for o in k.outputs):
        return "with kernels that add"
    if any(k.splits for k in kernels):
        return "with streams in splits"
    return "with matrices stored" if stores_matrices(program) else "with whole streams"
