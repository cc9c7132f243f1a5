"""The reductions of the language, each as the plain formula over the last axis of an array.

`admitted` says which elements the filter lets in (None: all); what it excludes is never
looked at, so a NaN there is harmless. What an aggregate over nothing is:

    sum 0   prod 1   max -inf   min inf   any False   all True   logsumexp -inf
    mean 0   var 0   softmax 0   log_softmax -inf   argmax 0   argmin 0   argtop -1

For integers, max and min over nothing are the least and the largest int64. A set whose
every logit is -inf is as good as empty: logsumexp and log_softmax are -inf, softmax is 0,
and `top` and `argtop` never select a -inf, so that a filter and a mask of -inf agree there
too. `argmax` and `argmin` give the first position of the extreme value; NaN counts as extreme,
and every value that a NaN takes part in is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from monocomp.reference.wide import Array, Wide, constant, is_finite, is_nan

Admitted: TypeAlias = Array | None
Fold: TypeAlias = Callable[[Wide, Array, Admitted], Array]


def _with_unit(x: Array, admitted: Admitted, unit: Array) -> Array:
    """The elements, with the unit where the filter excludes one."""
    return x if admitted is None else np.where(admitted, x, unit)


def _count(x: Array, admitted: Admitted) -> Array:
    if admitted is None:
        return np.full(x.shape[:-1], x.shape[-1], np.int64)
    return np.asarray(admitted.sum(axis=-1, dtype=np.int64))


def _lowest(w: Wide, x: Array) -> Array:
    return np.asarray(np.iinfo(np.int64).min) if x.dtype.kind == "i" else w.number(-math.inf)


def _highest(w: Wide, x: Array) -> Array:
    return np.asarray(np.iinfo(np.int64).max) if x.dtype.kind == "i" else w.number(math.inf)


def _folded(operator: np.ufunc, x: Array, unit: Array) -> Array:
    return np.asarray(operator.reduce(x, axis=-1, initial=unit[()]), x.dtype)


def fold_sum(w: Wide, x: Array, admitted: Admitted) -> Array:
    zero = constant(w, 0, x)
    return _folded(np.add, _with_unit(x, admitted, zero), zero)


def fold_prod(w: Wide, x: Array, admitted: Admitted) -> Array:
    one = constant(w, 1, x)
    return _folded(np.multiply, _with_unit(x, admitted, one), one)


def fold_max(w: Wide, x: Array, admitted: Admitted) -> Array:
    lowest = _lowest(w, x)
    return _folded(np.maximum, _with_unit(x, admitted, lowest), lowest)


def fold_min(w: Wide, x: Array, admitted: Admitted) -> Array:
    highest = _highest(w, x)
    return _folded(np.minimum, _with_unit(x, admitted, highest), highest)


def fold_any(w: Wide, x: Array, admitted: Admitted) -> Array:
    return np.asarray(np.any(_with_unit(x, admitted, np.asarray(False)), axis=-1))


def fold_all(w: Wide, x: Array, admitted: Admitted) -> Array:
    return np.asarray(np.all(_with_unit(x, admitted, np.asarray(True)), axis=-1))


def fold_mean(w: Wide, x: Array, admitted: Admitted) -> Array:
    count = np.maximum(_count(x, admitted), 1)  # over nothing: 0 / 1
    return w.elementary["/"](fold_sum(w, x, admitted), w.lift(count))


def fold_var(w: Wide, x: Array, admitted: Admitted) -> Array:
    deviation = x - fold_mean(w, x, admitted)[..., None]
    return fold_mean(w, deviation * deviation, admitted)


def _frame(w: Wide, x: Array, admitted: Admitted) -> Array:
    """What to subtract from logits before exp, so that any size of logit will do."""
    largest = fold_max(w, x, admitted)[..., None]
    return np.where(is_finite(largest), largest, w.number(0))


def fold_logsumexp(w: Wide, x: Array, admitted: Admitted) -> Array:
    frame = _frame(w, x, admitted)
    total = fold_sum(w, w.elementary["exp"](x - frame), admitted)
    return frame[..., 0] + w.elementary["log"](total)


def _first_position(find: Callable[..., Array], x: Array, best: Array) -> Array:
    if x.shape[-1] == 0:
        return np.zeros(x.shape[:-1], np.int64)
    return np.asarray(find(np.where(is_nan(x), best, x), axis=-1), np.int64)


def fold_argmax(w: Wide, x: Array, admitted: Admitted) -> Array:
    lowest, highest = _lowest(w, x), _highest(w, x)
    return _first_position(np.argmax, _with_unit(x, admitted, lowest), highest)


def fold_argmin(w: Wide, x: Array, admitted: Admitted) -> Array:
    lowest, highest = _lowest(w, x), _highest(w, x)
    return _first_position(np.argmin, _with_unit(x, admitted, highest), lowest)


FOLDS: dict[str, Fold] = {
    "sum": fold_sum,
    "prod": fold_prod,
    "max": fold_max,
    "min": fold_min,
    "any": fold_any,
    "all": fold_all,
    "mean": fold_mean,
    "var": fold_var,
    "logsumexp": fold_logsumexp,
    "argmax": fold_argmax,
    "argmin": fold_argmin,
}

ABSENT = ("sum", "mean", "var", "max", "min", "logsumexp")  # those of which nothing is remembered


def nothing(op: str, x: Array, absent: Array | None, admitted: Admitted, prefix: bool) -> Array:
    """Whether no element is there: all are excluded or absent, or are the unit of `op`.

    One answer for each row, or for each prefix of it.
    """
    there = np.ones(x.shape, bool)
    if op in ("max", "logsumexp"):
        there = np.asarray(x != -math.inf, bool)
    elif op == "min":
        there = np.asarray(x != math.inf, bool)
    if absent is not None:
        there = there & (absent == 0)
    if admitted is not None:
        there = there & admitted
    if prefix:
        return ~np.logical_or.accumulate(there, axis=-1)
    return np.asarray(~there.any(axis=-1))


def prefixes(fold: Fold, w: Wide, x: Array, admitted: Admitted) -> Array:
    """The aggregate of every prefix, the element itself included. The axis stays."""
    parts = [
        fold(w, x[..., : stop + 1], None if admitted is None else admitted[..., : stop + 1])
        for stop in range(x.shape[-1])
    ]
    if not parts:
        return np.empty(x.shape, fold(w, x, admitted).dtype)
    return np.stack(np.broadcast_arrays(*parts), axis=-1)


def softmax(w: Wide, x: Array, admitted: Admitted) -> Array:
    weights = w.elementary["exp"](x - _frame(w, x, admitted))
    weights = _with_unit(weights, admitted, w.number(0))
    total = fold_sum(w, weights, None)[..., None]
    return w.elementary["/"](weights, np.where(total == 0, w.number(1), total))


def log_softmax(w: Wide, x: Array, admitted: Admitted) -> Array:
    total = fold_logsumexp(w, x, admitted)[..., None]
    empty = total == -math.inf
    differences = x - np.where(empty, w.number(0), total)
    return _with_unit(differences, admitted, w.number(-math.inf))


def select(w: Wide, x: Array, admitted: Admitted, count: int) -> tuple[Array, Array]:
    """The `count` largest elements in descending order, and their positions.

    Of equal elements the first comes first, and NaN comes before all. Where fewer than
    `count` are admitted, -inf at position -1 fills up.
    """
    minus_infinity = w.number(-math.inf)
    x = np.where(is_nan(x) | (x > minus_infinity), x, minus_infinity)
    present = np.asarray(x != minus_infinity, bool)
    if admitted is not None:
        x, present, admitted = np.broadcast_arrays(x, present, admitted)
        present = present & admitted
    ranks = np.where(present, np.where(is_nan(x), w.number(math.inf), x), minus_infinity)
    order = np.argsort(-ranks, axis=-1, kind="stable")[..., :count]
    values = np.where(
        np.take_along_axis(present, order, -1), np.take_along_axis(x, order, -1), minus_infinity
    )
    positions = np.where(np.take_along_axis(present, order, -1), order, -1)
    missing = [(0, 0)] * (x.ndim - 1) + [(0, count - positions.shape[-1])]
    padded = np.pad(positions, missing, constant_values=-1)
    full = np.full(padded.shape, minus_infinity[()], w.dtype)
    full[..., : values.shape[-1]] = values
    return full, padded.astype(np.int64)
