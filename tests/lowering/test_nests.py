"""Loops that go one value at a time."""

from __future__ import annotations

import pytest

import monocomp as mc

INPUTS = "input Q[q,d], K[k,d], R[r,d], T[d,k], S[k]: int\n"
DISTANCES = "P[q,k] = exp(-sum[d](abs(Q[q,d] - K[k,d])))\n"
SIZES = {"q": 512, "k": 512, "d": 64, "r": 64}


@pytest.mark.parametrize(
    ("condition", "element", "role"),
    [
        ("", "abs(K[k,d] - Q[q,d])", "serial"),
        (" if k <= q", "abs(K[k,d] - Q[q,d])", "serial"),  # an interval
        (" if S[k] == 1", "abs(K[k,d] - Q[q,d])", "stream"),  # a mask: blocks mask together
        ("", "abs(T[d,k] - Q[q,d])", "stream"),  # columns would lie apart
        ("", "R[(k - q) % |r|,d]", "stream"),  # the tile that is read has three axes
        ("", "K[k,d]", "stream"),  # a product of matrices
    ],
)
def test_sums_of_tiles_of_three_axes(condition: str, element: str, role: str) -> None:
    """Tiles of rows, of the loop, and of an axis that is held entirely, that are computed."""
    text = f"{INPUTS}{DISTANCES}O[q,d] = sum[k{condition}](P[q,k] * {element})\n"
    text += f"N[q] = sum[k{condition}](P[q,k])"
    (kernel,) = mc.compile(text).tile_programs(SIZES)
    assert kernel.axes["k"].role == role
