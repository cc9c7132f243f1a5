"""Choices by order, and the increasing functions that leave them."""

from __future__ import annotations

import pytest

from monocomp.rewrites.selection import selection
from tests.rewrites.rules import check_does_not_fire, check_example, rule_of

RULE = rule_of(selection, "list_positions_by_order")


def test_example() -> None:
    check_example(RULE)


@pytest.mark.parametrize(
    "element",
    [
        "S[i,k] * C[i]",  # of unknown sign
        "-2 * S[i,k]",
        "S[i,k] * (1 + C[i] ** 2)",  # infinite, perhaps
        "S[i,k] * exp(S[k,i])",  # it varies
        "3.0 + C[i]",  # all are equal
    ],
)
def test_near_miss(element: str) -> None:
    check_does_not_fire(RULE, f"input S[i,k]\nindex e < 2\nA[i,e] = argtop[k -> e]({element})")
