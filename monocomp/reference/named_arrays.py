"""Arrays whose axes are indices: broadcasting by name, which is all the oracle vectorises.

A `Value` is the value of an expression for every combination of its free indices at once.
Two values meet index by index: `union` lists the axes that either has, `spread` brings an
array to such a list. Axes are compared by identity, so an inner `k` never meets an outer one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from monocomp.reference.wide import Array


@dataclass(frozen=True, eq=False, slots=True)
class Axis:
    """An index in one scope, running over start, ..., stop - 1."""

    index: str
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


Axes = tuple[Axis, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """An expression's value over its free indices.

    Attributes:
        axes: the free indices, one for each dimension of the array.
        array: bool, int64 or wide.
        absent: numbers that stand for no element (None: none); see `naive_arithmetic`.
            It has the array's dimensions, some perhaps of length 1.
    """

    axes: Axes
    array: Array
    absent: Array | None = None


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


def both(one: Value | None, other: Value | None) -> Value | None:
    """The conjunction of two conditions; None is true."""
    if one is None or other is None:
        return one if other is None else other
    axes, (x, y) = aligned(one, other)
    return Value(axes, x & y)


def negation(condition: Value) -> Value:
    """Where the condition fails."""
    return Value(condition.axes, ~condition.array)


def somewhere(condition: Value | None, axes: Axes) -> Array:
    """Where on `axes` the condition holds for some value of its other indices."""
    if condition is None:
        return np.ones((1,) * len(axes), bool)
    others = tuple(n for n, axis in enumerate(condition.axes) if axis not in axes)
    kept = tuple(axis for axis in condition.axes if axis in axes)
    return spread(np.asarray(condition.array.any(axis=others)), kept, axes)


def restrict(value: Value, axis: Axis, part: Axis) -> Value:
    """The value on a part of one of its axes."""
    if axis not in value.axes:
        return value
    n = value.axes.index(axis)
    inside = (slice(None),) * n + (slice(part.start - axis.start, part.stop - axis.start),)
    axes = tuple(part if a is axis else a for a in value.axes)
    absent = value.absent
    if absent is not None and absent.shape[n] == len(axis):
        absent = absent[inside]
    return Value(axes, value.array[inside], absent)


def first_true(array: Array, axes: Axes, fixed: Mapping[Axis, int]) -> dict[Axis, int]:
    """The first point where a bool array holds, with some of its indices given."""
    inside = tuple(fixed[a] - a.start if a in fixed else slice(None) for a in axes)
    loose = [axis for axis in axes if axis not in fixed]
    offsets = np.argwhere(array[inside])[0]
    found = {a: a.start + int(offset) for a, offset in zip(loose, offsets, strict=True)}
    return {axis: found.get(axis, fixed.get(axis, 0)) for axis in axes}
