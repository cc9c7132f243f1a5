"""Quotients, products and logarithms of sums, in the one form in which what is alike cancels."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from monocomp import terms as T
from monocomp.rewriting.equations import Guard, equations
from monocomp.rewriting.matching import Bindings
from monocomp.rewriting.rules import RuleSet
from monocomp.terms import Term
from monocomp.terms.monomials import common_number, content, factors

quotients = RuleSet("quotients", "what sums and their divisors have in common cancels")


@quotients.procedure
def common_factor(t: Term) -> Term | None:
    """Move what the addends under a power, logarithm, absolute value or relu share out of it.

    Law:     `(c * p) ** n = c ** n * p ** n`; `log(c * p) = log(c) + log(p)`; `f(c * p) = c * f(p)`
    Claims:  common factors, arithmetic
    Needs:   c is provably positive, but for whole powers
    before:  A[i] = 1 / (exp(S[i] - B[i]) + exp(-B[i]))
    after:   A[i] = exp(B[i]) / (exp(S[i]) + 1)
    """
    if t.op not in ("pow", "log", "abs", "relu"):
        return None
    whole = t.op == "pow" and t.attr.denominator == 1
    divides = t.op == "log" or (whole and t.attr < 0)
    common, rest = content(t.args[0], positive=not whole, clear=divides)
    if common is T.ONE:
        return None
    match t.op:
        case "pow":
            return T.mul(T.power_of(common, t.attr), T.power_of(rest, t.attr))
        case "log":
            return T.add(T.log(common), T.log(rest))
    return T.mul(common, T.function(t.op, rest))


@quotients.procedure
def factor_number(t: Term) -> Term | None:
    """The number that the addends of a factor share stands before the product.

    So a sum meets its multiples: p * (2 * p) is a square.

    Law:     `x * (c * a + c * b) = c * x * (a + b)`
    Claims:  distributivity
    Needs:   c is a number
    before:  A[i] = X[i] * (2 * Y[i] + 6 * Z[i])
    after:   A[i] = 2 * X[i] * (Y[i] + 3 * Z[i])
    """
    if t.op != "mul":
        return None
    numbers = [common_number(f) for f in t.args]
    if all(number == 1 for number, _ in numbers):
        return None
    return T.mul(*(x for number, f in numbers for x in (T.const(number, t.kind), f)))


@quotients.procedure
def divide_addends(t: Term) -> Term | None:
    """A sum is divided addend by addend where a divisor cancels.

    Law:     `(a * p + b) ** n / p ** n = (a + b / p) ** n`
    Claims:  distributivity
    Needs:   an addend is divided without rest, and those that are not stay together where the
             divisor may be 0; if n > 1 it may be over an empty set, and an addend loses it, as
             `common_factor` takes out what all still have
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
                if any(_has_power(a, base, _least(base, n, power)) for a in total.args)
                and (n / power).denominator == 1
                # A base of a power has no other divisor, see `content`.
                and (power == 1 or base.folded)
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
    """Return the addends, and as one those in which a divisor that may be 0 does not cancel: each
    over it is infinite, and inf - inf has no value."""
    least = {b: _least(b, n) for b, n in divisors.items() if not T.is_positive(b)}
    rest = [a for a in total.args if not all(_has_power(a, b, n) for b, n in least.items())]
    return [*(a for a in total.args if a not in rest), *([T.add(*rest)] if rest else [])]


def _least(divisor: Term, n: Fraction, power: Fraction = Fraction(1)) -> Fraction:
    """Return which power of a divisor an addend must have. A sum that is divided itself need not
    lose one over a set: such a divisor mostly cancels."""
    return Fraction(0) if divisor.folded and power == 1 else -n / power


def _has_power(addend: Term, base: Term, least: Fraction) -> bool:
    """True if a power of a base is a factor, and no lower one."""
    return any(b is base and n >= least for b, n in map(T.base_and_power, factors(addend)))


def _are_out_of_order(bindings: Bindings) -> bool:
    """True if the extent of the inner sum comes before that of the outer one."""
    (_, outer), (_, inner) = bindings.folds["k"], bindings.folds["j"]
    return bool(inner.attr.extents < outer.attr.extents)


quotients.add(
    *equations(
        """
        # Sums that follow one another directly are taken in one fixed order; a filter goes with the
        # innermost index that it names.
        reorder_sums: sum[k if c](sum[j if d and e](x)) = sum[j if d](sum[k if c and e](x))
            needs d free of k, worth their extents are out of order
        """,
        their_extents_are_out_of_order=Guard(_are_out_of_order),
    )
)


# Derivatives are taken without these: one less a quotient near 1 has few digits.
divisors = RuleSet("divisors", "divisors are sums of exponentials, of which no inverse is one")


@divisors.procedure
def clear_exponentials(t: Term) -> Term | None:
    """A divisor loses the inverse of an exponential that an addend is multiplied with.

    Law:     `(a + exp(-u) * b) ** n = exp(-u) ** n * (exp(u) * a + b) ** n`
    Claims:  common factors, arithmetic
    Needs:   u is a number, if what it reads is, and no part of a share of what is given; b is not
             0: where u is none, exp(-u) * b is unspecified, but for a b of 0
    before:  A[i] = 1 / (2 * exp(-B[i]) + 1)
    after:   A[i] = exp(B[i]) / (2 + exp(B[i]))
    """
    if t.op != "pow" or t.attr > 0:
        return None
    common, rest = content(t.args[0], positive=True, clear=False, inverse=True)
    return T.mul(T.power_of(common, t.attr), T.power_of(rest, t.attr))


divisors.add(
    *equations("""
    # A gate that compares the logarithm of a sum is a quotient of the sum.
    gate_of_sum: sigmoid(log(sum[k if c](exp(x))) + y)
        = sum[k if c](exp(x)) / (sum[k if c](exp(x)) + exp(-y))  needs y unmasked
    """)
)
