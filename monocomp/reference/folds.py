"""The reductions of the language, each as the plain formula over the last axis of an array.

`admitted` says which elements the filter lets in: what it excludes is never looked at. What an
aggregate is over nothing stands in `semantics.md`; for ints, max and min are the least and the
largest int64. An element that is -inf is as good as none for max, logsumexp, softmax and top.
Of equal elements, argmax, argmin and top take the first.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from monocomp.declarations.vocabulary import Kind
from monocomp.reference import algebra
from monocomp.reference.algebra import LOWEST, Array


def _sum(x: Array) -> Array:
    """-inf if one element is, whatever the others are."""
    return np.where((x == -math.inf).any(axis=-1), -math.inf, np.add.reduce(x, axis=-1))


def _prod(x: Array) -> Array:
    """0 if one element is, whatever the others are; no number if one is -inf."""
    product = np.multiply.reduce(np.where(np.isinf(x), math.nan, x), axis=-1)
    return np.where((x == 0).any(axis=-1), 0, product)


def _logsumexp(x: Array) -> Array:
    weights, frame = _weights(x)
    return algebra.add(frame[..., 0], algebra.apply("log", np.add.reduce(weights, axis=-1)))


def _position(find: Callable[..., Array]) -> Callable[[Array], Array]:
    """Return the position of the first extreme element, 0 over nothing."""

    def position(x: Array) -> Array:
        if x.shape[-1] == 0:
            return np.zeros(x.shape[:-1], x.dtype)
        return np.where(np.isnan(x).any(axis=-1), math.nan, find(x, axis=-1).astype(x.dtype))

    return position


def _extremum(extremum: np.ufunc, unit: float) -> Callable[[Array], Array]:
    return lambda x: np.asarray(extremum.reduce(x, axis=-1, initial=np.asarray(unit, x.dtype)[()]))


# The element that is as good as none, and the aggregate.
_FOLDS: dict[str, tuple[float, Callable[[Array], Array]]] = {
    "sum": (0, _sum),
    "prod": (1, _prod),
    "max": (-math.inf, _extremum(np.maximum, -math.inf)),
    "min": (math.inf, _extremum(np.minimum, math.inf)),
    "max of ints": (LOWEST, _extremum(np.maximum, LOWEST)),
    "min of ints": (-LOWEST - 1, _extremum(np.minimum, -LOWEST - 1)),
    "any": (0, lambda x: _extremum(np.maximum, 0)(algebra.condition(x))),
    "all": (1, lambda x: _extremum(np.minimum, 1)(algebra.condition(x))),
    "logsumexp": (-math.inf, _logsumexp),
    "argmax": (-math.inf, _position(np.argmax)),
    "argmin": (math.inf, _position(np.argmin)),
}


def fold(op: str, x: Array, admitted: Array, kind: Kind = "float") -> Array:
    """Return the aggregate of elements of a kind."""
    if op == "mean":
        count = np.broadcast_to(admitted, x.shape).sum(axis=-1).astype(x.dtype)
        return algebra.divide(fold("sum", x, admitted), count)
    if op == "var":
        mean = fold("mean", x, admitted)[..., None]
        deviation = algebra.add(x, algebra.negate(mean))
        return fold("mean", algebra.power(deviation, np.asarray(2, x.dtype)), admitted)
    unit, aggregate = _FOLDS[f"{op} of ints" if op in ("max", "min") and kind == "int" else op]
    return aggregate(np.where(admitted, x, np.asarray(unit, x.dtype)))


def prefixes(op: str, x: Array, admitted: Array, kind: Kind) -> Array:
    """Return the aggregate of every prefix, the element itself included. The axis stays."""
    admitted = np.broadcast_to(admitted, x.shape)
    stops = range(1, x.shape[-1] + 1)
    parts = [fold(op, x[..., :stop], admitted[..., :stop], kind) for stop in stops]
    return np.stack(parts, axis=-1) if parts else np.empty(x.shape, x.dtype)


def _weights(x: Array) -> tuple[Array, Array]:
    """Return exp(x - m), and m: the largest of x, or 0, so that any size of logit will do."""
    largest = _FOLDS["max"][1](x)[..., None]
    frame = np.where(np.isfinite(largest), largest, 0)
    return algebra.apply("exp", algebra.add(x, -frame)), frame


def softmax(x: Array, admitted: Array) -> Array:
    """Return shares of the weights: 0 for what is excluded or masked, whatever the others are."""
    weights, _ = _weights(np.where(admitted, x, -math.inf))
    return algebra.divide(weights, np.add.reduce(weights, axis=-1)[..., None])


def log_softmax(x: Array, admitted: Array) -> Array:
    """Return the logarithms of shares, formed as differences."""
    total = fold("logsumexp", x, admitted)[..., None]
    return np.where(admitted, algebra.add(x, algebra.negate(total)), -math.inf)


def select(x: Array, admitted: Array, count: int) -> tuple[Array, Array]:
    """Return the `count` largest elements in descending order, and their positions.

    Where fewer than `count` are admitted, -inf at position -1 fills up.
    """
    x = np.where(admitted, x, -math.inf)
    filled = np.concatenate([x, np.full((*x.shape[:-1], count), -math.inf, x.dtype)], axis=-1)
    order = np.argsort(-filled, axis=-1, kind="stable")[..., :count]
    values = np.take_along_axis(filled, order, -1)
    positions = np.where(values == -math.inf, -1, order.astype(x.dtype))
    unspecified = np.isnan(x).any(axis=-1, keepdims=True)
    return np.where(unspecified, math.nan, values), np.where(unspecified, math.nan, positions)
