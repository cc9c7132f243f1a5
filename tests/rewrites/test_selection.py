"""Choices by order, and the increasing functions that leave them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import monocomp as mc
from monocomp.derivation.rule_sets import derive
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

INF = math.inf


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


# Points at which it matters what is compared: rows of logits are masked, one in the last infinite.
COMPARED = "input S[i,k], X[k], R[k], C[i]\nA[i,k] = where({} <= {}, 1 + i + k, 0)"
POINTS = {
    "S": [[1.0, -1.0, 2.0], [-INF, -INF, -INF], [-INF, -INF, 2.0], [INF, -3.0, 0.5]],
    "X": [-1.0, 0.0, 3.0],
    "R": [INF, INF, INF],
    "C": [-1.0, 0.0, INF, -INF],
}
TOTAL = "sum[j](exp(S[i,j]))"
CAUSAL = "log(sum[j if j <= i](exp(S[i,j])))"
LARGEST, LEAST = "max[j](exp(S[i,j]))", "min[j](exp(S[i,j]))"


@pytest.mark.parametrize(
    ("common", "x", "y"),
    [
        ("{} + C[i]", "S[i,k]", "X[k]"),  # infinite, perhaps
        ("{} + 1 / C[i]", "S[i,k]", "X[k]"),
        ("{} * C[i]", "S[i,k]", "X[k]"),  # of any sign
        ("{} * exp(C[i])", "S[i,k]", "X[k]"),  # 0, perhaps
        ("{} * i", "S[i,k]", "X[k]"),
        ("{} * (1 + C[i] ** 2)", "S[i,k]", "X[k]"),
        ("{} * -2", "S[i,k]", "X[k]"),
        # A side does not vanish with what divides it.
        (f"{{}} / {TOTAL}", "X[k]", "2 * X[k]"),
        (f"{{}} / {TOTAL}", "X[k]", LARGEST),
        (f"{{}} / {TOTAL}", LARGEST, "X[k]"),
        (f"{{}} - log({TOTAL})", "X[k]", "2 * X[k]"),
        ("{} - log(sum[j if j < i](exp(S[i,j])))", "S[i,k]", "2 * S[i,k]"),
        (f"{{}} - {CAUSAL}", "where(k <= i + 1, S[i,k], -inf)", "S[i,k]"),
        (
            f"{{}} - {CAUSAL}",
            "(S[i,k] + log(where(k <= i, 2.0, 1.0)))",
            "(S[i,k] + log(where(k <= i, 3.0, 1.0)))",
        ),
        # What is taken away is no logarithm.
        (f"{{}} - sqrt({TOTAL})", "S[i,k]", "2 * S[i,k]"),
    ],
)
def test_what_decides_a_comparison(common: str, x: str, y: str) -> None:
    """What both sides have in common stays where the comparison may be another without it."""
    whole = COMPARED.format(common.format(x), common.format(y))
    check_does_not_fire(rule_of(selection, "compare_by_order"), whole)
    assert not np.array_equal(evaluate(whole, POINTS), evaluate(COMPARED.format(x, y), POINTS))


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ("N[i] + k", "M[k] + k"),  # ints, which floats would round
        ("S[i,k] + i", "1.0 * i"),  # nothing would be left on a side
        ("S[i,k] * 2", "2.0"),
        ("X[k] + i", "C[i] + k"),  # not in common
        ("S[i,k] / -3", "X[k] / 3"),
        (f"exp(prod[j](S[i,j])) / {TOTAL}", f"exp(2 * prod[j](S[i,j])) / {TOTAL}"),
    ],
)
def test_comparisons_that_stay(x: str, y: str) -> None:
    text = "input N[i]: int, M[k]: int\n" + COMPARED.format(x, y)
    check_does_not_fire(rule_of(selection, "compare_by_order"), text)


@pytest.mark.parametrize(
    ("common", "x", "y"),
    [
        ("{} + 2", "S[i,k]", "X[k]"),
        ("{} * 2", "S[i,k]", "X[k]"),
        ("{} - log(1 + i)", "S[i,k]", "X[k]"),
        ("{} / (1 + i)", "S[i,k]", "X[k]"),
        ("{} * (1 + k) / sqrt(|k|)", "S[i,k]", "X[k]"),
        ("{} * (1 + k) / (1 + i) + k - 0.5 * i", "S[i,k]", "X[k]"),
        (f"{{}} / {TOTAL}", LARGEST, "exp(S[i,k])"),
        (f"{{}} / {TOTAL}", "exp(S[i,k])", LEAST),
        (f"{{}} / {TOTAL}", "exp(max[j](S[i,j]))", "exp(S[i,k])"),
        (f"{{}} / {TOTAL}", LARGEST, "2 * exp(S[i,k])"),  # half as much
        (f"{{}} / {TOTAL}", LARGEST, "exp(S[i,k] + 1) * abs(X[k])"),
        (f"{{}} / {TOTAL} / (1 + i)", LARGEST, "exp(S[i,k])"),
        (f"{{}} / sqrt({TOTAL})", LARGEST, "exp(S[i,k])"),
        (f"{{}} - log({TOTAL})", "max[j](S[i,j])", "S[i,k]"),
        (f"{{}} - log({TOTAL})", "S[i,k]", "min[j](S[i,j])"),
        (f"{{}} - log({TOTAL}) - 3 * i", "max[j](S[i,j]) - 1", "S[i,k] + X[k]"),
        (f"{{}} - {CAUSAL}", "max[j if j <= i](S[i,j])", "where(k <= i, S[i,k], -inf)"),
    ],
)
def test_what_leaves_a_comparison(common: str, x: str, y: str) -> None:
    """Also where a row is masked."""
    whole = COMPARED.format(common.format(x), common.format(y))
    left = COMPARED.format(x, y)
    check_variant(rule_of(selection, "compare_by_order"), whole, left)
    np.testing.assert_array_equal(evaluate(whole, POINTS)[:3], evaluate(left, POINTS)[:3])


def test_the_largest_share_is_found_among_logits() -> None:
    text = "P[i,k] = log_softmax[k](S[i,k])\nA[i,k] = where(P[i,k] >= max[j](P[i,j]), X[k], 0)"
    steps = derive(equations(text)).steps
    after = [str(s.after) for s in steps if s.rule == "compare_by_order"]
    assert after == ["max[k](S[i,k]) <= S[i,k]"]


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
