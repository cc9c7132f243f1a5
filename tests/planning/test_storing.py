"""What kernels store for others: which values, why, and when it isn't worth it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import monocomp as mc
from monocomp.checking.random_inputs import random_inputs
from monocomp.language.checker import check
from monocomp.translation.translator import translate
from tests.backends.running import make_inputs
from tests.backends.storing import PROGRAMS

ATTENTION = "O[b,h,q,e] = softmax[k](Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)) * V[b,h,k,e]"
RMS = (
    "N[b,k,c] = X[b,k,c] * rsqrt(mean[c](X[b,k,c] ** 2) + 0.1)\n"
    "O[b,q,e] = softmax[k](Q[b,q,c] * N[b,k,c]) * V[b,k,e]"
)
# One kernel, whatever the sizes: nothing is computed twice, or it costs too little.
UNCUT = {
    "attention": ATTENTION,
    "a softmax": "P[q,k] = softmax[k](X[q,k])",
    "norms in a loop": RMS,  # a row's norm serves a block of queries
    "a bisection": "A[i] = max[k](X[i,k])\nB[i] = A[i] - (sum[k](relu(X[i,k] - A[i] + 1)) > 2)\n"
    "P[i,k] = relu(X[i,k] - B[i]) / sum[k](relu(X[i,k] - B[i]))",
    "a matrix product": "C[i,j] = A[i,k] * B[k,j]",
    "deviations": "O[i,d] = X[i,d] - mean[i](X[i,d])",
    "logits": "S[q,k] = Q[q,d] * K[k,d]\nO[q] = sum[k](relu(S[q,k] - max[k](S[q,k]) / 2))",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_stored(name: str) -> None:
    program = PROGRAMS[name]
    kernel = mc.compile(program.text)
    steps = [s for s in kernel.derivation.steps if s.rule == "store_value"]
    programs = kernel.tile_programs()
    assert len(programs) == program.kernels
    assert {o.name for p in programs for o in p.outputs if o.is_stored} == set(program.values)
    bounded = [s for s in kernel.derivation.steps if s.rule == "bound_filter"]
    assert len(steps) + 3 * len(bounded) == len(program.values)  # first, last, and how many
    assert program.why in [s.after for s in steps]
    assert all(s.law == "a value may be stored and read again" for s in steps)


@pytest.mark.parametrize("name", UNCUT)
def test_what_is_not(name: str) -> None:
    kernel = mc.compile(UNCUT[name])
    assert len(kernel.tile_programs()) == 1
    assert "store_value" not in [s.rule for s in kernel.derivation.steps]


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_step_keeps_the_values(name: str) -> None:
    """A program with stored values is a program of the language, with the same results."""
    text = PROGRAMS[name].text
    sizes = dict(zip(("h", "g", "i", "j", "q", "k", "d", "e", "c"), range(2, 11), strict=True))
    inputs = make_inputs(text, sizes, torch.float64)
    wanted = mc.evaluate(text, inputs)
    for step in mc.compile(text).derivation.steps:
        if step.rule == "store_value":
            got = mc.evaluate(step.program.text(), inputs)
            for g, w in zip(_tuple(got), _tuple(wanted), strict=True):
                np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-9)


def _tuple(x):
    return x if isinstance(x, tuple) else (x,)


def kernels_of(text: str, **sizes: int) -> int:
    return len(mc.compile(text).tile_programs(sizes))


def test_the_extents_decide() -> None:
    """A value that serves one block of rows is not worth a kernel."""
    text = PROGRAMS["linear attention"].text
    assert kernels_of(text) == 2
    assert kernels_of(text, q=4096) == 2
    assert kernels_of(text, q=1) == 1  # decoding
    assert kernels_of(text, q=100) == 1


def test_long_sums_in_a_loop_are_stored() -> None:
    """The keys are projected from 4096 features: too much to do for each block of queries."""
    text = (
        "input X[k,c], W[c,d]\nK[k,d] = X[k,c] * W[c,d]\n"
        "O[q,e] = softmax[k](sum[d](abs(Q[q,d] - K[k,d]))) * V[k,e]"
    )
    assert kernels_of(text) == 2
    assert kernels_of(text, c=8) == 1


def test_a_bias_is_stored_where_it_is_smaller_than_what_it_sums() -> None:
    """And where what is weighed is read for several heads; else for some queries at a time."""
    text = PROGRAMS["a bias a head"].text
    sizes = {"q": 2048, "k": 2048, "d": 64, "e": 64}
    assert kernels_of(text, **sizes, h=16, c=32) == 2
    assert mc.compile(text).stages.at(**sizes, h=16, c=32).plan.program.slices is None
    slices = mc.compile(text).stages.at(**sizes, h=64, c=32).plan.program.slices
    assert slices is not None and slices.whole == "q"
    assert kernels_of(text, **sizes, h=1, c=32) == 1
    queries = "O[b,h,e] = softmax[k](Q[b,h,d] * K[b,k,d]) * V[b,k,e]"  # rows of a product
    assert kernels_of(queries, b=4, h=32, k=8192, d=128, e=128) == 1


def test_nothing_large_is_stored() -> None:
    """Wide columns need the logits again for each block, and attention never stores them."""
    for size in (512, 2048):
        assert kernels_of(ATTENTION, e=size) == 1


@pytest.mark.parametrize(
    "text",
    [
        "input B[k,j], T[k]: int\nH[k] = B[k // 2,0]\nO[k] = max[j](H[T[k // 2]] + H[k])",
        "input A[i,k], D[k]: int, E[i]: int\n"
        "H[i,k] = softmax[k if D[k] == D[i % |k|]](A[i,k])\nO[i,k] = H[E[i],k]",
    ],
)
def test_subscripts_in_subscripts_run(text: str) -> None:
    inputs = make_inputs(text, {"i": 3, "j": 2, "k": 6}, torch.float64)
    found = mc.compile(text, backend="numpy")(**inputs)
    np.testing.assert_allclose(found, mc.evaluate(text, inputs), rtol=1e-6)


RECURRENCE = "input X[i], E[i]: int\nA0[i] = X[i] * tanh(X[E[i]]) + X[i // 2] * X[0]\n" + "".join(
    f"A{n}[i] = A{n - 1}[i] * tanh(A{n - 1}[E[i]]) + A{n - 1}[i // 2] * A{n - 1}[0]\n"
    for n in range(1, 5)
)


@pytest.mark.parametrize("outputs", ["A3, A2, A0, A1", "A0", "A1, A3"])
def test_outputs_are_stored_for_others(outputs: str) -> None:
    """Whatever the order in which they are returned, and whether or not the others are used."""
    text = f"{RECURRENCE}return {outputs}"
    inputs = random_inputs(translate(check(text)), {"i": 5})
    found = mc.compile(text, backend="numpy")(**inputs)
    for f, w in zip(_tuple(found), _tuple(mc.evaluate(text, inputs)), strict=True):
        np.testing.assert_allclose(f, w, rtol=1e-6)


def test_names() -> None:
    """A value has the name that the program gives it, if that is free, else a new one."""
    text = "S[q,k] = Q[q,d] * K[k,d]\nM[q] = max[k](S[q,k])\nC[k] = sum[q](relu(S[q,k] - M[q] / 2))"
    kernel = mc.compile(text)
    assert kernel.derivation.result.lines()[0].startswith("M[q] = max[k](")
    text = text.replace("K[k,d]", "M_2[k,d]") + "\nreturn M, C"
    assert [e.name for e in mc.compile(text).derivation.result.equations] == ["M_3", "M", "C"]


def test_a_kernel_stores_beside_its_own_results() -> None:
    """Two outputs and a value for the same rows share one loop."""
    first, second = mc.compile(PROGRAMS["rows and columns"].text).tile_programs()
    assert [o.name for o in first.outputs] == ["M", "L", "O"]
    assert list(second.inputs) == ["Q", "K", "M", "L"]
    assert [n for n, t in second.inputs.items() if t.is_stored] == ["M", "L"]


def test_report_counts_stored_values() -> None:
    """Stored values are four bytes, written once and read once for each loop."""
    text = PROGRAMS["column sums"].text
    h, q, k, d = 2, 4096, 2048, 64
    report = mc.compile(text).report({"h": h, "q": q, "k": k, "d": d})
    assert (report["kernels"], report["passes"]) == (2, {"k": 1, "q": 1})
    assert report["bytes"] == 2 * (2 * h * q * d + 2 * h * k * d + h * k) + 2 * 2 * 4 * h * q
