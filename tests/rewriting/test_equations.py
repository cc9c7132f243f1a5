"""Rules that are equations: each holds, does what it says, and needs what it says."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from monocomp.checking.steps import Case
from monocomp.derivation.rule_sets import RULES
from monocomp.errors import MonocompError
from monocomp.rewrites import exchange
from monocomp.rewriting.equations import Equation, Guard, Need, equations
from tests.rewrites.rules import apply_only, check_does_not_fire, check_example
from tests.rewriting.examples import example
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
    check_does_not_fire(law, example(law, without=need)[0])


@pytest.mark.parametrize(
    ("law", "need"),
    [(law, need) for law, need in NEEDS if need.free_of is None],
    ids=[f"{law.name}: {need}" for law, need in NEEDS if need.free_of is None],
)
def test_every_need_is_one_of_the_law(law: Equation, need: Need) -> None:
    """Without it the equation is wrong somewhere; where it is used is said after `worth`."""
    assert counterexample(law, without=need) is not None


def test_variables_take_what_meets_their_needs() -> None:
    (law,) = equations(
        "shift: max[k if c](a + x) = a + max[k if c](x) needs a free of k, a unmasked if read"
    )
    before = "O[i] = Y[i] + 2 * max[k](i + X[i,k] + log(abs(Y[i])) + 3)"
    steps = apply_only(law, before).steps
    assert [step.after for step in steps] == ["max[k](X[i,k] + log(abs(Y[i]))) + i + 3"]


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


# --- every rule's example, in every guard, at special points -----------------------------
#
# A rule must hold where it stands, and what stands around it may exclude any element: each example
# is tried as it is, in a branch of `where`, as an element of a filtered sum, with every fold of its
# own filtered, and under a comparison, which sees what is no number. Wherever a rule applies, the
# program after it must be what the one before it is, as far as `monocomp/reference/semantics.md`
# promises. What is compared is made of finite numbers.


SEEDS = range(3)
# Rules that are equations hold wherever they stand: `rewriting/test_equations` tries their laws.
PROCEDURES = [name for name, rule in RULES.items() if not isinstance(rule, Equation)]


def last_line(change: Callable[[str], str], declared: str = "") -> Callable[[str], str]:
    """A frame for the right-hand side of the result, and what it reads."""

    def frame(text: str) -> str:
        *lines, last = text.splitlines()
        head, body = last.split(" = ", 1)
        found = re.match(r"\w+(?:\[([\w,]*)\])?", head)
        assert found is not None
        indices = f"[{found[1]}]" if found[1] else ""
        lines = [declared.replace("[]", indices)] * bool(declared) + lines
        return "\n".join([*lines, f"{head} = {change(body).replace('[]', indices)}"])

    return frame


def filtered(text: str) -> str:
    """Every fold over k leaves out the elements that an input says."""
    new = re.sub(r"\b(\w+)\[k\]\(", r"\1[k if guard[k]](", text)
    new = new.replace("[k if k ", "[k if guard[k] and k ")
    return f"input guard[k]: bool\n{new}" if new != text else ""


FRAMES: dict[str, Callable[[str], str]] = {
    "bare": lambda text: text,
    "branch": last_line(lambda body: f"where(guard[], {body}, 7)", "input guard[]: bool"),
    "element": last_line(
        lambda body: f"sum[other if keeps[other]](weight[other] * ({body}))",
        "input keeps[other]: bool, weight[other]",
    ),
    "filtered": filtered,
    "observed": last_line(lambda body: f"where(({body}) < 1, 3, 7)"),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("name", PROCEDURES)
def test_examples_in_guards(name: str, frame: str) -> None:
    rule = RULES[name]
    text = FRAMES[frame](example(rule)[0])
    try:
        rewriter = apply_only(rule, text) if text else None
    except MonocompError:
        rewriter = None  # not a program, such as a truth value that is summed
    if rewriter is None or not rewriter.steps:
        assert frame != "bare"
        return
    for seed in SEEDS:
        cases = Case.of(rewriter.start, {}, {}, seed).everywhere()
        for case in cases[:2] if frame == "observed" else cases:
            inputs = case.inputs("float64")
            expected = case.outputs(inputs, rewriter.start.text())
            error = case.error(case.outputs(inputs, rewriter.program.text()), expected)
            assert error <= 1e-10, f"{rewriter.start}\nbecame\n{rewriter.program}\n{case}: {error}"
