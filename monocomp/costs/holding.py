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
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from monocomp.costs.counting import Estimate, estimate_of
from monocomp.costs.operands import stored_operands
from monocomp.costs.roles import (
    LARGEST_TILE,
    RoleChoice,
    explain_roles,
    fits_whole,
    kernel_groups,
    outer_folds,
)
from monocomp.extents.nominal import planned_sizes
from monocomp.rewriting.driver import Saving
from monocomp.terms import Term
from monocomp.terms.equations import Equation, Equations

WORTHWHILE = 0.75  # what is left of the work; more than that is no reason to hold an index

Roles = Mapping[str, RoleChoice]


@dataclass(frozen=True)
class _Kernel:
    """Everything that the estimate of a kernel depends on.

    Attributes:
        equations: what it computes.
        operands: stored values among them, or read, that products multiply.
        inputs: the names of the program's inputs.
        outputs: the names of the program's outputs.
        added: stored values whose slices are added up.
        splits: the parameters that say into how many splits a stream is cut, by extent.
        sizes: a number for every extent.
        fitted: more is told of wide columns, see `costs.fitting`.
    """

    equations: tuple[Equation, ...]
    operands: frozenset[str]
    inputs: tuple[str, ...]
    outputs: frozenset[str]
    added: frozenset[str]
    splits: tuple[tuple[str, str], ...]
    sizes: tuple[tuple[str, int], ...]
    fitted: bool = False


def estimate(program: Equations, sizes: Mapping[str, int], fitted: bool = False) -> list[Estimate]:
    """The work of each kernel; `sizes` has a number for every extent. `fitted` tells more of wide
    columns, see `costs.fitting`."""
    operands = stored_operands(program)
    whole = _whole(program, sizes, operands, fitted)
    return [
        _estimate_chosen(
            replace(
                whole,
                equations=group,
                operands=operands & {e.name for e in group}.union(*map(program.read_by, group)),
            )
        )
        for group in map(tuple, kernel_groups(program, sizes))
    ]


def _whole(
    program: Equations, sizes: Mapping[str, int], operands: frozenset[str], fitted: bool = False
) -> _Kernel:
    """Describe a program as one kernel."""
    return _Kernel(
        equations=tuple(program.computed),
        operands=operands,
        inputs=tuple(program.declared.inputs),
        outputs=frozenset(o.name for o in program.declared.outputs),
        added=frozenset() if program.slices is None else program.slices.added,
        splits=tuple(sorted(program.splits.items())),
        sizes=tuple(sorted(sizes.items())),
        fitted=fitted,
    )


@lru_cache(maxsize=4096)
def _estimate_chosen(kernel: _Kernel) -> Estimate:
    """Estimate a kernel with the roles that cost chooses. Most kernels of a program are the same in
    every way to cut it that is tried, and in every choice of what its gradients save."""
    sizes = dict(kernel.sizes)
    roles, counted = _chosen(kernel, partial(fits_whole, sizes=sizes), sizes)
    if counted is None or kernel.fitted:
        counted = _estimate(kernel, roles, sizes)
    return counted


def total_time(kernels: Iterable[Estimate]) -> float:
    """The estimated time of kernels that run one after the other."""
    return sum(k.cost.time for k in kernels)


def saving_of(before: Equations, after: Equations, sizes: Mapping[str, int]) -> Saving:
    """Estimate what is saved by a step that may give a program new indices."""
    known = planned_sizes(after, sizes)
    return Saving(*(total_time(estimate(p, known)) for p in (before, after)))


def saving_of_splits(
    before: Equations, after: Equations, sizes: Mapping[str, int], share: float
) -> Saving:
    """Estimate what is saved by cutting a stream whose kernel keeps only a share of the device
    busy, and so takes 1 / share times as long. The splits together do the work of one."""
    known = planned_sizes(after, sizes)
    known |= dict.fromkeys(after.splits.keys() - before.splits.keys(), 1)
    old, new = estimate(before, known), estimate(after, known)
    cut = (k for k in old if any(e not in after.equations for e in k.equations))
    waiting = sum(k.cost.work for k in cut) * (1 / share - 1)
    return Saving(total_time(old) + waiting, total_time(new))


def _estimate(kernel: _Kernel, roles: Roles, sizes: Mapping[str, int]) -> Estimate:
    axes = {name: choice.axis for name, choice in roles.items()}
    outputs = kernel.outputs | kernel.operands
    return estimate_of(
        kernel.equations, axes, sizes, kernel.inputs, outputs, kernel.added, kernel.fitted
    )


def roles_by_cost(
    program: Equations,
    group: Sequence[Equation],
    fits: Callable[[str], bool],
    sizes: Mapping[str, int],
) -> Roles:
    """The roles of the indices of a kernel's outputs.

    Args:
        program: equations in kernels.
        group: what the kernel computes.
        fits: can an axis of this extent be held entirely?
        sizes: a number for every extent.
    """
    kernel = replace(_whole(program, sizes, frozenset()), equations=tuple(group))
    return _chosen(kernel, fits, sizes)[0]


def _chosen(
    kernel: _Kernel, fits: Callable[[str], bool], sizes: Mapping[str, int]
) -> tuple[Roles, Estimate | None]:
    """The roles, and the work with them where there was a choice."""
    group = kernel.equations
    best = _held(kernel, fits, sizes, frozenset())
    counted: Estimate | None = None
    everywhere = {i.attr[0] for i in set.intersection(*(set(e.indices) for e in group))}
    unfitted = replace(kernel, fitted=False)
    for lesser in _lesser(group, best):
        roles = _held(kernel, fits, sizes, lesser)
        more = _grid(roles) - _grid(best)
        # An output that lacks an index is stored once: not by each instance along it.
        is_more = bool(more) and _grid(roles) > _grid(best) and more <= everywhere
        if is_more:
            counted = counted or _estimate(unfitted, best, sizes)
            tried = _estimate(unfitted, roles, sizes)
            if WORTHWHILE * tried.cost.work <= counted.cost.work:
                best, counted = roles, tried
    return best, counted


def _held(
    kernel: _Kernel,
    fits: Callable[[str], bool],
    sizes: Mapping[str, int],
    lesser: frozenset[Term],
) -> Roles:
    """The roles where what these aggregates lack goes to the grid: the longest of several axes
    that cannot be held together is cut into blocks."""
    long: set[str] = set()
    while True:
        roles = explain_roles(
            kernel.equations, lambda e: fits(e) and e not in long, dict(kernel.splits), lesser
        )
        held = [c.axis.extent for c in roles.values() if c.axis.role == "whole"]
        if len(held) < 2 or math.prod(sizes[e] for e in held) <= LARGEST_TILE:
            return roles
        long.add(max(held, key=sizes.__getitem__))


def _grid(roles: Roles) -> set[str]:
    return {name for name, choice in roles.items() if choice.axis.role == "grid"}


def _lesser(group: Sequence[Equation], roles: Roles) -> Iterator[frozenset[Term]]:
    """Aggregates that lack indices which others have: those that lack most of them first."""
    folds = outer_folds(group)
    having = {f: f.free & frozenset(roles) for f in folds}
    largest = max(having.values(), key=len, default=frozenset())
    for indices in sorted(set(having.values()), key=lambda h: (len(h), sorted(h))):
        if indices < largest:
            yield frozenset(f for f in folds if having[f] <= indices)
