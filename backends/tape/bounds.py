"""Bounds of numbers, and the comparisons that they settle."""

from __future__ import annotations

import math
from typing import TypeAlias

from monocomp.backends.tape.recorder import Value
from monocomp.backends.tape.tile import Tile

Bounds: TypeAlias = tuple[float, float]


def bounds(x: Tile) -> Bounds:
    """Return the least element and the largest, as far as they are known."""
    return bounds_of(x.value)


def bounds_of(v: Value) -> Bounds:
    """Return the least element of a value and the largest, as far as they are known."""
    known, (name, operands) = v.known, (v.root.key, v.root.operands)
    if known is not None and known.numel():
        return known.min().item(), known.max().item()
    if name == "where":
        (least, most), (low, high) = map(bounds_of, operands[1:])
        return min(least, low), max(most, high)
    return v.root.bounds or (-math.inf, math.inf)


def settled(name: str, a: Bounds, b: Bounds) -> bool | None:
    """Return how all numbers between bounds compare; None where that is not known."""
    (least, most), (low, high) = (b, a) if name in ("gt", "ge") else (a, b)
    if name in ("eq", "ne"):
        return name == "ne" if most < low or high < least else None
    if most < low or (name in ("le", "ge") and most == low):
        return True
    return False if high < least or (name in ("lt", "gt") and high == least) else None
