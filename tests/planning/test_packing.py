"""Attention to what lists say, one for a group of heads or a block of queries: those are packed to
rows, so that a product of tiles computes what would be a sum an element otherwise."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import monocomp as mc
from monocomp.kernel import Kernel

HEADS = (
    "input L[b,g,q,r]: int, Q[b,h,q,d], K[b,g,k,d], V[b,g,k,e]\nG[h] = h // (|h| // |g|)\n"
    "O[b,h,q,e] = softmax[r](Q[b,h,q,d] * K[b, G[h], L[b,G[h],q,r], d] / sqrt(|d|))"
    " * V[b, G[h], L[b,G[h],q,r], e]"
)
BLOCKS = (
    "input L[b,h,n,r]: int, Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e]\nindex j < |r| * 16\n"
    "def position(x, j) = x * 16 + j % 16\n"
    "O[b,h,q,e] = softmax[j](Q[b,h,q,d] * K[b, h, position(L[b, h, q // 16, j // 16], j), d])"
    " * V[b, h, position(L[b, h, q // 16, j // 16], j), e]"
)
LONG = {"b": 2, "g": 4, "h": 64, "q": 4096, "n": 256, "r": 128, "k": 4096, "d": 64, "e": 64}
SMALL = {"b": 1, "g": 2, "h": 6, "q": 32, "n": 2, "r": 3, "k": 48, "d": 5, "e": 4}


def kernel(text: str, backend: str = "numpy") -> Kernel:
    return mc.compile(text, backend=backend, processors=132)


def sizes(k: Kernel, of: dict[str, int]) -> dict[str, int]:
    return {e: n for e, n in of.items() if e in k.declared.extent_of.values()}


def test_other_rows_need_no_packing() -> None:
    """All queries share what one list says."""
    k = kernel("input L[r]: int\nO[q,e] = softmax[r](Q[q,d] * K[L[r],d]) * V[L[r],e]")
    assert not k.plan({"q": 4096, "r": 128, "d": 64, "e": 64}).decisions


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("text", [HEADS, BLOCKS])
def test_results(text: str, backend: str) -> None:
    k = kernel(text, backend)
    random = np.random.default_rng(0)
    shapes = {n: [SMALL[d] for d in i.dims] for n, i in k.equations.declared.inputs.items()}
    inputs = {n: random.normal(size=s) for n, s in shapes.items()}
    most = SMALL["k"] if text is HEADS else SMALL["k"] // 16
    inputs["L"] = random.integers(0, most, size=shapes["L"])
    long = k.plan(sizes(k, LONG))
    assert long.decisions
    k.planner.plan = lambda *_, **__: long  # type: ignore[method-assign]
    given = inputs if backend == "numpy" else {n: torch.from_numpy(x) for n, x in inputs.items()}
    np.testing.assert_allclose(np.asarray(k(**given)), mc.evaluate(text, inputs), rtol=1e-6)
