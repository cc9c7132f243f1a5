"""The order of a loop's statements: gathers before products, what positions decide behind them,
sums before products at its end."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import numpy as np
import pytest
import torch

import monocomp as mc
from monocomp.tile import Let, Loop, walk
from monocomp.tile.order import order_statements
from monocomp.tile.parser import parse
from monocomp.tile.statements import roots
from monocomp.tile.values import subexpressions
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


def test_blocks_of_products_come_last() -> None:
    """What only a product at the loop's end takes is read after what sums take."""
    lines = dedent(KERNEL.format(sum=SUM)).strip().splitlines()
    at = next(n for n, line in enumerate(lines) if "X_tile[i,k] =" in line)
    lines[at : at + 2] = lines[at : at + 2][::-1]
    values = [line.split("[")[0].strip() for line in ordered("\n".join(lines)).splitlines()]
    assert values.index("X_tile") < values.index("V_tile")


def test_rows_that_a_product_needs_are_not_read_before_it() -> None:
    """A position that a product decides comes after it, and so does what is read there."""
    (program,) = mc.compile(
        "input A[i,d], B[k,d], T[n], V[k]\n"
        "S[i,k] = A[i,d] * B[k,d]\n"
        "O[i] = sum[k](T[int(abs(tanh(S[i,k])))] * V[k])"
    ).tile_programs()
    loop = next(s for s in walk(program.body) if isinstance(s, Loop))
    values = [s.value.op if isinstance(s, Let) else "" for s in loop.body]
    assert values.index("load", values.index("contract")) > values.index("contract")


@pytest.mark.parametrize(
    ("weights", "is_late"),
    [("softmax[k](A[i,d] * B[k,d])", True), ("softmax[k](X[i,k])", False)],
    ids=["beside a product", "in its operand"],
)
def test_random_numbers_are_drawn_while_a_product_runs(weights: str, is_late: bool) -> None:
    (program,) = mc.compile(
        f"P[i,k] = {weights}\nO[i,e] = sum[k](where(uniform(7, i, k) < 0.1, 0, P[i,k]) * V[k,e])"
    ).tile_programs()
    loop = next(s for s in walk(program.body) if isinstance(s, Loop))
    values = [{x.op for root in roots(s) for x in subexpressions(root)} for s in loop.body]
    drawn = next(n for n, ops in enumerate(values) if "uniform" in ops)
    product = next(n for n, ops in enumerate(values) if "contract" in ops)
    assert (product < drawn) == is_late
