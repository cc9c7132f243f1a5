"""The laws that rewrite rules rest on: all proved, all named, and false ones refused."""

from __future__ import annotations

import functools
import itertools
import math
import re
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pytest

from monocomp import terms as T
from monocomp.derivation.rule_sets import RULES
from monocomp.errors import MonoidLawError
from monocomp.proving import proofs, prover
from monocomp.proving.identities import Claim
from monocomp.proving.monoid_laws import BUILT_IN
from monocomp.proving.rule_laws import RULE_LAWS, add_law
from monocomp.reference.oracle import evaluate
from monocomp.rewriting.driver import Rewriter
from monocomp.rewriting.equations import Equation
from monocomp.rewriting.equations import equations as own_equations
from monocomp.rewriting.rules import Rule, RuleSet
from monocomp.terms.printer import show
from tests.rewrites.rules import equations

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_every_rule_names_its_laws(rule: Rule) -> None:
    """A definition has none to name: it says what a word of the language means."""
    is_definition = isinstance(rule, Equation) and rule.is_definition
    assert (is_definition or rule.law.startswith("definition of ")) == (not rule.claims)
    assert set(rule.claims) <= {*RULE_LAWS, *BUILT_IN, "SE"}
    assert rule.unproved is None


@pytest.mark.parametrize("name", RULE_LAWS)
def test_every_law_is_proved(name: str) -> None:
    laws = proofs.certify(name, fresh=True)
    assert bool(laws) == bool(RULE_LAWS[name].texts)
    assert all(law.holds for law in laws)
    assert sum(law.seconds for law in laws) < 5


def tried(claim: Claim) -> prover.Law:
    """What is found out about one claim."""
    (law,) = prover.Prover(5.0).first_plan([[("test", [claim])]])
    return law


# Equations are tried with their needs in `tests/rewriting`.
IDENTITIES = {name: at for name, at in RULE_LAWS.items() if at.about not in at.texts}
CONDITIONAL = [
    (f"{name}: {claim.name}", claim)
    for name, at in IDENTITIES.items()
    for claim in at.claims()
    if claim.parts[0].condition is not T.TRUE
]


@pytest.mark.parametrize(("name", "claim"), CONDITIONAL, ids=[name for name, _ in CONDITIONAL])
def test_conditions_are_needed(name: str, claim: Claim) -> None:
    law = tried(replace(claim, parts=(replace(claim.parts[0], condition=T.TRUE),)))
    assert law.holds is False and law.counterexample


INF = math.inf
POINTS = [-INF, -1024.0, -1.0, -0.0, 0.0, 2.0**-10, 1.0, 2.0, 1024.0, INF, math.nan]


def sides_on_the_grid(claim: Claim) -> tuple[dict[str, Array], Array, Array, Array]:
    """All special points of the parameters, both sides there by the oracle, and where the identity
    claims something."""
    (at,) = claim.parts
    (left,), (right,) = at.left, at.right
    kinds = {t.attr: t.kind for t in T.subterms(left, right, at.condition) if t.op == "param"}
    if not kinds:
        kinds = {"a": "float"}
    names = sorted(kinds)
    grid = itertools.product(*([False, True] if kinds[n] == "bool" else POINTS for n in names))
    columns = zip(*grid, strict=True)
    inputs = {n: np.array(column) for n, column in zip(names, columns, strict=True)}
    declared = ", ".join(f"{n}[at]: {kinds[n]}" for n in names)

    def value(t: T.Term) -> Array:
        text = re.sub(rf"\b({'|'.join(names)})\b", r"\1[at]", show(t))
        branches = "1, 0" if t.kind == "bool" else f"{text}, {text}"
        condition = f"0 <= at and {text}" if t.kind == "bool" else "0 <= at"
        whole = f"input {declared}\nO[at] = where({condition}, {branches})"
        with np.errstate(over="ignore"):
            return np.asarray(evaluate(whole, inputs)).astype(float)

    claimed = value(at.condition) == 1
    _, _, finite = str(claim.statement).partition("finite ")
    for name in finite.split(", ") if finite else ():
        claimed &= np.isfinite(inputs[name])
    return inputs, value(left), value(right), claimed


