"""Reads at indices of another extent than the dimension has: they may leave the tensor."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest
import torch

import monocomp as mc
from tests.agreement import slopes
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


def beside_nan(array: np.ndarray) -> torch.Tensor:
    """A tensor with NaN behind it, which nothing may read."""
    whole = torch.full((array.size + 64,), torch.nan)
    whole[: array.size] = torch.from_numpy(array.ravel())
    return whole[: array.size].view(array.shape)


def run(text: str, inputs: Inputs, slope: np.ndarray | None, backend: str) -> list[Any]:
    """The result, and with its derivative the gradients of floats."""
    tensors = {n: beside_nan(a) if a.dtype == float else torch.tensor(a) for n, a in inputs.items()}
    leaves = [] if slope is None else [x.requires_grad_() for x in tensors.values()]
    found = mc.compile(text, backend=backend)(**tensors)
    if slope is None:
        return [np.asarray(found)]
    found.backward(torch.from_numpy(slope).float())
    return [x.detach().numpy() for x in (found, *(x.grad for x in leaves))]


def check(wanted: Sequence[np.ndarray], backend: str, *args: Any) -> None:
    call = interpreted.call if backend == "triton" else lambda f, *a: f(*a)
    for x, y in zip(call(run, *args, backend), wanted, strict=True):
        assert np.allclose(x, y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", DISTINCT)
@pytest.mark.parametrize("name", LOOKED_UP)
def test_positions_that_a_filter_says(name: str, backend: str) -> None:
    """What a filter says is equal to a position is none where the tensor is shorter."""
    inputs = {
        "W": np.array([3.0, 2.0, 1.0]),
        "X": np.array([1.0, 2.0, 4.0]),
        "N": np.array([2, 2, 0]),
    }
    check([mc.evaluate(LOOKED_UP[name], inputs)], backend, LOOKED_UP[name], inputs, None)


@pytest.mark.parametrize("backend", DISTINCT)
@pytest.mark.parametrize("sizes", [(3, 5), (4, 4), (5, 3)])
@pytest.mark.parametrize("name", GUARDED)
def test_guarded_positions(name: str, sizes: tuple[int, int], backend: str) -> None:
    """The result and the gradients, whichever extent is longer."""
    text, (v, j) = GUARDED[name], sizes
    shape = (2, j) if "X[i,j]" in text else (j,)
    random = np.random.default_rng(0)
    inputs = {"W": random.normal(size=v), "X": random.normal(size=shape)}
    slope = random.normal(size=shape[0])
    gradients = slopes(text, inputs, {"Y": slope}, ["W", "X"])
    check([mc.evaluate(text, inputs), *gradients.values()], backend, text, inputs, slope)


@pytest.mark.parametrize("name", LOOKED_UP)
def test_kernels_load_what_is_there(name: str) -> None:
    """What lies behind a tensor is not loaded, even where nobody looks at it."""
    source = mc.compile(LOOKED_UP[name]).source()
    loads = re.findall(r"tl\.load\(\s*W_ptr.*?other", source, re.DOTALL)
    assert loads and all("< size_v" in load for load in loads)
