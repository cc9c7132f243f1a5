"""The reductions of the language, each as the plain formula over the last axis of an array.

`admitted` says which elements the filter lets in: what it excludes is never looked at. What an
aggregate is over nothing stands in `semantics.md`; for ints, max and min are the least and the
largest int64. An element that is -inf is as good as none for max, logsumexp, softmax and top.
Of equal elements, argmax, argmin and top take the first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from monocomp.declarations.vocabulary import Kind
from monocomp.reference import algebra
from monocomp.reference.algebra import LOWEST, Array

Fold: TypeAlias = Callable[[Array, Array, Kind], Array]


def fold_sum(x: Array, admitted: Array, kind: Kind) -> Array:
    """-inf if one element is, whatever the others are."""
    x = np.where(admitted, x, 0)
    return np.where((x == -math.inf).any(axis=-1), -math.inf, np.add.reduce(x, axis=-1))


def fold_prod(x: Array, admitted: Array, kind: Kind) -> Array:
    """0 if one element is, whatever the others are; no number if one is -inf."""
    x = np.where(admitted, x, 1)
    product = np.multiply.reduce(np.where(np.isinf(x), math.nan, x), axis=-1)
    return np.where((x == 0).any(axis=-1), 0, product)


def _lowest(kind: Kind) -> float:
    return LOWEST if kind == "int" else -math.inf


def _highest(kind: Kind) -> float:
    return -LOWEST - 1 if kind == "int" else math.inf


def _extremum(extremum: np.ufunc, x: Array, admitted: Array, unit: float) -> Array:
    exact = np.asarray(unit, x.dtype)
    return np.asarray(extremum.reduce(np.where(admitted, x, exact), axis=-1, initial=exact[()]))


def fold_max(x: Array, admitted: Array, kind: Kind) -> Array:
    return _extremum(np.maximum, x, admitted, _lowest(kind))


def fold_min(x: Array, admitted: Array, kind: Kind) -> Array:
    return _extremum(np.minimum, x, admitted, _highest(kind))


def fold_any(x: Array, admitted: Array, kind: Kind) -> Array:
    return _extremum(np.maximum, algebra.condition(x), admitted, 0)


def fold_all(x: Array, admitted: Array, kind: Kind) -> Array:
    return _extremum(np.minimum, algebra.condition(x), admitted, 1)


def fold_mean(x: Array, admitted: Array, kind: Kind) -> Array:
    count = np.broadcast_to(admitted, x.shape).sum(axis=-1).astype(x.dtype)
    return algebra.divide(fold_sum(x, admitted, kind), count)


def fold_var(x: Array, admitted: Array, kind: Kind) -> Array:
    mean = fold_mean(x, admitted, kind)[..., None]
    deviation = algebra.add(x, algebra.negate(mean))
    return fold_mean(algebra.power(deviation, np.asarray(2, x.dtype)), admitted, kind)


def _weights(x: Array, admitted: Array) -> tuple[Array, Array]:
    """exp(x - m), and m: the largest of x, or 0, so that any size of logit will do."""
    largest = fold_max(x, admitted, "float")[..., None]
    frame = np.where(np.isfinite(largest), largest, 0)
    weights = algebra.apply("exp", algebra.add(x, -frame))
    return np.where(admitted, weights, 0), frame


def fold_logsumexp(x: Array, admitted: Array, kind: Kind) -> Array:
    weights, frame = _weights(x, admitted)
    total = algebra.apply("log", np.add.reduce(weights, axis=-1))
    return algebra.add(frame[..., 0], total)


def _position(find: Callable[..., Array], x: Array, admitted: Array, unit: float) -> Array:
    """Where the first extreme element is, 0 over nothing."""
    x = np.where(admitted, x, np.asarray(unit, x.dtype))
    if x.shape[-1] == 0:
        return np.zeros(x.shape[:-1], x.dtype)
    return np.where(np.isnan(x).any(axis=-1), math.nan, find(x, axis=-1).astype(x.dtype))


def fold_argmax(x: Array, admitted: Array, kind: Kind) -> Array:
    return _position(np.argmax, x, admitted, _lowest(kind))


def fold_argmin(x: Array, admitted: Array, kind: Kind) -> Array:
    return _position(np.argmin, x, admitted, _highest(kind))


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


def prefixes(fold: Fold, x: Array, admitted: Array, kind: Kind) -> Array:
    """The aggregate of every prefix, the element itself included. The axis stays."""
    admitted = np.broadcast_to(admitted, x.shape)
    stops = range(1, x.shape[-1] + 1)
    parts = [fold(x[..., :stop], admitted[..., :stop], kind) for stop in stops]
    return np.stack(parts, axis=-1) if parts else np.empty(x.shape, x.dtype)


def softmax(x: Array, admitted: Array) -> Array:
    """A share of the weights: 0 for what is excluded or masked, whatever the others are."""
    weights, _ = _weights(x, admitted)
    return algebra.divide(weights, np.add.reduce(weights, axis=-1)[..., None])


def log_softmax(x: Array, admitted: Array) -> Array:
    """The logarithm of a share, formed as a difference."""
    total = fold_logsumexp(x, admitted, "float")[..., None]
    return np.where(admitted, algebra.add(x, algebra.negate(total)), -math.inf)


def select(x: Array, admitted: Array, count: int) -> tuple[Array, Array]:
    """The `count` largest elements in descending order, and their positions.

    Where fewer than `count` are admitted, -inf at position -1 fills up.
    """
    x = np.where(admitted, x, -math.inf)
    order = np.argsort(-x, axis=-1, kind="stable")[..., :count]
    values = np.take_along_axis(x, order, -1)
    positions = np.where(values == -math.inf, -1, order.astype(x.dtype))
    missing = [(0, 0)] * (x.ndim - 1) + [(0, count - order.shape[-1])]
    values = np.pad(values, missing, constant_values=-math.inf)
    positions = np.pad(positions, missing, constant_values=-1)
    unspecified = np.isnan(x).any(axis=-1, keepdims=True)
    return np.where(unspecified, math.nan, values), np.where(unspecified, math.nan, positions)
