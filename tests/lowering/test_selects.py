"""Selects stand where the domain asks for them, and nowhere else."""

from __future__ import annotations

import re

import pytest

import monocomp as mc

# Programs with the numbers of quotients and products, of sums and of subtracted maxima selected.
SELECTED = {
    "O[q,e] = softmax[k](Q[q,d] * K[k,d]) * V[k,e]": (0, 0, 0),
    "O[q,e] = softmax[k if k <= q](Q[q,d] * K[k,d]) * V[k,e]": (0, 0, 0),
    "O[q,e] = softmax[k if k < q](Q[q,d] * K[k,d]) * V[k,e]": (1, 0, 0),
    "O[q,e] = softmax[k](Q[q,d] * K[k,d] + Mask[q,k]) * V[k,e]": (1, 0, 0),
    "O[i] = X[i] / Y[i]": (1, 0, 0),
    "O[i] = X[i] / (1 + Y[i] ** 2)": (0, 0, 0),
    "O[i] = X[i] / sqrt(0.5 + sum[k](Y[i,k] ** 2))": (0, 0, 0),
    "O[i] = X[i] / sqrt(sum[k](Y[i,k] ** 2))": (1, 0, 0),
    "P[i,k] = exp(S[i,k] - max[k](S[i,k]))": (0, 0, 1),
    "P[i,k] = exp(A[i,d] * B[k,d] - max[k](A[i,d] * B[k,d]))": (0, 0, 0),
    "O[i] = sum[k](exp(S[i,k]) * S[i,k])": (1, 0, 0),
    "O[i] = sum[k](exp(S[i,k]) * X[i,k])": (0, 0, 0),
    "O[i] = exp(S[i] + log(X[i]))": (0, 0, 0),
    "O[i] = exp(S[i] + tanh(X[i]))": (0, 0, 0),
}


@pytest.mark.parametrize("text", SELECTED)
def test_selects(text: str) -> None:
    programs = "\n".join(map(str, mc.compile(text).tile_programs()))
    of_zeros = len(re.findall(r"where\(.*? == 0\.0, 0\.0, ", programs))
    of_sums = programs.count(" == -inf, -inf, ")
    settled = programs.count("where(-inf == ")
    assert (of_zeros, of_sums, settled) == SELECTED[text], programs
