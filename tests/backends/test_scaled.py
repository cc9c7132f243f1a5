"""Formulas of exponentials as users write them, in float32 where the logits are huge."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import monocomp as mc
from tests.backends.running import make_inputs

FORMULAS = {
    "logsumexp": "O[q] = log(sum[k](exp(X[q,k])))",
    "log of a root": "O[q] = log(sqrt(sum[k](exp(X[q,k]))))",
    "log of a maximum": "O[q] = log(max[k](exp(X[q,k])))",
    "expected logit": "O[q] = sum[k](X[q,k] * exp(X[q,k])) / sum[k](exp(X[q,k]))",
    "entropy": "O[q] = -sum[k](softmax[k](X[q,k]) * log_softmax[k](X[q,k]))",
    "divergence": "P[q,k] = log_softmax[k](X[q,k])\n"
    "O[q] = sum[k](exp(P[q,k]) * (P[q,k] - log_softmax[k](W[q,k])))",
    "sink": "O[q] = sum[k](exp(X[q,k]) * V[k]) / (exp(c[q]) + sum[k](exp(X[q,k])))",
    "one more": "O[q] = sum[k](exp(X[q,k]) * V[k]) / (1 + sum[k](exp(X[q,k])))",
    "two parts": "O[q] = log(exp(logsumexp[k](X[q,k])) + exp(logsumexp[k](W[q,k])))",
    "sum of two": "O[q,k] = log(exp(X[q,k]) + exp(W[q,k]))",
    "share of two": "O[q,k] = exp(X[q,k]) / (exp(X[q,k]) + exp(W[q,k]))",
    "comparison": "O[q,k] = (exp(X[q,k]) > exp(W[q,k])) * 1.0",
    "threshold": "O[q] = sum[k if softmax[k](X[q,k]) > 0.1](V[k])",
    "1 / (1 + exp(-x))": "O[q] = sum[k](V[k] / (1 + exp(-X[q,k])))",
    "exp(x) / (1 + exp(x))": "O[q] = sum[k](V[k] * exp(X[q,k]) / (1 + exp(X[q,k])))",
    "log(1 + exp(x))": "O[q] = sum[k](log(1 + exp(X[q,k])) * V[k])",
    "sigmoid about its row": "O[q] = sum[k](V[k] * sigmoid(X[q,k] + c[q]))",
    "sigmoid about a number": "O[q] = sum[k](V[k] * sigmoid(X[q,k] - log(|k|)))",
    "2 / (2 + 3 exp(x))": "O[q,k] = 2 / (2 + 3 * exp(X[q,k]))",
    "1 / (tiny + exp(x))": f"O[q,k] = 1 / (0.{'0' * 37}1 + exp(X[q,k] ** 2))",
    "log(2 + 3 exp(x))": "O[q,k] = log(2 + 3 * exp(X[q,k]))",
    "small sum made large": "O[q] = exp(abs(c[q])) * sum[k](sigmoid(-abs(c[q]) - V[k] ** 2))",
    "log of a sigmoid": "O[q] = sum[k](log(sigmoid(X[q,k])) * V[k])",
    "normalised sigmoid": "O[q] = sum[k](sigmoid(X[q,k]) * V[k]) / sum[k](sigmoid(X[q,k]))",
    "tanh": "O[q,k] = (exp(X[q,k]) - exp(-X[q,k])) / (exp(X[q,k]) + exp(-X[q,k]))",
    "log of a cosh": "O[q,k] = log(exp(X[q,k]) + exp(-X[q,k]))",
    "softpick": "A[q,k] = exp(X[q,k]) - 1\n"
    "O[q] = sum[k](relu(A[q,k]) * V[k]) / sum[k](abs(A[q,k]))",
    "variance": "O[q] = var[k](X[q,k])",
    "weighted variance": "P[q,k] = softmax[k](W[q,k])\nM[q] = P[q,k] * X[q,k]\n"
    "O[q] = sum[k](P[q,k] * (X[q,k] - M[q]) ** 2)",
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("scale", "shift"), [(1, 0), (100, 0), (1000, 0), (1, 1e4), (1, -1e4)])
@pytest.mark.parametrize("formula", FORMULAS)
def test_nothing_overflows(formula: str, scale: float, shift: float) -> None:
    """The result is finite, and near the oracle's where that has not overflowed in float64."""
    text = FORMULAS[formula]
    inputs = make_inputs(text, {"q": 5, "k": 7})
    inputs |= {n: t * scale + shift for n, t in inputs.items() if n != "V"}
    wanted = np.asarray(mc.evaluate(text, inputs), dtype=np.float64)
    fits = np.abs(wanted) < torch.finfo(torch.float32).max
    assert (fits | np.isnan(wanted)).all()
    found = mc.compile(text, backend="torch")(**inputs)
    assert torch.isfinite(found).all()
    # A logit of 1e4 is itself rounded by 5e-4.
    limit = 2e-3 * np.abs(wanted).max(where=fits, initial=1.0)
    assert np.abs(found.double().numpy() - wanted).max(where=fits, initial=0.0) <= limit
