"""What was once wrong, with the numbers that it should give.

Each program here was compiled to a kernel that gave other numbers than these, crashed, or was
accepted though it means nothing. Classes of such programs are tried in `test_special_points`, and
through Triton in `tests/backends/programs.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

import monocomp as mc
from monocomp.errors import InputError, MonoidLawError
from monocomp.reference.oracle import evaluate
from tests.backends import interpreted

INF = math.inf
PRODUCT = "monoid SE(v, m) = unit (0, 1), combine (v * m' + v', m * m')\n"
SCALED = (
    "monoid SE(v, m) = unit (0, -inf), combine ("
    "exp(m - where(maximum(m, m') == -inf, 0, maximum(m, m'))) * v"
    " + exp(m' - where(maximum(m, m') == -inf, 0, maximum(m, m'))) * v', maximum(m, m'))\n"
)
WEIGHTS = "P[i,k] = softmax[k](S[i,k] + M[i,k])\n"
S = [[1.0, 2.0], [1.0, 2.0]]
ROWS = [[1.0, 2.0, 3.0], [3.0, 4.0, 5.0], [0.1, -0.2, 0.3]]
FAR = [[85.0, -25.0, -24.0]]

# Text, inputs, and what it gives; None: what the oracle says, which is finite.
e = math.exp
HALF = 1 / (1 + e(1))
WRONG: list[tuple[str, dict[str, Any], Any]] = [
    ("O[i] = where(A[i] / A[i] == 1, 1, 7)", {"A": [0.0, 1.0]}, [7, 1]),
    ("O[i] = A[i] ** 9", {"A": [-2.0]}, [-512]),
    (
        "O[i,k] = softmax[k](S[i,k] + B[i])",
        {"S": S, "B": [-INF, 0.0]},
        [[0, 0], [HALF, 1 - HALF]],
    ),
    (
        f"{PRODUCT}A[i] = max[j](Y[i,j] * SE[k](X[k] ** 2 + 1, M[k]).v)",
        {"X": [1.0, 2.0], "M": [1.0, -3.0], "Y": [[1.0, 2.0, 3.0]]},
        [-1],
    ),
    (f"{SCALED}M[q] = SE[k](V[k], S[q,k] + 3).m", {"V": [1.0, 1.0], "S": S}, [5, 5]),
    ("O[i] = exp(max[j if j < i](B[i,j]))", {"B": S}, [0, e(1)]),
    ("O[i] = exp(max[j](B[i,j]))", {"B": [[-INF, -INF], [1.0, 0.0]]}, [0, e(1)]),
    ("O[q] = min[k if k < q](softmax[k](S[q,k]))", {"S": S}, [INF, HALF]),
    (
        "O[b] = sum[k](where(T[b] > 0, S[b,k] / T[b], 0))",
        {"T": [0.0, 2.0], "S": S},
        [0, 1.5],
    ),
    (
        "input n[b]: int\nO[b] = sum[k if k < n[b]](V[b,k] / n[b])",
        {"n": np.array([0, 2]), "V": S},
        [0, 1.5],
    ),
    (
        "O[i] = sum[k](exp(A[i,k]) * M[k] * V[k]) / sum[k](exp(A[i,k]) * M[k])",
        {"A": FAR, "M": [0.0, 1.0, 1.0], "V": [5.0, 6.0, 7.0]},
        [(6 + 7 * e(1)) / (1 + e(1))],
    ),
    ("O = log(sum[k](exp(A[k]) * B[k]))", {"A": [1000.0, -20.0], "B": [0.0, 1.0]}, -20),
    ("O[i] = argmax[k](A[i,k] + max[j if j < i](B[i,j]))", {"A": S, "B": S}, [0, 1]),
    ("O[i] = argmax[k](A[i,k] * exp(max[j if j < i](B[i,j])))", {"A": S, "B": S}, [0, 1]),
    (
        "O[q] = softmax[k](softmax[k if k < q](S[q,k])) * V[k]",
        {"S": S, "V": [1.0, 3.0]},
        [2, (e(1) + 3) / (e(1) + 1)],
    ),
    ("O[q] = sum[k](exp(softmax[k if k < q](S[q,k])))", {"S": S}, [2, e(1) + 1]),
    (
        "O[q] = softmax[k](S[q,k] * mean[l if l < q](A[q,l])) * V[k]",
        {"S": S, "A": [[0.0, 0.0], [1.0, 5.0]], "V": [1.0, 3.0]},
        [2, HALF + 3 * (1 - HALF)],
    ),
    (
        f"{WEIGHTS}O[i] = -sum[k](P[i,k] * log(P[i,k]))",
        {"S": [[1.0, 2.0, 1.0]] * 2, "M": [[0.0, -INF, 0.0], [-INF] * 3]},
        [math.log(2), 0],
    ),
    (
        f"{WEIGHTS}R[i,k] = softmax[k](T[i,k] + M[i,k])\n"
        "O[i] = sum[k](P[i,k] * (log(P[i,k]) - log(R[i,k])))",
        {"S": [[1.0, 2.0, 1.0]], "T": [[0.0, 5.0, 1.0]], "M": [[0.0, -INF, 0.0]]},
        [0.5 * (math.log(0.5 / HALF) + math.log(0.5 / (1 - HALF)))],
    ),
    ("O[q] = max[k if k != q](softmax[k](S[q,k]))", {"S": [[90.0, 89.0, 88.0]] * 3}, None),
    ("O[q] = var[k if S[q,k] > 0](V[k])", {"S": ROWS, "V": [1.0, 2.0, 4.0]}, None),
    ("O[q] = var[k if S[q,k] > 0](log_softmax[k](V[k]))", {"S": ROWS, "V": [1.0, 2, 4]}, None),
    (
        "input T[k]: int\nO[q] = var[k if S[q,k] > 0](W[T[k]] - V[k])",
        {"T": np.array([2, 0, 1]), "S": ROWS, "W": [0.0, 1.0, 5.0], "V": [1.0, 2, 4]},
        None,
    ),
    (
        "input n[q]: int, N[k]: int\nO[q] = max[k if k < n[q]](N[k])",
        {"n": np.array([0, 2]), "N": np.array([-5, -7])},
        [-(2.0**63), -5],
    ),
    (
        "O[q,e] = softmax[k if k <= q](X[q,d] * X[k,d]) * X[k,e]",
        {"X": [[1.0, 0.0], [0.0, 2.0]]},
        [[1, 0], [1 / (1 + e(4)), 2 / (1 + e(-4))]],
    ),
    ("O[q] = var[k](S[q,k])\nA[q] = argmax[k](S[q,k])", {"S": S}, ([0.25, 0.25], [1, 1])),
    (
        "O[q] = max[k if k <= q](k) + sum[k](V[k]) + B[q]",
        {"V": [1.0, 2.0], "B": [0.5, 0.0]},
        [3.5, 4],
    ),
    ("O[q] = sum[k](k * argmax[k](S[q,k]))", {"S": ROWS}, [6, 6, 6]),
    ("param p: float = 1e300\nO[i] = A[i] * p", {"A": [2.0]}, [2e300]),
    (
        "input D[j]: int\nindex q < 3\nO[q] = W[sum[j if j < q](D[j])]",
        {"D": np.array([1, 2]), "W": [5.0, 6.0, 7.0, 8.0]},
        [5, 6, 8],
    ),
    (
        "monoid Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')\n"
        "O[q] = Affine[k](0.5, sum[d](Q[q,d] * K[k,d])).u",
        {"Q": [[1.0, 2.0]], "K": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]},
        [0.25 + 1 + 3],
    ),
    ("param num_warps: int = 3\nO[i] = A[i] * num_warps", {"A": [2.0]}, [6]),
]
# Those in which a backend's exponents or blocks were at fault go through Triton as well, at an odd
# size; `tests/backends/programs.py` has the others.
ON_TRITON = [
    ("O[q,e] = softmax[k](exp(2 * Q[q,d] * K[k,d])) * V[k,e]", {"q": 3, "k": 9, "d": 2, "e": 2}),
    ("O[k] = softmax[k](exp(W[k]))", {"k": 40}),
    ("O[q] = max[k if k != q](softmax[k](90 + S[q,k]))", {"q": 5, "k": 5}),
    ("O[q] = var[k if S[q,k] > 0](log_softmax[k](V[k]))", {"q": 5, "k": 7}),
]


def called(text: str, inputs: Mapping[str, Any], backend: str) -> Any:
    """The outputs, as arrays."""
    tensors = {name: torch.as_tensor(np.array(a)) for name, a in inputs.items()}
    found = mc.compile(text, backend=backend)(**tensors)
    return tuple(map(np.asarray, found)) if isinstance(found, tuple) else (np.asarray(found),)


@pytest.mark.parametrize(("text", "inputs", "wanted"), WRONG, ids=[text for text, *_ in WRONG])
def test_what_was_wrong(text: str, inputs: dict[str, Any], wanted: Any) -> None:
    by_oracle = evaluate(text, {name: np.asarray(a) for name, a in inputs.items()})
    expected = by_oracle if wanted is None else wanted
    for found in (by_oracle, called(text, inputs, "torch")):
        outputs = found if isinstance(found, tuple) else (found,)
        for a, b in zip(outputs, expected if len(outputs) > 1 else (expected,), strict=True):
            assert np.isfinite(a).all() or wanted is not None
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("text", "sizes"), ON_TRITON, ids=[text for text, _ in ON_TRITON])
def test_what_was_wrong_on_triton(text: str, sizes: dict[str, int]) -> None:
    rng = np.random.default_rng(0)
    inputs = {
        name: 0.5 * rng.standard_normal([sizes[d] for d in at.dims]).astype(np.float32)
        for name, at in mc.compile(text).declared.inputs.items()
    }
    (found,) = interpreted.call(called, text, inputs, "triton")
    np.testing.assert_allclose(found, evaluate(text, inputs), rtol=1e-4, atol=1e-6)


def test_a_monoid_is_proved_as_it_is_written() -> None:
    """Not after x / x has become 1."""
    with pytest.raises(MonoidLawError):
        mc.compile("monoid M(x) = unit 0, combine where(x / x == 1, x + x', 7)\nO = M[k](X[k])")


@pytest.mark.parametrize("value", [1e300, 10**400])
def test_parameters_beyond_a_dtype_are_refused(value: float) -> None:
    kernel = mc.compile("param p: float = 1.0\nO[i] = A[i] * p", backend="torch")
    with pytest.raises(InputError, match="parameter 'p'"):
        kernel(A=torch.ones(2), p=value)


def test_steps_say_what_kernels_do() -> None:
    """For given sizes sums keep another order, and then no step says that they were exchanged."""
    text = "O[q,e] = sum[k](sum[d](A[q,d] * B[k,d]) * C[k,e])"
    kernel = mc.compile(text)
    for sizes in ({"q": 16, "k": 16, "d": 4096, "e": 4096}, {"q": 4096, "k": 4096, "d": 8, "e": 8}):
        plan = kernel.plan(sizes)
        is_exchanged = plan.program.equations[-1].body.attr.extents == ("d",)
        assert is_exchanged == ("exchange_sums" in [step.rule for step in plan.rewrites])
        assert is_exchanged == (sizes["d"] == 8)
