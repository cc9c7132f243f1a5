"""The domain of a fold: the set of a filter as disjoint intervals of the reduced index.

The fold over a disjoint union is the product of the folds, so a fold over intervals
streams just these, one after the other. `and` intersects; `or` keeps one part and adds
what the others have below and above it; `not` has moved inwards, to comparisons, when the
term was built. All intervals of a domain are in ascending order, for every value of what
the bounds depend on, also where one of them is empty.

A comparison that is linear in the index bounds it: `a * k <= f` at f // a for a number a,
and for a factor whose sign is only known at run time at what the sign says. So does one
that is linear in `k // n`, for an n that is not negative. What is left stays a mask on the
interval that holds it: remainders `k % n`, reads along the index, powers of it,
comparisons of floats, and what would take more than `LIMIT` intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache, partial, reduce
from itertools import chain, product

from monocomp import terms as T
from monocomp.declarations.record import record
from monocomp.terms import Term

LIMIT = 4  # more intervals than this are one with a mask: each costs code
MANY = 32  # of so many sets or intervals no few are left: nobody looks for them


@record()
class Interval:
    """{k : l <= k < u for all l in lower, u in upper}, cut to 0 <= k < |k|.

    Where it is `masked` it holds more than the set, and the domain's mask decides.
    """

    lower: tuple[Term, ...] = ()
    upper: tuple[Term, ...] = ()
    masked: bool = False

    @property
    def start(self) -> Term:
        """Return the first element, if there is any."""
        return join((T.const(0), *self.lower), "maximum")

    def end(self, extent: str) -> Term:
        """Return the position after the last element, if there is any."""
        return join((T.extent_of(extent), *self.upper), "minimum")


@record()
class Domain:
    """A set of indices: disjoint intervals in ascending order, and the mask of some.

    The bounds are terms free of the index. The mask is TRUE where nothing is masked; it
    holds for all members, also for those in intervals that are not masked.
    """

    intervals: tuple[Interval, ...]
    mask: Term

    def of_rows(self, extent: str, varies: Callable[[Term], object]) -> Domain:
        """Return the domain for rows of which each has intervals of its own, where a bound varies.
        If all have one width, and that may be 0, then no row has what lies between the bounds of
        two."""
        intervals = []
        for i in self.intervals:
            pairs = [(low, high) for low, high in product(i.lower, i.upper) if varies(low)]
            widths = (T.sub(high, low) for low, high in pairs)
            has_any = T.conjunction(*(T.compare("<", T.const(0), w) for w in widths if not w.free))
            end = () if has_any is T.TRUE else (T.where(has_any, T.extent_of(extent), T.const(0)),)
            intervals.append(replace(i, upper=(*i.upper, *end)))
        return Domain(tuple(intervals), self.mask)


def split(bound: Term, condition: Term) -> Domain:
    """Return the domain of `fold[bound if condition]`."""
    intervals, rest = _Sets(bound).conjunction(T.conjuncts(condition))
    if not any(i.masked for i in intervals):
        rest = []
    return Domain(tuple(intervals) or (Interval(upper=(T.const(0),)),), T.conjunction(*rest))


@lru_cache(maxsize=65536)
def is_at_least(a: Term, b: Term) -> bool:
    """Return whether a >= b, provably."""
    return (
        T.compare("<=", b, a) is T.TRUE
        or (a.op == "maximum" and any(is_at_least(t, b) for t in a.args))
        or (b.op == "minimum" and any(is_at_least(a, t) for t in b.args))
    )


def extreme(terms: Iterable[Term], op: str) -> tuple[Term, ...]:
    """Return fewer terms of the same maximum or minimum: those that another one decides are left
    out, nested ones are written out."""
    kept: list[Term] = []

    def wins(a: Term, b: Term) -> bool:
        return is_at_least(a, b) if op == "maximum" else is_at_least(b, a)

    for t in chain.from_iterable(t.args if t.op == op else (t,) for t in terms):
        if not any(wins(other, t) for other in kept):
            kept = [other for other in kept if not wins(t, other)] + [t]
    return tuple(kept)


def join(terms: Iterable[Term], op: str) -> Term:
    """Return the maximum or minimum as one term."""
    return reduce(partial(T.function, op), sorted(extreme(terms, op), key=lambda t: t.key))


def least_and_end(i: Interval) -> tuple[Term | None, Term | None]:
    """Return the first element and the position after the last, or after nothing at the first: of
    an interval that is empty at run time both are the same position."""
    low = join(i.lower, "maximum") if i.lower else None
    high = join(i.upper, "minimum") if i.upper else None
    if low is not None and high is not None:
        high = join((low, high), "maximum")
    return low, high


def _weakest(bounds: list[tuple[Term, ...]], inner: str, outer: str) -> tuple[Term, ...]:
    """Return bounds that hold for all of several sets, each with bounds of its own."""
    common = tuple(t for t in bounds[0] if all(t in own for own in bounds))
    rest = [tuple(t for t in own if t not in common) for own in bounds]
    return (*common, join((join(own, inner) for own in rest), outer)) if all(rest) else common


class _Sets:
    """Sets of values of one index. A set is a list of intervals as a `Domain` has them."""

    def __init__(self, bound: Term) -> None:
        self.bound = bound
        self.name: str = bound.name
        self.extent = T.extent_of(bound.extent)

    def of(self, condition: Term) -> list[Interval]:
        """Return the set of a condition."""
        if condition.op == "const":
            return [Interval()] if condition.attr else []
        if self.name not in condition.free:  # all or nothing
            return [Interval(upper=(T.where(condition, self.extent, T.const(0)),))]
        if condition.op == "and":
            return self.conjunction(condition.args)[0]
        if condition.op == "or":
            return self.union(condition.args)
        if condition.op == "compare" and condition.args[0].kind == "int":
            interval = self.comparison(condition)
            if interval is not None:
                return interval
        return [Interval(masked=True)]

    # --- and, or ----------------------------------------------------------------------

    def conjunction(self, conditions: Iterable[Term]) -> tuple[list[Interval], list[Term]]:
        """Return the intersection, and those of the conditions that its masked intervals need."""
        sets = {c: self.of(c) for c in conditions}
        several = [c for c in sets if len(sets[c]) > 1]
        if len(several) > MANY:
            sets |= {c: [self.hull(sets[c])] for c in several}
        intervals = self.intersection(sets.values())
        while len(intervals) > LIMIT:
            largest = max(sets, key=lambda c: len(sets[c]))
            sets[largest] = [self.hull(sets[largest])]
            intervals = self.intersection(sets.values())
        return intervals, [c for c, parts in sets.items() if any(i.masked for i in parts)]

    def intersection(self, sets: Iterable[list[Interval]]) -> list[Interval]:
        intervals = [Interval()]
        for parts in sets:
            pairs = (self.meet(a, b) for a in intervals for b in parts)
            intervals = [i for i in pairs if not self.is_empty(i)]
        return intervals

    def meet(self, a: Interval, b: Interval) -> Interval:
        lower = (t for t in (*a.lower, *b.lower) if not is_at_least(T.const(0), t))
        upper = (t for t in (*a.upper, *b.upper) if not is_at_least(t, self.extent))
        return Interval(
            extreme(lower, "maximum"),
            extreme(upper, "minimum"),
            a.masked or b.masked,
        )

    def is_empty(self, i: Interval) -> bool:
        """True if it is provably without an element."""
        return any(
            is_at_least(low, high)
            for low in (T.const(0), *i.lower)
            for high in (self.extent, *i.upper)
        )

    def union(self, conditions: Iterable[Term]) -> list[Interval]:
        """One part after the other is added whole; those before it keep what lies below
        and above it. Masked parts come first, as one, and bounds that vary most last: cut
        at such a bound an interval ends where no other block is needed."""
        masked: list[Interval] = []
        exact: list[Interval] = []
        for c in conditions:
            parts = self.of(c)
            if any(i.masked for i in parts):
                masked.append(self.hull(parts))
            else:
                exact += parts
        intervals = [self.hull(masked)] if masked else []
        for part in sorted(exact, key=_variation):
            low, high = least_and_end(part)
            below = [self.meet(i, Interval(upper=(low,))) for i in intervals] if low else []
            above = [self.meet(i, Interval(lower=(high,))) for i in intervals] if high else []
            intervals = [i for i in (*below, part, *above) if not self.is_empty(i)]
            intervals = self.merge(intervals)
            if len(intervals) > MANY:
                return [self.hull([*intervals, *exact])]
        return intervals if len(intervals) <= LIMIT else [self.hull(intervals)]

    def merge(self, parts: list[Interval]) -> list[Interval]:
        """Join neighbours."""
        merged: list[Interval] = []
        for part in parts:
            joined = self.joined(merged[-1], part) if merged else None
            if joined is None:
                merged.append(part)
            else:
                merged[-1] = joined
        return merged

    def joined(self, first: Interval, second: Interval) -> Interval | None:
        """[a, b) + [b, c) = [min(a, b), max(b, c)), also where one of them is empty; and
        both may be cut at common bounds."""
        if first.masked != second.masked or not second.lower:
            return None
        position = join(second.lower, "maximum")
        if position not in first.upper:
            return None
        common = tuple(t for t in first.upper if t is not position)
        rest = tuple(t for t in second.upper if t not in common)
        if len(rest) + len(common) != len(second.upper):
            return None
        if rest:
            common = (*common, join((position, join(rest, "minimum")), "maximum"))
        return self.meet(Interval(self.lowest([first, second]), common, first.masked), Interval())

    def hull(self, parts: list[Interval]) -> Interval:
        """Return one masked interval that holds all."""
        if not parts:
            return Interval(upper=(T.const(0),))
        upper = _weakest([i.upper for i in parts], "minimum", "maximum")
        return Interval(self.lowest(parts), upper, masked=True)

    def lowest(self, parts: list[Interval]) -> tuple[Term, ...]:
        """Lower bounds that hold for all."""
        return _weakest([i.lower for i in parts], "maximum", "minimum")

    # --- comparisons ------------------------------------------------------------------

    def comparison(self, c: Term) -> list[Interval] | None:
        """Return the values that a comparison of ints admits, if these are intervals."""
        difference = T.sub(c.args[1], c.args[0])
        distance = next((t for t in T.addends(difference) if self.is_distance(t)), None)
        if distance is not None and c.attr in ("<", "<="):
            return self.of(_without_abs(difference, distance, c.attr))
        if c.attr in ("<", "<="):
            interval = self.at_least_0(T.sub(difference, T.const(int(c.attr == "<"))))
            return None if interval is None else [interval]
        above, below = self.at_least_0(difference), self.at_least_0(T.neg(difference))
        if above is None or below is None:
            return None
        equal = self.meet(above, below)
        if c.attr == "==":
            return [equal]
        low, high = least_and_end(equal)
        parts = [Interval(upper=(low,))] if low else []
        parts += [Interval(lower=(high,))] if high else []
        return [i for i in (self.meet(p, Interval()) for p in parts) if not self.is_empty(i)]

    def is_distance(self, addend: Term) -> bool:
        """True if the addend is a multiple of abs(..k..)."""
        base = T.split_coefficient(addend)[1]
        return base is not None and base.op == "abs" and self.name in base.free

    def at_least_0(self, t: Term) -> Interval | None:
        """{k : t >= 0} for t = factor * k + rest, or factor * ((..k..) // n) + rest."""
        addends, number = T.split_addends(t)
        moving = [(n, base) for n, base in addends if self.name in base.free]
        fixed = [T.mul(T.const(int(n)), base) for n, base in addends if self.name not in base.free]
        rest = T.add(*fixed, T.const(number))
        if len(moving) == 1 and moving[0][1].op == "floordiv":
            n, (inner, divisor) = moving[0][0], moving[0][1].args
            if abs(n) == 1 and self.name not in divisor.free and T.is_nonnegative(divisor):
                limit = T.mul(divisor, rest)  # inner >= -limit, or inner <= limit + divisor - 1
                if n < 0:
                    inner = T.sub(T.sub(divisor, T.const(1)), inner)
                interval = self.at_least_0(T.add(limit, inner))
                return interval if interval is None else self.unless_zero(divisor, interval, rest)
        factors = []
        for n, base in moving:
            parts = list(base.args) if base.op == "mul" else [base]
            if self.bound not in parts:
                return None
            parts.remove(self.bound)
            factors.append(T.mul(T.const(int(n)), *parts))
        factor = T.add(T.const(0), *factors)
        if self.name in factor.free:
            return None
        if factor.op == "const":
            return _half_line(int(factor.attr), rest)
        return self.half_line_by_sign(factor, rest)

    def unless_zero(self, divisor: Term, interval: Interval, rest: Term) -> Interval:
        """Return an interval, and if the divisor is 0, and quotients by it are, {k : rest >= 0}."""
        zero, is_there = T.const(0), T.compare("<", T.const(0), divisor)
        if is_there is T.TRUE or T.is_positive(divisor):
            return interval
        all_or_none = T.where(T.compare("<=", zero, rest), self.extent, zero)
        lower = tuple(T.where(is_there, t, zero) for t in interval.lower)
        upper = interval.upper or (self.extent,)
        return Interval(lower, tuple(T.where(is_there, t, all_or_none) for t in upper))

    def half_line_by_sign(self, factor: Term, rest: Term) -> Interval:
        """{k : factor * k + rest >= 0} where the sign of the factor is known at run time."""
        zero = T.const(0)
        rising, falling = T.compare("<", zero, factor), T.compare("<", factor, zero)
        none = T.conjunction(T.compare("==", factor, zero), T.compare("<", rest, zero))
        low = T.neg(T.floordiv(rest, factor))
        high = T.add(T.floordiv(rest, T.neg(factor)), T.const(1))
        lower = () if T.is_nonnegative(rest) else (T.where(rising, low, zero),)
        upper = T.where(falling, high, T.where(none, zero, self.extent))
        return Interval(lower, (upper,))


def _without_abs(t: Term, addend: Term, op: str) -> Term:
    """0 op t, where a multiple of abs(x) is an addend of t: it is the larger of x and -x."""
    number, distance = T.split_coefficient(addend)
    assert distance is not None
    rest, x = T.sub(t, addend), T.mul(T.const(int(number)), distance.args[0])
    sides = (T.compare(op, T.const(0), T.add(rest, signed)) for signed in (x, T.neg(x)))
    return T.conjunction(*sides) if number < 0 else T.disjunction(*sides)


def _half_line(factor: int, other: Term) -> Interval | None:
    """{k : factor * k + rest >= 0}."""
    if factor == 0:
        return None
    quotient = T.floordiv(other, T.const(abs(factor)))
    if factor > 0:
        return Interval(lower=(T.neg(quotient),))
    return Interval(upper=(T.add(quotient, T.const(1)),))


def _variation(i: Interval) -> tuple[int, list[tuple[int, str, str]]]:
    """Return the number of indices that the bounds vary with, and keys that always break ties."""
    bounds = (*i.lower, *i.upper)
    return len(frozenset().union(*(t.free for t in bounds))), [t.key for t in bounds]
