"""Programs that the backends are tested with, beside the library: every part of the language
that kernels are generated for."""

from __future__ import annotations

import numpy as np

from tests.backends.element_programs import ELEMENTS
from tests.backends.running import Example

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
}
EXAMPLES = {
    n: Example(e) if isinstance(e, str) else e for n, e in {**_EXAMPLES, **ELEMENTS}.items()
}
