"""Numbers with at least a float64 mantissa and room for exp(1e4) and exp(-1e4).

The oracle computes every float in one of two formats: `np.longdouble` where that has 15
exponent bits (x86, and quadruple precision elsewhere), else mpmath's numbers in arrays of
objects. What differs between them stands here, behind one record; all else the oracle does
is numpy arithmetic that works on both. Every operation has the result that IEEE 754 gives
it, NaN and infinities included.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from monocomp.errors import UnsupportedDtypeError

Array: TypeAlias = npt.NDArray[Any]
Literal: TypeAlias = int | Fraction | float

_EXPONENT_BITS = 15
_PRECISION = 80  # bits of an mpmath mantissa


@dataclass(frozen=True)
class Wide:
    """A number format.

    Attributes:
        name: "longdouble" or "mpmath".
        dtype: of arrays in this format.
        lift: an array of bool, integers or floats in this format.
        number: a literal in this format, as an array without dimensions.
        lower: an array in this format as float64.
        elementary: the functions and operators that the two formats spell differently.
    """

    name: str
    dtype: np.dtype[Any]
    lift: Callable[[Array], Array]
    number: Callable[[Literal], Array]
    lower: Callable[[Array], Array]
    elementary: Mapping[str, Callable[..., Array]]


def is_nan(x: Array) -> Array:
    """Works on every dtype: NaN alone differs from itself."""
    return np.asarray(x != x, bool)


def is_infinite(x: Array) -> Array:
    """Works on every dtype."""
    return np.asarray((x == math.inf) | (x == -math.inf), bool)


def is_finite(x: Array) -> Array:
    """Works on every dtype."""
    return ~(is_nan(x) | is_infinite(x))


# --- long double ------------------------------------------------------------------------


def _in_float64(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function that numpy lacks, from the standard library."""
    apply = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(apply(x.astype(np.float64)), np.float64).astype(np.longdouble)


def _long_number(value: Literal) -> Array:
    if isinstance(value, Fraction):
        return np.asarray(np.longdouble(value.numerator) / np.longdouble(value.denominator))
    return np.asarray(np.longdouble(value))


LONGDOUBLE = Wide(
    name="longdouble",
    dtype=np.dtype(np.longdouble),
    lift=lambda x: x.astype(np.longdouble, copy=False),
    number=_long_number,
    lower=lambda x: x.astype(np.float64),
    elementary={
        "exp": np.exp,
        "exp2": np.exp2,
        "expm1": np.expm1,
        "log": np.log,
        "log2": np.log2,
        "log1p": np.log1p,
        "sqrt": np.sqrt,
        "tanh": np.tanh,
        "sin": np.sin,
        "cos": np.cos,
        "floor": np.floor,
        "erf": _in_float64(math.erf),
        "erfc": _in_float64(math.erfc),
        "/": np.divide,
        "//": np.floor_divide,
        "%": np.mod,
        "**": np.power,
    },
)


# --- mpmath -----------------------------------------------------------------------------

# The values at +inf and -inf, where mpmath raises or hangs.
_AT_INFINITY = {
    "exp": (math.inf, 0.0),
    "exp2": (math.inf, 0.0),
    "expm1": (math.inf, -1.0),
    "log": (math.inf, math.nan),
    "log2": (math.inf, math.nan),
    "log1p": (math.inf, math.nan),
    "sqrt": (math.inf, math.nan),
    "tanh": (1.0, -1.0),
    "sin": (math.nan, math.nan),
    "cos": (math.nan, math.nan),
    "floor": (math.inf, -math.inf),
    "erf": (1.0, -1.0),
    "erfc": (0.0, 2.0),
}
# Beyond it these are as at infinity: the exponent of exp(x) alone has 50 bits there.
_HUGE = 1e15
_SETTLED = ("exp", "exp2", "expm1", "tanh", "erf", "erfc")


