"""Certificates: what a compilation rests on, proved, and where each part is used."""

from __future__ import annotations

import json

import pytest

import monocomp as mc
from monocomp import library
from monocomp.derivation.rule_sets import RULES
from monocomp.kernel import Kernel
from monocomp.proving import prover
from monocomp.terms import facts

FACTS = {name for name, ask in vars(facts).items() if hasattr(ask, "__wrapped__")}
AFFINE = "monoid Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')\n"


def kernel(text: str) -> Kernel:
    return mc.compile(text)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", library.names())
def test_every_step_is_covered(name: str) -> None:
    k = kernel(library.load(name))
    found = k.certificate
    assert found.holds and found.laws
    covered: dict[int, set[str]] = {}
    for use in (*(u for t in found.theories for u in t.uses), *found.definitions):
        for number in use.steps:
            assert k.derivation[number - 1].rule == use.rule
            covered.setdefault(number, set()).add(use.rule)
    for number, step in enumerate(k.derivation, 1):
        if step.rule in RULES or step.rule in ("fuse_folds", "tile"):
            assert covered[number] == {step.rule}
    # What a rule needs is discharged by facts that are asked for by name, or by the form of its
    # term; there is no third way.
    needy = {
        n
        for n, s in enumerate(k.derivation, 1)
        if s.rule in RULES and RULES[s.rule].section("Needs")
    }
    assert {c.step for c in found.conditions} == needy
    assert all(c.by in FACTS or (c.by == "form" and c.needs in c.fact) for c in found.conditions)


def test_contents() -> None:
    k = kernel(library.load("causal"))
    found = k.certificate
    theories = {theory.name: theory for theory in found.theories}

    def steps(rule: str) -> tuple[int, ...]:
        return tuple(n for n, step in enumerate(k.derivation, 1) if step.rule == rule)

    (lifting, *loops) = theories["SE"].uses
    assert (lifting.rule, lifting.steps) == ("lift_weighted_sum", steps("lift_weighted_sum"))
    assert [use.rule for use in loops] == ["fuse_folds", "tile"]
    assert {"cocycle", "equivariance", "associative"} <= {law.short for law in theories["SE"].laws}
    assert theories["arithmetic"].uses == ()
    assert [str(use) for use in found.definitions] == ["expand_softmax (step 2)"]
    hoisted = [c for c in found.conditions if c.rule == "hoist_positive_factor"]
    assert {c.step for c in hoisted} == set(steps("hoist_positive_factor"))
    (needs,) = {c.needs for c in hoisted}
    assert needs.startswith(
        "the factor is positive, and finite if what it reads is; or not negative"
    )
    has_element = "max[k if k <= q](S[b,h,q,k]) has an element", "has_element"
    assert has_element in {(c.fact, c.by) for c in hoisted}


def test_a_fact_about_a_result() -> None:
    """A sum of exponentials leaves a maximum: it is 0 only where all of them are, and no element
    is infinite."""
    found = kernel("Z[i] = sum[k](exp(X[i,k]))\nO[i] = max[k](Z[i] * Y[i,k])").certificate
    facts = [c.fact for c in found.conditions if c.rule == "hoist_positive_factor"]
    assert "Z[i] >= 0, and 0 only where nothing is there" in facts


def test_user_monoids() -> None:
    found = kernel(AFFINE + "H[i] = Affine[k](X[i,k], Y[i,k]).u").certificate
    theories = {theory.name: theory for theory in found.theories}
    assert [law.short for law in theories["Affine"].laws][:2] == ["closed", "associative"]
    assert found.holds  # it is not commutative, and need not be
    assert "commutative  does not hold, and need not" in str(found)


def test_text_and_json() -> None:
    k = kernel(library.load("attention"))
    text = str(k.certificate)
    assert text.startswith("Certificate of O: ")
    assert " laws, all proved before, and remembered (" in text.splitlines()[0]
    assert "    used by lift_weighted_sum (steps " in text
    assert "\nBy definition: expand_softmax (step 2)" in text
    data = json.loads(k.certificate.to_json())
    assert data["holds"] is True and data["fresh"] is False
    assert sum(len(t["laws"]) for t in data["theories"]) == len(k.certificate.laws)
    assert repr(k.certificate).startswith("<Certificate Certificate of O: ")


def test_proved_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    derivation = kernel(library.load("softmax")).derivation
    derivation.certify()
    made: list[str] = []
    prove = prover._prove

    def counting(claim: prover.Claim, tick: object) -> bool:
        made.append(claim.name)
        return prove(claim, tick)  # type: ignore[arg-type]

    monkeypatch.setattr(prover, "_prove", counting)
    remembered = derivation.certify()
    assert made == [] and not remembered.fresh
    fresh = derivation.certify(fresh=True)
    assert len(made) >= len({law.name for law in fresh.laws}) and fresh.fresh
    assert [law.statement for law in fresh.laws] == [law.statement for law in remembered.laws]
