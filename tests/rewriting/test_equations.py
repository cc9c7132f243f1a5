"""Rules that are equations: each holds, does what it says, and needs what it says."""

from __future__ import annotations

import pytest

from monocomp.derivation.rule_sets import RULES
from monocomp.rewrites import exchange
from monocomp.rewriting.equations import Equation, Guard, Need, equations
from tests.rewrites.rules import apply_only, check_does_not_fire, check_example
from tests.rewriting.law_checker import counterexample

EQUATIONS = [rule for rule in RULES.values() if isinstance(rule, Equation)]
STATED = [*EQUATIONS, exchange._JOINED]  # that a procedure uses
NEEDS = [  # conjuncts that do not meet a need are another variable's
    (law, need)
    for law in STATED
    for choice in law.needs
    for need in choice
    if need.name not in law.conditions
]


@pytest.mark.parametrize("law", STATED, ids=lambda law: law.name)
def test_it_holds_at_special_points(law: Equation) -> None:
    assert counterexample(law) is None


@pytest.mark.parametrize("law", EQUATIONS, ids=lambda law: law.name)
def test_its_left_side_becomes_its_right_side(law: Equation) -> None:
    check_example(law)


@pytest.mark.parametrize(("law", "need"), NEEDS, ids=[f"{law.name}: {need}" for law, need in NEEDS])
def test_it_is_left_alone_where_a_need_is_not_met(law: Equation, need: Need) -> None:
    check_does_not_fire(law, law.example(without=need)[0])


@pytest.mark.parametrize(
    ("law", "need"),
    [(law, need) for law, need in NEEDS if need.free_of is None],
    ids=[f"{law.name}: {need}" for law, need in NEEDS if need.free_of is None],
)
def test_every_need_is_one_of_the_law(law: Equation, need: Need) -> None:
    """Without it the equation is wrong somewhere; where it is used is said after `worth`."""
    assert counterexample(law, without=need) is not None


@pytest.mark.parametrize(
    "text",
    [
        "shift: sum[k if c](a + x) = a + sum[k if c](x) needs a free of k",
        "scale: max[k if c](a * x) = a * max[k if c](x) needs a free of k, a finite if read",
        "divide: a / x + b / x = (a + b) / (2 * x) needs a finite if read, x positive",
        "mean: mean[k if c](a + x) = a + mean[k if c](x) needs a free of k, a finite if read",
    ],
)
def test_false_laws_are_refuted(text: str) -> None:
    (law,) = equations(text)
    assert counterexample(law) is not None


def test_variables_take_what_meets_their_needs() -> None:
    (law,) = equations(
        "shift: max[k if c](a + x) = a + max[k if c](x) needs a free of k, a unmasked"
    )
    before = "O[i] = Y[i] + 2 * max[k](i + X[i,k] + Y[i] + 3)"
    steps = apply_only(law, before).steps
    assert [step.after for step in steps] == ["max[k](X[i,k] + Y[i]) + i + 3"]


@pytest.mark.parametrize("reduction", ["mean", "var", "logsumexp", "max"])
def test_a_prefix_is_no_aggregate(reduction: str) -> None:
    text = f"input X[i,k]\nO[i,k] = {reduction}[..k](2 * X[i,k])"
    for law in EQUATIONS:
        check_does_not_fire(law, text)


def test_what_an_equation_is_worth_is_decided() -> None:
    (law,) = equations(
        "distribute: a * (x + y) = a * x + a * y  worth x is y", x_is_y=Guard(lambda found: False)
    )
    check_does_not_fire(law, "O[i] = A[i] * (X[i] + Y[i])")
    with pytest.raises(KeyError):
        equations("distribute: a * (x + y) = a * x + a * y worth x is y")
