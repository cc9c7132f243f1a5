"""Anchoring: powers about a mean as powers of distances from an element, to be differentiated.

Where a mean varies with an index that the elements lack, the derivatives of a sum about it are no
products of matrices, and the mean has a part in them that is 0. About one of the elements, the same
for all means, they are products, and no digits are lost. What the anchor is does not matter: it has
no derivative.
"""

from __future__ import annotations

from dataclasses import replace

from monocomp import terms as T
from monocomp.rewrites.centring import about_anchor, anchor_of, replacing, sums
from monocomp.rewrites.moving_centres import Centred, centred, weighted_sum
from monocomp.rewriting.rules import Choice, RuleSet
from monocomp.terms import Term
from monocomp.terms.equations import Equations
from monocomp.terms.monomials import addends, exponent_of, factors, without_exponent

anchoring = RuleSet("anchoring", "powers about a mean are about an element, to be differentiated")


@anchoring.choice
def anchor_powers(program: Equations) -> Choice | None:
    """Powers about a mean are those about an anchor.

    Law:     sum(w * u ** 2) - sum(w * u) ** 2 / sum(w) is the same for all u - a
    Claims:  moments
    Needs:   the mean of the same weights, which varies with an index that the elements lack; a is
             the first element
    before:  V[i,e] = sum[k](exp(S[i,k]) * (X[k,e] - sum[l](exp(S[i,l]) * X[l,e]) / sum[l](exp(S[i,l]))) ** 2)
    after:   V[i,e] = sum[k](exp(S[i,k]) * (X[k,e] - stop(X[0,e])) ** 2) - sum[k](exp(S[i,k]) * (X[k,e] - stop(X[0,e]))) ** 2 / sum[k](exp(S[i,k]))
    """  # noqa: E501
    for taken in filter(None, (centred(t) for t, *_ in sums(program))):
        distance = _from_anchor(taken)
        if distance is not None:
            return replacing(taken.fold, about_anchor(taken, distance), program)
    return None


def _from_anchor(taken: Centred) -> Term | None:
    """The distances from an anchor, for a sum of powers about the mean of its own weights. There is
    no anchor where these vary only as the elements do."""
    (unit, *others) = taken.units
    mean = taken.mean(unit)
    if others or mean is None or (mean.weight, mean.exponent) != (taken.weight, taken.exponent):
        return None
    weight, exponent = without_exponent(mean.weight), exponent_of(mean.weight)
    anchor = anchor_of(replace(mean, weight=weight, exponent=exponent), unit.distance)
    if anchor is None or anchor is T.ZERO:
        return None
    return T.sub(unit.distance, T.function("stop", anchor))


@anchoring.choice
def anchor_total(program: Equations) -> Choice | None:
    """A sum is made of that of the distances from an anchor, where this is known.

    Law:     sum(w * u) = sum(w * (u - a)) + a * sum(w)
    Claims:  distributivity, interchange
    Needs:   a does not vary with the index, has no derivative, and is not made of the sum
    before:  A[i,e] = sum[k](W[i,k] * X[k,e]) + sum[k](W[i,k] * (X[k,e] - stop(X[0,e]))) ** 2
    after:   A[i,e] = sum[k](W[i,k] * (X[k,e] - stop(X[0,e]))) + stop(X[0,e]) * sum[k](W[i,k]) + sum[k](W[i,k] * (X[k,e] - stop(X[0,e]))) ** 2
    """  # noqa: E501
    known = set(T.subterms(*(e.body for e in program.equations)))
    for t, bound, condition, value, exponent in sums(program):
        for f in factors(value) if exponent is None else ():
            anchors = [a for a in addends(f) if _is_anchor(a, bound)]
            if not anchors:
                continue
            weight = T.mul(T.ONE, *(g for g in factors(value) if g is not f))
            anchor = T.add(*anchors)
            total = weighted_sum(bound, condition, T.mul(weight, T.sub(f, anchor)), None)
            number, fold = T.split_coefficient(total)
            if fold in known and not T.holds(anchor, fold):
                count = weighted_sum(bound, condition, weight, None)
                inverse = T.power_of(T.const(number, "float"), -1)
                parts = (T.mul(inverse, t), T.neg(T.mul(inverse, anchor, count)))
                return replacing(fold, T.add(*parts), program)
    return None


def _is_anchor(t: Term, bound: Term) -> bool:
    _, rest = T.split_coefficient(t)
    return rest is not None and rest.op == "stop" and bound.attr[0] not in rest.free
