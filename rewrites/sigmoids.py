"""Sigmoids: quotients of exponentials that backends know, and that can't overflow.

A sigmoid is the normal form of all ways to write it: exp(x) / (1 + exp(x)) is no number where the
exponential overflows, and sigmoid(x) is 1. Only of a logarithm it is no more than a quotient.
"""

from __future__ import annotations

from fractions import Fraction

from monocomp import terms as T
from monocomp.monomials import addends, exponent_of, factors, without_exponent
from monocomp.rules import RuleSet
from monocomp.terms import Term

sigmoids = RuleSet("sigmoids", "quotients of exponentials become sigmoids")


@sigmoids.rule
def recognise_sigmoid(t: Term) -> Term | None:
    """A quotient of exponentials that backends know, and that can't overflow.

    Law:     1 / (c + d * exp(x)) = sigmoid(-y) / c  with  y = x - log(c / d);
             exp(x) * sigmoid(-x) = sigmoid(x)
    Claims:  sigmoids
    Needs:   c and d are provably positive and the same at all places, their extents those of
             indices here, which are not 0; no root is taken of aggregates; what of x is not in
             the exponent is finite
    before:  Y[i] = exp(X[i]) / (2 + exp(X[i]))
    after:   Y[i] = sigmoid(X[i] - log(2))
    """
    if t.op == "pow" and t.attr < 0:
        found = _number_plus_exponential(t.args[0])
        is_root = t.attr.denominator > 1
        if found is None or (is_root and t.folded):  # such a sum stays scaled itself
            return None
        c, y = found
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

    Law:     (exp(x) + c) * sigmoid(-x) = sigmoid(x) + c * sigmoid(-x)
    Claims:  distributivity, sigmoids
    Needs:   an addend whose exponential the sigmoid takes, as in `recognise_sigmoid`
    before:  Y[i] = (exp(X[i]) - 1) * sigmoid(-X[i])
    after:   Y[i] = exp(X[i]) * sigmoid(-X[i]) - sigmoid(-X[i])
    """
    if t.op != "mul":
        return None
    scale = T.mul(T.ONE, *(f for f in t.args if f.op == "exp" or _is_sigmoid(f)))
    rest = [f for f in t.args if f.op != "exp" and not _is_sigmoid(f)]
    for f in rest:
        if f.op == "add":
            parts = [T.mul(a, scale) for a in f.args]
            if any(map(recognise_sigmoid, parts)):
                return T.mul(T.add(*parts), *(g for g in rest if g is not f))
    return None


def _is_sigmoid(t: Term) -> bool:
    return T.base_and_power(t)[0].op == "sigmoid"


@sigmoids.rule
def complement_sigmoid(t: Term) -> Term | None:
    """What a sigmoid leaves of 1 is the sigmoid of the opposite.

    Law:     c - c * sigmoid(x) = c * sigmoid(-x)
    Claims:  sigmoids
    Needs:   both addends stand there
    before:  Y[i] = A[i] - A[i] * sigmoid(X[i])
    after:   Y[i] = A[i] * sigmoid(-X[i])
    """
    if t.op != "add":
        return None
    for a in t.args:
        for f in factors(a):
            if f.op == "sigmoid":
                c = T.neg(T.mul(T.ONE, *(g for g in factors(a) if g is not f)))
                whole = addends(c)
                if all(b in t.args for b in whole):
                    rest = (b for b in t.args if b is not a and b not in whole)
                    return T.add(*rest, T.mul(c, T.function("sigmoid", T.neg(f.args[0]))))
    return None


@sigmoids.rule
def exponential_of_softplus(t: Term) -> Term | None:
    """The exponential of a soft maximum is a power of a sigmoid.

    Law:     exp(n * softplus(x)) = sigmoid(-x) ** -n
    Claims:  sigmoids
    Needs:   n is a number
    before:  Y[i] = exp(X[i] - 2 * softplus(X[i]))
    after:   Y[i] = exp(X[i]) * sigmoid(-X[i]) ** 2
    """
    if t.op != "exp":
        return None
    for a in addends(t.args[0]):
        number, x = T.split_coefficient(a)
        if x is not None and x.op == "softplus" and isinstance(number, Fraction):
            rest = T.exp(T.add(T.ZERO, *(b for b in addends(t.args[0]) if b is not a)))
            return T.mul(rest, T.power_of(T.function("sigmoid", T.neg(x.args[0])), -number))
    return None


@sigmoids.rule
def log_sigmoid(t: Term) -> Term | None:
    """The logarithm of a sigmoid does not underflow.

    Law:     log(sigmoid(x)) = -softplus(-x)
    Claims:  sigmoids
    before:  Y[i] = log(sigmoid(X[i]))
    after:   Y[i] = -softplus(-X[i])
    """
    if t.op != "log" or t.args[0].op != "sigmoid":
        return None
    return T.neg(T.function("softplus", T.neg(t.args[0].args[0])))


@sigmoids.rule
def recognise_softplus(t: Term) -> Term | None:
    """The logarithm of a number plus an exponential, without overflow.

    Law:     log(c + d * exp(x)) = log(c) + softplus(y)  with  y = x - log(c / d)
    Claims:  sigmoids
    Needs:   c and d are provably positive and the same at all places, their extents those of
             indices here, which are not 0
    before:  Y[i] = log(2 + exp(X[i]))
    after:   Y[i] = softplus(X[i] - log(2)) + log(2)
    """
    found = _number_plus_exponential(t.args[0]) if t.op == "log" else None
    if found is None:
        return None
    c, y = found
    return T.add(T.log(c), T.function("softplus", y))


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
    """Is t > 0 and the same at all places, of numbers whose quotients float32 holds? An extent
    is, if it is one of those that have an element."""
    for s in T.subterms(t):
        if s.op == "const" and not 2**-50 < abs(s.attr) < 2**50:
            return False
        if s.op == "extent" and s.attr not in there:
            return False
    return T.is_positive(t) and not t.free and not t.folded
