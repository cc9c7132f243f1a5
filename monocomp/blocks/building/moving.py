"""Positions that move by one along the axes of a tile, in two parts: the least of a block, and how
far each element's is from there.

The least one is a scalar. The distances are the same for all blocks, so that no loop computes them.
As none is negative, a compiler knows that neighbours are constants apart, and needs no registers
for the addresses of all.
"""

from __future__ import annotations

from collections.abc import Mapping

from monocomp import tile as P
from monocomp.blocks import Expr
from monocomp.blocks.building.context import Context
from monocomp.blocks.building.expressions import tile
from monocomp.blocks.operations import arange, infix, joined, negated, number, spread


def least(c: Context, e: P.Expr, sign: int = 1) -> Expr:
    """Return the least position of a block, or the largest, for a sign of -1; of those elements
    that are outside of their axes, too."""
    if not c.order(e.axes):
        return tile(c, e, ())
    match e.op:
        case "local":
            return least(c, c.meaning(e), sign)
        case "neg":
            return negated(least(c, e.args[0], -sign))
        case "add":
            return infix("+", *(least(c, a, sign) for a in e.args))
        case "sub":
            return infix("-", least(c, e.args[0], sign), least(c, e.args[1], -sign))
    first = first_of(c, e.attr)
    return first if sign > 0 else infix("+", first, _last(c, e.attr))


def distances(c: Context, signs: Mapping[str, int], layout: tuple[str, ...]) -> Expr:
    """Return how far each position is from the least one."""
    parts = []
    for axis, sign in signs.items():
        steps = arange(axis) if sign > 0 else infix("-", _last(c, axis), arange(axis))
        parts.append(spread(steps, layout))
    return joined("+", parts)


def first_of(c: Context, axis: str) -> Expr:
    """Return the position where a block begins."""
    known = c.program.axes[axis]
    if known.role == "whole":
        return c.names.block(known.after) if known.after else number(0)
    return c.names.index("start" if known.role == "row" else "first", axis)


def _last(c: Context, axis: str) -> Expr:
    """Return how far the last element of a block is from the first."""
    return infix("-", c.names.block(axis), number(1))
