"""Folds over an extent of 0 are their units."""

from __future__ import annotations

import pytest

from monocomp.rewrites.emptiness import emptiness
from monocomp.rewriting.rules import Rule
from tests.rewrites.rules import check_does_not_fire, check_example, check_variant, rule_of

FOLD_NOTHING = rule_of(emptiness, "fold_nothing")


@pytest.mark.parametrize("rule", emptiness.choices, ids=lambda rule: rule.name)
def test_example(rule: Rule) -> None:
    check_example(rule)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("X[i] + sum[k](S[i,k])", "X[i]"),
        ("X[i] * prod[k](S[i,k])", "X[i]"),
        ("minimum(X[i], min[k](S[i,k]))", "minimum(X[i], inf)"),
        ("X[i] + sum[k](max[j](S[i,k] * R[i,j]))", "X[i]"),
        ("X[i] + max[j](R[i,j] + sum[k](S[i,k]))", "X[i] + max[j](R[i,j])"),
        ("X[i] * M[j, k](S[i,k], R[i,j]).m", "X[i] * M[j, k if k < k](S[i,k], R[i,j]).m"),
    ],
)
def test_variant(before: str, after: str) -> None:
    head = "monoid M(v, m) = unit (0, 1), combine (v * m' + v', m * m')\n"
    head += "input X[i], S[i,k], R[i,j]\nindex k < 0\nA[i] = "
    check_variant(FOLD_NOTHING, head + before, head + after)


def test_selection() -> None:
    """The positions of the largest of nothing: there is none."""
    head = "index k < 0, e < 2\nA[i,e] = "
    check_variant(
        FOLD_NOTHING,
        head + "X[i] + argtop[k -> e](S[i,k])",
        "input X[i], S[i,k]\n" + head + "X[i] + argtop[k -> e if k < k](S[i,k])",
    )


@pytest.mark.parametrize(
    "text",
    [
        "O[i] = max[k](S[i,k])",  # the extent is not known
        "index k < 1\nO[i] = max[k](S[i,k])",
        "index k < 0\nO[i] = max[j](S[i,j]) + |k|",  # another one
        "index k < 0\nO[i] = max[k if k < k](S[i,k])",  # nothing is left to do
    ],
)
def test_near_miss(text: str) -> None:
    check_does_not_fire(FOLD_NOTHING, text)
