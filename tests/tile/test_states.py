"""States of loops that start from values: every backend against plain NumPy."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import torch

from monocomp.tile.parser import parse
from tests.tile.running import BACKENDS

GENERATOR = np.random.default_rng(0)
Q, K, D = 19, 37, 5
INPUTS: dict[str, Any] = {
    "X": GENERATOR.integers(-8, 9, (Q, K)).astype(np.float32),
    "A": GENERATOR.integers(0, 2, (Q, K)).astype(np.float32),
    "V": GENERATOR.integers(-8, 9, (K, D)).astype(np.float32),
    "M": GENERATOR.integers(-8, 9, (Q, D)).astype(np.float32),
    "r": GENERATOR.integers(-8, 9, (Q,)).astype(np.float32),
    "n": GENERATOR.integers(-8, 9, (Q,)),
    "c": 2.5,
    "z": np.float32(3),
}
X, A, V, M, r, n = (INPUTS[name] for name in ("X", "A", "V", "M", "r", "n"))


def scanned() -> Any:
    """u <- a * u + x from the given start, after every step."""
    found, u = [], r
    for k in range(K):
        u = A[:, k] * u + X[:, k]
        found.append(u)
    return np.stack(found, 1)


CASES: dict[str, tuple[str, Any]] = {
    "a tile": (
        """
        kernel f(X: float[i, k], V: float[k, d], M: float[i, d]) -> O: float[i, d]
          row i
          stream k
          whole d
          M_tile[d,i] = M[i, d]
          state acc[d,i] = M_tile
          for k in 0 .. |k|:
            X_tile[i,k] = X[i, k]
            V_tile[d,k] = V[k, d]
            acc <- contract[k](X_tile, V_tile, acc)
          store O[i, d] = acc
        """,
        M + X @ V,
    ),
    "a tile of fewer axes": (
        """
        kernel f(X: float[i, k], V: float[k, d], r: float[i], c: float) -> O: float[i, d]
          row i
          stream k
          whole d
          r_tile[i] = r[i]
          state acc[d,i] = r_tile * c
          for k in 0 .. |k|:
            X_tile[i,k] = X[i, k]
            V_tile[d,k] = V[k, d]
            acc <- contract[k](X_tile, V_tile, acc)
          store O[i, d] = acc
        """,
        2.5 * r[:, None] + X @ V,
    ),
    "one number": (
        """
        kernel f(X: float[i, k], z: float[], c: float) -> O: float[i], P: float[i]
          row i
          stream k
          z_tile = z[]
          state m[i] = z_tile
          state s[i] = c
          for k in 0 .. |k|:
            X_tile[i,k] = X[i, k]
            m <- maximum(m, max[k](inside[k, -inf](X_tile)))
            s <- s + sum[k](inside[k, 0.0](X_tile))
          store O[i] = m
          store P[i] = s
        """,
        (np.maximum(X.max(1), 3), 2.5 + X.sum(1)),
    ),
    "an integer": (
        """
        kernel f(X: float[i, k], n: int[i]) -> O: int[i]
          row i
          stream k
          n_tile[i] = n[i]
          state count[i] = n_tile
          for k in 0 .. |k|:
            X_tile[i,k] = X[i, k]
            count <- count + sum[k](inside[k, 0](int(0.0 < X_tile)))
          store O[i] = count
        """,
        n + (X > 0).sum(1),
    ),
    "what an earlier loop carried": (
        """
        kernel f(X: float[i, k]) -> O: float[i]
          row i
          stream k
          state s[i] = 0.0
          for k in 0 .. |k|:
            X_tile[i,k] = X[i, k]
            s <- s + sum[k](inside[k, 0.0](X_tile))
          state t[i] = s
          for k in 0 .. min(|k|, i):
            X_tile_2[i,k] = X[i, k]
            t <- t + sum[k](inside[k, 0.0](X_tile_2))
          store O[i] = t
        """,
        X.sum(1) + (X * (np.arange(K) < np.arange(Q)[:, None])).sum(1),
    ),
    "a scan's carry": (
        """
        kernel f(A: float[i, k], X: float[i, k], r: float[i]) -> O: float[i, k]
          row i
          stream k
          combine Affine(a: float, u: float; a_next, u_next):
            give a * a_next, (a_next * u) + u_next
          r_tile[i] = r[i]
          state a[i] = 1.0
          state u[i] = r_tile
          for k in 0 .. |k|:
            A_tile[i,k] = A[i, k]
            X_tile[i,k] = X[i, k]
            a_all, u_all, a_new, u_new = (a, u).Affine[..., k](A_tile, X_tile)
            store O[i, k] = u_all
            a <- a_new
            u <- u_new
        """,
        scanned(),
    ),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("block", [0, 4, 16])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_starts(name: str, backend: str, block: int) -> None:
    text, wanted = dedent(CASES[name][0]), CASES[name][1]
    p = parse(text)
    assert str(p) == text.strip()
    inputs = {t: torch.as_tensor(INPUTS[t]) for t in p.inputs}
    found = BACKENDS[backend](text, inputs, {name: INPUTS[name] for name in p.params}, block)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for got, exact in zip(found.values(), wanted, strict=True):
        np.testing.assert_allclose(got.numpy(), exact, rtol=1e-6)
