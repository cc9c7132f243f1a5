"""Sums about a moving centre: which folds can be carried while their centre still moves.

The elements of a fold may hold an earlier result c over the same domain, a mean or a
maximum, as a centre: w * (u - c) ** n. While the loop runs, c is only known for the part
that was seen. But a sum about one centre gives the sum about another, by the binomial
theorem, from the sums of lower degree:

    sum w (u - c') ** n = sum_j binomial(n, j) (c - c') ** (n - j) sum w (u - c) ** j

So the sums of degrees 0 .. n are carried together, in the frame of what is known so far;
these are the actions of Welford (1962) and of Chan, Golub and LeVeque (1983) for means, and
that of the entropy for maxima.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from monocomp import terms as T
from monocomp.rewriting.rules import Rule
from monocomp.terms import Term
from monocomp.terms.algebra import SE_PAIR, is_mantissa, mantissa
from monocomp.terms.monomials import addends, factors, primitive

LARGEST_DEGREE = 8


@dataclass(frozen=True)
class Unit:
    """(distance - centre) ** power, where the centre is free of the bound index."""

    distance: Term
    centre: Term
    power: int


@dataclass(frozen=True)
class Centred:
    """The sum over `bound` of weight * units [* exp(exponent), in SE]."""

    fold: Term
    bound: Term
    condition: Term
    weight: Term
    exponent: Term | None
    units: tuple[Unit, ...]

    def element(self, units: Sequence[Unit]) -> Term:
        """weight * product of (distance - centre) ** power."""
        powers = (T.power_of(T.sub(u.distance, u.centre), u.power) for u in units)
        return T.mul(self.weight, *powers)

    def sum_of(self, value: Term) -> Term:
        """The fold of other values with the same weight and domain."""
        return weighted_sum(self.bound, self.condition, value, self.exponent)

    @cached_property
    def companions(self) -> tuple[tuple[tuple[int, ...], Term], ...]:
        """The sums of lower degrees that a move needs, by degree; those that are 0 whatever
        the elements are, sums of distances from their own mean, are left out."""
        return tuple(self._companions())

    def _companions(self) -> Iterator[tuple[tuple[int, ...], Term]]:
        for degrees in itertools.product(*(range(u.power + 1) for u in self.units)):
            if degrees == tuple(u.power for u in self.units):
                continue
            units = tuple(
                Unit(u.distance, u.centre, n) for u, n in zip(self.units, degrees, strict=True) if n
            )
            if len(units) == 1 and units[0].power == 1 and self._is_mean(units[0]):
                continue
            yield degrees, self.sum_of(self.element(units))

    def count(self) -> Term:
        """sum(weight)."""
        return self.sum_of(self.weight)

    def mean(self, unit: Unit) -> Mean | None:
        """What the centre of a unit is the mean of, if it is one."""
        return mean(unit.centre, unit.distance, self.bound, self.condition)

    def _is_mean(self, unit: Unit) -> bool:
        total = self.sum_of(T.mul(self.weight, unit.distance))
        return unit.centre is T.mul(total, T.power_of(self.count(), -1))

    def results(self) -> set[Term]:
        """The folds of this domain that the centres are made of, and theirs, if these move, too.
        What stands in the elements of another fold is known before."""
        found: set[Term] = set()
        stack = [u.centre for u in self.units]
        while stack:
            t = stack.pop()
            if t.op == "fold" and _same_domain(t, self.fold) and not T.is_open(t):
                found.add(t)
                moving = centred(t)
                stack += [u.centre for u in moving.units] if moving is not None else []
            else:
                stack += t.args
        return found


@dataclass(frozen=True)
class Mean:
    """sum(weight * u) / sum(weight) over a domain, the weights times exponentials in SE."""

    bound: Term
    condition: Term
    weight: Term
    exponent: Term | None

    def of(self, value: Term) -> Term:
        """The mean of a value. Elements are counted, so that it is one while a loop runs, too."""
        return T.mul(self._sum(T.mul(self.weight, value)), T.power_of(self._sum(self.weight), -1))

    def is_of(self, value: Term, centre: Term) -> bool:
        """Is this mean of a value the centre?"""
        if centre is self.of(value):
            return True
        if self.exponent is not None or self.weight is not T.ONE or self.condition is not T.TRUE:
            return False
        count = T.as_float(T.extent_of(self.bound.attr[1]))
        return centre is T.mul(self._sum(value), T.power_of(count, -1))

    def _sum(self, value: Term) -> Term:
        return weighted_sum(self.bound, self.condition, value, self.exponent)


@lru_cache(maxsize=4096)
def mean(centre: Term, distance: Term, bound: Term, condition: Term) -> Mean | None:
    """The mean of the distance over the domain that the centre is, for some weights."""
    name, extent = bound.attr
    _, unit = primitive(distance, name)
    for f in factors(centre):
        total = f.args[0] if is_mantissa(f) else f
        if total.op != "fold" or total.attr.extents != (extent,):
            continue
        if total.attr.monoid not in ("sum", SE_PAIR) or name in total.free:
            continue
        _, (domain, value, *exponent) = T.open_as(total, (name,))
        if domain is not condition or unit not in factors(value):
            continue
        weight = T.mul(T.ONE, *(g for g in factors(value) if g is not unit))
        found = Mean(bound, condition, weight, exponent[0] if exponent else None)
        if found.is_of(distance, centre):
            return found
    return None


def weighted_sum(bound: Term, condition: Term, value: Term, exponent: Term | None) -> Term:
    """sum(value), or in SE the mantissa of sum(value * exp(exponent)), of primitive factors."""
    coefficient, rest = T.split_coefficient(T.as_float(value))
    taken = [primitive(f, bound.attr[0]) for f in factors(T.ONE if rest is None else rest)]
    number = T.const(coefficient * math.prod(n for n, _ in taken), "float")
    value = T.mul(T.ONE, *(f for _, f in taken))
    if exponent is not None:
        return T.mul(number, mantissa(bound, condition, value, exponent))
    return T.mul(number, T.fold("sum", (bound,), condition, value))


def _same_domain(a: Term, b: Term) -> bool:
    return T.domain_of(a) == T.domain_of(b)


def _inside_of_folds(t: Term, of: Term) -> Iterator[Term]:
    """What the folds in t consist of, but for those over the same domain."""
    for g in T.subterms(t):
        if g.op in ("fold", "fold_at") and (g.op == "fold_at" or not _same_domain(g, of)):
            yield from T.subterms(*g.args)


def centred(fold: Term) -> Centred | None:
    """A fold whose earlier results over its own domain are all centres, taken apart; None,
    too, where the law by which they move is not proved."""
    taken = _apart(fold)
    return taken if taken is None or move_centre.unproved is None else None


@lru_cache(maxsize=4096)
def _apart(fold: Term) -> Centred | None:
    """A sum about centres that its own loop computes is carried with them.

    Law:     sum(w * (u - c') ** n) = sum_j binomial(n, j) * (c - c') ** (n - j)
             * sum(w * (u - c) ** j)
    Claims:  moments
    """
    if fold.op != "fold" or len(fold.attr.indices) != 1:
        return None
    if fold.attr.monoid not in ("sum", SE_PAIR) or fold.kind != "float":
        return None
    (bound,), (condition, value, *exponent) = T.open_fold(fold)
    name, extent = bound.attr[0], bound.attr[1]

    def is_result(t: Term) -> bool:
        return name not in t.free and any(
            g.op == "fold" and _same_domain(g, fold) for g in T.subterms(t)
        )

    if extent not in value.folded or any(map(is_result, exponent)):
        return None
    units: list[Unit] = []
    weight: list[Term] = []
    for f in factors(value):
        base, power = T.base_and_power(f)
        centre = [a for a in addends(base) if is_result(a)]
        distance = [a for a in addends(base) if a not in centre]
        if centre and distance and power.denominator == 1 and 1 <= power <= LARGEST_DEGREE:
            units.append(Unit(T.add(*distance), T.neg(T.add(*centre)), int(power)))
        else:
            weight.append(f)
    rest = T.mul(T.ONE, *weight)
    parts = [rest, *(u.distance for u in units)]
    if not units or any(is_result(t) for p in parts for t in T.subterms(p)):
        return None
    if any(is_result(t) for u in units for t in _inside_of_folds(u.centre, fold)):
        return None  # another fold would begin anew wherever this one has come to
    return Centred(fold, bound, condition, rest, exponent[0] if exponent else None, tuple(units))


move_centre = Rule("move_centre", _apart)


def coefficient(centred_fold: Centred, degrees: tuple[int, ...], moves: list[Term]) -> Term:
    """What the companion of these degrees is multiplied with; `moves` are the old centres
    minus the new ones."""
    parts = []
    for unit, n, move in zip(centred_fold.units, degrees, moves, strict=True):
        parts.append(T.const(math.comb(unit.power, n), "float"))
        parts.append(T.power_of(move, unit.power - n))
    return T.mul(*parts)
