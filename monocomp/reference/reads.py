"""Reads at computed positions, and the error for one that leaves its tensor.

A definition is an equation, so that one of its elements lies outside of a tensor matters only
where that element is used. Such an element is unspecified: what a filter excludes, or a weight of 0
meets, is never looked at. If it makes an output unspecified, the program is in error (`oracle`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from monocomp.declarations.vocabulary import Kind
from monocomp.errors import IndexRangeError
from monocomp.language.syntax import Read
from monocomp.reference.algebra import Array
from monocomp.reference.named_arrays import Scope, Value, aligned

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
