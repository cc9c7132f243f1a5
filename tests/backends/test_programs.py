"""Programs of every part of the language on every backend, against the oracle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import pytest
import torch

import monocomp as mc
from monocomp.declarations import counter_rng
from monocomp.language.checker import check
from tests.agreement import check_gradients, check_outputs
from tests.backends import interpreted
from tests.backends.programs import EXAMPLES
from tests.backends.running import BACKENDS, DISTINCT, exact, make_inputs, run
from tests.backends.tolerances import Bound, agree
from tests.marks import slow_unless


@pytest.mark.one_in(11)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str, backend: str) -> None:
    """The results are the oracle's, and integers exactly."""
    example = EXAMPLES[name]
    for inputs in example.drawn():
        agree(backend, example.text, inputs, example.tolerance, **example.params)


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_numbers_are_equal_everywhere(backend: str) -> None:
    """The same bits on every backend, and in blocks of any length."""
    text = "param seed: int = 7\nO[i,j] = uniform(seed, i, j) + 0 * X[i,j]"
    inputs = make_inputs(text, {"i": 37, "j": 19})
    (wanted,) = exact(text, inputs, seed=-(2**40))
    for block in (16, 32):
        (found,) = run(backend, text, inputs, block=block, seed=-(2**40))
        assert torch.equal(found.double(), wanted)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "condition", ["u < x", "x <= u", "u <= x", "x < u", "not x <= u", "u == x"]
)
def test_random_numbers_are_compared_exactly(condition: str, backend: str) -> None:
    """Also with one that is drawn, with the next numbers, and with what is not in [0, 1)."""
    condition = condition.replace("u", "uniform(5, i, j)")
    text = f"param x: float\nO[i,j] = where({condition}, 1, 2) + 0 * X[i,j]"
    drawn = counter_rng.uniform(5, 1, 2)
    limits = [drawn, drawn - 2.0**-25, drawn + 2.0**-25, 1e-40, 0.0, 1.0, 2.0, -1.0]
    inputs = make_inputs(text, {"i": 5, "j": 19})
    for x in (*limits, -math.inf):
        (found,) = run(backend, text, inputs, x=x)
        assert torch.equal(found.double(), exact(text, inputs, x=x)[0]), x


def test_random_numbers_are_as_precise_as_others() -> None:
    """In a kernel of float64, what is computed of them is in float64."""
    text = "O[i] = log(uniform(3, i)) + X[i]"
    inputs = make_inputs(text, {"i": 37}, torch.float64)
    (found,) = run("torch", text, inputs)
    Bound(0.0, 1e-14).check(found, exact(text, inputs)[0])


# --- names --------------------------------------------------------------------------------


# Names that mean something to Python, torch, Triton, or in an emitted file.
HARMLESS_NAMES = (
    *("lambda", "import", "class", "async", "await", "match", "True", "self", "return_"),
    *("exec", "eval", "open", "print", "range", "float", "sum_", "list", "len", "object"),
    *("__class__", "__import__", "__init__", "__", "_", "_x", "x" * 64),
    *("tl", "triton", "torch", "jit", "os", "sys", "annotations", "constexpr"),
    *("O", "o", "Q", "q", "K", "k", "e", "d", "s", "p", "t", "x", "x_2"),
    *("m_i", "l_i", "acc", "pid", "scale", "keep", "phase", "begin", "end"),
    *("BLOCK_Q", "EVEN_K", "INDEX", "PRECISION", "CONFIG", "CONFIG_2", "K_ptr", "stride_K_d"),
    *("offs_q", "size_q", "in_q", "start_q", "num_q", "last_q", "first_k", "high_k", "K_tile"),
    *("config", "configs", "tensor", "name", "shape", "dtype", "span", "wide", "programs"),
    *("precision", "main", "reference", "error", "result", "results", "device", "made", "good"),
    *("inputs", "params", "names", "kernel", "kernel_kernel", "open_indices", "tabulate"),
    *("args", "num_warps", "num_stages", "grid", "warmup", "stream", "options", "debug", "empty"),
    *("floordiv", "larger", "smaller", "multiply", "next_bits", "float_mod", "sum_1", "softmax_1"),
)


def with_names(start: int) -> tuple[str, str, str]:
    """An attention program with seven of the names, and which of them are its indices."""
    names = [HARMLESS_NAMES[(start + n) % len(HARMLESS_NAMES)] for n in range(7)]
    tensor, index, stream, output, definition, param, function = names
    text = f"""
        param {param}: float = 2.0
        def {function}(formal_) = 2 * formal_
        {definition}[{index},{stream}] = {tensor}[{index},inner_] * Keys_[{stream},inner_]
        {output}[{index},column_] = softmax[{stream} if {stream} <= {index}](
            {function}({param} * {definition}[{index},{stream}])) * Values_[{stream},column_]
        """
    return text, index, stream


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    "start", slow_unless(lambda start: start % 16 == 0, range(0, len(HARMLESS_NAMES), 8))
)
def test_names_of_all_kinds(start: int) -> None:
    """Names that Python, torch, Triton or the emitted file use work in every role: tensor,
    index, streamed index, output, definition, parameter and function."""
    for shift in range(8):
        text, index, stream = with_names(start + shift)
        sizes = {index: 18, stream: 21, "inner_": 5, "column_": 6}
        agree("triton", text, make_inputs(text, sizes))


