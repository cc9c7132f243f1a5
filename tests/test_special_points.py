"""Where side conditions matter: 0, infinities, NaN, empty rows, weights of 0, under guards.

Every program here was once compiled to something else than it says, or is like one that was.
What must hold is in `monocomp/reference/semantics.md`.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

import monocomp as mc
from monocomp.errors import FilterError, LimitError, UnknownIndexError, UnsupportedError
from monocomp.language import syntax
from monocomp.language.checker import check
from monocomp.language.syntax import Compare, Expr, Program, Reduce, walk
from monocomp.reference import naive_arithmetic, naive_folds, wide
from monocomp.reference.oracle import evaluate, evaluate_in
from tests import special_programs
from tests.backends import interpreted

INF, NAN = math.inf, math.nan
FUZZ = int(os.environ.get("MONOCOMP_FUZZ", "50"))
SEED = int(os.environ.get("MONOCOMP_SEED", "0"))
PART = 25

# What each backend computes in, and the relative and the absolute error that it may have there.
DTYPES = {"torch": torch.float64, "triton": torch.float32}
TOLERANCES = {"torch": (1e-9, 1e-12), "triton": (1e-4, 1e-6)}  # of exponents of 900

POINTS = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 40.0, -40.0, INF, -INF, NAN]
ROWS = [[1.0, 2.0, 3.0], [3.0, 4.0, 5.0], [0.1, -0.2, 0.3]]
MASK = [[0.0, -INF, 0.0], [-INF] * 3, [0.0] * 3]
NONE = [[-INF, -INF], [1.0, -INF], [1.0, 2.0]]
AFFINE = "monoid Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')\n"
SE = (
    "monoid SE(v, m) = unit (0, -inf), combine ("
    "exp(m - where(maximum(m, m') == -inf, 0, maximum(m, m'))) * v"
    " + exp(m' - where(maximum(m, m') == -inf, 0, maximum(m, m'))) * v', maximum(m, m'))\n"
)
LOG_ADD = "monoid LogAdd(x) = unit -inf, combine log(exp(x) + exp(x'))\n"
SMALLEST = "monoid Smallest(x) = unit inf, combine minimum(x, x')\n"
LARGEST = "monoid Largest(a, b) = unit (-inf, -inf), combine (maximum(a, a'), maximum(b, b'))\n"
MERGED = "(exp(A[i] - M[i]) * X[i] + exp(B[i] - M[i]) * Y[i])"

# Programs over elements: each is tried on the grid of all points of what it reads.
ELEMENTS = [
    "O[i] = where(A[i] / A[i] == 1, 1, 7)",
    "O[i] = where(A[i] - A[i] == 0, 1, 7)",
    "O[i] = where(0 * A[i] == 0, A[i], 5)",
    "O[i] = where(abs(sqrt(A[i]) ** 2 - A[i]) < 0.001, 1, 7)",
    "O[i] = where(A[i] * B[i] / B[i] == A[i], 1, 7)",
    "O[i] = where(not (A[i] < B[i]), 1, 7)",
    "O[i] = where(where(B[i] > 0, 1.0, 0.0) * A[i] == 0, 1, 7)",
    "O[i] = where(0 < exp(A[i]) * B[i], 1, 7)",
    "O[i] = where(exp(A[i]) * X[i] > exp(B[i]), 1, 7)",
    "O[i] = where(any[k](A[i] - A[i] == 0 * Y[k]), 1, 7)",
    "O[i] = where(B[i] > 0, A[i] / B[i], 0)",
    "O[i] = where(A[i] / where(B[i] > 0, 1.0, 0.0) < 2, 1, 7)",
    "O[i] = where(A[i] * (1 / (B[i] > 0)) < 2, 1, 7)",
    "O[i] = 1 / A[i] / abs(A[i])",
    "O[i] = B[i] / (abs(A[i]) ** 3 * A[i] ** 3)",
    "O[i] = where(A[i] ** 2 / abs(A[i]) == 0, 1, 7)",
    "O[i] = where(A[i] ** (-0.5) < 0.7, 1, 7)",
    "O[i] = (A[i] - B[i]) / A[i] ** 3",
    "O[i] = (A[i] * B[i] + X[i] - 2) / A[i]",
    "O[i] = A[i] ** 9",
    "O[i] = A[i] ** 10",
    "O[i] = A[i] ** 0.5",
    "O[i] = A[i] ** -0.5",
    "O[i] = A[i] ** 1.5",
    "O[i] = A[i] ** B[i]",
    "O[i] = sqrt(A[i]) ** -2",
    "O[i] = abs(A[i] ** -0.5)",
    "O[i] = exp(-log(A[i]))",
    "O[i] = exp(log(A[i]) * 2)",
    "O[i] = log(exp(A[i]) * B[i])",
    "O[i] = exp(A[i]) * log(exp(A[i]))",
    "O[i] = log(A[i] ** 2)",
    "O[i] = relu(exp(A[i]) * B[i])",
    "O[i] = exp(A[i]) ** B[i]",
    "O[i] = exp(A[i]) / exp(A[i])",
    "O[i] = exp(A[i]) / (exp(A[i]) + exp(B[i]))",
    "O[i] = exp(A[i]) * X[i] / (exp(A[i]) + exp(B[i]))",
    "O[i] = 1 / (exp(A[i]) + exp(B[i]))",
    "O[i] = log(exp(A[i]) + exp(B[i]))",
    "O[i] = 1 / (X[i] + A[i] / B[i])",
    "O[i] = 1 - A[i] / (A[i] + B[i])",
    "O[i] = (exp(2 * A[i]) - 1) / (exp(2 * A[i]) + 1)",
    "O[i] = (exp(A[i]) - exp(-A[i])) / (exp(A[i]) + exp(-A[i]))",
    "O[i] = 1 - 2 / (exp(2 * A[i]) + 1)",
    "O[i] = ((exp(A[i]) - 1) / (exp(A[i]) + 1)) ** 2",
    "O[i] = ((exp(A[i]) - 1) / (exp(A[i]) + 1)) ** 9",
    "O[i] = (exp(A[i]) - 1) ** 2 / (exp(2 * A[i]) + 1)",
    "O[i] = 1 - ((exp(A[i]) - exp(-A[i])) / (exp(A[i]) + exp(-A[i]))) ** 2",
    "O[i] = (exp(A[i]) - 1) / (exp(A[i]) + 1) * ((exp(2 * A[i]) - 1) / (exp(2 * A[i]) + 1))",
    "O[i] = (exp(A[i]) - exp(-A[i])) / (exp(2 * A[i]) + 1)",
    "O[i] = (exp(3 * A[i]) + exp(A[i])) / (exp(2 * A[i]) + 1)",
    "O[i] = ((exp(A[i]) - B[i]) / (exp(A[i]) + B[i])) ** 2",
    "O[i] = ((exp(A[i]) - exp(B[i])) / (exp(A[i]) + exp(B[i]))) ** 3",
    "O[i] = 2 ** A[i]",
    "O[i] = 1 ** A[i]",
    "O[i] = 0.25 ** A[i] * B[i]",
    "O[i] = 2 ** A[i] / (1 + 2 ** A[i])",
    "O[i] = where(2 ** A[i] == 2 ** B[i], 1, 7)",
    "O[i] = exp(A[i]) / (1 + exp(A[i]))",
    "O[i] = log(1 + exp(A[i]))",
    "O[i] = log(sigmoid(A[i]))",
    f"M[i] = maximum(A[i], B[i])\nO[i] = {MERGED} / (exp(A[i] - M[i]) + exp(B[i] - M[i]))",
    "O[i] = minimum(A[i], B[i]) + maximum(A[i], B[i])",
    "O[i] = where(A[i] > 0, B[i], -inf) - where(A[i] > 0, B[i], -inf)",
    "O[i] = A[i] * (1e308 * 1e308)",
    "O[i] = (1 + sum[k](exp(Y[k] - A[i]) * Y[k])) / (1 + sum[k](exp(Y[k] - A[i])))",
]

# Programs over rows: S and R are ROWS, N is NONE, and Z a matrix with a row of zeros.
NAMES: dict[str, Any] = {
    "S": ROWS,
    "R": ROWS[::-1],
    "Mask": MASK,
    "N": NONE,
    "Z": [[1.0, -1.0, 0.0], [0.0] * 3, [1.0, 2.0, 3.0]],
    "H": [[2.0, -INF], [3.0, -INF], [0.5, 1.0]],
    "T": [0.0, 2.0, 4.0],
    "V": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
    "W": [0.0, 1.0, 2.0],
    "Off": [-INF, 0.0, 1.0],
    "Inf": [INF, 0.0, 1.0],
    "n": np.array([0, 2, 3]),
    "Yes": np.array([False, True, True]),
    "P": np.array([2, 0, 1]),
    "Kept": [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0]],
    "Far": [1e4, 1e4, 9999.0],
    "Large": [[900.0, 0.0, 1.0], [85.0, -25.0, -24.0], [-INF, 0.0, 1.0]],
}

# Masks that are not each other's: a weight of 0 settles a logit of -inf.
CROSS = [
    "O[i] = sum[k](softmax[k](N[i,k]) * log_softmax[k](H[i,k]))",
    "O[i] = sum[k](softmax[k](N[i,k]) * log_softmax[k](H[i,k]) ** 2)",
    "O[i] = sum[k if k != i](softmax[k](N[i,k]) * log(softmax[k](H[i,k])))",
    "O[i] = max[k](softmax[k](N[i,k]) * log_softmax[k](H[i,k]))",
    "O[i,k] = softmax[k](N[i,k]) * log_softmax[k](H[i,k])",
    "O[i,j] = sum[k](softmax[k](N[i,k]) * log_softmax[k](H[j,k]))",
    "O[i] = sum[k](softmax[k](N[i,k]) * (log_softmax[k](H[i,k]) - log_softmax[k](2 * H[i,k])))",
    "C[i,k] = sum[..k](H[i,k])\nO[i] = sum[k](softmax[k](N[i,k]) * log_softmax[k](C[i,k]))",
    "C[i,k] = min[..k](H[i,k])\nO[i] = sum[k](softmax[k](N[i,k]) * log_softmax[k](C[i,k]))",
    "O[i] = sum[k](softmax[k](minimum(N[i,k], 2)) * log_softmax[k](maximum(H[i,k], N[i,k])))",
    "O[i] = sum[k](softmax[k](N[i,k]) * log_softmax[k](where(i < 2, H[i,k], N[i,k])) ** 2)",
    "O[i] = sum[k](softmax[k](N[i,k]) * log_softmax[k](log(exp(H[i,k]) + exp(N[i,k] - 1))))",
    "O[i] = sum[k](exp(log_softmax[k](N[i,k]) - log_softmax[k](H[i,k])))",
    "O[i] = log(sum[k](softmax[k](N[i,k]) ** 2 / softmax[k](H[i,k])))",
    "O[i] = max[k](log_softmax[k](N[i,k]) - log_softmax[k](H[i,k]))",
    "O[i,j] = sum[k](softmax[k](N[i,k]) * softmax[k](H[j,k]) / softmax[k](2 * H[i,k]))",
    "index r < 2\nO[i,r] = top[k -> r](log_softmax[k](N[i,k]) - log_softmax[k](H[i,k]))",
]

# Shares of numbers that may all be 0, of nothing or not.
SHARES = [
    "O[i,k] = relu(N[i,k]) / sum[k](relu(N[i,k]))",
    "O[i,k] = relu(N[i,k] - max[k](N[i,k]) + 1) / sum[k](relu(N[i,k] - max[k](N[i,k]) + 1))",
    "O[i,k] = H[i,k] * relu(N[i,k]) / sum[k](relu(N[i,k]))",
    "O[i,j] = sum[k](relu(N[i,k]) / sum[k](relu(N[i,k])) * H[j,k] ** 2)",
    "O[i,k] = relu(N[i,k]) / sum[k if k <= i](relu(N[i,k]))",
    "O[i,k] = W[i] * relu(Z[i,k]) / sum[k](relu(Z[i,k]))",
]

# What is small beside a whole, and what is taken of it must not be 0 or infinite.
SHARE = "sum[k if W[k] > 0](softmax[k](Large[q,k]))"
SMALL = [
    f"log({SHARE})",
    f"log({SHARE} ** 2 / 7)",
    f"sqrt({SHARE} ** 0.25)",
    f"{SHARE} ** 0.01",
    f"log({SHARE} + exp(-2000 + T[q]))",
    f"{SHARE} / ({SHARE} + exp(-2000 + T[q]))",
    f"exp(900 - 3 * T[q]) * {SHARE}",
    f"W[q] * log({SHARE}) + {SHARE}",
    "logsumexp[k if k > 0](log_softmax[k](Large[q,k]))",
    "logsumexp[k if k != 2 * q](log_softmax[k](Large[q,k]))",
    "logsumexp[k](where(W[k] > 0, log_softmax[k](Large[q,k]), -inf))",
    "log(sum[k if W[k] > 0](exp(Large[q,k])) / sum[k](exp(Large[q,k])))",
    "log(sum[k](W[k] * softmax[k](Large[q,k])))",
    "log(max[k if W[k] > 0](softmax[k](Large[q,k])))",
    "log(max[k if W[k] < q](exp(Large[q,k])))",
    "log(min[k if W[k] > 0](softmax[k](Large[q,k])))",
    "sqrt(max[k if W[k] > 0](softmax[k](Large[q,k])))",
    "log(max[k](W[k] ** 2 * softmax[k](Large[q,k])))",
]
# Quotients of exponentials that overflow.
STEEP = [
    "((exp(Large[q,k]) - 1) / (exp(Large[q,k]) + 1)) ** 2",
    "1 - ((exp(Large[q,k]) - 1) / (exp(Large[q,k]) + 1)) ** 3",
    "(exp(Large[q,k]) - 1) ** 2 / (exp(2 * Large[q,k]) + 1)",
    "((exp(Large[q,k]) - T[q] - 1) / (exp(Large[q,k]) + T[q] + 1)) ** 2",
    "(exp(3 * Large[q,k]) - 1) / (exp(Large[q,k]) + T[q] + 1) ** 3",
    "2 ** (2 * Large[q,k]) / (1 + 2 ** (2 * Large[q,k]))",
]
AGGREGATES = [
    "O[i] = where(max[k if k < i](S[i,k]) ** (-0.5) < 0.7, 1, 2)",  # a root of -inf
    "O[i] = where(min[k](Off[k]) ** Off[i] < 0.7, 1, 2)",
    *CROSS,
    *SHARES,
    "O[q,k] = softmax[k](S[q,k] + Off[q])",
    "O[q,k] = softmax[k]((S[q,k] + Off[q]) * (1 + sum[j if j < q](W[j])))",
    "O[q,k] = sigmoid(N[q,k] - max[k](N[q,k]))",
    "O[q,k] = log_softmax[k](S[q,k] + Off[q])",
    "O[q,e] = softmax[k](S[q,k] + Off[q]) * V[k,e]",
    "O[q,e] = softmax[k](S[q,k] + Mask[q,k]) * V[k,e]",
    "O[q] = exp(max[k if k < q](S[q,k]))",
    "O[q] = exp(S[q,0] - max[k](N[q,k]))",
    "O[q] = min[k if k < q](softmax[k](S[q,k]))",
    "O[q] = exp(max[k](N[q,k]))",
    *(
        f"O[b] = {fold}(where(T[b] > 0, S[b,k] / T[b], 0))"
        for fold in ("sum[k]", "max[k]", "logsumexp[k]", "var[k]", "mean[k]", "prod[k]")
    ),
    "O[b,k] = sum[..k](where(T[b] > 0, S[b,k] / T[b], 0))",
    "O[b] = sum[k]((exp(S[b,k]) - W[k]) / T[b])",
    "O[q] = sum[k]((exp(S[q,k]) - 1) / W[k])",
    # Quotients of quotients over nothing, by 0.
    "input n[b]: int\nO[b] = 1 / (1 / (sum[k if k < n[b]](S[b,k]) / T[b]))",
    "input n[b]: int\nO[b] = 1 / (mean[k if k < n[b]](S[b,k]) / T[b])",
    "input n[b]: int\nO[b] = max[k if k < n[b]](S[b,k]) * max[k if k < n[b]](S[b,k]) ** -1",
    "input n[b]: int\nO[b] = sum[k if k < n[b]](S[b,k] / n[b])",
    "input n[b]: int\nO[b] = max[k if k < n[b]](S[b,k] + 1 / n[b])",
    "input n[b]: int\nO[b] = max[k if k < n[b]](S[b,k] * log(n[b]))",
    "O[q] = sum[k](exp(Large[q,k]) * W[k] * V[k,0]) / sum[k](exp(Large[q,k]) * W[k])",
    "O[q] = log(sum[k](exp(Large[q,k]) * W[k]))",
    "O[q] = argmax[k](S[q,k] + max[j if j < q](R[q,j]))",
    "O[q] = argmax[k](S[q,k] * exp(max[j if j < q](R[q,j])))",
    # A centre that is no number before the first element.
    "O[q] = where(sum[k](T[k] * (T[k] - W[q] / sum[k](T[k])) ** 2) > 1, W[q], 7)",
    "O[q] = W[q] * sum[k](T[k] * (T[k] - tanh(W[q] / sum[k](T[k]))) ** 2)",
    "O[q] = W[q] * sum[k](T[k] * (T[k] - sqrt(log(sum[k](T[k] ** 2)))) ** 2)",
    "O[q] = argmax[k](S[q,k] + Off[q])",
    "O[q] = argmax[k](S[q,k] * exp(Off[q]))",
    "O[q] = argmax[k](exp(Mask[q,k]))",
    "index r < 2\nO[q,r] = argtop[k -> r](exp(Mask[q,k]))",
    "index r < 2\nO[q,r] = top[k -> r](exp(Mask[q,k]))",
    "O[q,e] = softmax[k](softmax[k if k < q](S[q,k])) * V[k,e]",
    "O[q] = sum[k](exp(softmax[k if k < q](S[q,k])))",
    "O[q,e] = softmax[k](S[q,k] * mean[l if l < q](R[q,l])) * V[k,e]",
    "P0[q,k] = softmax[k](S[q,k] + Mask[q,k])\nO[q] = -sum[k](P0[q,k] * log(P0[q,k]))",
    "P0[q,k] = softmax[k](S[q,k] + Mask[q,k])\n"
    "O[q] = -sum[k](P0[q,k] * log_softmax[k](S[q,k] + Mask[q,k]))",
    "P0[q,k] = softmax[k](S[q,k] + Mask[q,k])\nP1[q,k] = softmax[k](R[q,k] + Mask[q,k])\n"
    "O[q] = sum[k](P0[q,k] * (log(P0[q,k]) - log(P1[q,k])))",
    "P0[q,k] = softmax[k](S[q,k] + Mask[q,k])\nP1[q,k] = softmax[k](R[q,k] + Mask[q,k])\n"
    "O[q] = sum[k](P0[q,k] * log(P0[q,k] / P1[q,k]))",
    "O[q] = max[k if k != q](softmax[k](100 * S[q,k]))",
    *(f"O[q] = {x}" for x in SMALL),
    *(f"O[q] = sum[k]({x})" for x in STEEP),
    "O[q] = var[k if S[q,k] > 0](W[k])",
    "O[q] = var[k if S[q,k] > 0](log_softmax[k](W[k]))",
    "input P[k]: int\nO[q] = var[k if S[q,k] > 0](W[P[k]] - T[k])",
    "O[q] = sum[k if k < q](T[k] * S[q,k]) / sum[k if k < q](T[k])",
    "O[q] = T[q] / sum[k if k < q](exp(W[k]))",
    "O[q] = T[q] / sqrt(mean[k if k < q](W[k] ** 2))",
    "O[q] = S[q,0] / sqrt(mean[k if k < q](W[k] ** 2))",
    "O[q] = where(sum[k](Z[q,k]) / sum[k](S[q,k]) == 0, 1, 7)",
    "O[q] = T[q] * logsumexp[k](N[q,k])",
    "O[q,k] = T[q] * log_softmax[k](N[q,k])",
    "O[q,k] = sum[..k](exp(Mask[q,k])) / exp(Mask[q,k])",
    "O[q] = max[k if k < q](exp(Off[q]) * S[q,k])",
    "O[q] = sum[k](exp(Off[q]) * R[q,k] / sum[j if j < k - 1](T[j] + 1))",
    "O[q] = max[k if k < q](exp(S[q,k]))",
    "O[q] = sum[k](where(Z[q,k] != 0, S[q,k] / Z[q,k], 0))",
    "O[q] = sum[k if Z[q,k] != 0](S[q,k] / Z[q,k])",
    "O[q,e] = sum[k if W[k] > 0](S[q,k] / W[k] * V[k,e])",
    "O[q] = log(exp(max[k](N[q,k])) + exp(Off[q]))",
    "O[q,e] = sum[k](exp(Mask[q,k]) * V[k,e]) / (exp(Off[q]) + sum[k](exp(Mask[q,k])))",
    "input Yes[k]: bool\nO[q] = max[k if Yes[k]](S[q,k]) - max[k if not Yes[k]](S[q,k])",
    f"{SE}O[q] = SE[k](W[k], S[q,k] + 3).m",
    f"{SE}O[q] = SE[k](W[k], S[q,k] + Off[q]).v",
    "monoid SE(v, m) = unit (0, 1), combine (v * m' + v', m * m')\n"
    "O[q] = max[j](S[q,j] * SE[k](T[k] ** 2 + 1, W[k] - 3).v)",
    f"{AFFINE}O[q] = Affine[k](W[k], S[q,k]).u",
    f"{AFFINE}O[q] = Affine[k](exp(-S[q,j] * R[k,j]), sum[j](S[q,j] * R[k,j])).u",
    "O[q] = var[k](S[q,k])\nA[q] = argmax[k](S[q,k])",
    "O[q] = max[k if k <= q](k) + sum[k](W[k]) + T[q]",
    "O[q] = sum[k](k * argmax[k](S[q,k]))",
    "O[q,e] = softmax[k if k <= q](V[q,d] * V[k,d]) * V[k,e]",
    "O[q] = W[sum[k if S[q,k] > 2](1) // 2]",
    "O[k] = softmax[k](exp(W[k]))",
    "input n[q]: int\nO[q,k] = W[k] + sum[j]("
    "softmax[j if S[q,j] <= W[k]](S[q,j]) * var[k if k != n[q]](W[k] - Z[j,k]))",
    "O[q,k] = sum[j if j <= k](exp(S[q,j]) * var[k if k != q](Z[j,k]))",
    "O[q] = sum[k](exp((W[k] - Inf[q]) - max[k](W[k] - Inf[q])) * T[k])"
    " / sum[k](exp((W[k] - Inf[q]) - max[k](W[k] - Inf[q])))",
    "O[q] = sum[k](softmax[k if k == 0](-900 * S[q,k]) * T[1])",
    "O[q] = minimum(S[q,0] / sum[k](softmax[k if k < q](W[k]) * S[q,0]), 5)",
    "O[q] = exp(-(S[q,0] ** 4 / sum[k](exp(N[q,k] - max[k](N[q,k])))))",
    "O[q] = exp(-1 / sum[k](exp2(N[q,k] - max[k](N[q,k]))))",
    *(
        f"P0[q,k] = {x}(S[q,k] + Mask[q,k] - max[k](S[q,k] + Mask[q,k]) + 2)\n"
        "O[q,k] = P0[q,k] / sum[k](P0[q,k])"
        for x in ("relu", "softplus")
    ),
    "O[q,k] = exp(N[q,k]) / (exp(N[q,k]) / (exp(T[q]) + sum[k](exp(N[q,k])))) ** 2",
    "O[q] = sum[k](softmax[k](log(sigmoid(S[q,k] + Mask[q,k]))))",
    # What is infinite is not multiplied out, nor is an infinite addend taken apart.
    "O[q] = sum[k]((abs(log(W[q])) - softmax[k](S[q,k])) ** 2)",
    "O[q] = sum[k]((exp(W[k] - logsumexp[k if W[k] > 2](2)) - T[q]) ** 2)",
    "O[q,k] = log_softmax[j]((log(W[k]) - S[q,j]) * q)",
    "O[q,k] = softmax[j]((W[k] - S[q,j]) * q)",  # a scale of 0 of what begins infinite
    "O[q] = logsumexp[j](((1 - S[q,j]) * 2 + 1) * q)",
    # Exponents that are inf: an extremum over nothing is taken away, or the -inf of a mask.
    "O[k] = sum[q](exp(T[k] - max[j if j < q](S[q,j])) - 1)",
    "O[k] = sum[q](exp(q) / sum[j if W[j] > q](exp(S[q,j])) + V[k,0])",
    "O[e] = sum[q](sum[k](relu(exp(S[q,k] + 1) - 1) / sum[k if W[k] > 2](exp(S[q,k])) + V[k,e]))",
    "O[k] = sum[q](exp(q - max[j if q <= j < q](S[q,j])) * S[q,k]) + V[k,0]",
    "O[q] = 1 + sum[k if k == q](exp(T[k] - Off[q]))",
    "O[q] = 1 - max[k](exp(T[q] - N[q,k]))",
    "O[q,k] = sigmoid(Mask[q,k] * max[j](W[j]) + logsumexp[..k](k))",
    "O[q] = sigmoid(log(max[k](exp(W[k]) / sum[k if W[k] > 2](exp(S[q,k])))))",
    "O[q] = 1 / (1 + 1 / sum[k](exp(T[q] - max[k if W[k] > 2](S[q,k]))))",
    "O[q] = 1 / (1 - max[k](exp(log_softmax[k if W[k] > 2](S[q,k] / |k|))))",
    "O[q] = (V[q,0] / var[k if k < q](W[k])) ** -2",  # a count over nothing does not cancel
    "O[q] = sqrt(sum[k](exp(W[k]) / mean[k if k < q](exp(S[q,k])) * V[k,0] ** 2))",
    "O[q,k] = sum[..k](logsumexp[j](Mask[k,j]) * exp(Mask[q,k]))",
    "O[q] = 1 / (1 + sum[k](sqrt(Z[q,k] ** 3 * softmax[k](S[q,k] + Mask[q,k]))))",
    "O[k] = min[q](T[q] - log_softmax[k](where(S[q,k] > 3, W[k], -inf)))",
    # A quotient by 0 that is taken away is -inf, as a mask is.
    "O[q,k] = log_softmax[k](-1 / Z[q,k] ** 2)",
    "O[q,k] = log_softmax[k](-T[q] / Z[q,k] ** 2 - abs(log(Z[q,k] ** 2)))",
    "O[q,j] = log(j) + sum[k](k - max[..k](Mask[q,k])) + 0 * W[j]",
    "O[q,k] = exp(Mask[q,k]) * T[k] / max[k](exp(Mask[q,k]) * T[k])",
    "O[q] = (exp(Off[q]) + 2) * (exp(Off[q]) / exp(Off[q]))",  # a weight in a sum says nothing
    "O[q] = exp(sum[k]((W[k] ** 2 - sum[k](W[k])) * exp(Off[q])) / exp(Off[q]))",
    "O[q] = sum[k](exp(where(T[q] > 0, W[k], -inf)) * sum[k](exp(W[k]) * S[q,k]))"
    " / sum[k](exp(where(T[q] > 0, W[k], -inf)))",
    "O[e] = sum[k](softmax[k](Off[k] * V[k,e]) * log_softmax[k](Off[k] * V[k,e]))",
    "O[q] = log(sum[k if W[k] > 0](exp(T[k] / (1 + 1 / W[q]))))",
    "O[q] = max[k if k >= q](T[k] ** 2 / (1 + exp(S[q,0] * min[k if W[k] > 5](W[k]))))",
    "O[q] = S[q,0] + prod[k if W[k] > 1](sum[j if j == 4](W[k] - V[j,0]) / where(k != q, T[k], 0))",
    "O[q] = minimum(-1, sum[k if k > q](exp(logsumexp[k](S[q,k])"
    " - max[k if k > q](logsumexp[k](S[q,k]) * 1.0)) * T[q]))",
    *(
        f"O[q] = {fold}(W[k] * exp(Far[q]) / (exp(Far[q]) + exp(T[q]) + 1){x})"
        for fold, x in (
            ("max[k if W[k] > 0]", ""),
            ("max[k if W[k] > T[q]]", ""),
            ("sum[k](T[k] * softmax[k]", ")"),
        )
    ),
    "O[q] = sum[k](T[k] * softmax[k](W[k] / (1 + sum[l](exp(Far[l] - Far[q])))))",
    "O[q] = logsumexp[k if W[k] > 0](W[k] * exp(Far[q]) / (1 + sum[l](exp(Far[l]))))",
    "O[q] = max[k](maximum(W[k] * exp(Far[q] - max[l](Far[l])), exp(T[k] - max[l](Far[l]))))",
    "O[q,k] = softmax[k](log_softmax[k](W[k]) * softmax[k](Mask[q,k] - Far[q]))",
    "O[q,k] = softmax[k](log_softmax[k](2) * softmax[k](Mask[q,k] - Far[q]))",
    "O[q] = sum[k](maximum(W[k] * softmax[k](Mask[q,k]), softmax[k](Mask[q,k])))",
    *(
        f"O[q] = {x.format('sum[k](exp(Far[k]) * -W[k])')}"
        for x in (
            "maximum(T[q], {})",
            "T[q] + relu({})",
            "exp(-maximum(T[q], {}))",
            "minimum(T[q], -{})",
            "max[l](T[l] * maximum(T[q], {}))",
        )
    ),
    *(f"O[q] = {x}(1 - sum[k](exp(S[q,k] / W[q])))" for x in ("exp", "relu", "2 /")),
    "O[q] = maximum(T[q], sum[k](exp(S[q,k] / W[q])))",
    "H[k] = sum[l](exp(-W[l]) * Z[1,l]) / (exp(W[k]) + sum[l](exp(-abs(W[l]))))\n"
    "O[e] = max[k](V[k,e] * H[k])",
    *(
        "H[k] = softmax[k](-W[k] ** 2)\nG[k] = maximum(H[k // 2], T[k])\n"
        f"O[k] = softmax[k](softmax[k](G[k]) * {x}[|k| - 1 - k])"
        for x in "GH"
    ),
    "H[k] = max[..k](Off[k])\nO[q,k] = sum[..k](exp(H[k] - S[q,k]) * H[k])",
    "O[q] = sum[k](relu(where(W[k] > T[q], W[k], -inf)) * T[k])"
    " / sum[k](relu(where(W[k] > T[q], W[k], -inf)))",
    "input n[q]: int\nO[q] = T[q] / (1 + abs(logsumexp[k if k > n[q]](W[k] + log(W[q] - 1.5))))",
    "O[q] = (sum[k if T[k] < T[k]](exp(30 * T[q] ** 2) * W[k]) + 1)"
    " / (sum[k if T[k] < T[k]](exp(30 * T[q] ** 2)) + 1)",
    "O[e] = var[k](W[k] * sum[j](W[j] * logsumexp[j](W[j] * V[k,e])))",
    "O[q] = min[k](softmax[k if W[k] > 0](10 * Large[q,k]))",
    "O[q] = argmax[k](softmax[k if W[k] > 0](10 * Large[q,k]))",
    "O[q] = max[k if k < q](softmax[k if W[k] > 0](10 * Large[q,k]))",
    "O[q] = T[q] * mean[k if k < q](W[k]) / mean[k if k < q](W[k])",
    "O[q] = sum[k if S[q,k] > 3](1) / mean[k if S[q,k] > 3](2)",
    "O[q] = var[k if k < q](S[q,k]) / var[k if k < q](S[q,k]) + mean[k if k < q](T[k])",
    *(
        f"O[q,k] = ({x}) / ({x}) + T[q] * ({x}) / ({x})"  # of nothing 0 / 0 is 0
        for x in (
            "softmax[k if k < q](S[q,k])",
            "softmax[k](S[q,k] + Mask[q,k])",
            "sum[..k if W[k] > 0](S[q,k])",
            "mean[..k if W[k] > 0](S[q,k])",
            "max[k](exp(Mask[q,k])) + 0 * S[q,k]",
            "abs(mean[j if j < q](T[j])) + 0 * S[q,k]",
            "tanh(var[j if j < q](T[j])) + 0 * S[q,k]",
        )
    ),
    "param num_warps: int = 4\nO[q] = sum[k](S[q,k]) * num_warps",
    "param t: float = 0.0\nO[q] = sum[k](S[q,k]) / t + sum[k](T[k] - 2) / t",
    "O[q] = sqrt(sum[k](softmax[k](Large[q,k]) * V[k,0] ** 2))"
    " + sum[k](softmax[k](Large[q,k]) * V[k,0])",
    "O[q] = sqrt(sum[k](exp(Large[q,k]) * V[k,0]) / (1 + sum[k](exp(Large[q,k]))))",
    "O[q,e] = sqrt(exp(-700) * sum[k if k < q](exp(Large[q,k] + 650) * V[k,e]))",
    "O[q] = logsumexp[k](exp(90 * W[k] + 2 * log(S[q,k] ** 2)))",
    "param c: float = 30.1\nO[q] = logsumexp[k](exp(c * S[q,k]))",
    "O[q,k] = softmax[k](exp(31.7 * W[k] + S[q,k]))",
    "O[q,k] = (1 + exp(-Large[q,k])) ** 2",
    "O[q,k] = (1 - exp(-Large[q,k])) ** 3",
    "O[q,k] = (Large[q,k] - 1 + exp(-Large[q,k])) ** 2",
    "O[q,k] = (exp(Large[q,k] - Large[q,0]) + exp(-Large[q,0])) ** 2",
    "O[q,k] = (exp(Large[q,k]) - 1) ** 2 / (exp(Large[q,k]) + 1) ** 2",
    "O[q,k] = (exp(Large[q,k]) - W[k]) ** 2 * exp(-2 * Large[q,k])",
    "input n[q]: int\nO[q] = log(1 + sum[k if k < n[q]](exp(-(S[q,k] ** 2))))",
    "O[q] = 1 / (1 + sum[k if S[q,k] < q](exp(-(S[q,k] ** 2))))",
    "O[q] = log(1 - exp(-min[k if k > 2](exp(S[q,k]))))",
    "O = sum[k](exp(-abs(Off[k])) - 1) / sum[k](abs(exp(-abs(Off[k] - W[k])) - 1))",
    *(
        f"param t: float = 0.7\nP0[q,k] = {x}\nO[q,k] = P0[q,k] / sum[k](P0[q,k])"
        for x in (
            "softmax[k](S[q,k] + Mask[q,k]) ** t",
            "exp(S[q,k] + Mask[q,k]) ** t",
            "W[k] * relu(where(T[q] > 0, S[q,k], -inf)) ** 2",
            "relu(S[q,k] + where(T[q] > 0, 0, -inf)) / sum[k](relu(S[q,k]))",
        )
    ),
    *(
        f"O[q,k] = {over} / sum[k](abs({x}))"
        for x in ("(exp(Large[q,k]) - 1)", "(exp(Large[q,k]) - exp(T[q]))")
        for over in (f"relu({x})", f"relu({x}) ** 2")
    ),
    "H[q,k] = sigmoid(where(W[k] > 0, S[q,k], -inf))\n"
    "O[q] = sum[k](H[q,k] * log(H[q,k] / sigmoid(-S[q,k])))",
    *(
        "index r < 2\nL[q,k] = where(T[q] > 0, S[q,k], -inf)\n"
        f"P0[q,k] = exp(L[q,k] - {z})\nO[q,r] = {found}[k -> r](P0[q,k])"
        for z in ("logsumexp[k](L[q,k])", "max[k](L[q,k]) - log(sum[k](exp(S[q,k] + Mask[q,k])))")
        for found in ("top", "argtop")
    ),
    # The largest weights are left out, and those that are left are not 0 in the end.
    *(
        f"P0[q,k] = softmax[k](Large[q,k])\nP1[q,k] = {x}\nO[q,k] = P1[q,k] / sum[k](P1[q,k])"
        for x in (
            "where(W[k] > 0, P0[q,k], 0)",
            "where(k <= q, 0, P0[q,k])",
            "where(P0[q,k] < 0.5, P0[q,k], 0)",
            "P0[q,k] * W[k]",
            "P0[q,k] * W[k] ** 2",
        )
    ),
    *(
        f"O[q] = {fold}({x})"  # 0 where its exponent is largest
        for fold in ("sum[k]", "max[k]", "var[k]", "logsumexp[k]")
        for x in (
            "relu(1 - exp(Large[q,k]))",
            "relu(1 - exp(Large[q,k])) ** 2",
            "relu(1 - exp(-Large[q,k])) * exp(-Large[q,k])",
            "maximum(W[k] - exp(Large[q,k]), exp(-T[k]))",
        )
    ),
    "O[q] = sum[k](relu(1 - exp(1000 * S[q,k] - 1500)))",
    "O[q] = exp(Far[q]) / maximum(exp(Far[q]) * S[q,0] ** 2, exp(T[q]))",
    f"{AFFINE}O[q,e] = Affine[k](W[k], sum[l](S[q,l] * R[k,l]) * V[k,e]).u",
    # Exponentials under a condition.
    "input n[q]: int\nO[q] = exp(Far[q]) / (1 + where(n[q] > 0, exp(Far[q] + 1), 0))",
    *(
        f"input P[q]: int\nO[q] = {x} / (1 + {x})"
        for x in ("sum[k if k == P[q]](exp(Large[q,k]))", "sum[k if k == P[q]](exp(Far[k]))")
    ),
    "input n[q]: int\nO[q] = log(exp(-Far[q]) + where(n[q] > 2, exp(W[q]), 0))",
    "O[q] = where(T[q] < 5, min[k](softmax[k](S[q,k] + Mask[q,k])), 0)",
    # A user's monoid over a row that is masked.
    "O[q] = SE[k](W[k], S[q,k] + Mask[q,k]).v / SE[k](1, S[q,k] + Mask[q,k]).v",
    "monoid Sum(x) = unit 0, combine x + x'\n"
    "O[q] = Sum[k](exp(S[q,k] + Mask[q,k]) * W[k]) / Sum[k](exp(S[q,k] + Mask[q,k]))",
    # Masks of large numbers, which are 0 where the digits of the others count.
    *(
        f"O[q,e] = softmax[k]({x}) * V[k,e]"
        for x in (
            "S[q,k] - 1e9 * (1 - Kept[q,k])",
            "S[q,k] + (Kept[q,k] - 1) * 1e30",
            "(S[q,k] + -1e4 * (1 - Kept[q,k])) / 3",
            "S[q,k] * Kept[q,k] - 1e9 * (1 - Kept[q,k]) - max[k](S[q,k])",
        )
    ),
    *(
        "P0[q,k] = softmax[k](Large[q,k] - max[j](Large[q,j]) + log(Kept[q,k]))\n"
        f"P1[q,k] = P0[q,k] / sum[k](P0[q,k])\nO[q] = {x}"
        for x in ("sum[k](P1[q,k] * log(P1[q,k]))", "log(P1[q,1])")
    ),
    # Ratios of weights that are both 0.
    *(
        f"P0[q,k] = softmax[k](S[q,k] + Mask[q,k])\nP1[q,k] = softmax[k](R[q,k] + Mask[q,k])\n{x}"
        for x in (
            "O[q,k] = P0[q,k] / P1[q,k]",
            "O[q] = max[k if k > 0](P0[q,k] / P1[q,k])",
            "O[q] = sum[k](minimum(P0[q,k] / P1[q,k], 2))",
        )
    ),
    "O[q,k] = exp(log_softmax[k](Large[q,k]) - log_softmax[k](S[q,k] + Off[k]))",
    "O[q] = sum[k](exp(log_softmax[k](S[q,k] + Mask[q,k]) - log_softmax[k](R[q,k] + Mask[q,k]))"
    " * T[k])",
    "O[q] = logsumexp[k if k > 2](W[k] + log(sum[k](exp(W[k] + T[0]) * S[q,1])))",
    # What is infinite because a row is masked keeps its sign; what a filter leaves out has none.
    "P0[q,k] = softmax[k](S[q,k])\nD[q] = sum[k](P0[q,k] * (log(P0[q,k])"
    " - log(softmax[k](R[q,k] + Mask[q,k]))))\n"
    "O[q] = sigmoid(sum[k](exp(S[q,k] - max[k](S[q,k])) * D[q]))",
    "O[q] = (sum[k if k > 2](exp(Mask[q,k]) * sum[l](exp(Mask[q,l] - sum[l](Mask[q,l])))) + 1)"
    " / (sum[k if k > 2](exp(Mask[q,k])) + 1) + T[q]",
    "O[q,k] = 1 / (1 + exp(sum[l](exp(T[l] - mean[l](T[l])))"
    " / softmax[k if W[k] >= q](where(W[k] > 5, S[q,k], -inf))))",
    "O[q] = (T[q] < 1) * (T[q] + max[k](N[q,k])) - (T[q] < 1) * max[k](N[q,k])",
    # Entries of a list at computed ranks.
    *(
        f"index r < 3\nL[q,r] = top[k -> r](S[q,k])\nI[q,r] = argtop[k -> r](S[q,k])\n{x}"
        for x in (
            "O[q] = L[q,0] - L[q,2] + I[q,0]",
            "O[q,r] = L[q,r] - where(r > 0, L[q,r - 1], 0)",
            "O[q] = sum[k if S[q,k] < L[q,0]](T[k]) + sum[r](I[q,2 - r] * r)",
        )
    ),
    # One over a product of nothing, and what is infinite of nothing beside it.
    "O[q] = exp(-((1 + T[q]) / sum[k if k < q](W[k] * min[k if k < q](W[k]))))",
    "O[q] = sigmoid(log(sum[k](exp(T[q]) * softmax[k if k < q](S[q,k]))))",
    "O[q] = sum[k if Yes[k]](exp(S[q,k] + Mask[q,k]) * T[q] + log(sum[k](exp(S[q,k] - "
    "max[k](S[q,k]))))) / sum[k if Yes[k]](exp(S[q,k] + Mask[q,k]))",
    "O[q,k] = logsumexp[e](V[k,e] * sum[l if l < q](exp(S[q,l] - V[k,e] - "
    "max[l if l < q](S[q,l] - V[k,e])) * W[l]))",
    "O[q] = softmax[q](sum[k](softmax[k if W[k] > 5](S[0,k]) * (1 - T[q]) ** 1.5))",
    # What is 0 over nothing, beside a weight in a frame that is inf, as that of nothing is -inf.
    "L[q,e] = V[0,e] - logsumexp[k if k != e and W[k] > 5](S[q,k] + V[k,e])\n"
    "O[q] = sum[e if e >= q]("
    "exp(L[q,e] - max[e if e >= q](L[q,e])) * sum[k if W[k] > 5](S[q,k]))",
    # Centres that are infinite, or no number, of nothing: a field, and functions of a maximum.
    *(
        f"{LARGEST}O[q] = sum[k if k >= q](T[k] * (S[q,k] - {centre}) ** 2)"
        for centre in (
            "Largest[k if k >= q](S[q,k], W[k]).b",
            "tanh(max[k if k >= q](S[q,k] + Mask[q,k]))",
            "maximum(max[k if k >= q](S[q,k] + Mask[q,k]), mean[k if k >= q](S[q,k]))",
        )
    ),
    "O[q] = exp(sum[k if W[k] > 5](T[k]) * logsumexp[k if W[k] > T[q]](T[k]))",
    "O[q] = sum[k]((S[q,k] - sum[k](S[q,k])) * min[l if Kept[q,l] > 1](T[l] * S[q,k]))",
    # Exponents with a unit in the last position of more than 1: the largest is exactly the maximum.
    *(
        f"O[q,k] = softmax[k]({x}) + T[q]"
        for x in (
            "S[q,k] * sum[k](exp(8 * S[q,k]) * S[q,k])",
            "(S[q,k] - W[k] ** 2) * sum[k](exp(8 * S[q,k]))",
        )
    ),
    f"{LARGEST}O[q] = Largest[k](S[q,k] + Mask[q,k], Mask[q,k]).a"
    " - Largest[k](S[q,k] + Mask[q,k], Mask[q,k]).b",
    # Weights that are all 0 have no quotient by their sum; those over nothing are 0.
    *(
        f"P0[q,k] = {x} / sum[k]({x})\nO[q] = {asked}"
        for x in (
            "exp(S[q,k]) * Z[q,k] ** 2",
            "exp(Large[q,k] + Mask[q,k]) * Kept[q,k]",
            "softmax[k](S[q,k] + Mask[q,k]) * Kept[q,k]",
            "where(Z[q,k] > 1, exp(S[q,k]), 0)",
        )
        for asked in ("sum[k if P0[q,k] <= 2](T[k] + 1)", "where(max[k](P0[q,k]) < 2, 1, 7)")
    ),
    "O[q] = where(sum[k if k < q](Z[q,k]) / sum[k if k < q](Z[q,k] ** 2) <= 5, 1, 7)",
    "O[q,k] = where(sum[..k](exp(S[q,k]) * Z[q,k]) / sum[k](exp(S[q,k]) * Z[q,k]) <= 5, 1, 7)",
    # Nor has what may be of nothing by a plain 0, unless a filter masks it.
    *(
        f"O[q] = where({asked.format(x=x, y=y)} < 1, 1, 7)"
        for x in (
            "sum[k](softmax[k](S[q,k] + Mask[q,k]) * Z[q,k])",
            "sum[k if k < q](Z[q,k])",
            "mean[k](where(k < q, S[q,k], 0))",
        )
        for y in ("W[q]", "sum[k if W[k] > q](Z[q,k])", "sum[k](exp(Mask[q,k]) * Z[q,0] ** 2)")
        for asked in ("{x} / {y}", "{x} * (2 / {y})", "sqrt({x} ** 2) * (1.0 * {y}) ** (-1)")
    ),
    # A weight over nothing is 0, however often the scale of what divides it is in it.
    *(
        f"O[q] = {x} * T[q]"
        for x in (
            "sqrt(max[k](softmax[k](S[q,k] + Mask[q,k])))",
            "max[k](softmax[k](S[q,k] + Mask[q,k])) ** 1.5",
            "exp(2 * max[k](S[q,k] + Mask[q,k])) / sum[k](exp(S[q,k] + Mask[q,k]))",
            "max[k](exp(S[q,k] + Mask[q,k])) / sqrt(sum[k](exp(2 * (S[q,k] + Mask[q,k]))))",
        )
    ),
    "O[q,k] = softmax[k](S[q,k] + Mask[q,k]) / sum[k](exp(S[q,k] + Mask[q,k]) * W[q])",
    # Over nothing exp(-m) is infinite, and stays that over the sum which it scales.
    *(
        "M[q] = max[k if Yes[k] and k < q](S[q,k])\n"
        f"O[q] = {x} / sum[k if Yes[k] and k < q](exp(S[q,k] - M[q]))"
        for x in ("exp(-M[q])", "exp(T[q] - M[q] / 2)", "exp(S[q,1] - M[q])", "exp(T[q] + M[q])")
    ),
    "M[q] = max[k if Yes[k] and k < q](S[q,k])\n"
    "O[q] = sigmoid(M[q] + log(sum[k if Yes[k] and k < q](exp(S[q,k] - M[q]))))",
    # Sums of scaled numbers that are all 0, one of them not of nothing.
    "O[q] = exp((1 - T[q]) / (relu(W[q]) + where(q > 0, exp(T[q]), 0)))",
    "O = logsumexp[l](log(sum[k if W[k] > 0](2)) / sum[k]((W[k] > 5) * (T[l] + 1)))",
    # Exponents of 1e28, of which an earlier pass has found the largest.
    "param c: float = 60.0\nO[q] = logsumexp[l](S[q,l] * sum[k if W[k] > 0](c * exp(c)))",
    # Centres that are made of sums about centres.
    "O[q] = sum[k](W[k] * (T[q] - var[k](W[k])))",
    "O[q] = mean[k]((S[q,k] - var[k](S[q,k])) ** 2)",
    "O[q] = exp(-max[k if k < q](S[q,k])) - T[q]",
    "O[q] = exp(min[k if k < q](S[q,k])) - T[q]",
    # Nor is it asked for what is no number.
    "O[q] = T[q] / sum[k if k < q](S[q,k] * sqrt(-1 - T[q] ** 2))",
    "O[q] = sqrt(-1 - T[q] ** 2) * sum[k if k == 5](exp(S[q,k]) * W[k]) ** 1.5",
    # What is 0 over nothing leaves a sum of what is infinite over nothing.
    "O[q] = sum[l](exp(max[k if k < q](S[q,k])) * (logsumexp[k if k > l](W[k]) + T[l]))",
    # Nor does it leave a sum of quotients by nothing, in another order of sums.
    *(
        f"O[k] = sum[l](sum[q](R[q,l] * exp(Mask[q,k]) / sum[j if j <= l](exp(Mask[q,j]))){x})"
        for x in ("", " * W[l]")
    ),
    # Addends that are 0, of which the exponent is largest.
    "O[q] = log(exp(Far[q]) * W[q] ** 2 + exp(T[q]))",
    "O[q] = log(maximum(exp(Far[q]) * W[q] ** 2, exp(T[q])))",
    "O[q] = where(exp(Far[q]) * W[q] > exp(T[q]) * (T[q] - 1), 1, 7)",
    "O[q] = log(exp(max[k](Large[q,k])) * W[q] ** 2 + exp(T[q]))",
    "O = max[k](exp(max[l](Large[k,l])) * relu(W[k] * (2 - W[k])))",
    # Exponents of which a part has left a sum or maximum: what is inf of nothing meets -inf.
    "O[k] = max[q](exp(S[q,k] + log(W[k]) - max[..k](S[q,k] + log(W[k]))))",
    "O[k] = sum[q](exp2(Mask[1,k] - max[l](S[q,l] + Mask[1,l])))",
    "O[q] = 1 - exp(T[q] - max[k](N[q,k]))",
    "O[q] = sum[k](exp2(T[k] - min[l if W[l] > 5](S[q,l])) * (T[k] - max[l if W[l] > 5](S[q,l])))",
    "O = max[k if W[k] > 0](softmax[k](300 * W[k] * W[k]))",
    "O = 1 / var[k](W[k] * mean[l if W[l] > 5](W[l]))",
    # Differences of nothing have one sign: nor is one the opposite of the other.
    "O[q] = tanh(max[k](N[q,k]) - logsumexp[k](N[q,k]))",
    "O[q] = sigmoid(max[k if W[k] > 5](S[q,k]) - logsumexp[k if W[k] > 5](T[q]))",
    *(
        "L[q,k] = where(W[k] > q, S[q,k], -inf)\n"
        f"O[q] = prod[k]({x.format('L[q,k] - max[l](L[q,l])')})"
        for x in ("1 - sigmoid({})", "1 / (1 + exp({}))", "tanh(log(sigmoid({})))")
    ),
    # Functions of what is -inf of nothing, and a position of one of many equal elements.
    "O[q] = relu(max[k](N[q,k])) / relu(logsumexp[k](N[q,k]))",
    "O[q] = argmin[k if W[k] >= q](0) + T[q]",
    # What divides may be no number where nobody looks.
    "O[q,e] = sum[k](where(k < q, softmax[k](Z[q,k] / T[q]), 0) * V[k,e])",
    "P0[k] = softmax[k](log(W[k] - 1))\nO[e] = sum[k](where(P0[k] > 0, P0[k], 0) * V[k,e])",
    # What is divided by a sum that is 0 is there, but for that of nothing.
    "O[q] = T[q] * sum[k if k < q](T[k]) - sum[k](exp(W[k]) * T[k]) / sum[k if k <= q](Z[1,k])",
    "O[q] = T[q] / (1 + sum[k if k >= 1](relu(exp(W[k]) - 1) / sum[k if q > k](exp(S[q,k]))))",
    "O[q] = sqrt(sum[k](softmax[k](W[k] - sum[d](Far[d] - T[q] * k)) * W[k]))",
    "O[q] = sum[k if k > 1]((exp(S[q,k]) - 1) / 0 * T[k])",
    # A maximum of nothing is in no frame of a sum over more.
    "O[q] = sum[k](T[k] * exp(S[q,k])) / sum[k](exp(S[q,k] - max[k if W[k] > 5](S[q,k])))",
    "L[q,k] = S[q,k] + T[q]\n"
    "P[q,k] = W[k] * exp(L[q,k] - max[k](L[q,k]))\n"
    "O[q,k] = sum[..k](P[q,k]) / sum[..k](exp(L[q,k] - sum[k](L[q,k])))",
    "O[q] = sum[k](S[q,k]) - exp2(Off[q] - max[k](S[q,k] + Off[q]))",
    "O[q] = sum[k](S[q,k]) - exp((T[q] + 1) * (Off[q] - max[k](S[q,k] + Off[q])))",
    # A sum that is -inf, of logarithms, is a divisor of one addend: x / (x + a) has no value.
    "O[q] = 1 / (1 + T[q] / sum[k if k < 2](log(W[k])))",
    # What a filter asks is left out, in products of tiles that are both read, too.
    "O[q,e] = sum[k](where(Mask[q,k] > -1, (Mask[q,k] + 1) * V[k,e], 0))",
    "O[q,e] = sum[k if Mask[q,k] > -1](Mask[q,k] * V[k,e])",
    # What is taken from an extremum, or has one taken from it, loses no digits to a third.
    "O[k] = exp(0.1 * T[k] + max[l](Far[l]) - Far[k])",
    "O[k] = exp(0.1 * T[k] - min[l](Far[l]) + Far[k])",
    f"{LOG_ADD}O[q,k] = exp(S[q,k] + Mask[q,k] - LogAdd[k](S[q,k] + Mask[q,k]))",
    f"{SMALLEST}O[q,k] = exp(S[q,k] + Mask[q,k] + Smallest[k](-S[q,k] - Mask[q,k]))",
    # A minimum of masks is -inf, and takes the weights that it is added to with it.
    "O[q] = sum[k](softmax[k](W[k] + min[k](S[q,k] + Mask[q,k])) * W[k])",
    "O[q] = exp((sum[k](Z[q,k]) - T[q]) * min[k](T[q] + Mask[q,k]))",
    # What may be no number stands behind a filter that admits nothing.
    "O[q] = 1 / sum[k if W[k] > 5](softplus(log(-T[q] - 1)))",
    # Exponentials of roots cancel before they overflow.
    "O[q] = sum[k](softmax[k if W[k] > 0](sqrt(T[q] * 1e6) * 1e3) * W[k])",
    # What is divided by a sum over nothing is infinite, whatever the sum's elements are scaled by.
    "O[q] = exp(T[q]) / sum[k if W[k] > q](exp(T[q] - max[k if W[k] > q](S[q,k])))",
    "O[q] = 1 / sum[k if W[k] > q](exp(S[q,k]) * (k - max[k](S[k,q])))",
    # A weight of nothing stays where its inverse would leave a sum: inf is not multiplied out.
    "O[q] = 1 / (1 - sum[k](exp(Off[q]) / exp(2 * Off[q] + T[k] ** 2)))",
    "O[q] = 1 / (1 + exp(-Off[q]) * sum[k if W[k] > 5](T[k]))",
    "L[q,k] = S[q,k] + Mask[q,k]\nO[q,k] = 1 - 1 / (1 + 1 / exp(L[q,k] - max[l](L[q,l])))",
]

# Moments at a large mean, in float32 beside the plain two-pass computation of torch.
MEAN = "m[i] = mean[k](A[i,k])\n"
MOMENTS = {
    "third": f"{MEAN}O[i] = mean[k]((A[i,k] - m[i]) ** 3)",
    "fourth": f"{MEAN}O[i] = mean[k]((A[i,k] - m[i]) ** 4)",
    "covariance": f"{MEAN}l[i] = mean[k](B[i,k])\n"
    "O[i] = mean[k]((A[i,k] - m[i]) * (B[i,k] - l[i]))",
    "half centred": f"{MEAN}O[i] = mean[k]((A[i,k] - m[i]) * B[i,k])",
    "weighted": "t = sum[k](W[k])\nm[i] = sum[k](W[k] * A[i,k]) / t\n"
    "O[i] = sum[k](W[k] * (A[i,k] - m[i]) ** 2) / t",
    "filtered": "m[i] = mean[k if W[k] > 0](A[i,k])\nO[i] = var[k if W[k] > 0](A[i,k])",
    "filtered by data": "O[i] = mean[k if W[k] > B[i,k] - B[i,1]]("
    "(A[i,k] - mean[k if W[k] > B[i,k] - B[i,1]](A[i,k])) ** 4)",
    "all but one": "O[i] = mean[k if k != i]((A[i,k] - mean[k if k != i](A[i,k])) ** 3)",
    "of a part": f"{MEAN}O[i] = sum[k if W[k] > 0]((A[i,k] - m[i]) ** 2)",
    "of products": "O[i] = var[k](A[i,k] * W[k])",
    "over two indices": "O = var[i, k](A[i,k])",
    "of means": "O = var[i](mean[k](A[i,k]))",
    "in a mean": "O[i] = mean[j](var[k](A[i,k] + B[j,k]))",
    "in a mean, of products": "m[i,j] = mean[k](A[i,k] * B[j,1])\n"
    "O[i] = mean[j](mean[k]((A[i,k] * B[j,1] - m[i,j]) ** 2))",
    "three series": f"{MEAN}O[i] = mean[k]((A[i,k] - m[i]) ** 2 * (B[i,k] - mean[k](B[i,k])))",
    "from another mean": f"{MEAN}O[i] = mean[k]((B[i,k] - m[i]) ** 2)",
    "from the largest": "O[i] = mean[k]((A[i,k] - max[k](A[i,k])) ** 2)",
    "shifted": "O[i] = var[k](A[i,k] - mean[k](A[i,k] ** 2))",
    "shifted by others": "O[i] = mean[k]((A[i,k] - B[i,0] - mean[k](A[i,k] - B[i,0])) ** 3)",
}


def compared(
    text: str,
    inputs: Mapping[str, Any],
    dtype: torch.dtype = torch.float64,
    backend: str = "torch",
) -> Any:
    """The oracle's outputs, as `dtype` holds them, and those of the compiled kernel, as lists."""
    tensors = {name: torch.from_numpy(np.array(a)) for name, a in inputs.items()}
    tensors = {n: t.to(dtype) if t.is_floating_point() else t for n, t in tensors.items()}
    exact = {n: t.double() if t.is_floating_point() else t for n, t in tensors.items()}
    wanted = _listed(evaluate(text, {n: t.numpy() for n, t in exact.items()}))
    if backend == "triton":
        found = interpreted.call(outputs, text, tensors, backend)
    else:
        found = outputs(text, tensors, backend)
    return [torch.from_numpy(x).to(dtype).double().numpy() for x in wanted], _listed(found)


