"""Choices by order, and the increasing functions that leave them."""

from __future__ import annotations

import numpy as np
import pytest

from monocomp.reference.oracle import evaluate
from monocomp.rewrites.selection import selection
from monocomp.rewriting.driver import Rewriter
from tests.rewrites.rules import equations, inputs_of, rule_of, rule_tests, values

# Not increasing, or not known to be; the argument is what is chosen from.
OTHERS = [
    "S[i,k] * C[i]",  # a factor of unknown sign
    "S[i,k] / C[i]",
    "S[i,k] + S[k,i]",  # nothing that the index leaves alone
    "S[i,k] * exp(S[k,i])",  # a factor that varies
    "S[i,k] * (1 + k)",
    "S[i,k] * exp(C[i])",  # 0, perhaps
    "S[i,k] + C[i]",  # -inf, perhaps
    "S[i,k] + where(C[i] > 0, C[i], -inf)",
    "exp(S[i,k]) * Z[k] / sum[j](exp(S[i,j]))",  # which scales what would be too large
    "abs(S[i,k])",
    "maximum(S[i,k], exp(C[i]))",  # no product
    "(k <= i) * exp(S[i,k])",  # 0 is an element, where the filter fails
]


@pytest.mark.parametrize("element", OTHERS)
@pytest.mark.parametrize("choice", ["argmax[k]", "argmax[k if k < i]", "argtop[k -> e]"])
def test_near_miss(choice: str, element: str) -> None:
    head = "A[i,e]" if "-> e" in choice else "A[i]"
    rewriter = Rewriter(equations(f"index e < 2\n{head} = {choice}({element})"))
    rewriter.exhaust(selection)
    assert not rewriter.steps


test_example, test_exponents_stay, test_exponents = rule_tests(
    [rule_of(selection, "choose_among_exponents")],
    {
        "choose_among_exponents": [
            "input S[i,k], C[i]\nA[i] = argmax[k](exp(C[i])) + sum[k](S[i,k])",  # it is fixed
            "A[i] = max[k](exp(S[i,k]))",
        ]
    },
    {
        "choose_among_exponents": [
            "argmax[k if i <= k](exp(relu(S[i,k]))) => argmax[k if i <= k](relu(S[i,k]))",
            "argmax[k](exp(S[i,k])) => argmax[k](S[i,k])",
            # Where all elements are -inf the first position is found, which is no element's here.
            "argmax[k if i <= k](exp(S[i,k]))"
            " => argmax[k if i <= k](maximum(S[i,k], -170141183460469231731687303715884105728.0))",
        ]
    },
    start="A[i] = ",
)


INCREASING = [
    "2 * S[i,k] + i",
    "exp(S[i,k] / sqrt(|k|) - i)",
    "exp(exp(S[i,k]))",
    "exp(S[i,k]) * exp(i) - i",
    "exp(S[i,k]) / sum[k](exp(S[i,k]))",
    "exp(S[i,k]) / sum[k if k < i](exp(S[i,k]))",
]


@pytest.mark.parametrize(
    ("element", "filtered"),
    [
        (element, filtered)
        for element in INCREASING
        for filtered in ("k", "k if k < i")
        if filtered != "k" or "k < i" not in element  # whose zeros count as elements
    ],
)
def test_values_and_places_stay(element: str, filtered: str) -> None:
    """Also where fewer elements are there than the list is long."""
    text = f"""
        index r < 4
        A[i] = argmax[{filtered}]({element})
        P[i,r] = argtop[{filtered} -> r]({element})
        T[i,r] = top[{filtered} -> r]({element})
        """
    text = text.replace(f"[{filtered} -> r]", f"[k -> r{filtered[1:]}]")
    rewriter = Rewriter(equations(text))
    rewriter.exhaust(selection)
    lines = dict(line.split(" = ", 1) for line in rewriter.program.lines())
    assert filtered != "k" or lines["A[i]"] == "argmax[k](S[i,k])"
    inputs = inputs_of(rewriter.start)
    wanted = evaluate(rewriter.start.origin.text, inputs)
    for got, exact in zip(values(rewriter.program, inputs), wanted, strict=True):
        np.testing.assert_allclose(got, exact, rtol=1e-12)
