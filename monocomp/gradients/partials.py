"""Partial derivatives of scalar operations, the table that both modes of differentiation read.

At a kink a subgradient is taken: 0 of `abs`, `relu` and `sign` at 0, half for each of two equal
operands of `maximum` and `minimum`. What is piecewise constant (comparisons, ints, `floor`, `//`,
`uniform`) and `stop(x)` have no derivative.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import NamedTuple

from monocomp import terms as T
from monocomp.terms import Term


class Partial(NamedTuple):
    """d t / d operand = factor where the condition holds, else 0."""

    operand: Term
    factor: Term
    condition: Term = T.TRUE


def partials(t: Term) -> Iterator[Partial]:
    """Yield the nonzero derivatives of a scalar float operation with respect to float operands."""
    for p in _partials(t):
        if p.operand.kind == "float" and p.condition is not T.FALSE and p.factor is not T.ZERO:
            yield p


def _partials(t: Term) -> Iterator[Partial]:
    match t.op:
        case "add":
            for a in t.args:
                yield Partial(a, T.ONE)
        case "mul":
            yield from _of_product(t)
        case "pow":
            (x,), n = t.args, t.attr
            yield Partial(x, T.mul(T.const(n, "float"), T.power_of(x, n - 1)))
        case "power":
            x, y = t.args
            slope = T.mul(y, T.general_power(x, T.sub(y, T.ONE)))
            if T.is_positive(x):
                yield Partial(x, slope)
                yield Partial(y, T.mul(t, T.log(x)))
            else:  # x ** 0 is 1 for all x, and 0 ** y is 0 for all y > 0, whatever log(0) is
                is_flat = T.conjunction(T.compare("==", x, T.ZERO), T.compare("<=", T.ZERO, y))
                yield Partial(x, slope, T.negate(T.compare("==", y, T.ZERO)))
                yield Partial(y, T.mul(t, T.log(x)), T.negate(is_flat))
        case "where":
            condition, a, b = t.args
            yield Partial(a, T.ONE, condition)
            yield Partial(b, T.ONE, T.negate(condition))
        case "maximum" | "minimum":
            yield from _of_extremum(t)
        case "mod":
            a, b = t.args
            yield Partial(a, T.ONE)
            yield Partial(b, T.neg(T.function("floor", T.divide(a, b))))
        case _ if t.op in _DERIVATIVES:
            yield Partial(t.args[0], _DERIVATIVES[t.op](t.args[0]))


def _of_product(t: Term) -> Iterator[Partial]:
    """Yield the derivatives of a product, each where conditions among the other factors hold."""
    for n, f in enumerate(t.args):
        others = (*t.args[:n], *t.args[n + 1 :])
        condition = T.conjunction(*(g.args[0] for g in others if T.is_bracket(g)))
        factor = T.mul(T.ONE, *(g for g in others if not T.is_bracket(g)))
        yield Partial(f, factor, condition)


def _of_extremum(t: Term) -> Iterator[Partial]:
    half = T.const(Fraction(1, 2), "float")
    share = T.where(T.compare("==", *t.args), half, T.ONE)
    for x, y in (t.args, t.args[::-1]):
        yield Partial(x, share, T.compare(">=" if t.op == "maximum" else "<=", x, y))


def _sigmoid(x: Term) -> Term:
    return T.function("sigmoid", x)


def _of_silu(x: Term) -> Term:
    s = _sigmoid(x)
    return T.add(s, T.mul(x, s, _sigmoid(T.neg(x))))


def _of_gelu(x: Term) -> Term:
    """Return Phi(x) + x phi(x), of the normal distribution, which is 0 at -inf."""
    half = T.const(Fraction(1, 2), "float")
    root = T.const(math.sqrt(0.5), "float")
    cumulative = T.mul(half, T.add(T.ONE, T.function("erf", T.mul(root, x))))
    density = T.mul(T.const(1 / math.sqrt(2 * math.pi), "float"), T.exp(T.mul(T.neg(half), x, x)))
    share = T.mul(x, density)
    if not T.is_unmasked(x):
        share = T.where(T.compare("<", T.NEG_INF, x), share, T.ZERO)
    return T.add(cumulative, share)


def _of_tanh(x: Term) -> Term:
    y = T.function("tanh", x)
    return T.sub(T.ONE, T.mul(y, y))


# f'(x) of a function of one number.
_DERIVATIVES: dict[str, Callable[[Term], Term]] = {
    "exp": T.exp,
    "log": lambda x: T.power_of(x, -1),
    "tanh": _of_tanh,
    "sigmoid": lambda x: T.mul(_sigmoid(x), _sigmoid(T.neg(x))),
    "softplus": _sigmoid,
    "silu": _of_silu,
    "gelu": _of_gelu,
    "erf": lambda x: T.mul(T.const(2 / math.sqrt(math.pi), "float"), T.exp(T.neg(T.mul(x, x)))),
    "elu": lambda x: T.exp(T.function("minimum", x, T.ZERO)),
    "relu": lambda x: T.bracket(T.compare("<", T.ZERO, x)),
    "abs": lambda x: T.function("sign", x),
    "sin": lambda x: T.function("cos", x),
    "cos": lambda x: T.neg(T.function("sin", x)),
}