def outputs(text: str, tensors: Mapping[str, torch.Tensor], backend: str) -> Any:
    """What a backend computes."""
    return mc.compile(text, backend=backend)(**tensors)


def is_right(
    wanted: Any, found: Any, or_nan: Any = False, rtol: float = 1e-9, atol: float = 1e-12
) -> Any:
    """Where what was found is a refinement: NaN may become a number. The sign of a quotient by
    0 is not promised, and of inputs that are infinite NaN may come (`or_nan`)."""
    with np.errstate(invalid="ignore"):
        near = np.isclose(found, wanted, rtol=rtol, atol=atol)
    both_infinite = np.isinf(wanted) & np.isinf(found)
    return np.isnan(wanted) | near | both_infinite | (or_nan & np.isnan(found))


def agrees(wanted: Any, found: Any) -> Any:
    """Where what was found is equal, infinities included, or no number was wanted."""
    return np.isnan(wanted) | np.isclose(found, wanted, rtol=1e-9, atol=1e-12)


def on_backends(texts: Iterable[str]) -> list[Any]:
    """Each on torch, and one in ten on Triton, which is slower, in `make test`."""
    slow = pytest.mark.slow
    return [
        pytest.param(text, backend, marks=slow if backend == "triton" and n % 10 else ())
        for n, text in enumerate(texts)
        for backend in DTYPES
    ]


