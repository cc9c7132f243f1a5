"""Random numbers choose the elements of sums, also where they choose none."""

from __future__ import annotations

import math

import numpy as np
import pytest

from monocomp.derivation.rule_sets import derive
from monocomp.language.checker import check
from monocomp.planning.random_filters import choose_elements
from monocomp.translation.translator import translate
from tests.agreement import check_step

DECLARED = "param r: float\n"
CHOSEN = [
    "O[i,d] = sum[k if r <= uniform(3, i, k)](X[i,k] * Y[k,d])",
    "O[i,d] = sum[k if k <= i and r <= uniform(3, i, k)](X[i,k] * Y[k,d]) / (1 - r)",
    "O[i,d] = tanh(Z[i]) * sum[k if not uniform(3, i, k) < r](X[i,k] * Y[k,d]) / (1 - r) + Z[i]",
]
KEPT = [
    "O[i,d] = max[k if r <= uniform(3, i, k)](X[i,k] * Y[k,d])",
    "O[i,d] = sum[k if r <= X[i,k]](X[i,k] * Y[k,d])",
    # Of nothing over nothing 0 is left.
    "O[i,d] = sum[k if r <= uniform(3, i, k)](X[i,k] * Y[k,d])"
    " / sum[k if r <= uniform(3, i, k)](X[i,k])",
]


@pytest.mark.parametrize("line", CHOSEN)
def test_chosen(line: str) -> None:
    """Infinities and NaN that are not admitted stay out, and of nothing remains nothing."""
    program = derive(translate(check(DECLARED + line))).program
    steps = list(choose_elements(program))
    before, after = program.text(), steps[-1].program.text()
    assert "uniform(" not in after.partition("if ")[2].partition("]")[0]
    generator = np.random.default_rng(0)
    for point in (0.0, 1.0, math.inf, -math.inf, math.nan):
        inputs = {"X": generator.choice([point, 1.0], size=(5, 6)), "Z": np.arange(5.0)}
        inputs["Y"] = generator.normal(size=(6, 2))
        for r in (0.0, 0.3, 1.0, 2.0, math.nan):
            check_step(before, after, inputs, {"r": r})


@pytest.mark.parametrize("line", KEPT)
def test_kept(line: str) -> None:
    assert not list(choose_elements(derive(translate(check(DECLARED + line))).program))
