"""What does not vary with the index of a fold leaves it: factors, addends, conditions."""

from __future__ import annotations

from typing import Any

from monocomp import terms as T
from monocomp.rewrites.single_folds import is_fold, opened_fold, reads_computed, weight_of
from monocomp.rewriting.equations import Guard, equations
from monocomp.rewriting.matching import Bindings
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
    return Product(over, known).says(condition)


def _unmasked(t: Term, unit: Term) -> tuple[Term, Term]:
    """(condition, value) of a term that is the unit where the condition fails."""
    if t.op == "where" and t.args[2] is unit:
        return t.args[0], t.args[1]
    if t.op == "where" and t.args[1] is unit:
        return T.negate(t.args[0]), t.args[2]
    return T.TRUE, t


def _scales_no_weights(found: Bindings) -> bool:
    """True if a factor is no scale of weights in the elements of a maximum, without which these may
    be too large for a float."""
    (bound,), fold = found.folds["k"]
    condition, body = T.open_fold(fold)[1]
    is_whole = T.has_element(fold)
    stays = (
        f for f in factors(body) if bound.attr[0] in f.free or not (is_whole or T.is_positive(f))
    )
    moving, known = list(stays), T.conjuncts(condition)
    if is_whole:  # a bracket will be a filter, see `extremum_of_exponentials`
        known = (*known, *(c for f in moving if T.is_bracket(f) for c in T.conjuncts(f.args[0])))
    return bool(beside_weight([found.terms["a"]], moving, known)[0])


def _leaves_whole_frame(found: Bindings) -> bool:
    """True if no number that may be infinite leaves a maximum over nothing, so that the frames of
    several sums over one domain stay alike."""
    return T.is_finite(found.terms["a"]) or T.has_element(found.folds["k"][1])


hoisting.add(
    *equations("""
    # What a condition sets to -inf is left out of a maximum.
    filter_masked_extremum: max[k if c](where(d, x, -inf) + y) = max[k if c and d](x + y)

    # A sign turns a maximum round.
    turn_maximum: max[k if c](-x) = -min[k if c](x)
    """)
)
# Over nothing a maximum is -inf, whatever is added, and a minimum is inf.
for one, of_one, leaving in (
    ("max", "", ", worth a is finite or there is an element"),
    ("min", "_of_minimum", ", a finite or k has an element"),
):
    hoisting.add(
        *equations(
            f"""
            # An extremum of equal numbers is each of them.
            extremum_of_equals{of_one}: {one}[k if c](a) = a  needs a free of k, k has an element

            # An addend that does not vary with the index leaves, as addition is monotone.
            hoist_addend{of_one}: {one}[k if c](a + x) = a + {one}[k if c](x)
                needs a free of k{leaving}

            # A positive factor leaves, and if there is an element one that may be 0.
            hoist_positive_factor{of_one}: {one}[k if c](a * x) = a * {one}[k if c](x)
                needs a free of k, a nonnegative, a positive or k has an element,
                a finite if read or k has an element,
                worth a is finite if there are elements, a scales no weights
            """,
            a_is_finite_or_there_is_an_element=Guard(_leaves_whole_frame, "{1}"),
            a_is_finite_if_there_are_elements=Guard(
                lambda found: T.is_finite_if_there(found.terms["a"])
            ),
            a_scales_no_weights=Guard(_scales_no_weights),
        )
    )


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
