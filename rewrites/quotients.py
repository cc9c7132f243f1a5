"""Quotients, products and logarithms of sums, in the one form in which what is alike cancels."""

from __future__ import annotations

from monocomp import terms as T
from monocomp.rewriting.equations import Guard, equations
from monocomp.rewriting.matching import Bindings
from monocomp.rewriting.rules import RuleSet
from monocomp.terms import Term
from monocomp.terms.monomials import common_number, content

quotients = RuleSet("quotients", "what sums and their divisors have in common cancels")


@quotients.procedure
def common_factor(t: Term) -> Term | None:
    """Move what the addends under a power, logarithm, absolute value or relu share out of it.

    Law:     (c * p) ** n = c ** n * p ** n; log(c * p) = log(c) + log(p); f(c * p) = c * f(p)
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


def _are_out_of_order(found: Bindings) -> bool:
    """True if the extent of the inner sum comes before that of the outer one."""
    (_, outer), (_, inner) = found.folds["k"], found.folds["j"]
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