@pytest.mark.parametrize(("text", "backend"), on_backends(ELEMENTS))
def test_elements(text: str, backend: str) -> None:
    """On the grid of all points; -inf is exact, but beside what is infinite or none."""
    names = list(check(text).inputs)
    varying = [n for n in names if n not in ("Y",) or len(names) == 4]
    grid = np.array(list(itertools.product(POINTS, repeat=len(varying)))).T
    inputs: dict[str, Any] = dict(zip(varying, grid, strict=True))
    if "Y" in names and "Y" not in inputs:
        inputs["Y"] = np.ones(2)
    (wanted,), (found,) = compared(text, inputs, DTYPES[backend], backend)
    or_nan = np.isinf(grid).any(axis=0) | np.isnan(grid).any(axis=0)
    if "exp(A[i])" in text:  # in an exponent alone -inf is exact
        rest = grid[[n for n, name in enumerate(varying) if name not in ("A", "B")]]
        or_nan = ~np.isfinite(rest).all(axis=0) | (grid == INF).any(axis=0) | np.isnan(grid).any(0)
    wrong = ~is_right(wanted, found, or_nan, *TOLERANCES[backend])
    where = [(tuple(grid[:, n]), wanted[n], found[n]) for n in np.flatnonzero(wrong)]
    assert not where, where[:5]


