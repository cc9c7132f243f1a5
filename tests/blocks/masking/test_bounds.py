"""Ends of loops: what a block of rows comes to, if none of its rows is inside."""

from __future__ import annotations

import numpy as np

import monocomp as mc
from monocomp.language.checker import check
from tests.agreement import check_gradients
from tests.backends import interpreted

PREFIXES = """
input W[j], X[i]
monoid Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')
O[i] = Affine[j if j < i](W[j], W[j]).u * X[i]
"""


def _compare(rows: int) -> int:
    inputs = {"W": np.full(2, 0.5), "X": np.full(rows, 2.0)}
    kernel = mc.compile(PREFIXES, backend="triton")
    return check_gradients(check(PREFIXES), kernel, inputs, note=f"{rows} rows", device="cpu")


def test_a_block_without_rows() -> None:
    """One row has no j before it, so the only block of what W[j] has a part in is empty. The
    interpreting process raises if a loop's ends are too far apart."""
    assert interpreted.call(_compare, 1) == interpreted.call(_compare, 2) == 2
