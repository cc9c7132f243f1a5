"""Reductions on their way: from the elements of a body to rows, to values, and what is absent.

The formulas are in `naive_folds`; which results stand for no element, in `naive_arithmetic`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from monocomp.errors import InternalError
from monocomp.language.syntax import Reduce
from monocomp.reference import naive_folds
from monocomp.reference.naive_arithmetic import EMPTY, MASKED, empty_where, still_absent
from monocomp.reference.named_arrays import Axes, Axis, Value, restrict, shape_of, spread
from monocomp.reference.wide import Array, Wide, is_infinite

# The fields of two elements of a user's monoid, and where the right one counts: their combination.
Combine: TypeAlias = Callable[[list[Value], list[Value], "Array | None", Axes], list[Value]]


@dataclass(frozen=True, slots=True)
class Fold:
    """One reduction on its way: rows of elements, one row for each position on the free axes.

    Attributes:
        node: the reduction.
        wanted: the axis that each index has where the result is wanted.
        free: the axes that the result depends on.
        bound: the axes that are folded, one for each index of the node.
        admitted: the rows of the filter (None: no filter).
    """

    node: Reduce
    wanted: Mapping[str, Axis]
    free: Axes
    bound: Axes
    admitted: Array | None = None

    def rows(self, array: Array, axes: Axes) -> Array:
        """The free axes, then one axis through the bound ones in row-major order."""
        aligned = spread(array, axes, (*self.free, *self.bound))
        outside = aligned.shape[: len(self.free)]
        inside = np.broadcast_to(aligned, (*outside, *shape_of(self.bound)))
        return inside.reshape((*outside, math.prod(shape_of(self.bound))))

    def result(self, folded: Array, absent: Array | None) -> Value:
        """What was made of the rows: one value each, or one for each prefix."""
        if self.node.prefix:
            return self.kept(folded, absent)
        shape = shape_of(self.free)
        if absent is not None:
            absent = np.broadcast_to(absent, shape)
        return Value(self.free, np.broadcast_to(folded, shape), absent)

    def kept(self, rows: Array, absent: Array | None) -> Value:
        """Rows of results, whose indices become those of the scope."""
        axes = (*self.free, *self.bound)
        long = (*shape_of(self.free), math.prod(shape_of(self.bound)))
        array = np.broadcast_to(rows, long).reshape(shape_of(axes))
        if absent is not None:
            absent = np.broadcast_to(absent, long).reshape(shape_of(axes))
        value = Value(axes, array, absent)
        for index, axis in zip(self.node.indices, self.bound, strict=True):
            value = restrict(value, axis, self.wanted[index])
        return value


def aggregate(wide: Wide, x: Array, absent: Array | None, fold: Fold) -> Value:
    """What the formula gives of each row or prefix, and where that stands for no element."""
    op, prefix = fold.node.op, fold.node.prefix
    if op in ("mean", "var", "logsumexp"):
        x = wide.lift(x)
    elif op not in ("any", "all") and x.dtype == bool:
        x = x.astype(np.int64)
    formula = naive_folds.FOLDS[op]
    if prefix:
        folded = naive_folds.prefixes(formula, wide, x, fold.admitted)
    else:
        folded = formula(wide, x, fold.admitted)
    may_be_empty = (folded == 0) | is_infinite(folded)
    if op not in naive_folds.ABSENT or not may_be_empty.any():
        return fold.result(folded, None)
    empty = naive_folds.nothing(op, x, absent, fold.admitted, prefix)
    level = (empty & may_be_empty).astype(np.uint8) * np.uint8(EMPTY)
    if op in ("sum", "mean", "var"):
        unmasked = None if absent is None else np.where(absent == MASKED, absent, np.uint8(0))
        excluded = naive_folds.nothing(op, x, unmasked, fold.admitted, prefix)
        level = np.where(excluded & may_be_empty, np.uint8(MASKED), level)
    return fold.result(folded, level if level.any() else None)


def softmax(wide: Wide, x: Array, absent: Array | None, fold: Fold) -> Value:
    """An element is masked where its filter is false or its logit is a masked -inf; then it
    does not look at the others."""
    formula = naive_folds.softmax if fold.node.op == "softmax" else naive_folds.log_softmax
    x = wide.lift(x)
    level = np.where(x == -math.inf, np.uint8(EMPTY), np.uint8(0))
    if absent is not None:
        level = np.where((x == -math.inf) & (absent == MASKED), np.uint8(MASKED), level)
    if fold.admitted is not None:
        level = np.where(fold.admitted, level, np.uint8(MASKED))
    unit = wide.number(0 if fold.node.op == "softmax" else -math.inf)
    result = np.where(level == MASKED, unit, formula(wide, x, fold.admitted))
    return fold.kept(result, level if level.any() else None)


def select(wide: Wide, x: Array, fold: Fold) -> Value:
    """The entries of `top` or `argtop` in each row."""
    if fold.node.target is None:
        raise InternalError(f"'{fold.node.op}' has no target index")
    rank = fold.wanted[fold.node.target]
    x = np.broadcast_to(wide.lift(x), (*shape_of(fold.free), x.shape[-1]))
    values, positions = naive_folds.select(wide, x, fold.admitted, rank.stop)
    values, positions = values[..., rank.start :], positions[..., rank.start :]
    axes = (*fold.free, rank)
    if fold.node.op == "argtop":
        return Value(axes, positions)
    return Value(axes, values, np.where(positions < 0, np.uint8(MASKED), np.uint8(0)))


def fold_monoid(
    wide: Wide,
    units: list[Array],
    rows: list[Array],
    fold: Fold,
    own: list[Axes],
    combine: Combine,
) -> list[Value]:
    """Fold from the unit, left to right; the fields of the result, or of each prefix. `own` are
    the axes of each field's entries."""
    free = fold.free
    everywhere = [(*free, *of) for of in own]
    state = [_whole(u, np.asarray(True), axes) for u, axes in zip(units, everywhere, strict=True)]
    states = []
    elements = [wide.lift(row) for row in rows]
    for step in range(elements[0].shape[-1]):
        fields = [x[..., step] for x in elements]
        same = functools.reduce(
            np.logical_and,
            (
                np.asarray(f == unit).all(axis=tuple(range(-len(of), 0)))
                for f, unit, of in zip(fields, units, own, strict=True)
            ),
        )
        element = [
            _whole(f, spread(np.asarray(same, bool), free, axes), axes)
            for f, axes in zip(fields, everywhere, strict=True)
        ]
        present = None if fold.admitted is None else fold.admitted[..., step]
        state = combine(state, element, present, free)
        states.append(state)
    if not fold.node.prefix:
        return state
    if not states:
        return [Value(v.axes, np.empty((*shape_of(v.axes), 0), wide.dtype)) for v in state]
    return [
        Value(
            field[0].axes,
            np.stack([v.array for v in field], axis=-1),
            np.stack([_levels(v) for v in field], axis=-1),
        )
        for field in zip(*states, strict=True)
    ]


def _levels(value: Value) -> Array:
    """Which elements are absent, for every element."""
    return np.broadcast_to(np.uint8(0) if value.absent is None else value.absent, value.array.shape)


def _whole(array: Array, is_unit: Array, axes: Axes) -> Value:
    """A field of a user's monoid on all axes; what equals the unit is empty."""
    absent = still_absent(empty_where(is_unit), array)
    shape = shape_of(axes)
    return Value(
        axes,
        np.broadcast_to(array, shape),
        None if absent is None else np.broadcast_to(absent, shape),
    )
