"""Extrema with their positions: pairs of which the larger value wins, or the smaller one."""

from __future__ import annotations

from typing import Any

from monocomp.tile.statements import Combine
from monocomp.tile.values import Expr

_COMMUTATIVE = ("maximum", "minimum", "compare")


def extremum_of(monoid: Combine) -> str | None:
    """Return "max" or "min" if a combine of two pairs takes the pair whose value is the maximum, or
    minimum, and of equal values the smaller position."""
    if len(monoid.left) != 2:
        return None
    (x, i), (y, j) = monoid.left, monoid.right
    lets = {s.name: s.value for s in monoid.body}

    def formula(e: Expr) -> Any:
        if e.op == "local":
            return formula(lets[e.attr]) if e.attr in lets else e.attr
        args = tuple(map(formula, e.args))
        is_sorted = e.op in _COMMUTATIVE and e.attr != "<"
        return e.op, e.attr, frozenset(args) if is_sorted else args

    value, position = map(formula, monoid.results)
    tie = "compare", "==", frozenset((x, y))
    first = "minimum", None, frozenset((i, j))
    for name, better in (("max", (x, y)), ("min", (y, x))):
        wins = "compare", "<", better
        chosen = "where", None, (wins, j, ("where", None, (tie, first, i)))
        if value == (f"{name}imum", None, frozenset((x, y))) and position == chosen:
            return name
    return None
