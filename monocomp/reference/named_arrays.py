"""Arrays whose axes are indices: broadcasting by name, which is all the oracle vectorises.

A `Value` is the value of an expression for every combination of its free indices at once.
Two values meet index by index: `union` lists the axes that either has, `spread` brings an
array to such a list. Axes are compared by identity, so an inner `k` never meets an outer one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from monocomp.declarations.vocabulary import Kind
from monocomp.reference.algebra import Array


@dataclass(frozen=True, eq=False)
class Axis:
    """An index in one scope, running over start, ..., stop - 1."""

    index: str
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


Axes = tuple[Axis, ...]


@dataclass(frozen=True)
class Value:
    """An expression's value over its free indices.

    Attributes:
        axes: the free indices, one for each dimension of the array.
        array: the numbers, see `algebra`.
        kind: of the expression.
    """

    axes: Axes
    array: Array
    kind: Kind = "float"


def union(*lists: Iterable[Axis]) -> Axes:
    """All axes, in order of first appearance."""
    return tuple(dict.fromkeys(axis for axes in lists for axis in axes))


def shape_of(axes: Axes) -> tuple[int, ...]:
    """The lengths of the axes."""
    return tuple(len(axis) for axis in axes)


def spread(array: Array, axes: Axes, target: Axes) -> Array:
    """A view with the dimensions of `target`, which holds all of `axes`; new ones have length 1."""
    if axes == target:
        return array
    order = sorted(range(len(axes)), key=lambda n: target.index(axes[n]))
    present = set(axes)
    sizes = iter(array.transpose(order).shape)
    return array.transpose(order).reshape([next(sizes) if a in present else 1 for a in target])


def full(array: Array, axes: Axes, target: Axes) -> Array:
    """As `spread`, with new dimensions at their full length."""
    return np.broadcast_to(spread(array, axes, target), shape_of(target))


def aligned(*values: Value) -> tuple[Axes, list[Array]]:
    """The axes that any of the values has, and their arrays on these."""
    axes = union(*(v.axes for v in values))
    return axes, [spread(v.array, v.axes, axes) for v in values]


def restrict(value: Value, axis: Axis, part: Axis) -> Value:
    """The value on a part of one of its axes."""
    if axis not in value.axes:
        return value
    n = value.axes.index(axis)
    inside = (slice(None),) * n + (slice(part.start - axis.start, part.stop - axis.start),)
    axes = tuple(part if a is axis else a for a in value.axes)
    return replace(value, axes=axes, array=value.array[inside])


def rows(value: Value, free: Axes, bound: Axes) -> Array:
    """The free axes, then one axis through the bound ones in row-major order."""
    aligned = spread(value.array, value.axes, (*free, *bound))
    outside, inside = aligned.shape[: len(free)], shape_of(bound)
    return np.broadcast_to(aligned, (*outside, *inside)).reshape((*outside, math.prod(inside)))
