"""Ints that the folds of a block need no more bits for than an index has.

An int has 64 bits, and the units of min and max need them all. But a position is as short as an
index. So the least position in a block is found with the extent in place of those that a mask
leaves out, the largest with -1, and only what is found gets the unit if it is no position. So it is
with the position of a largest element, as what combines two of them only chooses one. What is
counted is no more than there are positions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from monocomp.terms.algebra import LARGEST_INT, LEAST_INT
from monocomp.tile import Combine, Expr, Fold, Let, TileProgram

_SMALL = 1 << 6  # so much at each position an index takes
_UNITS = {"min": LARGEST_INT, "max": LEAST_INT}


def short_ints(program: TileProgram) -> frozenset[Expr]:
    """Return the masked positions of which only one is found, such as the least, and the numbers
    that are only added up."""
    uses, folded = Counter[str](), Counter[str]()
    masked = {s.name: s.value for s in program.statements if isinstance(s, Let)}
    masked = {name: e for name, e in masked.items() if e.op == "masked" and e.kind == "int"}
    for e in program.expressions:
        if e.op == "local":
            uses[e.attr] += 1
        if e.op == "reduce" and e.args[0].op == "local" and e.args[0].attr in masked:
            name = e.args[0].attr
            folded[name] += _is_short(program, masked[name], e.attr[0])
    for s in (s for s in program.statements if isinstance(s, Fold)):
        for n, e in enumerate(s.elements):
            if e.op == "local" and e.attr in masked:
                folded[e.attr] += _is_chosen_by(s, n, masked[e.attr])
    return frozenset(e for name, e in masked.items() if 0 < uses[name] == folded[name])


def _is_short(program: TileProgram, e: Expr, monoid: str) -> bool:
    (x,), (_, unit) = e.args, e.attr
    if x.op == "number":
        return monoid == "sum" and unit == 0 and abs(x.attr) <= _SMALL
    is_position = x.op == "coordinate" and program.axes[x.attr].role in ("row", "stream", "whole")
    return is_position and _UNITS.get(monoid) == unit


def _is_chosen_by(s: Fold, n: int, e: Expr) -> bool:
    """True if a fold over an axis only chooses among its positions, which are its field n."""
    (x,), (axis, unit) = e.args, e.attr
    is_position = x.op == "coordinate" and x.attr == axis == s.axis and unit in _UNITS.values()
    if not is_position or s.prefixes or not isinstance(s.monoid, Combine) or not s.monoid.commutes:
        return False
    names = {s.monoid.left[n], s.monoid.right[n]}
    for let in s.monoid.body:
        if _chooses(let.value, names):
            names.add(let.name)
        elif not _is_apart(let.value, names):
            return False
    others = (result for m, result in enumerate(s.monoid.results) if m != n)
    return _chooses(s.monoid.results[n], names) and all(_is_apart(e, names) for e in others)


def _chooses(e: Expr, names: Collection[str]) -> bool:
    """True if a value is one of these names, or chooses among them."""
    if e.op == "where":
        return _is_apart(e.args[0], names) and all(_chooses(a, names) for a in e.args[1:])
    if e.op in ("minimum", "maximum"):
        return all(_chooses(a, names) for a in e.args)
    return e.op == "local" and e.attr in names


def _is_apart(e: Expr, names: Collection[str]) -> bool:
    """True if a value depends on no more of these than their order."""
    if e.op == "compare" and all(_chooses(a, names) for a in e.args):
        return True
    return not (e.op == "local" and e.attr in names) and all(_is_apart(a, names) for a in e.args)
