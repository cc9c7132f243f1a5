"""Operations of block programs on NumPy arrays, in float64 and int64."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from monocomp import blocks as B
from monocomp.backends import folds
from monocomp.backends.array_operations import Tiles, elementwise
from monocomp.backends.numpy import NumpyOps
from monocomp.declarations import counter_rng
from monocomp.declarations.vocabulary import Kind
from monocomp.errors import InternalError
from monocomp.tile.operations import SCHEDULED, SIGNS

Value = Any  # a scalar, an array, a pointer, a descriptor's tensor, or a tuple of fields
OPS = NumpyOps()


@cache
def function_of(op: str) -> Callable[..., Value]:
    """Return what computes an operation."""
    return _SCHEDULED.get(op) or NumpyOps().elementwise[op]  # to which rows may have been added


def as_float(x: Value) -> Value:
    """Return a value in float64."""
    return np.asarray(x, np.float64)


def kind_of(dtype: B.Dtype) -> Kind:
    """Return the kind of the numbers of a dtype."""
    assert dtype.kind in ("float", "int", "bool"), dtype
    return dtype.kind


def converted(x: Value, dtype: B.Dtype) -> Value:
    """Return a value in the arithmetic of the interpreter's for a dtype."""
    if isinstance(x, np.ndarray) or np.isscalar(x):
        return OPS.cast(np.asarray(x), kind_of(dtype))
    raise InternalError(f"{x!r} cannot be converted to {dtype.name}")


def _divided(a: Value, b: Value) -> Value:
    """a / b, rounded towards 0; 0 for b = 0, whose results nothing reads."""
    quotient = np.abs(a) // np.where(np.equal(b, 0), 1, np.abs(b))
    return np.where(np.equal(b, 0), 0, np.sign(a) * np.sign(b) * quotient)


def _merge_largest(
    values: Value, positions: Value, ranks: Value, count: int, x: Value, at: Value, k: int, r: int
) -> Tiles:
    """Return the `count` largest of a list along r and of a tile along k; of equal ones the
    first."""
    tile = tuple(np.moveaxis(a, k, r) for a in (x, at))
    v, p = folds.joined(OPS, (values, positions), tile, r)
    v, p = OPS.largest(v, p, r, values.shape[r])
    is_kept = ranks < count
    return np.where(is_kept, v, -np.inf), np.where(is_kept, p, -1)


def _grouped(pid: int, blocks: int, positions: int, group_size: int) -> int:
    """Compute the number of a block as the device function `grouped` does."""
    if group_size <= 1:
        return pid
    count = min(group_size, positions)
    first = pid // (blocks * count) * count
    turn = pid - first * blocks
    count = min(count, positions - first)
    return (first + turn % count) * blocks + turn // count


def _interleaved(x: Value, sums: Value) -> Value:
    """Return columns in another order, as the device function does with bytes."""
    rows, columns = x.shape
    words = x.reshape(rows, -1, 8, 4) if columns % 32 == 0 else x
    return words.transpose(0, 3, 1, 2).reshape(x.shape) if words is not x else x


def _in_order(sums: Value, tensor: Value) -> Value:
    """Undo `_interleaved`."""
    rows, columns = sums.shape
    words = sums.reshape(rows, 4, -1, 8) if columns % 32 == 0 else sums
    return words.transpose(0, 2, 3, 1).reshape(sums.shape) if words is not sums else sums


BY_SIGN = {text: row.value for text, row in SIGNS.items()} | {
    "/": np.divide,
    "//": _divided,
    "%": lambda a, b: a - _divided(a, b) * b,
}
_OWN: dict[str, Callable[..., Value]] = {
    "cdiv": lambda a, b: -(-a // b),
    "grouped": _grouped,
    "between": lambda positions, low, high: (low <= positions) & (positions < high),
    "tanh": lambda x, fast: np.tanh(as_float(x)),
    "weight": lambda x, y, scale, power, fast: np.exp2(scale * (as_float(x) - as_float(y))),
    "next_bits": counter_rng.next_bits,
    "merge_largest": _merge_largest,
    "interleaved": _interleaved,
    "in_order": _in_order,
}
_SCHEDULED = _OWN | elementwise(np, _OWN, SCHEDULED)
REDUCTIONS: dict[str, Callable[..., Value]] = {
    "sum": np.sum,
    "max": np.max,
    "min": np.min,
    "larger": np.max,
    "smaller": np.min,
    "multiply": np.prod,
}
