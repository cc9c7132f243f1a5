"""Folds of results along an axis that a kernel holds whole: they reduce its tile, in one pass."""

from __future__ import annotations

import pytest
import torch

import monocomp as mc
from tests.backends.running import make_inputs
from tests.backends.tolerances import agree

ATTENTION = "A[q,e] = softmax[k if k <= q + 2](Q[q,d] * K[k,d]) * V[k,e]\n"
PROGRAMS = {
    "rms": ATTENTION + "O[q,e] = A[q,e] / sqrt(mean[e](A[q,e] ** 2) + 1e-6)",
    "layer norm": ATTENTION + "O[q,e] = (A[q,e] - mean[e](A[q,e])) / sqrt(var[e](A[q,e]) + 1e-6)",
    "softmax": ATTENTION + "O[q,e] = softmax[e if e != 1](A[q,e])",
    "largest": ATTENTION + "O[q,e] = A[q,e] / (1 + max[e](abs(A[q,e])))",
    "filtered": ATTENTION + "O[q,e] = A[q,e] - sum[e if e % 2 == 1](A[q,e] ** 3)",
    "empty rows": ATTENTION.replace("q + 2", "q - 2")
    + "O[q,e] = A[q,e] / sqrt(mean[e](A[q,e] ** 2) + 1e-6)",
    "of a norm": ATTENTION
    + "N[q] = sum[e](A[q,e] ** 2)\nO[q,e] = A[q,e] / (1 + sum[e](abs(A[q,e]) * N[q]))",
}
SIZES = {"q": 35, "k": 37, "d": 3, "e": 5}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_pass(name: str) -> None:
    kernel = mc.compile(PROGRAMS[name])
    assert kernel.report()["passes"] == {"k": 1}
    assert len(kernel.plan(SIZES).kernels) == 1


def test_what_is_too_long_to_hold_is_no_tile() -> None:
    """Blocks of it are computed by program instances of their own."""
    first = mc.compile(PROGRAMS["rms"]).plan({**SIZES, "e": 4096}).kernels[0]
    assert "whole e" not in str(first)


@pytest.mark.parametrize("backend", ["numpy", "torch", "triton"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results(name: str, backend: str) -> None:
    agree(backend, PROGRAMS[name], make_inputs(PROGRAMS[name], SIZES), 50)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["rms", "layer norm", "softmax"])
def test_gradients(name: str) -> None:
    kernel = mc.compile("input Q[q,d], K[k,d], V[k,e]\n" + PROGRAMS[name], backend="torch")
    inputs = [torch.randn(s).double().requires_grad_() for s in ((6, 2), (7, 2), (7, 3))]
    assert torch.autograd.gradcheck(kernel, inputs, fast_mode=True)
