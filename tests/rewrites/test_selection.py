"""Choices by order, and comparisons."""

from __future__ import annotations

import pytest

import monocomp as mc
from monocomp.rewrites.selection import selection
from tests.rewrites.rules import check_does_not_fire, check_variant, rule_of

HEAD = "index e < 2\ninput S[i,k], X[k], C[i], N[i]: int, M[k]: int\n"


@pytest.mark.parametrize(
    "text",
    [
        "A[i,e] = top[k -> e](2 * S[i,k])",  # values
        "A[i,e] = argtop[k -> e](-S[i,k])",  # of which the order turns round
        "A[i,e] = argtop[k -> e](exp(S[i,k]))",  # 0 is an element, and -inf is none
        "A[i,k] = where(N[i] * M[k] < N[i], X[k], 0)",  # of any sign
        "A[i,k] = where(-S[i,k] < -X[k], X[k], 0)",
    ],
)
def test_near_miss(text: str) -> None:
    for rule in selection.rules:
        check_does_not_fire(rule, HEAD + text)


def test_scaled_scores_are_ranked_and_compared_without_their_scale() -> None:
    check_variant(
        rule_of(selection, "list_positions_by_order"),
        f"{HEAD}A[i,e] = argtop[k -> e if k <= i](S[i,k] * 3 / (1 + i))",
        f"{HEAD}A[i,e] = argtop[k -> e if k <= i](S[i,k])",
    )
    check_variant(
        rule_of(selection, "compare_by_order"),
        f"{HEAD}A[i,k] = where(S[i,k] / sqrt(|k|) < X[k] / sqrt(|k|), 1 + i + k, 0)",
        f"{HEAD}A[i,k] = where(S[i,k] < X[k], 1 + i + k, 0)",
    )


def test_the_largest_are_found_beside_a_softmax() -> None:
    """Of the logits, in one pass."""
    kernel = mc.compile(
        """
        index r < 8
        S[q,k] = Q[q,d] * K[k,d] / sqrt(|d|)
        O[q,e] = softmax[k if k <= q](S[q,k]) * V[k,e]
        A[q,r] = argtop[k -> r if k <= q](S[q,k])
        return O, A
        """
    )
    assert kernel.report()["passes"] == {"k": 1}
    assert kernel.report()["kernels"] == 1
