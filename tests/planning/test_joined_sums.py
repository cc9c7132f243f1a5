"""Sums that multiply the same columns are one, at special points too."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import monocomp as mc
from monocomp.derivation.rule_sets import derive
from monocomp.language.checker import check
from monocomp.planning.joined_sums import join_sums
from monocomp.translation.translator import translate

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


def steps_of(line: str) -> list:
    text = "input label[t]: int\n" + line if "label" in line else line
    return list(join_sums(derive(translate(check(text))).program))


@pytest.mark.parametrize("line", JOINED)
def test_joined(line: str) -> None:
    """Wherever the source is a number, the result is the same: whatever no filter admits."""
    (step,) = steps_of(line)
    before, after = (p.text() for p in (step.start, step.program))
    assert after.count("sum[") == 1
    generator = np.random.default_rng(0)
    for p, g in itertools.product(POINTS, POINTS):
        inputs = {
            "X": generator.normal(size=(3, 2)),
            "P": generator.choice([p, 1.0, -0.5], size=(3, 2)),
            "g": np.array([g, 0.5, -1.0]),
            "c": np.array([2.0, 0.0]),
            "label": np.array([0, 5, 1]),
        }
        given = {n: inputs[n] for n in step.start.declared.inputs}
        with np.errstate(all="ignore"):
            wanted, found = mc.evaluate(before, given), mc.evaluate(after, given)
        there = ~np.isnan(wanted)
        np.testing.assert_allclose(found[there], wanted[there], rtol=1e-12)


@pytest.mark.parametrize("chance", ["not uniform(3, t, v) < r", "r <= uniform(3, t, v)"])
def test_what_is_finite_where_an_element_is_admitted(chance: str) -> None:
    """Below a random number r is less than 1, so that 1 / (1 - r) is a number; where r is 1, no
    element is admitted."""
    line = f"O[v,d] = sum[t if {chance}](X[t,d] * P[t,v]) / (1 - r) - sum[t](X[t,d] * g[t])"
    text = f"param r: float\n{line}"
    (step,) = join_sums(derive(translate(check(text))).program)
    after = step.program.text()
    assert after.count("sum[") == 1
    generator = np.random.default_rng(0)
    sizes = {"X": (5, 2), "P": (5, 3), "g": (5,)}
    inputs = {n: generator.normal(size=shape) for n, shape in sizes.items()}
    for r in LIMITS:
        with np.errstate(all="ignore"):
            wanted, found = (mc.evaluate(p, inputs, r=r) for p in (step.start.text(), after))
        there = ~np.isnan(wanted)
        np.testing.assert_allclose(found[there], wanted[there], rtol=1e-12)
        assert there.all() or math.isnan(r)


@pytest.mark.parametrize("chance", ["uniform(3, t, v) < r", "not r <= uniform(3, t, v)"])
def test_what_may_be_infinite_stays_before_its_sum(chance: str) -> None:
    line = f"O[v,d] = sum[t if {chance}](X[t,d] * P[t,v]) / (1 - r) - sum[t](X[t,d] * g[t])"
    assert not list(join_sums(derive(translate(check(f"param r: float\n{line}"))).program))


@pytest.mark.parametrize("line", APART)
def test_apart(line: str) -> None:
    assert not steps_of(line)


def test_a_row_of_what_is_multiplied_is_a_sum_of_one_element() -> None:
    text = """
input X[t,d], P[t,v], c[v], position[v]: int
O[v,d] = sum[t](X[t,d] * P[t,v]) * c[v] - X[position[v],d] * c[v]
"""
    (step,) = join_sums(derive(translate(check(text))).program)
    after = step.program.text()
    assert after.count("sum[") == 1 and "t == position[v]" in after
    generator = np.random.default_rng(0)
    shapes = {"X": (3, 2), "P": (3, 4), "c": 4}
    given: dict[str, np.ndarray] = {n: generator.normal(size=s) for n, s in shapes.items()}
    given["position"] = np.array([0, 2, 2, 1])
    wanted, found = mc.evaluate(text, given), mc.evaluate(after, given)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize(
    "row",
    [
        "where(0 <= label[v] and label[v] < |t|, X[label[v],d], 0)",
        "X[label[v],d] * where(0 <= label[v] and label[v] < |t|, 1, 0)",
        "sum[t if t == label[v]](X[t,d])",
    ],
)
def test_a_row_in_the_range_of_the_sum_needs_no_condition(row: str) -> None:
    """An element of the sum is in its range."""
    text = f"""
input X[t,d], P[t,v], c[v], label[v]: int
O[v,d] = sum[t](X[t,d] * P[t,v]) - c[v] * {row}
"""
    (step,) = join_sums(derive(translate(check(text))).program)
    after = step.program.text()
    assert after.count("sum[") == 1 and "t == label[v]" in after and "|t|" not in after
    generator = np.random.default_rng(0)
    shapes = {"X": (3, 2), "P": (3, 4), "c": 4}
    given: dict[str, np.ndarray] = {n: generator.normal(size=s) for n, s in shapes.items()}
    given["label"] = np.array([0, 3, -1, 2])
    wanted, found = mc.evaluate(text, given), mc.evaluate(after, given)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_an_element_beside_a_plain_sum_stays() -> None:
    assert not steps_of("C[i,k] = sum[j if j <= k](X[i,j]) + X[i,k]")
