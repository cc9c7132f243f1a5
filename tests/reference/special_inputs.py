"""Programs at inputs of their own, where an identity does not hold without its condition."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.reference.special_points import INF, NAN, ROWS

INTS = "input N[k]: int, Z[i]: int\n"
WEIGHED = "O[i] = sum[k](exp(S[i,k]) * X[k] - exp(S[i,k] + B[i]) * Y[k])"
CHAIN = "O[q] = sum[k if L[k] > 0](sum[d](A[q,d] * B[k,d]) * C[k])"
STATES = (
    "m[i] = maximum(A[i], B[i])\nO[i] = (exp(A[i] - m[i]) * X[i] + exp(B[i] - m[i]) * Y[i])"
    " / (exp(A[i] - m[i]) + exp(B[i] - m[i]))"
)
FEW = {
    **{"N": [1, 7, -1, 3], "P": [3, 1, 2, 5, 4], "F": [False, True, False, True], "W": [2, -1, 3]},
    **{"X": np.arange(-9.0, 11).reshape(4, 5) / 3, "D": np.arange(-20.0, 40).reshape(4, 3, 5)},
    **{"Y": [1, -2, 0.5, 3, 4], "Z": [2, 3, -1, 0.5, 1], "L": [-INF, 0, 2, -1]},
}
ROWS_600 = {"S": np.zeros((1, 600)), "V": np.arange(600.0)}
RISING = np.where(np.arange(600) == 400, -INF, np.arange(600.0))

# Programs at inputs of their own, where an identity does not hold without its condition.
ELSEWHERE: list[tuple[str, dict[str, Any]]] = [
    ("O[i] = log(A[i] / (1 + exp(B[i])))", {"A": [-1, 2], "B": [-INF, -INF]}),
    ("O[i] = sum[k if k < i](V[k] * B[i])", {"V": [1, 2], "B": [INF, 1]}),
    ("O[i] = sum[k](A[i] + 0 * B[i,k])", {"A": [INF], "B": np.zeros((1, 0))}),
    ("O[i] = max[k if k < i](V[k] + B[i])", {"V": [1, 2, 3], "B": [NAN, 1, 2]}),
    ("O[i] = B[i] + max[k if k < i](V[k])", {"V": [1, 2, 3], "B": [NAN, 1, 2]}),
    ("O[i] = B[i] + logsumexp[k if k < i](V[k])", {"V": [1, 2, 3], "B": [NAN, 1, 2]}),
    ("O[i] = max[k if k < i](exp(C[i]) * S[k])", {"C": [-INF, 0], "S": [1, 2]}),
    (
        "O[i] = sum[k if k < i]((X[i,k] + max[l](X[i,l])) * Y[k])",
        {"X": [[INF, 1], [1, 2]], "Y": [1, 2]},
    ),
    (
        "O[i] = sum[k if k < i](exp(max[l](S[i,l])) * V[k])",
        {"S": [[INF, 0], [0, 1]], "V": [1, 2]},
    ),
    (
        "O = sum[k](Y[k] * (2 * exp(S[k]) - exp(R[k])))",
        {"Y": [0, 2], "S": [-INF, 0], "R": [1, -INF]},
    ),
    (WEIGHED, {"S": [[-1000]], "X": [1], "B": [1000], "Y": [0]}),
    (WEIGHED, {"S": [[-1000, -999]], "X": [1, 2], "B": [1000], "Y": [1, 1]}),
    (CHAIN, {"A": [[INF, 1]], "B": [[1, 1], [1, 2]], "C": [1, 1], "L": [0, -1]}),
    (CHAIN, {"A": [[2, 1]], "B": [[1, NAN], [1, 2]], "C": [1, 4], "L": [0, 1]}),
    ("S[i] = sum[k if k < i](X[k])\nO[i] = S[i] / sum[k if k < i](1) + X[i]", {"X": [1, 2]}),
    # Exponents that are taken relative to one another.
    (
        "O[i] = log(exp(max[k](S[i,k])) + exp(B[i]) * C[i])",
        {"S": [[1, 2]], "B": [-INF], "C": [1]},
    ),
    (
        "O[i] = 1 / (exp(A[i]) * X[i] + exp(B[i]) * Y[i])",
        {"A": [900, -INF], "X": [0, 1], "B": [0, 0], "Y": [2, 1]},
    ),
    (STATES, {"A": [-INF, 1], "B": [-INF, -INF], "X": [1, 3], "Y": [2, 2]}),
    ("O = min[q](exp(max[k](X[q,k])))", {"X": [[-INF, -INF], [1, 2]]}),
    ("O[q] = log(sum[k if k < q](exp(S[q,k])))", {"S": [[1, 2], [1, 2]]}),
    (
        "O[i] = exp(X[i] - 900) / sum[k](exp(S[i,k]) * W[k])",
        {"X": [1], "S": [[900, -900]], "W": [0, 1]},
    ),
    (
        "O[q] = sum[k](exp(S[q,k] - max[k](S[q,k])) * V[k])",
        {"S": [[-INF, -INF], [0, -INF]], "V": [1, 2]},
    ),
    *(
        ("O[q] = softmax[k](S[q,k] + M[k]) * V[k]", {**ROWS_600, "M": mask})
        for mask in (np.where(np.arange(600) < 590, -INF, 0), np.full(600, -INF))
    ),
    *(
        ("O[i] = log(3 + Z[i] * exp(-X[i]))", {"X": [x], "Z": [1]})  # beside 3 it is small
        for x in (1e5, 50, 1)
    ),
    # A centre moves a sum that is -inf so far: what it leaves of it is no number, -inf comes later.
    (
        "O = sum[k]((S[k] - max[k](S[k])) * logsumexp[l if l < k](V[l]))",
        {"S": RISING, "V": np.ones(600)},
    ),
    # Ints, and where they are as large as can be.
    ("input N[i]: int\nO[i] = 1.0 * N[i] + 1.0 * N[i]", {"N": [2**62]}),
    ("input N[i]: int\nO[i] = where(N[i] + 5 > 0, 1, 7)", {"N": [-5, -4, 2**40]}),
    (f"{INTS}O[i] = max[k if k < Z[i]](N[k] - 5 * Z[i])", {"N": [3, 4], "Z": [-1, 0, 2]}),
    (f"{INTS}O[i] = max[k if k < Z[i]](2 * N[k])", {"N": [3, 4], "Z": [0, 1]}),
    (f"{INTS}O[i] = max[k if k < Z[i]](N[k])", {"N": [-5, -7], "Z": [0, 2]}),
    (
        "input D[j]: int\nindex q < 3\nO[q] = W[sum[j if j < q](D[j])]",
        {"D": [1, 2], "W": [5, 6, 7, 8]},
    ),
    ("O[q] = sum[k](k * argmax[k](S[q,k]))", {"S": [[1, 3, 2]]}),
    ("O[q] = max[k if k <= q](k) + sum[k](V[k]) + B[q]", {"V": [1, 2], "B": [0.5, 0]}),
    *(
        (f"input n[q]: int\nO[q] = sum[k if k {text}](X[k])", {"n": n, "X": [1, 2]})
        for text, n in (
            ("< n[q] + 1", [2**63 - 2, 0, -5]),
            ("> n[q] - 1", [-(2**63) + 1, 1, 5]),
        )
    ),
    (
        "O[q,e] = softmax[k if k <= q](X[q,d] * X[k,d]) * X[k,e]",
        {"X": [[1, 0], [0, 2]]},
    ),
    (
        "monoid SE(v, m) = unit (0, 1), combine (v * m' + v', m * m')\n"
        "A[i] = max[j](Y[i,j] * SE[k](X[k] ** 2 + 1, M[k]).v)",
        {"X": [1, 2], "M": [1, -3], "Y": [[1, 2, 3]]},
    ),
    # A sum of masks is one, as a contraction of queries and keys is none.
    *(
        (
            f"L[q,k] = sum[m](M[q,k,m])\nO[q] = {x}",
            {"M": [[[0, -INF], [0, 0]], [[-INF, 0], [0, -INF]]], "V": [1, 5]},
        )
        for x in (
            "softmax[k](L[q,k]) * V[k]",
            "-sum[k](softmax[k](L[q,k]) * log_softmax[k](L[q,k])) * V[0]",
            "sum[k](softmax[k](L[q,k]) ** 2) / max[k](softmax[k](L[q,k])) * V[0]",
        )
    ),
    # A centre that asks a fold what to admit, and one beside a monoid.
    (
        "D = sum[l if X[l] < mean[k](Y[k])](X[l])\nO = var[k](Y[k] - D * mean[k](Y[k]))\n"
        "P = mean[k]((Y[k] - D) ** 2)",
        {"X": [0, 1, 2, 5, 7], "Y": [1, 3, 2, 8, 0]},
    ),
    (
        "monoid Both(p, q) = unit (0, -inf), combine (p + p', maximum(q, q'))\n"
        "D[i,j] = var[k](S[i,k] - Both[k](S[i,k], W[j]).q)",
        {"S": ROWS, "W": [0.5, -1]},
    ),
    # Sums over one element or none, which quotients, gates and reads stand beside.
    *(
        (
            "input N[i]: int, P[k]: int, F[i]: bool\n"
            f"O[i] = {x} + X[i,0] + 0 * sum[j,k](D[i,j,k] * P[k] * W[j]) + 0 * F[i]",
            FEW,
        )
        for x in (
            "sum[k if k == N[i]](exp(Y[k]) * Z[k]) / sum[k if k == N[i]](exp(Y[k]))",
            "sum[k if k == N[i]](Y[k] * Z[k]) / sum[k if k == N[i]](Y[k])",
            "sum[k if k == N[i] and Z[k] > 0](Z[k]) / sum[k if k == N[i]](Z[k])",
            "sum[k, j if k == N[i]](D[i,j,k] * Z[k]) / sum[k if k == N[i]](Z[k] ** 2)",
            "sum[j](sum[k if k == N[i]](Z[k] * W[j])) / sum[k if k == N[i]](Z[k])",
            "sum[k if k == N[i]](Y[k]) / sum[k if k == N[i]](P[k])",
            "sum[k if k == N[i]](Z[k]) / sqrt(sum[k if k == N[i]](Z[k] ** 2))",
            "max[j](W[j] * sum[k if k == N[i]](Z[k])) / sum[k if k == N[i]](Z[k])",
            "sum[k](softmax[k if k == N[i]](1e3 * X[i,k]) * Y[k])",
            "sum[k](softmax[k if k < N[i]](X[i,k]) * L[i])",
            "sigmoid(logsumexp[k if k < N[i]](X[i,k]) - X[i,1])",
            "1 / (1 + sum[k](softmax[k if k < N[i]](X[i,k]) * Z[k]))",
            "sum[k if N[i] < |j| and 0 <= N[i] and k <= i](Y[k] * W[N[i]])",
            "1 / (1 + exp(where(F[i], -L[i], -inf)))",
        )
    ),
    (
        "P[i,k] = softmax[k](S[i,k])\nR[i,k] = softmax[k](L[i,k])\n"
        "O[i] = sum[k]((P[i,k] - R[i,k]) ** 2 / R[i,k])\n"
        "Q[i] = sum[k](abs(P[i,k] - R[i,k]) / R[i,k])",
        {"S": [[-INF, -INF, -INF], [0, 1, 2]], "L": [[-INF, 0, 1], [1, 1, 0]]},
    ),
    # Axes without elements.
    *(
        (f"O[i] = {x}", {"A": [1, 2], "B": []})
        for x in (
            "A[i] + sum[k](B[k])",
            "A[i] + max[k](B[k])",
            "A[i] + mean[k](B[k]) + var[k](B[k]) + logsumexp[k](B[k])",
            "A[i] + |k| * sum[k](B[k]) + |k| / |k| + |k| // |k|",
            "A[i] + sum[k](A[i] * B[k]) / sum[k](B[k])",
            "A[i] + softmax[k](B[k]) * B[k] + argmax[k](B[k])",
            "A[i] + sum[k](sum[l if B[l] < B[k]](1))",
            "sum[k](A[i]) + sum[k](B[k])",
            "max[k](exp(A[i] * B[k]))",
            "sum[k](1) / sum[k](1) * A[i] + sum[k](B[k])",
            "A[i] * mean[k](B[k]) / mean[k](B[k])",
            "A[i] + sqrt(sum[k](B[k] ** 2)) / sqrt(sum[k](B[k] ** 2))",
            "A[i] + log(sum[k](1)) - log(sum[k](1)) + sum[k](B[k])",
            "A[i] + relu(max[k](exp(B[k])))",
            "A[i] * Welford[k](1, B[k], 0).n / Welford[k](1, B[k], 0).n",
        )
    ),
]
