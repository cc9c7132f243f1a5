"""What does not vary with the index of a fold leaves it: factors, addends, conditions."""

from __future__ import annotations

from typing import Any

from monocomp import terms as T
from monocomp.rewrites.single_folds import is_fold, opened_fold, reads_computed, weight_of
from monocomp.rewriting.rules import RuleSet
from monocomp.terms import Term
from monocomp.terms.emptiness import Product
from monocomp.terms.monomials import (
    addends,
    beside_weight,
    exponent_of,
    factors,
    primitive,
)

hoisting = RuleSet("hoisting", "factors, addends and conditions that do not vary leave folds")


@hoisting.rule
def filter_bracket(t: Term) -> Term | None:
    """A factor that is 0 where a condition fails makes the condition a filter.

    Law:     elements that are 0, the unit of the sum, can be left out
    Claims:  units
    Needs:   a condition: [c], or where(c, x, 0)
    before:  A[i] = sum[k]((k <= i) * X[i,k])
    after:   A[i] = sum[k if k <= i](X[i,k])
    """
    if not is_fold(t, "sum"):
        return None
    bound, _, condition, body = opened_fold(t)
    zero, one = T.const(0, body.kind), T.const(1, body.kind)
    masks: list[Term] = []
    values: list[Term] = []
    for f in factors(body):
        mask, value = (f.args[0], one) if T.is_bracket(f) else _unmasked(f, zero)
        masks.append(mask)
        values.append(value)
    if all(m is T.TRUE for m in masks):
        return None
    value = T.mul(one, *values)
    known = frozenset(T.conjuncts(condition))
    needed = (c for m in masks for c in T.conjuncts(m) if not _says(value, c, known))
    return T.fold("sum", (bound,), T.conjunction(condition, *needed), value)


def _says(value: Term, condition: Term, known: frozenset[Term]) -> bool:
    """Is a product 0 where the condition fails, if other conditions hold?"""
    powers = [T.base_and_power(f) for f in factors(value)]
    over = [base for base, power in powers if power > 0]
    under = [base for base, power in powers if power < 0]
    return Product(over, under, known).says(condition)


def _unmasked(t: Term, unit: Term) -> tuple[Term, Term]:
    """(condition, value) of a term that is the unit where the condition fails."""
    if t.op == "where" and t.args[2] is unit:
        return t.args[0], t.args[1]
    if t.op == "where" and t.args[1] is unit:
        return T.negate(t.args[0]), t.args[2]
    return T.TRUE, t


@hoisting.rule
def filter_masked_extremum(t: Term) -> Term | None:
    """A maximum over elements that a condition sets to -inf is a filtered maximum.

    Law:     elements equal to the unit can be left out
    Claims:  units
    before:  M[i] = max[k](where(k <= i, S[i,k], -inf))
    after:   M[i] = max[k if k <= i](S[i,k])
    """
    if not is_fold(t, "max", "min"):
        return None
    bound, _, condition, body = opened_fold(t)
    unit = T.NEG_INF if t.attr.monoid == "max" else T.INF
    masks: list[Term] = []
    values: list[Term] = []
    for a in addends(body):
        mask, value = _unmasked(a, unit)
        masks.append(mask)
        values.append(value)
    if all(m is T.TRUE for m in masks):
        return None
    return T.fold(t.attr.monoid, (bound,), T.conjunction(condition, *masks), T.add(*values))


@hoisting.rule
def hoist_equal(t: Term) -> Term | None:
    """What does not vary with the index by what the filter says is equal leaves the sum, too.

    Law:     [a = b] * f(a) = [a = b] * f(b)
    Claims:  brackets
    Needs:   ints, as floats that are equal may be 0 and -0; no part of a share; no sums, which
             would be taken of what no element has, too
    before:  A[i] = sum[k if i == k // 2](X[i,k] * exp(Y[k // 2]))
    after:   A[i] = sum[k if i == k // 2](X[i,k] * exp(Y[i + 0]))
    """
    if not is_fold(t, "sum"):
        return None
    bound, name, condition, body = opened_fold(t)
    equal = list(T.equal_ints(condition))

    def fixed(part: Term) -> Term:
        found = part
        for one, other in equal:
            if one.op != "index":
                found = T.replace(found, one, other)
        return part if name in found.free or found.folded else found

    share, rest = T.shares(body, T.conjuncts(condition))
    parts = list(factors(rest))
    found = [
        T.exp(T.add(T.ZERO, *map(fixed, addends(f.args[0])))) if f.op == "exp" else fixed(f)
        for f in parts
    ]
    if found == parts:
        return None
    given = [f for f in factors(share) if f is not T.ONE]
    return T.fold("sum", (bound,), condition, T.mul(T.const(1, body.kind), *given, *found))


