"""Numbers with at least a float64 mantissa and room for exp(1e4) and exp(-1e4).

The oracle computes every float as `np.longdouble`, which has 15 exponent bits on x86 and as a
quadruple elsewhere. Another format, for what an evaluation with fewer digits gives, is another
`Wide`. Every operation has the result that IEEE 754 gives it, NaN and infinities included.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from monocomp.errors import UnsupportedDtypeError, UnsupportedError

Array: TypeAlias = npt.NDArray[Any]
Literal: TypeAlias = int | Fraction | float

_EXPONENT_BITS = 15


@dataclass(frozen=True)
class Wide:
    """A number format.

    Attributes:
        dtype: of arrays in this format.
        elementary: its functions and operators, but for + - *.
    """

    dtype: np.dtype[Any]
    elementary: Mapping[str, Callable[..., Array]]

    def lift(self, x: Array) -> Array:
        """An array of bool, integers or floats in this format."""
        return x.astype(self.dtype, copy=False)

    def number(self, value: Literal) -> Array:
        """A literal as an array without dimensions."""
        if isinstance(value, Fraction):
            return np.asarray(self.number(value.numerator) / self.number(value.denominator))
        return np.asarray(value, self.dtype)


def is_nan(x: Array) -> Array:
    """Works on every dtype: NaN alone differs from itself."""
    return np.asarray(x != x, bool)


def is_infinite(x: Array) -> Array:
    """Works on every dtype."""
    return np.asarray((x == math.inf) | (x == -math.inf), bool)


def is_finite(x: Array) -> Array:
    """Works on every dtype."""
    return ~(is_nan(x) | is_infinite(x))


def _in_float64(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function that numpy lacks, from the standard library."""
    apply = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(apply(x.astype(np.float64)), np.float64).astype(x.dtype)


def _power(x: Array, y: Array) -> Array:
    """x ** y, no number where that is a root of -inf: np.power has inf there."""
    return np.where((x == -math.inf) & (y != np.floor(y)), math.nan, np.power(x, y))


_NAMES = ("exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "tanh", "sin", "cos", "floor")
ELEMENTARY: dict[str, Callable[..., Array]] = {
    **{name: getattr(np, name) for name in _NAMES},
    **{"erf": _in_float64(math.erf), "erfc": _in_float64(math.erfc)},
    **{"/": np.divide, "//": np.floor_divide, "%": np.mod, "**": _power},
}
LONGDOUBLE = Wide(np.dtype(np.longdouble), ELEMENTARY)


def default() -> Wide:
    """Long double, where its range suffices."""
    if np.finfo(np.longdouble).nexp < _EXPONENT_BITS:
        raise UnsupportedError(
            "the oracle needs a long double of 15 exponent bits, and this machine has none",
            help="run it on Linux on x86-64 or arm64",
        )
    return LONGDOUBLE


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
    return np.maximum(x, w.number(0)) + w.elementary["log1p"](w.elementary["exp"](-np.abs(x)))


def _elu(w: Wide, x: Array) -> Array:
    return np.where(x > 0, x, w.elementary["expm1"](x))


def constant(w: Wide, value: Literal, like: Array) -> Array:
    """A literal in the dtype of another array: an int beside ints, else wide."""
    return np.asarray(value, np.int64) if like.dtype.kind == "i" else w.number(value)


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
    "sign": lambda w, x: np.sign(x),
}
