"""Products that end before the next block, and those that need not."""

from __future__ import annotations

import pytest

import monocomp as mc
from monocomp import library

ROW = "input A[i,k], B[k,j], C[k,l]\n"


@pytest.mark.parametrize(
    ("text", "is_ended"),
    [
        ("O[i,j] = A[i,k] * B[k,j]", False),  # as it is loaded
        ("O[i,j] = exp(A[i,k]) * B[k,j]", True),  # computed from what is loaded
        ("O[i,j] = exp(sum[l](A[i,l] * C[k,l])) * B[k,j]", False),  # from a product of the block
        (library.load("attention"), False),
        (library.load("linear_attention"), True),
    ],
)
def test_products_that_are_ended(text: str, is_ended: bool) -> None:
    text = text if "input" in text else ROW + text
    stages = mc.compile(text).stages
    assert ("ended(" in stages["blocks"]) == is_ended
    assert "ended(" not in stages.before("end_products")
