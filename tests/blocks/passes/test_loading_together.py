"""`load_together`: which loops over single positions issue several loads at once."""

from __future__ import annotations

import re

import pytest

import monocomp as mc
from monocomp import library

MANY = {"b": 2, "h": 2, "q": 4096, "k": 4096, "e": 64}


@pytest.mark.parametrize(
    ("name", "extents", "expected"),
    [
        ("laplace_attention", {"d": 64}, ["d in tl.range(0, 64, loop_unroll_factor=16)"]),
        ("laplace_attention", {"d": 6}, ["d in tl.range(0, 6, loop_unroll_factor=4)"]),
        ("laplace_attention", {"d": 1}, ["d in range(0, 1)"]),
        ("pair_bias", {"c": 4, "d": 64}, ["c in range(0, 4)"]),  # tiles of two axes
        ("two_simplicial", {"d": 64, "j": 64}, ["j in range(0, 64)"]),  # a loop of products
    ],
)
def test_loops(name: str, extents: dict[str, int], expected: list[str]) -> None:
    """Loops that load rows and columns alone do, with no more positions than there are."""
    source = mc.compile(library.load(name)).source(extents={**MANY, **extents})
    assert re.findall(r"for (\w+ in (?:tl\.)?range\(0, \d+(?:, loop_.*)?\)):", source) == expected


def test_blocks() -> None:
    stages = mc.compile(library.load("laplace_attention")).stages
    assert "for d in 0 .. size_d, 16 together:" in stages["blocks"]
    assert "for d in 0 .. size_d:" in stages.before("load_together")
