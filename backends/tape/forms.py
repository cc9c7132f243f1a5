"""Values by how they are computed, whatever the order of their dimensions is.

    x[i,j] * y[j]  in one kernel is  x[q,k] * y[k]  in another, with the same x and y

Kernels name dimensions, and order those of their tiles, each in its own way. A form has the number
at which a dimension first occurs in place of its name, and what a view shows in place of the view.
Tiles of one form have one value, whose dimensions each of them names in its own way. Comparisons of
integers have the form of the difference, so that `k < q + 1` is `k <= q`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch

from monocomp.backends.tape.recorder import COMMUTATIVE, Shape
from monocomp.backends.tape.selections import bounds
from monocomp.backends.tape.tile import NO_DIM, Tile, TileOps, is_strided

Bounds: TypeAlias = tuple[float, float]
Part: TypeAlias = tuple[object, Sequence[int]]  # what is read, and the dimensions of a tile
_SMALL = 1 << 12  # elements of known values that are told apart by these


def equal(
    ops: TileOps, key: object, parts: Sequence[Part], shape: Shape, compute: Callable[[], Tile]
) -> Tile:
    """Return a tile that is computed of parts, or another one that has been computed so.

    Args:
        key: tells the function apart.
        parts: what it reads.
        shape: of the tile.
        compute: computes it.
    """
    form, dims = _form(key, parts)
    known = ops.recorder.forms.get(form)
    if known is not None:
        value, at = known
        return Tile(ops, value, [NO_DIM if n == NO_DIM else dims[n] for n in at], shape)
    made = compute()
    index = {**{d: n for n, d in enumerate(dims)}, NO_DIM: NO_DIM}
    if index.keys() >= {*made.dims}:
        ops.recorder.forms[form] = made.value, tuple(index[d] for d in made.dims)
    return made


def _form(key: object, parts: Sequence[Part]) -> tuple[object, list[int]]:
    """Return a form, and the dimensions by their numbers."""
    numbers: dict[int, int] = {}
    every = [
        (what, tuple(numbers.setdefault(d, len(numbers)) for d in dims)) for what, dims in parts
    ]
    return (key, *every), list(numbers)


def operands(key: object, tiles: Sequence[Tile]) -> list[Part]:
    """Return the parts of a function of tiles."""
    parts = [part(x) for x in tiles]
    return sorted(parts, key=lambda p: hash(p[0])) if key in COMMUTATIVE else parts


def part(x: Tile) -> Part:
    """Return a tile as a part: what its value is a view of, its sizes, and its strides."""
    v = x.value
    axes = [(d, n) for d, n in zip(x.dims, v.shape, strict=True) if d != NO_DIM]
    own = [d for d, _ in axes]
    if v.known is not None and v.known.numel() <= _SMALL:
        return (v.dtype, tuple(n for _, n in axes), tuple(v.known.flatten().tolist())), own
    if v.strides is None:
        return v, own
    strides = {d: s for d, s in zip(x.dims, v.strides, strict=True) if d != NO_DIM}
    if len({*strides.values()}) < len(axes):
        return v, own
    base = v.made_by[1][0] if is_strided(v) and v.made_by else v
    axes.sort(key=lambda axis: strides[axis[0]], reverse=True)
    return (base, tuple((n, strides[d]) for d, n in axes)), [d for d, _ in axes]


# --- comparisons of integers ----------------------------------------------------------------------

_SIGNS = {"lt": (1, -1), "le": (1, 0), "ge": (-1, 0), "gt": (-1, -1), "eq": (1, 0), "ne": (1, 0)}


def compared(ops: TileOps, name: str, a: Tile, b: Tile, compute: Callable[[], Tile]) -> Tile:
    """Return where integers compare, by the sign of their difference."""
    sign, least = _SIGNS[name]
    key = name if name in ("eq", "ne") else "not negative"
    made = compute
    shape = tuple(max(m, n) if m and n else 0 for m, n in zip(a.shape, b.shape, strict=True))
    is_settled = _settled(name, bounds(a), bounds(b))
    if is_settled is not None:
        return ops.full(shape, is_settled, "bool")
    for factor in (sign, -sign) if key == name else (sign,):
        linear = _Linear(least)
        linear.add(b, factor)
        linear.add(a, -factor)
        constant, parts = linear.parts()
        made = _later(ops, (key, constant), parts, shape, made)
    return made()


def _settled(name: str, a: Bounds, b: Bounds) -> bool | None:
    """Return how all integers between bounds compare; None where that is not known."""
    (least, most), (low, high) = (b, a) if name in ("gt", "ge") else (a, b)
    if name in ("eq", "ne"):
        return name == "ne" if most < low or high < least else None
    if most < low or (name in ("le", "ge") and most == low):
        return True
    return False if high < least or (name in ("lt", "gt") and high == least) else None


def _later(
    ops: TileOps, key: object, parts: Sequence[Part], shape: Shape, compute: Callable[[], Tile]
) -> Callable[[], Tile]:
    return lambda: equal(ops, key, parts, shape, compute)


class _Linear:
    """A sum of tiles of integers with factors, and of a number."""

    def __init__(self, constant: int) -> None:
        self.constant = constant
        self.known: dict[int, torch.Tensor] = {}  # by the only dimension along which they vary
        self.others: dict[tuple[object, tuple[int, ...]], int] = {}

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
            what, at = part(x)
            key = what, tuple(at)
            self.others[key] = self.others.get(key, 0) + factor

    def parts(self) -> tuple[int, list[Part]]:
        """Return the number, and the others, each in an order that no dimension decides."""
        constant = self.constant
        parts: list[Part] = []
        for d, elements in self.known.items():
            first = int(elements[0])
            constant += first
            vector = tuple((elements - first).tolist())
            if any(vector):
                parts.append((vector, (d,)))
        parts += [((what, factor), at) for (what, at), factor in self.others.items() if factor]
        return constant, sorted(parts, key=lambda p: hash(p[0]))
