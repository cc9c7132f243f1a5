"""Holding: which indices of an output a program instance has all of.

An index that some aggregate lacks may be held, so that this aggregate is computed once for all of
it: the weights of attention for all columns of the values. Or it may go to the grid, like others,
and each program instance computes the aggregate anew: a count of what a mask admits is no reason
to hold the heads of a product. An index goes to the grid unless holding it pays, by the cost model;
and what is held is no more than a program instance can hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial

from monocomp import terms as T
from monocomp.costs.cost import BYTE_TIME, LAUNCH_TIME, STORED_BYTES, Cost
from monocomp.costs.counting import Estimate, elements, estimate_of
from monocomp.costs.operands import stored_operands
from monocomp.costs.operations import MULTIPLY_ADD
from monocomp.costs.roles import (
    LARGEST_TILE,
    RoleChoice,
    explain_roles,
    fits_whole,
    kernel_groups,
    outer_folds,
    share_few,
)
from monocomp.declarations.record import record
from monocomp.extents.nominal import COLUMNS, ROW_BLOCK, planned_sizes
from monocomp.machine.gpus import HOPPER
from monocomp.rewriting.driver import Saving
from monocomp.terms import Term
from monocomp.terms.equations import Equation, Equations, stored_in

WORTHWHILE = 0.75  # what is left of the work, as estimated; more is no reason for another kernel
SORT_TIME = 8 * LAUNCH_TIME  # of a list: torch sorts byte by byte of 64-bit keys

Roles = Mapping[str, RoleChoice]


@record()
class _Kernel:
    """Everything that the estimate of a kernel depends on, and nothing else: so a kernel that many
    programs have in common, as those that planning tries do, is priced once.

    Attributes:
        equations: what it computes.
        inputs: the names of the inputs that it reads.
        narrow: what it computes or reads that has as few bytes as inputs: results of the program,
            and stored values that products multiply.
        added: what it computes of which slices are added up.
        splits: its extents that count the splits of a stream.
        sizes: a number for each of its extents.
    """

    equations: tuple[Equation, ...]
    inputs: tuple[str, ...]
    narrow: frozenset[str]
    added: frozenset[str]
    splits: frozenset[str]
    sizes: tuple[tuple[str, int], ...]

    @classmethod
    def of(
        cls,
        program: Equations,
        group: Iterable[Equation],
        narrow: frozenset[str],
        sizes: Mapping[str, int],
    ) -> _Kernel:
        """Describe the kernel that computes some equations of a program."""
        equations = tuple(group)
        extents = {i.extent for e in equations for i in e.indices}
        names = {e.name for e in equations}
        for e in equations:
            own_extents, own_names = _mentioned(e.body)
            extents |= own_extents
            names |= own_names
        return cls(
            equations,
            inputs=tuple(n for n in program.declared.inputs if n in names),
            narrow=narrow & names,
            added=frozenset() if program.slices is None else program.slices.added & names,
            splits=frozenset(program.splits) & extents,
            sizes=tuple((e, sizes[e]) for e in sorted(extents)),
        )


@lru_cache(maxsize=4096)
def _mentioned(t: Term) -> tuple[frozenset[str], frozenset[str]]:
    """Return the extents of the folds and of the dimensions in a term, and the names it reads."""
    extents, names = set(t.folded), set[str]()
    for s in T.subterms(t):
        if s.op in T.READS:
            names.add(T.name_of(s))
            extents.update(s.attr.extents)
        elif s.op in ("fold", "fold_at") and s.attr.target is not None:
            extents.add(s.attr.target)
    return frozenset(extents), frozenset(names)


def estimate(program: Equations, sizes: Mapping[str, int]) -> list[Estimate]:
    """Return the work of each kernel; `sizes` has a number for every extent."""
    narrow = stored_operands(program) | {o.name for o in program.declared.outputs}
    groups = kernel_groups(program, sizes)
    return [_estimate_chosen(_Kernel.of(program, g, narrow, sizes)) for g in groups]


@lru_cache(maxsize=4096)
def _estimate_chosen(kernel: _Kernel) -> Estimate:
    """Estimate a kernel with the roles that cost chooses."""
    sizes = dict(kernel.sizes)
    roles, counted = _chosen(kernel, partial(fits_whole, sizes=sizes), sizes)
    return counted or _estimate(kernel, roles, sizes)


def time_of_kernels(
    program: Equations, kernels: Iterable[Estimate], sizes: Mapping[str, int]
) -> float:
    """Estimate the time of a program's kernels and of the lists that it sorts."""
    times = (_time(program, k, sizes) for k in kernels)
    joined = (_cost_of_joined(program.by_name[j.name], sizes).time for j in program.joined)
    return math.fsum((*times, *joined, len(program.sorted) * SORT_TIME))  # in whichever order


def _time(program: Equations, kernel: Estimate, sizes: Mapping[str, int]) -> float:
    """Estimate the time of one kernel. Those for slices run once for each, and results that fill
    fewer tiles than there are processors leave some without work. Loops over segments of a list are
    one over the list for all rows together; what they store is as much."""
    slices = program.slices
    if slices is not None and kernel.equations[0].name in slices.computed:
        count = math.ceil(sizes[slices.whole] / slices.length)
        instances = elements(kernel.grid, sizes)  # at least
        tiles = max(instances, *(_tiles(e, sizes) for e in kernel.equations))
        return kernel.cost.time * count * max(1.0, HOPPER.processors / tiles)
    read = {s.name for e in kernel.equations for s in stored_in(e.body)}
    for s in program.sorted:
        if {s.first, s.last} <= read:
            rows = elements(program.by_name[s.first].indices[-1:], sizes)
            results = sum(elements(e.indices, sizes) for e in kernel.equations)
            loops = kernel.cost.work * (1 - 1 / rows)
            return kernel.cost.time - loops + results * STORED_BYTES * BYTE_TIME
    return kernel.cost.time


