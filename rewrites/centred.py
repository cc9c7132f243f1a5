"""Centred numbers: sums of powers of distances from a centre, which may be moved.

The sums of degrees 0 .. n about one centre give those about another, by the binomial theorem:

    sum w (u - c') ** n = sum_j binomial(n, j) (c - c') ** (n - j) sum w (u - c) ** j

So a loop carries a sum about a mean or a maximum c that it finds itself, together with the sums of
lower degrees, in the frame of what it has seen so far; and parts of a sum about centres of their
own are merged. These are the actions of Welford (1962) and of Chan, Golub and LeVeque (1983) for
means, and that of the entropy for maxima. The centre may be any number: what rounding leaves of a
distance from it is moved as well.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import NamedTuple

from monocomp import terms as T
from monocomp.declarations.record import record
from monocomp.rewriting.rules import Rule
from monocomp.terms import Term
from monocomp.terms.algebra import SE_PAIR, is_mantissa, mantissa
from monocomp.terms.monomials import addends, factors, primitive

LARGEST_DEGREE = 8


class Weights(NamedTuple):
    """The weights of a sum over a domain, times exp(exponent) in SE."""

    bound: Term
    condition: Term
    weight: Term
    exponent: Term | None = None

    def sum(self, value: Term) -> Term:
        """sum(weight * value), or the mantissa of that in SE, of primitive factors."""
        coefficient, rest = T.split_coefficient(T.mul(self.weight, value))
        parts = [primitive(f, self.bound.name) for f in factors(T.ONE if rest is None else rest)]
        number = T.const(coefficient * math.prod(n for n, _ in parts), "float")
        value = T.mul(T.ONE, *(f for _, f in parts))
        if self.exponent is not None:
            return T.mul(number, mantissa(self.bound, self.condition, value, self.exponent))
        return T.mul(number, T.fold("sum", (self.bound,), self.condition, value))

    def mean(self, value: Term) -> Term:
        """sum(weight * value) / sum(weight). Elements are counted, so that it is a mean while a
        loop runs as well."""
        return T.mul(self.sum(value), T.power_of(self.sum(T.ONE), -1))

    @property
    def frame(self) -> Term:
        """Return the largest exponent."""
        exponent = T.ZERO if self.exponent is None else self.exponent
        return T.fold("max", (self.bound,), self.condition, exponent)

    @property
    def domain(self) -> tuple[object, ...]:
        """Return the domain of the sum, as `terms.domain_of` gives it."""
        return T.domain_of(T.fold("sum", (self.bound,), self.condition, T.ONE))

    def whole(self, t: Term) -> Term:
        """Write a count of all elements as the normal form does, after the loop."""
        count = self.sum(T.ONE)
        if self.weight is T.ONE and count.op == "fold" and self.condition is T.TRUE:
            return T.replace(t, count, T.as_float(T.extent_of(self.bound.extent)))
        return t


@record()
class Unit:
    """(distance - centre) ** power, where the centre is free of the bound index."""

    distance: Term
    centre: Term
    power: int

    def __call__(self, power: int) -> Term:
        """Return another power of the unit."""
        return T.power_of(T.sub(self.distance, self.centre), power)


@record()
class Centred:
    """The sum of weights * units, or the largest exponent of one, whose exponents may be distances
    as well."""

    weights: Weights
    units: tuple[Unit, ...]
    exponent: Unit | None = None

    @property
    def every_unit(self) -> tuple[Unit, ...]:
        """Return the units, and the exponent if that is one."""
        return self.units if self.exponent is None else (*self.units, self.exponent)

    @cached_property
    def degrees(self) -> tuple[tuple[tuple[int, ...], Term], ...]:
        """Return the sums that a move needs, by degrees. The sum itself comes last."""
        powers = itertools.product(*(range(u.power + 1) for u in self.units))
        return tuple((degrees, self.weights.sum(self._element(degrees))) for degrees in powers)

    def _element(self, degrees: Sequence[int]) -> Term:
        return T.mul(T.ONE, *(u(n) for u, n in zip(self.units, degrees, strict=True)))

    def coefficient(self, degrees: tuple[int, ...], moves: Sequence[Term]) -> Term:
        """Return the factor of the sum of these degrees.

        Args:
            moves: the old centres minus the new ones.
        """
        parts = []
        for unit, n, move in zip(self.units, degrees, moves, strict=True):
            parts.append(T.const(math.comb(unit.power, n), "float"))
            parts.append(T.power_of(move, unit.power - n))
        return T.mul(*parts)

    def about(self, centres: Sequence[Term]) -> Term:
        """Return the sum by those about other centres, for centres that are means or stay: the mean
        of the distances from another centre is the distance of the mean."""
        pairs = zip(self.units, centres, strict=True)
        moved = replace(self, units=tuple(replace(u, centre=c) for u, c in pairs))
        means = map(self.mean, self.units)
        moves = [
            T.neg(w.mean(u(1))) if w else T.ZERO for w, u in zip(means, moved.units, strict=True)
        ]
        return T.add(*(T.mul(self.coefficient(n, moves), s) for n, s in moved.degrees))

    def mean(self, unit: Unit) -> Weights | None:
        """Return the weights by which the centre of a unit is its mean, if it is one."""
        return _weights_of_mean(unit, self.weights.bound, self.weights.condition)

    def results(self) -> set[Term]:
        """Return the folds of this domain that the centres are made of, and theirs, if these move
        as well. What stands in the elements of another fold is known before."""
        domain = self.weights.domain
        terms: set[Term] = set()
        stack = [u.centre for u in self.every_unit]
        while stack:
            t = stack.pop()
            if t.op == "fold" and T.domain_of(t) == domain and not T.is_open(t):
                terms.add(t)
                moving = centred(t)
                stack += [u.centre for u in moving.every_unit] if moving is not None else []
            else:
                stack += t.args
        return terms

    def companions(self) -> set[Term]:
        """Return the folds that a loop carries to move the sum: those of the centres, and the sums
        of lower degrees."""
        sums = (fold_of(f) for _, s in self.degrees[:-1] for f in factors(s))
        return self.results().union(f for f in sums if f.op == "fold")


@lru_cache(maxsize=4096)
def _weights_of_mean(unit: Unit, bound: Term, condition: Term) -> Weights | None:
    _, x = primitive(unit.distance, bound.name)
    for f in factors(unit.centre):
        total = None if bound.name in f.free else opened(f, bound.name)
        if total is None or (total.bound, total.condition) != (bound, condition):
            continue
        if x in factors(total.weight):
            weights = total._replace(weight=without(total.weight, x))
            mean = weights.mean(unit.distance)
            if unit.centre in (mean, weights.whole(mean)):
                return weights
    return None


def opened(t: Term, name: str | None = None) -> Weights | None:
    """Return the elements of a float sum over one index, plain or in SE, as weights. A maximum is
    the exponent of such a sum."""
    fold = fold_of(t)
    if fold.op != "fold" or len(fold.attr.indices) != 1 or fold.kind != "float":
        return None
    if fold.attr.monoid not in ("sum", "max", SE_PAIR):
        return None
    (bound,), parts = T.open_fold(fold) if name is None else T.open_as(fold, (name,))
    if fold.attr.monoid == "max":
        return Weights(bound, parts[0], T.ONE, parts[1])
    return Weights(bound, *parts)


def fold_of(t: Term) -> Term:
    """Return the fold of which a mantissa is the value; other terms as they are."""
    return t.args[0] if is_mantissa(t) else t


def without(product: Term, factor: Term) -> Term:
    """Return a product without a factor."""
    return T.mul(T.ONE, *(f for f in factors(product) if f is not factor))


def centred(fold: Term) -> Centred | None:
    """Take apart a fold whose earlier results over its own domain are all centres."""
    parts = _apart(fold)
    if parts is not None:
        move_centre.require_proved()
    return parts


@lru_cache(maxsize=4096)
def _apart(fold: Term) -> Centred | None:
    """Carry a sum about centres that its own loop computes together with them.

    Law:     `sum[k](w * (u - a) ** n)
             = sum[j](binomial(n, j) * (c - a) ** (n - j) * sum[k](w * (u - c) ** j))`
    Claims:  moments
    """
    elements = opened(fold) if fold.op == "fold" else None
    if elements is None:
        return None
    (name, extent), value, exponent = elements.bound.attr, elements.weight, elements.exponent

    def is_own(g: Term) -> bool:
        return g.op == "fold" and T.domain_of(g) == T.domain_of(fold)

    def is_result(t: Term) -> bool:
        return name not in t.free and any(map(is_own, T.subterms(t)))

    def unit(t: Term, power: int) -> Unit | None:
        centre = [a for a in addends(t) if is_result(a)]
        distance = [a for a in addends(t) if a not in centre]
        if not centre or not distance:
            return None
        return Unit(T.add(*distance), T.neg(T.add(*centre)), power)

    if all(extent not in t.folded for t in (value, exponent) if t is not None):
        return None
    units: list[Unit] = []
    weight: list[Term] = []
    for f in factors(value):
        base, power = T.base_and_power(f)
        is_power = power.denominator == 1 and 1 <= power <= LARGEST_DEGREE
        u = unit(base, int(power)) if is_power else None
        if u is None:
            weight.append(f)
        else:
            units.append(u)
    weights = elements._replace(weight=T.mul(T.ONE, *weight))
    shift = None if exponent is None else unit(exponent, 1)
    taken = Centred(weights, tuple(units), shift)
    parts = [weights.weight, *(u.distance for u in taken.every_unit)]
    parts += [exponent] if shift is None and exponent is not None else []
    if not taken.every_unit or any(is_result(t) for p in parts for t in T.subterms(p)):
        return None
    centres = T.subterms(*(u.centre for u in taken.every_unit))
    others = (g for g in centres if g.op in ("fold", "fold_at") and not is_own(g))
    if any(is_result(t) for g in others for t in T.subterms(*g.args)):
        return None  # another fold would begin anew wherever this one has come to
    return taken


move_centre = Rule("move_centre", _apart)