@cache
def mpmath_format() -> Wide:
    """The format for machines whose long double is narrow: slow, and of any range."""
    import mpmath  # type: ignore[import-untyped]

    # A context of its own: the precision of the user's mpmath stays as it is.
    context: Any = mpmath.mp.clone()
    context.prec = _PRECISION
    nan = context.mpf("nan")

    def real(value: Any) -> Any:
        return nan if isinstance(value, context.mpc) else context.mpf(value)

    def function(name: str, compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
        plus, minus = _AT_INFINITY[name]
        limit = _HUGE if name in _SETTLED else math.inf

        def at(x: Any) -> Any:
            if x != x:
                return nan
            if abs(x) >= limit:
                return context.mpf(plus if x > 0 else minus)
            return real(compute(x))

        return at

    def divide(a: Any, b: Any) -> Any:
        if b != 0 or b != b:
            return a / b
        return nan if a == 0 or a != a else context.inf * context.sign(a)

    def floor_divide(a: Any, b: Any) -> Any:
        quotient = divide(a, b)
        return quotient if not context.isfinite(quotient) else context.floor(quotient)

    def remainder(a: Any, b: Any) -> Any:
        if not (context.isfinite(a) and context.isfinite(b)) or b == 0:
            return nan
        return a % b

    def power(a: Any, b: Any) -> Any:
        if a == 0 and b < 0:
            return context.inf
        return real(a**b)

    def vectorised(compute: Callable[..., Any], arguments: int) -> Callable[..., Array]:
        apply = np.frompyfunc(compute, arguments, 1)
        return lambda *x: np.asarray(apply(*x), object)

    def exactly(value: Any) -> Any:
        if isinstance(value, Fraction):
            return context.mpf(value.numerator) / context.mpf(value.denominator)
        return context.mpf(value)

    def lift(x: Array) -> Array:
        if x.dtype == object:
            return x
        plain = x.astype(np.int64 if x.dtype == bool else x.dtype)
        return vectorised(context.mpf, 1)(plain.astype(object))

    computed: dict[str, Callable[[Any], Any]] = {
        "exp2": lambda x: context.mpf(2) ** x,
        "log2": lambda x: context.log(x, 2) if x != 0 else -context.inf,
    }
    elementary = {
        name: vectorised(function(name, computed.get(name) or getattr(context, name)), 1)
        for name in _AT_INFINITY
    }
    elementary |= {
        "/": vectorised(divide, 2),
        "//": vectorised(floor_divide, 2),
        "%": vectorised(remainder, 2),
        "**": vectorised(power, 2),
    }
    return Wide(
        name="mpmath",
        dtype=np.dtype(object),
        lift=lift,
        number=lambda value: np.asarray(exactly(value), object),
        lower=lambda x: x.astype(np.float64),
        elementary=elementary,
    )


def default() -> Wide:
    """Long double where its range suffices, else mpmath."""
    if np.finfo(np.longdouble).nexp >= _EXPONENT_BITS:
        return LONGDOUBLE
    return mpmath_format()


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


# --- the functions of the language ------------------------------------------------------


def _sigmoid(w: Wide, x: Array) -> Array:
    return w.elementary["/"](w.number(1), 1 + w.elementary["exp"](-x))


def _gelu(w: Wide, x: Array) -> Array:
    """x times the normal distribution at x; erfc is exact far to the left as well."""
    return x / 2 * w.elementary["erfc"](-x / w.elementary["sqrt"](w.number(2)))


def _softplus(w: Wide, x: Array) -> Array:
    """log(1 + exp(x)) without overflow and without losing a small exp(x)."""
    return maximum(x, w.number(0)) + w.elementary["log1p"](w.elementary["exp"](-np.abs(x)))


def _elu(w: Wide, x: Array) -> Array:
    return np.where(x > 0, x, w.elementary["expm1"](x))


def constant(w: Wide, value: Literal, like: Array) -> Array:
    """A literal in the dtype of another array: an int beside ints, else wide."""
    return np.asarray(value, np.int64) if like.dtype.kind == "i" else w.number(value)


def sign(w: Wide, x: Array) -> Array:
    """-1, 0 or 1; NaN stays NaN."""
    one, zero = constant(w, 1, x), constant(w, 0, x)
    return np.where(x > 0, one, np.where(x < 0, -one, np.where(x == 0, zero, x)))


def maximum(a: Array, b: Array) -> Array:
    """The larger; NaN if either is NaN."""
    return np.where(is_nan(a) | (a >= b), a, b)


def minimum(a: Array, b: Array) -> Array:
    """The smaller; NaN if either is NaN."""
    return np.where(is_nan(a) | (a <= b), a, b)


def _elementary(name: str) -> Callable[[Wide, Array], Array]:
    return lambda w, x: w.elementary[name](x)


# Functions of one float.
FLOAT_FUNCTIONS: dict[str, Callable[[Wide, Array], Array]] = {
    **{
        name: _elementary(name)
        for name in ("exp", "exp2", "log", "log2", "sqrt", "tanh", "sin", "cos", "floor", "erf")
    },
    "rsqrt": lambda w, x: w.elementary["/"](w.number(1), w.elementary["sqrt"](x)),
    "sigmoid": _sigmoid,
    "silu": lambda w, x: x * _sigmoid(w, x),
    "gelu": _gelu,
    "softplus": _softplus,
    "elu": _elu,
    "relu": lambda w, x: np.where(x <= 0, w.number(0), x),
}

# Functions of one number that keep its kind.
NUMBER_FUNCTIONS: dict[str, Callable[[Wide, Array], Array]] = {
    "abs": lambda w, x: np.abs(x),
    "sign": sign,
}
