"""The oracle against torch in float64, and against itself where two programs must agree.

`test_selfcheck` compares it with the torch reference of emitted files, for random programs, too.
"""

from __future__ import annotations

import math
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch

from monocomp.declarations import counter_rng
from monocomp.errors import (
    IndexRangeError,
    InputError,
    LimitError,
    ShapeError,
    UnsupportedDtypeError,
)
from monocomp.reference import oracle
from monocomp.reference.oracle import evaluate

INF = math.inf
NAN = math.nan


def normal(*shape, seed=0, scale=1.0):
    """Normal random numbers as a float64 tensor."""
    made = np.random.default_rng((seed, *shape)).normal(size=shape) * scale
    return torch.from_numpy(np.asarray(made))


def same(got, want, rtol=1e-13, atol=1e-14):
    """Equal in dtype and shape, and up to rounding in value; NaN equals NaN."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


def run(text, /, *, params=None, **inputs):
    """Evaluate a program on arrays given by name."""
    return evaluate(text, inputs, **(params or {}))


# --- parts ----------------------------------------------------------------------------------


def test_parts_keep_masks_selections_and_faults(monkeypatch):
    text = """
    index r < 2
    T[q,r] = argtop[k -> r if k < q](S[q,k])
    O[q,e] = softmax[r](top[k -> r if k < q](S[q,k])) * V[T[q,r],e]
    H[q,k] = max[..k if k < q](S[q,k])
    return T, O, H
    """
    inputs = {"S": normal(6, 6), "V": normal(6, 3, seed=1)}
    whole = evaluate(text, inputs)
    monkeypatch.setattr(oracle, "_CHUNK", 1)
    for part, other in zip(whole, evaluate(text, inputs), strict=True):
        same(other, part)
    with pytest.raises(IndexRangeError, match="at q = 3, k = 2"):
        evaluate("O[q] = sum[k if k < q](S[q,k] * V[q + k])", {"S": normal(5, 5), "V": normal(5)})


# --- reductions ---------------------------------------------------------------------------

X = normal(4, 7, seed=3)
TORCH_REDUCTIONS = {
    **{op: getattr(torch, op) for op in ("sum", "prod", "mean", "logsumexp", "argmax", "argmin")},
    **{"max": torch.amax, "min": torch.amin, "var": partial(torch.var, correction=0)},
}


@pytest.mark.parametrize("op", TORCH_REDUCTIONS)
def test_reductions_see_only_what_their_filter_admits(op):
    """Row i admits 2 <= j < 2 + i + 1, and NaN stands everywhere else."""
    x = X.clone()
    for i in range(4):
        x[i, :2] = x[i, 3 + i :] = NAN
    want = torch.stack([TORCH_REDUCTIONS[op](X[i, 2 : 3 + i], -1) for i in range(4)])
    want = want + 2 if op.startswith("arg") else want
    same(run(f"O[i] = {op}[j if 2 <= j < i + 3](X[i,j])", X=x), want.numpy())


def test_top_takes_the_first_of_equals():
    text = "index r < 5\nO[i,r] = top[j -> r](X[i,j])\nP[i,r] = argtop[j -> r](X[i,j])"
    values, positions = run(text, X=np.array([[1.0, 2, 2, 1], [2, 3, -7, -INF]]))
    same(values, np.array([[2, 2, 1, 1, -INF], [3, 2, -7, -INF, -INF]]))
    same(positions, np.array([[1, 2, 0, 3, -1], [1, 0, 2, -1, -1]]))


# --- functions and numbers -----------------------------------------------------------------


def test_gelu_keeps_its_left_tail():
    want = np.array([x / 2 * math.erfc(-x / math.sqrt(2)) for x in (-10.0, -5.0, 3.0)])
    same(run("O[i] = gelu(X[i])", X=[-10.0, -5.0, 3.0]), want)


def test_numbers_indices_and_extents():
    same(run("O[i] = (|i| - 1 - i) * A[i]", A=[1.0, 1, 1]), np.array([2.0, 1, 0]))
    same(run("O[i] = 0.1 * A[i]", A=[1.0]), np.array([0.1]), rtol=0)
    same(run("O[i] = 1e30 * A[i]", A=[2.0]), np.array([2e30]))
    big = "123456789012345678901234567890"
    same(run(f"O[i] = {big}.0 * A[i]", A=[1.0]), np.array([float(big)]))
    with pytest.raises(LimitError, match="larger than an integer of 64 bits"):
        run(f"O[i] = {big} * A[i]", A=[1.0])
    same(run("input T\nc = 2 * T\nO[i] = c * A[i] + |i|", T=1.5, A=[2.0]), np.array([7.0]))


# --- reads --------------------------------------------------------------------------------


# Programs that read X = [1, -2, 4] out of range where nobody looks, with what they give.
GUARDED = {
    "O[i] = where(i > 0, X[i - 1], 0) + where(i + 1 < |i|, X[i + 1], 0)": [-2.0, 5.0, -2.0],
    "O[i] = where(i == 0, 7, where(i > 1, X[i - 2], X[i]))": [7.0, -2.0, 1.0],
    "O[i] = i > 0 and X[i - 1] > 0": [False, True, False],
    "O[i] = i == 0 or X[i - 1] > 0": [True, True, False],
    "O = sum[i if i > 0 and X[i - 1] > 0](X[i])": -2.0,
    "index n < |i|\nO[i] = sum[j if j <= i](sum[n if n == i - j](X[i - j])) + 0 * X[j]": [1, -1, 3],
    "D[i] = X[i + 1]\nO[i] = where(i + 1 < |i|, D[i], 0)": [-2.0, 4.0, 0.0],
    "D[i] = X[i + 1]\nE[i] = 2 * D[i]\nO = sum[i if i < 1](E[i])\nreturn O": -4.0,
}


@pytest.mark.parametrize("text", GUARDED)
def test_reads_that_are_guarded(text):
    got = run(f"input X[i]\n{text}", X=[1.0, -2.0, 4.0])
    np.testing.assert_array_equal(got, GUARDED[text])


def test_range_error_of_an_output():
    text = "input R[q,k]\nO[q,k] = 2 * R[q - k, k]"
    with pytest.raises(IndexRangeError) as caught:
        run(text, R=np.zeros((3, 2)))
    assert caught.value.described() == (
        "IndexRangeError: 'R' is read at -1 along its dimension 'q' (line 2, column 16)\n"
        "    O[q,k] = 2 * R[q - k, k]\n"
        "                   ^^^^^\n"
        "  valid positions: 0 to 2\n"
        "  at q = 0, k = 1\n"
        "  help: guard the read with a filter or where(...)"
    )


# --- empty sets, masks and NaN ------------------------------------------------------------


# One element of each program at a special point, and what it is there: A is 0, B is -inf, C no
# number, and D is 2.
ARITHMETIC = {
    0: "A * C; C * A; A * B; A / C; A / A; A ** 2; A * A ** -1; int(D) // 0 + int(D) % 0; "
    "0 * min[j if j < 0](X[j]); prod[j](where(j > 0, A, C)); argmax[j if j < 1](B * X[j]); "
    "sum[j if j > 0](softmax[j](where(j > 0, B, C))); exp(B); exp2(B); sigmoid(B); softplus(B); "
    "silu(B); gelu(B); relu(B); sum[j if j < 0](X[j]); mean[j if j < 0](X[j]); "
    "var[j if j < 0](X[j]); argmin[j if j < 0](X[j]); sum[j](softmax[j if j < 0](X[j]))",
    1: "int(-3.5 * D) % int(D); where(D > 0 or C > 0, 1, 2); where(B < D, 1, 2); "
    "argmax[j](where(j > 0, D, B)); where(min[j if j < 0](X[j]) > D, 1, 2); "
    "prod[j if j < 0](X[j]); where(all[j if j < 0](X[j] > 0), 1, 2)",
    2: "where(any[j if j < 0](X[j] > 0), 1, 2); exp(log(A)) + D; maximum(B, D); "
    "where(D < 0 and C > 0, 1, 2); where(D > 0, D, C)",
    4: "sum[j if j > 0](X[j])",
    -1: "tanh(B); erf(B); elu(B); sign(B); int(3.5 * D) % int(-D)",
    -4: "int(-3.5 * D) // int(D); int(3.5 * D) // int(-D)",
    INF: "min[j if j < 0](X[j]); min[j if j < 0](X[j]) + D",
    -INF: "B / D; B + C; C + B; B - C; B - B; -inf; D * B; log(A); minimum(B, D); "
    "D - min[j if j < 0](X[j]); D * min[j if j < 0](X[j]) / -D; B + min[j if j < 0](X[j]); "
    "sum[j](where(j > 0, B, C)); max[j if j < 0](X[j]); logsumexp[j if j < 0](X[j]); "
    "max[j](log_softmax[j if j < 0](X[j]))",
    NAN: "C; D / A; D / B; D - B; -B; -D * B; B * B; B ** 2; A ** -1; log(-D); sqrt(-D); "
    "maximum(C, D); where(C > 0, 1, 1); where(A == C, 1, 1); where(C > 0 or D > 0, 1, 2); "
    "where(not C > 0, 1, 2); int(C); int(D) * 2 ** 70; D // A; D / min[j if j < 0](X[j]); "
    "exp(min[j if j < 0](X[j])); sum[j if j > C](X[j]); max[j](where(j > 0, D, C)); "
    "any[j](where(j > 0, C > 0, D > 0)); argmax[j](where(j > 0, D, C)); mean[j](X[j] * B * B); "
    "X[int(C)]; log(B); sqrt(B); rsqrt(B); abs(B); floor(B); sin(B); cos(B)",
}


@pytest.mark.parametrize(
    ("expression", "value"), [(e, x) for x, es in ARITHMETIC.items() for e in es.split("; ")]
)
def test_special_points_of_arithmetic(expression, value):
    inputs = {"A": 0.0, "B": -INF, "C": NAN, "D": 2.0, "X": [1.0, 4.0]}
    (found,) = oracle.specified(f"input A, B, C, D, X[j]\nO = {expression}", inputs)
    np.testing.assert_array_equal(found.astype(float), value)


def test_what_is_unspecified_stays_in_its_own_elements():
    x, v = np.array([[1.0, NAN], [1.0, 2.0]]), np.array([[1.0], [1.0]])
    for form in (
        "softmax[k](X[q,k]) * V[k,e]",
        "sum[k](exp(X[q,k]) * V[k,e]) / sum[k](exp(X[q,k]))",
    ):
        same(run(f"O[q,e] = {form}", X=x, V=v), np.array([[NAN], [1.0]]))
    for op in ("sum", "max", "min", "mean", "var", "logsumexp", "prod"):
        assert np.isnan(run(f"O[q] = {op}[k](X[q,k])", X=x)).tolist() == [True, False]


# --- random numbers -----------------------------------------------------------------------


def _uniform_by_definition(*args):
    """The definition of `counter_rng`, with Python's integers."""
    h = 0x243F6A88
    for x in args:
        h ^= x * 0x9E3779B9 % 2**32
        h ^= h >> 16
        h = h * 0x85EBCA6B % 2**32
        h ^= h >> 13
        h = h * 0xC2B2AE35 % 2**32
        h ^= h >> 16
    return (h >> 8) * 2.0**-24


