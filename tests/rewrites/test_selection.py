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
    "exp(S[i,k]) * Z[k] / sum[j](exp(S[i,j]))",  # which scales what would be too large
    "abs(S[i,k])",
    "maximum(S[i,k], exp(C[i]))",  # no product
    "(k <= i) * exp(S[i,k])",  # 0 is an element, where the filter fails
]


@pytest.mark.parametrize("element", OTHERS)
@pytest.mark.parametrize("choice", ["argtop[k -> e]", "argtop[k -> e if k < i]"])
def test_near_miss(choice: str, element: str) -> None:
    rewriter = Rewriter(equations(f"index e < 2\nA[i,e] = {choice}({element})"))
    rewriter.exhaust(selection)
    assert not rewriter.steps


test_example, test_exponents_stay, test_exponents = rule_tests(
    [rule_of(selection, "choose_among_exponents")],
    {
        "choose_among_exponents": [
            # it is fixed
            "index e < 2\ninput S[i,k], C[i]\nA[i,e] = argtop[k -> e](exp(C[i])) + sum[k](S[i,k])",
            "A[i] = max[k](exp(S[i,k]))",
        ]
    },
    {
        "choose_among_exponents": [
            "argtop[k -> e if i <= k](exp(relu(S[i,k]))) => argtop[k -> e if i <= k](relu(S[i,k]))",
            "argtop[k -> e](exp(S[i,k]))"
            " => argtop[k -> e](maximum(S[i,k], -170141183460469231731687303715884105728.0))",
        ]
    },
    start="index e < 2\nA[i,e] = ",
)


INCREASING = [
    "2 * S[i,k]",
    "exp(S[i,k] / sqrt(|k|) - i)",
    "exp(exp(S[i,k]))",
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
        P[i,r] = argtop[{filtered} -> r]({element})
        T[i,r] = top[{filtered} -> r]({element})
        """
    text = text.replace(f"[{filtered} -> r]", f"[k -> r{filtered[1:]}]")
    rewriter = Rewriter(equations(text))
    rewriter.exhaust(selection)
    lines = dict(line.split(" = ", 1) for line in rewriter.program.lines())
    assert "exp" not in lines["P[i,r]"]
    inputs = inputs_of(rewriter.start)
    wanted = evaluate(rewriter.start.origin.text, inputs)
    for got, exact in zip(values(rewriter.program, inputs), wanted, strict=True):
        np.testing.assert_allclose(got, exact, rtol=1e-12)
