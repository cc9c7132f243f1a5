"""Selects stand where the domain asks for them, and nowhere else."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import monocomp as mc
from monocomp.language.checker import check
from monocomp.lowering.expressions import choose
from monocomp.tile import local
from monocomp.translation.translator import translate
from tests.agreement import agrees

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
    "O[i] = exp(S[i] + log(X[i]))": (0, 1, 0),
    "O[i] = exp(S[i] + tanh(X[i]))": (0, 0, 0),
}


@pytest.mark.parametrize("text", SELECTED)
def test_selects(text: str) -> None:
    programs = "\n".join(map(str, mc.compile(text).tile_programs()))
    of_zeros = len(re.findall(r"where\(.*? == 0\.0, 0\.0, ", programs))
    of_sums = programs.count(" == -inf, -inf, ")
    settled = programs.count("where(-inf == ")
    assert (of_zeros, of_sums, settled) == SELECTED[text], programs


MASKED = {
    "O[i] = softmax[k](S[i,k]) * V[k]": "S",
    "O[i] = logsumexp[k](2 * S[i,k] + T[k] * S[i,k])": "S",
    "O[i] = max[k](A[i,k] + M[k])": "AM",
    "O[i] = max[k](A[i,k] - B[i,k])": "A",
    "O[i] = max[k](A[i,k] * min[l](A[i,l]))": "",
    "O[q] = softmax[k](Q[q,d] * K[k,d] + M[q,k]) * V[k]": "M",
    "O[h,q] = softmax[k](Q[q,d] * K[k,d] + exp(B[h]) * M[q,k]) * V[k]": "BM",
    "O[h,q] = softmax[k](Q[q,d] * K[k,d] + sigmoid(2 - B[h]) * M[q,k]) * V[k]": "M",
    "O[q,k] = softmax[k](X[q] * Y[k] + abs(k - q) * M[k])": "M",
    "O[i,d] = softmax[d](A[i,j] * relu(B[j,d]))": "",
    "O[i] = log(exp(S[i] - T[i]) / X[i])": "S",
    "O[i] = max[k](S[i] + sqrt(X[k])) - log(Y[i])": "S",
    "O[i] = S[i] + max[k](X[k] * Y[i]) + sqrt(Z[i])": "",
    "O[i] = relu(X[i] * Y[i]) + sigmoid(G[i])": "G",
    "P[i,k] = 2 * S[i,k]\nO[i] = logsumexp[k](P[i,k])": "S",
    "O[i] = logsumexp[k](A[i,k] + log(X[i,k]))": "A",
    "O[i] = max[k](prod[l](X[i,k,l]))": "",
    "index k < 3\nO[i] = max[k](argmax[l if l <= k](A[i,l]))": "",
    "monoid P(a, u) = unit (1, 0), combine (a * a', a' * u + u')\n"
    "O[i] = max[k](P[..k](A[i,k], B[i,k]).u)": "",
}


@pytest.mark.parametrize("text", MASKED)
def test_inputs_that_may_hold_masks(text: str) -> None:
    """They are added up in exponents, maxima and gates, and not multiplied otherwise."""
    assert translate(check(text)).declared.masked == set(MASKED[text])


def test_choices_along_fewer_axes_are_one() -> None:
    """An element of a tile is chosen once, for all that its row says."""
    first, second = (local(n, frozenset("t"), "bool") for n in "ab")
    x, y, z = (
        local(n, frozenset(axes), "float") for n, axes in (("x", "t"), ("y", "t"), ("z", "tv"))
    )
    found = choose(first, x, choose(second, y, z))
    condition, one_of_both, rest = found.args
    assert (condition.op, condition.axes, one_of_both.axes) == ("or", {"t"}, {"t"})
    assert one_of_both.args == (first, x, y) and rest is z
    assert choose(first, z, choose(second, y, z)).args[0] is first
    assert choose(first, x, choose(first, y, z)).args == (first, x, z)


def test_masked_elements_of_a_monoid() -> None:
    """A product of fields is 0 where one is, and a sum -inf, if an element may be -inf."""
    text = (
        "monoid P(a, u) = unit (1, 0), combine (a * a', a' * u + u')\n"
        "O[i] = softmax[k](S[i,k]) * P[k](S[i,k], S[i,k]).u"
    )
    s = np.array([[0.0, 2.0, -math.inf], [1.0, -math.inf, 0.0], [-math.inf, 0.5, 1.0]])
    wanted = mc.evaluate(text, {"S": s})
    computed = mc.compile(text, backend="numpy")(S=s)
    assert (~np.isnan(wanted)).sum() > 1
    assert agrees(wanted, computed).all(), computed
