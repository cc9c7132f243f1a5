"""Integer terms as intervals: the one evaluator of sizes, subscripts and lengths.

The ends of an interval are numbers, or terms where they are known at run time only. A number that
is known is an interval of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Generic, TypeAlias, TypeVar

from monocomp import terms as T
from monocomp.terms import Term

V = TypeVar("V")
Interval: TypeAlias = tuple[int, int]  # the least value and the largest
Ranges: TypeAlias = Mapping[str, tuple[Term, Term]]  # by index: its first and its last value
_MONOTONE = ("add", "maximum", "minimum")


@dataclass(frozen=True)
class Arithmetic(Generic[V]):
    """What the ends of intervals are.

    Attributes:
        number: an end that is known.
        apply: a monotone operation on two ends.
        corners: the interval of a product or a quotient, where it is known.
        others: the interval of what else has one.
    """

    number: Callable[[int], V]
    apply: Callable[[str, V, V], V]
    corners: Callable[[str, tuple[V, V], tuple[V, V]], tuple[V, V] | None]
    others: Callable[[Term, Callable[[Term], tuple[V, V] | None]], tuple[V, V] | None]


def interval(t: Term, of_leaf: Callable[[Term], Interval | None]) -> Interval | None:
    """The values that an integer term takes, or None where nothing is known.

    Args:
        t: an integer term.
        of_leaf: the values of indices, extents, parameters and what is read.
    """
    return interval_in(_NUMBERS, t, of_leaf)


def interval_in(
    arithmetic: Arithmetic[V], t: Term, of_leaf: Callable[[Term], tuple[V, V] | None]
) -> tuple[V, V] | None:
    """The same with ends of any kind; `of_leaf` may know larger terms, too."""

    def of(t: Term) -> tuple[V, V] | None:
        found = of_leaf(t)
        if found is not None:
            return found
        if t.op == "const":
            end = arithmetic.number(int(t.attr))
            return (end, end) if t.kind == "int" else None
        if t.op not in (*_MONOTONE, "mul", "floordiv"):
            return arithmetic.others(t, of)
        found = of(t.args[0])
        for a in t.args[1:]:
            found = joined(t.op, found, of(a))
        return found

    def joined(op: str, a: tuple[V, V] | None, b: tuple[V, V] | None) -> tuple[V, V] | None:
        if a is None or b is None:
            return None
        if op in _MONOTONE:
            return arithmetic.apply(op, a[0], b[0]), arithmetic.apply(op, a[1], b[1])
        return arithmetic.corners(op, a, b)

    return of(t)


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
        return None if found is None or isinstance(found, float) else (found, found)

    found = interval(t, of_leaf)
    return None if found is None else found[0]


def _of_numbers(op: str, a: int, b: int) -> int:
    return a + b if op == "add" else max(a, b) if op == "maximum" else min(a, b)


def _corners_of_numbers(op: str, a: Interval, b: Interval) -> Interval | None:
    if op == "floordiv" and b[0] <= 0 <= b[1]:
        return None
    found = [x * y if op == "mul" else x // y for x, y in product(a, b)]
    return min(found), max(found)


def _others_in_numbers(t: Term, of: Callable[[Term], Interval | None]) -> Interval | None:
    match t.op:
        case "where":
            return _hull([of(a) for a in t.args[1:]])
        case "fold" if t.attr.monoid in ("max", "min"):
            return of(t.args[1])
        case "pow" if t.attr.denominator == 1 and t.attr > 0:
            return _power(of(t.args[0]), int(t.attr))
        case "mod":
            a, b = map(of, t.args)
            return None if a is None or b is None else _remainder(a, b)
    return None


def _corners_of_terms(
    op: str, a: tuple[Term, Term], b: tuple[Term, Term]
) -> tuple[Term, Term] | None:
    """The interval of a product with a number, or of a quotient by one that is positive."""
    if op == "mul" and a[0].op == "const":
        a, b = b, a
    n = b[0]
    if n.op != "const" or n is not b[1] or (op == "floordiv" and n.attr <= 0):
        return None
    low, high = (T.mul(n, end) if op == "mul" else T.floordiv(end, n) for end in a)
    return (low, high) if n.attr > 0 else (high, low)


def _others_in_terms(
    t: Term, of: Callable[[Term], tuple[Term, Term] | None]
) -> tuple[Term, Term] | None:
    """The interval of a remainder of a number that is positive."""
    n = t.args[1] if t.op == "mod" else T.const(0)
    is_known = n.op == "const" and n.kind == "int" and n.attr > 0
    return (T.const(0), T.sub(n, T.const(1))) if is_known else None


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


_NUMBERS: Arithmetic[int] = Arithmetic(int, _of_numbers, _corners_of_numbers, _others_in_numbers)
TERMS: Arithmetic[Term] = Arithmetic(
    T.const,
    lambda op, a, b: T.add(a, b) if op == "add" else T.function(op, a, b),
    _corners_of_terms,
    _others_in_terms,
)


def extremes(t: Term, ranges: Ranges) -> tuple[Term, Term]:
    """The least and the largest value for indices in ranges; t itself if they are not known."""

    def known(t: Term) -> tuple[Term, Term] | None:
        if t.free.isdisjoint(ranges):
            return t, t
        return ranges[t.attr[0]] if t.op == "index" else None

    return interval_in(TERMS, t, known) or (t, t)


def is_inside(t: Term, extent: str, bounds: Mapping[str, Term]) -> bool:
    """Is a subscript a position of an extent, whatever its indices are?

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
