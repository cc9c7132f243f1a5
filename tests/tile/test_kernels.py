"""Stores that add, and states that start from values: every backend against plain NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import torch

from monocomp.backends.schedules import table
from monocomp.backends.schedules.legal import Legal
from monocomp.tile.parser import parse
from monocomp.tile.split_padding import divisible, split_padding
from tests.backends.compiling import accepted, recorded
from tests.tile.running import (
    BACKENDS,
    Run,
    by_descriptors,
    by_numpy,
    by_triton,
    extents_of,
    load,
    source,
)

GENERATOR = np.random.default_rng(0)
K, D, Q = 37, 5, 19
Arrays = dict[str, Any]


def whole_numbers(*shape: int) -> Any:
    """Floats whose sums are exact."""
    return GENERATOR.integers(-8, 9, shape).astype(np.float32)


INPUTS: Arrays = {
    "X": whole_numbers(K, D),
    "S": whole_numbers(Q, K),
    "W": whole_numbers(Q, D),
    "r": whole_numbers(Q),
    "A": GENERATOR.integers(0, 2, (Q, K)).astype(np.float32),
    "z": np.float32(3),
}


@dataclass(frozen=True)
class Case:
    """A kernel, and what it computes."""

    text: str
    wanted: Callable[..., Arrays]
    params: dict[str, Any] = field(default_factory=dict)


def scanned() -> Any:
    """u <- a * u + x from the given start, after every step."""
    found, u = [], INPUTS["r"]
    for k in range(K):
        u = INPUTS["A"][:, k] * u + INPUTS["S"][:, k]
        found.append(u)
    return np.stack(found, 1)


CASES = {
    "columns of a product": Case(
        """
        kernel f(S: float[q, k], W: float[q, d]) -> C: stored float[k, d]
          row q
          stream k
          whole d
          W_tile[d,q] = W[q, d]
          for k in 0 .. min(|k|, q + 1):
            S_tile[k,q] = S[q, k]
            x[k,q] = inside[k, 0.0](S_tile)
            store C[k, d] += contract[q](x, W_tile)
        """,
        lambda: {"C": (INPUTS["S"] * (np.arange(K) <= np.arange(Q)[:, None])).T @ INPUTS["W"]},
    ),
    # States that start from values.
    "a tile": Case(
        """
        kernel f(S: float[q, k], X: float[k, d], W: float[q, d]) -> O: float[q, d]
          row q
          stream k
          whole d
          W_tile[d,q] = W[q, d]
          state acc[d,q] = W_tile
          for k in 0 .. |k|:
            S_tile[q,k] = S[q, k]
            X_tile[d,k] = X[k, d]
            acc <- contract[k](S_tile, X_tile, acc)
          store O[q, d] = acc
        """,
        lambda: {"O": INPUTS["W"] + INPUTS["S"] @ INPUTS["X"]},
    ),
    "one number": Case(
        """
        kernel f(S: float[q, k], z: float[], c: float) -> O: float[q], P: float[q]
          row q
          stream k
          z_tile = z[]
          state m[q] = z_tile
          state s[q] = c
          for k in 0 .. |k|:
            S_tile[q,k] = S[q, k]
            m <- maximum(m, max[k](inside[k, -inf](S_tile)))
            s <- s + sum[k](inside[k, 0.0](S_tile))
          store O[q] = m
          store P[q] = s
        """,
        lambda: {"O": np.maximum(INPUTS["S"].max(1), 3), "P": 2.5 + INPUTS["S"].sum(1)},
        {"c": 2.5},
    ),
    "a scan's carry": Case(
        """
        kernel f(A: float[q, k], S: float[q, k], r: float[q]) -> O: float[q, k]
          row q
          stream k
          combine Affine(a: float, u: float; a_next, u_next):
            give a * a_next, (a_next * u) + u_next
          r_tile[q] = r[q]
          state a[q] = 1.0
          state u[q] = r_tile
          for k in 0 .. |k|:
            A_tile[q,k] = A[q, k]
            S_tile[q,k] = S[q, k]
            a_all, u_all, a_new, u_new = (a, u).Affine[..., k](A_tile, S_tile)
            store O[q, k] = u_all
            a <- a_new
            u <- u_new
        """,
        lambda: {"O": scanned()},
    ),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("block", [0, 4, 16])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_values(name: str, backend: str, block: int) -> None:
    case = CASES[name]
    text = dedent(case.text)
    p = parse(text)
    assert str(parse(str(p))) == str(p)
    inputs = {n: torch.as_tensor(INPUTS[n]) for n in p.inputs}
    found = BACKENDS[backend](text, inputs, case.params, block)
    for n, wanted in case.wanted().items():
        np.testing.assert_array_equal(found[n].numpy(), wanted)


@pytest.mark.parametrize("name", CASES)
def test_split_axes(name: str) -> None:
    """A pass that divides an axis divides positions and what is added; and there are schedules."""
    p = parse(dedent(CASES[name].text))
    divided = split_padding(p, divisible(p))
    assert len(divided.axes) == len(p.axes) + len(divisible(p))
    inputs = {n: torch.as_tensor(INPUTS[n]) for n in p.inputs}
    found = by_numpy(str(divided), inputs, CASES[name].params, 8)
    for n, wanted in CASES[name].wanted().items():
        np.testing.assert_array_equal(found[n].numpy(), wanted)
    assert table.first(Legal(divided, extents_of(p, inputs), 2, "cuda:90", 132))


SLIDING = """
kernel f(S: float[q, d], X: float[k, d], w: int) -> C: stored float[k, d]
  row q
  stream k
  whole d
  S_tile[d,q] = S[q, d]
  for k in max(0, q - w) .. min(|k|, q + w):
    X_tile[d,k] = X[k, d]
    s[k,q] = contract[d](X_tile, S_tile)
    x[k,q] = inside[k, 0.0](s)
    store C[k, d] += contract[q](x, S_tile)
"""


@pytest.mark.parametrize("run", [by_numpy, by_triton, by_descriptors])
def test_blocks_that_slide(run: Run) -> None:
    """What a block that slides back to the end has twice is added once."""
    s, x, w = whole_numbers(37, 16), whole_numbers(64, 16), 5
    distance = np.arange(64) - np.arange(37)[:, None]
    inside = (-w <= distance) & (distance < w)
    found = run(SLIDING, {"S": torch.as_tensor(s), "X": torch.as_tensor(x)}, {"w": w}, 16)
    np.testing.assert_array_equal(found["C"], ((s @ x.T) * inside).T @ s)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", CASES)
def test_a_gpu_takes_them(name: str) -> None:
    text = dedent(CASES[name].text)
    inputs = {n: torch.as_tensor(INPUTS[n]) for n in parse(text).inputs}
    written, host = source(text)
    for launch in recorded(load(written), host, inputs, **CASES[name].params):
        assert accepted("cuda:90", launch)
