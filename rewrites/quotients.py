"""Quotients, products and logarithms of sums, in the one form in which what is alike cancels."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from monocomp import terms as T
from monocomp.rewrites.single_folds import is_fold, opened_fold
from monocomp.rewriting.rules import RuleSet
from monocomp.terms import Term
from monocomp.terms.monomials import (
    addends,
    common_number,
    content,
    exponent_of,
    factors,
)

quotients = RuleSet("quotients", "what sums and their divisors have in common cancels")


@quotients.rule
def common_factor(t: Term) -> Term | None:
    """What the addends under a power, logarithm, absolute value or relu share leaves it.

    An exponential leaves a root or divisor even if it is that of one addend, as such a sum is
    scaled in the end. It does not leave a positive power or a logarithm, where exp(-x) + 1 has more
    digits than exp(-x) * (1 + exp(x)), nor a relu, which may be 0 where it is infinite.

    Law:     (c * p) ** n = c ** n * p ** n; log(c * p) = log(c) + log(p); f(c * p) = c * f(p)
    Claims:  common factors
    Needs:   c is provably positive, but for whole powers
    before:  A[i] = 1 / (exp(S[i] - B[i]) + exp(-B[i]))
    after:   A[i] = exp(B[i]) / (exp(S[i]) + 1)
    """
    if t.op not in ("pow", "log", "abs", "relu"):
        return None
    whole = t.op == "pow" and t.attr.denominator == 1
    divides = t.op == "log" or (whole and t.attr < 0)
    leads = t.op == "pow" and (not whole or t.attr < 0)
    common, rest = content(t.args[0], positive=not whole, clear=divides, leads=leads)
    if common is T.ONE:
        return None
    match t.op:
        case "pow":
            return T.mul(T.power_of(common, t.attr), T.power_of(rest, t.attr))
        case "log":
            return T.add(T.log(common), T.log(rest))
    return T.mul(common, T.function(t.op, rest))


@quotients.rule
def leave_logarithm(t: Term) -> Term | None:
    """The exponent of one addend under a logarithm leaves that to meet its opposite.

    Law:     x + log(exp(-x) * a + b) = log(a + exp(x) * b)
    Claims:  common factors
    Needs:   x less than inf; more than -inf as well, if it holds an aggregate
    before:  A[i] = B[i] + log(exp(-B[i]) * S[i] ** 2 + 1)
    after:   A[i] = log(S[i] ** 2 + exp(B[i]))
    """
    if t.op != "add":
        return None
    for a in t.args:
        number, logarithm = T.split_coefficient(a)
        if logarithm is None or logarithm.op != "log":
            continue
        common, rest = content(logarithm.args[0], positive=True)
        found = T.mul(T.const(number, "float"), T.log(common))
        if all(T.neg(b) in t.args for b in addends(found)):
            others = (b for b in t.args if b is not a)
            return T.add(*others, found, T.mul(T.const(number, "float"), T.log(rest)))
    return None


@quotients.rule
def factor_number(t: Term) -> Term | None:
    """The number that the addends of a factor share stands before the product.

    So a sum meets its multiples: p * (2 * p) is a square.

    Law:     x * (c * a + c * b) = c * x * (a + b)
    Claims:  distributivity
    Needs:   c is a number
    before:  A[i] = X[i] * (2 * Y[i] + 6 * Z[i])
    after:   A[i] = 2 * X[i] * (Y[i] + 3 * Z[i])
    """
    if t.op != "mul":
        return None
    found = [common_number(f) for f in t.args]
    if all(number == 1 for number, _ in found):
        return None
    return T.mul(*(x for number, f in found for x in (T.const(number, t.kind), f)))


@quotients.rule
def divide_addends(t: Term) -> Term | None:
    """A sum is divided addend by addend where a divisor cancels.

    Law:     (a * p + b) ** n / p ** n = (a + b / p) ** n
    Claims:  distributivity
    Needs:   an addend is divided without rest, and those that are not stay together where the
             divisor may be 0; if n > 1 it may be over an empty set
    before:  A[i] = (X[i] * Y[i] + Z[i]) / Y[i]
    after:   A[i] = X[i] * Y[i] / Y[i] + Z[i] / Y[i]
    """
    if t.op != "mul":
        return None
    divisors = {f.args[0]: f.attr for f in t.args if f.op == "pow" and f.attr < 0}
    for f in t.args:
        total, power = T.base_and_power(f)
        if total.op == "add" and power.denominator == 1 and power > 0:
            divide = {
                base: n / power
                for base, n in divisors.items()
                if any(_is_divisible(a, base, -n / power) for a in total.args)
                and (n / power).denominator == 1
                # What is under a power has no other divisor, see `content`.
                and (power == 1 or T.may_be_empty(base))
            }
            if divide:
                inverses = [T.power_of(base, n) for base, n in divide.items()]
                gone = [T.power_of(i, power) for i in inverses]
                others = (g for g in t.args if g is not f and g not in gone)
                over = _apart_from_rest(total, divide)
                divided = T.add(*(T.mul(*inverses, a) for a in over))
                return T.mul(*others, T.power_of(divided, power))
    return None


def _apart_from_rest(total: Term, divisors: Mapping[Term, Fraction]) -> list[Term]:
    """The addends, and as one those in which a divisor that may be 0 does not cancel: each over it
    is infinite, and inf - inf has no value."""
    zero = [(base, n) for base, n in divisors.items() if not T.is_positive(base)]
    rest = [a for a in total.args if not all(_is_divisible(a, base, -n) for base, n in zero)]
    return [*(a for a in total.args if a not in rest), *([T.add(*rest)] if rest else [])]


def _is_divisible(addend: Term, base: Term, power: Fraction) -> bool:
    """Does base ** power cancel? What may be over nothing need not do so altogether: what it
    divides is mostly nothing, too."""
    least = Fraction(0) if T.may_be_empty(base) else power
    powers = [n for b, n in map(T.base_and_power, factors(addend)) if b is base]
    return any(n >= least for n in powers)


@quotients.rule
def cancel_denominator(t: Term) -> Term | None:
    """Addends over one denominator are joined where that shortens them.

    Law:     a / p + b / p = (a + b) / p; a + b / p = (a * p + b) / p
    Claims:  common denominators
    Needs:   p holds an exponential or an aggregate, and is no sum over nothing: of numbers that
             are read the quotients are as good, and nothing overflows; a p that does not divide
             all addends is not infinite, as exp(-x) and its inverse are for a logit of -inf
    before:  A[i] = 1 - exp(X[i]) / (exp(X[i]) + Y[i] ** 2)
    after:   A[i] = Y[i] ** 2 / (exp(X[i]) + Y[i] ** 2)
    """
    if t.op != "add":
        return None
    denominators = dict.fromkeys(
        f for a in t.args for f in factors(a) if f.op == "pow" and f.attr < 0
    )
    for inverse in denominators:
        base = inverse.args[0]
        if base.op != "add" or T.may_be_empty(base):
            continue
        if not base.folded and not any(exponent_of(a) is not T.ZERO for a in base.args):
            continue
        over = [a for a in t.args if inverse in factors(a)]
        others = [a for a in t.args if a not in over]
        numerator = T.add(
            *(T.mul(T.ONE, *(f for f in factors(a) if f is not inverse)) for a in over)
        )
        quotient = _quotient(numerator, base)
        if quotient is not None:
            return T.add(*others, T.mul(quotient, base, inverse))
        for a in others if _is_below_infinity(base) else ():
            joined = T.add(
                numerator, *(T.mul(a, b) for b in addends(T.power_of(base, -inverse.attr)))
            )
            if inverse.attr == -1 and len(addends(joined)) < len(over) + 1:
                return T.add(*(o for o in others if o is not a), T.mul(joined, inverse))
    return None


def _is_below_infinity(total: Term) -> bool:
    """Is a sum finite, though exponents in it may be -inf?"""
    return all(
        T.is_below_infinity(f) or (f.op != "exp" and T.is_finite_if_read(f))
        for a in total.args
        for f in factors(a)
    )


def _quotient(numerator: Term, base: Term) -> Term | None:
    """q with numerator = q * base, for a monomial q."""
    if len(addends(numerator)) != len(base.args):
        return None
    for a in addends(numerator):
        q = T.mul(a, T.power_of(base.args[0], -1))
        if T.add(*(T.mul(q, b) for b in base.args)) is numerator:
            return q
    return None


@quotients.rule
def order_sums(t: Term) -> Term | None:
    """Sums that follow one another directly are taken in one fixed order.

    Law:     sum_a sum_b = sum_b sum_a; a filter goes with the innermost index it names
    Claims:  interchange
    before:  A[i] = sum[k](sum[j if j <= k](X[i,j,k]))
    after:   A[i] = sum[j](sum[k if j <= k](X[i,j,k]))
    """
    if not is_fold(t, "sum") or not is_fold(t.args[1], "sum"):
        return None
    outer, name, condition, body = opened_fold(t)
    inner, _, inner_condition, inner_body = opened_fold(body)
    if inner.attr[1] >= outer.attr[1]:
        return None
    parts = [*T.conjuncts(condition), *T.conjuncts(inner_condition)]
    deep = T.conjunction(*(c for c in parts if name in c.free))
    rest = T.conjunction(*(c for c in parts if name not in c.free))
    return T.fold("sum", (inner,), rest, T.fold("sum", (outer,), deep, inner_body))
