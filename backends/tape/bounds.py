"""Bounds of numbers, and the comparisons that they settle."""

from __future__ import annotations

import math
from typing import TypeAlias

from monocomp.backends.tape.tile import Tile

Bounds: TypeAlias = tuple[float, float]


def bounds(x: Tile) -> Bounds:
    """Return the least element and the largest, as far as they are known."""
    known = x.value.known
    if known is None or not known.numel():
        return x.value.root.bounds or (-math.inf, math.inf)
    return known.min().item(), known.max().item()


def settled(name: str, a: Bounds, b: Bounds) -> bool | None:
    """Return how all numbers between bounds compare; None where that is not known."""
    (least, most), (low, high) = (b, a) if name in ("gt", "ge") else (a, b)
    if name in ("eq", "ne"):
        return name == "ne" if most < low or high < least else None
    if most < low or (name in ("le", "ge") and most == low):
        return True
    return False if high < least or (name in ("lt", "gt") and high == least) else None
