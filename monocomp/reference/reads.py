"""Reads at computed positions, and the error for one that leaves its tensor.

A definition is an equation, so that one of its elements lies outside of a tensor matters only
where that element is used. Such an element is unspecified: what a filter excludes, or a weight of 0
meets, is never looked at. If it makes an output unspecified, the program is in error (`oracle`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from monocomp.declarations.vocabulary import Kind
from monocomp.errors import IndexRangeError
from monocomp.language.syntax import Read
from monocomp.reference.algebra import Array
from monocomp.reference.named_arrays import Axes, Value, aligned, shape_of

# The value of an element outside its tensor, where no result is checked for depending on it.
_STAND_IN: dict[Kind, float] = {"float": 0.7, "int": 1, "bool": 1}


@dataclass(frozen=True)
class Tensor:
    """An input or a definition that has been evaluated, over its own axes."""

    axes: Axes
    array: Array
    kind: Kind


class Outside:
    """The reads outside their tensors, in the order of evaluation.

    The first `limit` of them (None: all) are unspecified, the others are some number.
    """

    def __init__(self, text: str, limit: int | None = None) -> None:
        self.text = text
        self.limit = limit
        self.count = 0
        self.error: IndexRangeError | None = None  # for the last one that is unspecified

    def gather(self, node: Read, tensor: Tensor, subscripts: Sequence[Value]) -> Value:
        """The elements at computed positions, one for each dimension."""
        axes, positions = aligned(*subscripts)
        known = ~np.isnan(sum(positions, np.zeros(shape_of(axes))))
        at = [np.where(np.isnan(p), -1, p).astype(np.int64) for p in positions]
        inside = known.copy()
        for position, extent in zip(at, tensor.array.shape, strict=True):
            inside &= (position >= 0) & (position < extent)
        elements = np.full(shape_of(axes), math.nan, tensor.array.dtype)
        elements[inside] = tensor.array[
            tuple(np.broadcast_to(position, inside.shape)[inside] for position in at)
        ]
        outside = np.flatnonzero(known & ~inside)
        if outside.size:
            first = outside if self.limit is None else outside[: max(self.limit - self.count, 0)]
            elements.flat[outside[len(first) :]] = _STAND_IN[tensor.kind]
            self.count += outside.size
            if len(first):
                self.error = self._error(node, tensor, axes, at, int(first[-1]))
        return Value(axes, elements, tensor.kind)

    def _error(
        self, node: Read, tensor: Tensor, axes: Axes, at: list[Array], number: int
    ) -> IndexRangeError:
        """Name a read, where it goes along the first dimension that it leaves, and from where."""
        shape = shape_of(axes)
        point = np.unravel_index(number, shape)
        positions = [int(np.broadcast_to(position, shape)[point]) for position in at]
        pairs = enumerate(zip(positions, tensor.array.shape, strict=True))
        dimension = next(n for n, (p, extent) in pairs if not 0 <= p < extent)
        extent = tensor.array.shape[dimension]
        index = tensor.axes[dimension].index
        named = f"dimension {dimension}" if index.startswith(".") else f"dimension '{index}'"
        valid = f"0 to {extent - 1}" if extent else "none, as it has no element"
        where = [f"{a.index} = {a.start + int(n)}" for a, n in zip(axes, point, strict=True)]
        return IndexRangeError(
            f"'{node.name}' is read at {positions[dimension]} along its {named}",
            text=self.text,
            spans=node.subscripts[dimension].span if self.text else (),
            notes=(f"valid positions: {valid}", *(["at " + ", ".join(where)] if where else [])),
            help="guard the read with a filter or where(...)",
        )
