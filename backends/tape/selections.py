"""Sums and extrema of elements that a condition selects by their position.

    sum[n if n == p](x[n]) = x[p]                                   (0 where p is outside)
    y[n] = sum[k if n == p[k]](x[n,k]):  y[p[k]] += x[p[k],k]  for each k

On the left each n is compared with each position; on the right elements are read, or added, where
they belong, as gathering and scattering do. The same holds for the other monoids.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce

import torch

from monocomp.backends.tape.bounds import bounds
from monocomp.backends.tape.choices import replaced_infinities
from monocomp.backends.tape.recorder import Shape, contiguous_strides
from monocomp.backends.tape.tile import NO_DIM, Tile, TileOps, common_shape, conjuncts
from monocomp.declarations.vocabulary import Kind

_UNITS = {"sum": 0.0, "amax": -math.inf, "amin": math.inf}


@dataclass(frozen=True)
class Selection:
    """A condition `coordinate == position` along a dimension.

    Attributes:
        dim: the dimension.
        first: its first coordinate.
        size: how many there are.
        position: does not vary along it.
    """

    dim: int
    first: int
    size: int
    position: Tile


def reduce_selected(ops: TileOps, name: str, x: Tile, axis: int) -> Tile | None:
    """Record a sum or an extremum of selected elements; None where it is one of all."""
    if x.dtype == torch.bool:
        return _any_selected(ops, x, axis)
    unit = _unit(name, x)
    members = None if unit is None else _members(ops, x, unit)
    if unit is None or members is None:
        return None
    conditions = list(conjuncts(members[0]))
    chosen = _chosen(ops, conditions, axis)
    if not chosen:
        return None
    elements = Elements(ops, [s for _, s in chosen])
    body, valid = elements.of(members[1]), elements.meeting(conditions, [c for c, _ in chosen])
    if [s.dim for _, s in chosen] != [axis]:
        return scattered(ops, name, elements, valid, body, x, axis)
    if valid is not None:
        body = ops.library.where(valid, body, _number(ops, unit, body))
    return body


def _any_selected(ops: TileOps, x: Tile, axis: int) -> Tile | None:
    """Record whether a condition holds anywhere along an axis; None where all have to be tried."""
    conditions = list(conjuncts(x))
    apart = [c for c in conditions if axis not in c.dims]
    varying = [c for c in conditions if axis in c.dims]
    chosen = _chosen(ops, varying, axis)
    if [s.dim for _, s in chosen] == [axis]:
        elements = Elements(ops, [s for _, s in chosen])
        met = elements.meeting(varying, [c for c, _ in chosen])
    elif apart and varying:
        met = ops.library.amax(reduce(operator.and_, varying), axis=axis, keepdims=True)
    else:
        return None
    every = apart if met is None else [*apart, met]
    return reduce(operator.and_, every) if every else ops.full((1,) * len(x.shape), True, "bool")


def _chosen(ops: TileOps, conditions: Sequence[Tile], axis: int) -> list[tuple[Tile, Selection]]:
    """Return the conditions that select one element along an axis, or else one place for each
    element along it."""
    selected = [(c, s) for c in conditions for s in _selections(c)]
    own = [(c, s) for c, s in selected if s.dim == axis]
    chosen, dims = own[:1], set[int]()
    while not own:
        free = [(c, s) for c, s in selected if s.dim not in dims and axis in s.position.dims]
        more = [(c, s) for c, s in free if not {*s.position.dims} & {t.dim for _, t in free}]
        if not more:
            break
        condition, selection = more[0]
        if dims & {*selection.position.dims}:
            position = Elements(ops, [s for _, s in chosen]).of(selection.position)
            selection = replace(selection, position=position)
        chosen.append((condition, selection))
        dims.add(selection.dim)
    return chosen


def _number(ops: TileOps, number: float, like: Tile) -> Tile:
    kind: Kind = "float" if like.dtype.is_floating_point else "int"
    return ops.full((1,) * len(like.shape), number, kind)


def _unit(name: str, x: Tile) -> float | None:
    """Return what a reduction is of no element: a maximum, too, what no element is below."""
    if name == "amax" and x.source is not None and x.source.name == "where":
        _, chosen, other = x.source.operands
        number = other.value.number
        if number is not None and bounds(chosen)[0] >= number:
            return number
    return _UNITS.get(name)


# --- what is selected --------------------------------------------------------------------------


def _members(ops: TileOps, x: Tile, unit: float) -> tuple[Tile, Tile] | None:
    """Return a condition and a body, such that x is a unit where the condition fails."""
    if x.source is None:
        return None
    operands = x.source.operands
    match x.source.name:
        case "where" if operands[2].value.number == unit:
            return operands[0], operands[1]
        case "exp2" if unit == 0 and (inner := _members(ops, operands[0], -math.inf)):
            return inner[0], ops.elementwise["exp2"](inner[1])
        case "mul" if math.isinf(unit):
            for factor, other in (operands, operands[::-1]):
                if (factor.value.number or 0) > 0 and (inner := _members(ops, other, unit)):
                    return inner[0], ops.elementwise["mul"](factor, inner[1])
        case "sub" if unit == -math.inf and _exceeds_minus_infinity(operands[1]):
            if inner := _members(ops, operands[0], unit):
                return inner[0], ops.elementwise["sub"](inner[1], operands[1])
    return None


def _exceeds_minus_infinity(x: Tile) -> bool:
    """True if no element can be the negative infinity, as another number is chosen then."""
    if x.source is None or x.source.name != "where":
        return False
    condition, chosen, other = x.source.operands
    number = chosen.value.number
    if number is None or not math.isfinite(number):
        return False
    replaced = replaced_infinities(condition.value, other.value, number)
    return replaced is not None and replaced[1] == number


def _selections(condition: Tile) -> Iterator[Selection]:
    """Yield the dimensions along which a condition holds for one element."""
    if condition.source is not None and condition.source.name == "eq":
        operands = condition.source.operands
        for coordinate, position in (operands, operands[::-1]):
            span = span_of(coordinate)
            if span is not None and span[0] not in position.dims:
                yield Selection(*span, position)


def span_of(x: Tile) -> tuple[int, int, int] | None:
    """Return the dimension, the first element and the length of coordinates."""
    known, dims = x.value.known, [d for d in x.dims if d != NO_DIM]
    if known is None or len(dims) != 1 or known.dtype != torch.int64:
        return None
    elements, count = known.flatten(), known.numel()
    first, last = int(elements[0]), int(elements[-1])
    if last - first != count - 1:  # of Python's numbers: a place of no element is the largest int
        return None
    in_order = torch.equal(elements - first, torch.arange(count, device=known.device))
    return (dims[0], first, count) if in_order else None


# --- elements at positions ----------------------------------------------------------------------


@dataclass
class Elements:
    """Tiles at positions along some dimensions.

    Attributes:
        selections: the dimensions and the positions.
        inside: where the latter are in range, as far as that is not known.
        positions: those by dimension, in range: the elements of a tile are read there.
        offsets: the same, counted from 0.
    """

    ops: TileOps
    selections: list[Selection]
    inside: list[Tile] = field(default_factory=list)
    positions: dict[int, Tile] = field(default_factory=dict)
    offsets: dict[int, Tile] = field(default_factory=dict)
    _made: dict[int, tuple[Tile, Tile]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for s in self.selections:
            at, first = s.position, _number(self.ops, s.first, s.position)
            low, high = bounds(at)
            if low < s.first or high >= s.first + s.size:
                is_inside = (at >= s.first) & (at < s.first + s.size)
                self.inside.append(is_inside)
                at = self.ops.library.where(is_inside, at, first)
            self.positions[s.dim] = at
            self.offsets[s.dim] = self.ops.elementwise["sub"](at, first) if s.first else at

    def meeting(self, conditions: Sequence[Tile], apart: Sequence[Tile]) -> Tile | None:
        """Return the test that conditions hold, except some, in range; None if it always does."""
        met = [self.of(c) for c in conditions if all(c is not x for x in apart)]
        return reduce(operator.and_, (*met, *self.inside)) if met or self.inside else None

    @property
    def dims(self) -> set[int]:
        """Return the dimensions along which positions vary."""
        return {d for s in self.selections for d in s.position.dims if d != NO_DIM}

    def of(self, x: Tile) -> Tile:
        """Return the elements of a tile."""
        made = self._made.get(id(x))
        if made is None:
            made = self._made[id(x)] = x, self._of(x)
        return made[1]

    def _of(self, x: Tile) -> Tile:
        shape = tuple(1 if d in self.offsets else n for d, n in enumerate(x.shape))
        if not self.offsets.keys() & {*x.dims}:
            return x.like(x.dims, shape)
        span = span_of(x)
        for s in self.selections:
            if span == (s.dim, s.first, s.size):
                return self.positions[s.dim]
        source = x.source
        if source is None or source.dim in self.dims or self._is_small(x, shape):
            tile = self._read(x)
        else:
            tile = source.again(*map(self.of, source.operands))
        return self.ops.stretched(tile, common_shape(tile.shape, shape))

    def _is_small(self, x: Tile, shape: Shape) -> bool:
        """True if a tile has fewer elements than are read of it."""
        every = {d for d in x.dims if d not in self.offsets} | self.dims
        lengths = common_shape(shape, *(o.shape for o in self.offsets.values()))
        return math.prod(x.value.shape) < math.prod(lengths[d] for d in every - {NO_DIM})

    def _read(self, x: Tile) -> Tile:
        rank = len(x.shape)
        tensor = Tile(self.ops, x.value, range(len(x.dims)), x.value.shape)
        sizes = zip(x.dims, x.value.shape, strict=True)
        at = [self.offsets.get(d) or coordinates(self.ops, d, n, rank) for d, n in sizes]
        made = self.ops.gather(tensor, tuple(at))
        return Tile(self.ops, made.value, made.dims, made.shape)


def coordinates(ops: TileOps, dim: int, size: int, rank: int) -> Tile:
    """Return the coordinates along a dimension."""
    count = torch.arange(size, device=ops.ops.device)
    return ops.constant(("arange", 0, size), count, (dim,), rank)


# --- elements added where they belong -----------------------------------------------------------


def scattered(
    ops: TileOps,
    name: str,
    elements: Elements,
    valid: Tile | None,
    body: Tile,
    like: Tile,
    axis: int,
) -> Tile:
    """Record the sums, or extrema, along an axis of the elements that belong to each place.

    Args:
        name: of the reduction.
        elements: where they belong.
        valid: which take part; None for all.
        body: the elements.
        like: has the shape of these, and the dimensions of places.
        axis: the axis.
    """
    selections = elements.selections
    sizes = [s.size for s in selections]
    count = math.prod(sizes)
    place = _linear(ops, [(elements.offsets[s.dim], s.size) for s in selections])
    if valid is not None:
        place = ops.library.where(valid, place, _number(ops, count, place))
    shape = list(common_shape(like.shape, body.shape, place.shape))
    own = [d for d in body.dims if d != NO_DIM]  # as they are in memory
    dims = (*sorted({axis, *place.dims} - {NO_DIM, *own}, key=ops.rank), *own)
    at, values = (ops.whole(ops.stretched(x, shape), dims) for x in (place, body))
    dim = dims.index(axis)
    before, after = (tuple(shape[d] for d in part) for part in (dims[:dim], dims[dim + 1 :]))
    inner = *before, count, *after
    run = _scattering(name, body.dtype, inner, dim, valid is not None)
    key = "scattered", name, dim, inner, valid is not None
    made = ops.recorder.step(key, run, [at, values], inner, body.dtype)
    made.strides = contiguous_strides(inner)
    shape[axis] = 1
    for s in selections:
        shape[s.dim] = s.size
    made = ops.viewed(made, range(len(inner)), (*before, *sizes, *after))
    return Tile(ops, made, (*dims[:dim], *(s.dim for s in selections), *dims[dim + 1 :]), shape)


def _linear(ops: TileOps, indices: Sequence[tuple[Tile, int]]) -> Tile:
    """Return the place of an element in the order of several indices, each below its size."""
    place, _ = indices[0]
    for index, size in indices[1:]:
        place = ops.elementwise["mul"](place, _number(ops, size, place))
        place = ops.elementwise["add"](place, index)
    return place


def _scattering(
    name: str, dtype: torch.dtype, shape: Shape, dim: int, has_others: bool
) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Return what reduces the elements along a dimension by their places.

    Args:
        name: of the reduction.
        dtype: of elements.
        shape: of the result.
        dim: the dimension.
        has_others: are there elements that do not take part, with one more place?
    """
    unit = _UNITS[name]
    if math.isinf(unit) and not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        unit = limits.min if unit < 0 else limits.max
    sizes = (*shape[:dim], shape[dim] + has_others, *shape[dim + 1 :])
    nothing = torch.tensor(unit, dtype=dtype).expand(sizes)
    if name == "sum":
        scatter = partial(torch.scatter_add, nothing, dim)
    else:
        scatter = partial(torch.scatter_reduce, nothing, dim, reduce=name)
    if not has_others:
        return scatter

    def run(at: torch.Tensor, elements: torch.Tensor) -> torch.Tensor:
        return scatter(at, elements).narrow_copy(dim, 0, shape[dim])

    return run
