"""Values that are known to be real numbers, and need no guard against -inf and empty sums.

    sum[d](A[i,d] * B[d,j])  is a real number    of inputs
    max x  is one                                where x is, over at least one element
    sum exp2(c * (x - max x))  is at least 1     for c > 0, where x is

An input that a product of matrices multiplies by what may be negative holds no -inf in a program
that is specified.
"""

from __future__ import annotations

import math
from typing import Any

from monocomp.backends.tape.recorder import Value
from monocomp.backends.tape.tile import in_order, is_strided

_OF_REALS = {"add", "sub", "mul", "neg", "abs", "maximum", "minimum", "keep"}
_REDUCED = {"amax", "amin", "sum"}


def is_real(v: Value) -> bool:
    """True if all elements are known to be real numbers."""
    v = _seen(v)
    if v.known is not None:
        return bool(v.known.isfinite().all())
    name, operands = name_of(v), v.operands
    if name == "product":
        factors = [*map(_seen, operands)]
        is_signed = all(_is_input(x) or (name_of(x) == "product" and is_real(x)) for x in factors)
        return is_signed or all(map(is_real, factors))
    if name in _REDUCED:
        return 0 not in operands[0].shape and (is_real(operands[0]) or is_positive(v))
    if name in ("reciprocal", "log"):
        return is_positive(operands[0])
    return name in _OF_REALS and all(map(is_real, operands))


def is_positive(v: Value) -> bool:
    """True if a value is a sum of exponentials relative to the largest of real numbers."""
    v = _seen(v)
    logits = logits_of(v.operands[0], v.key[1]) if name_of(v) == "sum" else None
    return logits is not None and is_real(logits[0])


def is_no_less(v: Value) -> bool:
    """True if no element is less than 0."""
    v = _seen(v)
    name, operands = name_of(v), v.operands
    if v.known is not None:
        return bool((v.known >= 0).all())
    if name in ("mul", "div", "add"):
        return all(map(is_no_less, operands))
    if name == "replace":
        return all(map(is_no_less, operands)) and all(n >= 0 for n in _numbers(v))
    if name in ("sum", "amax", "reciprocal", "keep"):
        return is_no_less(operands[0])
    return name in ("exp2", "abs", "softmax")


def _numbers(v: Value) -> tuple[float, ...]:
    """Return what a guard makes of the infinities, if it is one of them."""
    return v.key[1] if isinstance(v.key, tuple) else ()


def exceeds(v: Value, number: float | None) -> bool:
    """True if all elements are known to be above a number."""
    return (number == -math.inf and is_real(v)) or (number == 0 and is_positive(v))


def logits_of(power: Value, axis: int) -> tuple[Value, float] | None:
    """Return numbers, and their factor, whose exponentials relative to the largest along an axis a
    value has; None if it has none."""
    if name_of(power) != "exp2" or 0 in power.shape:
        return None
    factor, exponent = math.log(2), power.operands[0]
    if name_of(exponent) == "mul":
        number, exponent = sorted(exponent.operands, key=lambda v: v.number is None)
        factor *= number.number or 0.0
    if name_of(exponent) != "sub" or factor <= 0:
        return None
    x, largest = exponent.operands
    if name_of(largest) == "replace":
        (largest,) = largest.operands
    is_relative = largest.is_made_by(("amax", axis), x)
    return (x, factor) if is_relative and x.shape == power.shape else None


def _seen(v: Value) -> Value:
    """Return a value that has all elements that a view shows."""
    while v.known is None and (is_strided(v) or in_order(v) is not None):
        v = v.operands[0]
    return v


def _is_input(v: Value) -> bool:
    return v.key is None and v.known is None and not v.is_owned and v.dtype.is_floating_point


def name_of(v: Value) -> Any:
    """Return the name of the operation that makes a value, "view" for all views in its order."""
    key = "view" if in_order(v) is not None else v.key
    return key[0] if isinstance(key, tuple) else key
