"""Arrays whose axes are indices: broadcasting by name, which is all the oracle vectorises.

A `Value` is the value of an expression for every combination of its free indices at once. Two
values meet index by index: `union` lists the axes that either has, `spread` brings an array to such
a list. An index that is bound anew hides the outer one, and leaves with what binds it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from monocomp.declarations.vocabulary import Kind
from monocomp.errors import IndexRangeError
from monocomp.language.syntax import Read
from monocomp.reference.algebra import Array

Axes = tuple[str, ...]


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


@dataclass(frozen=True)
class Scope:
    """The surroundings in which an expression is evaluated.

    Attributes:
        extents: the number of values of each index that may be bound.
        positions: the values of each index that is free or bound here.
        fields: the operands of the combine of a monoid, by the names of their fields; the last
            axes of one with indices are those of its entries.
    """

    extents: Mapping[str, int]
    positions: Mapping[str, Array] = field(default_factory=dict)
    fields: Mapping[str, Value] = field(default_factory=dict)

    def bind(self, indices: Iterable[str], extents: Mapping[str, int] | None = None) -> Scope:
        """Return the scope in which indices take all their values."""
        new = {index: np.arange((extents or self.extents)[index]) for index in indices}
        return replace(self, positions={**self.positions, **new})

    def shape(self, axes: Iterable[str]) -> tuple[int, ...]:
        """Return how many values each index has."""
        return tuple(len(self.positions[axis]) for axis in axes)


def union(*lists: Iterable[str]) -> Axes:
    """Return all axes, in order of first appearance."""
    return tuple(dict.fromkeys(axis for axes in lists for axis in axes))


def spread(value: Value, target: Axes) -> Array:
    """Return an array with the dimensions of `target`, which holds all axes of the value; new ones
    have length 1."""
    if value.axes == target:
        return value.array
    order = sorted(range(len(value.axes)), key=lambda n: target.index(value.axes[n]))
    array = value.array.transpose(order)
    sizes = iter(array.shape)
    return array.reshape([next(sizes) if a in value.axes else 1 for a in target])


def aligned(values: Iterable[Value]) -> tuple[Axes, list[Array]]:
    """Return the axes that any of the values has, and their arrays on these."""
    values = list(values)
    axes = union(*(v.axes for v in values))
    return axes, [spread(v, axes) for v in values]


def rows(value: Value, outside: Axes, bound: Axes, scope: Scope) -> Array:
    """Return the array with axes outside, and one through the bound ones in row-major order."""
    array = spread(value, (*outside, *bound))
    shape, inside = array.shape[: len(outside)], scope.shape(bound)
    return np.broadcast_to(array, (*shape, *inside)).reshape((*shape, math.prod(inside)))


# The value of an element outside its tensor, where no result is checked for depending on it.
_STAND_IN: dict[Kind, float] = {"float": 0.7, "int": 1, "bool": 1}


class Reads:
    """The reads of a program. Of those outside their tensors, in the order of evaluation, the first
    `limit` are unspecified, the others some number."""

    def __init__(self, text: str, limit: int) -> None:
        self.text, self.limit = text, limit
        self.count = 0  # of the reads outside
        self.error: IndexRangeError | None = None  # for the last one that is unspecified

    def gather(self, node: Read, tensor: Value, subscripts: Sequence[Value], scope: Scope) -> Value:
        """Return the elements at computed positions, one for each dimension."""
        axes, positions = aligned(subscripts)
        positions = [np.broadcast_to(p, scope.shape(axes)) for p in positions]
        known = ~np.isnan(np.sum(positions, axis=0))
        at = np.where(known, positions, -1).astype(np.int64)
        extents = np.reshape(tensor.array.shape, (-1, *[1] * len(axes)))
        inside = ((at >= 0) & (at < extents)).all(axis=0)
        elements = np.full(inside.shape, math.nan, tensor.array.dtype)
        elements[inside] = tensor.array[tuple(at[:, inside])]
        outside = np.flatnonzero(known & ~inside)
        unspecified = outside[: max(self.limit - self.count, 0)]
        elements.flat[outside[len(unspecified) :]] = _STAND_IN[tensor.kind]
        self.count += len(outside)
        if len(unspecified):
            point = np.unravel_index(unspecified[-1], inside.shape)
            indices = {a: scope.positions[a][n] for a, n in zip(axes, point, strict=True)}
            self.error = self._error(node, tensor, at[(slice(None), *point)], indices)
        return Value(axes, elements, tensor.kind)

    def _error(
        self, node: Read, tensor: Value, positions: Array, indices: dict[str, int]
    ) -> IndexRangeError:
        """Name a read, where it goes along the first dimension that it leaves, and from where."""
        pairs = enumerate(zip(positions, tensor.array.shape, strict=True))
        dimension, extent = next((n, size) for n, (p, size) in pairs if not 0 <= p < size)
        index = tensor.axes[dimension]
        named = f"dimension {dimension}" if index.startswith(".") else f"dimension '{index}'"
        valid = f"0 to {extent - 1}" if extent else "none, as it has no element"
        where = ", ".join(f"{index} = {n}" for index, n in indices.items())
        return IndexRangeError(
            f"'{node.name}' is read at {positions[dimension]} along its {named}",
            text=self.text,
            spans=node.subscripts[dimension].span if self.text else (),
            notes=(f"valid positions: {valid}", *([f"at {where}"] if where else [])),
            help="guard the read with a filter or where(...)",
        )
