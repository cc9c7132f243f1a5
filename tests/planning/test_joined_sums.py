"""Sums that multiply the same columns are one, at special points too; and random numbers choose the
elements of sums, also where they choose none."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from monocomp.derivation.rule_sets import derive
from monocomp.language.checker import check
from monocomp.planning.joined_sums import join_sums
from monocomp.rewriting.driver import Step
from monocomp.translation.translator import translate
from tests.agreement import check_step

POINTS = (0.0, -0.0, 1.0, -2.0, math.inf, -math.inf, math.nan)
JOINED = [
    "O[v,d] = sum[t](X[t,d] * P[t,v]) * c[v] - sum[t if v == label[t]](X[t,d] * g[t])",
    "O[v,d] = sum[t if g[t] > 0](X[t,d] * P[t,v]) + sum[t if t < 1](X[t,d] * abs(g[t])) + c[v]",
    "O[v,d] = sum[t if t < 2](X[t,d] * tanh(P[t,v])) + sum[t if t > 0](X[t,d] * (P[t,v] + g[t]))",
]
APART = [
    "O[v,d] = sum[t](X[t,d] * P[t,v]) / c[v] - sum[t](X[t,d] * g[t])",  # 1 / 0
    "O[v,d] = sum[t](X[t,d] * P[t,v]) + sum[t](Y[t,d] * g[t])",  # other columns
    "O[v] = sum[t](tanh(P[t,v]) * g[t]) + sum[t if t < 1](tanh(P[t,v]))",  # not read
]


LIMITS = (0.1, 0.5, 1.0, 1.5, -1.0, math.nan)


def steps_of(line: str) -> list[Step]:
    declared = "input label[v]: int\n" if "label[v]" in line else ""
    declared += "input label[t]: int\n" if "label[t]" in line else ""
    declared += "param r: float\n" if " r)" in line else ""
    return list(join_sums(derive(translate(check(declared + line))).program))


def inputs_for(p: float, g: float) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {
        "X": generator.normal(size=(3, 2)),
        "P": generator.choice([p, 1.0, -0.5], size=(3, 4)),
        "g": np.array([g, 0.5, -1.0]),
        "c": np.array([2.0, 0.0, 1.0, -1.0]),
    }


@pytest.mark.parametrize("line", JOINED)
def test_joined(line: str) -> None:
    """Wherever the source is a number, the result is the same: whatever no filter admits."""
    (step,) = steps_of(line)
    before, after = step.start.text(), step.program.text()
    assert after.count("sum[") == 1
    for p, g in itertools.product(POINTS, POINTS):
        check_step(before, after, {**inputs_for(p, g), "label": np.array([0, 5, 1])})


@pytest.mark.parametrize("chance", ["not uniform(3, t, v) < r", "r <= uniform(3, t, v)"])
def test_what_is_finite_where_an_element_is_admitted(chance: str) -> None:
    """Below a random number r is less than 1, so that 1 / (1 - r) is a number; where r is 1, no
    element is admitted."""
    (step,) = steps_of(LINE.format(chance))
    before, after = step.start.text(), step.program.text()
    assert after.count("sum[") == 1
    for r in LIMITS:
        check_step(before, after, inputs_for(2.0, 1.0), {"r": r})


@pytest.mark.parametrize("chance", ["uniform(3, t, v) < r", "not r <= uniform(3, t, v)"])
def test_what_may_be_infinite_stays_before_its_sum(chance: str) -> None:
    assert not steps_of(LINE.format(chance))


LINE = "O[v,d] = sum[t if {}](X[t,d] * P[t,v]) / (1 - r) - sum[t](X[t,d] * g[t])"


@pytest.mark.parametrize("line", APART)
def test_apart(line: str) -> None:
    assert not steps_of(line)


@pytest.mark.parametrize(
    "row",
    [
        "X[label[v],d]",
        "where(0 <= label[v] and label[v] < |t|, X[label[v],d], 0)",
        "X[label[v],d] * where(0 <= label[v] and label[v] < |t|, 1, 0)",
        "sum[t if t == label[v]](X[t,d])",
    ],
)
def test_a_row_of_what_is_multiplied_is_a_sum_of_one_element(row: str) -> None:
    """An element of the sum is in its range."""
    (step,) = steps_of(f"O[v,d] = sum[t](X[t,d] * P[t,v]) * c[v] - c[v] * {row}")
    before, after = step.start.text(), step.program.text()
    assert after.count("sum[") == 1 and "t == label[v]" in after and "|t|" not in after
    label = np.array([0, 2, 2, 1] if "|t|" not in row and "sum" not in row else [0, 3, -1, 2])
    check_step(before, after, {**inputs_for(2.0, 1.0), "label": label})


def test_an_element_beside_a_plain_sum_stays() -> None:
    assert not steps_of("C[i,k] = sum[j if j <= k](X[i,j]) + X[i,k]")


# --- random numbers choose elements ------------------------------------------------------


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
    steps = list(join_sums(program))
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
    assert not list(join_sums(derive(translate(check(DECLARED + line))).program))
