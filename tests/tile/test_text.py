"""Tile programs hold together after every pass, and are parsed as what they were; and the order of
a loop's statements: gathers before products, what positions decide behind them, sums before
products at its end."""

from __future__ import annotations

import os
from dataclasses import astuple, replace
from textwrap import dedent

import numpy as np
import pytest
import torch

from monocomp.display.formulas import words
from monocomp.errors import InternalError
from monocomp.tile import Loop, Statement, TileProgram
from monocomp.tile.order import order_statements
from monocomp.tile.parser import parse
from tests.program_generator import careful
from tests.tile.kernels import TEXTS, after_passes, kernels
from tests.tile.running import BACKENDS

FUZZ = int(os.environ.get("MONOCOMP_FUZZ", "12"))
SEED = int(os.environ.get("MONOCOMP_SEED", "0"))


def as_text_tells(body: list[Statement]) -> list[Statement]:
    """Without origins, and with the words of formulas."""
    found: list[Statement] = []
    for s in body:
        changed = {}
        if isinstance(s, Loop):
            folds = tuple(words(str(f)) for f in s.folds)
            changed = {"body": as_text_tells(s.body), "folds": folds}
        found.append(replace(s, origin=None, **changed))
    return found


def check_text(p: TileProgram) -> None:
    again = parse(str(p))
    assert astuple(again) == astuple(replace(p, body=as_text_tells(p.body)))
    assert list(again.axes) == list(p.axes)
    assert str(again) == str(p)


def check_passes(text: str) -> None:
    """After every pass the text says it all."""
    for found in after_passes(text):
        for p in found:
            check_text(p)


@pytest.mark.one_in(9)
@pytest.mark.parametrize("name", TEXTS)
def test_every_pass(name: str) -> None:
    check_passes(TEXTS[name])


@pytest.mark.parametrize("seed", range(SEED, SEED + FUZZ))
def test_random_programs(seed: int) -> None:
    check_passes(careful(seed))


def test_dtypes_of_inputs() -> None:
    (kernel,) = kernels(TEXTS["attention"])
    typed = kernel.of_dtypes({"K": "float8_e4m3fn"})
    assert "K: float[b, h, k, d] as float8_e4m3fn, V: float[b, h, k, e])" in str(typed)
    check_text(typed)


NAMES = """
kernel names(lambda: float[i], k: int, def: int) -> O: float[i]
  row i
  k[i] = lambda[coordinate(i)]
  i[i] = k + float(param(k) + def)
  store O[i] = i
"""


def test_names_that_hide_others() -> None:
    """A local has the name of an axis, or of a parameter; and names are Python's."""
    check_text(parse(NAMES))
    assert str(parse(NAMES)) == NAMES.strip()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("row i", "row i,"),
        ("[coordinate(i)]", "[coordinate(i)"),
        ("k + float", "k + + float"),
        ("k + float", "k ? float"),
        ("float(param(k) + def)", "floated(def)"),
        ("float(param(k) + def)", "float(param(c))"),
        ("float(param(k) + def)", "param(k)"),
        ("= i", "= i i"),
    ],
)
def test_what_is_no_tile_program(old: str, new: str) -> None:
    with pytest.raises(InternalError):
        parse(NAMES.replace(old, new))


# --- the order of a loop's statements ----------------------------------------------------


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
    return str(replace(p, body=order_statements(p.body)))


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
