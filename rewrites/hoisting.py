"""What does not vary with the index of a fold leaves it: factors, addends, conditions."""

from __future__ import annotations

from typing import Any

from monocomp import terms as T
from monocomp.rewrites.single_folds import (
    is_fold,
    opened_fold,
    reads_computed,
    weight_of,
)
from monocomp.rewriting.equations import Guard, equations
from monocomp.rewriting.matching import Bindings
from monocomp.rewriting.rules import RuleSet
from monocomp.terms import Term
from monocomp.terms.monomials import (
    addends,
    exponent_of,
    factors,
    primitive,
)

hoisting = RuleSet("hoisting", "factors, addends and conditions that do not vary leave folds")


def _is_guarded(found: Bindings) -> bool:
    """True if a factor reads at computed positions that a filter may keep inside a tensor."""
    _, fold = found.folds["k"]
    _, (condition, _) = T.open_fold(fold)
    fixed = any(c.free <= fold.free for c in T.conjuncts(condition))
    return fixed and reads_computed(found.terms["a"])


def _is_free_to_leave(found: Bindings) -> bool:
    """True if a factor is neither guarded nor infinite, and no part of a share of what is given,
    which is at most 1 as a whole."""
    (bound,), fold = found.folds["k"]
    _, (condition, body) = T.open_fold(fold)
    share, _ = T.shares(body, T.conjuncts(condition))
    a = found.terms["a"]
    is_torn = bound.attr[0] in share.free and _is_part(a, share)
    is_infinite = isinstance(a.attr, float)
    return not (is_torn or is_infinite or _is_guarded(found))


def _is_part(factor: Term, share: Term) -> bool:
    """True if a factor, or an addend of an exponent, is one of a share."""
    if factor.op == "exp":
        return factor.args[0] in addends(exponent_of(share))
    return factor in factors(share)


hoisting.add(
    *equations(
        """
        # A factor that is 0 where a condition fails makes the condition a filter.
        filter_bracket: sum[k if c](d * x) = sum[k if c and d](x)

        # So does a choice of which the alternative is 0.
        filter_choice: sum[k if c](where(d, x, 0) * y) = sum[k if c and d](x * y)

        # What a factor reads at a computed position stays guarded by the filter.
        hoist_guarded_factor: sum[k if c and d](a * x) = where(c, a, 0) * sum[k if c and d](x)
            needs c free of k, a free of k, a unmasked if read or x a weight,
            worth a is guarded

        # A factor that does not vary with the index leaves the sum.
        hoist_factor: sum[k if c](a * x) = a * sum[k if c](x)
            needs a free of k, a unmasked if read or x a weight, worth a is free to leave

        # A sum of ones counts its elements.
        count_elements: sum[k](1) = |k|

        # A choice of which the first branch is 0 makes a filter of what does not hold then.
        filter_alternative: sum[k if c](where(d, 0, x) * y) = sum[k if c and not d](x * y)
        """,
        a_is_guarded=Guard(_is_guarded, "Z[N[{1}]]"),
        a_is_free_to_leave=Guard(_is_free_to_leave),
    )
)


@hoisting.procedure
def lead_with_number(t: Term) -> Term | None:
    """Write the number that the addends of an element have in common before the sum.

    Of what varies with the index less is taken away than added.

    Law:     sum[k](a * x) = a * sum[k](x)
    Claims:  hoist_factor
    Needs:   no part of a share of what is given
    before:  A[i] = sum[k]((-1 - 2 * Y[k]) * X[i,k])
    after:   A[i] = -sum[k]((1 + 2 * Y[k]) * X[i,k])
    """
    if not is_fold(t, "sum"):
        return None
    bound, name, condition, body = opened_fold(t)
    share, rest = T.shares(body, T.conjuncts(condition))
    one = T.const(1, body.kind)
    number, parts = one, list(filter(lambda f: f is not T.ONE, factors(share)))
    for factor in factors(rest):
        n, x = primitive(factor, name)
        if n < 0 and share is not T.ONE:  # nothing is divided by such a sum
            n, x = -n, T.neg(x)
        number = T.mul(number, T.const(n, body.kind))
        parts.append(x)
    if number is one:
        return None
    element = T.mul(one, *parts)
    return T.construct("mul", number, T.fold("sum", (bound,), condition, element))


@hoisting.procedure
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


@hoisting.procedure
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
