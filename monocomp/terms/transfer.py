"""Transfer functions: the values of each operator, from the values of its operands.

A float is a real number, or -inf, which stands for no element, or it is unspecified.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from monocomp.terms.nodes import Number

_INF = math.inf


@dataclass(frozen=True, slots=True)
class Dom:
    """A set of values.

    Attributes:
        lo: no value is less; -inf if one may be -inf.
        hi: no value is more.
        zero: True if one may be 0. The inverse of 0 counts as 0.
        masked: True if one may be -inf.
        unspecified: True if one may be neither a real number nor -inf.
    """

    lo: Number = -_INF
    hi: Number = _INF
    zero: bool = True
    masked: bool = False
    unspecified: bool = False

    def __post_init__(self) -> None:
        if self.zero and not self.lo <= 0 <= self.hi:
            object.__setattr__(self, "zero", False)

    @property
    def is_real(self) -> bool:
        """True if every value is a real number."""
        return not (self.masked or self.unspecified)

    @property
    def is_zero(self) -> bool:
        """True if 0 is the only value."""
        return self.lo == self.hi == 0 and self.is_real

    @property
    def is_missing(self) -> bool:
        """True if -inf is the only value."""
        return self.hi == -_INF and not self.unspecified

    @property
    def is_positive(self) -> bool:
        """True if every specified value is more than 0."""
        return self.lo >= 0 and not self.zero

    @property
    def is_negative(self) -> bool:
        """True if every specified value is less than 0."""
        return self.hi <= 0 and not self.zero

    @property
    def has_sign(self) -> bool:
        """True if no two specified values have different signs."""
        return self.lo >= 0 or self.hi <= 0


REAL = Dom()
MASKED = Dom(masked=True)
ANYTHING = Dom(masked=True, unspecified=True)
ZERO = Dom(0, 0)
MISSING = Dom(hi=-_INF, masked=True)
SHARE = Dom(0, 1)
# Tensors have no more elements along an axis: sums and products of a few ints are far from 2**63.
LARGEST_EXTENT = 2**30
POSITION = Dom(0, LARGEST_EXTENT)
# Random numbers are multiples of 2**-24 (`declarations/counter_rng.py`).
_UNIFORM = Dom(0, 1 - Fraction(1, 2**24))


def hull(a: Dom, b: Dom) -> Dom:
    """Return the values of either."""
    return Dom(
        min(a.lo, b.lo),
        max(a.hi, b.hi),
        a.zero or b.zero,
        a.masked or b.masked,
        a.unspecified or b.unspecified,
    )


def _add(*parts: Dom) -> Dom:
    if any(p.is_missing for p in parts):
        return MISSING
    lo = _add_ends(p.lo for p in parts)
    hi = -_add_ends(-p.hi for p in parts)
    is_apart = lo > 0 or hi < 0
    if all(p.lo >= 0 for p in parts) or all(p.hi <= 0 for p in parts):
        is_apart |= not all(p.zero for p in parts)
    return Dom(
        lo, hi, not is_apart, any(p.masked for p in parts), any(p.unspecified for p in parts)
    )


def _add_ends(ends: Iterable[Number]) -> Number:
    """Add lower ends up; an exact one may be too large for a float."""
    numbers = list(ends)
    if -_INF in numbers:
        return -_INF
    return _INF if _INF in numbers else sum(numbers)


def _times(x: Number, y: Number) -> Number:
    """x * y, and 0 for 0 * inf."""
    if not x or not y:
        return 0
    if isinstance(x, float) or isinstance(y, float):
        return _INF if (x > 0) == (y > 0) else -_INF
    return x * y


def multiply(*parts: Dom) -> Dom:
    """Return the domain of a product: -inf times what is less than 0 is unspecified."""
    if any(p.is_zero for p in parts):
        return ZERO
    others = [p for p in parts if not p.is_missing]
    if len(others) < len(parts) and all(p.is_positive and p.is_real for p in others):
        return MISSING
    lo, hi = _ends_of_product(parts)
    masks = [n for n, p in enumerate(parts) if p.masked]
    masked = any(_ends_of_product([*parts[:n], *parts[n + 1 :]])[1] > 0 for n in masks)
    rises = bool(masks) and sum(p.lo < 0 for p in parts) > 1
    unspecified = rises or any(p.unspecified for p in parts)
    return Dom(-_INF if masked else lo, hi, any(p.zero for p in parts), masked, unspecified)


def _ends_of_product(parts: Sequence[Dom]) -> tuple[Number, Number]:
    ends: tuple[Number, Number] = Fraction(1), Fraction(1)
    for p in parts:
        corners = [_times(x, y) for x in ends for y in (p.lo, p.hi)]
        ends = min(corners), max(corners)
    return ends


def power_of(base: Dom, power: Fraction, in_kernels: bool = False) -> Dom:
    """Return the domain of a power. Roots and inverses are bounded by 0 and 1 alone: other ends are
    no exact numbers."""
    if base.is_zero and power > 0:
        return ZERO
    lo, hi = base.lo, base.hi
    is_root = power.denominator != 1
    if not is_root and power.numerator % 2 == 0 and lo < 0:
        lo, hi = (0 if hi > 0 else -hi), max(-lo, hi)
    is_settled = in_kernels and power < 0
    unspecified = base.unspecified or base.masked or (is_root and lo < 0 and not is_settled)
    unspecified |= power < 0 and base.zero and not is_settled
    if power > 0 and not is_root:
        return Dom(lo ** int(power), hi ** int(power), base.zero, False, unspecified)
    if lo < 0 and not is_root:
        return Dom(-_INF, (0 if hi <= 0 else _INF), base.zero, False, unspecified)
    if power < 0:
        ends: tuple[Number, Number] = (0 if hi > 1 else 1), (1 if lo >= 1 else _INF)
    else:
        ends = (1 if lo >= 1 else 0), (1 if hi <= 1 else _INF)
    return Dom(*ends, base.zero, False, unspecified)


def exponential(x: Dom, filled: bool) -> Dom:
    if x.is_missing:
        return ZERO
    lo, hi = (1 if x.lo >= 0 and not x.masked else 0), (1 if x.hi <= 0 else _INF)
    return Dom(lo, hi, x.masked and not filled, False, x.unspecified)


def _logarithm(x: Dom) -> Dom:
    if x.is_zero:
        return MISSING
    unspecified = x.unspecified or x.lo < 0
    lo, hi = (0 if x.lo >= 1 else -_INF), (0 if x.hi <= 1 else _INF)
    return Dom(lo, hi, not x.lo > 1, x.zero, unspecified)


def _extremum(
    end: Callable[..., Number], one: Callable[..., bool], every: Callable[..., bool]
) -> Callable[..., Dom]:
    """Return the transfer function of a maximum: it is positive if `one` is, and negative or -inf
    if `every` one is."""

    def transfer(*parts: Dom) -> Dom:
        is_apart = one(p.is_positive for p in parts) or every(p.is_negative for p in parts)
        return Dom(
            end(p.lo for p in parts),
            end(p.hi for p in parts),
            not is_apart,
            every(p.masked for p in parts),
            any(p.unspecified for p in parts),
        )

    return transfer


def _function(
    lo: Number, hi: Number, sign: str = "", masked: str = "unspecified", positive: bool = False
) -> Callable[[Dom], Dom]:
    """Return the transfer function of one with values between two ends.

    Args:
        lo: the lower end.
        hi: the upper end.
        sign: "odd" if it has the sign of its argument.
        masked: its value at -inf, or "unspecified".
        positive: True if it is more than 0 for every real number.
    """

    def transfer(x: Dom) -> Dom:
        is_odd = sign == "odd"
        return Dom(
            0 if is_odd and x.lo >= 0 else lo,
            0 if is_odd and x.hi <= 0 else hi,
            x.masked if positive else not is_odd or x.zero,
            False,
            x.unspecified or (x.masked and masked == "unspecified"),
        )

    return transfer


def _absolute(x: Dom) -> Dom:
    lo = max(0, x.lo, -x.hi)
    return Dom(lo, max(-x.lo, x.hi), x.zero, False, x.unspecified or x.masked)


def _rectified(x: Dom) -> Dom:
    return Dom(max(0, x.lo), max(0, x.hi), not x.is_positive, False, x.unspecified)


def _gate(x: Dom) -> Dom:
    """x times a share that depends on it, whose negative values exceed -1; 0 at -inf."""
    return Dom(0 if x.lo >= 0 else -1, max(0, x.hi), x.zero or x.masked, False, x.unspecified)


def _elu(x: Dom) -> Dom:
    return replace(_gate(x), zero=x.zero)


def _floor(x: Dom) -> Dom:
    lo = x.lo if isinstance(x.lo, float) else math.floor(x.lo)
    return Dom(lo, x.hi, True, False, x.unspecified or x.masked)


def _modulo(x: Dom, y: Dom) -> Dom:
    if x.lo == x.hi and y.lo == y.hi != 0 and not isinstance(x.lo + y.lo, float):
        return Dom(x.lo % y.lo, x.lo % y.lo, unspecified=True)
    largest = min(x.hi, y.hi) if x.lo >= 0 else y.hi
    return Dom(min(0, y.lo), max(0, largest), unspecified=True)


def _quotient_of_ints(x: Dom, y: Dom) -> Dom:
    if y.is_zero:
        return ZERO
    if (y.lo > 0 or y.hi < 0) and x.lo > -_INF and x.hi < _INF:
        corners = [int(a // b) for a in (x.lo, x.hi) for b in (y.lo, y.hi)]
        return Dom(min(corners), max(corners), unspecified=True)
    if x.lo >= 0 and y.lo >= 0:
        return Dom(0, x.hi, unspecified=True)
    size = max(-x.lo, x.hi)
    return Dom(-size, size, unspecified=True)


_SIGN = _function(-1, 1, "odd", masked="-1")
_WAVE = _function(-1, 1)

TRANSFER: dict[str, Callable[..., Dom]] = {
    "index": lambda: POSITION,
    "extent": lambda: Dom(1, LARGEST_EXTENT, False),
    "uniform": lambda *_: _UNIFORM,
    "add": _add,
    "mod": _modulo,
    "floordiv": _quotient_of_ints,
    "maximum": _extremum(max, any, all),
    "minimum": _extremum(min, all, any),
    "abs": _absolute,
    "relu": _rectified,
    "sign": _SIGN,
    "tanh": _SIGN,
    "erf": _SIGN,
    "sin": _WAVE,
    "cos": _WAVE,
    "sigmoid": _function(0, 1, masked="0", positive=True),
    "softplus": _function(0, _INF, masked="0", positive=True),
    "log": _logarithm,
    "silu": _gate,
    "gelu": _gate,
    "elu": _elu,
    "floor": _floor,
    "power": lambda x, y: Dom(0 if x.lo >= 0 else -_INF, _INF, unspecified=True),
}


def sum_of(x: Dom, is_there: bool, count: int) -> Dom:
    """Return the domain of a sum of at most so many elements, which is 0 of none."""
    lo, hi = min(0, _times(x.lo, count)), max(0, _times(x.hi, count))
    is_apart = is_there and x.has_sign and not x.zero
    return Dom(lo, hi, not is_apart, x.masked, x.unspecified)
