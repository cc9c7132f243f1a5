"""Tile programs as they print, and that they hold together."""

from __future__ import annotations

import pytest

import monocomp as mc
from monocomp.tile import Fold, Loop, TileProgram, walk

MORE = {
    "two passes": "O[q] = sum[k](relu(A[q,k] - max[l](A[q,l])) * B[k])",
    "two kernels": "O[q] = sum[k](A[q,k])\nP[n,m] = X[n,d] * Y[m,d]",
    "masked output": "P[q,k] = softmax[k if k <= q](S[q,k])",
    "product": "C[n,m] = A[n,d] * B[d,m]",
    "statistics": "S[q,k] = Q[q,d] * K[k,d]\nO[q,e] = softmax[k](S[q,k]) * V[k,e]\n"
    "L[q] = logsumexp[k](S[q,k])",
    "column sums": "P[q,k] = softmax[k](Q[q,d] * K[k,d])\nC[k] = sum[q](P[q,k])",
    "integers": "input N[b]: int\nO[b] = sum[k if k < N[b]](X[b,k])",
}


def tile_programs(text: str, name: str | None = None) -> tuple[TileProgram, ...]:
    return mc.compile(text, name=name).tile_programs()


PREFIXES = [
    "C[i,k] = sum[..k](X[i,k])",
    "C[i,k] = max[..k if X[i,k] > 0](X[i,k]) + argmax[..k](X[i,k])",
    "L[k] = logsumexp[..k](X[k])",
    "H[t,i] = Affine[..t](g[t], x[t,i]).u",
    "A[t] = sum[..t](X[t])\nB[t] = max[..t](A[t] * Y[t])\nreturn B",
]


@pytest.mark.parametrize("text", PREFIXES)
def test_prefixes_take_one_pass(text: str) -> None:
    """One loop, with no fold over all that comes earlier in its body."""
    (program,) = tile_programs(text)
    (loop,) = [s for s in walk(program.body) if isinstance(s, Loop)]
    assert loop.state
    assert all(s.prefixes for s in walk(program.body) if isinstance(s, Fold))


@pytest.mark.parametrize(
    "text",
    [
        "input X[i,k]\nC[i,k] = sum[k if k <= i](X[i,k]) + Y[k]",  # over another index
        "C[k] = sum[j if j < 2 * k](X[j] * X[k])",  # up to another position
    ],
)
def test_what_is_no_prefix(text: str) -> None:
    every = [s for p in tile_programs(text) for s in walk(p.body)]
    assert not [s for s in every if isinstance(s, Fold)]
