"""Centring: of the equal forms of a result, the one that does not cancel.

The normal form writes a variance as a difference of moments and an entropy as a difference of
logits and their mean, which lose all digits where the numbers are large beside their spread. So
sums are taken of distances from a centre: a mean or a maximum that the same loop finds, or, where
sums are products of matrices only about an origin that all means share, one of the elements, read
before the loop. All are one law (`centred`); which centre a sum has is decided for the whole
program.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache

from monocomp import terms as T
from monocomp.extents.domain import split
from monocomp.rewrites.centred import (
    LARGEST_DEGREE,
    Centred,
    Unit,
    Weights,
    centred,
    fold_of,
    opened,
    without,
)
from monocomp.rewriting.rules import Choice, RuleSet
from monocomp.terms import Term
from monocomp.terms.algebra import is_mantissa
from monocomp.terms.equations import Equations
from monocomp.terms.monomials import (
    addends,
    exponent_of,
    factors,
    is_power_in,
    multiple_among,
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
    forms = ((t, form) for t, w in sums(program) for form in _about_means(w, known))
    choice = _shorter(program, (replacing({t: form}, program) for t, form in forms))
    for t, _ in sums(program, inner=True) if choice is None else ():
        correct = _correct(t, known)
        if correct is not None:
            return replacing({t: correct}, program)
    return choice


@centring.choice
def centre_exponents(program: Equations) -> Choice | None:
    """Take sums about a maximum of what they sum, where that cancels by it.

    Law:     `sum[k](g * u) = sum[k](g * (u - m)) + m * sum[k](g)`, in SE as well, and so
             `max[k](u + y) = max[k](u - m + y) + m`, `m - c * m = (not c) * m`,
             `log(z) + (not 0 < z) * m = log(z)`
    Claims:  distributivity, scaled numbers, brackets, units, increasing functions
    Needs:   m = max(u), and fewer operands stand outside of folds
    before:  H[i] = max[k](S[i,k]) - SE[k](S[i,k], S[i,k]).v / SE[k](1, S[i,k]).v
    after:   H[i] = (not 0 < SE[k](1, S[i,k]).v) * max[k](S[i,k]) - SE[k](S[i,k] - max[l](S[i,l]), S[i,k]).v / SE[k](1, S[i,k]).v
    """  # noqa: E501
    terms = T.subterms(*(e.body for e in program.equations))
    extrema = [t for t in terms if _is_extremum(t)]
    uncentred = ((t, w) for t, w in sums(program) if centred(t) is None)  # else about its mean
    forms = ((t, form) for t, w in uncentred for form in _about_maxima(w, extrema))
    choices = (replacing({t: form}, program, _add) for t, form in forms)
    return _shorter(program, itertools.chain(choices, _about_frames(program, extrema)))


def _shorter(program: Equations, choices: Iterable[Choice]) -> Choice | None:
    """Return the first choice that leaves fewer operands outside of folds."""
    length = _operand_count(program)
    return next((c for c in choices if _operand_count(c.program) < length), None)


def sums(program: Equations, inner: bool = False) -> Iterator[tuple[Term, Weights]]:
    """Yield the float sums, plain or in SE, with their values as weights; those that vary with an
    index of other folds if they are wanted as well."""
    for t in T.subterms(*(e.body for e in program.equations)):
        elements = opened(t) if inner or not T.is_open(t) else None
        if elements is not None and (elements.exponent is None or is_mantissa(t)):
            yield t, elements


# --- means ----------------------------------------------------------------------------


def _about_means(weights: Weights, known: frozenset[Term]) -> Iterator[Term]:
    """Yield a sum of powers in terms of those about their mean, of which the total is known."""
    for f in factors(weights.weight):
        unit, power = T.base_and_power(f)
        if not _is_element(unit, weights) or power not in range(2, LARGEST_DEGREE + 1):
            continue
        own = weights._replace(weight=without(weights.weight, f))
        total, count = own.sum(unit), own.sum(T.ONE)
        if T.split_coefficient(total)[1] not in known:
            continue
        if total.free - unit.free and _anchor(own, unit) is T.ZERO:
            continue  # about the anchor these are products of matrices
        mean = own.mean(unit)
        taken = Centred(own, (Unit(unit, mean, int(power)),))
        parts = [(own.whole(taken.coefficient(n, [mean])), s) for n, s in taken.degrees]
        (scale, _), _, *higher = parts
        yield T.add(T.mul(scale, own.whole(count)), *(T.mul(c, s) for c, s in higher))


def _is_element(t: Term, weights: Weights) -> bool:
    """True if a term varies with the elements, and not with results over them."""
    name, extent = weights.bound.attr
    return name in t.free and extent not in t.folded


def _correct(t: Term, known: frozenset[Term]) -> Term | None:
    """Return a sum of powers about means in terms of those about any centres."""
    taken = centred(fold_of(t))
    if taken is None or sum(u.power for u in taken.units) == 1:
        return None
    centres, totals = [], []
    for unit in taken.units:
        weights, origin = taken.mean(unit), unit.centre
        if weights is not None:
            origin = weights.mean(unit.distance)
            if unit.centre.free - unit.distance.free:
                anchor = _origin(taken)
                if anchor is None:
                    return None
                origin = anchor if anchor.free <= unit.distance.free else origin
            totals.append(T.split_coefficient(weights.sum(T.sub(unit.distance, origin)))[1])
        centres.append(origin)
    if known.issuperset(totals):
        return None  # there are no means, or what rounding leaves of each is taken off
    return taken.about(centres)


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
        form = taken.about([origin])
        first = first or (t, form)
        result = replacing({t: form}, result).program
        number, total = T.split_coefficient(weights.sum(unit.distance))
        total_form = T.add(
            weights.sum(T.sub(unit.distance, origin)), T.mul(origin, weights.sum(T.ONE))
        )
        if total is not None:
            totals[total] = T.mul(T.power_of(T.const(number, "float"), -1), total_form)
    for total, form in totals.items():
        result = replacing({total: form}, result).program
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


def _anchor(mean: Weights, distance: Term) -> Term | None:
    """Return a distance at the first place of its domain, 0 if it is one from there. None if that
    is no place for all means, or its weight may be 0.

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
    number, element = primitive(distance, bound.name)
    folds = (t for t in T.subterms(element) if t.op == "fold")
    if any(t.args[0] is not T.TRUE or any(a.folded for a in t.args) for t in folds):
        return None  # at one position, what is filtered and sums of sums are other programs
    at = {bound.name: domain.intervals[0].start}
    is_inside = T.compare("<", at[bound.name], T.extent_of(bound.extent))
    inside = T.conjunction(is_inside, T.substitute(condition, at))
    parts = (T.replace(T.substitute(a, at), inside, T.TRUE) for a in addends(element))
    return T.mul(T.const(number, "float"), T.where(inside, T.add(T.ZERO, *parts), T.ZERO))


