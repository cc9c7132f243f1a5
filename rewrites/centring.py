"""Centring: of the equal forms of a result, the one that does not cancel.

The normal form writes a variance as a difference of moments and an entropy as a difference
of logits and their mean, which lose all digits where the numbers are large beside their
spread. Sums are therefore taken about a centre that moves with the loop (see `moving_centres`
beside this): powers about their mean, exponents about their maximum; and a mean about one of its
elements. Each choice is made for the whole program, where it shortens it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import cache

from monocomp import terms as T
from monocomp.extents.domain import split
from monocomp.rewrites.moving_centres import (
    LARGEST_DEGREE,
    Centred,
    Mean,
    Unit,
    centred,
    weighted_sum,
)
from monocomp.rewriting.driver import Rewriter
from monocomp.rewriting.rules import Choice, RuleSet
from monocomp.terms import Term
from monocomp.terms.algebra import is_mantissa
from monocomp.terms.emptiness import Product
from monocomp.terms.equations import Equations
from monocomp.terms.monomials import addends, factors, monomial, primitive

centring = RuleSet("centring", "sums are taken about a centre, where that is more accurate")


@centring.rule
def distribute_bracket(t: Term) -> Term | None:
    """A condition is said of each addend, where an addend meets its like by that.

    Law:     [c] * (a + b) - a = [c] * a + [c] * b - a
    Claims:  distributivity
    Needs:   a holds a maximum or minimum, and is taken away with the condition or without; where
             that is over nothing, the condition fails, or a logarithm that is added is -inf, too
    before:  Y[i] = (0 < X[i]) * (max[k](Q[d] * K[k,d]) + B[i]) - (0 < X[i]) * max[k](Q[d] * K[k,d])
    after:   Y[i] = (0 < X[i]) * B[i]
    """
    if t.op != "add":
        return None
    for a in t.args:
        for f in factors(a) if any(map(T.is_bracket, factors(a))) else ():
            if f.op == "add":
                others = [g for g in factors(a) if g is not f]
                parts = [T.mul(*others, b) for b in f.args]
                if any(_meets_its_like(p, t.args) for p in parts if _has_extremum(p, t)):
                    return T.add(*(b for b in t.args if b is not a), *parts)
    return None


def _meets_its_like(part: Term, others: tuple[Term, ...]) -> bool:
    without = T.mul(T.ONE, *(g for g in factors(part) if not T.is_bracket(g)))
    return T.neg(part) in others or T.neg(without) in others


@centring.rule
def complement_bracket(t: Term) -> Term | None:
    """What is there without a condition and taken away with it is left where it fails.

    Law:     a - [c] * a = [not c] * a
    Claims:  brackets
    Needs:   a holds a maximum or minimum; where that is over nothing, the condition fails, or a
             logarithm that is added is -inf, too
    before:  Y[i] = max[k](Q[i,d] * K[k,d]) - (0 < X[i]) * max[k](Q[i,d] * K[k,d])
    after:   Y[i] = (not (0 < X[i])) * max[k](Q[i,d] * K[k,d])
    """
    if t.op != "add":
        return None
    for a in t.args:
        for f in factors(a):
            if T.is_bracket(f) and _has_extremum(a, t):
                without = T.neg(T.mul(T.ONE, *(g for g in factors(a) if g is not f)))
                if without in t.args:
                    rest = (b for b in t.args if b is not a and b is not without)
                    return T.add(*rest, T.mul(without, T.bracket(T.negate(f.args[0]))))
    return None


def _has_extremum(a: Term, total: Term) -> bool:
    """Has an addend a maximum or minimum as a factor, which leaves nothing behind if it is taken
    away from itself? Over nothing, or a row of masks, that is -inf; unless the condition says that
    something is there, or a logarithm that is added is -inf, too."""
    extrema = [f for f in factors(a) if f.op == "fold" and f.attr.monoid in ("max", "min")]
    conditions = (c for f in factors(a) if T.is_bracket(f) for c in T.conjuncts(f.args[0]))
    there = Product([*_under_logarithms(total), *_not_nothing(conditions)])

    def is_there(m: Term) -> bool:
        sides = (T.NEG_INF, m) if m.attr.monoid == "max" else (m, T.INF)
        return T.is_unmasked(m) or there.says(T.compare("<", *sides))

    return bool(extrema) and all(map(is_there, extrema))


@centring.rule
def drop_beside_logarithm(t: Term) -> Term | None:
    """What is added to the logarithm of a sum over nothing does not count.

    Law:     log(z) + [not 0 < z] * a = log(z), because log(0) = -inf
    Claims:  logarithm of nothing
    before:  Y[i] = log(sum[k](exp(S[i,k]))) + (not (0 < sum[k](exp(S[i,k])))) * B[i]
    after:   Y[i] = log(sum[k](exp(S[i,k])))
    """
    if t.op != "add":
        return None
    logarithms = _under_logarithms(t)
    return T.add(*(a for a in t.args if logarithms.isdisjoint(_zeros(a))))


def _under_logarithms(total: Term) -> set[Term]:
    """z of the addends c * log(z) with c > 0: where it is 0 of nothing, the total is -inf."""
    parts = map(T.split_coefficient, total.args)
    return {x.args[0] for number, x in parts if x is not None and x.op == "log" and number > 0}


def _zeros(t: Term) -> Iterator[Term]:
    """What is 0 wherever t is not: z in a product with the factor [not 0 < z]."""
    for f in filter(T.is_bracket, factors(t)):
        yield from _not_nothing(map(T.negate, T.conjuncts(f.args[0])))


def _not_nothing(conditions: Iterable[Term]) -> Iterator[Term]:
    """z in the conditions 0 < z and z != 0."""
    for c in conditions:
        if c.attr in ("<", "!=") and c.args[0] is T.ZERO:
            yield c.args[1]


@centring.rule
def common_count(t: Term) -> Term | None:
    """A count that all addends under a power are multiplied with leaves it.

    Moments have counts as divisors, of which some cancel once they are about their mean.

    Law:     (n * p) ** m = n ** m * p ** m
    Claims:  common factors
    Needs:   n is an extent
    before:  Y[i] = 1 / (|i| * X[i] + |i| * B[i])
    after:   Y[i] = 1 / (|i| * (X[i] + B[i]))
    """
    if t.op != "pow" or t.args[0].op != "add":
        return None
    powers = [monomial(a).powers for a in t.args[0].args]
    for base in powers[0]:
        least = min(p.get(base, Fraction(0)) for p in powers)
        if base.op == "cast" and base.args[0].op == "extent" and least > 0:
            inverse = T.power_of(base, -least)
            rest = T.add(*(T.mul(a, inverse) for a in t.args[0].args))
            return T.mul(T.power_of(base, least * t.attr), T.power_of(rest, t.attr))
    return None


def replacing(before: Term, after: Term, program: Equations) -> Choice:
    """The choice of a sum in place of a term; where the term is a factor beside finite ones, the
    addends are multiplied out, so that they meet their like."""

    @cache
    def visit(t: Term) -> Term:
        if t is before:
            return after
        if t.op == "mul" and before in t.args:
            others = [visit(f) for f in t.args if f is not before]
            if all(map(T.is_finite_if_there, others)):
                return T.add(*(T.mul(*others, a) for a in addends(after)))
            return T.mul(*others, after)
        if t.op == "add":  # of what cancels nothing is left: it is no number where it is infinite
            return T.add(*map(visit, t.args))
        return T.map_children(t, visit)

    return Choice(before, after, program.map(lambda t: visit(t) if T.holds(t, before) else t))


def sums(
    program: Equations, inner: bool = False
) -> Iterator[tuple[Term, Term, Term, Term, Term | None]]:
    """(term, bound, condition, value, exponent) of the float sums, plain or in SE; those that vary
    with an index of other folds if they are wanted, too."""
    for t in T.subterms(*(e.body for e in program.equations)):
        fold = t.args[0] if is_mantissa(t) else t
        if (T.is_open(t) and not inner) or t.kind != "float":
            continue
        if fold.op == "fold" and len(fold.attr.indices) == 1:
            (bound,), (condition, value, *exponent) = T.open_fold(fold)
            if is_mantissa(t):
                yield t, bound, condition, value, exponent[0]
            elif fold.attr.monoid == "sum":
                yield t, bound, condition, value, None


def _operand_count(program: Equations) -> int:
    """How many operands stand outside of folds."""
    counts: dict[Term, int] = {}

    def count(t: Term) -> int:
        if t not in counts:
            inside = t.op in ("fold", "fold_at", "field")
            counts[t] = len(t.args) + (0 if inside else sum(map(count, t.args)))
        return counts[t]

    return sum(count(e.body) for e in program.equations)


@centring.choice
def centre_moments(program: Equations) -> Choice | None:
    """Powers are summed about their mean.

    Law:     sum(w * u ** n) = sum_j binomial(n, j) * c ** (n - j) * sum(w * (u - c) ** j), where
             sum(w * (u - c)) = 0 for the mean c = sum(w * u) / sum(w)
    Claims:  moments
    Needs:   the program gets shorter by it: the power of the mean cancels
    before:  V[i] = sum[k](X[i,k] ** 2) - sum[k](X[i,k]) ** 2 / |k|
    after:   V[i] = sum[k]((X[i,k] - sum[l](X[i,l]) / sum[l](1.0)) ** 2)
    """
    known = set(T.subterms(*(e.body for e in program.equations)))
    for t, bound, condition, value, exponent in sums(program):
        for f in factors(value):
            unit, power = T.base_and_power(f)
            if bound.attr[0] not in unit.free or bound.attr[1] in unit.folded:
                continue
            if power.denominator != 1 or not 2 <= power <= LARGEST_DEGREE:
                continue
            weight = T.mul(T.ONE, *(g for g in factors(value) if g is not f))
            total = weighted_sum(bound, condition, T.mul(weight, unit), exponent)
            if T.split_coefficient(total)[1] not in known:
                continue
            if total.free - unit.free:
                anchor = anchor_of(Mean(bound, condition, weight, exponent), unit)
                if anchor is not None and _is_about(anchor, unit):
                    continue  # about the anchor these are products of matrices, see anchor_means
            new = _about_mean(bound, condition, weight, unit, int(power), exponent)
            choice = replacing(t, new, program)
            if _operand_count(choice.program) < _operand_count(program):
                return choice
    return None


def _about_mean(
    bound: Term, condition: Term, weight: Term, unit: Term, power: int, exponent: Term | None
) -> Term:
    """The power sum in terms of those about the mean."""

    def sum_of(value: Term) -> Term:
        return weighted_sum(bound, condition, value, exponent)

    total, count = sum_of(T.mul(weight, unit)), sum_of(weight)
    centre = T.mul(total, T.power_of(count, -1))
    whole = _whole_count(bound, condition, weight, count)
    parts = [T.mul(T.power_of(total, power), T.power_of(whole, 1 - power))]
    for n in range(2, power + 1):
        central = sum_of(T.mul(weight, T.power_of(T.sub(unit, centre), n)))
        shift = T.mul(T.power_of(total, power - n), T.power_of(whole, n - power))
        parts.append(T.mul(T.const(math.comb(power, n), "float"), shift, central))
    return T.add(*parts)


def _whole_count(bound: Term, condition: Term, weight: Term, count: Term) -> Term:
    """The count as the normal form writes it; while the loop runs it must be counted."""
    if weight is T.ONE and condition is T.TRUE and count.op == "fold":
        return T.as_float(T.extent_of(bound.attr[1]))
    return count


@centring.choice
def anchor_means(program: Equations) -> Choice | None:
    """The centre of a sum is a mean of distances from one of the elements, read before the loop.

    Where the mean varies with an index that the elements lack, sums of powers about it would
    be no products of matrices; about the anchor they are.

    Law:     sum(w * u) / sum(w) = a + sum(w * (u - a)) / sum(w), and the law of centre_moments
    Claims:  moments
    Needs:   a sum of powers about the mean, which has the same weights if it varies with more
             indices; a is the first element whose weight is not 0, as far as that is the same for
             all means
    before:  V[i] = sum[k]((X[i,k] - sum[l](X[i,l]) / sum[l](1.0)) ** 2)
    after:   V[i] = sum[k]((X[i,k] - where(0 < |k|, X[i,0], 0) - sum[l](X[i,l] - where(0 < |k|, X[i,0], 0)) / sum[l](1.0)) ** 2)
    """  # noqa: E501
    for t, _, _, _, _ in sums(program, inner=True):
        taken = centred(t.args[0] if is_mantissa(t) else t)
        for position, unit in enumerate(() if taken is None else taken.units):
            mean = None if taken is None else taken.mean(unit)
            anchor = None if mean is None else anchor_of(mean, unit.distance)
            if taken is None or mean is None or anchor is None:
                continue
            if _is_about(anchor, unit.distance):
                anchor = T.ZERO  # its centre is one that counts elements, if it is not yet
            distance = T.sub(unit.distance, anchor)
            if unit.centre.free <= unit.distance.free:
                units = list(taken.units)
                units[position] = Unit(distance, mean.of(distance), unit.power)
                after = taken.sum_of(taken.element(units))
                if after is not t:
                    return Choice.replacing(t, after, program)
                continue
            weights = (taken.weight, taken.exponent)
            is_own = len(taken.units) == 1 and (mean.weight, mean.exponent) == weights
            if is_own and anchor is not T.ZERO:
                return replacing(t, about_anchor(taken, distance), program)
    return None


def _is_about(anchor: Term, distance: Term) -> bool:
    """Are all addends of the anchor taken away from the distance already?"""
    taken = {rest: n for n, rest in map(T.split_coefficient, addends(distance))}
    wanted = {rest: n for n, rest in map(T.split_coefficient, addends(anchor))}
    return all(taken.get(rest, 0) * n < 0 for rest, n in wanted.items())


def anchor_of(mean: Mean, distance: Term) -> Term | None:
    """What varies in the distances, at the first place whose weight is not 0; 0 where there is
    none. None if other positions are the first for other means.

    Where means vary with an index that the elements lack, an exponential that varies with it, too,
    is taken to be more than 0.
    """
    bound, condition = mean.bound, mean.condition
    exponents = [] if mean.exponent is None else list(addends(mean.exponent))
    weights = [f for f in factors(mean.weight) if not T.is_positive(f)]
    own = distance.free | {bound.attr[0]}
    everywhere = all(t.free <= own for t in (*exponents, *weights))
    if (everywhere and (exponents or weights)) or not all(w.free <= own for w in weights):
        return None
    there = [T.is_weight_there(a) for a in exponents if a.free <= own]
    is_there = T.conjunction(
        *(c for c in there if c is not None), *(T.compare("!=", w, T.ZERO) for w in weights)
    )
    return _element(bound, condition, distance, _first(bound, condition, is_there))


def _first(bound: Term, condition: Term, is_there: Term) -> Term:
    """The first place of a domain where a condition holds, if there is one."""
    domain = split(bound, condition)
    if is_there is T.TRUE and domain.mask is T.TRUE:
        *starts, position = (i.start for i in domain.intervals)
        for start in reversed(starts):
            position = T.where(T.substitute(condition, {bound.attr[0]: start}), start, position)
        return position
    return T.fold("argmax", (bound,), T.TRUE, T.as_int(T.conjunction(condition, is_there)))


def _element(bound: Term, condition: Term, distance: Term, position: Term) -> Term:
    """What varies in the distances, at a position of the domain, or 0 where that is left out."""
    varying = T.add(T.ZERO, *(a for a in addends(distance) if bound.attr[0] in a.free))
    number, element = primitive(varying, bound.attr[0])
    folds = (t for t in T.subterms(element) if t.op == "fold")
    if any(t.args[0] is not T.TRUE or any(a.folded for a in t.args) for t in folds):
        return T.ZERO  # at one position, what is filtered and sums of sums are other programs
    is_there = T.compare("<", position, T.extent_of(bound.attr[1]))
    here, read = {bound.attr[0]: position}, {bound.attr[0]: position}
    if position.op == "index" and position.attr[1] != bound.attr[1]:
        # A read with a plain index says that the tensor has its extent, a computed one does not.
        read = {bound.attr[0]: T.function("maximum", position, T.const(0))}
    inside = T.conjunction(
        is_there,
        *(
            T.substitute(c, read if any(s.op == "read" for s in T.subterms(c)) else here)
            for c in T.conjuncts(condition)
        ),
    )
    element = T.substitute(element, read)
    return T.mul(T.const(number, "float"), T.where(inside, element, T.ZERO))


def about_anchor(taken: Centred, distance: Term) -> Term:
    """The power sum about the mean in terms of those of the distances from the anchor."""
    (unit,) = taken.units

    def sum_of(power: int) -> Term:
        return taken.sum_of(T.mul(taken.weight, T.power_of(distance, power)))

    count, total = sum_of(0), sum_of(1)
    parts = [sum_of(unit.power)]
    for n in range(unit.power):
        power = unit.power - n
        sign = T.const(math.comb(unit.power, n) * (-1) ** power, "float")
        parts.append(T.mul(sign, T.power_of(total, power), T.power_of(count, -power), sum_of(n)))
    return T.add(*parts)


@centring.choice
def centre_on_maximum(program: Equations) -> Choice | None:
    """Exponents are summed as distances from their maximum.

    Law:     SE(g * u, s).v = SE(g * (u - m), s).v + m * SE(g, s).v
    Claims:  distributivity, scaled numbers, brackets
    Needs:   m = max(u) is known, and fewer maxima stand outside of folds afterwards
    before:  H[i] = max[k](S[i,k]) - SE[k](S[i,k], S[i,k]).v / SE[k](1, S[i,k]).v
    after:   H[i] = (not 0 < SE[k](1, S[i,k]).v) * max[k](S[i,k]) - SE[k](S[i,k] - max[l](S[i,l]), S[i,k]).v / SE[k](1, S[i,k]).v
    """  # noqa: E501
    terms = [*T.subterms(*(e.body for e in program.equations))]
    extrema = [t for t in terms if _is_extremum(t)]
    counts: dict[Term, int] = {}
    for t, bound, condition, value, exponent in sums(program):
        if exponent is None:
            continue
        domain = T.domain_of(T.fold("sum", (bound,), condition, T.ONE))
        same = [m for m in extrema if T.domain_of(m) == domain]
        centres = {m: T.open_as(m, (bound.attr[0],))[1][1] for m in same}
        moved, outside = _about(value, centres)
        if not outside:
            continue
        new = T.add(
            weighted_sum(bound, condition, moved, exponent),
            *(T.mul(c, m, weighted_sum(bound, condition, g, exponent)) for c, m, g in outside),
        )
        choice = _settled(replacing(t, new, program), terms)
        if _bare_extrema(choice.program, counts) < _bare_extrema(program, counts):
            return choice
    return None


def _about(value: Term, centres: dict[Term, Term]) -> tuple[Term, list[tuple[Term, Term, Term]]]:
    """(value with distances from the centres, [(number, centre, what it is multiplied with)])."""
    parts = list(addends(value))
    outside: list[tuple[Term, Term, Term]] = []
    for centre, body in centres.items():
        found = _multiple(body, parts)
        if found is not None:
            number = T.const(found, "float")
            outside.append((number, centre, T.ONE))
            parts.append(T.neg(T.mul(number, centre)))
            continue
        for position, part in enumerate(parts):
            for f in factors(part):
                if f is body:
                    rest = T.mul(T.ONE, *(g for g in factors(part) if g is not f))
                    outside.append((T.ONE, centre, rest))
                    parts[position] = T.mul(rest, T.sub(f, centre))
    return T.add(*parts), outside


def _multiple(body: Term, parts: list[Term]) -> Fraction | None:
    """c, if c times each addend of the body is among the parts."""
    first, *_ = addends(body)
    number, rest = T.split_coefficient(first)
    if rest is None:
        return None
    for part in parts:
        ours, same = T.split_coefficient(part)
        ratio = ours / number
        if (
            same is rest
            and isinstance(ratio, Fraction)  # infinities have none
            and all(T.mul(T.const(ratio, "float"), a) in parts for a in addends(body))
        ):
            return ratio
    return None


def _settled(choice: Choice, before: Iterable[Term]) -> Choice:
    """The choice with its brackets brought together, but for those before."""
    rewriter = Rewriter(choice.program)
    rewriter.exhaust(RuleSet(centring.name, centring.purpose, centring.rules), before)
    return Choice(choice.before, choice.after, rewriter.program)


def _is_extremum(t: Term) -> bool:
    return t.op == "fold" and t.attr.monoid in ("max", "min")


def _bare_extrema(program: Equations, counts: dict[Term, int]) -> int:
    """How often a maximum or minimum stands outside of folds, but for where there is nothing
    else; `counts` are those of terms."""

    def count(t: Term) -> int:
        if t.op == "fold":
            return int(_is_extremum(t))
        if t not in counts:
            nothing_else = any(T.is_bracket(f) and f.args[0].op == "not" for f in t.args)
            skipped = t.op == "mul" and nothing_else
            counts[t] = 0 if skipped else sum(map(count, t.args))
        return counts[t]

    return sum(count(e.body) for e in program.equations)
