"""The interpreter of the tests reduces and scans as Triton's own does, to the last bit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import triton.language as tl

from tests.backends import interpreted
from tests.backends.interpreted import require_interpreter


def _combine(v: Any, n: Any, w: Any, m: Any) -> tuple[Any, Any]:
    """Not commutative, nor even associative: the order counts."""
    return tl.maximum(v, w) * 0.75 - w, tl.where(v > w, n * 3 + m, n - m)


def _quick_and_original(kind: str, axis: int, shape: tuple[int, ...]) -> list[list[np.ndarray]]:
    from triton.runtime import interpreter

    from tests.backends.quick_interpreter import ORIGINALS

    made = interpreter.ReduceOps if kind == "reduce" else interpreter.ScanOps
    rng, function = np.random.default_rng(0), SimpleNamespace(fn=_combine)
    scope = interpreter._patch_lang(_combine)
    try:
        results = []
        for keep in (False, True):
            operation = made(axis, function, keep)
            floats = operation.to_tensor(rng.normal(size=shape), tl.float32)
            numbers = operation.to_tensor(rng.integers(-9, 9, shape), tl.int32)
            quick = getattr(operation, f"generic_{kind}")((floats, numbers))
            slow = ORIGINALS[f"generic_{kind}"](operation, (floats, numbers))
            results += [[x.handle.data for x in found] for found in (quick, slow)]
    finally:
        scope.restore()
    return results


@pytest.mark.parametrize("shape", [(8,), (4, 8), (2, 4, 2), (1, 4)])
@pytest.mark.parametrize("kind", ["reduce", "scan"])
def test_same_bits(kind: str, shape: tuple[int, ...]) -> None:
    """Along every axis, with the axis kept and without it."""
    require_interpreter()
    for axis in range(len(shape)):
        found = interpreted.call(_quick_and_original, kind, axis, shape)
        for quick, slow in zip(found[::2], found[1::2], strict=True):
            for x, y in zip(quick, slow, strict=True):
                assert x.dtype == y.dtype and x.shape == y.shape
                assert np.array_equal(x, y)