# --- maxima ---------------------------------------------------------------------------


def _about_maxima(weights: Weights, extrema: Iterable[Term]) -> Iterator[Term]:
    """Yield a sum of distances from maxima and minima of the same domain."""
    value, moved = weights.weight, T.ZERO
    for m in extrema:
        if T.domain_of(m) == weights.domain:
            body = T.open_as(m, (weights.bound.name,))[1][1]
            multiple = multiple_among(body, addends(value))
            if multiple is not None:
                gone, scale = multiple
                value = T.add(value, *map(T.neg, gone), T.mul(scale, T.sub(body, m)))
                own = weights._replace(weight=scale)
                moved = T.add(moved, T.mul(m, own.whole(own.sum(T.ONE))))
    if moved is not T.ZERO:
        yield T.add(weights._replace(weight=value).sum(T.ONE), moved)


def _is_extremum(t: Term) -> bool:
    return t.op == "fold" and t.attr.monoid in ("max", "min")


def _about_frames(program: Equations, extrema: Iterable[Term]) -> Iterator[Choice]:
    """Yield the choices of weights exp(s + y) by the maximum of s.

    Their frame is taken from it. Where a maximum is of numbers that exp(y) is a factor of, that is
    a value beside exp(s), and may be summed about the maximum.
    """
    frames = {m: opened(m, "@") for m in extrema if not T.is_open(m)}
    maxima = [(m, e.exponent, e) for m, e in frames.items() if e is not None and e.exponent]
    scaled = {t: opened(t, "@") for t, _ in sums(program)}
    for (frame, exponent, whole), (m, s, part) in itertools.permutations(maxima, 2):
        multiple = multiple_among(s, addends(exponent)) if part[:2] == whole[:2] else None
        if multiple is None or not _is_scale(multiple[1], whole.bound):
            continue
        centre, weight = (T.mul(multiple[1], x) for x in (m, s))
        beside = T.sub(exponent, weight)
        numbers = (x for _, x, other in maxima if other[:2] == whole[:2])
        if any(is_power_in(x, beside) for x in numbers):
            left, value, scale = weight, T.exp(beside), T.exp(T.sub(centre, frame))
            forms = {}
        else:
            left, value, scale = T.sub(exponent, centre), T.ONE, T.ONE
            forms = {frame: T.add(whole._replace(exponent=left).frame, centre)}
        for t, e in scaled.items():
            if e is not None and (*e[:2], e.exponent) == (*whole[:2], exponent):
                forms[t] = T.mul(scale, e._replace(exponent=left).sum(value))
        if forms:
            yield replacing(forms, program)


