"""Integer terms as intervals: the one evaluator of sizes, subscripts and lengths.

The ends of an interval are numbers, as the domain's operators give them, or terms where they are
known at run time only. A number that is known is an interval of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

from monocomp import terms as T
from monocomp.terms import Term
from monocomp.terms.transfer import TRANSFER, Dom, hull, multiply, power_of

Interval: TypeAlias = tuple[int, int]  # the least value and the largest
Ranges: TypeAlias = Mapping[str, tuple[Term, Term]]  # by index: its first and its last value


def interval(t: Term, of_leaf: Callable[[Term], Interval | None]) -> Interval | None:
    """Return the values that an integer term takes, or None where nothing is known.

    Args:
        t: an integer term.
        of_leaf: the values of indices, extents, parameters and what is read.
    """
    values = _domain(t, of_leaf)
    if values is None or math.inf in (-values.lo, values.hi):
        return None
    return int(values.lo), int(values.hi)


def _domain(t: Term, of_leaf: Callable[[Term], Interval | None]) -> Dom | None:
    """Return the domain of an integer term of which every part has one."""
    known = of_leaf(t)
    if known is not None:
        return Dom(*known)
    if t.op == "const":
        return Dom(t.attr, t.attr) if t.kind == "int" else None
    if t.op == "fold":
        return _domain(t.args[1], of_leaf) if t.attr.monoid in ("max", "min") else None
    parts = [_domain(a, of_leaf) for a in t.args[t.op == "where" :]]
    operands = [p for p in parts if p is not None]
    is_quotient = t.op in ("floordiv", "mod")
    if len(operands) < len(parts) or (is_quotient and operands[1].zero):
        return None
    match t.op:
        case "add" | "maximum" | "minimum" | "floordiv":
            return TRANSFER[t.op](*operands)
        case "mod":
            values, divisor = TRANSFER[t.op](*operands), operands[1]
            return Dom(values.lo, min(values.hi, max(0, divisor.hi - 1)))
        case "mul":
            return multiply(*operands)
        case "pow":
            return power_of(operands[0], t.attr)
        case "where":
            return hull(*operands)
    return None


def evaluated(
    t: Term, extents: Mapping[str, int], params: Mapping[str, int | float] | None = None
) -> int | None:
    """Return the number that a term is, if all that it depends on is known and whole; of an index
    it is that in the middle."""

    def of_leaf(t: Term) -> Interval | None:
        value: int | float | None = None
        if t.op == "extent":
            value = extents.get(t.attr)
        elif t.op == "param":
            value = (params or {}).get(t.attr)
        elif t.op == "index":
            value = extents[t.extent] // 2
        return None if value is None or isinstance(value, float) else (value, value)

    value = interval(t, of_leaf)
    return None if value is None else value[0]


def extremes(t: Term, ranges: Ranges) -> tuple[Term, Term]:
    """Return the least and the largest value for indices in ranges; t itself if they are not
    known."""
    return _ends(t, ranges) or (t, t)


def _ends(t: Term, ranges: Ranges) -> tuple[Term, Term] | None:
    if t.free.isdisjoint(ranges):
        return t, t
    if t.op == "index":
        return ranges[t.name]
    if t.op in ("add", "maximum", "minimum"):
        ends = [_ends(a, ranges) for a in t.args]
        known = [e for e in ends if e is not None]
        if len(known) < len(ends):
            return None
        low, high = (T.construct(t.op, *side, kind=t.kind) for side in zip(*known, strict=True))
        return low, high
    n = t.args[-1] if t.op in ("mod", "floordiv") else t.args[0]
    if t.op not in ("mod", "floordiv", "mul") or n.op != "const" or n.kind != "int":
        return None
    if t.op == "mod":
        return (T.const(0), T.sub(n, T.const(1))) if n.attr > 0 else None
    rest = T.mul(*t.args[1:]) if t.op == "mul" else t.args[0]
    inside = _ends(rest, ranges)
    if inside is None or (t.op == "floordiv" and n.attr <= 0):
        return None
    low, high = (T.mul(n, e) if t.op == "mul" else T.floordiv(e, n) for e in inside)
    return (low, high) if n.attr > 0 else (high, low)


def is_inside(t: Term, extent: str, bounds: Mapping[str, Term]) -> bool:
    """True if a subscript is a position of an extent, whatever its indices are.

    What simplifies terms supposes that extents are at least 1. Those of the indices are, where
    these have values; from another one nothing may follow.

    Args:
        t: the subscript.
        extent: that of the dimension.
        bounds: the extents that are declared.
    """

    def size(extent: str) -> Term:
        return bounds.get(extent, T.extent_of(extent))

    extents = dict(s.attr for s in T.subterms(t) if s.op == "index")
    ranges = {name: (T.const(0), T.sub(size(e), T.const(1))) for name, e in extents.items()}
    least, largest = extremes(t, ranges)
    beyond = T.sub(size(extent), T.add(largest, T.const(1)))
    mentioned = {s.attr for s in T.subterms(least, beyond) if s.op == "extent"}
    is_known = not t.folded and mentioned <= {*extents.values()}
    return is_known and all(T.compare("<=", T.const(0), x) is T.TRUE for x in (least, beyond))