def test_uniform_is_its_definition():
    got = run(
        "param seed: int\nO[i,j] = uniform(seed, i, j - 1) * A[i,j]",
        A=np.ones((4, 5)),
        params={"seed": -3},
    )
    want = [[_uniform_by_definition(-3, i, j - 1) for j in range(5)] for i in range(4)]
    same(got, np.array(want), rtol=0)
    assert counter_rng.uniform(2**40 + 5, 1) == counter_rng.uniform(5, 1)


# --- what a call takes and gives ----------------------------------------------------------


def test_inputs_of_many_kinds():
    for given in (
        [1, 2],
        (1.0, 2.0),
        np.array([1, 2], np.float16),
        torch.tensor([1, 2]).bfloat16(),
    ):
        same(run("O[i] = 2 * A[i]", A=given), np.array([2.0, 4.0]))
    needs_grad = torch.tensor([1.0, 2.0], requires_grad=True)
    same(run("O[i] = 2 * A[i]", A=needs_grad), np.array([2.0, 4.0]))
    same(
        run("O[i] = where(C[i], 1, 2) * A[i]", C=[True, False], A=[1.0, 1.0]), np.array([1.0, 2.0])
    )
    same(run("input A[i]: bool\nO[i] = A[i]", A=[0, 3]), np.array([False, True]))