def _is_scale(t: Term, bound: Term) -> bool:
    return bound.name not in t.free and T.is_nonnegative(t)


# --- what is around a sum -------------------------------------------------------------


def replacing(
    forms: Mapping[Term, Term], program: Equations, add: Callable[..., Term] = T.add
) -> Choice:
    """Return the choice of forms in place of terms. Where such a term is a factor beside finite
    ones, the addends are multiplied out, and conditions with them, so that they meet their like."""

    @cache
    def visit(t: Term) -> Term:
        if t in forms:
            return forms[t]
        factor = next((f for f in t.args if f in forms), None) if t.op == "mul" else None
        if factor is not None:
            return _multiplied([visit(f) for f in t.args if f is not factor], forms[factor])
        if t.op == "add":
            return add(*map(visit, t.args))
        return T.map_children(t, visit)

    def replaced(t: Term) -> Term:
        return visit(t) if any(T.holds(t, before) for before in forms) else t

    return Choice(*next(iter(forms.items())), program.map(replaced))


def _multiplied(others: Sequence[Term], total: Term) -> Term:
    if all(map(T.is_finite_if_there, others)):
        return T.add(*(T.mul(*others, a) for a in addends(total)))
    return T.mul(*others, total)


def _add(*terms: Term) -> Term:
    """Add as the program does: a maximum less itself is -inf where it is of nothing. Products are
    multiplied out where that cancels, and m - [c] * m = [not c] * m, which is left out beside
    log(z) if c is 0 < z."""
    total = T.construct("add", *terms)
    parts = addends(total)
    numbers = map(T.split_coefficient, parts)
    logarithms = [x.args[0] for n, x in numbers if n > 0 and x and x.op == "log"]
    for a in parts:
        others = [b for b in parts if b is not a]
        for f in factors(a):
            m = T.neg(without(a, f))
            if f.op == "add":
                new = addends(_multiplied(factors(T.neg(m)), f))
                if any(T.neg(b) in others for b in new):
                    return _add(*others, *new)
            elif T.is_bracket(f) and m in others and not T.may_be_missing(a, logarithms):
                others.remove(m)
                if not all(T.vanishes(logarithms, c) for c in T.conjuncts(f.args[0])):
                    others.append(T.mul(m, T.bracket(T.negate(f.args[0]))))
                return _add(*others)
    return total


def _operand_count(program: Equations) -> int:
    """Count the operands outside of folds, and of what a maximum leaves over nothing."""

    @cache
    def count(t: Term) -> int:
        if t.args[1:] == (T.ZERO, T.NEG_INF) or any(map(_is_of_nothing, factors(t))):
            return 0
        is_fold = t.op in ("fold", "fold_at", "field")
        return len(t.args) + (0 if is_fold else sum(map(count, t.args)))

    return sum(count(e.body) for e in program.equations)


def _is_of_nothing(factor: Term) -> bool:
    """True for [z <= 0], which is 0 where the sum z has an element."""
    c = factor.args[0] if T.is_bracket(factor) else factor
    return c.op == "compare" and c.attr == "<=" and c.args[1] is T.ZERO
