"""The arithmetic of `semantics.md` on arrays of floats: NaN stands for what is unspecified.

Ints and conditions are such arrays, too: a `long double` has at least the 64 bits of an int, and a
condition is 0 or 1. inf is the minimum of nothing, and what is made of that alone.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from monocomp.declarations.vocabulary import Kind
from monocomp.errors import UnsupportedDtypeError, UnsupportedError

Array: TypeAlias = npt.NDArray[Any]

_EXPONENT_BITS = 15  # exp(1e4) and exp(-1e4)
_MANTISSA_BITS = 63  # after the point: those of an int64
LOWEST = -(2**63)  # of the ints


def widest() -> np.dtype[Any]:
    """The dtype in which the oracle computes."""
    limits = np.finfo(np.longdouble)
    if limits.nexp < _EXPONENT_BITS or limits.nmant < _MANTISSA_BITS:
        raise UnsupportedError(
            "the oracle needs a long double of 15 exponent bits, and this machine has none",
            help="run it on Linux on x86-64 or arm64",
        )
    return np.dtype(np.longdouble)


def to_numpy(name: str, given: Any) -> Array:
    """An input as a float64, int64 or bool array; torch is not imported for its tensors."""
    if hasattr(given, "detach"):
        given = given.detach().cpu()
        given = (given.double() if given.is_floating_point() else given).numpy()
    array = np.asarray(given)
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    try:
        if array.dtype.kind not in "cOSUmM":
            return array.astype(np.float64)
    except (TypeError, ValueError):
        pass
    raise UnsupportedDtypeError(
        f"input '{name}' has dtype {array.dtype}, which is no number",
        help="give floats, integers or booleans",
    )


# --- operators ----------------------------------------------------------------------------


def whole(x: Array) -> Array:
    """A result of arithmetic on ints, unspecified where it leaves int64."""
    return np.where((x >= LOWEST) & (x < -LOWEST), x, math.nan)


def add(x: Array, y: Array) -> Array:
    """-inf + anything = -inf"""
    return np.where((x == -math.inf) | (y == -math.inf), -math.inf, x + y)


def negate(x: Array) -> Array:
    """-x"""
    return np.where(x == -math.inf, math.nan, -x)


def multiply(x: Array, y: Array) -> Array:
    """0 * anything = 0"""
    rises = (x != math.inf) & (y != math.inf)
    return np.where((x == 0) | (y == 0), 0, _number(x * y, rises))


def divide(x: Array, y: Array) -> Array:
    """0 / anything = 0"""
    divisor = np.where((y == 0) | np.isinf(y), math.nan, y)
    return np.where(x == 0, 0, _number(x / divisor, x != math.inf))


def _number(result: Array, rises: Array | bool = True) -> Array:
    """A result of arithmetic, unspecified where it is inf and no operand is."""
    return np.where((result == math.inf) & rises, math.nan, result)


def power(x: Array, y: Array) -> Array:
    """x ** y"""
    unspecified = ~np.isfinite(x) | ~np.isfinite(y)
    return np.where(unspecified, math.nan, _number(np.power(x, y)))


def _rounding(op: Callable[[Array, Array], Array], x: Array, y: Array, kind: Kind) -> Array:
    """`//` or `%`: an int is 0 for a divisor of 0."""
    unspecified = ~np.isfinite(x) | ~np.isfinite(y) | (y == 0)
    result = np.where(unspecified, math.nan, op(x, np.where(unspecified, 1, y)))
    return np.where((y == 0) & ~np.isnan(x), 0, result) if kind == "int" else result


def operate(op: str, x: Array, y: Array, kind: Kind) -> Array:
    """One of + - * / // % **."""
    match op:
        case "+":
            result = add(x, y)
        case "-":
            result = add(x, negate(y))
        case "*":
            result = multiply(x, y)
        case "/":
            result = divide(x, y)
        case "**":
            result = np.rint(power(x, y)) if kind == "int" else power(x, y)
        case _:
            result = _rounding(np.floor_divide if op == "//" else np.mod, x, y, kind)
    return whole(result) if kind == "int" else result


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    **{"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge},
    **{"==": operator.eq, "!=": operator.ne},
}


def compare(op: str, x: Array, y: Array) -> Array:
    """One of < <= > >= == !=."""
    return np.where(np.isnan(x) | np.isnan(y), math.nan, _COMPARISONS[op](x, y))


def condition(x: Array) -> Array:
    """A number is true unless it is 0."""
    return np.where(np.isnan(x), x, x != 0)


def connect(op: str, x: Array, y: Array) -> Array:
    """`and` or `or` of conditions: where x settles it, y is not looked at."""
    return np.where(np.isnan(x) | (x == (op == "or")), x, y)


def choose(chosen: Array, x: Array, y: Array) -> Array:
    """`where`: x where the condition holds, else y."""
    return np.where(np.isnan(chosen), math.nan, np.where(chosen == 0, y, x))


# --- functions ----------------------------------------------------------------------------


def _in_float64(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function that numpy lacks, from the standard library."""
    apply = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(np.asarray(apply(x.astype(np.float64)), np.float64), x.dtype)


_ERFC = _in_float64(math.erfc)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _softplus(x: Array) -> Array:
    """log(1 + exp(x)) without overflow and without losing a small exp(x)."""
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def _gelu(x: Array) -> Array:
    """x times the normal distribution at x; erfc is exact far to the left as well."""
    return x / 2 * _ERFC(-x / np.sqrt(np.asarray(2, x.dtype)))


# Each with its value at -inf, where it has one.
_FUNCTIONS: Mapping[str, tuple[Callable[[Array], Array], float]] = {
    "exp": (np.exp, 0),
    "exp2": (np.exp2, 0),
    "sigmoid": (_sigmoid, 0),
    "softplus": (_softplus, 0),
    "silu": (lambda x: x * _sigmoid(x), 0),
    "gelu": (_gelu, 0),
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
    """A function of one number."""
    if name == "stop":
        return x
    function, at_nothing = _FUNCTIONS[name]
    numbers = np.where(np.isinf(x), math.nan, x)
    return np.where(x == -math.inf, at_nothing, _number(function(numbers)))
