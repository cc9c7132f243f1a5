"""Integer terms as intervals: the one evaluator of sizes, subscripts and lengths.

A number that is known is an interval of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from itertools import product
from typing import TypeAlias

from monocomp.terms import Term

Interval: TypeAlias = tuple[int, int]  # the least value and the largest

_CORNERS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "maximum": max,
    "minimum": min,
}


def interval(t: Term, of_leaf: Callable[[Term], Interval | None]) -> Interval | None:
    """The values that an integer term takes, or None where nothing is known.

    Args:
        t: an integer term.
        of_leaf: the values of indices, extents, parameters and what is read.
    """
    match t.op:
        case "const":
            return (int(t.attr), int(t.attr)) if t.kind == "int" else None
        case "index" | "extent" | "param" | "read" | "ref" | "stored":
            return of_leaf(t)
        case "where":
            return _hull([interval(a, of_leaf) for a in t.args[1:]])
        case "fold" if t.attr.monoid in ("max", "min"):
            return interval(t.args[1], of_leaf)
        case "pow" if t.attr.denominator == 1 and t.attr > 0:
            return _power(interval(t.args[0], of_leaf), int(t.attr))
    operands = [interval(a, of_leaf) for a in t.args]
    known = [a for a in operands if a is not None]
    if not known or len(known) < len(operands):
        return None
    if t.op == "mod":
        return _remainder(*known)
    if t.op not in _CORNERS or (t.op == "floordiv" and known[1][0] <= 0 <= known[1][1]):
        return None
    return reduce(lambda a, b: _ends(_CORNERS[t.op], a, b), known)


def evaluated(
    t: Term, extents: Mapping[str, int], params: Mapping[str, int | float] | None = None
) -> int | None:
    """The number that a term is, if all that it depends on is known and whole; of an index it is
    that in the middle."""

    def of_leaf(t: Term) -> Interval | None:
        found: int | float | None = None
        if t.op == "extent":
            found = extents.get(t.attr)
        elif t.op == "param":
            found = (params or {}).get(t.attr)
        elif t.op == "index":
            found = extents[t.attr[1]] // 2
        return (found, found) if isinstance(found, int) else None

    found = interval(t, of_leaf)
    return None if found is None else found[0]


def _ends(f: Callable[[int, int], int], a: Interval, b: Interval) -> Interval:
    """The interval of a function that is monotone in each operand, from their ends."""
    found = [f(x, y) for x, y in product(a, b)]
    return min(found), max(found)


def _hull(parts: list[Interval | None]) -> Interval | None:
    known = [p for p in parts if p is not None]
    if len(known) < len(parts):
        return None
    return min(a for a, _ in known), max(b for _, b in known)


def _power(base: Interval | None, power: int) -> Interval | None:
    if base is None:
        return None
    found = [a**power for a in base]
    least = 0 if power % 2 == 0 and base[0] < 0 < base[1] else min(found)
    return least, max(found)


def _remainder(a: Interval, b: Interval) -> Interval | None:
    if a[0] == a[1] and b[0] == b[1] != 0:
        return a[0] % b[0], a[0] % b[0]
    return (0, min(a[1], b[1] - 1)) if a[0] >= 0 and b[0] > 0 else None