def is_equal(a: Array, b: Array, inputs: dict[str, Array]) -> Array:
    """Up to rounding of what cancels, in powers up to the fourth of the parameters."""
    finite = (np.where(np.isfinite(x), np.abs(x), 0) for x in map(np.float64, inputs.values()))
    scale = functools.reduce(np.maximum, finite)
    with np.errstate(invalid="ignore"):
        close = np.abs(a - b) <= 1e-12 * (1 + np.abs(b)) + 1e-18 * scale**4
    return np.asarray((a == b) | close)


@pytest.mark.parametrize("name", IDENTITIES)
def test_laws_at_special_points(name: str) -> None:
    """Where a side is a number, so is the other, and they are equal; for infinite parameters it may
    be none. Rules read laws in both directions."""
    for claim in RULE_LAWS[name].claims():
        inputs, left, right, claimed = sides_on_the_grid(claim)
        numbers = [~np.isnan(side) for side in (left, right)]
        finite = np.logical_and.reduce([np.isfinite(x) for x in map(np.float64, inputs.values())])
        promised = np.where(finite, numbers[0] | numbers[1], numbers[0] & numbers[1])
        wrong = claimed & promised & ~is_equal(left, right, inputs)
        where = [{n: x[i] for n, x in inputs.items()} for i in np.flatnonzero(wrong)[:3]]
        assert not where, f"{claim.name}: {claim.statement} at {where}"


def test_a_rule_with_a_false_law_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def hoist_from_relu(t: T.Term) -> T.Term | None:
        """What does not vary leaves a relu.

        Law:     relu(a + x) = a + relu(x)
        Claims:  relu
        """
        return T.add(t.args[0], T.ONE) if t.op == "relu" else None

    monkeypatch.setitem(RULE_LAWS, "relu", RULE_LAWS["units"])
    add_law("relu", "", {"shift": "relu(a + x) = a + relu(x)"})
    rules = RuleSet("test", "")
    rules.procedure(hoist_from_relu)
    rewriter = Rewriter(equations("O[i] = relu(X[i])"))
    with pytest.raises(MonoidLawError) as raised:
        rewriter.exhaust(rules)
    assert raised.value.message == "'hoist_from_relu' rests on a law that could not be proved"
    law, outcome = raised.value.notes
    assert law.startswith("law: relu: shift, ") and outcome.startswith("counterexample: ")


OWN_EQUATIONS = {
    "sqrt(x ** 2) = abs(x)": True,
    "exp2(x) * exp2(y) = exp2(x + y)": True,
    "log2(x * y) = log2(x) + log2(y)  needs x positive, y positive": True,
    "log2(x * y) = log2(x) + log2(y)": False,
    "tanh(x) = 2 * sigmoid(2 * x) - 1": True,
    "maximum(x, y, z) = maximum(x, maximum(z, y))": True,
    "sum[k](a) = |k| * a  needs a free of k": True,
    "sum[k if c](k * x) = sum[k if c and k > 0](k * x)": True,
    "prod[k if c](a * x) = a * prod[k if c](x)  needs a free of k": False,
    "min[k if c](a + x) = a + min[k if c](x)  needs a free of k": True,
    "where(c, x, x) = x": True,
    "x / x = 1": False,
}


@pytest.mark.parametrize("text", OWN_EQUATIONS)
def test_equations_of_users(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULE_LAWS, "own", RULE_LAWS["units"])
    own_equations(f"own: {text}")
    laws = proofs.certify("own", fresh=True)
    assert laws
    assert prover.is_proved(laws) == OWN_EQUATIONS[text]
    assert all(law.holds or law.counterexample for law in laws)


def test_what_cannot_be_proved_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULE_LAWS, "own", RULE_LAWS["units"])
    own_equations("own: mean[k](a * x) = a * mean[k](x)  needs a free of k")
    with pytest.raises(MonoidLawError, match="no law about 'mean' can be proved"):
        proofs.certify("own")
