"""The definitions of the derived reductions."""

from __future__ import annotations

import numpy as np
import pytest

from monocomp.reference.oracle import evaluate
from monocomp.rewrites.elaboration import elaboration
from monocomp.rewriting.driver import Rewriter
from tests.rewrites.rules import (
    apply_only,
    check_variant,
    equations,
    inputs_of,
    rule_of,
    rule_tests,
    same_bodies,
    values,
)

NEAR_MISSES = {
    "expand_prefix": ["P[k] = softmax[k](X[k])", "index r < 2\nA[r] = top[k -> r](X[k])"],
    "nest_indices": [
        "A[i] = max[k](X[i,k])",
        "A[i] = mean[j, k](X[i,j,k])",  # the inner means would weigh alike
        "A[i] = any[j, k](X[i,j,k] < 0)",
    ],
}


test_example, test_near_miss, _ = rule_tests(elaboration.rules, NEAR_MISSES, {})


def test_several_indices_of_a_monoid_of_tuples() -> None:
    """The results of the rows are elements themselves."""
    monoid = "monoid A(a, u) = unit (1, 0), combine (a * a', a' * u + u')\n"
    check_variant(
        rule_of(elaboration, "nest_indices"),
        monoid + "O[i] = A[j, k](X[i,j,k], Y[i,j,k]).u",
        monoid + "O[i] = A[j](A[k](X[i,j,k], Y[i,j,k]).a, A[k](X[i,j,k], Y[i,j,k]).u).u",
    )


@pytest.mark.parametrize(
    ("condition", "of_rows", "of_elements"),
    [
        ("0 < j and k <= j", "if 0 < j", "if k <= j"),
        ("k < j and 0 < Y[j - 1]", "if j <= |j| and 0 < j and 0.0 < Y[j - 1]", "if k < j"),
    ],
)
def test_filters_of_rows(condition: str, of_rows: str, of_elements: str) -> None:
    """Conditions on rows are asked of rows, also where only the filter of their elements keeps
    a read inside its tensor."""
    text = f"input X[i,j,k], Y[j]\nA[i] = max[j, k if {condition}](X[i,j,k])"
    rewriter = apply_only(rule_of(elaboration, "nest_indices"), text)
    (line,) = rewriter.program.lines()
    assert line == f"A[i] = max[j {of_rows}](max[k {of_elements}](X[i,j,k]))"
    inputs = inputs_of(rewriter.start)
    expected = evaluate(rewriter.start.origin.text, inputs)
    np.testing.assert_array_equal(values(rewriter.program, inputs), expected)


def test_folds_of_user_monoids_nest() -> None:
    """Every field of a row goes into the fold of the rows."""
    start = "monoid M(v, m) = unit (0, 1), combine (v * m' + v', m * m')\n"
    before = "A[i] = M[j, k if k <= j](X[i,j,k], Y[j]).v"
    row = "M[k if k <= j](X[i,j,k], Y[j])"
    rule = rule_of(elaboration, "nest_indices")
    check_variant(rule, start + before, f"{start}A[i] = M[j]({row}.v, {row}.m).v")


def test_masked_places_are_not_there() -> None:
    """Outside its filter a softmax is 0 whatever stands there, and nothing is read."""
    rewriter = apply_only(
        rule_of(elaboration, "expand_softmax"),
        "P[i,k] = softmax[k if 0 < k](X[i,k - 1] / Y[i,k])",
    )
    (line,) = rewriter.program.lines()
    assert line == (
        "P[i,k] = exp(X[i, k - 1] / Y[i,k]) * (0 < k) / sum[k if 0 < k](exp(X[i, k - 1] / Y[i,k]))"
    )
    inputs = inputs_of(rewriter.start)
    inputs["Y"][:, 0] = 0.0
    result = values(rewriter.program, inputs)
    np.testing.assert_allclose(result, evaluate(rewriter.start.origin.text, inputs), rtol=1e-12)
    assert not result[:, 0].any() and np.isfinite(result).all()


def test_a_definition_read_at_a_computed_place() -> None:
    """The language has no softmax at a computed position, so it is written out at once."""
    text = "P[i,k] = softmax[k](X[i,k])\nC[k] = sum[..k](Y[k])\nO[i,k] = P[i,k // 2] + C[k // 2]"
    rewriter = Rewriter(equations(text))
    rewriter.inline_definitions()
    inputs = inputs_of(rewriter.start)
    for step in rewriter.steps:
        assert same_bodies(step.program, equations(step.program.text()))
        expected = evaluate(rewriter.start.origin.text, inputs)
        np.testing.assert_allclose(values(step.program, inputs), expected, rtol=1e-12)
