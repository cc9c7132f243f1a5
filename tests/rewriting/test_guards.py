"""Every rule's example, in every guard, at special points.

A rule must hold where it stands, and what stands around it may exclude any element: each example
is tried as it is, in a branch of `where`, as an element of a filtered sum, with every fold of its
own filtered, and under a comparison, which sees what is no number. Wherever a rule applies, the
program after it must be what the one before it is, as far as `monocomp/reference/semantics.md`
promises. What is compared is made of finite numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from monocomp.checking.steps import Case
from monocomp.derivation.rule_sets import RULES
from monocomp.errors import MonocompError
from monocomp.rewriting.equations import Equation
from tests.rewrites.rules import apply_only

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
    text = FRAMES[frame](rule.section("before"))
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
