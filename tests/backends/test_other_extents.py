"""Reads at indices of another extent than the dimension has: they may leave the tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import pytest

import monocomp as mc
from monocomp.language.checker import check
from tests.agreement import check_gradients, check_outputs
from tests.backends import interpreted
from tests.backends.running import DISTINCT

Inputs: TypeAlias = Mapping[str, np.ndarray]

DECLARED = "input W[v], X[i], N[i]: int\nindex j < 6\n"
LOOKED_UP = {  # a filter says where an index is
    "equal": f"{DECLARED}Y[j] = sum[i if j == N[i]](exp(W[N[i]]) * X[i])",
    "double": f"{DECLARED}Y[j] = sum[i if 2 * j == N[i]](exp(W[N[i]]) * X[i])",
    "largest": f"{DECLARED}Y[j] = max[i if j == N[i]](W[N[i]] * X[i])",
}
GUARDED = {
    "element": "input W[v], X[j]\nY[j] = where(j < |v|, exp(W[j + 0]), 7) * X[j]",
    "sum": "input W[v], X[i,j]\nY[i] = sum[j if j < |v|](exp(W[j + 0]) * X[i,j])",
    "definition": """input W[v], X[i,j]
A[v] = max[w if w <= v](W[w])
Y[i] = sum[j if j < |v|](A[j + 0] * X[i,j])""",
    "selected": "input W[v], X[j]\nY[j] = sum[v if v == j](W[v] * W[v]) * X[j]",
}


def compare(text: str, inputs: Inputs, backend: str) -> None:
    """Compare results and gradients with the oracle's; behind tensors stands NaN."""
    program, kernel = check(text), mc.compile(text, backend=backend)
    check_outputs(program, kernel, inputs, note=text)
    check_gradients(program, kernel, inputs, note=text, elementwise=True)


@pytest.mark.parametrize("backend", DISTINCT)
@pytest.mark.parametrize("sizes", [(3, 5), (4, 4), (5, 3)])
@pytest.mark.parametrize("name", [*LOOKED_UP, *GUARDED])
def test_reads(name: str, sizes: tuple[int, int], backend: str) -> None:
    """Reads at a position that a filter equals with another are guarded, however long either is."""
    text, (v, j) = {**LOOKED_UP, **GUARDED}[name], sizes
    shape = (2, j) if "X[i,j]" in text else (j,)
    random = np.random.default_rng(0)
    inputs: dict[str, Any] = {"W": random.normal(size=v), "X": random.normal(size=shape)}
    if name in LOOKED_UP:
        inputs["N"] = random.integers(0, v, size=j)
    if backend == "triton":
        interpreted.call(compare, text, inputs, backend)
    else:
        compare(text, inputs, backend)