@hoisting.rule
def hoist_factor(t: Term) -> Term | None:
    """A factor that does not vary with the index leaves the sum.

    What it reads at a computed position stays guarded by the filter.

    Law:     sum(a * x) = a * sum(x)
    Claims:  distributivity, exponentials
    Needs:   a positive factor, where the elements are divided by what may be of nothing: 0 over
             that is 0; of an exponent what is a number where a filter may leave no element; no part
             of a share of what is given, which is at most 1
    before:  A[i] = sum[k](exp(S[i,k] - M[i]) * X[k] / Z[i])
    after:   A[i] = exp(-M[i]) / Z[i] * sum[k](exp(S[i,k]) * X[k])
    """
    if not is_fold(t, "sum"):
        return None
    bound, name, condition, body = opened_fold(t)
    outside: list[Term] = []
    inside: list[Term] = []

    def leaves(a: Term) -> bool:
        is_number = T.is_finite_if_read(a) or bool(a.folded)
        return name not in a.free and (is_number or T.has_element(t))

    share, rest = T.shares(body, T.conjuncts(condition))
    for factor in factors(rest):
        if factor.op == "exp" and name in factor.free:
            fixed = [a for a in addends(factor.args[0]) if leaves(a)]
            moving = [a for a in addends(factor.args[0]) if a not in fixed]
            outside.append(T.exp(T.add(T.ZERO, *fixed)))
            inside.append(T.exp(T.add(*moving)))
        elif name in factor.free:
            number, factor = primitive(factor, name)
            if number < 0 and share is not T.ONE:  # nothing is divided by such a sum
                number, factor = -number, T.neg(factor)
            outside.append(T.const(number, body.kind))
            inside.append(factor)
        elif isinstance(factor.attr, float):  # infinity, and there may be 0 elements
            inside.append(factor)
        else:
            outside.append(factor)
    inside += [f for f in factors(share) if f is not T.ONE]
    if any(map(may_divide_by_nothing, inside)):
        inside += [f for f in outside if not T.is_positive(f)]
        outside = list(filter(T.is_positive, outside))
    if not inside and condition is T.TRUE:
        return T.mul(body, T.extent_of(bound.attr[1]))
    one = T.const(1, body.kind)
    common = T.mul(one, *outside)
    if common is one:
        return None
    guard = T.conjunction(*(c for c in T.conjuncts(condition) if name not in c.free))
    if reads_computed(common):
        common = T.where(guard, common, T.const(0, body.kind))
    return T.construct("mul", common, T.fold("sum", (bound,), condition, T.mul(one, *inside)))


def may_divide_by_nothing(factor: Term) -> bool:
    """Does it divide by what may be 0 of nothing, so that it is infinite?"""
    base, power = T.base_and_power(factor)
    return power < 0 and (T.is_bracket(base) or T.may_be_empty(base))


@hoisting.rule
def hoist_addend(t: Term) -> Term | None:
    """An addend that does not vary with the index leaves a maximum or minimum.

    Law:     max(a + x) = a + max(x), because addition is monotone; max(a) = a
    Claims:  translation
    Needs:   an element, as -inf + inf is NaN, and the maximum of no ints is the least of all; or
             addends that are finite
    before:  M[i] = max[k](S[i,k] + B[i])
    after:   M[i] = B[i] + max[k](S[i,k])
    """
    if not is_fold(t, "max", "min"):
        return None
    bound, name, condition, body = opened_fold(t)
    outside = [a for a in addends(body) if name not in a.free]
    inside = [a for a in addends(body) if name in a.free]
    if not outside:
        return None
    if T.has_element(t) and not inside:
        return body
    if not T.has_element(t) and not (t.kind == "float" and all(map(T.is_finite, outside))):
        return None
    moving = T.add(T.const(0, body.kind), *inside)
    return T.construct("add", *outside, T.fold(t.attr.monoid, (bound,), condition, moving))


