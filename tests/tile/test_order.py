"""The order of a loop's statements: gathers before products, what positions decide behind them,
sums before products at its end."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import numpy as np
import pytest
import torch

from monocomp.tile.order import order_statements
from monocomp.tile.parser import parse
from monocomp.tile.verifier import verify
from tests.tile.running import BACKENDS

KERNEL = """
kernel f(X: float[i, k], V: float[k, e]) -> O: float[i, e], L: float[i]
  row i
  stream k
  whole e
  state acc[e,i] = 0.0
  state l_i[i] = 0.0
  for k in 0 .. |k|:
    X_tile[i,k] = X[i, k]
    V_tile[e,k] = V[k, e]
    acc <- contract[k](V_tile, X_tile, acc)
    l_i <- {sum}
  store O[i,e] = acc
  store L[i] = l_i
"""
SUM = "l_i + sum[k](inside[k, 0.0](X_tile))"


def ordered(text: str) -> str:
    p = parse(text)
    return str(verify(replace(p, body=order_statements(p.body))))


@pytest.mark.parametrize("backend", BACKENDS)
def test_sums_come_before_products(backend: str) -> None:
    before = str(parse(dedent(KERNEL.format(sum=SUM)).strip()))
    product, total = before.splitlines()[-4:-2]
    after = before.replace(f"{product}\n{total}", f"{total}\n{product}")
    assert ordered(before) == after != before
    generator = np.random.default_rng(0)
    X, V = (torch.tensor(generator.integers(-8, 9, s)).float() for s in ((19, 21), (21, 16)))
    for text in (before, after):
        found = BACKENDS[backend](text, {"X": X, "V": V}, {}, 16)
        np.testing.assert_array_equal(found["O"].numpy(), (X @ V).numpy())
        np.testing.assert_array_equal(found["L"].numpy(), X.sum(1).numpy())


def test_what_reads_another_state_stays_behind_it() -> None:
    reading = SUM.replace("l_i", "l_i + max[e](acc)", 1)
    text = dedent(KERNEL.format(sum=reading)).strip()
    assert ordered(text) == str(parse(text))