@pytest.mark.parametrize(("text", "backend"), on_backends(AGGREGATES))
def test_aggregates(text: str, backend: str) -> None:
    inputs = {name: np.asarray(NAMES[name]) for name in check(text).inputs}
    for wanted, found in zip(*compared(text, inputs, DTYPES[backend], backend), strict=True):
        right = is_right(wanted, found, False, *TOLERANCES[backend])
        np.testing.assert_array_equal(right, True, f"{wanted}\n{found}")


def test_what_leaves_no_logarithm_takes_no_digits_along() -> None:
    """Beside 3 the exponential is small, and its exponent large."""
    inputs = {"X": np.array([1e5, 50.0, 1.0]), "Z": np.ones(3)}
    wanted, found = compared("O[i] = log(3 + Z[i] * exp(-X[i]))", inputs, torch.float32)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("fold", ["softmax", "log_softmax"])
def test_a_mask_of_all_elements_takes_no_digits_along(fold: str) -> None:
    """As from a padded row, whose mask is no -inf: its addends have no digits in common."""
    inputs = {"S": np.array([[40.0, -90.0, 1.25], [1.5, 2.0, -1.0]]), "M": np.full(3, -(2.0**20))}
    wanted, found = compared(f"O[q,k] = {fold}[k](S[q,k] + M[k])", inputs, torch.float32)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("name", MOMENTS)
