"""Hoisting: factors, addends and conditions that do not vary with its index leave a fold.

Sums come first: a maximum that is subtracted in all exponents cancels where they leave a quotient,
whatever it is of.
"""

from __future__ import annotations

from collections.abc import Iterator

from monocomp import terms as T
from monocomp.rewrites.single_folds import (
    is_fold,
    opened_fold,
    reads_computed,
    scales_no_weights,
    weight_of,
)
from monocomp.rewriting.equations import Guard, equations
from monocomp.rewriting.matching import Bindings, parts_of
from monocomp.rewriting.rules import RuleSet
from monocomp.terms import Term
from monocomp.terms.monomials import (
    addends,
    exponent_of,
    factors,
    primitive,
)

hoisting = RuleSet("hoisting", "factors, addends and conditions that do not vary leave folds")


def _is_guarded(bindings: Bindings) -> bool:
    """True if a factor reads at computed positions that a filter may keep inside a tensor."""
    _, fold = bindings.folds["k"]
    _, (condition, _) = T.open_fold(fold)
    fixed = any(c.free <= fold.free for c in T.conjuncts(condition))
    return fixed and reads_computed(bindings.terms["a"])


def _is_free_to_leave(bindings: Bindings) -> bool:
    """True if a factor is neither guarded nor infinite, and no part of a share of what is given,
    which is at most 1 as a whole."""
    (bound,), fold = bindings.folds["k"]
    _, (condition, body) = T.open_fold(fold)
    share, _ = T.shares(body, T.conjuncts(condition))
    a = bindings.terms["a"]
    is_torn = bound.name in share.free and _is_part(a, share)
    is_infinite = isinstance(a.attr, float)
    return not (is_torn or is_infinite or _is_guarded(bindings))


def _is_part(factor: Term, share: Term) -> bool:
    """True if a factor, or an addend of an exponent, is one of a share."""
    if factor.op == "exp":
        return factor.args[0] in addends(exponent_of(share))
    return factor in factors(share)


_filters = equations(
    """
    # A factor that is 0 where a condition fails makes the condition a filter.
    filter_bracket: sum[k if c](d * x) = sum[k if c and d](x)

    # So does a choice of which the alternative is 0.
    filter_choice: sum[k if c](where(d, x, 0) * y) = sum[k if c and d](x * y)
    """
)
_factors = equations(
    """
    # A factor that is read at a computed position stays guarded by the filter.
    hoist_guarded_factor: sum[k if c and d](a * x) = where(c, a, 0) * sum[k if c and d](x)
        needs c free of k, a free of k, a unmasked if read or x a weight, worth a is guarded

    # A factor that does not vary with the index leaves the sum.
    hoist_factor: sum[k if c](a * x) = a * sum[k if c](x)
        needs a free of k, a unmasked if read or x a weight, worth a is free to leave
    """,
    a_is_guarded=Guard(_is_guarded),
    a_is_free_to_leave=Guard(_is_free_to_leave),
)
_elements = equations(
    """
    # A sum of ones counts its elements.
    count_elements: sum[k](1) = |k|

    # A choice of which the first branch is 0 makes a filter of what does not hold then.
    filter_alternative: sum[k if c](where(d, 0, x) * y) = sum[k if c and not d](x * y)
    """
)
hoisting.add(*_filters, *_factors, *_elements)


def leaving(t: Term) -> Iterator[Term]:
    """Yield the factors that leave a sum."""
    matches = (bindings for rule in _factors for bindings in rule.matches(t))
    return (f for bindings in matches for f in parts_of("mul", bindings.terms["a"]))


@hoisting.procedure
def lead_with_number(t: Term) -> Term | None:
    """Write the number that the addends of an element have in common before the sum.

    Of what varies with the index less is taken away than added.

    Law:     `sum[k](a * x) = a * sum[k](x)`
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


def _is_number(name: str) -> Guard:
    def holds(found: Bindings) -> bool:
        t = found.terms[name]
        return not t.free and not t.folded

    return Guard(holds)


def _are_of_one_weight(bindings: Bindings) -> bool:
    """True if w is all that varies in the exponents of both elements and of their addends: a sum
    of differently weighted ones would be split again."""
    (bound,), _ = bindings.folds["k"]
    name = bound.name
    others = (a for v in "xy" for a in addends(bindings.terms[v]))
    is_weight = weight_of(bindings.terms["w"], name) is not T.ZERO
    return is_weight and all(weight_of(a, name) is T.ZERO for a in others)


hoisting.add(
    *equations(
        """
        # Sums of one weight that are only added are one sum. The weight is all that their
        # exponents have in common: a share of a sum, exp(s - L), stays whole.
        merge_weighted_sums: z * a * sum[k if c](w * x) + z * b * sum[k if c](w * y)
            = z * sum[k if c](w * (a * x + b * y))
            needs w a weight, z finite if there, a finite if read, b finite if read,
            z nonnegative or x finite if there, z nonnegative or y finite if there,
            worth a is a number, b is a number, w is an exponential, they are of one weight
        """,
        a_is_a_number=_is_number("a"),
        b_is_a_number=_is_number("b"),
        w_is_an_exponential=Guard(lambda found: found.terms["w"].op == "exp"),
        they_are_of_one_weight=Guard(_are_of_one_weight),
    )
)


extrema = RuleSet("extrema", "factors, addends and conditions that do not vary leave maxima")

extrema.add(
    *equations("""
    # An element that a condition sets to -inf is left out of a maximum.
    filter_masked_extremum: max[k if c](where(d, x, -inf) + y) = max[k if c and d](x + y)

    # An addend that does not vary with the index leaves, as addition is monotone; over nothing a
    # maximum is -inf, whatever is added.
    hoist_addend: max[k if c](a + x) = a + max[k if c](x)  needs a free of k

    # A sign turns a maximum round.
    turn_maximum: max[k if c](-x) = -min[k if c](x)
    """)
)
# Frames are minima of what is subtracted as well.
for one, of_one in (("max", ""), ("min", "_of_minimum")):
    extrema.add(
        *equations(
            f"""
            # A positive factor leaves, and if there is an element one that may be 0.
            hoist_positive_factor{of_one}: {one}[k if c](a * x) = a * {one}[k if c](x)
                needs a free of k, a nonnegative, a positive or k has an element,
                a finite if read or k has an element,
                worth a is finite if there are elements, a scales no weights
            """,
            a_is_finite_if_there_are_elements=Guard(
                lambda found: T.is_finite_if_there(found.terms["a"])
            ),
            a_scales_no_weights=Guard(scales_no_weights),
        )
    )