def test_outputs_ignore_the_dtype_asked_for_and_keep_their_order():
    text = "A[i] = X[i] / 3\nB[i] = i\nC[i] = X[i] > 1\nreturn C, A: bfloat16, B"
    flags, thirds, positions = run(text, X=[1.0, 2.0])
    same(flags, np.array([False, True]))
    same(thirds, np.array([1 / 3, 2 / 3]))
    same(positions, np.array([0, 1]))


def test_wrong_inputs_are_refused():
    with pytest.raises(InputError, match="the program has no input or parameter 'B'"):
        run("O[i] = A[i]", B=[1.0])
    with pytest.raises(ShapeError, match="index 'i' has two sizes"):
        run("O[i] = A[i] * B[i]", A=[1.0], B=[1.0, 2.0])
    with pytest.raises(UnsupportedDtypeError, match="input 'A' has dtype complex128"):
        run("O[i] = A[i]", A=[1j])
    with pytest.raises(UnsupportedDtypeError, match="which is no number"):
        run("O[i] = A[i]", A=["a"])
    with pytest.raises(InputError, match="input 'T' holds floats, and the program needs int"):
        run("O[i] = A[T[i]]", A=[1.0], T=[0.0])
    with pytest.raises(InputError, match="parameter 'c' is missing"):
        run("param c: float\nO[i] = c * A[i]", A=[1.0])


def test_the_oracle_shares_no_code_with_what_it_judges():
    """Nor does it load torch, sympy or mpmath."""
    script = "import sys, monocomp.reference.oracle\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.split()
    foreign = ("rewrites", "backends", "terms", "rewriting", "tile", "lowering")
    for name in (*(f"monocomp.{part}" for part in foreign), "torch", "sympy", "mpmath"):
        assert not [module for module in loaded if f"{module}.".startswith(f"{name}.")]
