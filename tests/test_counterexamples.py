"""Counterexamples to identities without their conditions.

Each row is an identity that holds for most numbers, a program to which it could be applied, and
inputs at which it must not be. None is wanted where nothing is promised, and a whole None says that
the oracle is asked. Others are in `test_special_points`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import monocomp as mc
from monocomp.errors import InputError
from monocomp.reference.oracle import evaluate
from tests.backends import interpreted

INF, NAN, E = math.inf, math.nan, math.e
LEAST = -(2.0**63)
STATES = (
    "m[i] = maximum(A[i], B[i])\nO[i] = (exp(A[i] - m[i]) * X[i] + exp(B[i] - m[i]) * Y[i])"
    " / (exp(A[i] - m[i]) + exp(B[i] - m[i]))"
)
INTS = "input N[k]: int, Z[i]: int\n"
CHAIN = "O[q] = sum[k if L[k] > 0](sum[d](A[q,d] * B[k,d]) * C[k])"
WEIGHED = "O[i] = sum[k](exp(S[i,k]) * X[k] - exp(S[i,k] + B[i]) * Y[k])"
NOTHING = np.zeros((1, 0))
Rows = list[tuple[str, str, dict[str, Any], Any]]

TERMS: Rows = [
    ("m + n", "input N[i]: int\nO[i] = 1.0 * N[i] + 1.0 * N[i]", {"N": [2**62]}, [2.0**63]),
    ("|k| / |k| = 1", "O[i] = A[i] + |k| / |k| + sum[k](B[i,k])", {"A": [1], "B": NOTHING}, [1]),
    ("|k| // |k| = 1", "O[i] = A[i] + |k| // |k| + sum[k](B[i,k])", {"A": [1], "B": NOTHING}, [1]),
    ("log(p * r)", "O[i] = log(A[i] / (1 + exp(B[i])))", {"A": [-1, 2], "B": [-INF, -INF]}, None),
    ("a < b", "input N[i]: int\nO[i] = where(N[i] + 5 > 0, 1, 7)", {"N": [-5, -4, 2**40]}, None),
]
FOLDS: Rows = [
    ("sum(a * x)", "O[i] = sum[k if k < i](V[k] * B[i])", {"V": [1, 2], "B": [INF, 1]}, [0, 1]),
    ("sum(a)", "O[i] = sum[k](A[i] + 0 * B[i,k])", {"A": [INF], "B": NOTHING}, [0]),
    (
        "max(a + x)",
        "O[i] = max[k if k < i](V[k] + B[i])",
        {"V": [1, 2, 3], "B": [NAN, 1, 2]},
        [-INF, 2, 4],
    ),
    (
        "max(a + n)",
        f"{INTS}O[i] = max[k if k < Z[i]](N[k] - 5 * Z[i])",
        {"N": [3, 4], "Z": [-1, 0, 2]},
        [LEAST, LEAST, -6],
    ),
    (
        "max(2 * n)",
        f"{INTS}O[i] = max[k if k < Z[i]](2 * N[k])",
        {"N": [3, 4], "Z": [0, 1]},
        [LEAST, 6],
    ),
    (
        "max(a * x)",
        "O[i] = max[k if k < i](exp(C[i]) * S[k])",
        {"C": [-INF, 0], "S": [1, 2]},
        [-INF, 1],
    ),
    (
        "sum(H * x)",
        "O[i] = sum[k if k < i]((X[i,k] + max[l](X[i,l])) * Y[k])",
        {"X": [[INF, 1], [1, 2]], "Y": [1, 2]},
        [0, 3],
    ),
    (
        "sum(H * x), of a frame",
        "O[i] = sum[k if k < i](exp(max[l](S[i,l])) * V[k])",
        {"S": [[INF, 0], [0, 1]], "V": [1, 2]},
        [0, E],
    ),
    (
        "sum(c * (a + b))",
        "O = sum[k](Y[k] * (2 * exp(S[k]) - exp(R[k])))",
        {"Y": [0, 2], "S": [-INF, 0], "R": [1, -INF]},
        4,
    ),
    ("w * (a + b / w)", WEIGHED, {"S": [[-1000]], "X": [1], "B": [1000], "Y": [0]}, [0]),
    (
        "w * (a + b / w), of weights",
        WEIGHED,
        {"S": [[-1000, -999]], "X": [1, 2], "B": [1000], "Y": [1, 1]},
        [-1 - E],
    ),
    (
        "sums exchanged, of nothing",
        CHAIN,
        {"A": [[INF, 1]], "B": [[1, 1], [1, 2]], "C": [1, 1], "L": [0, -1]},
        [0],
    ),
    (
        "sums exchanged, beside NaN",
        CHAIN,
        {"A": [[2, 1]], "B": [[1, NAN], [1, 2]], "C": [1, 4], "L": [0, 1]},
        [16],
    ),
    (
        "c * (a * b + d * e)",
        "O[i] = sum[k]((X[i,k] * Y[k] + Z[i,k] * W[k]) * C[k])",
        {"X": [[2, 0]], "Y": [1, INF], "Z": [[-1, 1]], "W": [1, 1], "C": [1e30, 0]},
        [None],
    ),
    (
        "counts",
        "S[i] = sum[k if k < i](X[k])\nO[i] = S[i] / sum[k if k < i](1) + X[i]",
        {"X": [1, 2]},
        [1, 3],
    ),
]
FRAMES: Rows = [
    (
        "e^a + e^b * c",
        "O[i] = log(exp(max[k](S[i,k])) + exp(B[i]) * C[i])",
        {"S": [[1, 2]], "B": [-INF], "C": [1]},
        [2],
    ),
    (
        "1 / (e^a * x + e^b * y)",
        "O[i] = 1 / (exp(A[i]) * X[i] + exp(B[i]) * Y[i])",
        {"A": [900, -INF], "X": [0, 1], "B": [0, 0], "Y": [2, 1]},
        [0.5, 1],
    ),
    (
        "states merged",
        STATES,
        {"A": [-INF, 1], "B": [-INF, -INF], "X": [1, 3], "Y": [2, 2]},
        [None, 3],
    ),
    ("min(e^max)", "O = min[q](exp(max[k](X[q,k])))", {"X": [[-INF, -INF], [1, 2]]}, 0),
    ("log of [0]", "O[q] = log(sum[k if k < q](exp(S[q,k])))", {"S": [[1, 2], [1, 2]]}, [-INF, 1]),
    (
        "x / sum(e^s * w)",
        "O[i] = exp(X[i] - 900) / sum[k](exp(S[i,k]) * W[k])",
        {"X": [1], "S": [[900, -900]], "W": [0, 1]},
        [E],
    ),
    (
        "e^(s - max)",
        "O[q] = sum[k](exp(S[q,k] - max[k](S[q,k])) * V[k])",
        {"S": [[-INF, -INF], [0, -INF]], "V": [1, 2]},
        [0, 1],
    ),
    *(
        ("parts", "O[q] = softmax[k](S[q,k] + M[k]) * V[k]", {**PARTS, "M": mask}, wanted)
        for PARTS in ({"S": np.zeros((1, 600)), "V": np.arange(600.0)},)
        for mask, wanted in (
            (np.where(np.arange(600) < 590, -INF, 0), [594.5]),
            (np.full(600, -INF), [0]),
        )
    ),
]
DOMAINS: Rows = [
    (
        f"k {text}",
        f"input n[q]: int\nO[q] = sum[k if k {text}](X[k])",
        {"n": n, "X": [1, 2]},
        wanted,
    )
    for text, n, wanted in (
        ("< n[q] + 1", [2**63 - 2, 0, -5], [3, 1, 0]),
        ("> n[q] - 1", [-(2**63) + 1, 1, 5], [3, 2, 0]),
    )
]
KINDS: Rows = [
    (
        "a sum of maxima of products",
        "monoid SE(v, m) = unit (0, 1), combine (v * m' + v', m * m')\n"
        "A[i] = max[j](Y[i,j] * SE[k](X[k] ** 2 + 1, M[k]).v)",
        {"X": [1, 2], "M": [1, -3], "Y": [[1, 2, 3]]},
        [-1],
    ),
    (
        "a maximum of no int",
        "input n[q]: int, N[k]: int\nO[q] = max[k if k < n[q]](N[k])",
        {"n": [0, 2], "N": [-5, -7]},
        [LEAST, -5],
    ),
    (
        "a sum that is a subscript",
        "input D[j]: int\nindex q < 3\nO[q] = W[sum[j if j < q](D[j])]",
        {"D": [1, 2], "W": [5, 6, 7, 8]},
        [5, 6, 8],
    ),
    ("a position of one", "O[q] = sum[k](k * argmax[k](S[q,k]))", {"S": [[1, 3, 2]]}, [3]),
    (
        "ints and floats",
        "O[q] = max[k if k <= q](k) + sum[k](V[k]) + B[q]",
        {"V": [1, 2], "B": [0.5, 0]},
        [3.5, 4],
    ),
    (
        "keys that are queries and values",
        "O[q,e] = softmax[k if k <= q](X[q,d] * X[k,d]) * X[k,e]",
        {"X": [[1, 0], [0, 2]]},
        [[1, 0], [1 / (1 + E**4), 2 / (1 + E**-4)]],
    ),
    ("x ** 9", "O[i] = A[i] ** 9", {"A": [-2]}, [-512]),
    ("a large number", "param p: float = 1e300\nO[i] = A[i] * p", {"A": [2]}, [2e300]),
    ("a word of Triton", "param num_warps: int = 3\nO[i] = A[i] * num_warps", {"A": [2]}, [6]),
]
ROWS = [*TERMS, *FOLDS, *FRAMES, *DOMAINS, *KINDS]
# A factor that leaves a sum over nothing is taken for a real number.
NOT_YET = ("sum(a * x)", "sum(H * x), of a frame")
# Without what is too large for float32, or for its own digits.
ON_TRITON = [row for row in (*FOLDS[::2], *FRAMES) if row[0] != "parts"]


def arrays(text: str, inputs: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """The inputs in the kinds that a program declares."""
    declared = mc.compile(text).declared.inputs
    kinds = {"int": np.int64, "float": np.float64}
    return {name: np.asarray(a, dtype=kinds[declared[name].kind]) for name, a in inputs.items()}


def is_right(found: Any, wanted: Any, rtol: float) -> bool:
    a, b = np.asarray(found, dtype=float), np.asarray(wanted, dtype=float)
    return a.shape == b.shape and bool(
        (np.isclose(a, b, rtol=rtol, atol=1e-12) | np.isnan(b)).all()
    )


def cases(rows: Rows) -> list[Any]:
    """Return rows by name, those that fail among them."""
    fails = {n: [pytest.mark.xfail(strict=True)] if n in NOT_YET else [] for n, *_ in rows}
    return [pytest.param(*row, id=row[0], marks=fails[row[0]]) for row in rows]


@pytest.mark.parametrize(("name", "text", "inputs", "wanted"), cases(ROWS))
def test_counterexamples(name: str, text: str, inputs: dict[str, Any], wanted: Any) -> None:
    given = arrays(text, inputs)
    by_oracle = evaluate(text, given)
    wanted = by_oracle if wanted is None else wanted
    assert is_right(by_oracle, wanted, 1e-12)
    tensors = {name: torch.from_numpy(a) for name, a in given.items()}
    for backend, values in (("torch", tensors), ("numpy", given)):
        assert is_right(mc.compile(text, backend=backend)(**values), wanted, 1e-12), backend


def by_triton(text: str, inputs: dict[str, Any]) -> Any:
    tensors = {name: torch.from_numpy(a) for name, a in arrays(text, inputs).items()}
    narrow = {n: t.float() if t.is_floating_point() else t for n, t in tensors.items()}
    return mc.compile(text, backend="triton")(**narrow)


@pytest.mark.parametrize(("name", "text", "inputs", "wanted"), cases(ON_TRITON))
def test_counterexamples_on_triton(
    name: str, text: str, inputs: dict[str, Any], wanted: Any
) -> None:
    wanted = evaluate(text, arrays(text, inputs)) if wanted is None else wanted
    assert is_right(interpreted.call(by_triton, text, inputs), wanted, 1e-4)


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