@pytest.mark.parametrize("mean", [0.0, 1e3, 1e4])
def test_moments_stay_centred(name: str, mean: float) -> None:
    check_moment(name, mean, "torch")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", MOMENTS)
def test_moments_stay_centred_on_triton(name: str) -> None:
    check_moment(name, 1e4, "triton")


def check_moment(name: str, mean: float, backend: str) -> None:
    """At most 100 times the error of two passes over the data, and of its rounding to float32."""
    rng = np.random.default_rng(3)
    inputs: dict[str, Any] = {
        "A": (mean + rng.exponential(size=(3, 257))).astype(np.float32),
        "B": (mean + rng.standard_normal((3, 257))).astype(np.float32),
        "W": rng.choice([0.0, 1.0, 2.0], size=257).astype(np.float32),
    }
    inputs["W"][0], inputs["A"][:, 0] = 0.0, 1e6  # the first element counts for nothing
    if name not in ("weighted", "filtered"):
        inputs["A"][:, 0] = mean
    text = MOMENTS[name]
    inputs = {n: inputs[n] for n in check(text).inputs}
    wanted, found = compared(text, inputs, torch.float32, backend)
    single = {n: a.astype(np.float32) for n, a in inputs.items()}
    two_passes = evaluate_in(_float32(), check(text), single, {})
    last = two_passes if not isinstance(two_passes, tuple) else two_passes[-1]
    error = np.abs(found[-1] - wanted[-1]).max()
    assert error <= 100 * np.abs(last - wanted[-1]).max() + 1e-5 * np.abs(wanted[-1]).max()


