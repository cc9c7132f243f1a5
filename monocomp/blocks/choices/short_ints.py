"""Ints that the folds of a block need no more bits for than an index has.

An int has 64 bits, and the units of min and max need them all. But a position is as short as an
index. So the least position in a block is found with the extent in place of those that a mask
leaves out, the largest with -1, and only what is found gets the unit if it is no position. What is
counted is no more than there are positions.
"""

from __future__ import annotations

from collections import Counter

from monocomp.terms.algebra import LARGEST_INT, LEAST_INT
from monocomp.tile import Expr, Let, TileProgram

_SMALL = 1 << 6  # so much at each position an index takes
_UNITS = {"min": LARGEST_INT, "max": LEAST_INT}


def short_ints(program: TileProgram) -> frozenset[Expr]:
    """Masked positions of which only the least or the largest is found, and numbers that are only
    added up."""
    uses, folded = Counter[str](), Counter[str]()
    masked = {s.name: s.value for s in program.statements if isinstance(s, Let)}
    masked = {name: e for name, e in masked.items() if e.op == "masked" and e.kind == "int"}
    for e in program.expressions:
        if e.op == "local":
            uses[e.attr] += 1
        if e.op == "reduce" and e.args[0].op == "local" and e.args[0].attr in masked:
            name = e.args[0].attr
            folded[name] += _is_short(program, masked[name], e.attr[0])
    return frozenset(e for name, e in masked.items() if 0 < uses[name] == folded[name])


def _is_short(program: TileProgram, e: Expr, monoid: str) -> bool:
    (x,), (_, unit) = e.args, e.attr
    if x.op == "number":
        return monoid == "sum" and unit == 0 and abs(x.attr) <= _SMALL
    is_position = x.op == "coordinate" and program.axes[x.attr].role in ("row", "stream", "whole")
    return is_position and _UNITS.get(monoid) == unit
