"""Axes that are too long to be held entirely, in loops of their own or inside others."""

from __future__ import annotations

import pytest

import monocomp as mc
from monocomp.tile import Loop, walk
from tests.backends.running import DISTINCT, make_inputs, whole_limit
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


def roles(text: str, **sizes: int) -> list[tuple[str, str]]:
    """The loops, outer ones first, with their roles."""
    bodies = [p.body for p in mc.compile(text).tile_programs(sizes)]
    return [(s.axis.extent, s.axis.role) for b in bodies for s in walk(b) if isinstance(s, Loop)]


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


def test_longer_than_the_limit() -> None:
    """Sizes beyond the limit that is in force."""
    text = PROGRAMS["pairs of keys"]
    inputs = make_inputs(text, {"h": 1, "q": 5, "j": 300, "k": 310, "d": 7, "e": 3})
    agree("torch", text, inputs, 4, block=None)


def test_blocks_of_features_of_a_product() -> None:
    """The logits of a block are summed up over blocks of features, and computed once."""
    found = roles(PROGRAMS["a vocabulary"], q=1000, k=50_000, d=4096)
    assert found.count(("k", "stream")) == 1
    assert ("d", "serial") not in found


def test_wide_columns_are_cut_into_blocks() -> None:
    (program,) = mc.compile(PROGRAMS["attention"]).tile_programs({"q": 1000, "e": 1000})
    assert program.axes["e"].role == "row"
    with whole_limit(2000):
        (program,) = mc.compile(PROGRAMS["attention"]).tile_programs({"q": 1000, "e": 1000})
    assert program.axes["e"].role == "whole"


COLUMNS = {
    PROGRAMS["sigmoids"]: True,
    "O[q,e] = sum[k](relu(sum[d](Q[q,d] * K[k,d]) - 1) * V[k,e])": True,
    # Here is no sum to share,
    "O[q,e] = sum[k](sigmoid(S[q,k]) * V[k,e])": False,
    # here is one that varies with e,
    "O[q,e] = sum[k](sigmoid(sum[d](Q[q,d] * K[k,d] * W[d,e])) * V[k,e])": False,
    # and here one whose weights do: a tile of three long axes.
    "O[q,e] = sum[k](relu(sum[d](Q[q,d] * K[k,d]) * V[k,e]))": False,
    "O[q,e] = max[k](sum[d](Q[q,d] * K[k,d]) * V[k,e])": False,
    "O[q,e] = sum[k if k < e](sigmoid(sum[d](Q[q,d] * K[k,d])) * V[k,e])": False,
}


@pytest.mark.parametrize("text", COLUMNS)
def test_columns_share_the_weights(text: str) -> None:
    """One program instance has all columns of values, as their weights are sums."""
    *_, program = mc.compile(text).tile_programs({"q": 1000, "e": 64, "d": 64})
    assert (program.axes["e"].role == "whole") == COLUMNS[text]


def test_two_columns_share_a_loop() -> None:
    """Sums over one index with different columns run in one pass, while the columns are
    short; else each has a kernel of its own."""
    text = PROGRAMS["two outputs"]
    (program,) = mc.compile(text).tile_programs({"q": 1000, "k": 1000, "d": 64, "e": 64})
    assert len([s for s in walk(program.body) if isinstance(s, Loop)]) == 1
    assert len(mc.compile(text).tile_programs({"q": 999, "k": 999, "d": 64, "e": 999})) == 2
