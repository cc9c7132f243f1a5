"""The array operations that interpreters need, of NumPy or torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from monocomp.declarations.vocabulary import Kind
from monocomp.tile.operations import OPERATIONS

Array = Any
LAST = 2**63 - 1  # after all positions
Tiles: TypeAlias = tuple[Array, ...]  # the fields of a monoid, or positions


class Ops(Protocol):
    """The array operations that the interpreter needs; those that have a body are the same for all
    libraries that compute them at once.

    `elementwise` has a function for each element-wise operation of tile programs, `library` is the
    module of functions that NumPy and torch have by the same names.
    """

    library: Any
    elementwise: Mapping[str, Callable[..., Array]]

    def arange(self, start: int, stop: int) -> Array: ...
    def full(self, shape: tuple[int, ...], value: float, kind: Kind) -> Array: ...
    def cast(self, x: Array, kind: Kind) -> Array: ...
    def promote(self, x: Array) -> Array: ...
    def contract(self, a: Array, b: Array, dim: int) -> Array: ...
    def largest(
        self, values: Array, positions: Array, dim: int, count: int
    ) -> tuple[Array, Array]: ...
    def first_extreme(self, name: str, values: Array, positions: Array, dim: int) -> Tiles:
        """Return the maximum or minimum along a dimension, and the least position that has it."""
        extremum = getattr(self.library, f"a{name}")
        value = extremum(values, axis=dim, keepdims=True)
        last = self.full((1,) * len(values.shape), LAST, "int")
        places = self.library.where(values == value, positions, last)
        return value, self.library.amin(places, axis=dim, keepdims=True)

    def bounds(self, x: Array) -> tuple[int, int]:
        """Return the least element and the largest, or bounds on them; 0 where there are none."""
        return (int(x.min()), int(x.max())) if math.prod(x.shape) else (0, 0)

    def known(self, x: Array) -> Array | None:
        """Return an array that has the elements of another; None where they are not known yet."""
        return x

    def chosen(self, x: Array, *conditions: Array) -> Array:
        """Return an array that has the elements of another one where all conditions hold."""
        return x

    def unit(self, x: Array) -> Array:
        """Return the state that a loop starts with, the unit of its fold."""
        return x

    def store(self, output: Array, at: tuple[slice, ...], value: Array) -> None:
        """Write a tile that has the dimensions of an output."""
        output[at] = value

    def scatter(
        self, output: Array, positions: Tiles, value: Array, valid: Array, add: bool
    ) -> None:
        """Store, or add, the elements that are valid, all of one shape."""


def elementwise(
    library: Any, own: Mapping[str, Callable[..., Array]]
) -> dict[str, Callable[..., Array]]:
    """Return the element-wise operations by name: functions of a library, or ones of our own."""
    named = ((o.name, o.array) for o in OPERATIONS.values() if o.array)
    return {name: own.get(name) or getattr(library, array) for name, array in named}
