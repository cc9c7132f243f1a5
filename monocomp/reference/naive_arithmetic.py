"""Operators and functions on values, and what becomes of elements that are not there.

Ordinary arithmetic says nothing of a quotient of sums over nothing, or of a row of logits
that are all -inf. So some numbers remember that they stand for no element. There are two
grades of this, carried by `Value.absent`:

EMPTY: a sum, mean, variance, extremum or logsumexp of elements that are all absent, and exp or
    exp2 of -inf, a weight of nothing. Four results are pinned where the operands in brackets are
    absent:

        [0] / [0] = 0      [0] * [inf] = 0      -inf - [-inf] = -inf      -inf + [+inf] = -inf

    The right-hand ones are the logarithms of the left-hand ones, as exp(s - m) is
    exp(s) / exp(m).

MASKED: an element that a filter or the literal -inf excludes, and a sum or mean without any
    other. It is EMPTY as well, and it absorbs: a masked 0 times anything or over anything is 0, a
    masked -inf plus anything or minus anything is -inf, NaN included, so that what it meets is
    never looked at.

A number stays absent only while it is 0 or infinite. A product or quotient is absent if an
operand is; an infinite sum, if an infinite operand is; a sum that is 0, if both are; the larger and
the smaller of two, while they are infinite. A function of what is MASKED is EMPTY, but for exp,
log, sqrt and abs, which undo one another, or are sqrt(x ** 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from monocomp.reference.named_arrays import Axes, Value, aligned, shape_of, spread, union
from monocomp.reference.wide import (
    FLOAT_FUNCTIONS,
    NUMBER_FUNCTIONS,
    Array,
    Wide,
    is_finite,
    is_infinite,
)

EMPTY = 1
MASKED = 2


# --- kinds --------------------------------------------------------------------------------


def is_wide(w: Wide, value: Value) -> bool:
    """Whether a value is a float."""
    return bool(value.array.dtype == w.dtype)


def as_wide(w: Wide, value: Value) -> Value:
    """A value as a float."""
    return value if is_wide(w, value) else replace(value, array=w.lift(value.array))


def as_number(value: Value) -> Value:
    """Arithmetic counts a condition as 0 or 1."""
    if value.array.dtype.kind != "b":
        return value
    return replace(value, array=value.array.astype(np.int64))


def as_condition(value: Value) -> Value:
    """A number is true unless it is 0."""
    if value.array.dtype.kind == "b":
        return value
    return Value(value.axes, np.asarray(value.array != 0, bool))


def promote(w: Wide, values: Iterable[Value]) -> list[Value]:
    """Ints beside floats become floats."""
    numbers = [as_number(v) for v in values]
    if any(is_wide(w, v) for v in numbers):
        return [as_wide(w, v) for v in numbers]
    return numbers


# --- absence ------------------------------------------------------------------------------


def still_absent(absent: Array | None, array: Array) -> Array | None:
    """A number stays absent while it is 0 or infinite."""
    if absent is None:
        return None
    return np.where((array == 0) | is_infinite(array), absent, np.uint8(0))


def empty_where(condition: Array) -> Array | None:
    """EMPTY where a condition holds, None if nowhere."""
    return condition.astype(np.uint8) * np.uint8(EMPTY) if condition.any() else None


def _level(value: Value, axes: Axes) -> Array:
    if value.absent is None:
        return np.zeros((1,) * len(axes), np.uint8)
    return spread(value.absent, value.axes, axes)


_ABSORBING = {
    ("*", "left"): 0.0,
    ("*", "right"): 0.0,
    ("/", "left"): 0.0,
    ("+", "left"): -math.inf,
    ("+", "right"): -math.inf,
    ("-", "left"): -math.inf,
}


def absorbs(op: str, side: str, operand: Value) -> Value | None:
    """Where a masked operand settles the result, whatever the other one is."""
    if operand.absent is None or (op, side) not in _ABSORBING:
        return None
    element = operand.array == _ABSORBING[op, side]
    return Value(operand.axes, np.asarray((operand.absent == MASKED) & element, bool))


def settle(w: Wide, op: str, result: Value, settled: Value, other: Value) -> Value:
    """Put in what a masked operand settles."""
    here = spread(settled.array, settled.axes, result.axes)
    array = result.array
    if not is_finite(other.array).all() or (op == "/" and (other.array == 0).any()):
        array = np.where(here, w.number(_ABSORBING[op, "left"]), array)
    before = np.uint8(0) if result.absent is None else result.absent
    return replace(result, array=array, absent=np.where(here, np.uint8(MASKED), before))


def _pinned(
    op: str, x: Array, y: Array, left: Value, right: Value
) -> Iterator[tuple[Array, float]]:
    """Where each pinned rule applies, and the result there."""
    axes = union(left.axes, right.axes)
    sides = ((x, left, y), (y, right, x))
    for a, bracketed, b in sides if op in ("*", "+") else sides[1:]:
        if bracketed.absent is None:
            continue
        absent = _level(bracketed, axes) > 0
        zero = (_level(right if bracketed is left else left, axes) > 0) & (b == 0)
        if op == "/":
            yield absent & (a == 0) & zero, 0.0
        elif op == "*" and is_infinite(bracketed.array).any():
            yield absent & is_infinite(a) & zero, 0.0
        elif op == "-":
            yield absent & (a == -math.inf) & (b == -math.inf), -math.inf
        elif op == "+":
            yield absent & (a == math.inf) & (b == -math.inf), -math.inf


def _absence(op: str, left: Value, right: Value, x: Array, y: Array, result: Array) -> Array | None:
    """Whether the result of an operator is absent."""
    if op in ("//", "%") or (left.absent is None and right.absent is None):
        return None
    axes = union(left.axes, right.axes)
    in_left, in_right = _level(left, axes), _level(right, axes)
    if op in ("+", "-"):
        infinite = np.maximum(
            np.where(is_infinite(x), in_left, 0), np.where(is_infinite(y), in_right, 0)
        )
        return still_absent(np.where(result == 0, np.minimum(in_left, in_right), infinite), result)
    if op == "**":  # to a power below 0, what an infinite number divides
        return still_absent(np.where(is_infinite(x) & (result == 0), 0, in_left), result)
    if op == "/":  # what an infinite number divides is a plain 0
        in_right = np.where(is_infinite(result), in_right, np.uint8(0))
    return still_absent(np.maximum(in_left, in_right), result)


# --- operators ----------------------------------------------------------------------------

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
}
_INTEGER_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    **_ARITHMETIC,
    "//": np.floor_divide,
    "%": np.mod,
    "**": np.power,
}
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}


def negate(value: Value) -> Value:
    """-x"""
    value = as_number(value)
    return replace(value, array=np.asarray(-value.array))


def operate(w: Wide, op: str, left: Value, right: Value, keeps_int: bool) -> Value:
    """One of + - * / // % **."""
    left, right = promote(w, (left, right))
    if not keeps_int:
        left, right = as_wide(w, left), as_wide(w, right)
    axes, (x, y) = aligned(left, right)
    if is_wide(w, left):
        compute = _ARITHMETIC.get(op) or w.elementary[op]
    else:
        compute = _INTEGER_ARITHMETIC[op]
    result = np.asarray(compute(x, y), left.array.dtype)
    if is_wide(w, left):
        for applies, pinned in _pinned(op, x, y, left, right):
            result = np.where(applies, w.number(pinned), result)
    return Value(axes, result, _absence(op, left, right, x, y, result))


