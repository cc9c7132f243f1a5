"""Programs that the backends are tested with, beside the library: every part of the language
that kernels are generated for, and the names that could collide with something."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from tests.backends.running import make_inputs


@dataclass(frozen=True)
class Example:
    """A program and the sizes to run it at.

    Attributes:
        text: the program.
        extents: sizes by index, `;` between runs; if there are none, those of `SIZES`.
        params: parameters that are not at their defaults.
        inputs: elements that must not be random, by input.
        tolerance: how much more error than usual is allowed, with a reason in the table.
    """

    text: str
    extents: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float = 1.0

    def drawn(self, dtype: torch.dtype = torch.float32) -> Iterator[dict[str, torch.Tensor]]:
        """Yield the inputs of each run, with those elements that must not be random."""
        given = {n: torch.as_tensor(np.asarray(a)) for n, a in self.inputs.items()}
        for seed, run in enumerate(self.extents.split(";")):
            extents = {i: int(n) for i, n in (part.split("=") for part in run.split())}
            made = make_inputs(self.text, extents or SIZES, dtype, seed=seed, params=self.params)
            yield {n: given.get(n, t).to(t.dtype) for n, t in made.items()}


# Blocks of 16 stick out of the longer axes.
SIZES = {"h": 2, "i": 19, "j": 19, "k": 37, "l": 37, "q": 19, "t": 37, "d": 5, "e": 6}
ATTENTION = "h=2 q=19 k=37 d=5 e=6"
LONG = "h=1 q=33 k=17 d=16 e=16"
TIES = np.array(
    [
        [1.0] * 37,
        [0.0, 3.0] * 18 + [3.0],
        [0.0, -0.0] * 18 + [-0.0],
        [-np.inf] * 37,
        [-np.inf] * 36 + [2.0],
        [2.0, 1.0, -np.inf] * 12 + [0.0],
        [1.0] * 20 + [0.5] + [9.0] * 16,
        [1e4, -1e4] * 18 + [1e4],
    ]
)

_EXAMPLES: dict[str, str | Example] = {
    # Masks of both rows and the loop, and a maximum that varies with less than what it bounds.
    "a mask of both rows": "input A[i,k], B[k,j], W[j], X[i]\nO[j,i] = sum[k if k < j](exp(where("
    "k < j and A[i,k] < 0, A[i,k], -inf)) * B[k,j]) + W[j] + X[i]",
    "a mask that not all phases have": "input A[i,k], B[k,j], N[i]: int\n"
    "O[i,j] = sum[k if k < N[i] or B[k,j] < 0](exp(A[i,k]))"
    " / (1 + sum[k if k < N[i] or B[k,j] < 0](exp(A[i,k])))",
    "bounds of rows, and of rows and columns": """
        O[i,k] = (where(all[l](A[i,l] < 1 and i % 2 == 0), 1, 2)
            * where(all[l](A[i,l] < 1 and i - k < 2), 1, 2) * sum[j](W[j]) - A[i,k])
        """,
    # products and sums
    "matmul": Example("C[i,j] = A[i,k] * B[k,j]", "i=17 j=19 k=35; i=1 j=2 k=1"),
    "dot product": Example("s = A[i] * B[i]", "i=37; i=1"),
    "column sums": Example("C[j] = sum[i](A[i,j])", "i=37 j=19; i=16 j=1"),
    "sums and their counts, without the columns": """
        O[q,e] = sum[k if k <= q](V[k,e])
        L[q] = sum[k if k <= q](W[q])
        """,
    "transposed": "O[j,i] = A[i,j] * 2",
    "trace": "t = sum[i](A[i,i])",
    "bilinear form": "O[i] = X[i,a] * W[a,b] * Y[i,b]",
    "gated product": "O[q,e] = sum[c](X[q,c] * W[c,e] * sigmoid(X[q,c] * G[c,e]))",
    # softmax and its relatives
    "softmax over two indices": """
        P[i,j,k] = softmax[j, k if j <= k](X[i,j,k])
        L[i,j,k] = log_softmax[j, k](X[i,j,k])
        """,
    "one tensor for all": "O[i,d] = softmax[j if j <= i](X[i,d] * X[j,d]) * X[j,d]",
    # filters, masks, reads
    "softmax at a computed position": Example(
        """
        input A[i,k]
        param s: int = 2
        D[i,k] = softmax[k if k < s](A[i,k])
        O[i,k] = D[i,2 * k % |k|] + A[i,k]
        """,
        "i=17 k=37; i=3 k=1",
    ),
    "embedding": "input tok[t]: int\nO[t,e] = W[tok[t],e] * 2",
    "guarded read": """
        input X[j]
        index i < |j|
        O[i] = where(i >= 2, X[i - 2], 0) + where(i + 3 < |i|, X[i + 3], 1)
        """,
    "reversed": "input X[j]\nindex i < |j|\nO[i] = X[|i| - 1 - i]",
    "bounds of small integers": Example(
        """
        input len[q]: int
        O[q,e] = softmax[k if k < len[q] + 250](Q[q,d] * K[k,d]) * V[k,e]
        """,
        ATTENTION,
        inputs={"len": (np.arange(19) * 13 % 256).astype(np.uint8)},
    ),
    "a window of its own for each head": """
        O[h,q,e] = softmax[k if q - k < 4 * (h + 1) and k <= q](Q[h,q,d] * K[h,k,d]) * V[h,k,e]
        """,
    "a parameter alone": "param c: float = 1.5\nD = c\nO[i] = X[i] * 2",
    "gather of two positions": Example(
        "input p[i]: int\nO[i,j] = A[p[i],p[j]]", "i=9", inputs={"p": np.arange(9) * 4 % 9}
    ),
    "a position of a position": Example(
        "input p[i]: int\nO[i] = p[p[i]]", "i=9", inputs={"p": np.arange(9) * 4 % 9}
    ),
    "guards in one another": Example(
        """
        input p[i]: int
        O[i] = where(p[i] < |j|, where(X[p[i]] > 0, X[p[i]], 0) / (1 + X[p[i]] ** 2), 0)
        P[i] = where(p[i] < |j|, where(X[p[i]] > 0, 0, 1 / X[p[i]]), 2) + 0 * sum[j](X[j])
        """,
        "i=9 j=5",
        inputs={"p": np.arange(9)},
    ),
    "histogram": Example(
        """
        input c[t]: int, Z[b]
        O[b,e] = sum[t if c[t] == b](X[t,e]) + 0 * Z[b]
        """,
        "t=37 b=5 e=3",
        inputs={"c": np.arange(37) * 3 % 5},
    ),
    # several aggregates in one another
    "heads summed": Example(
        """
        A[h,q,e] = softmax[k](Q[h,q,d] * K[h,k,d]) * V[h,k,e]
        O[q,f] = A[h,q,e] * W[h,e,f]
        """,
        tolerance=4,
    ),
    "inner filter": "O[q,e] = softmax[k](sum[d if d <= q](Q[q,d] * K[k,d])) * V[k,e]",
    # other aggregates
    "several indices": """
        s = sum[i,j](A[i,j])
        m = max[i,j](A[i,j])
        L[i] = logsumexp[j,k](B[i,j,k])
        """,
    "extremes of a filter": """
        O[q] = max[k if k <= q - 5](A[q,k])
        P[q] = min[k if k <= q - 5](A[q,k])
        R[q] = argmax[k if k > q](A[q,k])
        """,
    "one field": """
        monoid Largest(m) = unit (-inf), combine (maximum(m, m'))
        H[i] = Largest[t](x[t,i]).m
        """,
    "prod, min, all, any": """
        A[i] = prod[k if k < 5](X[i,k])
        B[i] = min[k](X[i,k])
        C[i] = all[k](X[i,k] < 2)
        D[i] = any[k if k > i](X[i,k] > 2)
        """,
    "argmax": "A[i] = argmax[k](X[i,k])",
    "argmax of integers": """
        input N[i,k]: int
        A[i] = argmax[k](N[i,k] // 2)
        B[i] = argmin[k if k > i](N[i,k])
        """,
    "argmax with ties and -inf": Example(
        """
        A[i] = argmax[k](X[i,k])
        B[i] = argmin[k](X[i,k])
        C[i] = argmax[k if k > 2](where(k == 9 + i, X[i,k], -inf))
        """,
        "i=8 k=37",
        inputs={"X": TIES},
    ),
    "top with a filter": """
        index r < 4
        T[i,r] = top[k -> r if k < i](2 * X[i,k] + Y[i])
        A[i,r] = argtop[k -> r if k < i](2 * X[i,k] + Y[i])
        """,
    "top with ties and -inf": Example(
        """
        index r < 4
        T[i,r] = top[k -> r](X[i,k])
        A[i,r] = argtop[k -> r](X[i,k])
        """,
        "i=8 k=37",
        inputs={"X": TIES},
    ),
    "top along with softmax": Example(
        """
        index r < 3
        S[h,q,k] = Q[h,q,d] * K[h,k,d] / sqrt(|d|)
        P[h,q,k] = softmax[k](S[h,q,k])
        O[h,q,e] = P[h,q,k] * V[h,k,e]
        T[h,q,r] = top[k -> r](P[h,q,k])
        A[h,q,r] = argtop[k -> r](P[h,q,k])
        B[h,q] = argmax[k](P[h,q,k])
        return O, T, A, B
        """,
        f"{ATTENTION}; {LONG}; h=1 q=3 k=2 d=5 e=6",
    ),
    "experts": Example(
        """
        index r < 2
        L[t,x] = X[t,d] * G[x,d]
        W[t,r] = softmax[r](top[x -> r](L[t,x]))
        O[t,e] = sum[r](W[t,r] * E[argtop[x -> r](L[t,x]), e])
        """,
        "t=19 x=9 d=5 e=6",
        inputs={"E": np.arange(54.0).reshape(9, 6) / 54},
    ),
    "a fold within a sum, with a filter of its own elements": """
        O = sum[l](Y[l] * max[j if j != l and W[j] <= 0](W[j]))
        """,
    "prefix sum": "C[i,k] = sum[..k](X[i,k])",
    "prefixes with a filter": Example(
        """
        input N[i,k]: int
        C[i,k] = sum[..k if X[i,k] > 0](exp(3 * X[i,k]) * X[i,k])
        P[i,k] = prod[..k](cos(X[i,k]))
        B[i,k] = argmin[..k if N[i,k] > 1](X[i,k])
        D[i,k] = sum[..k](N[i,k] * N[i,k]) - max[..k](N[i,k])
        """,
        "i=3 k=37; i=17 k=1",
        tolerance=4,
    ),
    "prefixes of prefixes": Example(
        """
        A[t] = sum[..t](X[t])
        B[t,e] = max[..t](A[t] * Y[t,e]) - mean[..t](X[t])
        return B
        """,
        tolerance=4,
    ),
    "an infinite number before a count of nothing": """
        O[k] = -inf * Y[k] * sum[i if not -inf < X[i]](1)
        """,
    "prefixes from each element on": Example(
        """
        index l < |k|, m < |k|
        O[i] = sum[k](X[i,k] * sum[l if k <= l](exp(X[i,l] * max[m if m <= l](X[i,m]))))
        """,
        "i=2 k=5; i=3 k=37",
    ),
    "prefixes within sums": Example(
        f"O[i,k] = {'sum[..k](' * 6}X[i,k]{')' * 6}", "i=2 k=4", tolerance=4
    ),
    "running softmax": Example(
        """
        S[t] = 50 * K[t,d] * W[d]
        L[t] = logsumexp[..t](S[t])
        O[t,e] = sum[..t](exp(S[t]) * V[t,e]) / sum[..t](exp(S[t]))
        Z[e] = sum[t](V[t,e])
        """,
        tolerance=16,
    ),
    "affine maps": Example(
        """
        monoid Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')
        H[t,i] = Affine[..t](g[t], x[t,i]).u
        """,
        tolerance=4,
    ),
    "affine maps with a filter": Example(
        """
        monoid Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')
        H[i] = Affine[t if t != 5 and t < i](g[i,t], x[t]).u
        G = Affine[t if t > 200](g[0,t], x[t]).a
        """,
        "t=37 i=35; t=1 i=2",
        tolerance=4,
    ),
    "affine maps over a union": Example(
        """
        monoid Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')
        param s: int = 5
        H[i] = Affine[k if i - k < 4 and k <= i or k < s](g[i,k], x[k]).u
        G[i] = Affine[k if k > 25 or k < i or k == i + 9](g[i,k], x[k]).u
        """,
        tolerance=4,
    ),
    "affine maps after each element": Example(  # from the last segment to the first
        """
        monoid Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')
        S[i] = sum[j if j != 20](Affine[l if l != 20 and j < l](cos(g[l]), x[i]).a * y[j])
        U[i] = Affine[j if j != 20](cos(g[j]), x[i]).u
        """,
        "i=5 j=37 l=37",
        tolerance=4,
    ),
    "row by row": Example(
        """
        monoid Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')
        A[i] = Affine[j, k if X[i,j,k] > 0](cos(X[i,j,k]), X[i,j,k]).u
        """,
        "i=3 j=5 k=17",
    ),
    "standard monoids": Example(
        """
        M[i] = Welford[k](1, X[i,k], 0).mu
        V[i] = Welford[k](1, X[i,k], 0).m2 / Welford[k](1, X[i,k], 0).n
        H[i] = Affine[k](cos(X[i,k]), X[i,k]).u
        R[i] = Matrix[k](cos(X[i,k]), sin(X[i,k]), -sin(X[i,k]), cos(X[i,k])).b
        A[i] = ArgMax[k](X[i,k], k).i - ArgMin[k](X[i,k], k).i
        S[i] = SE[k](1, 100 * X[i,k]).m + log(SE[k](1, 100 * X[i,k]).v)
        L[i] = LogAdd[k](1000 * X[i,k])
        """,
        "i=5 k=37; i=2 k=1",
        tolerance=4,
    ),
    "standard monoids with a filter": Example(
        """
        M[i] = Welford[k if k < i](1, 10 + X[i,k], 0).mu
        V[i] = Welford[k if k < i](1, 10 + X[i,k], 0).m2
        L[i] = LogAdd[k if X[i,k] > 0](X[i,k])
        """,
        tolerance=16,
    ),
    # element by element
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
EXAMPLES = {n: Example(e) if isinstance(e, str) else e for n, e in _EXAMPLES.items()}


# Names that mean something to Python, torch, Triton, or in an emitted file.
HARMLESS_NAMES = (
    *("lambda", "import", "class", "async", "await", "match", "None", "True", "self", "return_"),
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
