"""Axes of values in memory, however dimensions cut them.

    x[i,j] with i, j < 2, 128  is  x[k] with k < 256,  k = 128 i + j

A view is a tensor and axes: how many elements there are along each, and how far apart. An axis may
be cut in two, and two may be joined where one goes on where the other one ends, so that operations
on views compare whatever dimensions their tiles have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from monocomp.backends.tape.recorder import Shape

Place: TypeAlias = tuple[int, int]  # a dimension, and its elements from one to the next


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a view, which is a part of a dimension.

    Attributes:
        dim: the dimension.
        step: elements of the dimension from one element of the axis to the next.
        size: of the axis.
        stride: elements of memory from one to the next.
    """

    dim: int
    step: int
    size: int
    stride: int

    def cut(self, steps: Iterable[int]) -> list[Axis] | None:
        """Return axes for the parts of this one between some steps of its dimension; None if it
        has no such parts."""
        axes, end = list[Axis](), self.step * self.size
        inner = [s for s in sorted(steps) if self.step < s < end]
        for first, last in zip((self.step, *inner), (*inner, end), strict=True):
            if last % first:
                return None
            axes.append(Axis(self.dim, first, last // first, first // self.step * self.stride))
        return None if any(s % self.step for s in inner) else axes

    def along(self, dims: Sequence[tuple[int, int, int]]) -> list[Axis] | None:
        """Return axes in other memory.

        Args:
            dims: of a tensor, from the largest stride on: the stride, the size, and the stride in
                the other memory.
        """
        axes, at = list[Axis](), self
        while at.size > 1:
            own = next((d for d in dims if d[0] <= at.stride), None)
            if own is None or at.stride % own[0]:
                return None
            stride, size, other = own
            step = at.stride // stride
            count = min(at.size, size // step)
            if count <= 1 or at.size % count:
                return None
            axes.append(Axis(at.dim, at.step, count, step * other))
            at = Axis(at.dim, at.step * count, at.size // count, at.stride * count)
        return [a for a in axes if a.stride]


def moved(axes: Sequence[Axis], shape: Shape, old: Shape, new: Shape) -> tuple[Axis, ...] | None:
    """Return the axes of a view in other memory.

    Args:
        axes: in one memory.
        shape: of a tensor in both.
        old, new: its strides in either.
    """
    lengths = zip(old, shape, new, strict=True)
    dims = sorted((d for d in lengths if d[1] != 1 and d[0]), reverse=True)
    every = [a.along(dims) for a in axes]
    return None if None in every else tuple(a for found in every for a in found or ())


@dataclass(frozen=True, slots=True)
class Joined:
    """An axis of several views at once: places of dimensions, each of which goes on where the one
    before it ends, and the strides of the first one."""

    places: tuple[tuple[Place, int], ...]  # and how many elements each has
    size: int
    strides: Shape

    def beside(self, outer: Joined) -> Joined | None:
        """Return both as one, if the other one goes on where this one ends."""
        if any(s != self.size * t for s, t in zip(outer.strides, self.strides, strict=True)):
            return None
        return Joined(self.places + outer.places, self.size * outer.size, self.strides)


def joined(views: Sequence[Sequence[Axis]]) -> list[Joined] | None:
    """Return the fewest axes that views have in common; None where their parts of dimensions
    overlap."""
    steps: dict[int, set[int]] = {}
    for a in (a for axes in views for a in axes):
        steps.setdefault(a.dim, set()).update((a.step, a.step * a.size))
    strides: dict[tuple[Place, int], list[int]] = {}
    for n, axes in enumerate(views):
        for a in axes:
            parts = a.cut(steps[a.dim])
            if parts is None:
                return None
            for part in parts:
                place = (part.dim, part.step), part.size
                strides.setdefault(place, [0] * len(views))[n] = part.stride
    if len({place for place, _ in strides}) < len(strides):
        return None
    every = [Joined((place,), place[1], tuple(s)) for place, s in strides.items()]
    every.sort(key=lambda a: (a.strides, a.size))
    made: list[Joined] = []
    for outer in every:
        while True:
            inner = next((a for a in made if a.beside(outer)), None)
            if inner is None:
                break
            made.remove(inner)
            outer = inner.beside(outer) or outer
        made.append(outer)
    return made