# --- axes that are too long to be held entirely -----------------------------------------


LIMIT = 8
SHORT = {"h": 2, "q": 19, "k": 21, "j": 23, "d": 5, "e": 6}
LONG = {**SHORT, "d": 18, "e": 20}

_PAIRS = (
    "E[h,q,j,k] = exp(sum[d](Q[h,q,d] * A[h,j,d] * B[h,k,d]){mask})\n"
    "O[h,q,e] = sum[j,k](E[h,q,j,k] * V[h,j,e] * W[h,k,e]) / sum[j,k](E[h,q,j,k])"
)
PROGRAMS = {
    "attention": "O[h,q,e] = softmax[k](Q[h,q,d] * K[h,k,d]) * V[h,k,e]",
    "pairs of keys": _PAIRS.format(mask=""),
    "pairs of earlier keys": _PAIRS.format(mask=" + where(k <= j and j <= q, 0, -inf)"),
    "a vocabulary": "input y[q]: int\nS[q,k] = X[q,d] * W[k,d]\n"
    "L[q] = logsumexp[k](S[q,k])\nP[q] = S[q,y[q]] - L[q]\nreturn L, P",
    "distances": "O[q,e] = softmax[k](-sum[d](abs(Q[q,d] - K[k,d]))) * V[k,e]",
    "norms": "N[k,d] = K[k,d] * rsqrt(mean[d](K[k,d] ** 2) + 1)\n"
    "O[q,e] = softmax[k](Q[q,d] * N[k,d]) * V[k,e]",
    "relative values": "O[q,e] = softmax[k](Q[q,d] * K[k,d]) * (V[k,e] + R[q - k + |k|, e])",
    "sigmoids": "O[q,e] = sum[k](sigmoid(sum[d](Q[q,d] * K[k,d])) * V[k,e])",
    "logits in two parts": "S[q,k] = (Q[q,d] * K[k,d] + R[q,e] * C[k,e] + B[q,k]"
    " + sum[d](Q[q,d]) * G[k]) / 3\nO[q,e] = softmax[k](S[q,k]) * C[k,e]",
    "two outputs": "O[q,e] = A[q,k] * V[k,e]\nP[q,d] = A[q,k] * W[k,d]",
}


@pytest.mark.one_in(7)
@pytest.mark.parametrize("backend", DISTINCT)
@pytest.mark.parametrize("extents", [SHORT, LONG], ids=["short features", "long features"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_long_axes(name: str, extents: dict[str, int], backend: str) -> None:
    """The oracle's results, however the loops are nested."""
    text = PROGRAMS[name]
    inputs = make_inputs(text, extents)
    inputs = {n: t / 2 if t.is_floating_point() else t for n, t in inputs.items()}
    agree(backend, text, inputs, 2, limit=LIMIT)


# --- reads at indices of another extent than the dimension has ---------------------------


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

ENTROPY = "sum[k](softmax[k](Y[k] * C) * log_softmax[k](Y[k] * C))"
NESTED = {  # results in sums of results
    "a sum over what follows, beside its own element": """input Y[k]
M = max[k](sum[l](softmax[l if l > k](Y[l]) * (Y[l] - Y[k // 2])))""",
    "a mean beside a maximum": """input W[j], X[i], C
O[i] = var[j](W[j] * max[j](W[j] + C) + log(sum[j](exp(W[j] + C - max[j](W[j] + C))))) * X[i]""",
    "results that masks keep": f"input Y[k], C\nO = var[l if Y[l] > 0](Y[l] * {ENTROPY})",
}


@pytest.mark.parametrize("name", NESTED)
def test_nested_results(name: str) -> None:
    inputs = make_inputs(NESTED[name], {"i": 4, "j": 3, "k": 5}, torch.float64)
    compare(NESTED[name], {n: x.numpy() for n, x in inputs.items()}, "torch")


def compare(text: str, inputs: Inputs, backend: str) -> None:
    """Compare results and gradients with the oracle's; behind tensors stands NaN."""
    program, kernel = check(text), mc.compile(text, backend=backend)
    check_outputs(program, kernel, inputs, note=text)
    check_gradients(program, kernel, inputs, note=text, elementwise=True)


@pytest.mark.one_in(5)
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
