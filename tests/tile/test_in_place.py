"""Loops in loops that accumulate in place: before and after the pass, on every backend."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import torch

from monocomp.lowering.in_place import accumulate_in_place
from monocomp.tile.parser import parse
from tests.tile.running import BACKENDS

KERNEL = """
kernel f(X: {kind}[i, j, k]) -> O: {kind}[i]
  row i
  stream k
  serial j
  state outer[i] = {unit}
  for j in 0 .. |j|:
    state inner[i] = {unit}
    for k in 0 .. |k|:
      X_tile[i,k] = X[i, j, k]
      inner <- {step}
    outer <- {join}
  store O[i] = outer
"""
ADDED = "inner + sum[k](inside[k, 0.0](X_tile))"
JOINED: dict[str, tuple[dict[str, str], Any]] = {
    "sum": ({"join": "outer + inner", "step": ADDED, "unit": "0.0"}, np.sum),
    "max": (
        {
            "join": "maximum(inner, outer)",
            "step": "maximum(inner, max[k](inside[k, -inf](X_tile)))",
            "unit": "-inf",
        },
        np.max,
    ),
    "ints": (
        {"join": "outer + inner", "step": "inner + sum[k](inside[k, 0](X_tile))", "unit": "0"},
        np.sum,
    ),
}
NEAR_MISSES = {
    "scaled": {"join": "0.5 * outer + inner"},
    "another start": {"unit": "1.0"},
    "a part of it": {"join": "outer + 0.5 * inner"},
    "read again": {"join": "outer + inner + inner"},
    "moved": {"step": "0.5 * inner + sum[k](inside[k, 0.0](X_tile))"},
    "another monoid": {"join": "maximum(outer, inner)"},
}
GENERATOR = np.random.default_rng(0)


def kernel(**parts: str) -> str:
    kind = "float" if "." in parts["unit"] or "inf" in parts["unit"] else "int"
    return dedent(KERNEL.format(kind=kind, **parts)).strip()


def in_place(text: str) -> str:
    p = parse(text)
    return str(replace(p, body=accumulate_in_place(p.body)))


@pytest.mark.parametrize("name", JOINED)
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_inner_loop_goes_on_from_the_outer_state(name: str, backend: str) -> None:
    parts, reduce = JOINED[name]
    before = kernel(**parts)
    after = in_place(before)
    wanted = before.replace(f"inner[i] = {parts['unit']}", "inner[i] = outer")
    assert after == wanted.replace(f"outer <- {parts['join']}", "outer <- inner")
    X = torch.tensor(GENERATOR.integers(-8, 9, (19, 3, 21)))
    X = X if name == "ints" else X.float()
    for text in (before, after):
        found = BACKENDS[backend](text, {"X": X}, {}, 16)["O"]
        np.testing.assert_array_equal(found.numpy(), reduce(X.numpy(), (1, 2)))


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_state_that_is_not_only_joined_begins_anew(name: str) -> None:
    text = kernel(**{"join": "outer + inner", "step": ADDED, "unit": "0.0", **NEAR_MISSES[name]})
    assert in_place(text) == str(parse(text))