@hoisting.rule
def hoist_positive_factor(t: Term) -> Term | None:
    """A positive factor leaves a maximum or minimum; a negative number turns it round.

    Law:     max(a * x) = a * max(x) for a > 0, and max(-x) = -min(x)
    Claims:  scaling
    Needs:   the factor is positive, and finite if what it reads is; or not negative, where there is
             an element, and if it may be of nothing beside what is finite; an aggregate or what is
             made of exponentials does not leave values that are weighted with exponentials, which
             it may be the scale of
    before:  M[i] = max[k](-2 * S[i,k] / sqrt(|k|))
    after:   M[i] = -2 * min[k](S[i,k]) / sqrt(|k|)
    """
    if not is_fold(t, "max", "min"):
        return None
    bound, name, condition, body = opened_fold(t)
    number, rest = T.split_coefficient(body)
    if rest is None or not (t.kind == "float" or T.has_element(t)):
        return None
    if isinstance(number, float):  # infinite: 0 times that is none
        return None
    outside = [f for f in factors(rest) if name not in f.free and _leaves_extremum(f, t)]
    inside = [f for f in factors(rest) if f not in outside]
    known = condition
    brackets = [f.args[0] for f in inside if T.is_bracket(f)]
    if t.attr.monoid == "max" and T.has_element(t):  # see extremum_of_exponentials
        known = T.conjunction(condition, *brackets)
    outside, inside = beside_weight(outside, inside, T.conjuncts(known))
    monoid = t.attr.monoid
    if number == 1 and not outside:
        return None
    if number < 0:
        monoid = "min" if monoid == "max" else "max"
    moving = T.mul(T.const(1, body.kind), *inside)
    folded = T.fold(monoid, (bound,), condition, moving)
    return T.construct("mul", T.const(number, body.kind), *outside, folded)


def _leaves_extremum(factor: Term, t: Term) -> bool:
    """Is max(a x) = a max(x), also where a is 0? Over nothing that would be 0 and not -inf. Where a
    is infinite, because it is divided by a sum over nothing, x is 0 unless max(x) is not."""
    if T.is_positive(factor) and T.is_finite_if_read(factor):
        return True
    if T.may_be_empty(factor) and not all(map(T.is_finite_if_there, factors(t.args[1]))):
        return False  # what is infinite times 0 of nothing is 0, and 0 times the largest is none
    divides = factor.op == "pow" and factor.attr < 0 and T.is_weight(factor.args[0])
    is_finite = T.is_finite(factor) and T.is_nonnegative(factor)
    is_sum = T.is_finite_if_read(factor) and T.is_weight(factor)
    is_scale = factor.op == "exp" and (
        not factor.folded
        or T.is_weight(t.args[1])
        or T.is_below_infinity(factor.args[0])
        or all(map(_is_finite_or_missing, addends(factor.args[0])))
    )
    return T.has_element(t) and (divides or is_finite or is_sum or is_scale)


def _is_finite_or_missing(addend: Term) -> bool:
    """Is it finite, or -inf over nothing, if what is read is finite?"""
    number, m = T.split_coefficient(addend)
    if m is None or m.op != "fold" or m.attr.monoid != ("max" if number > 0 else "min"):
        return T.is_finite_if_read(addend)
    return T.is_finite_if_read(m.args[1])


@hoisting.rule
def merge_weighted_sums(t: Term) -> Term | None:
    """Sums of one weight that are only added are one sum. The weight is all that their exponents
    have in common: a share of a sum, exp(s - L), stays whole.

    Law:     c * sum(a) + c * sum(b) = c * sum(a + b)
    Claims:  distributivity, interchange
    Needs:   the same domain, weight and coefficient, up to what varies with no index
    before:  A[i] = sum[k](exp(S[i,k]) * X[k]) - 2 * sum[k](exp(S[i,k]) * Y[k])
    after:   A[i] = sum[k](exp(S[i,k]) * (X[k] - 2 * Y[k]))
    """
    if t.op != "add":
        return None
    groups: dict[tuple[Any, ...], list[tuple[Term, Term]]] = {}
    for a in t.args:
        weighted = [f for f in factors(a) if _is_weighted_sum(f)]
        if len(weighted) != 1:
            continue
        (f,) = weighted
        rest = [g for g in factors(a) if g is not f]
        numbers = [g for g in rest if not g.free and not g.folded]
        others = T.mul(T.ONE, *(g for g in rest if g not in numbers))
        number = T.mul(T.ONE, *numbers)
        _, (_, body) = T.open_as(f, ("@0",))
        key = (others, *T.domain_of(f), weight_of(body, "@0"))
        groups.setdefault(key, []).append((a, number))
    for (others, _, condition, _), members in groups.items():
        if len(members) < 2:
            continue
        bodies = []
        for a, factor in members:
            (f,) = (f for f in factors(a) if _is_weighted_sum(f))
            opened, (_, body) = T.open_as(f, ("@0",))
            bodies.append(T.mul(factor, body))
        first, *rest_of = (addends(exponent_of(b)) for b in bodies)
        weight = T.add(T.ZERO, *(a for a in first if all(a in r for r in rest_of)))
        parts = [T.mul(b, T.exp(T.neg(weight))) for b in bodies]
        merged = T.fold("sum", opened, condition, T.mul(T.exp(weight), T.add(*parts)))
        gone = [a for a, _ in members]
        return T.add(*(a for a in t.args if a not in gone), T.mul(others, merged))
    return None


def _is_weighted_sum(t: Term) -> bool:
    if not is_fold(t, "sum"):
        return False
    _, name, _, body = opened_fold(t)
    return weight_of(body, name) is not T.ZERO
