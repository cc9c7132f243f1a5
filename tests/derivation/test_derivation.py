"""How a derivation shows itself: text, HTML, JSON and an outline."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import monocomp as mc
from monocomp import library
from monocomp.derivation.derivation import Derivation
from monocomp.derivation.rule_sets import derive
from monocomp.display.paragraphs import WIDTH, wrap_formula
from monocomp.language.checker import check
from monocomp.translation.translator import translate


def derivation_of(text: str) -> Derivation:
    return Derivation.of(derive(translate(check(text))))


@pytest.fixture(scope="module")
def causal() -> Derivation:
    return derivation_of(library.load("causal"))


def test_is_a_sequence_of_steps(causal: Derivation) -> None:
    assert len(causal) == len(causal.steps) == len(list(causal)) > 3
    assert causal[0] is causal.steps[0]
    assert causal[-1].program is causal.result
    assert causal.first(2).steps == causal[:2]
    assert causal.first(0).result is causal.start
    assert causal.first(2).then(causal[2:]).steps == causal.steps
    assert causal.finished and not causal.first(2).finished
    assert repr(causal) == f"<{causal.title}; print it to see them>"


def test_titles() -> None:
    assert derivation_of("O[i] = A[i]").title == "Derivation of O in 0 steps"
    two = derivation_of("P[i] = logsumexp[k](A[i,k])\nO[i] = 2 * A[i,k]")
    assert two.title.startswith("Derivation of P, O in ")
    assert two.first(1).title == "Derivation of P, O in 1 step"


def test_text(causal: Derivation) -> None:
    lines = str(causal).split("\n")
    assert lines[0] == causal.title
    assert lines[2].startswith("    O[b,h,q,e] = ")
    assert all(len(line) <= WIDTH and line == line.rstrip() for line in lines)
    text = str(causal)
    for number, step in enumerate(causal, 1):
        place = ", ".join(step.place)
        assert (
            f"\n{number:2}. {step.rule}, in {place}\n    law     {step.law}\n    before  " in text
        )
    assert "\n\nResult\n\n    " in text and "\n    O[b,h,q,e] = SE[k if k <= q](V[" in text


def test_text_of_costs(causal: Derivation) -> None:
    """What does not change stands once."""
    cost = str(causal).partition("\n\nCost\n\n")[2]
    assert cost.startswith("    passes  3 passes over k\n         -> 1 pass over k\n    reads ")
    assert cost.endswith("\n    state   e + 2")


def test_text_holds_every_formula_whole(causal: Derivation) -> None:
    """Wrapping changes nothing but blanks and line ends."""
    text = "".join(str(causal).split())
    for step in causal:
        assert "".join(step.before.split()) in text
        assert "".join(step.after.split()) in text


def test_no_steps() -> None:
    assert str(derivation_of("O[i] = A[i]")) == ("Derivation of O in 0 steps\n\n    O[i] = A[i]")


@pytest.mark.parametrize(
    "text",
    [
        "f(" + " + ".join(f"x[i, {n}]" for n in range(60)) + ")",
        "a" * 300,
        "A[" + ", ".join("i" * 9 for _ in range(40)) + "]",
        "x - 1 * -2 and y <= -z if w",
    ],
)
def test_wrapping(text: str) -> None:
    lines = wrap_formula(text, "  first ", "        ").split("\n")
    assert all(len(line) <= WIDTH for line in lines)
    assert lines[0].startswith("  first ") and all(x.startswith(" " * 8) for x in lines[1:])
    assert "".join("".join(lines).split()) == "first" + "".join(text.split())


def test_lines_break_before_operators_and_outside_brackets() -> None:
    text = " * ".join(f"tensor_{n}[b, h, q]" for n in range(12))
    first, *others = wrap_formula(text, "", "  ").split("\n")
    assert first.startswith("tensor_0[b, h, q] * ")
    assert others and all(line.startswith("  * tensor_") for line in others)
    assert all(line.endswith("[b, h, q]") for line in (first, *others))


def test_outline(causal: Derivation) -> None:
    repeated = Derivation(causal.start, (causal[0], causal[0], causal[0], causal[1], causal[0]))
    one, two = (f"{step.rule}: {step.law}" for step in causal[:2])
    three = one.replace(":", " (3 times):", 1)
    assert repeated.outline() == [three, two, one]
    assert all("\n" not in line for line in causal.outline())
    lawless = Derivation(causal.start, (replace(causal[0], law=""),))
    assert lawless.outline() == [causal[0].rule]


def test_a_finished_derivation_compiles_to_the_same_kernel() -> None:
    """What was lifted is not taken apart again."""
    kernel = mc.compile("O[q,e] = softmax[k if k <= q](S[q,k]) * V[k,e]")
    again = kernel.derivation.compile()
    assert again.source() == kernel.source()
    assert [s.rule for s in again.derivation] == [s.rule for s in kernel.derivation]


def test_every_beginning_can_be_read() -> None:
    """Also where what is stored reads what has been stored after it."""
    sinkhorn = """
        P[i,j] = softmax[j](S[i,j])
        R[i,j] = P[i,j] / sum[i](P[i,j])
        T[i,j] = R[i,j] / sum[j](R[i,j])
        """
    derivation = mc.compile(sinkhorn).derivation
    assert [s.rule for s in derivation].count("store_value") > 1
    for count in range(len(derivation) + 1):
        assert "Cost" in str(derivation.first(count)) or count == 0


@pytest.mark.parametrize("name", ["causal", "tree", "column_sums"])
def test_kernels_are_planned_again(name: str) -> None:
    """Whatever the plan has done: stored values, bounds, loops."""
    found = mc.compile(library.load(name)).derivation
    assert 0 < found.planned < len(found)
    for again in (found, found.undo(found.planned), found.undo()):
        assert str(again.compile().derivation) == str(found)
    assert found.rewriter().steps == list(found.first(len(found) - found.planned))


def test_json(causal: Derivation) -> None:
    whole = json.loads(causal.to_json())
    parts = ["start", "steps", "result", "cost_before", "cost_after", "refusals", "certificate"]
    assert list(whole) == parts
    assert [step["number"] for step in whole["steps"]] == list(range(1, len(causal) + 1))
    assert whole["steps"][0] == {
        "number": 1,
        "rule": causal[0].rule,
        "law": causal[0].law,
        "place": list(causal[0].place),
        "changes": [change.to_json() for change in causal[0].changes],
        "before": causal[0].before,
        "after": causal[0].after,
        "program": causal[0].program.text(),
        "cost_before": causal.costs[0].to_json(),
        "cost_after": causal.first(1).costs[1].to_json(),
    }
    assert whole["cost_before"] == whole["steps"][0]["cost_before"]
    assert whole["cost_before"]["passes"] == {"k": 3}
    assert whole["cost_after"] == whole["steps"][-1]["cost_after"]
    assert whole["refusals"] == [] and whole["certificate"]["holds"]
    for step in whole["steps"]:
        check(step["program"])
    assert whole["result"] == whole["steps"][-1]["program"]


@pytest.mark.parametrize(
    "text",
    [
        # What is asked about a sum of infinite inputs may have either answer.
        "C[q,k] = sum[..k](softmax[k](A[q,k]))\nO[q] = sum[k if C[q,k] <= 0.9](V[k])",
        # An entry of a list at a rank that is no index is written in words of the language.
        "index r < 3\nL[q,r] = top[k -> r](A[q,k])\nO[q,r] = L[q,2] * where(r > 0, L[q,r - 1], 0)",
        # A condition beside what is infinite without it is that of a weight.
        "input n[q]: int\nP[q,k] = softmax[k if k < n[q]](S[q,k])\n"
        "O[q] = sum[k](P[q,k] * log(P[q,k]))",
    ],
)
def test_right_steps_pass_the_check(text: str) -> None:
    assert derivation_of(text).check(seed=18).ok


def test_a_step_prints_as_in_its_derivation(causal: Derivation) -> None:
    text = str(causal)
    for number, step in enumerate(causal, 1):
        assert f"\n\n{number:2}. {step}\n" in text
    assert str(causal[1]).startswith(
        "expand_softmax, in O\n    law     definition of softmax\n    before  "
    )
    assert repr(causal[1]) == "<Step expand_softmax, in O; print it to see it>"
