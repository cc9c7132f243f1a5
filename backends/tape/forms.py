"""Values by how they are computed, whatever the order of their dimensions and factors is.

    x[i,j] * y[j]  in one kernel is  x[q,k] * y[k]  in another, with the same x and y
    (c * x) * y  is  c times  y * x

Kernels name dimensions, cut them, and order those of their tiles, each in its own way. A form has
axes in place of these (`axes`), and what a view shows in place of the view. A product has the form
of all its factors, and the number among them apart: what differs in that alone is a multiple. Tiles
of one form have one value, whose dimensions each of them names in its own way. Comparisons of
integers have the form of the difference, so that `k < q + 1` is `k <= q`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch

from monocomp.backends.tape.axes import Axis, Joined, Place, joined, moved
from monocomp.backends.tape.bounds import bounds, settled
from monocomp.backends.tape.recorder import COMMUTATIVE, Shape, Value, contiguous_strides
from monocomp.backends.tape.tile import NO_DIM, Tile, TileOps, in_order, is_strided, strided
from monocomp.machine.cpu import CPU

Part: TypeAlias = tuple[object, tuple[Axis, ...]]  # what is read, and along which axes
_ROUNDINGS = 4  # of a number that is a product of others


def equal(
    ops: TileOps,
    key: object,
    parts: Sequence[Part],
    shape: Shape,
    compute: Callable[[], Tile],
    number: float = 1.0,
) -> Tile:
    """Return a tile that is computed of parts, or another one that has been computed so.

    Args:
        key: tells the function apart.
        parts: what it reads.
        shape: of the tile.
        compute: computes it.
        number: by which it multiplies what the parts come to.
    """
    axes = joined([its for _, its in parts]) if math.prod(shape) else None
    if axes is None:
        return compute()
    form = (key, *(what for what, _ in parts), *((a.size, a.strides) for a in axes))
    known = ops.recorder.forms.get(form)
    if known is not None:
        value, strides, other = known
        tile = _labelled(ops, _multiple(ops, value, number, other), axes, strides, shape)
        if tile is not None:
            return tile
    made = compute()
    own = _strides_along(made, axes)
    if own is not None and known is None:
        ops.recorder.forms[form] = made.value, own, number
    return made


def _multiple(ops: TileOps, value: Value, number: float, other: float) -> Value:
    """Record a value for a number, of the one for another number."""
    rounding = _ROUNDINGS * torch.finfo(value.dtype).eps if value.dtype.is_floating_point else 0
    if math.isclose(number, other, rel_tol=rounding):
        return value
    factor = torch.tensor(number / other, dtype=value.dtype, device=ops.ops.device)
    operands = ops.recorder.alike(Value((), value.dtype, factor)), value
    return ops.recorder.step("mul", torch.mul, operands, value.shape, value.dtype, takes_out=True)


def _labelled(
    ops: TileOps, value: Value, axes: Sequence[Joined], strides: Shape, shape: Shape
) -> Tile | None:
    """Return a value along axes as a tile; None if a dimension's elements are not a step apart.

    Args:
        strides: its own along the axes.
        shape: of the tile.
    """
    places: dict[Place, tuple[int, int]] = {}
    for axis, stride in zip(axes, strides, strict=True):
        for place, size in axis.places:
            places[place] = stride, size
            stride *= size
    lengths: dict[int, tuple[int, int]] = {}  # of dimensions
    for (dim, step), (stride, size) in sorted(places.items()):
        first, count = lengths.get(dim, (stride, 1))
        if step != count or stride != first * count:
            return None
        lengths[dim] = first, count * size
    if any(first and count != shape[d] for d, (first, count) in lengths.items()):
        return None
    dims = {length: d for d, length in lengths.items() if length[0]}
    own = [(a.stride, a.size) for a in _axes_of(value, range(len(value.shape)))]
    if dims.keys() == {*own} and len(dims) == len(own):
        names = iter(own)
        at = [dims[next(names)] if n != 1 else NO_DIM for n in value.shape]
        return Tile(ops, value, at, shape)
    if value.strides is None or len(dims) < len([n for n in lengths.values() if n[0]]):
        return None
    order = sorted(dims, reverse=True)
    sizes, steps = tuple(n for _, n in order), tuple(s for s, _ in order)
    view = strided(ops.recorder, value, sizes, steps)
    return Tile(ops, view, [dims[n] for n in order], shape)


def _strides_along(tile: Tile, axes: Sequence[Joined]) -> Shape | None:
    """Return the strides of a tile's value along axes; None if its elements are not a step apart
    along one of them, or it varies along others."""
    steps: dict[int, list[int]] = {}
    for (dim, step), _ in (place for axis in axes for place in axis.places):
        steps.setdefault(dim, []).append(step)
    strides: dict[Place, int] = {}
    for a in _axes_of(tile.value, tile.dims):
        for part in a.cut(steps.get(a.dim, ())) or ():
            strides[part.dim, part.step] = part.stride
    strides_along = []
    for axis in axes:
        first = end = strides.pop(axis.places[0][0], 0)
        for n, (place, size) in enumerate(axis.places):
            if n and strides.pop(place, 0) != end:
                return None
            end *= size
        strides_along.append(first)
    return None if strides else tuple(strides_along)


# --- what operations read -------------------------------------------------------------------------


def operands(key: object, tiles: Sequence[Tile]) -> list[Part]:
    """Return the parts of a function of tiles."""
    parts = [part(x) for x in tiles]
    return _in_any_order(parts) if key in COMMUTATIVE else parts


def factors(tiles: Sequence[Tile]) -> tuple[float, list[Part]]:
    """Return a product as a number and parts, of which none is a product of floats."""
    number, parts = 1.0, list[Part]()
    for x in tiles:
        own, more = _factors(x.value, _axes_of(x.value, x.dims))
        number, parts = number * own, [*parts, *more]
    is_multiple = number != 0 and math.isfinite(number) and tiles[0].dtype.is_floating_point
    return (number, _in_any_order(parts)) if is_multiple else (1.0, operands("mul", tiles))


def part(x: Tile) -> Part:
    """Return a tile as a part."""
    v, axes = _shown(x.value, _axes_of(x.value, x.dims))
    return _named(v, axes)


def along(dim: int, size: int) -> Part:
    """Return a dimension that is reduced as a part."""
    return "along", (Axis(dim, 1, size, 1),)


def _in_any_order(parts: Sequence[Part]) -> list[Part]:
    """Return parts in an order that does not depend on theirs."""
    return sorted(parts, key=lambda p: (hash(p[0]), sorted((a.size, a.stride) for a in p[1])))


def _factors(v: Value, axes: Sequence[Axis]) -> tuple[float, list[Part]]:
    """Return a value along axes as a number and parts, the factors of a product."""
    if v.number is not None:
        return v.number, []
    v, axes = _shown(v, axes)
    if v.key != "mul" or v.known is not None:
        return 1.0, [_named(v, axes)]
    number, parts = 1.0, list[Part]()
    for w in v.operands:
        sizes = (1,) * (len(v.shape) - len(w.shape)) + w.shape
        strides = (0,) * (len(v.shape) - len(w.shape)) + _memory(w)
        own = tuple(0 if n == 1 else s for n, s in zip(sizes, strides, strict=True))
        its = moved(axes, v.shape, _memory(v), own)
        if its is None:
            return 1.0, [_named(v, axes)]
        other, more = _factors(w, its)
        number, parts = number * other, [*parts, *more]
    return number, parts


def _shown(v: Value, axes: Sequence[Axis]) -> tuple[Value, Sequence[Axis]]:
    """Return what a view shows, or a copy of one, and the same axes of that."""
    while v.key is not None and not _is_told_apart(v):
        base = v.operands[0]
        if (sizes := _repeated(v)) is not None:
            dim, (count, times) = v.key[1], sizes
            shape = (*base.shape[:dim], count, times, *base.shape[dim + 1 :])
            steps = (*(own := _memory(base))[: dim + 1], 0, *own[dim + 1 :])
            its = moved(axes, shape, contiguous_strides(shape), steps)
            if its is None:
                break
            axes = its
        elif not is_strided(v):
            if not v.is_contiguous or in_order(v) is None:
                break
            its = moved(axes, base.shape, contiguous_strides(base.shape), _memory(base))
            if its is None:
                break
            axes = its
        v = base
    return v, axes


def _repeated(v: Value) -> tuple[int, int] | None:
    """Return how many elements along a dimension of another value are read in turn, and how often
    each, if a value is read so."""
    key, operands = v.key, v.operands
    if not isinstance(key, tuple) or key[0] != "select" or not v.is_contiguous:
        return None
    base, *positions = operands
    known = positions[0].known if len(positions) == 1 else None
    if known is None or len(base.shape) != len(v.shape):
        return None
    count, total = base.shape[key[1]], v.shape[key[1]]
    every = torch.arange(total, device=known.device)
    if not count or total % count or not torch.equal(known.flatten(), every // (total // count)):
        return None
    return count, total // count


def _named(v: Value, axes: Sequence[Axis]) -> Part:
    """Return a part: of known values that are few, these themselves."""
    what: object = v
    if v.known is not None and _is_told_apart(v):
        what = v.dtype, tuple(v.known.flatten().tolist())
    return what, tuple(a for a in axes if a.stride)


def _is_told_apart(v: Value) -> bool:
    """True if a value is told apart by its elements."""
    return v.known is not None and v.known.numel() <= CPU.call


def _memory(v: Value) -> Shape:
    """Return the strides in which the axes of a value are counted: those of memory without gaps
    where its own are not known, or it is told apart by its elements."""
    is_plain = v.strides is None or _is_told_apart(v)
    return contiguous_strides(v.shape) if is_plain or v.strides is None else v.strides


def _axes_of(v: Value, dims: Sequence[int]) -> list[Axis]:
    """Return the axes of a value along dimensions."""
    every = zip(dims, v.shape, _memory(v), strict=True)
    return [Axis(d, 1, n, s) for d, n, s in every if n != 1]


# --- comparisons of integers ----------------------------------------------------------------------

_SIGNS = {"lt": (1, -1), "le": (1, 0), "ge": (-1, 0), "gt": (-1, -1), "eq": (1, 0), "ne": (1, 0)}


def compared(ops: TileOps, name: str, a: Tile, b: Tile, compute: Callable[[], Tile]) -> Tile:
    """Return where integers compare, by the sign of their difference."""
    sign, least = _SIGNS[name]
    key = name if name in ("eq", "ne") else "not negative"
    made = compute
    shape = tuple(max(m, n) if m and n else 0 for m, n in zip(a.shape, b.shape, strict=True))
    is_settled = settled(name, bounds(a), bounds(b))
    if is_settled is not None:
        return ops.full(shape, is_settled, "bool")
    for factor in (sign, -sign) if key == name else (sign,):
        linear = _Linear(least)
        linear.add(b, factor)
        linear.add(a, -factor)
        constant, parts = linear.parts()
        made = _later(ops, (key, constant), parts, shape, made)
    return made()


def _later(
    ops: TileOps, key: object, parts: Sequence[Part], shape: Shape, compute: Callable[[], Tile]
) -> Callable[[], Tile]:
    return lambda: equal(ops, key, parts, shape, compute)


class _Linear:
    """A sum of tiles of integers with factors, and of a number."""

    def __init__(self, constant: int) -> None:
        self.constant = constant
        self.known: dict[int, torch.Tensor] = {}  # by the only dimension along which they vary
        self.others: dict[Part, int] = {}

    def add(self, x: Tile, factor: int) -> None:
        """Add a tile."""
        known, dims = x.value.known, [d for d in x.dims if d != NO_DIM]
        source = x.source
        if known is not None and known.numel() == 1:
            self.constant += factor * int(known)
        elif known is not None and len(dims) == 1:
            (d,) = dims
            more = known.flatten() * factor
            self.known[d] = self.known[d] + more if d in self.known else more
        elif known is None and source is not None and source.name in ("add", "sub"):
            self.add(source.operands[0], factor)
            self.add(source.operands[1], factor if source.name == "add" else -factor)
        elif known is None and source is not None and source.name == "neg":
            self.add(source.operands[0], -factor)
        else:
            what = part(x)
            self.others[what] = self.others.get(what, 0) + factor

    def parts(self) -> tuple[int, list[Part]]:
        """Return the number, and the others, each in an order that no dimension decides."""
        constant = self.constant
        parts: list[Part] = []
        for d, elements in self.known.items():
            first = int(elements[0])
            constant += first
            vector = tuple((elements - first).tolist())
            if any(vector):
                parts.append((vector, (Axis(d, 1, len(vector), 1),)))
        parts += [((what, factor), at) for (what, at), factor in self.others.items() if factor]
        return constant, _in_any_order(parts)
