"""What kernels store for others: which values, why, and when it isn't worth it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import monocomp as mc
from monocomp.checking.random_inputs import random_inputs
from monocomp.language.checker import check
from monocomp.planning import search
from monocomp.planning.plan import Plan
from monocomp.translation.translator import translate
from tests.agreement import as_list, check_step
from tests.backends.running import make_inputs
from tests.backends.storing import PROGRAMS
from tests.backends.tolerances import agree

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


# --- sums over everything beside the rows of a kernel ------------------------------------


P = "P[b,h,q,k] = tanh(Q[b,h,q,d] * K[b,h,k,d])\n"
VALUES = "O[b,h,q,e] = sum[k if k <= q](P[b,h,q,k] * V[b,h,k,e])\n"
KEYS = "R[b,h,k,d] = sum[q if k <= q](P[b,h,q,k] * Q[b,h,q,d])\n"
BESIDE_QUERIES = P + VALUES + "W[h] = sum[b,k,q if k <= q](P[b,h,q,k] * (q - k))\nreturn O, W"
BESIDE_KEYS = P + KEYS + "W[h] = sum[b,k,q if k <= q](P[b,h,q,k] * (q - k))\nreturn R, W"
SIZES = {"b": 4, "h": 16, "q": 4096, "k": 4096, "d": 64, "e": 64}
CASES = {
    "queries": (BESIDE_QUERIES, ("O", "F")),
    "keys": (BESIDE_KEYS, ("R", "F")),
}


def plan(text: str, **sizes: int) -> Plan:
    return mc.compile(text).plan(sizes)


@pytest.mark.parametrize("name", CASES)
def test_each_step_keeps_the_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "TOLERABLE", 1.0)  # at small sizes launches take the time
    text, together = CASES[name]
    known = check(text).extent_of
    sizes = {n: s for n, s in zip(SIZES, (2, 3, 21, 20, 2, 3), strict=True) if n in known}
    inputs = make_inputs(text, sizes, torch.float64)
    found = plan(text, **sizes)
    assert set(together) in [set(k.names) for k in found.planned]
    for step in found.decisions:
        check_step(text, step.program.text(), {n: x.numpy() for n, x in inputs.items()})
    assert len(found.kernels) == 2
    agree("numpy", text, inputs)
    agree("triton", text, {n: x.float() for n, x in inputs.items()}, 4)


@pytest.mark.parametrize(
    "text",
    [
        "W[h] = sum[b,q](X[b,h,q] ** 2)",  # its elements are read: nothing is computed again
        "W[h] = sum[b](max[q](X[b,h,q]))",  # a maximum of sums is no sum of maxima
        P + "W[h] = sum[b,k,q if k <= q](P[b,h,q,k] * (q - k))",  # no kernel has rows for it
        # Nobody looks at the rows that a filter leaves out, where nothing might be to read.
        "input N[q]: int\n"
        "W[h] = sum[q if N[q] < |k|](sum[k](tanh(sum[d](X[h,q,d] * Y[h,N[q],k,d]))))",
    ],
)
def test_nothing_is_stored(text: str) -> None:
    sizes = {n: s for n, s in SIZES.items() if n in check(text).extent_of}
    assert "store_partial_sum" not in [s.rule for s in plan(text, **sizes).decisions]
