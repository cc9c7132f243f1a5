"""Programs that backends are tested with: functions, integers, positions and guards."""

from __future__ import annotations

import numpy as np

from tests.backends.running import Example

ELEMENTS: dict[str, str | Example] = {
    "functions": Example(
        """
        O[i,j] = gelu(A[i,j]) + silu(A[i,j]) + softplus(A[i,j]) + elu(A[i,j]) + erf(A[i,j])
        P[i,j] = sin(A[i,j]) * cos(A[i,j]) + sign(A[i,j]) + floor(A[i,j]) + abs(A[i,j]) ** 1.5
        R[i,j] = log2(1 + exp2(A[i,j])) + relu(A[i,j]) + maximum(A[i,j], 0.5) + sigmoid(A[i,j])
        T[i,j] = tanh(A[i,j]) / sqrt(1 + A[i,j] ** 2) + log(2 + minimum(A[i,j], 1)) - A[i,j] ** 3
        """,
        "i=17 j=19",
        tolerance=4,
    ),
    "signs of sums": Example(
        "O[i,j] = sign(A[i,j] + 1) + X[j]\nN = sum[j](1)",
        "i=17 j=1",  # a size of 1 is a constant of the kernel
        inputs={"A": np.full((17, 1), -1, np.float32)},
    ),
    "integers": Example(
        "O[i,j] = (i - j) // 3 + 10 * ((i - j) % 3) + 100 * ((j - i) // (1 + j)) + X[i,j]",
        "i=17 j=19",
        inputs={"X": np.zeros((17, 19), np.float32)},
    ),
    "large integers": Example(
        """
        input n[i,j]: int
        O[i,j] = (i * 100003) * (j * 100003) + n[i,j] * n[i,j]
        P[i,j] = 16777217 + 0 * n[i,j]
        """,
        "i=7 j=5",
        inputs={"n": (np.arange(35).reshape(7, 5) * 10**5).astype(np.int32)},
    ),
    "small integers": Example(
        "input n[i,k]: int\nO[i] = sum[k](n[i,k] * n[i,k]) - 300\nP[i] = n[i,0] - 300",
        "i=5 k=37",
        inputs={"n": (np.arange(185).reshape(5, 37)).astype(np.uint8)},
    ),
    "aggregates of integers": Example(
        """
        input n[i,k]: int
        O[i] = sum[k](n[i,k])
        P[i] = max[k](n[i,k])
        R[i] = prod[k if k < 3](n[i,k])
        """,
        "i=5 k=37",
        inputs={"n": np.arange(185).reshape(5, 37) * 10**4 - 10**5},
    ),
    "matmul of integers": Example(
        "input n[i,k]: int, m[k,j]: int\nO[i,j] = n[i,k] * m[k,j]",
        "i=17 k=19 j=5",
        inputs={
            "n": np.arange(323).reshape(17, 19) * 10**4,
            "m": np.arange(95).reshape(19, 5) * 10**4,
        },
    ),
    "matmul of conditions": "input M[i,k]: bool\nO[i,j] = M[i,k] * A[k,j]\nC[i] = sum[k](M[i,k])",
    # positions and guards
    "a guard that is a number's": """
        input B
        O[q] = var[k if S[k] > 0](V[q,k])
        P[q,k] = where(V[q,k] > 0 or B > 0, V[q,k], -1)
        R[q,k] = where(V[q,k] > 0 and not B > 0, V[q,k], -1)
        """,
    "the position of an extremum beside moments": """
        A[q] = argmax[k](S[q,k])
        O[q] = var[k](S[q,k]) + A[q]
        P[q] = sum[k](exp(S[q,k]) * (k - A[q]) ** 2) / sum[k](exp(S[q,k]))
        """,
    "frames moved through increasing functions": Example(
        """
        O[q,e] = softmax[k](exp(Q[q,d] * K[k,d] / 4)) * V[k,e]
        P[k] = softmax[k](exp(W[k]))
        R[q,e] = softmax[k if k <= q](exp(Q[q,d] * K[k,d] / 8)) * V[k,e]
        """,
        "q=19 k=9 d=4 e=4; q=41 k=40 d=4 e=4",
    ),
    "documents counted by where they start": Example(
        """
        input starts[j]: int, W[n]
        D[k] = sum[j](where(starts[j] <= k, 1, 0))
        S[q,k] = Q[q,d] * K[k,d] + W[sum[j if j < k](starts[j])]
        O[q,e] = softmax[k if D[k] == D[q]](S[q,k]) * V[k,e]
        """,
        "q=37 j=3 n=26 d=5 e=6",
        inputs={"starts": [0, 5, 20]},
    ),
    **{
        f"a window of {w}": Example(
            """
            param w: int
            S[q,k] = Q[q,d] * K[k,d]
            O[q,e] = softmax[k if k <= q and (k >= q - w or k < 2)](S[q,k]) * V[k,e]
            P[q,e] = softmax[k if abs(q - k) <= w](S[q,k]) * V[k,e]
            R[q] = (q + w) * 3 - w // 2 + w % 7
            """,
            "q=19 k=37 d=5 e=6",
            params={"w": w},
        )
        for w in (2**31 - 1, -(2**31), 2**31, -(2**31) - 1)
    },
    "division by zero": Example(
        """
        input n[i]: int, m[i]: int
        O[i] = n[i] // m[i] + 10 * (n[i] % m[i]) + i // m[i]
        P[i] = A[i] / (m[i] * 1.0)
        """,
        "i=4",
        inputs={"n": [5, -5, 0, 7], "m": [0, 0, 0, 2], "A": [1.0, 0.0, -1.0, 3.0]},
    ),
    "division of floats": Example(
        "O[i] = A[i] // B[i]\nP[i] = A[i] % B[i]",
        "i=6",
        inputs={"A": [5.5, -5.5, 5.5, -5.5, 0, 7], "B": [2, 2, -2, -2, 3, 0.75]},
        tolerance=4,
    ),
    "powers": Example(
        "O[i] = A[i] ** B[i]\nP[i] = abs(A[i]) ** 1.5 + A[i] ** 3\nR[i] = 2 ** B[i]",
        "i=7",
        inputs={"A": [-2, -3, -0.5, 0, 2, 1.5, 0], "B": [3, 2, -2, 0, 0.5, -1.5, 2]},
        tolerance=4,
    ),
    "extreme arguments": Example(
        """
        O[i] = sigmoid(A[i])
        P[i] = softplus(A[i])
        R[i] = silu(A[i]) + tanh(A[i]) + erf(A[i])
        T[i] = gelu(A[i]) + elu(A[i])
        """,
        "i=8",
        inputs={"A": [1e-8, 100, -100, 1e4, -1e4, 88, -88, -np.inf]},
        tolerance=4,
    ),
    "dropout": "O[h,q,e] = where(uniform(3, h, q, e) < 0.5, X[h,q,e], 0) * 2",
    "a quotient of sums over nothing": """
        input C, F[k]: bool
        D = sum[k if F[k]](exp(Y[k] + C - max[k if F[k]](Y[k] + C)) * Y[k]) ** (-0.5)
        O[k] = where(T[k] == D, A[k], -inf)
        """,
    "a loop that an earlier one asks for the bound of": """
        index l < |k|
        param s: int = 3
        O[k] = (where(k < |k| + s, sum[l if l <= k](A[l] * Y[k]), Y[k])
            + sum[l if l < |k| + s and l >= k](D[l] * Y[k] ** 2))
        """,
    "bounds of 64 bits beside others of an axis": """
        input W[j], X[i]
        O[i] = (sum[j](exp(W[j] * X[i]))
            + where(i > 2, logsumexp[j if j <= argmax[j](W[j] * X[i])](W[j] * X[i]), 0))
        """,
    "places in periods of blocks": Example(
        """
        input Q[q,d], K[k,d], V[k,e], R[r]
        S[q,k] = Q[q,d] * K[k,d] + R[k % |r|] - (k % |r|) / 16 + (k % 48) / 32
        O[q,e] = softmax[k if k % 48 >= 16 and k <= q + 80](S[q,k]) * V[k,e]
        """,
        "; ".join(f"q=5 k=100 d=8 e=5 r={r}" for r in (4, 16, 24, 64)),
    ),
    "places in periods of blocks that slide": Example(
        """
        input Q[q,d], K[k,d], V[k,e], R[r], start[q]: int
        S[q,k] = Q[q,d] * K[k,d] + R[k % |r|]
        O[q,e] = softmax[k if start[q] <= k and k <= q + 3](S[q,k]) * V[k,e]
        """,
        "q=45 k=45 d=8 e=5 r=4",
        inputs={"start": np.arange(45) - 7},
    ),
    "names that differ in case alone": """
        O[q,o] = softmax[k if k <= q](Q[q,d] * K[k,d]) * V[k,o] + D[q,o] + v[o]
        """,
    # At these sizes a row is computed anew where another kernel would store it.
    "few columns of an aggregate in a sum over them": Example(
        """
        H[q,e] = softmax[k if k <= q](S[q,k]) * V[k,e]
        O[j,e] = softmax[q](R[j,q]) * (H[q,e] / (1 + sum[e](H[q,e] ** 2)))
        """,
        "j=1 q=2 k=1 e=2",
    ),
    # The same bound is another position along each of them.
    "bounds of two axes": Example(
        """
        input own[q]: int
        O[q,e] = sum[j, k if own[q] <= j and own[q] <= k and k < own[q] + 9](X[q,j,k] * V[k,e])
        """,
        "q=20 j=18 k=37 e=4",
        inputs={"own": np.arange(-3, 37, 2)},
    ),
    "declared extent": "index i < |j| + 2\nO[i] = i * sum[j](X[j])",
}
