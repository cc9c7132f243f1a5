"""Choices by order, and the increasing functions that leave them."""

from __future__ import annotations

import numpy as np
import pytest

import monocomp as mc
from monocomp.reference.oracle import evaluate
from monocomp.rewrites.selection import selection
from monocomp.rewriting.driver import Rewriter
from monocomp.rewriting.rules import Rule
from tests.rewrites.rules import (
    apply_only,
    check_does_not_fire,
    check_example,
    check_variant,
    equations,
    inputs_of,
    rule_of,
    values,
)


@pytest.mark.parametrize("rule", selection.rules, ids=lambda rule: rule.name)
def test_example(rule: Rule) -> None:
    check_example(rule)


# Not increasing, or not known to be; the second argument is what is chosen from.
OTHERS = [
    "S[i,k] * C[i]",  # a factor of unknown sign
    "S[i,k] + S[k,i]",  # nothing that the index leaves alone
    "S[i,k] * exp(S[k,i])",  # a factor that varies
    "S[i,k] * (1 + sigmoid(S[k,i]))",
    "S[i,k] * (1 + k)",
    "S[i,k] * (1 + C[i] ** 2)",  # infinite, perhaps
    "exp(S[i,k]) * sum[j](exp(S[i,j])) ** 2",
    "exp(S[i,k]) * Z[k] / sum[j](exp(S[i,j]))",  # which scales what would be too large
    "abs(S[i,k])",
    "maximum(S[i,k], exp(C[i]))",  # no product
    "S[i,k] + where(C[i] > 0, C[i], -inf)",  # may make every element missing
    "(k <= i) * exp(S[i,k])",  # 0 is an element, where the filter fails
    "exp(S[i,k]) / sum[j if j < i](exp(S[i,j]))",  # 0 for all k in the first row
    "exp(S[i,k]) / sum[j, l if j < l and l < i](exp(S[j,l]))",  # so is this
]


@pytest.mark.parametrize("element", OTHERS)
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("choose_by_order", "A[i] = argmax[k]({})"),
        ("list_positions_by_order", "A[i,e] = argtop[k -> e]({})"),
        ("map_listed_values", "A[i,e] = top[k -> e]({})"),
    ],
)
def test_near_miss(name: str, text: str, element: str) -> None:
    declared = "index e < 2\n" if "-> e" in text else ""
    check_does_not_fire(rule_of(selection, name), declared + text.format(element))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("choose_by_order", "A[i] = argmax[k if S[i,k] < 0](-2.0)"),  # all are equal
        ("choose_by_order", "A[i] = argmax[k if S[i,k] < 0](exp(C[i]))"),
        ("choose_by_order", "A[i] = max[k](2 * S[i,k])"),  # no positions
        ("choose_by_order", "A[i] = argmax[k](S[i,k] + C[i])"),  # -inf, perhaps
        ("choose_by_order", "A[i] = argmax[k](S[i,k] * exp(C[i]))"),  # 0, then
        # Where all elements are -inf the first place is found, which is no element's here.
        ("choose_by_order", "A[i] = argmax[k if i <= k](exp(S[i,k]))"),
        ("choose_by_order", "A[i] = argmax[k if k != i](exp(S[i,k]))"),
        ("choose_by_order", "A[i] = argmax[k if 2 * k < i + k // 2](exp(S[i,k]))"),
        ("choose_by_order", "A[i] = argmax[k if k < N[k]](exp(S[i,k]))\ninput N[k]: int"),
        ("choose_by_order", "A[i] = argmax[k if k < i or i < 2](exp(S[i,k]))"),
        ("choose_by_order", "A[i] = argmax[k if k % 2 < i](exp(S[i,k]))"),
        ("choose_by_order", "A[i] = argmax[k](exp(C[i])) + sum[k](S[i,k])"),  # it is fixed
        ("list_positions_by_order", "A[i,e] = top[k -> e](2 * S[i,k])"),
        ("map_listed_values", "A[i,e] = argtop[k -> e](2 * S[i,k])"),
    ],
)
def test_other_near_miss(name: str, text: str) -> None:
    check_does_not_fire(rule_of(selection, name), f"index e < 2\n{text}")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("argmax[k if i <= k](exp(relu(S[i,k])))", "argmax[k if i <= k](relu(S[i,k]))"),
        ("argmax[k if i <= k](2 * S[i,k])", "argmax[k if i <= k](S[i,k])"),
        (
            "argmax[k if k <= i and 0 < C[i]](exp(S[i,k]))",
            "argmax[k if k <= i and 0 < C[i]](S[i,k])",
        ),
    ],
)
def test_filtered_choice(before: str, after: str) -> None:
    head = "input S[i,k], C[i]\nA[i] = "
    check_variant(rule_of(selection, "choose_by_order"), head + before, head + after)


def test_a_number_that_may_not_be_missing() -> None:
    """An exponent that is more than -inf is listed as it is."""
    head = "index e < 2\nA[i,e] = "
    check_variant(
        rule_of(selection, "list_positions_by_order"),
        head + "argtop[k -> e](exp(relu(S[i,k])))",
        head + "argtop[k -> e](relu(S[i,k]))",
    )


def test_a_list_is_not_turned_round() -> None:
    """The language has no list of the smallest elements."""
    text = "index e < 2\nA[i,e] = argtop[k -> e](-2 * S[i,k])"
    rewriter = apply_only(rule_of(selection, "list_positions_by_order"), text)
    assert rewriter.program.lines() == ["A[i,e] = argtop[k -> e](-2 * S[i,k])"]


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
        B[i] = argmin[{filtered}](2 - 3 * ({element}))
        P[i,r] = argtop[{filtered} -> r]({element})
        T[i,r] = top[{filtered} -> r]({element})
        """
    text = text.replace(f"[{filtered} -> r]", f"[k -> r{filtered[1:]}]")
    rewriter = Rewriter(equations(text))
    rewriter.exhaust(selection)
    lines = dict(line.split(" = ", 1) for line in rewriter.program.lines())
    assert lines["A[i]"] == lines["B[i]"] == f"argmax[{filtered}](S[i,k])"
    inputs = inputs_of(rewriter.start)
    wanted = evaluate(rewriter.start.origin.text, inputs)
    for got, exact in zip(values(rewriter.program, inputs), wanted, strict=True):
        np.testing.assert_allclose(got, exact, rtol=1e-12)


def test_probabilities_are_chosen_among_logits() -> None:
    """The largest of a softmax, their positions, and the softmax take one pass."""
    kernel = mc.compile(
        """
        index r < 8
        S[q,k] = Q[q,d] * K[k,d]
        P[q,k] = softmax[k if k <= q](S[q,k])
        O[q,e] = P[q,k] * V[k,e]
        T[q,r] = top[k -> r if k <= q](P[q,k])
        A[q,r] = argtop[k -> r if k <= q](P[q,k])
        B[q] = argmax[k if k <= q](P[q,k])
        return O, T, A, B
        """
    )
    assert kernel.report()["passes"] == {"k": 1}
    assert kernel.report()["kernels"] == 1
