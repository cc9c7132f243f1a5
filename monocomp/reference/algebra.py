"""The arithmetic of `semantics.md` on arrays of floats: NaN stands for what is unspecified.

Ints and conditions are also such arrays: a `long double` has at least the 64 bits of an int, and a
condition is 0 or 1. inf is the minimum of nothing, and what is made of that alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from monocomp.declarations.vocabulary import Kind
from monocomp.errors import UnsupportedError

Array: TypeAlias = npt.NDArray[Any]

_EXPONENT_BITS = 15  # exp(1e4) and exp(-1e4)
_MANTISSA_BITS = 63  # after the point: those of an int64
LOWEST = -(2**63)  # of the ints


def widest() -> np.dtype[Any]:
    """Return the dtype in which the oracle computes."""
    limits = np.finfo(np.longdouble)
    if limits.nexp < _EXPONENT_BITS or limits.nmant < _MANTISSA_BITS:
        raise UnsupportedError(
            "the oracle needs a long double of 15 exponent bits, and this machine has none",
            help="run it on Linux on x86-64 or arm64",
        )
    return np.dtype(np.longdouble)


# --- operators ----------------------------------------------------------------------------


def whole(x: Array) -> Array:
    """Return a result of arithmetic on ints, unspecified where it leaves int64."""
    return np.where((x >= LOWEST) & (x < -LOWEST), x, math.nan)


def add(x: Array, y: Array) -> Array:
    """-inf + anything = -inf"""
    return np.where((x == -math.inf) | (y == -math.inf), -math.inf, x + y)


def negate(x: Array) -> Array:
    """-(-inf) is unspecified."""
    return np.where(x == -math.inf, math.nan, -x)


def multiply(x: Array, y: Array) -> Array:
    """0 * anything = 0"""
    rises = (x != math.inf) & (y != math.inf)
    return np.where((x == 0) | (y == 0), 0, _number(x * y, rises))


def divide(x: Array, y: Array) -> Array:
    """0 / anything = 0"""
    divisor = np.where((y == 0) | np.isinf(y), math.nan, y)
    return np.where(x == 0, 0, _number(x / divisor, x != math.inf))


def power(x: Array, y: Array) -> Array:
    """x ** y for numbers"""
    return np.where(np.isfinite(x) & np.isfinite(y), _number(np.power(x, y)), math.nan)


def _number(value: Array, rises: Array | bool = True) -> Array:
    """Return a result of arithmetic, unspecified where it is inf and no operand is."""
    return np.where((value == math.inf) & rises, math.nan, value)


def _round_down(operation: Callable[[Array, Array], Array], x: Array, y: Array) -> Array:
    """Return `//` or `%` of numbers."""
    is_number = np.isfinite(x) & np.isfinite(y) & (y != 0)
    return np.where(is_number, operation(x, np.where(is_number, y, 1)), math.nan)


OPERATORS: dict[str, Callable[[Array, Array], Array]] = {
    "+": add,
    "-": lambda x, y: add(x, negate(y)),
    "*": multiply,
    "/": divide,
    "**": power,
    "//": lambda x, y: _round_down(np.floor_divide, x, y),
    "%": lambda x, y: _round_down(np.mod, x, y),
}


def operate(op: str, x: Array, y: Array, kind: Kind) -> Array:
    """Return the result of an operator. Ints divided by 0 are 0."""
    result = OPERATORS[op](x, y)
    if kind != "int":
        return result
    if op in ("//", "%"):
        result = np.where((y == 0) & ~np.isnan(x), 0, result)
    return whole(np.rint(result))


_RELATIONS: dict[str, Callable[..., Any]] = {
    **{"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal},
    **{"==": np.equal, "!=": np.not_equal},
}


def compare(op: str, x: Array, y: Array) -> Array:
    """Return a comparison, unspecified where an operand is."""
    return np.where(np.isnan(x) | np.isnan(y), math.nan, _RELATIONS[op](x, y))


def condition(x: Array) -> Array:
    """Return a number as a condition: true unless it is 0."""
    return np.where(np.isnan(x), x, x != 0)


def connect(op: str, x: Array, y: Array) -> Array:
    """Return `and` or `or` of conditions: where x settles it, y is not looked at."""
    return np.where(np.isnan(x) | (x == (op == "or")), x, y)


def choose(chosen: Array, x: Array, y: Array) -> Array:
    """Return x where the condition holds, else y."""
    return np.where(np.isnan(chosen), math.nan, np.where(chosen == 0, y, x))


# --- functions ----------------------------------------------------------------------------


def _in_float64(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """Return a function that numpy lacks, from the standard library."""
    apply = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(np.asarray(apply(x.astype(np.float64)), np.float64), x.dtype)


_ERFC = _in_float64(math.erfc)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


# Each with its value at -inf, where it has one. softplus neither overflows nor loses a small
# exp(x); gelu is x times the normal distribution at x, by erfc exact far to the left as well.
_FUNCTIONS: dict[str, tuple[Callable[[Array], Array], float]] = {
    "exp": (np.exp, 0),
    "exp2": (np.exp2, 0),
    "sigmoid": (_sigmoid, 0),
    "softplus": (lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))), 0),
    "silu": (lambda x: x * _sigmoid(x), 0),
    "gelu": (lambda x: x / 2 * _ERFC(-x / np.sqrt(np.asarray(2, x.dtype))), 0),
    "relu": (lambda x: np.maximum(x, 0), 0),
    "elu": (lambda x: np.where(x > 0, x, np.expm1(x)), -1),
    "tanh": (np.tanh, -1),
    "erf": (_in_float64(math.erf), -1),
    "sign": (np.sign, -1),
    "log": (np.log, math.nan),
    "log2": (np.log2, math.nan),
    "sqrt": (np.sqrt, math.nan),
    "rsqrt": (lambda x: 1 / np.sqrt(x), math.nan),
    "sin": (np.sin, math.nan),
    "cos": (np.cos, math.nan),
    "abs": (np.abs, math.nan),
    "floor": (np.floor, math.nan),
    "int": (lambda x: whole(np.trunc(x)), math.nan),
}


def apply(name: str, x: Array) -> Array:
    """Return a function of one number."""
    if name == "stop":
        return x
    function, at_nothing = _FUNCTIONS[name]
    numbers = np.where(np.isinf(x), math.nan, x)
    return np.where(x == -math.inf, at_nothing, _number(function(numbers)))
