"""Functions that backends need not know, in forms that neither overflow nor cancel."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from monocomp import terms as T
from monocomp.terms import Term

_HALF = T.const(Fraction(1, 2))


_ROOT_HALF = T.power_of(_HALF, Fraction(1, 2))


def _sigmoid(x: Term) -> Term:
    """1 / (1 + exp(-x))"""
    return T.power_of(T.add(T.ONE, T.exp(T.neg(x))), -1)


def _log_one_plus(x: Term) -> Term:
    """log(1 + x) for x >= 0: what 1 + x has lost of a small x is a factor (Kahan)."""
    total = T.inert("add", x, T.ONE)
    scaled = T.inert(
        "mul",
        T.log(total),
        T.inert("pow", T.inert("add", total, T.const(-1, "float")), attr=Fraction(-1)),
        x,
    )
    return T.where(T.compare("==", total, T.ONE), x, scaled)


# Functions that backends need not know, in forms that neither overflow nor cancel.
EXPANSIONS: dict[str, Callable[..., Term]] = {
    "sigmoid": _sigmoid,
    "relu": lambda x: T.function("maximum", x, T.const(0, x.kind)),
    "silu": lambda x: T.mul(x, T.function("sigmoid", x)),
    "softplus": lambda x: T.add(
        T.function("maximum", x, T.ZERO), _log_one_plus(T.exp(T.neg(T.function("abs", x))))
    ),
    "gelu": lambda x: T.mul(_HALF, x, T.add(T.ONE, T.function("erf", T.mul(x, _ROOT_HALF)))),
    "elu": lambda x: T.where(
        T.compare("<", T.ZERO, x),
        x,
        T.sub(T.exp(T.function("minimum", x, T.ZERO)), T.ONE),
    ),
}
