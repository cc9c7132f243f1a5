"""Centring: of the equal forms of a result, the one that does not cancel.

The normal form writes a variance as a difference of moments and an entropy as a difference of
logits and their mean, which lose all digits where the numbers are large beside their spread. So
sums are taken of distances from a centre: a mean or a maximum that the same loop finds, or, where
sums are products of matrices only about an origin that all means share, one of the elements, read
before the loop. All are one law (`centred`); which centre a sum has is decided for the whole
program.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from fractions import Fraction
from functools import cache

from monocomp import terms as T
from monocomp.extents.domain import split
from monocomp.rewrites.centred import (
    LARGEST_DEGREE,
    Centred,
    Unit,
    Weights,
    centred,
    times,
)
from monocomp.rewriting.rules import Choice, RuleSet
from monocomp.terms import Term
from monocomp.terms.algebra import is_mantissa
from monocomp.terms.equations import Equations
from monocomp.terms.monomials import (
    addends,
    exponent_of,
    factors,
    primitive,
    without_exponent,
)

centring = RuleSet("centring", "sums are taken about a centre, where that is more accurate")
anchoring = RuleSet("anchoring", "powers about a mean are about an element, to be differentiated")


@centring.choice
def centre_powers(program: Equations) -> Choice | None:
    """Take sums of powers about a centre.

    It is their mean, where that cancels by it. A sum of powers about a mean is made of those about
    any centre: the mean of the distances, which rounding leaves, is taken off. So the centre is the
    mean as the loop rounds it, or, where the mean varies with an index that the elements lack, an
    element that is read before the loop.

    Law:     `sum[k](w * u ** n) = sum[j](binomial(n, j) * c ** (n - j) * sum[k](w * (u - c) ** j))`,
             where `sum[k](w * (u - c)) = 0` for the mean `c = sum[k](w * u) / sum[k](w)`
    Claims:  moments, distributivity
    Needs:   fewer operands stand outside of folds, or it is a sum about a mean
    before:  V[i] = sum[k](X[i,k] ** 2) - sum[k](X[i,k]) ** 2 / |k|
    after:   V[i] = sum[k]((X[i,k] - sum[l](X[i,l]) / sum[l](1.0)) ** 2) - sum[k](X[i,k] - sum[l](X[i,l]) / sum[l](1.0)) ** 2 / sum[k](1.0)
    """  # noqa: E501
    known = frozenset(T.subterms(*(e.body for e in program.equations)))
    choice = _shorter(program, lambda weights: _about_means(weights, known))
    for t, _ in sums(program, inner=True) if choice is None else ():
        correct = _correct(t, known)
        if correct is not None:
            return replacing(t, correct, program)
    return choice


@centring.choice
def centre_exponents(program: Equations) -> Choice | None:
    """Take sums about a maximum of what they sum, where that cancels by it.

    Law:     `sum[k](g * u) = sum[k](g * (u - m)) + m * sum[k](g)`, in SE as well,
             `m - c * m = (not c) * m`, and `log(z) + (not 0 < z) * m = log(z)`
    Claims:  distributivity, scaled numbers, brackets, units
    Needs:   m = max(u), and fewer operands stand outside of folds
    before:  H[i] = max[k](S[i,k]) - SE[k](S[i,k], S[i,k]).v / SE[k](1, S[i,k]).v
    after:   H[i] = (not 0 < SE[k](1, S[i,k]).v) * max[k](S[i,k]) - SE[k](S[i,k] - max[l](S[i,l]), S[i,k]).v / SE[k](1, S[i,k]).v
    """  # noqa: E501
    terms = T.subterms(*(e.body for e in program.equations))
    extrema = [t for t in terms if _is_extremum(t)]
    return _shorter(program, lambda weights: _about_maxima(weights, extrema))


def _shorter(program: Equations, forms: Callable[[Weights], Iterable[Term]]) -> Choice | None:
    """Return the first choice of a form of a sum that leaves fewer operands outside of folds."""
    length = _operand_count(program)
    for t, weights in sums(program):
        for form in forms(weights):
            choice = replacing(t, form, program)
            if _operand_count(choice.program) < length:
                return choice
    return None


def sums(program: Equations, inner: bool = False) -> Iterator[tuple[Term, Weights]]:
    """Yield the float sums, plain or in SE, with their values as weights; those that vary with an
    index of other folds if they are wanted as well."""
    for t in T.subterms(*(e.body for e in program.equations)):
        fold = t.args[0] if is_mantissa(t) else t
        if (T.is_open(t) and not inner) or t.kind != "float" or fold.op != "fold":
            continue
        if len(fold.attr.indices) == 1 and (is_mantissa(t) or fold.attr.monoid == "sum"):
            (bound,), (condition, value, *exponent) = T.open_fold(fold)
            yield t, Weights(bound, condition, value, exponent[0] if is_mantissa(t) else None)


# --- means ----------------------------------------------------------------------------


def _about_means(weights: Weights, known: frozenset[Term]) -> Iterator[Term]:
    """Yield a sum of powers in terms of those about their mean, of which the total is known."""
    for f in factors(weights.weight):
        unit, power = T.base_and_power(f)
        if not _is_element(unit, weights) or power not in range(2, LARGEST_DEGREE + 1):
            continue
        own = weights._replace(weight=_without(weights.weight, f))
        total, count = own.sum(unit), own.sum(T.ONE)
        if T.split_coefficient(total)[1] not in known:
            continue
        if total.free - unit.free and _is_about(_anchor(own, unit), unit):
            continue  # about the anchor these are products of matrices
        mean = own.mean(unit)
        taken = Centred(own, (Unit(unit, mean, int(power)),))
        scales = [(n, own.whole(taken.coefficient(n, [mean])), s) for n, s in taken.degrees]
        (_, scale, _), _, *higher = scales
        parts = (T.mul(scale, s) for _, scale, s in higher)
        yield T.add(times(scale, own.whole(count)), *parts)


def _is_element(t: Term, weights: Weights) -> bool:
    """True if a term varies with the elements, and not with results over them."""
    name, extent = weights.bound.attr
    return name in t.free and extent not in t.folded


def _correct(t: Term, known: frozenset[Term]) -> Term | None:
    """Return a sum of powers about means in terms of those about any centres."""
    taken = centred(t.args[0] if is_mantissa(t) else t)
    if taken is None or sum(u.power for u in taken.units) == 1:
        return None
    centres, moves, totals = [], [], []
    for unit in taken.units:
        weights = taken.mean(unit)
        origin = unit.centre if weights is None else weights.mean(unit.distance)
        if weights is not None and unit.centre.free - unit.distance.free:
            anchor = _origin(taken)
            if anchor is None:
                return None
            if anchor.free <= unit.distance.free:
                origin = T.ZERO if _is_about(anchor, unit.distance) else anchor
        centres.append(origin)
        distance = T.sub(unit.distance, origin)
        moves.append(T.ZERO if weights is None else T.neg(weights.mean(distance)))
        if weights is not None:
            totals.append(T.split_coefficient(weights.sum(distance))[1])
    if known.issuperset(totals):
        return None  # there are no means, or what rounding leaves of each is taken off
    return taken.about(centres).moved(moves)


# --- elements, read before the loop ---------------------------------------------------


@anchoring.choice
def anchor_powers(program: Equations) -> Choice | None:
    """Take sums of powers about an element instead of a mean, and so their total.

    Where a mean varies with an index that the elements lack, the derivatives of a sum about it are
    no products of matrices, and the mean has a part in them that is 0. About an element they are
    products, and no digits are lost. What the element is does not matter: it has no derivative.

    Law:     `sum[k](w * (u - c) ** n)
             = sum[j](binomial(n, j) * (a - c) ** (n - j) * sum[k](w * (u - a) ** j))`
    Claims:  moments, distributivity, interchange
    Needs:   c is the mean of the same weights, which varies with an index that the elements lack; a
             is the first element
    before:  V[i,e] = sum[k](exp(S[i,k]) * (X[k,e] - sum[l](exp(S[i,l]) * X[l,e]) / sum[l](exp(S[i,l]))) ** 2)
    after:   V[i,e] = sum[k](exp(S[i,k]) * (X[k,e] - stop(X[0,e])) ** 2) - sum[k](exp(S[i,k]) * (X[k,e] - stop(X[0,e]))) ** 2 / sum[k](exp(S[i,k]))
    """  # noqa: E501
    result, first = program, None
    totals: dict[Term, Term] = {}
    for t, _ in sums(program):
        taken = centred(t)
        origin = None if taken is None else _origin(taken)
        if taken is None or origin is None:
            continue
        ((unit,), weights), origin = (taken.units, taken.weights), T.function("stop", origin)
        distance = T.sub(unit.distance, origin)
        form = taken.about([origin]).moved([T.neg(weights.mean(distance))])
        first = first or (t, form)
        result = replacing(t, form, result).program
        number, total = T.split_coefficient(weights.sum(unit.distance))
        total_form = T.add(weights.sum(distance), T.mul(origin, weights.sum(T.ONE)))
        if total is not None:
            totals[total] = T.mul(T.power_of(T.const(number, "float"), -1), total_form)
    for total, form in totals.items():
        result = replacing(total, form, result).program
    return None if first is None else Choice(*first, result)


def _origin(taken: Centred) -> Term | None:
    """Return an element for the mean of the same weights, if it varies with an index that the
    elements lack."""
    (unit, *others) = taken.units
    weights = taken.mean(unit)
    if others or weights != taken.weights or not unit.centre.free - unit.distance.free:
        return None
    anchor = _anchor(taken.weights, unit.distance)
    return None if anchor is T.ZERO else anchor


def _is_about(anchor: Term | None, distance: Term) -> bool:
    """True if all addends of the anchor are taken away from the distance already."""
    if anchor is None:
        return False
    numbers = {rest: n for n, rest in map(T.split_coefficient, addends(distance))}
    wanted = {rest: n for n, rest in map(T.split_coefficient, addends(anchor))}
    return all(numbers.get(rest, 0) * n < 0 for rest, n in wanted.items())


def _anchor(mean: Weights, distance: Term) -> Term | None:
    """Return what varies in the distances, at the first place of their domain; 0 where there is
    none. None if that is no place for all means, or its weight may be 0.

    An exponential that varies with an index that the elements lack is taken to be more than 0.
    """
    bound, condition = mean.bound, mean.condition
    exponents = [*addends(exponent_of(mean.weight)), *addends(mean.exponent or T.ZERO)]
    own = distance.free | {bound.name}
    is_weighed = all(map(T.is_positive, factors(without_exponent(mean.weight)))) and not any(
        T.is_weight_there(a) for a in exponents if a.free <= own
    )
    domain = split(bound, condition)
    if not is_weighed or domain.mask is not T.TRUE or len(domain.intervals) > 1:
        return None
    position = domain.intervals[0].start
    varying = T.add(T.ZERO, *(a for a in addends(distance) if bound.name in a.free))
    number, element = primitive(varying, bound.name)
    folds = (t for t in T.subterms(element) if t.op == "fold")
    if any(t.args[0] is not T.TRUE or any(a.folded for a in t.args) for t in folds):
        return T.ZERO  # at one position, what is filtered and sums of sums are other programs
    condition, element = (T.substitute(t, {bound.name: position}) for t in (condition, element))
    inside = T.conjunction(T.compare("<", position, T.extent_of(bound.extent)), condition)
    return T.mul(T.const(number, "float"), T.where(inside, element, T.ZERO))


# --- maxima ---------------------------------------------------------------------------


def _about_maxima(weights: Weights, extrema: Iterable[Term]) -> Iterator[Term]:
    """Yield a sum of distances from maxima and minima of the same domain."""
    (name, _), parts = weights.bound.attr, list(addends(weights.weight))
    outside: list[tuple[Term, Term]] = []
    for m in extrema:
        if T.domain_of(m) != weights.domain:
            continue
        body = T.open_as(m, (name,))[1][1]
        number = _multiple(body, parts)
        if number is not None:
            outside.append((m, number))
            parts.append(T.neg(T.mul(number, m)))
            continue
        for position, part in enumerate(parts):
            if body in factors(part):
                rest = _without(part, body)
                outside.append((m, rest))
                parts[position] = T.mul(rest, T.sub(body, m))
    if outside:
        counts = ((m, weights._replace(weight=g)) for m, g in outside)
        moved = (T.mul(m, w.whole(w.sum(T.ONE))) for m, w in counts)
        yield T.add(weights._replace(weight=T.add(*parts)).sum(T.ONE), *moved)


def _multiple(body: Term, parts: list[Term]) -> Term | None:
    """Return c, if c times each addend of the body is among the parts."""
    first, *_ = addends(body)
    number, rest = T.split_coefficient(first)
    for part in parts if rest is not None else ():
        ours, same = T.split_coefficient(part)
        ratio = ours / number
        if same is rest and isinstance(ratio, Fraction):  # infinities have none
            c = T.const(ratio, "float")
            if all(T.mul(c, a) in parts for a in addends(body)):
                return c
    return None


def _is_extremum(t: Term) -> bool:
    return t.op == "fold" and t.attr.monoid in ("max", "min")


# --- what is around a sum -------------------------------------------------------------


def replacing(before: Term, after: Term, program: Equations) -> Choice:
    """Return the choice of a sum in place of a term. Where the term is a factor beside finite ones,
    the addends are multiplied out, and conditions with them, so that they meet their like."""

    @cache
    def visit(t: Term) -> Term:
        if t is before:
            return after
        if t.op == "mul" and before in t.args:
            return _multiplied([*(visit(f) for f in t.args if f is not before)], after)
        if t.op == "add":
            return _cancelled(_added(list(map(visit, t.args))))
        return T.map_children(t, visit)

    return Choice(before, after, program.map(lambda t: visit(t) if T.holds(t, before) else t))


def _multiplied(others: list[Term], total: Term) -> Term:
    if all(map(T.is_finite_if_there, others)):
        return T.add(*(T.mul(*others, a) for a in addends(total)))
    return T.mul(*others, total)


def _is_far(addend: Term) -> bool:
    return any(map(_is_extremum, factors(addend)))


def _added(parts: list[Term]) -> Term:
    """Return a sum: a maximum less itself is 0, or -inf where it is of nothing."""
    total, flat = T.add(*parts), {a for t in parts for a in addends(t)}
    far = (a for a in flat if _is_far(a) and T.split_coefficient(a)[0] > 0)
    gone = [a for a in far if T.neg(a) in flat]
    weights = _under_logarithms(total)
    exceeds = (T.compare("<", T.NEG_INF, a) for a in gone if not _is_more_than_nothing(a, weights))
    return T.add(total, *(T.where(c, T.ZERO, T.NEG_INF) for c in exceeds))


def _cancelled(t: Term) -> Term:
    """m - [c] * m = [not c] * m, and log(z) + [not 0 < z] * m = log(z), for a maximum m"""
    shorter = _cancel_addend(t)
    if shorter is not None:
        return _cancelled(shorter)
    logarithms = _under_logarithms(t)
    for a in filter(_is_far, addends(t)):
        for f in filter(T.is_bracket, factors(a)):
            whole, conditions = T.neg(_without(a, f)), T.conjuncts(f.args[0])
            weights = list(_nonzero(conditions))
            if whole not in addends(t):
                continue
            if not _is_more_than_nothing(whole, [*logarithms, *weights]):
                continue
            others = [b for b in addends(t) if b is not a and b is not whole]
            if not logarithms.issuperset(weights) or len(weights) < len(conditions):
                others.append(T.mul(whole, T.bracket(T.negate(f.args[0]))))
            return _cancelled(T.add(T.ZERO, *others))
    return t


def _cancel_addend(t: Term) -> Term | None:
    """p * (x + y) - p * x = p * y, where p * x is more than -inf"""
    for a in t.args if t.op == "add" else ():
        for f in factors(a):
            if f.op == "add":
                others = [g for g in factors(a) if g is not f]
                parts = [T.mul(*others, b) for b in f.args]
                gone = [p for p in parts if T.neg(p) in t.args]
                conditions = (c for g in others if T.is_bracket(g) for c in T.conjuncts(g.args[0]))
                weights = [*_nonzero(conditions), *_under_logarithms(f)]
                if gone and all(_is_more_than_nothing(p, weights) for p in gone):
                    return T.add(*(b for b in t.args if b is not a), *parts)
    return None


def _under_logarithms(total: Term) -> set[Term]:
    """z of the addends c * log(z) with c > 0: where it is 0, the total is -inf"""
    parts = map(T.split_coefficient, addends(total))
    return {x.args[0] for number, x in parts if x is not None and x.op == "log" and number > 0}


def _nonzero(conditions: Iterable[Term]) -> Iterator[Term]:
    """Yield z of the conditions 0 < z and z != 0."""
    for c in conditions:
        if c.op == "compare" and c.attr in ("<", "!=") and c.args[0] is T.ZERO:
            yield c.args[1]


def _is_more_than_nothing(product: Term, weights: Collection[Term]) -> bool:
    """True if a product is -inf nowhere: its maxima are of something beside weights."""

    weights = [*weights, *factors(product)]  # where one of these is 0, so is the product

    def is_finite(f: Term) -> bool:
        if f.op == "pow" and f.attr < 0:
            return True  # what it divides is 0 as well, or unspecified
        if f.op != "fold" or f.attr.monoid not in ("max", "min"):
            return T.is_finite_if_read(f)
        sides = (T.NEG_INF, f) if f.attr.monoid == "max" else (f, T.INF)
        return T.is_unmasked(f) or T.vanishes(weights, T.compare("<", *sides))

    return all(map(is_finite, factors(product)))


def _without(product: Term, factor: Term) -> Term:
    return T.mul(T.ONE, *(f for f in factors(product) if f is not factor))


def _operand_count(program: Equations) -> int:
    """Count the operands outside of folds, except those under negated conditions, which a maximum
    leaves over nothing."""
    counts: dict[Term, int] = {}

    def count(t: Term) -> int:
        if t not in counts:
            is_fold = t.op in ("fold", "fold_at", "field")
            is_of_nothing = t.args[1:] == (T.ZERO, T.NEG_INF) or (
                t.op == "mul" and any(map(_is_of_nothing, t.args))
            )
            counts[t] = 0 if is_of_nothing else len(t.args)
            counts[t] += 0 if is_of_nothing or is_fold else sum(map(count, t.args))
        return counts[t]

    return sum(count(e.body) for e in program.equations)


def _is_of_nothing(t: Term) -> bool:
    """True for [z <= 0], which is 0 where the sum z has an element."""
    c = t.args[0] if T.is_bracket(t) else t
    return c.op == "compare" and c.attr == "<=" and c.args[1] is T.ZERO