@pytest.mark.parametrize(
    "text",
    [
        "O[q] = softmax[k](L[q,k]) * V[k]",
        "O[q] = -sum[k](softmax[k](L[q,k]) * log_softmax[k](L[q,k]))",
        "O[q] = sum[k](softmax[k](L[q,k]) ** 2) / max[k](softmax[k](L[q,k]))",
    ],
)
def test_a_sum_of_masks_is_a_mask(text: str) -> None:
    """A contraction of queries and keys is none: only a sum of elements as they are."""
    masks = np.array([[[0, -INF], [0, 0]], [[-INF, 0], [0, -INF]]])
    inputs = {"M": masks, "V": np.array([1.0, 5.0])}
    text = f"L[q,k] = sum[m](M[q,k,m])\n{text}"
    (wanted,), (found,) = compared(text, {n: inputs[n] for n in check(text).inputs})
    np.testing.assert_allclose(found, wanted, 1e-12)


def test_a_centre_that_asks_a_fold_what_to_admit_is_known_before() -> None:
    """Its filter would be another one for each block."""
    text = "D = sum[l if X[l] < mean[k](Y[k])](X[l])\nO = var[k](Y[k] - D * mean[k](Y[k]))"
    text += "\nP = mean[k]((Y[k] - D) ** 2)"
    inputs = {"X": np.array([0.0, 1, 2, 5, 7]), "Y": np.array([1.0, 3, 2, 8, 0])}
    for wanted, found in zip(*compared(text, inputs), strict=True):
        np.testing.assert_allclose(found, wanted, 1e-12)


def test_the_first_element_is_looked_for_within_limits() -> None:
    """A limit guards the reads of the conditions after it, also where an anchor is looked for."""
    text = "O[i] = var[k if k + 1 < |k| and S[i,k + 1] <= 0](V[k])"
    inputs = {"S": np.array([[1.0, 2.0, 3.0], [1.0, -2.0, 3.0]]), "V": np.array([1e4, 2e4, 1e6])}
    kernel = mc.compile(text, backend="torch", checked=True)
    found = kernel(**{name: torch.from_numpy(a) for name, a in inputs.items()})
    np.testing.assert_allclose(found, evaluate(text, inputs))


@pytest.mark.parametrize("backend", DTYPES)
@pytest.mark.parametrize(
    "text",
    [
        "P[q,k] = log_softmax[k](S[q,k])\nO[q,k] = where(P[q,k] >= max[j](P[q,j]), 1, 7)",
        "P[q,k] = log(softmax[k](S[q,k] + M[q,k]))\nO[q,k] = where(P[q,k] == max[j](P[q,j]), 1, 7)",
        "P[q,k] = softmax[k](S[q,k])\nO[q] = sum[k if P[q,k] <= min[j](P[q,j])](k)",
        "P[q,k] = softmax[k](S[q,k]) ** 2\nO[q] = sum[k if P[q,k] <= min[j](P[q,j])](k)",
    ],
)
def test_an_element_equals_the_largest_of_all_if_it_is_that(text: str, backend: str) -> None:
    """Rounding does not tell them apart: what they have in common leaves the comparison."""
    rng = np.random.default_rng(0)
    logits = 3 * rng.standard_normal((40, 9)).astype(np.float32)
    logits[0], logits[1] = 1, -INF
    masks = np.where(rng.random((40, 9)) < 0.4, -INF, 0)
    inputs = {name: {"S": logits, "M": masks}[name] for name in check(text).inputs}
    (wanted,), (found,) = compared(text, inputs, DTYPES[backend], backend)
    np.testing.assert_array_equal(found, wanted)


