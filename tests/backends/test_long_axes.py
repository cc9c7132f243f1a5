"""Axes that are too long to be held entirely, in loops of their own or inside others."""

from __future__ import annotations

import pytest

from tests.backends.running import DISTINCT, make_inputs
from tests.backends.tolerances import agree

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
