"""Certificates: what a compilation rests on, proved, and where each part is used."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

import pytest

import monocomp as mc
from monocomp import library
from monocomp import terms as T
from monocomp.derivation.certificate import AGAIN, PROCEDURE, Certificate, certify
from monocomp.derivation.rule_sets import RULES
from monocomp.rewriting.driver import Step
from monocomp.rewriting.equations import Equation
from monocomp.rewriting.rules import STATED


def check_steps(found: Certificate, steps: Iterable[Step]) -> None:
    """Each step has laws, or is by definition, and what its rule needs is discharged: by facts that
    have a name, by the form of its term, by a procedure, or as it was asked again."""
    by_number = dict(enumerate(steps, 1))
    covered: dict[int, set[str]] = {}
    for use in (*(u for t in found.theories for u in t.uses), *found.definitions):
        for number in use.steps:
            covered.setdefault(number, set()).add(use.rule)
    assert covered == {n: {step.rule} for n, step in by_number.items()}
    rules = {**RULES, **STATED}
    needy = {n for n, s in by_number.items() if s.rule in rules and rules[s.rule].needed}
    assert {c.step for c in found.conditions} == needy
    for c in found.conditions:
        is_decided = c.by in (AGAIN, PROCEDURE)
        assert c.needs in str(c.fact) and (is_decided or c.by == "form" or hasattr(T, c.by))
        assert is_decided == (not isinstance(rules[c.rule], Equation))


# By a program's name, sizes and processors, what planning does for them.
PLANS: list[tuple[str, dict[str, int], int, set[str]]] = [
    ("grad alibi", {}, 1, {"store_value"}),
    ("grad pair_bias", {}, 1, {"order_sums"}),
    ("grad cross_entropy", {}, 1, {"join_sums"}),
    ("gqa", {"b": 1, "h": 8, "g": 2, "q": 1, "k": 8192}, 132, {"pack_rows", "split_stream"}),
    ("variance", {"i": 1, "k": 100_000}, 132, {"split_stream"}),  # about centres
]


@pytest.mark.parametrize(("name", "extents", "processors", "rules"), PLANS)
def test_steps_of_planning(
    name: str, extents: dict[str, int], processors: int, rules: set[str]
) -> None:
    """They change equations for given sizes: by laws that are proved, like all others."""
    *gradient, name = name.split()
    text = library.load(name)
    plan = mc.compile(str(mc.grad(text)) if gradient else text).plan(extents, processors)
    assert rules <= {step.rule for step in plan.decisions}
    assert plan.certificate.holds
    check_steps(plan.certificate, plan.derivation)


def test_a_condition_that_does_not_hold() -> None:
    derivation = mc.compile(library.load("gqa")).plan(PLANS[3][1], 132).derivation
    steps = [replace(s, check=lambda: False) if s.check else s for s in derivation]
    found = certify(derivation.start, steps)
    assert not found.holds and any(not c.by for c in found.conditions)
    assert "does not hold: no fold takes what others come to" in str(found)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", library.names())
def test_every_step_is_covered(name: str) -> None:
    k = mc.compile(library.load(name))
    found = k.certificate
    assert found.holds and found.laws
    check_steps(found, k.derivation)


def test_text_and_json() -> None:
    k = mc.compile(library.load("attention"))
    text = str(k.certificate)
    assert text.startswith("Certificate of O: ")
    assert " laws, all proved before, and remembered (" in text.splitlines()[0]
    assert "    used by lift (step " in text
    assert "\nBy definition: name_operand (step 1), expand_softmax (step 2)" in text
    data = json.loads(k.certificate.to_json())
    assert data["holds"] is True and data["fresh"] is False
    assert sum(len(t["laws"]) for t in data["theories"]) == len(k.certificate.laws)
    assert repr(k.certificate).startswith("<Certificate Certificate of O: ")
