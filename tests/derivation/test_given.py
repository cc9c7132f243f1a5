"""Inputs that are given with their definition: what is known of them, and kernels."""

from __future__ import annotations

import pytest

import monocomp as mc
from monocomp import library
from monocomp.derivation.rule_sets import derive
from monocomp.language.checker import check
from monocomp.terms.equations import Equations
from monocomp.translation.translator import translate
from tests.printed import verify


def translated(text: str) -> Equations:
    return translate(check(text))


# --- the language -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        str(mc.grad(library.load("causal"))),
        "input c = sum[i](A[i])\nO[i] = A[i] / c",
        "input c[q] = argmax[k](S[q,k]), V[r,e]\nO[q,e] = V[c[q],e]",
        "input L[q] = 0 * A[q] + 1\ninput M[q] = L[q] * B[q]\nO[q] = M[q] + L[q]",
        "input L[q] = A[q] > 0, B[q]\nO[q] = where(L[q], B[q], 0)",
    ],
)
def test_text(text: str) -> None:
    program = translated(text)
    again = translated(program.text())
    assert again == program
    assert again.given == program.given
    verify(program)


# --- derivations ------------------------------------------------------------------------------


L = "input L[q] = logsumexp[k if k <= q](S[q,k])\nP[q,k] = exp(S[q,k] - L[q])\n"
FULL = "input L[q] = logsumexp[k](S[q,k])\nindex j < |k|\n"
SHARES = [
    f"{L}O[q,e] = sum[k if k <= q](P[q,k] * V[k,e])",
    "input L[q] = log(sum[k if k <= q](exp(S[q,k])))\nP[q,k] = exp(S[q,k] - L[q])\n"
    "O[k,e] = sum[q if k <= q](P[q,k] * V[q,e])",
    "input sink\ninput L[q] = log(exp(sink) + sum[k if k <= q](exp(S[q,k])))\n"
    "O[q,e] = sum[k if k <= q](exp(S[q,k] - L[q]) * V[k,e])",
    "input L[q] = logsumexp[k if k <= q](S[q,k] + B[q])\n"
    "O[q,e] = sum[k if k <= q](exp(S[q,k] + B[q] - L[q]) * V[k,e])",
    "input L[q] = logsumexp[k if k <= q](S[q,k]), p[q]: int\n"
    "O[q,e] = sum[k if k <= q](exp(S[p[q],k] - L[p[q]]) * (k <= p[q]) * V[k,e])",
    f"{L}O[q,e] = sum[k if k <= q](P[q,k] ** 2 * V[k,e])",
    f"{L}O[q,e] = sum[k if k <= q](P[q,k] * log(P[q,k]) * V[k,e])",
    f"{L}O[q,e] = sum[k if k <= q and q - k < 4](P[q,k] * V[k,e])",
    f"{L}O[q,e] = sum[k](where(k <= q, P[q,k], 0) * V[k,e])",
    f"{L}O[q,e] = sum[k if k <= q](P[q,k] * (V[k,e] - D[q])) * D[q]",
    # Shares of two elements, as second derivatives of a softmax have them.
    f"{FULL}O[q,j] = sum[k](exp(S[q,k] + S[q,j] - 2 * L[q]) * V[k])",
]
# Another filter, another sum, no sum, not the whole of a share, more than one.
SPLIT = "X[q,d] * (Y[k,d] + Z[k,q,d])"  # rules make two sums of it
SHARES += [
    f"input L[q] = logsumexp[k](sum[d]({SPLIT}))\n"
    f"O[q,e] = sum[k](exp(sum[d]({SPLIT}) - L[q]) * V[k,e])",
    f"input L[q] = logsumexp[k](tanh(sum[d]({SPLIT})))\n"
    f"O[k,e] = sum[q](exp(tanh(sum[d]({SPLIT})) - L[q]) * V[q,e])",
    # The largest elements are elements.
    "input L[q] = logsumexp[k](S[q,k])\nindex r < 4\n"
    "O[q,e] = exp(top[k -> r](S[q,k]) - L[q]) * V[q,r,e]",
    "input L[q] = logsumexp[k if k <= q](S[q,k])\n"
    "O[e] = exp(max[k if k <= q and k < c[q]](S[q,k]) - L[q]) * V[q,e]",
    # A filter of the sum around it holds as well.
    "input L[h,q] = logsumexp[k if k <= q and k < c[h]](S[h,q,k])\n"
    "O[k,e] = sum[h if k < c[h]](sum[q if k <= q](exp(S[h,q,k] - L[h,q]) * V[h,q,e]))",
]
NO_SHARES = [
    "input L[q] = logsumexp[k if k <= q](S[q,k])\n"
    "O[e] = sum[q](exp(max[k](S[q,k]) - L[q]) * V[q,e])",
    f"input L[q] = logsumexp[k](sum[d]({SPLIT}))\n"
    "O[q,e] = sum[k](exp(sum[d](X[q,d] * Y[k,d]) - L[q]) * V[k,e])",
    "input L[q] = logsumexp[k if k < q](S[q,k])\nO[q] = sum[k if k <= q](exp(S[q,k] - L[q]))",
    "input L[q] = logsumexp[k](T[q,k])\nO[q,e] = sum[k](exp(S[q,k] - L[q]) * V[k,e])",
    "input L[q] = sum[k](exp(S[q,k]))\nO[q,e] = sum[k](exp(S[q,k] - L[q]) * V[k,e])",
    f"{FULL}O[q,e] = sum[k](exp(2 * S[q,k] - L[q]) * V[k,e])",
    f"{FULL}O[q,e] = sum[k](exp(S[q,k] + T[q,k] - L[q]) * V[k,e])",
    f"{FULL}O[q,j] = sum[k](exp(S[q,k] + T[q,j] - 2 * L[q]) * V[k])",
    "input L[q] = log(sum[k](exp(S[q,k])) - 1)\nO[q,e] = sum[k](exp(S[q,k] - L[q]) * V[k,e])",
    "input Z[q] = sum[k](exp(S[q,k]))\nO[q,e] = sum[k](exp(S[q,k]) / Z[q] * V[k,e])",
]


@pytest.mark.parametrize("text", [*SHARES, *NO_SHARES])
def test_shares_are_not_lifted(text: str) -> None:
    steps = derive(translated(text)).steps
    for step in steps:
        verify(step.program)
    assert any(step.rule.startswith("lift") for step in steps) == (text in NO_SHARES)