def compare(w: Wide, op: str, left: Value, right: Value) -> Value:
    """One of < <= > >= == !=."""
    left, right = promote(w, (left, right))
    axes, (x, y) = aligned(left, right)
    return Value(axes, np.asarray(_COMPARISONS[op](x, y), bool))


def connect(op: str, left: Value, right: Value) -> Value:
    """`and` or `or`."""
    axes, (x, y) = aligned(left, right)
    return Value(axes, np.asarray(x & y if op == "and" else x | y))


# --- functions ----------------------------------------------------------------------------


def apply(w: Wide, name: str, operand: Value) -> Value:
    """A function of one argument."""
    if name == "stop":
        return operand
    operand = as_number(operand)
    if name in FLOAT_FUNCTIONS:
        operand = as_wide(w, operand)
    x = operand.array
    function = FLOAT_FUNCTIONS.get(name) or NUMBER_FUNCTIONS[name]
    result = np.asarray(function(w, x), x.dtype)
    absent = still_absent(operand.absent, result)
    if absent is not None and name not in ("exp", "exp2", "log", "sqrt", "abs"):
        absent = np.minimum(absent, np.uint8(EMPTY))
    if name in ("exp", "exp2") and (nothing := empty_where(x == -math.inf)) is not None:
        absent = nothing if absent is None else np.maximum(absent, nothing)
    return Value(operand.axes, result, absent)


def whole(w: Wide, operand: Value) -> Value:
    """int(x): rounded towards 0. What is no int64, NaN among it, is the least one."""
    operand = as_number(operand)
    if not is_wide(w, operand):
        return replace(operand, absent=None)
    x, bound = operand.array, w.number(2.0**63)
    fits = np.asarray((x > -bound) & (x < bound), bool)
    x = np.where(fits, x, -bound)
    floor = w.elementary["floor"]
    return Value(operand.axes, np.where(x < 0, -floor(-x), floor(x)).astype(np.int64))


def larger_or_smaller(w: Wide, name: str, a: Value, b: Value) -> Value:
    """maximum or minimum; absent where the operand that it takes is."""
    a, b = promote(w, (a, b))
    axes, (x, y) = aligned(a, b)
    result = np.maximum(x, y) if name == "maximum" else np.minimum(x, y)
    if a.absent is None and b.absent is None:
        return Value(axes, result)
    taken = np.maximum(
        np.where(result == x, _level(a, axes), 0), np.where(result == y, _level(b, axes), 0)
    )
    level = np.where(is_infinite(result), np.minimum(taken, np.uint8(EMPTY)), np.uint8(0))
    return Value(axes, result, level)


def choose(w: Wide, condition: Value, a: Value, b: Value) -> Value:
    """`where`: a where the condition holds, else b."""
    if not a.array.dtype == b.array.dtype == bool:
        a, b = promote(w, (a, b))
    axes, (chosen, x, y) = aligned(condition, a, b)
    result = np.where(chosen, x, y)
    absent = None
    if a.absent is not None or b.absent is not None:
        absent = np.where(chosen, _level(a, axes), _level(b, axes))
    return Value(axes, np.broadcast_to(result, shape_of(axes)), absent)