def _in(dtype: type) -> wide.Wide:
    """Numbers of numpy with no wider range, for the errors of a plain evaluation."""
    return wide.Wide(np.dtype(dtype), wide.ELEMENTARY)


def _float32() -> wide.Wide:
    return _in(np.float32)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("O[i] = A[i] + sum[k](B[k])", [1.0, 2.0]),
        ("O[i] = A[i] + max[k](B[k])", [-INF, -INF]),
        ("O[i] = A[i] + mean[k](B[k]) + var[k](B[k]) + logsumexp[k](B[k])", [-INF, -INF]),
        ("O[i] = A[i] + |k| * sum[k](B[k])", [1.0, 2.0]),
        ("O[i] = A[i] + sum[k](A[i] * B[k]) / sum[k](B[k])", [1.0, 2.0]),
        ("O[i] = A[i] + softmax[k](B[k]) * B[k]", [1.0, 2.0]),
        ("O[i] = A[i] + argmax[k](B[k])", [1.0, 2.0]),
        ("O[i] = A[i] + sum[k](sum[l if B[l] < B[k]](1))", [1.0, 2.0]),
        ("O[i] = sum[k](A[i]) + sum[k](B[k])", [0.0, 0.0]),
        ("O[i] = max[k](exp(A[i] * B[k]))", [-INF, -INF]),
        ("O[i] = sum[k](1) / sum[k](1) * A[i] + sum[k](B[k])", [0.0, 0.0]),
        ("O[i] = A[i] * mean[k](B[k]) / mean[k](B[k])", [0.0, 0.0]),
        ("O[i] = A[i] + sqrt(sum[k](B[k] ** 2)) / sqrt(sum[k](B[k] ** 2))", [1.0, 2.0]),
        ("O[i] = A[i] + log(sum[k](1)) - log(sum[k](1)) + sum[k](B[k])", [-INF, -INF]),
        ("O[i] = A[i] + relu(max[k](exp(B[k])))", [1.0, 2.0]),
        ("O[i] = A[i] * Welford[k](1, B[k], 0).n / Welford[k](1, B[k], 0).n", [0.0, 0.0]),
        (
            "monoid Mom(n, s) = unit (0, 0), combine (n + n', s + s')\n"
            "O[i] = A[i] + Mom[k](1, B[k]).n / Mom[k](1, B[k]).n",
            [1.0, 2.0],
        ),
        ("N = sum[k](1)\nO[i] = A[i] * (N / N) + sum[k](B[k])", [0.0, 0.0]),
    ],
)
def test_an_axis_without_elements(text: str, wanted: list[float], backend: str) -> None:
    inputs = {"A": np.array([1.0, 2.0]), "B": np.zeros(0)}
    np.testing.assert_array_equal(evaluate(text, inputs), wanted)
    kernel = mc.compile(text, backend=backend)
    found = kernel(**{name: torch.from_numpy(a) for name, a in inputs.items()})
    np.testing.assert_array_equal(np.asarray(found), wanted)


def asks_about_aggregates(program: Program) -> bool:
    """Does a comparison or a choice depend on an aggregate? Of infinite inputs that may be no
    number, which a kernel need not notice."""
    made = set(program.definitions)

    def holds_aggregate(expr: Expr) -> bool:
        return any(isinstance(e, Reduce) or getattr(e, "name", "") in made for e in walk(expr))

    for definition in program.definitions.values():
        for e in walk(definition.body):
            if isinstance(e, Compare) and any(map(holds_aggregate, e.operands)):
                return True
            if isinstance(e, Reduce) and e.op[:3] == "arg" and any(map(holds_aggregate, e.args)):
                return True
    return False


def mentions(e: Expr, indices: Iterable[str]) -> bool:
    return any(isinstance(x, syntax.Name) and x.name in indices for x in walk(e))


def are_logits(program: Program, names: str) -> bool:
    """Are these inputs read in exponents, extrema and comparisons alone, where -inf is exact?"""

    def visit(e: Expr, here: bool) -> bool:
        match e:
            case syntax.Read() if e.name in names:
                return here
            case syntax.Binary(op="+"):
                return visit(e.left, here) and visit(e.right, here)
            case syntax.Binary(op="-"):
                return visit(e.left, here) and visit(e.right, False)
            case syntax.Call(function="where"):
                condition, *sides = e.args
                return visit(condition, False) and all(visit(side, here) for side in sides)
            case syntax.Call(function="exp"):
                return visit(e.args[0], True)
            case syntax.Reduce(op="max") if not mentions(e.args[0], e.indices):
                return visit(e.args[0], here)  # of one element
            case syntax.Reduce(op="softmax" | "log_softmax" | "logsumexp" | "max" | "argmax"):
                is_filter = e.condition is None or visit(e.condition, False)
                return is_filter and visit(e.args[0], True)
            case Compare():
                return all(isinstance(x, syntax.Read) or visit(x, False) for x in e.operands)
        return all(visit(part, False) for part in syntax.children(e))

    return all(visit(d.body, False) for d in program.definitions.values())


def check_program(text: str, seed: int, backend: str = "torch", device: str = "cpu") -> None:
    """A random program on all profiles, compared with the oracle: float64 on torch, float32 on
    triton, where what is large overflows."""
    program = check(text)
    kernel = mc.compile(text, backend=backend)
    for number, profile in enumerate(special_programs.PROFILES):
        if profile == "large" and backend != "torch":
            continue
        inputs = special_programs.inputs(31 * seed + number, profile)
        inputs = {name: inputs[name] for name in program.inputs}
        check_outputs(program, kernel, inputs, profile, f"seed {seed}, {profile}\n{text}", device)


def check_outputs(
    program: Program,
    kernel: mc.Kernel,
    inputs: dict[str, Any],
    profile: str,
    note: str,
    device: str = "cpu",
) -> None:
    """A kernel's outputs for inputs of a profile, compared with the oracle."""
    dtype, rtol = (np.float64, 1e-9) if kernel.backend == "torch" else (np.float32, 1e-4)
    inputs = {n: a.astype(dtype) if a.dtype.kind == "f" else a for n, a in inputs.items()}
    tensors = {name: torch.from_numpy(np.array(a)).to(device) for name, a in inputs.items()}
    wanted, found = map(_listed, (evaluate(program, inputs), kernel(**tensors)))
    if all(agrees(w, f).all() for w, f in zip(wanted, found, strict=True)):
        return
    is_exact = profile in special_programs.EXACT
    is_exact |= profile == "logits of -inf" and are_logits(program, "SAM")
    weak = asks_about_aggregates(program)
    with np.errstate(all="ignore"):
        plain = _listed(evaluate_in(_in(dtype), program, inputs, {}))
    for position, (w, p, f) in enumerate(zip(wanted, plain, found, strict=True)):
        # What a plain evaluation in that dtype loses, any other may lose.
        with np.errstate(all="ignore"):
            lost = np.abs(np.where(np.isfinite(p) & np.isfinite(w), p - w, 0))
            scale = np.minimum(np.max(np.abs(w), initial=1, where=np.isfinite(w)), 1e3)
            near = np.abs(f - w) <= rtol * np.maximum(np.abs(w), scale) + 1e3 * lost
            near |= np.isinf(p) & (p == f)  # overflow and cancellation are rounding
            near |= np.isfinite(w) & ~np.isfinite(p)
            near |= np.isnan(p) & np.isnan(f)  # underflow, too
        right = agrees(w, f) | near | (np.isnan(f) & (not is_exact))
        for o in _of_opposite_infinities(program, inputs) if not right.all() else ():
            right |= agrees(o[position], f) & (np.isnan(o[position]) == np.isnan(f))
        if not right.all() and (cancelled := _cancelled(program)) != program:
            with np.errstate(all="ignore"):
                right |= np.isnan(f) & np.isnan(_listed(evaluate(cancelled, inputs))[position])
        for o in _answered(program, inputs) if weak and not right.all() else ():
            right |= agrees(o[position], f)
        is_checked = is_exact or right.all()
        for o in () if is_checked else _without_infinities(program, inputs):
            looks = ~agrees(w, o[position]) | ~agrees(o[position], w)
            right |= looks.any()  # or its block does
        if not is_checked:  # what it looks at may happen to cancel for other numbers
            right |= np.isnan(_with_none_for_infinity(program, inputs)[position]).any()
        for o in _moved(program, inputs) if not right.all() else ():
            right |= agrees(o[position], f)
        for o in _rounded(program, inputs) if not right.all() else ():
            right |= _is_between(w, f, o[position])
        assert right.all(), f"{note}\nwanted\n{w}\nfound\n{f}"


def _is_between(wanted: Any, found: Any, other: Any) -> Any:
    """Is what was found as near to what is wanted as the outcome with other last digits is?"""
    with np.errstate(invalid="ignore"):
        distance = np.abs(other - wanted)
        near = np.abs(found - wanted) <= 1e2 * distance
    return near | (np.isfinite(wanted) & ~np.isfinite(other)) | agrees(other, found)


def _rounded(program: Program, inputs: dict[str, Any]) -> Iterable[list[Any]]:
    """The outputs with other last digits of what is computed on the way, logarithms of sums of
    exponentials included, with divisors of 0 that are a few of those, and without exponentials that
    underflow. Numbers of few digits are exact, but those with an absolute error."""
    rng = np.random.default_rng(0)

    def rounded(f: Any, absolute: float | None = None) -> Any:
        def apply(*args: Any) -> Any:
            result = f(*args)
            if np.asarray(result).dtype.kind != "f":
                return result
            noise = (
                4e-16 * rng.standard_normal(np.shape(result)) * (np.abs(result) + (absolute or 0))
            )
            is_short = (result == np.asarray(result, np.float32)) & (absolute is None)
            return np.where(is_short | ~wide.is_finite(result), result, result + noise)

        return apply

    def log_softmax(w: Any, x: Any, admitted: Any) -> Any:
        total = np.asarray(rounded(naive_folds.fold_logsumexp, 1)(w, x, admitted))[..., None]
        return np.where(wide.is_infinite(total), w.number(-INF), x - total)

    wide_ = wide.LONGDOUBLE

    def divide(x: Any, y: Any) -> Any:
        return x / np.where(np.abs(y) < 1e-12, 0, y)

    def power(x: Any, y: Any) -> Any:
        return wide_.elementary["**"](np.where((np.abs(x) < 1e-12) & (y < 0), 0, x), y)

    def exp(x: Any) -> Any:
        return np.where(x == -INF, 0, np.maximum(np.exp(x), np.finfo(np.longdouble).tiny))

    for changed in ({"/": divide, "**": power}, {"exp": exp}):
        other = dataclasses.replace(wide_, elementary={**wide_.elementary, **changed})
        with np.errstate(all="ignore"):
            yield _listed(evaluate_in(other, program, inputs, {}))
    # The largest exponent leaves a logarithm, and comes back to what it is added to; the addends of
    # an exponent are rounded apart, so that exp(a + b - max) may differ from 1 at the largest.
    functions = {name: rounded(f) for name, f in wide_.elementary.items()}
    functions["log"] = rounded(wide_.elementary["log"], 60)
    functions["exp"] = rounded(wide_.elementary["exp"], 0)
    arithmetic = {op: rounded(f) for op, f in naive_arithmetic._ARITHMETIC.items()}
    softmax = rounded(naive_folds.softmax, 0)
    folds = {name: rounded(f) for name, f in naive_folds.FOLDS.items()}
    folds["logsumexp"] = rounded(naive_folds.fold_logsumexp, 1)
    for _ in range(5):
        with (
            np.errstate(all="ignore"),
            mock.patch.object(naive_folds, "log_softmax", log_softmax),
            mock.patch.object(naive_folds, "softmax", softmax),
            mock.patch.dict(naive_arithmetic._ARITHMETIC, arithmetic),
            mock.patch.dict(naive_folds.FOLDS, folds),
        ):
            noisy = dataclasses.replace(wide_, elementary=functions)
            yield _listed(evaluate_in(noisy, program, inputs, {}))


