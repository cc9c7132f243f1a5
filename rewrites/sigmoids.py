"""Sigmoids: quotients of exponentials that backends know, and that can't overflow.

A sigmoid is the normal form of all ways to write it: exp(x) / (1 + exp(x)) is no number where the
exponential overflows, and sigmoid(x) is 1. Only of a logarithm it is no more than a quotient.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

from monocomp import terms as T
from monocomp.rewriting.rules import RuleSet
from monocomp.terms import Term
from monocomp.terms.monomials import addends, exponent_of, factors, without_exponent

sigmoids = RuleSet("sigmoids", "quotients of exponentials become sigmoids")


@sigmoids.rule
def recognise_sigmoid(t: Term) -> Term | None:
    """A quotient of exponentials that backends know, and that can't overflow.

    Law:     1 / (c + d * exp(x)) = sigmoid(-y) / c  with  y = x - log(c / d);
             exp(x) * sigmoid(-x) = sigmoid(x)
    Claims:  sigmoids
    Needs:   c and d are provably positive and the same at all positions, their extents those of
             indices here, which are not 0; no root is taken of aggregates; what of x is not in
             the exponent is finite; -x is the opposite of x
    before:  Y[i] = exp(X[i]) / (2 + exp(X[i]))
    after:   Y[i] = sigmoid(X[i] - log(2))
    """
    if t.op == "pow" and t.attr < 0:
        found = _number_plus_exponential(t.args[0])
        is_root = t.attr.denominator > 1
        if found is None or (is_root and t.folded):  # such a sum stays scaled itself
            return None
        c, y = found
        if not has_opposite(y):
            return None
        quotient = T.power_of(T.function("sigmoid", T.neg(y)), -t.attr)
        return T.mul(T.power_of(c, t.attr), quotient)
    if t.op != "mul":
        return None
    exponent = exponent_of(t)
    for f in t.args:
        base, power = T.base_and_power(f)
        if base.op != "sigmoid":
            continue
        x = T.neg(base.args[0])
        for n in dict.fromkeys((power, min(power, Fraction(1)))):
            moved = T.mul(T.const(n, "float"), x)
            there = [a in addends(exponent) for a in addends(moved) if not T.is_finite(a)]
            if there and all(there):
                others = (g for g in t.args if g.op != "exp" and g is not f)
                turned = T.power_of(T.function("sigmoid", x), n)
                left = T.power_of(base, power - n)
                return T.mul(*others, left, T.exp(T.sub(exponent, moved)), turned)
    return None


@sigmoids.rule
def distribute_sigmoid(t: Term) -> Term | None:
    """A sigmoid multiplies the exponentials of a sum one by one, as the sum may overflow.

    Of a power, or of several sums, each takes as much of the sigmoid as its exponentials need.

    Law:     (exp(x) + c) ** n * sigmoid(-x) ** n = (sigmoid(x) + c * sigmoid(-x)) ** n
    Claims:  distributivity, sigmoids
    Needs:   the exponents of the sum span no more than that of the sigmoid, and what of it is not
             in them is finite, as in `recognise_sigmoid`; the power is whole
    before:  Y[i] = (exp(X[i]) - 1) ** 2 * sigmoid(-X[i]) ** 3
    after:   Y[i] = (exp(X[i]) * sigmoid(-X[i]) - sigmoid(-X[i])) ** 2 * sigmoid(-X[i])
    """
    if t.op != "mul":
        return None
    for s, f in itertools.product(t.args, t.args):
        (sigmoid, available), (base, n) = T.base_and_power(s), T.base_and_power(f)
        if sigmoid.op != "sigmoid" or base.op != "add" or n < 0 or n.denominator > 1:
            continue
        x = T.neg(sigmoid.args[0])
        degrees = [_degree(exponent_of(a), x) for a in base.args]
        lowest, highest = min(degrees), max(degrees)
        needed = highest - lowest
        if not (highest > 0 and n * needed <= available):
            continue
        common = T.mul(T.const(lowest, "float"), x)
        scale = T.mul(T.exp(T.neg(common)), T.power_of(sigmoid, needed))
        return T.mul(
            *(g for g in t.args if g is not f and g is not s),
            T.power_of(T.add(*(T.mul(a, scale) for a in base.args)), n),
            T.exp(T.mul(T.const(n, "float"), common)),
            T.power_of(sigmoid, available - n * needed),
        )
    return None


def _degree(exponent: Term, x: Term) -> Fraction:
    """r for an exponent that is r * x and more, but for what is finite of x; else 0."""
    numbers = {rest: number for number, rest in map(T.split_coefficient, addends(exponent))}
    parts = [T.split_coefficient(a) for a in addends(x) if not T.is_finite(a)]
    ratios = {numbers.get(rest, Fraction(0)) / number for number, rest in parts}
    ratio = ratios.pop() if len(ratios) == 1 else None
    return ratio if isinstance(ratio, Fraction) else Fraction(0)


@sigmoids.rule
def complement_sigmoid(t: Term) -> Term | None:
    """What a sigmoid leaves of 1 is the sigmoid of the opposite.

    Law:     c - c * sigmoid(x) = c * sigmoid(-x)
    Claims:  sigmoids
    Needs:   both addends stand there; -x is the opposite of x
    before:  Y[i] = A[i] - A[i] * sigmoid(X[i])
    after:   Y[i] = A[i] * sigmoid(-X[i])
    """
    if t.op != "add":
        return None
    for a in t.args:
        for f in factors(a):
            if f.op == "sigmoid" and has_opposite(f.args[0]):
                c = T.neg(T.mul(T.ONE, *(g for g in factors(a) if g is not f)))
                whole = addends(c)
                if all(b in t.args for b in whole):
                    rest = (b for b in t.args if b is not a and b not in whole)
                    return T.add(*rest, T.mul(c, T.function("sigmoid", T.neg(f.args[0]))))
    return None


@sigmoids.rule
def exponential_of_softplus(t: Term) -> Term | None:
    """The exponential of a soft maximum is a power of a sigmoid. Where it is exp(-inf), a weight of
    nothing, that is said: a sigmoid is a plain 0 there.

    Law:     exp(n * softplus(x)) = sigmoid(-x) ** -n
    Claims:  sigmoids
    Needs:   n is a number; a condition that x is less than inf for n < 0
    before:  Y[i] = exp(X[i] - 2 * softplus(X[i]))
    after:   Y[i] = exp(X[i]) * sigmoid(-X[i]) ** 2
    """
    if t.op != "exp":
        return None
    for a in addends(t.args[0]):
        number, x = T.split_coefficient(a)
        if x is not None and x.op == "softplus" and isinstance(number, Fraction):
            rest = T.exp(T.add(T.ZERO, *(b for b in addends(t.args[0]) if b is not a)))
            opposite = T.neg(x.args[0])
            there = T.is_weight_there(opposite) if number < 0 else None
            said = [] if there is None else [T.bracket(there)]
            power = T.power_of(T.function("sigmoid", opposite), -number)
            return T.mul(rest, *said, power)
    return None


@sigmoids.rule
def log_sigmoid(t: Term) -> Term | None:
    """The logarithm of a sigmoid does not underflow.

    Law:     log(sigmoid(x)) = -softplus(-x)
    Claims:  sigmoids
    Needs:   -x is the opposite of x
    before:  Y[i] = log(sigmoid(X[i]))
    after:   Y[i] = -softplus(-X[i])
    """
    if t.op != "log" or t.args[0].op != "sigmoid" or not has_opposite(t.args[0].args[0]):
        return None
    return T.neg(T.function("softplus", T.neg(t.args[0].args[0])))


@sigmoids.rule
def recognise_softplus(t: Term) -> Term | None:
    """The logarithm of a number plus an exponential, without overflow.

    Law:     log(c + d * exp(x)) = log(c) + softplus(y)  with  y = x - log(c / d)
    Claims:  sigmoids
    Needs:   c and d are provably positive and the same at all positions, their extents those of
             indices here, which are not 0
    before:  Y[i] = log(2 + exp(X[i]))
    after:   Y[i] = softplus(X[i] - log(2)) + log(2)
    """
    found = _number_plus_exponential(t.args[0]) if t.op == "log" else None
    if found is None:
        return None
    c, y = found
    return T.add(T.log(c), T.function("softplus", y))


def has_opposite(x: Term) -> bool:
    """Is -x inf where x is -inf? What is -inf of nothing leaves -inf where it is taken from -inf,
    whichever is taken from the other; what a caller gave as -inf leaves no number."""
    infinite = [T.split_coefficient(a) for a in addends(x) if not T.is_unmasked(a)]
    is_taken = any(number < 0 and rest is not None and rest.folded for number, rest in infinite)
    return not (is_taken and any(number > 0 for number, _ in infinite))


def _number_plus_exponential(t: Term) -> tuple[Term, Term] | None:
    """(c, y) with t = c + d * exp(x) = c * (1 + exp(y)), for c, d > 0 that vary nowhere."""
    weighted = [a for a in addends(t) if exponent_of(a) is not T.ZERO]
    if len(weighted) != 1:
        return None
    c, d, x = T.sub(t, *weighted), without_exponent(*weighted), exponent_of(*weighted)
    indices = (s.attr for s in T.subterms(t) if s.op == "index")
    there = {extent for name, extent in indices if name in t.free}  # has an element
    if not (_is_positive_number(c, there) and _is_positive_number(d, there)):
        return None
    return c, T.sub(x, T.log(T.divide(c, d)))


def _is_positive_number(t: Term, there: set[str]) -> bool:
    """Is t > 0 and the same at all positions, of numbers whose quotients float32 holds? An extent
    is, if it is one of those that have an element."""
    for s in T.subterms(t):
        if s.op == "const" and not 2**-50 < abs(s.attr) < 2**50:
            return False
        if s.op == "extent" and s.attr not in there:
            return False
    return T.is_positive(t) and not t.free and not t.folded
