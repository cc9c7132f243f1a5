"""What the derivation says about the loops of kernels."""

from __future__ import annotations

import pytest

import monocomp as mc
from monocomp.derivation.tiling import tiling_steps
from monocomp.rewriting.rules import STATED

FUSE, TILE = ((name, STATED[name].law) for name in ("fuse_folds", "tile"))
# text: (rule, outputs, before, after) of each step
STEPS: dict[str, list[tuple[tuple[str, str], tuple[str, ...], str, str]]] = {
    "O[i] = 2 * X[i]": [],
    "O[i] = sum[k if k <= i](X[i,k])": [
        (TILE, ("O",), "fold over k", "for k in 0 .. min(|k|, i + 1) in blocks")
    ],
    "S[i] = sum[k](X[i,k])\nM[i] = max[k](X[i,k])": [
        (
            FUSE,
            ("S", "M"),
            "sum[k](X[i,k]); max[k](X[i,k])",
            "one pass over k: acc, m_i",
        ),
        (TILE, ("S", "M"), "fold over k", "for k in 0 .. |k| in blocks"),
    ],
    # The loop that writes the result carries nothing.
    "P[i,k] = softmax[k](X[i,k])": [
        (FUSE, ("P",), "max[k](X[i,k]); SE[k](1, X[i,k]).v", "one pass over k_1: m_i, l_i"),
        (TILE, ("P",), "fold over k_1", "for k_1 in 0 .. |k| in blocks"),
    ],
    # A loop in a loop, and then another kernel.
    "O[i] = sum[j](max[k](X[i,j,k]))\nC[k] = sum[i](X[i,0,k])": [
        (TILE, ("O",), "fold over j", "for j in 0 .. |j| in blocks"),
        (TILE, ("O",), "fold over k", "for k in 0 .. |k| in blocks"),
        (TILE, ("C",), "fold over i", "for i in 0 .. |i| in blocks"),
    ],
}


@pytest.mark.parametrize("text", STEPS)
def test_steps(text: str) -> None:
    kernel = mc.compile(text)
    steps = list(tiling_steps(kernel.equations, kernel.tile_programs()))
    assert [((s.rule, s.law), s.place, s.before, s.after) for s in steps] == STEPS[text]
    assert all(s.start is s.program is kernel.equations for s in steps)