def _cancelled(program: Program) -> Program:
    """The program with a plain 0 for each sum of distances from their own mean."""

    def visit(e: Expr) -> Expr:
        e = syntax.with_children(e, map(visit, syntax.children(e)))
        if not (isinstance(e, Reduce) and e.op == "sum"):
            return e
        moving = [f for f in factors(e.args[0]) if mentions(f, e.indices)]
        is_distance = len(moving) == 1 and is_from_mean(moving[0], e)
        return syntax.Number(Fraction(0), span=e.span) if is_distance else e

    def factors(e: Expr) -> list[Expr]:
        if isinstance(e, syntax.Binary) and e.op == "*":
            return [*factors(e.left), *factors(e.right)]
        return [e]

    def is_from_mean(e: Expr, total: Reduce) -> bool:
        if isinstance(e, syntax.Binary) and e.op == "-":
            return e.right == dataclasses.replace(total, op="mean", args=(e.left,))
        return False

    changed = {
        name: dataclasses.replace(d, body=visit(d.body)) for name, d in program.definitions.items()
    }
    return dataclasses.replace(program, definitions=changed)


def _of_opposite_infinities(program: Program, inputs: dict[str, Any]) -> Iterable[list[Any]]:
    """The outputs where -inf + [inf] is NaN, as it is of exponents that leave a sum, or inf; and
    where the logarithm of a share of nothing is."""
    pinned, wide_ = naive_arithmetic._pinned, wide.LONGDOUBLE
    log = wide_.elementary["log"]
    for found in (NAN, INF):

        def settled(op: str, *operands: Any, found: float = found) -> Any:
            is_sum = op == "+"
            return ((where, found if is_sum else x) for where, x in pinned(op, *operands))

        with np.errstate(all="ignore"), mock.patch.object(naive_arithmetic, "_pinned", settled):
            yield _listed(evaluate(program, inputs))

        def of_share(x: Any, found: float = found) -> Any:
            return np.where(x == 0, wide_.number(found), log(x))

        other = dataclasses.replace(wide_, elementary={**wide_.elementary, "log": of_share})
        with np.errstate(all="ignore"):
            yield _listed(evaluate_in(other, program, inputs, {}))


def _answered(program: Program, inputs: dict[str, Any]) -> Iterable[list[Any]]:
    """The outputs where comparisons with a NaN have either value, and where it is not the extreme
    either."""
    rng = np.random.default_rng(0)

    def may_hold(compare: Any, chance: float) -> Any:
        def answer(x: Any, y: Any) -> Any:
            result = compare(x, y)
            is_open = wide.is_nan(x) | wide.is_nan(y)
            return np.where(is_open, rng.random(np.shape(result)) < chance, result)

        return answer

    extremes = {"argmax": (np.argmax, -1), "argmin": (np.argmin, 1)}

    def position(find: Any, sign: int) -> Any:
        def fold(w: Any, x: Any, admitted: Any) -> Any:
            there = ~wide.is_nan(x) & (True if admitted is None else admitted)
            return naive_folds._first_position(
                find, np.where(there, x, w.number(sign * INF)), x[..., :1]
            )

        return fold

    folds = {name: position(*how) for name, how in extremes.items()}
    for chance, changed in itertools.product((1.0, 0.0, 0.5, 0.5), ({}, folds)):
        answers = {op: may_hold(f, chance) for op, f in naive_arithmetic._COMPARISONS.items()}
        with (
            np.errstate(all="ignore"),
            mock.patch.dict(naive_arithmetic._COMPARISONS, answers),
            mock.patch.dict(naive_folds.FOLDS, changed),
        ):
            yield _listed(evaluate(program, inputs))


def _without_infinities(program: Program, inputs: dict[str, Any]) -> Iterable[list[Any]]:
    """The outputs for other numbers where the inputs are no finite ones."""
    rng = np.random.default_rng(0)
    for _ in range(3):
        finite = {
            name: np.where(np.isfinite(a), a, rng.standard_normal(a.shape))
            if a.dtype.kind == "f"
            else a
            for name, a in inputs.items()
        }
        yield _listed(evaluate(program, finite))


def _with_none_for_infinity(program: Program, inputs: dict[str, Any]) -> list[Any]:
    """The outputs for inputs of NaN where they are inf."""
    changed = {
        n: np.where(a == INF, NAN, a) if a.dtype.kind == "f" else a for n, a in inputs.items()
    }
    return _listed(evaluate(program, changed))


def _moved(program: Program, inputs: dict[str, Any]) -> Iterable[list[Any]]:
    """The outputs for inputs of which the last digits are others, or 0 has another sign, and
    where a quotient by 0 has."""

    wide_ = wide.LONGDOUBLE
    power_of = wide_.elementary["**"]
    rng = np.random.default_rng(0)

    def turned(signs: Callable[[Any], Any]) -> wide.Wide:
        def divide(x: Any, y: Any) -> Any:
            return np.where(y == 0, signs(y) * x, x) / y

        def power(x: Any, y: Any) -> Any:
            return np.where((x == 0) & (y < 0), signs(x), 1) * power_of(x, y)

        elementary = {**wide_.elementary, "/": divide, "**": power}
        return dataclasses.replace(wide_, elementary=elementary)

    def all_alike(x: Any) -> Any:
        return rng.choice((-1, 1))

    def each_its_own(x: Any) -> Any:
        return rng.choice((-1, 1), np.shape(x))

    for signs in (lambda x: -1, all_alike, all_alike, *4 * [each_its_own]):
        with np.errstate(all="ignore"):
            yield _listed(evaluate_in(turned(signs), program, inputs, {}))
    for size in (0.0, 1e-14, 1e-14, 1e-12):
        moved = {
            name: a * (1 + size * rng.standard_normal(a.shape)) + 0.0 if a.dtype.kind == "f" else a
            for name, a in inputs.items()
        }
        with np.errstate(all="ignore"):
            yield _listed(evaluate(program, moved))


def test_a_centre_beside_a_monoid() -> None:
    """What moves with the mean of a variance is a field of an aggregate, not the aggregate."""
    text = """monoid Both(p, q) = unit (0, -inf), combine (p + p', maximum(q, q'))
        D[i,j] = var[k](S[i,k] - Both[k](S[i,k], W[j]).q)"""
    generator = np.random.default_rng(0)
    inputs = {"S": generator.normal(size=(3, 5)), "W": generator.normal(size=2)}
    found = mc.compile(text, backend="numpy")(**inputs)
    np.testing.assert_allclose(found, mc.evaluate(text, inputs), rtol=1e-12)


def test_the_scales_of_a_quotient_leave_a_comparison_together() -> None:
    text = """
        m = max[k if k < |k| - 1](x[k])
        O = sum[k if k < |k| - 1](k * exp(x[k] - m)) / sum[k](exp(x[k] - m)) > 0
    """
    assert mc.compile(text, backend="torch")(x=torch.tensor([9900.0, 10000.0, 10010.0])).item()


def test_what_is_infinite_is_not_multiplied_out() -> None:
    """Where |d| is less than |k|, distances would be cheaper as sums of products."""
    text = "O[q] = sum[k]((abs(log(q)) - X[q,d] * Y[k,d]) ** 2)"
    inputs = {"X": np.array([[1.0], [1.0], [2.0]]), "Y": np.array([[0.5], [-0.7], [3.0]])}
    found = mc.compile(text, backend="numpy")(**inputs)
    np.testing.assert_allclose(found, mc.evaluate(text, inputs), rtol=1e-12)


def test_what_a_filter_leaves_out_may_be_no_number_though_it_is_asked_about() -> None:
    """A value in its own weight is asked whether it is 0, and read for all elements."""
    text = "O[l] = sum[k if F[k] > 0](exp(S[k] * B[l]) * S[k])"
    inputs = {"S": [1.0, NAN, -INF, NAN, 2.0], "B": [2.0, 0.5], "F": [1.0, 0.0, 0.0, 0.0, 1.0]}
    wanted = [sum(math.exp(s * b) * s for s in (1.0, 2.0)) for b in inputs["B"]]
    assert evaluate(text, inputs) == pytest.approx(wanted)
    tensors = {n: torch.tensor(x) for n, x in inputs.items()}
    found = interpreted.call(outputs, text, tensors, "triton")
    assert found.tolist() == pytest.approx(wanted, rel=1e-4)


def test_nothing_is_no_factor_of_the_largest_infinity() -> None:
    """0 of nothing times infinities is 0, times the largest of them it is none."""
    text = """input W[j], Y[l], C
        D = sum[l if l > 2](C) * log(sum[l if Y[l] > C](Y[l]))
        O = sum[j if j > 1](logsumexp[..j](W[j] * D))"""
    inputs = {"Y": np.array([0.0, -1.0]), "W": np.array([3.0, 1.5, -1.0]), "C": np.array(3.0)}
    found = mc.compile(text, backend="numpy")(**inputs)
    np.testing.assert_allclose(found, mc.evaluate(text, inputs), rtol=1e-12)


def _listed(outputs: Any) -> list[Any]:
    found = outputs if isinstance(outputs, tuple) else (outputs,)
    arrays = (x.cpu().numpy() if isinstance(x, torch.Tensor) else x for x in found)
    return [np.asarray(x, np.float64) for x in arrays]


def try_programs(seeds: Iterable[int], backend: str = "torch", device: str = "cpu") -> int:
    """Check random programs; how many of the texts were programs."""
    tried = 0
    for seed in seeds:
        try:
            check_program(special_programs.program(seed), seed, backend, device)
        except (UnknownIndexError, FilterError, LimitError, UnsupportedError):
            continue  # no program, or none for this backend
        tried += 1
    return tried


@pytest.mark.parametrize("part", range(math.ceil(FUZZ / PART)))
def test_random_programs(part: int) -> None:
    """One part after the other, so that processes can share them."""
    first = SEED * 1_000_000 + part * PART
    assert try_programs(range(first, first + min(PART, FUZZ - part * PART)))


def test_random_programs_on_triton() -> None:
    first = SEED * 1_000_000 + 500
    assert interpreted.call(try_programs, range(first, first + FUZZ // 10), "triton")
