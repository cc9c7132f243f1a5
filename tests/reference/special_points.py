"""Programs at the special points of `monocomp/reference/semantics.md`, and what they read.

Masks of -inf for a key, a row and all; filters that admit nothing; gates; softmax in all its forms
and what is made of its weights; zeros, quotients of which are 0; exponents of any size; elements
that no one looks at and that are no numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

INF, NAN = math.inf, math.nan
ROWS = [[1.0, 2.0, 3.0], [3.0, 4.0, 5.0], [0.1, -0.2, 0.3]]

INPUTS: dict[str, Any] = {
    "S": ROWS,
    "R": ROWS[::-1],
    "Mask": [[0.0, -INF, 0.0], [-INF] * 3, [0.0] * 3],
    "N": [[-INF, -INF], [1.0, -INF], [1.0, 2.0]],
    "H": [[2.0, -INF], [3.0, -INF], [0.5, 1.0]],
    "Z": [[1.0, -1.0, 0.0], [0.0] * 3, [1.0, 2.0, 3.0]],
    "T": [0.0, 2.0, 4.0],
    "V": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
    "W": [0.0, 1.0, 2.0],
    "Off": [-INF, 0.0, 1.0],
    "Bad": [[NAN, 2.0], [INF, 4.0], [5.0, 6.0]],  # where n is 2, its first rows count
    "n": np.array([0, 2, 3]),
    "Yes": np.array([False, True, True]),
    "P": np.array([2, 0, 1]),
    "Kept": [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0]],
    "Far": [1e4, 1e4, 9999.0],
    "Large": [[900.0, 0.0, 1.0], [85.0, -25.0, -24.0], [-INF, 0.0, 1.0]],
    "A": [1000.0, -1000, 1000, -1000, 0, 1, -1, 40, -40, 700, -710, 0.5],
    "B": [1000.0, -1000, -1000, 1000, 0, 2, 1, -40, 40, -700, 710, 3],
}

# One softmax in many forms: C stands for the filter, L for the logit.
SOFTMAX = {
    "naive": "O[q,e] = sum[k if C](exp(L) * V[k,e]) / sum[k if C](exp(L))",
    "divided first": "Z0[q] = sum[k if C](exp(L))\nO[q,e] = sum[k if C](exp(L) / Z0[q] * V[k,e])",
    "power": "O[q,e] = sum[k if C](exp(L) * V[k,e] * sum[k if C](exp(L)) ** -1)",
    "safe": "m[q] = max[k if C](L)\nE[q,k] = exp(L - m[q])\nZ0[q] = sum[k if C](E[q,k])\n"
    "O[q,e] = sum[k if C](E[q,k] / Z0[q] * V[k,e])",
    "lazy": "m[q] = max[k if C](L)\n"
    "O[q,e] = sum[k if C](exp(L - m[q]) * V[k,e]) / sum[k if C](exp(L - m[q]))",
    "logsumexp": "z[q] = logsumexp[k if C](L)\nO[q,e] = sum[k if C](exp(L - z[q]) * V[k,e])",
    "log of a sum": "m[q] = max[k if C](L)\nz[q] = m[q] + log(sum[k if C](exp(L - m[q])))\n"
    "O[q,e] = sum[k if C](exp(L - z[q]) * V[k,e])",
    "softmax": "O[q,e] = softmax[k if C](L) * V[k,e]",
    "log_softmax": "O[q,e] = sum[k if C](exp(log_softmax[k if C](L)) * V[k,e])",
    "entropy": "A[q,k] = softmax[k if C](L)\nO[q] = -sum[k](A[q,k] * log(A[q,k]))",
    "entropy of logarithms": "O[q] = -sum[k if C](softmax[k if C](L) * log_softmax[k if C](L))",
    "divergence": "A[q,k] = softmax[k if C](L)\nB[q,k] = softmax[k if C](2 * L)\n"
    "O[q] = sum[k](A[q,k] * (log(A[q,k]) - log(B[q,k])))",
    "cross entropy": "O[q] = logsumexp[k if C](L) - S[q,P[q]]",
    "variance": "M[q,e] = softmax[k if C](L) * V[k,e]\n"
    "O[q,e] = sum[k if C](exp(L) * (V[k,e] - M[q,e]) ** 2) / sum[k if C](exp(L))",
    "largest weight": "O[q] = max[k if C](softmax[k if C](L))",
    "weights from a key on": "index j < |k|\nO[q,j] = sum[k](softmax[k if C and k >= j](L))",
    "sink": "O[q,e] = sum[k if C](exp(L) * V[k,e]) / (exp(T[q]) + sum[k if C](exp(L)))",
}
# The same with logarithms and sums that are given with their definition, over keys and queries.
GIVEN = {
    "given logarithm": "input Z0[q] = logsumexp[k if C](L)\n"
    "O[q,e] = sum[k if C](exp(L - Z0[q]) * V[k,e])",
    "given log of a sum": "input Z0[q] = log(sum[k if C](exp(L)))\n"
    "O[k,e] = sum[q if C and q >= 0](exp(L - Z0[q]) * V[q,e])",
    "given sum": "input Z0[q] = sum[k if C](exp(L))\nO[q,e] = sum[k if C](exp(L) / Z0[q] * V[k,e])",
    "given sum, over queries": "input Z0[q] = sum[k if C](exp(L))\n"
    "O[k] = sum[q if C and q >= 0](exp(L) / Z0[q] * (V[q,0] - T[q]))",
}
HEAD = "input S[q,k], Mask[q,k], V[k,e], T[q], Far[q], P[q]: int, n[q]: int\n"
MASKS = {
    "filter": ("k < n[q]", "S[q,k]"),
    "where": ("k >= 0", "where(k < n[q], S[q,k], -inf)"),
    "mask": ("k >= 0", "(S[q,k] + Mask[q,k])"),
    "large": ("k < n[q]", "(Far[q] * S[q,k] + Mask[q,k])"),
}


def softmax(form: str, mask: str) -> str:
    """A form with a mask."""
    condition, logit = MASKS[mask]
    text = (SOFTMAX | GIVEN)[form].replace("C", condition).replace("L", logit)
    read = (part for part in HEAD[6:].strip().split(", ") if part.split("[")[0] + "[" in text)
    return f"input {', '.join(read)}\n{text}\nreturn O"


AFFINE = "monoid Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')\n"
SE = (
    "monoid SE(v, m) = unit (0, -inf), combine ("
    "exp(m - where(maximum(m, m') == -inf, 0, maximum(m, m'))) * v"
    " + exp(m' - where(maximum(m, m') == -inf, 0, maximum(m, m'))) * v', maximum(m, m'))\n"
)
LOG_ADD = "monoid LogAdd(x) = unit -inf, combine log(exp(x) + exp(x'))\n"
WEIGHTS = "P0[q,k] = softmax[k](S[q,k] + Mask[q,k])\nP1[q,k] = softmax[k](R[q,k] + Mask[q,k])\n"
SCALED_MASK = "softmax[k]((sum[d](V[q,d] * V[k,d]) + Mask[q,k]) * T[q])"
SHARE = "sum[k if W[k] > 0](softmax[k](Large[q,k]))"

PROGRAMS = [
    # Masks of whole rows, of logits that are not each other's, and weights of 0.
    # No exponent is left of these.
    "O[q,k] = log_softmax[k if k == 1](S[q,k] + Mask[q,k])",
    "O[q,k] = W[q] / sigmoid(2 * Mask[q,k])",
    "O[q,k] = softmax[k](S[q,k] + Off[q])",
    "O[e,q,k] = softmax[k](R[q,e] * S[q,k] + exp(V[e,0]) * Mask[q,k])",
    "O[q,e] = softmax[e](sum[k](Mask[q,k] * exp(V[k,e])))",
    "O[q,k] = softmax[k if 0 < k](S[q,k - 1] / W[k])",
    # A condition on rows looks at what the row before holds, where there is one.
    "O[q] = sum[k, e if 0 < e and (k == 0 or W[k - 1] < 9)](exp(S[q,k]) * V[k,e])",
    "O[q] = sum[k, e if 0 < e and where(0 < k, W[k - 1], 0) < 9](exp(S[q,k]) * V[k,e])",
    "O[q] = sum[k](maximum(exp(S[q,k]) * W[k] ** 2, exp(-inf)))",
    "O[q,k] = log_softmax[k](S[q,k] + Off[q])",
    "O[q,e] = softmax[k](S[q,k] + Off[q]) * V[k,e]",
    f"O[q,e] = {SCALED_MASK} * V[k,e]",
    "O[q] = exp(max[k if k < q](S[q,k]))",
    "O[q] = exp(S[q,0] - max[k](N[q,k]) * 0)",
    "O[q] = exp(max[k](N[q,k]))",
    "O[q] = min[k if k < q](softmax[k](S[q,k]))",
    "O[q] = T[q] * logsumexp[k](N[q,k])",
    "O[q] = log(exp(max[k](N[q,k])) + exp(Off[q]))",
    "O[q,k] = sigmoid(S[q,k] + Mask[q,k])",
    "O[q,k] = softplus(S[q,k] + Mask[q,k])",
    *(
        f"O[q] = {gate}({masked})"
        for gate in ("sigmoid", "softplus", "silu", "gelu")
        for masked in (
            "max[k if k < q](S[q,k])",
            "where(T[q] > 0, S[q,0], -inf) - T[q]",
            "logsumexp[k if k < q](S[q,k]) - T[q]",
        )
    ),
    "O[q,e] = sum[k](exp(Mask[q,k]) * V[k,e]) / (exp(Off[q]) + sum[k](exp(Mask[q,k])))",
    "O[q] = T[q] * max[k](-2 * k) + S[q,0] * max[k](-1) + min[k](-n[k])",
    "O[q] = 1 / (1 + sum[k](exp(N[q,k] - max[k](N[q,k]))))",
    "O[q] = 1 / (1 + exp(max[k if k < q](S[q,k]) - min[k if k < q](S[q,k])))",
    "O[q] = argmax[k](S[q,k] + Off[q])",
    "O[q] = argmax[k](exp(Mask[q,k]))",
    "index r < 2\nO[q,r] = argtop[k -> r](S[q,k] + Mask[q,k])",
    "index r < 2\nO[q,r] = top[k -> r](S[q,k] + Mask[q,k])",
    "index r < 2\nI[q,r] = argtop[k -> r](S[q,k] + Mask[q,k])\n"
    "O[q,e] = softmax[r](top[k -> r](S[q,k] + Mask[q,k])) * V[I[q,r],e]",
    "index r < 2\ninput P[q]: int\nO[q] = sum[r](exp(top[k -> r](S[q,k]) + T[P[q]] - W[q]) * r)",
    "index r < 2\nO[j] = T[j] + sum[k]((W[k] - max[k](W[k])) * sum[r](exp(top[k -> r](W[k]))))",
    "O[q] = max[l if q - l < 2](S[q,l] * sum[k](softmax[k if k <= l](R[q,k])))",
    "input Yes[k]: bool\nO[q] = max[k if Yes[k]](S[q,k]) - max[k if not Yes[k]](S[q,k])",
    "O[q] = sum[k](log_softmax[k](S[q,k] + Mask[q,k]) * softmax[k](R[q,k] + Mask[q,k]))",
    "O[q,e] = softmax[k](softmax[k if k < q](S[q,k])) * V[k,e]",
    "O[q,e] = softmax[k](S[q,k] + Mask[q,k] + where(k == q + 1, 0, -inf)) * V[k,e]",
    "O[q] = sum[k](exp(softmax[k if k < q](S[q,k])))",
    "O[q] = sum[k](maximum(W[k] * softmax[k](Mask[q,k]), softmax[k](Mask[q,k])))",
    "O[i] = sum[k](softmax[k](N[i,k]) * log_softmax[k](H[i,k]))",
    "O[i] = sum[k](softmax[k](N[i,k]) * log(softmax[k](H[i,k])))",
    "O[i,k] = softmax[k](N[i,k]) * log_softmax[k](H[i,k])",
    "O[i] = max[k](softmax[k](N[i,k]) * log_softmax[k](H[i,k]))",
    "O[i,j] = sum[k](softmax[k](N[i,k]) * log_softmax[k](H[j,k]))",
    "O[i] = sum[k](softmax[k](N[i,k]) * (log_softmax[k](H[i,k]) - log_softmax[k](2 * H[i,k])))",
    "C[i,k] = sum[..k](H[i,k])\nO[i] = sum[k](softmax[k](N[i,k]) * log_softmax[k](C[i,k]))",
    "O[i] = sum[k](softmax[k](N[i,k]) * log_softmax[k](log(exp(H[i,k]) + exp(N[i,k] - 1))))",
    "O[i] = sum[k](exp(log_softmax[k](N[i,k]) - log_softmax[k](H[i,k])))",
    "O[i] = log(sum[k](softmax[k](N[i,k]) ** 2 / softmax[k](H[i,k])))",
    f"{WEIGHTS}O[q,k] = P0[q,k] / P1[q,k]",
    f"{WEIGHTS}O[q] = sum[k](P0[q,k] * (log(P0[q,k]) - log(P1[q,k])))",
    f"{WEIGHTS}O[q] = sum[k](P0[q,k] * log(P0[q,k] / P1[q,k]))",
    f"{WEIGHTS}O[q] = sum[k](minimum(P0[q,k] / P1[q,k], 2))",
    "P0[q,k] = softmax[k](S[q,k] + Mask[q,k])\n"
    "O[q] = sum[k](P0[q,k] * log_softmax[k](S[q,k] + Mask[q,k]) ** 2)",
    "O[q] = sum[k](exp(where(T[q] > 0, W[k], -inf)) * sum[k](exp(W[k]) * S[q,k]))"
    " / sum[k](exp(where(T[q] > 0, W[k], -inf)))",
    *(
        f"O[q] = {x} * T[q]"
        for x in (
            "sqrt(max[k](softmax[k](S[q,k] + Mask[q,k])))",
            "exp(2 * max[k](S[q,k] + Mask[q,k])) / sum[k](exp(S[q,k] + Mask[q,k]))",
            "max[k](exp(S[q,k] + Mask[q,k])) / sqrt(sum[k](exp(2 * (S[q,k] + Mask[q,k]))))",
        )
    ),
    # Filters that admit nothing, and axes of which nothing is left.
    "O[q] = sum[k if k < q](T[k] * S[q,k]) / sum[k if k < q](T[k])",
    "O[q] = mean[k if k < q](S[q,k]) + var[k if k < q](S[q,k])",
    "O[q] = T[q] * mean[k if k < q](W[k]) / mean[k if k < q](W[k])",
    "O[q] = var[k if k < q](S[q,k]) / var[k if k < q](S[q,k]) + mean[k if k < q](T[k])",
    "O[q] = var[k](R[q,k] - maximum(T[q], R[q,k]))",
    "O[q] = sum[k if S[q,k] > 3](1) / mean[k if S[q,k] > 3](2)",
    "O[q] = prod[k if k < q](S[q,k]) + max[k if k <= q](S[q,k])",
    "O[q] = min[k if k < q](S[q,k])",
    "O[q,k] = silu(Off[q]) + gelu(Off[q]) + silu(S[q,k] + Mask[q,k]) + gelu(S[q,k] + Mask[q,k])",
    "O[q] = argmax[k](S[q,k] + max[j if j < q](R[q,j]))",
    "O[q] = max[k if k == q + 1](S[q,k])",
    "O[i] = max[k](N[i,k] - mean[k](N[i,k]))",
    "O[q] = argmin[k if k == q + 1](S[q,k]) + sum[k if k > q and k <= q + 1](exp(S[q,k]))",
    "O[q] = var[k if S[q,k] > 0](W[k])",
    "input P[k]: int\nO[q] = var[k if S[q,k] > 0](W[P[k]] - T[k])",
    "O[q] = where(any[k if k < q](S[q,k] > 3), 1, 2) + where(all[k if k < q](S[q,k] > 3), 4, 8)",
    "O[q] = max[k if k < q](exp(Off[q]) * S[q,k])",
    *(
        f"O[q] = sum[k if k < q](T[k] {x})"
        for x in (
            "* (1 + sum[e](Bad[q,e]))",
            "/ sum[e](Bad[q,e])",
            "* max[l](exp(900 * S[q,l]))",
            "* exp(sum[e](Bad[q,e]))",
        )
    ),
    *(
        f"O[q] = {fold}[e](sum[k if k < q](T[k]) * {x})"
        for fold in ("max", "sum")
        for x in ("Bad[q,e]", "exp(Bad[q,e] * 900)")
    ),
    "O[q] = log(1 + sum[k if k < q](exp(-(S[q,k] ** 2))))",
    "O[q,e] = softmax[k](S[q,k] * mean[l if l < q](R[q,l])) * V[k,e]",
    "O[q] = logsumexp[k if k > 2](W[k] + log(sum[k](exp(W[k] + T[0]) * S[q,1])))",
    "O[q] = W[q] * sum[k](T[k] * (T[k] - tanh(W[q] / sum[k](T[k]))) ** 2)",
    "O[q,k] = W[k] * (T[q] - log(1 + exp(max[j if j < q](S[q,j]))))",
    *(
        f"O[q,k] = ({x}) / ({x}) + T[q] * ({x}) / ({x})"
        for x in (
            "softmax[k if k < q](S[q,k])",
            "softmax[k](S[q,k] + Mask[q,k])",
            "sum[..k if W[k] > 0](S[q,k])",
            "max[k](exp(Mask[q,k])) + 0 * S[q,k]",
            "tanh(var[j if j < q](T[j])) + 0 * S[q,k]",
        )
    ),
    # -inf beside what is unspecified, as a negative multiple of -inf is, and 0 times that.
    "O[q,k] = logsumexp[k if k < q](S[q,k]) + max[k if k < q](S[q,k]) * R[q,k]",
    "O[q] = sum[k](R[q,k] * log_softmax[k if k < q](S[q,k]))",
    "O[q] = sum[j]((W[j] - max[j](W[j])) * logsumexp[k](S[q,k] + Mask[q,k])"
    " + max[k](S[q,k] + Mask[q,k]))",
    "O[q] = prod[k](W[k] * logsumexp[j if j < q](S[q,j]))",
    "O[k] = prod[..k](W[k] * log(W[k] - 1.5))",
    "O[q,k] = sum[..k](R[q,k] * logsumexp[j if j < q](S[q,j]))",
    # Such masks that stand in no exponent any more, once a sum is taken out of it.
    *(
        f"O[q] = {x}"
        for x in (
            "log(exp(Off[q]) * (W[q] - 1.5))",
            "log(exp(Off[q]) * (1.5 - W[q]) / (W[q] - 1.5))",
            "where(q < 2, log(exp(Off[q]) * (W[q] - 1.5)), -inf)",
            "log(sum[k](exp(Off[q] + where(k == q, 0, -inf)) * log_softmax[k](W[k])))",
            "max[k](Off[q] + log(W[k] - 1.5))",
            "sum[r](top[k -> r](Off[q] + log(W[k] - 1.5)))\nindex r < 1",
        )
    ),
    # Gates, recurrences and users' monoids.
    f"{AFFINE}O[q,k] = Affine[..k](exp(Mask[q,k]), S[q,k]).u",
    f"{AFFINE}O[q,k] = Affine[..k](sigmoid(S[q,k] + Mask[q,k]), T[k]).u",
    f"{AFFINE}O[q] = Affine[k](W[k], S[q,k]).u",
    f"{AFFINE}O[q,e] = Affine[k](W[k], sum[l](S[q,l] * R[k,l]) * V[k,e]).u",
    "O[q,k] = S[q,k] * sum[j if j <= k](exp(sum[l if j < l and l <= k](Mask[q,l])) * S[q,j])",
    "O[q] = exp(sum[k](S[q,k] + Mask[q,k]))",
    f"{SE}O[q] = SE[k](W[k], S[q,k] + Off[q]).v",
    f"{SE}O[q] = SE[k](W[k], S[q,k] + Mask[q,k]).v / SE[k](1, S[q,k] + Mask[q,k]).v",
    f"{LOG_ADD}O[q,k] = exp(S[q,k] + Mask[q,k] - LogAdd[k](S[q,k] + Mask[q,k]))",
    "monoid Sum(x) = unit 0, combine x + x'\n"
    "O[q] = Sum[k](exp(S[q,k] + Mask[q,k]) * W[k]) / Sum[k](exp(S[q,k] + Mask[q,k]))",
    # What nobody looks at may be no number, out of range, or divided by 0.
    "O[b] = sum[k](where(T[b] > 0, S[b,k] / T[b], 0))",
    "O[b] = logsumexp[k](where(T[b] > 0, S[b,k] / T[b], 0))",
    "input n[b]: int\nO[b] = sum[k if k < n[b]](S[b,k] / n[b])",
    "input n[b]: int\nO[b] = max[k if k < n[b]](S[b,k] * log(n[b]))",
    "O[q] = sum[k if Z[q,k] != 0](S[q,k] / Z[q,k])",
    "O[q,e] = sum[k if W[k] > 0](S[q,k] / W[k] * V[k,e])",
    "O[q,e] = softmax[k if k > 1](S[q,k]) * Bad[k,e]",
    "O[q,e] = sum[k if k > 1](exp(S[q,k]) * Bad[k,e]) / sum[k if k > 1](exp(S[q,k]))",
    "O[q,e] = sum[k](where(k > 1, Bad[k,e], 0) * S[q,k])",
    "O[e] = var[k if k > 1](Bad[k,e])",
    "O[q] = logsumexp[k if k > 1](Bad[k,0] * S[q,k])",
    "O[q,e] = sum[k](where(Mask[q,k] > -1, (Mask[q,k] + 1) * V[k,e], 0))",
    "O[q,e] = sum[k](where(k < q, softmax[k](Z[q,k] / T[q]), 0) * V[k,e])",
    "O[q] = T[q] * sum[k if k > 0](S[q,k - 1] * W[k])",
    "O[q] = sum[k if k > 0 and T[k - 1] > 0](S[q,k])",
    "O[q,k] = where(k == 0 or T[k - 1] <= 0, S[q,k], 7)",
    # Quotients of zeros are 0.
    "O[i] = S[i,0] * W[i] / W[i]",
    "O[q] = where(sum[k if k < q](Z[q,k]) / sum[k if k < q](Z[q,k] ** 2) <= 5, 1, 7)",
    "O[q] = where(mean[k](where(k < q, S[q,k], 0)) / W[q] < 1, 1, 7)",
    "O[i] = W[i] ** 2 / abs(W[i])",
    "O[i] = W[i] * (W[i] - 1) ** (-1.5)",
    "O[i] = where(W[i] * S[i,0] / W[i] == S[i,0], 1, 7)",
    "O[i] = where(S[i,0] * (1 / (W[i] + 1)) < 2, 1, 7)",
    "O[q,k] = exp(S[q,k]) * Z[q,k] ** 2 / sum[k](exp(S[q,k]) * Z[q,k] ** 2)",
    # Exponents of any size, of which the largest may not count.
    *(
        f"O[q] = {x}"
        for x in (
            f"log({SHARE})",
            f"{SHARE} ** 0.01",
            f"log({SHARE} + exp(-2000 + T[q]))",
            f"{SHARE} / ({SHARE} + exp(-2000 + T[q]))",
            f"exp(900 - 3 * T[q]) * {SHARE}",
            "logsumexp[k if k > 0](log_softmax[k](Large[q,k]))",
            "logsumexp[k](where(W[k] > 0, log_softmax[k](Large[q,k]), -inf))",
            "log(sum[k if W[k] > 0](exp(Large[q,k])) / sum[k](exp(Large[q,k])))",
            "log(sum[k](W[k] * softmax[k](Large[q,k])))",
            "sum[k](exp(Large[q,k]) * W[k] * V[k,0]) / sum[k](exp(Large[q,k]) * W[k])",
            "log(sum[k](exp(Large[q,k]) * W[k]))",
            "sum[k](((exp(Large[q,k]) - 1) / (exp(Large[q,k]) + 1)) ** 2)",
            "sum[k](2 ** (2 * Large[q,k]) / (1 + 2 ** (2 * Large[q,k])))",
            "max[k if k != q](softmax[k](100 * S[q,k]))",
            "max[k if W[k] > 0](W[k] * exp(Far[q]) / (exp(Far[q]) + exp(T[q]) + 1))",
            "sum[k](T[k] * softmax[k](W[k] / (1 + sum[l](exp(Far[l] - Far[q])))))",
            "sum[k](relu(1 - exp(Large[q,k])) ** 2)",
            "sum[k](relu(1 - exp(-Large[q,k])) * exp(-Large[q,k]))",
            "log(exp(Far[q]) * W[q] ** 2 + exp(T[q]))",
            "log(maximum(exp(Far[q]) * W[q] ** 2, exp(T[q])))",
            "where(exp(Far[q]) * W[q] > exp(T[q]) * (T[q] - 1), 1, 7)",
            "exp(Far[q]) / maximum(exp(Far[q]) * S[q,0] ** 2, exp(T[q]))",
            "sqrt(sum[k](exp(Large[q,k]) * V[k,0]) / (1 + sum[k](exp(Large[q,k]))))",
            "exp(0.1 * T[q] + max[l](Far[l]) - Far[q])",
            "logsumexp[k](exp(90 * W[k] + 2 * log(S[q,k] ** 2)))",
            "log(1 + max[k if k < q](exp(Far[k] + S[q,k])))",
            "log(sqrt(sum[k](exp(Large[q,k]))))",
            "log(max[k](exp(Large[q,k])))",
            "sum[k](Large[q,k] * exp(Large[q,k])) / sum[k](exp(Large[q,k]))",
            "log(exp(logsumexp[k](Large[q,k])) + exp(logsumexp[k](S[q,k])))",
            "sum[k if softmax[k](Large[q,k]) > 0.1](T[k])",
            "sum[k](T[k] * sigmoid(Large[q,k] + W[q]))",
            "sum[k](T[k] * sigmoid(Large[q,k] - log(|k|)))",
            "exp(Far[q]) * sum[k](sigmoid(-Far[q] - T[k] ** 2))",
            "sum[k](sigmoid(S[q,k] - Far[k]) * T[k]) / sum[k](sigmoid(S[q,k] - Far[k]))",
            "sum[k](T[k] * softmax[k](softmax[k](Large[q,k])))",
        )
    ),
    "A[k] = sum[l](softmax[l](W[l] + Off[k]) * (W[l] <= 0))\n"
    "O = sum[k if Off[k] > -inf](sum[q](R[q,k] * T[q]) * exp(A[k]))",
    "O[q,k] = softmax[k](exp(31.7 * W[k] + S[q,k]))",
    "O[q,k] = softmax[k](S[q,k] * sum[k](exp(8 * S[q,k]) * S[q,k])) + T[q]",
    "O[q,k] = relu(exp(Large[q,k]) - 1) / sum[k](abs(exp(Large[q,k]) - 1))",
    "O[k] = softmax[k](exp(W[k]))",
    # Quotients of exponentials and their relatives, far from 0.
    *(
        f"O[i] = {x}"
        for x in (
            *("(exp(2*A[i])-1)/(exp(2*A[i])+1)", "(1-exp(-2*A[i]))/(1+exp(-2*A[i]))"),
            *("(exp(A[i])-exp(-A[i]))/(exp(A[i])+exp(-A[i]))", "exp(A[i])/(1+exp(A[i]))"),
            *("1/(1+exp(-A[i]))", "1-1/(1+exp(A[i]))", "exp(-A[i])/(1+exp(-A[i]))**2"),
            *("exp(A[i])/(1+exp(A[i]))**2", "4/(exp(A[i])+exp(-A[i]))**2", "log(1+exp(A[i]))"),
            *("1-((exp(2*A[i])-1)/(exp(2*A[i])+1))**2", "log(1+exp(-A[i]))+A[i]"),
            *("log(exp(A[i])+exp(-A[i]))", "A[i]*exp(A[i])/(1+exp(A[i]))", "A[i]/(1+exp(-A[i]))"),
            *("1-2/(exp(2*A[i])+1)", "(exp(4*A[i])-1)/(exp(4*A[i])+2*exp(2*A[i])+1)"),
            *("(2*exp(A[i])-5)/(3*exp(A[i])+7)", "exp(2*A[i])/(exp(2*A[i])+exp(A[i])+1)"),
            *("(exp(A[i])-exp(B[i]))/(exp(A[i])+exp(B[i]))", "exp(A[i])/(exp(A[i])+exp(B[i]))"),
            *("exp(A[i]-B[i])/(1+exp(A[i]-B[i]))", "sqrt(exp(2*A[i])/(1+exp(2*A[i])))"),
            *("(exp(A[i])-1)**3/(exp(A[i])+1)**3", "A[i]*tanh(log(1+exp(A[i])))"),
            *("1/(exp(A[i])+2+exp(-A[i]))", "log(1+exp(A[i]))-log(1+exp(-A[i]))"),
            *("log((1+exp(A[i]))/(1+exp(-A[i])))", "exp(-A[i]**2)/(exp(-A[i]**2)+1)"),
            *("(exp(A[i])+exp(-A[i]))/(exp(2*A[i])+1)*exp(A[i])", "1/(1+2**A[i])"),
            *("1/(1+exp(A[i]))-1/(1+exp(-A[i]))", "(3**A[i]-1)/(3**A[i]+1)"),
            *("2/(2+3*exp(A[i]))", "log(2+3*exp(A[i]))", f"1/(0.{'0' * 37}1+exp(A[i]))"),
        )
    ),
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
]

# Of these the first derivatives are compared, by all floats that they read.
DIFFERENTIATED = [
    *(softmax(form, ("filter", "mask")[n % 2]) for n, form in enumerate(SOFTMAX)),
    *(softmax(form, "mask") for form in ("naive", "safe", "entropy")),
    "O[q] = sum[k if Mask[q,k] > -1](log_softmax[k](S[q,k] + Mask[q,k]) * T[k])",
    "O[q] = logsumexp[k](S[q,k] + Mask[q,k]) * T[q]",
    f"O[q,e] = {SCALED_MASK} * V[k,e]",
    "O[q] = sum[k](sigmoid(S[q,k] + Mask[q,k]) * W[k])",
    "O[q] = sum[k if k < q](T[k] * S[q,k]) / sum[k if k < q](T[k])",
    "O[q] = mean[k if k < q](S[q,k]) + var[k if k < q](S[q,k])",
    "O[q] = sum[k](softmax[k](S[q,k] + Mask[q,k]) * log_softmax[k](R[q,k] + Mask[q,k]))",
    f"{WEIGHTS}O[q] = sum[k](P0[q,k] * (log(P0[q,k]) - log(P1[q,k])))",
    f"{AFFINE}O[q,k] = Affine[..k](exp(S[q,k] + Mask[q,k]), R[q,k]).u",
    f"{AFFINE}O[q,k] = Affine[..k](sigmoid(S[q,k] + Mask[q,k]), T[k]).u",
    "O[q,e] = softmax[k if k > 1](S[q,k]) * where(k > 1, Bad[k,e], 0)",
    "O[q,e] = softmax[k if k > 1](sum[d](V[q,d] * Bad[k,d])) * V[k,e]",
    "O[q,e] = softmax[k](S[q,k] - 1e9 * (1 - Kept[q,k])) * V[k,e]",
    "O[b] = sum[k](where(T[b] > 0, S[b,k] / T[b], 0))",
    "O[q] = max[k if k < q](S[q,k] ** 2)",
    "O[q] = sum[k](R[q,k] + mean[j if j < q and k <= q](S[q,j] - max[q](T[q]))) * T[q]",
    "O[q,k] = sum[l](softmax[l](S[q,l]) * where(q - l < 1, 1, R[q,k]))"
    " + log_softmax[k if k < n[q]](S[q,k])",
    "O[q] = sum[k](exp(T[k] - max[k](T[k])) * log_softmax[q if q > k](S[q,k]))",
    "O[q,k] = maximum(sin(T[q]), (W[k] < 0.5) * log(sum[l](exp(S[q,l]) * W[k])))",
    "O[q] = silu(Off[q]) + gelu(Off[q]) + gelu(2 * Off[q] - 1)",
    "O[q,k] = T[q] * silu(S[q,k] + Mask[q,k]) + gelu(W[k] * S[q,k] + Mask[q,k])",
]
