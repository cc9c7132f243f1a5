"""What kernels store for others: which values, why, and when it isn't worth it."""

from __future__ import annotations

import numpy as np
import pytest

import monocomp as mc
from monocomp.checking.random_inputs import random_inputs
from monocomp.language.checker import check
from monocomp.translation.translator import translate
from tests.agreement import as_list
from tests.backends.storing import PROGRAMS

RECURRENCE = "input X[i], E[i]: int\nA0[i] = X[i] * tanh(X[E[i]]) + X[i // 2] * X[0]\n" + "".join(
    f"A{n}[i] = A{n - 1}[i] * tanh(A{n - 1}[E[i]]) + A{n - 1}[i // 2] * A{n - 1}[0]\n"
    for n in range(1, 5)
)


STORED = [
    "input B[k,j], T[k]: int\nH[k] = B[k // 2,0]\nO[k] = max[j](H[T[k // 2]] + H[k])",
    "input A[i,k], D[k]: int, E[i]: int\n"
    "H[i,k] = softmax[k if D[k] == D[i % |k|]](A[i,k])\nO[i,k] = H[E[i],k]",
    # Outputs, in any order, whether or not the others are used.
    *(f"{RECURRENCE}return {outputs}" for outputs in ("A3, A2, A0, A1", "A0", "A1, A3")),
]


@pytest.mark.parametrize("text", STORED)
def test_what_is_stored_for_others(text: str) -> None:
    inputs = random_inputs(translate(check(text)), {}, dtype="float64")
    found = mc.compile(text, backend="numpy")(**inputs)
    for f, w in zip(as_list(found), as_list(mc.evaluate(text, inputs)), strict=True):
        np.testing.assert_allclose(f, w, rtol=1e-6)


ATTENTION = "O[b,h,q,e] = softmax[k](Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)) * V[b,h,k,e]"


def kernels_of(text: str, **sizes: int) -> int:
    return len(mc.compile(text).tile_programs(sizes))


def test_the_extents_decide() -> None:
    """A value that serves one block of rows is not worth a kernel."""
    text = PROGRAMS["linear attention"]
    assert kernels_of(text) == 2
    assert kernels_of(text, q=4096) == 2
    assert kernels_of(text, q=1) == 1  # decoding
    assert kernels_of(text, q=100) == 1


def test_nothing_large_is_stored() -> None:
    """Wide columns need the logits again for each block, and attention never stores them."""
    for size in (512, 2048):
        assert kernels_of(ATTENTION, e=size) == 1