def _cost_of_joined(e: Equation, sizes: Mapping[str, int]) -> Cost:
    """Return what it costs a kernel to add up the sum of another: a product of its own, and what
    each block of its rows adds to memory."""
    (rows,), count = (sizes[x] for x in e.body.attr.extents), elements(e.indices, sizes)
    moved = count * STORED_BYTES * (1 + math.ceil(rows / ROW_BLOCK))
    return Cost({}, {}, MULTIPLY_ADD * (count * rows), moved, 0, 0)


def _tiles(e: Equation, sizes: Mapping[str, int]) -> float:
    """Return how many tiles an equation's result fills; narrow tiles have fewer elements."""
    columns = min([COLUMNS, *(sizes[i.extent] for i in e.indices[-1:])])
    return elements(e.indices, sizes) / (ROW_BLOCK * columns)


def saving_of(
    before: Equations, after: Equations, sizes: Mapping[str, int], share: float
) -> Saving:
    """Estimate what is saved by packing rows, or by cutting a stream whose kernel keeps only a
    share of the device busy, and so takes 1 / share times as long. The splits together do the work
    of one."""
    known = planned_sizes(after, sizes)
    known |= dict.fromkeys(after.splits.keys() - before.splits.keys(), 1)
    kernels = estimate(before, known)
    cut = (k for k in kernels if any(e not in after.equations for e in k.equations))
    waiting = sum(k.cost.work for k in cut) * (1 / share - 1)
    time = time_of_kernels(before, kernels, known)
    return Saving(time + waiting, time_of_kernels(after, estimate(after, known), known))


def _estimate(kernel: _Kernel, roles: Roles, sizes: Mapping[str, int]) -> Estimate:
    axes = {name: choice.axis for name, choice in roles.items()}
    return estimate_of(kernel.equations, axes, sizes, kernel.inputs, kernel.narrow, kernel.added)


def roles_by_cost(
    program: Equations,
    group: Sequence[Equation],
    fits: Callable[[str], bool],
    sizes: Mapping[str, int],
) -> Roles:
    """Return the roles of the indices of a kernel's outputs.

    Args:
        program: equations in kernels.
        group: what the kernel computes.
        fits: can an axis of this extent be held entirely?
        sizes: a number for every extent.
    """
    outputs = frozenset(o.name for o in program.declared.outputs)
    roles = _chosen(_Kernel.of(program, group, outputs, sizes), fits, sizes)[0]
    # Readers and makers of sums that a kernel adds up for others have a few elements a row.
    return share_few(group, roles, lambda e: sizes[e] <= ROW_BLOCK) if program.joined else roles


def _chosen(
    kernel: _Kernel, fits: Callable[[str], bool], sizes: Mapping[str, int]
) -> tuple[Roles, Estimate | None]:
    """Return the roles, and the work with them where there was a choice."""
    group = kernel.equations
    best = _held(kernel, fits, sizes, frozenset())
    counted: Estimate | None = None
    everywhere = {i.name for i in set.intersection(*(set(e.indices) for e in group))}
    for lesser in _lesser(group, best):
        roles = _held(kernel, fits, sizes, lesser)
        more = _grid(roles) - _grid(best)
        # An output that lacks an index is stored once: not by each instance along it.
        is_more = bool(more) and _grid(roles) > _grid(best) and more <= everywhere
        if is_more:
            counted = counted or _estimate(kernel, best, sizes)
            tried = _estimate(kernel, roles, sizes)
            if WORTHWHILE * tried.cost.work <= counted.cost.work:
                best, counted = roles, tried
    return best, counted


def _held(
    kernel: _Kernel,
    fits: Callable[[str], bool],
    sizes: Mapping[str, int],
    lesser: frozenset[Term],
) -> Roles:
    """Return the roles where what these aggregates lack goes to the grid: the longest of several
    axes that cannot be held together is cut into blocks."""
    long: set[str] = set()
    while True:
        roles = explain_roles(
            kernel.equations, lambda e: fits(e) and e not in long, kernel.splits, lesser
        )
        held = [c.axis.extent for c in roles.values() if c.axis.role == "whole"]
        if len(held) < 2 or math.prod(sizes[e] for e in held) <= LARGEST_TILE:
            return roles
        long.add(max(held, key=sizes.__getitem__))


def _grid(roles: Roles) -> set[str]:
    return {name for name, choice in roles.items() if choice.axis.role == "grid"}


def _lesser(group: Sequence[Equation], roles: Roles) -> Iterator[frozenset[Term]]:
    """Yield the aggregates that lack indices which others have: those that lack most of them
    first."""
    folds = outer_folds(group)
    having = {f: f.free & frozenset(roles) for f in folds}
    largest = max(having.values(), key=len, default=frozenset())
    for indices in sorted(set(having.values()), key=lambda h: (len(h), sorted(h))):
        if indices < largest:
            yield frozenset(f for f in folds if having[f] <= indices)
