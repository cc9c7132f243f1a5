"""The elements that folds join."""

from __future__ import annotations

import pytest

from monocomp.costs.fold_elements import elements_of_folds
from tests.rewrites.rules import equations

SIZES = "index i < 2\nindex j < 3\nindex k < 5\nindex p < 7\nindex t < 11\n"


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("A[i] = sum[k](X[i,k])", 2 * 5),
        ("A[i] = sum[k](X[i,k]) + sum[j](Y[j] * sum[k](X[i,k]))", 2 * 5 + 2 * 3),
        # Elements of one fold are tested one by one.
        ("input X[k], T[k]: int\nA[p] = sum[k if p == T[k]](X[k])", 7 * 5),
        # A fold in it has an element for each k, though its rows are named by p.
        (
            "input X[p,t], T[k]: int\nA[p] = sum[k if p == T[k]](exp(sum[t](X[p,t])))",
            7 * 5 + 5 * 11,
        ),
        (
            "input X[p,t], Y[k,t], T[k]: int\n"
            "A[p] = sum[k if p == T[k]](exp(sum[t](X[p,t] * Y[k,t])))",
            7 * 5 + 5 * 11,
        ),
        # Without the equality there are as many as of both.
        ("A[p] = sum[k if p < T[k]](exp(sum[t](X[p,t] * Y[k,t])))", 7 * 5 + 7 * 5 * 11),
        # An index determines none by which it is determined.
        ("A[p] = sum[k if p == k + 1 and k == p - 1](exp(sum[t](X[p,t] * Y[k,t])))", 35 + 5 * 11),
    ],
)
def test_elements(text: str, elements: int) -> None:
    """Each fold counts once for all values of its indices that filters around it leave."""
    assert elements_of_folds(equations(SIZES + text)) == elements
