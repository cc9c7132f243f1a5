"""Values of the forward are read for the terms that they tell, and for no others."""

from __future__ import annotations

import monocomp as mc
from monocomp import library
from tests.gradients.test_derived import check_gradient_by_differences


def test_weights_have_a_name_where_their_sum_has_them() -> None:
    """The first query has no key there, and other exponentials are numbers. A share of nothing asks
    for no condition."""
    text = """S[q,k] = Q[q,d] * K[k,d]
O[q] = softmax[k if k < q](S[q,k]) * V[k] + sum[k](exp(S[q,k]) * W[k])"""
    found = mc.grad(text)
    lines = str(found).splitlines()
    assert "P[q,k] = exp(S[q,k] - L[q])" in lines
    assert any(line.startswith("dW[k] = sum[q](dO[q] * exp(") for line in lines)
    assert "-inf" not in str(found)
    check_gradient_by_differences(text, found)


def test_elements_are_shares_of_the_largest_sum() -> None:
    """A sink stands beside the sum over keys, whose logarithm is not read."""
    found = mc.grad(library.load("learned_sink"))
    assert [n for n in found.saved if n.startswith("L")] == ["L_2"]


def test_divisors_stay_with_weights() -> None:
    """Weights that are selected are no elements of the sum as they stand; neither these nor what
    divides them is a float by itself."""
    text = str(mc.grad(library.load("softmax_top8")))
    assert "exp(-L" not in text and "exp(T[t,r] - L[t])" in text


def test_conditions_compare_what_was_computed() -> None:
    """Sums that conditions ask for are read, as they are not rounded."""
    found = mc.grad(library.load("sparsemax"))
    assert {"M_2", "M_3", "M_4", "M_5"} <= found.saved.keys()
    assert "(1.0 <= M_2[i]" in found.equations.shown(found.equations.by_name["G"].body)
