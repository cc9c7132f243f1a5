"""Tiles without elements: the interpreter's arrays while a tape is made.

A tile has a dimension for each axis of the kernel, as the interpreter wants it; the value behind it
has those alone along which it varies, in an order of its own. So to permute, to stretch and to add
dimensions is no operation.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from monocomp.backends.tape.recorder import Recorder, Shape, Value, strides_of
from monocomp.backends.torch_operations import TorchOps
from monocomp.declarations.vocabulary import Kind

NO_DIM = -1  # of a value's dimension with one element, which may meet any of a tile


class TileOps(Protocol):
    """The operations that a tile passes on, of which `TapeOps` has all."""

    recorder: Recorder
    rank: Callable[[int], int]
    ops: TorchOps
    elementwise: Mapping[str, Callable[..., Tile]]
    library: Any

    def constant(
        self, key: object, tensor: torch.Tensor, dims: Sequence[int], rank: int
    ) -> Tile: ...

    def cast_to(self, x: Tile, dtype: torch.dtype) -> Tile: ...

    def reshaped(self, x: Tile, shape: Shape) -> Tile: ...

    def gather(self, tensor: Tile, at: tuple[Any, ...]) -> Tile: ...

    def part(self, x: Tile, dim: int, part: Any) -> Tile: ...

    def full(self, shape: Shape, value: Any, kind: Kind) -> Tile: ...

    def map(
        self,
        key: object,
        function: Callable[..., Any],
        *operands: Tile,
        dtype: torch.dtype | None = None,
        takes_out: bool = False,
        arguments: tuple[Any, ...] = (),
    ) -> Tile: ...

    def contract(self, a: Tile, b: Tile, dim: int) -> Tile: ...

    def compared(self, name: str, a: Tile, b: Tile) -> Tile: ...

    def implies(self, one: Tile, other: Tile) -> bool: ...

    def stretched(self, x: Tile, shape: Sequence[int]) -> Tile: ...

    def aligned(self, operands: Sequence[Tile]) -> tuple[Shape, list[Value]]: ...

    def whole(self, x: Tile, order: Sequence[int]) -> Value: ...

    def viewed(self, value: Value, order: Sequence[int], shape: Shape) -> Value: ...


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """The computation of a tile from others.

    Attributes:
        name: the operation's name.
        again: the operation, for other operands.
        operands: the tiles.
        dim: the dimension that it sums along, if it does.
        table: the tensor whose elements it reads, if it does.
    """

    name: str
    again: Callable[..., Tile]
    operands: tuple[Tile, ...]
    dim: int | None = None
    table: Tile | None = None


class Tile:
    """A tile without elements.

    Attributes:
        ops: what is done with it.
        value: what holds its elements.
        dims: for each dimension of the value that of the tile, or `NO_DIM`.
        shape: its own; in what the value lacks all elements are the same.
        source: how it is computed from others, unless it is given.
    """

    __slots__ = ("dims", "ops", "shape", "source", "value")

    def __init__(
        self,
        ops: TileOps,
        value: Value,
        dims: Sequence[int],
        shape: Sequence[int],
        source: Source | None = None,
    ):
        self.ops, self.value, self.shape = ops, value, tuple(shape)
        self.source = source
        self.dims = tuple(
            d if n > 1 or (d >= 0 and self.shape[d] == 0) else NO_DIM
            for d, n in zip(dims, value.shape, strict=True)
        )

    @property
    def dtype(self) -> torch.dtype:
        """Return the dtype of its elements."""
        return self.value.dtype

    def like(self, dims: Sequence[int], shape: Sequence[int]) -> Tile:
        """Return the same elements with other dimensions. Where each is repeated, they are computed
        as they were."""
        tile = Tile(self.ops, self.value, dims, shape)
        is_repeated = all(m in (1, n) for m, n in zip(self.shape, tile.shape, strict=False))
        tile.source = self.source if tile.dims == self.dims and is_repeated else None
        return tile

    def made_by(
        self,
        name: str,
        again: Callable[..., Tile],
        *operands: Tile,
        dim: int | None = None,
        table: Tile | None = None,
    ) -> Tile:
        """Return the tile, with how it is computed from others."""
        if any(self is x for x in operands):
            return self
        source = Source(name, again, operands, dim, table)
        return Tile(self.ops, self.value, self.dims, self.shape, source)

    def reshape(self, shape: Sequence[int]) -> Tile:
        """Return the tile with dimensions of one element more, or fewer."""
        if tuple(shape) == self.shape:
            return self
        old, new = ([d for d, n in enumerate(s) if n != 1] for s in (self.shape, shape))
        if [self.shape[d] for d in old] != [shape[d] for d in new]:
            return self.ops.reshaped(self, tuple(shape))
        to = dict(zip(old, new, strict=True))
        return self.like([to.get(d, NO_DIM) for d in self.dims], shape)

    def __getitem__(self, at: tuple[Any, ...]) -> Tile:
        if any(isinstance(x, Tile) for x in at):
            return self.ops.gather(self, at)
        tile = self
        for dim, part in enumerate(at):
            tile = tile.ops.part(tile, dim, part)
        return tile

    def _compared(self, other: Tile | int, sign: Callable[[Any, Any], Any]) -> Tile:
        if isinstance(other, int):
            other = self.ops.full((1,) * len(self.shape), other, "int")
        return self.ops.compared(sign.__name__, self, other)

    def __lt__(self, other: Tile | int) -> Tile:
        return self._compared(other, operator.lt)

    def __le__(self, other: Tile | int) -> Tile:
        return self._compared(other, operator.le)

    def __ge__(self, other: Tile | int) -> Tile:
        return self._compared(other, operator.ge)

    def __eq__(self, other: Tile) -> Tile:  # type: ignore[override]
        return self._compared(other, operator.eq)

    def __ne__(self, other: Tile) -> Tile:  # type: ignore[override]
        return self._compared(other, operator.ne)

    def __and__(self, other: Tile) -> Tile:
        for one, both in ((self, other), (other, self)):
            if self.ops.implies(both, one):
                return self.ops.stretched(both, common_shape(self.shape, other.shape))
        both = self.ops.map("and", torch.logical_and, self, other, takes_out=True)
        return both.made_by("and", operator.and_, self, other)

    __hash__ = None  # type: ignore[assignment]


def conjuncts(condition: Tile) -> Iterator[Tile]:
    """Yield the conditions of which all hold where a condition does, and no less: also where this
    is whether it holds anywhere along a dimension along which it does not vary."""
    source = condition.source
    if source is not None and source.name == "and":
        for x in source.operands:
            yield from conjuncts(x)
    elif source is not None and source.name == "amax" and source.dim is not None:
        (of,) = source.operands
        if of.value is not condition.value:
            yield condition
            return
        for x in conjuncts(of):
            yield x.like(x.dims, (*x.shape[: source.dim], 1, *x.shape[source.dim + 1 :]))
    else:
        yield condition


def moved(x: Tile, source: Sequence[int], target: Sequence[int]) -> Tile:
    """Return a tile with its dimensions at other places."""
    to = dict(zip(source, target, strict=True))
    shape = [0] * len(x.shape)
    for d, n in enumerate(x.shape):
        shape[to[d]] = n
    return x.like([to.get(d, NO_DIM) for d in x.dims], shape)


def swapped(x: Tile, a: int, b: int) -> Tile:
    """Return a tile with two dimensions exchanged."""
    order = list(range(len(x.shape)))
    order[a], order[b] = b, a
    return moved(x, order, range(len(order)))


def common_shape(*shapes: Shape) -> Shape:
    """Return the shape to which these are broadcast.

    It is `torch.broadcast_shapes`, whose first call imports sympy.
    """
    if all(s == shapes[0] for s in shapes):
        return shapes[0]
    rank = max(map(len, shapes))
    lengths = zip(*((1,) * (rank - len(s)) + s for s in shapes), strict=True)
    return tuple([next((n for n in at if n != 1), 1) for at in lengths])


def has_its_order(value: Value, order: Sequence[int]) -> bool:
    """True if a permutation leaves the elements of a value in their order."""
    varying = [d for d in order if value.shape[d] != 1]
    return varying == sorted(varying)


def strided(recorder: Recorder, value: Value, shape: Shape, strides: Shape) -> Value:
    """Record a view of a tensor whose strides are known: from its first element on, with strides of
    its own."""
    base = value.operands[0] if is_strided(value) else value
    if base.shape == shape and base.strides == strides:
        return base
    view = recorder.step(
        ("strided", shape, strides),
        torch.Tensor.as_strided,
        [base],
        shape,
        base.dtype,
        is_view=True,
        arguments=(shape, strides),
    )
    if view.known is None:
        view.strides, view.is_dense = strides, is_dense(shape, strides)
    return view


def is_dense(shape: Shape, strides: Shape) -> bool:
    """True if no two elements share memory, and none is left out between them."""
    size = 1
    for stride, n in sorted(zip(strides, shape, strict=True)):
        if n != 1 and stride != size:
            return False
        size *= n
    return True


def is_transposed(value: Value) -> bool:
    """True if the elements of a matrix are known to lie column by column."""
    strides = value.strides or (0, 0)
    return min(value.shape[-2:]) > 1 and strides[-2] == 1 != strides[-1]


def is_strided(value: Value) -> bool:
    """True if a value is a view that `strided` has made."""
    return bool(value.key == ("strided", value.shape, value.strides))


def viewed_alike(values: Sequence[Value], shape: Shape) -> tuple[Shape, list[Value]] | None:
    """Return the strides of values, except numbers, that view all of others alike in a shape, and
    these in their place; None if they do not: f(view x, view y) = view f(x, y)."""
    views = {v for v in values if v.number is None}
    bases = {v: v.operands[0] for v in views if is_strided(v)}
    ways = {(v.strides, base.shape) for v, base in bases.items() if v.shape == shape}
    is_all = all(
        v.is_dense and base.is_contiguous and math.prod(base.shape) == math.prod(shape)
        for v, base in bases.items()
    )
    if len(bases) < len(views) or len(ways) != 1 or not is_all:
        return None
    ((strides, _),) = ways
    return None if strides is None else (strides, [bases.get(v, v) for v in values])


def in_order(value: Value) -> Value | None:
    """Return what a value is a view of that has the same elements in the same order; None if it is
    no such view."""
    key, operands = value.key, value.operands
    if key is None:
        return None
    if is_strided(value):
        is_all = math.prod(value.shape) == math.prod(operands[0].shape)
        has_order = is_all and value.is_contiguous and operands[0].is_contiguous
    else:
        is_view = isinstance(key, tuple) and key[0] == "view"
        has_order = is_view and has_its_order(operands[0], key[1])
    return operands[0] if has_order else None


def flat(v: Value) -> Value:
    """Return what has the elements of a value in the same order, as far as it is known."""
    while (base := in_order(v)) is not None:
        v = base
    return v


def viewed_strides(value: Value, order: Shape, shape: Shape) -> Shape | None:
    """Return the strides of a value that is permuted and reshaped, if that needs no copy."""
    if value.strides is None:
        return None
    try:
        return strides_of(value.stand_in().permute(order).view(shape))
    except RuntimeError:
        return None
