"""Comparisons of floats, of as little as they come to.

    0 < c * (x - y)  =  y < x    for c > 0      x - z < y - z      =  x < y
    0 != maximum(0, x)  =  0 < x                exp2(x) < exp2(y)  =  x < y

So conditions that kernels state of exponentials, each relative to its own largest, are one, and
need none of them. Which of two numbers is larger that differ by less than their rounding may come
out either way; whether they are equal may not. A term that is added on both sides stays, as it may
be -inf.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias

from monocomp.backends.tape.recorder import Value
from monocomp.backends.tape.tile import Tile, TileOps

_Pair: TypeAlias = tuple[Tile, Tile]


def simplest(ops: TileOps, name: str, a: Tile, b: Tile) -> tuple[str, Tile, Tile]:
    """Return a comparison that says what another one does. An equation is one of numbers as they
    are computed: it may guard a quotient by (1 + x) - 1 where that is rounded to 0."""
    for zero, x in ((a, b), (b, a)):
        if name == "ne" and zero.value.number == 0 and (of := _positive_part(x)) is not None:
            name, a, b = "lt", zero, of
    if name in ("eq", "ne"):
        return name, a, b
    while (pair := _of_exponents(ops, a, b) or _of_terms(ops, a, b)) is not None:
        a, b = pair
    return name, a, b


def of_sign(ops: TileOps, x: Tile) -> Tile:
    """Return a tile that has the sign of another one."""
    if not x.dtype.is_floating_point:
        return x
    _, of, zero = simplest(ops, "lt", x, ops.full((1,) * len(x.shape), 0, "float"))
    return ops.stretched(of, x.shape) if zero.value.number == 0 else x


def _positive_part(x: Tile) -> Tile | None:
    """Return the number whose maximum with 0 a tile is, if it is one."""
    if x.source is not None and x.source.name == "maximum":
        for zero, other in (x.source.operands, x.source.operands[::-1]):
            if zero.value.number == 0:
                return other
    return None


def _of_exponents(ops: TileOps, a: Tile, b: Tile) -> _Pair | None:
    """Return exponents that compare as exponentials, or one and a positive number, do."""
    exponents = []
    for x in (a, b):
        if x.source is not None and x.source.name == "exp2":
            exponents.append(x.source.operands[0])
        elif x.value.number is not None and 0 < x.value.number < math.inf:
            exponents.append(ops.full((1,) * len(x.shape), math.log2(x.value.number), "float"))
    is_new = any(x.source is not None and x.source.name == "exp2" for x in (a, b))
    return (exponents[0], exponents[1]) if is_new and len(exponents) == 2 else None


def _of_terms(ops: TileOps, a: Tile, b: Tile) -> _Pair | None:
    """Return two tiles, or one and a number, that compare as sums do; None where more is left of
    these, or they are it themselves."""
    left, right = _Sum(), _Sum()
    left.add(a, 1.0)
    right.add(b, 1.0)
    factors = dict(left.factors)
    for term, factor in right.factors.items():
        if term in factors and (factors[term] != factor or factor > 0):
            return None
        factors[term] = factors.get(term, 0.0) - factor
    number = right.number - left.number
    terms = [({**left.tiles, **right.tiles}[term], c) for term, c in factors.items() if c]
    if len(terms) == 1 and (number == 0 or abs(terms[0][1]) == 1):
        ((x, factor),) = terms
        y = ops.full((1,) * len(x.shape), number / factor if number else 0.0, "float")
    elif len(terms) == 2 and number == 0 and terms[0][1] == -terms[1][1]:
        (x, factor), (y, _) = terms
    else:
        return None
    pair = (x, y) if factor > 0 else (y, x)
    return None if all(p.value is q.value for p, q in zip(pair, (a, b), strict=True)) else pair


@dataclass
class _Sum:
    """A sum of tiles with factors, and of a number."""

    number: float = 0.0
    factors: dict[tuple[Value, tuple[int, ...]], float] = field(default_factory=dict)
    tiles: dict[tuple[Value, tuple[int, ...]], Tile] = field(default_factory=dict)

    def add(self, x: Tile, factor: float) -> None:
        """Add a multiple of a tile."""
        if x.value.number is not None:
            self.number += factor * x.value.number
            return
        match (x.source.name, x.source.operands) if x.source is not None else None:
            case ("add" | "sub") as name, (one, other):
                self.add(one, factor)
                self.add(other, factor if name == "add" else -factor)
            case "neg", (of,):
                self.add(of, -factor)
            case "mul", (one, other) if one.value.number:
                self.add(other, factor * one.value.number)
            case "mul", (one, other) if other.value.number:
                self.add(one, factor * other.value.number)
            case _:
                key = x.value, x.dims
                self.factors[key] = self.factors.get(key, 0.0) + factor
                self.tiles[key] = x
