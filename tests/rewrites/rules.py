"""What the tests of rules share: one rule at a time, on the example that it states itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pytest

from monocomp.checking.random_inputs import random_inputs
from monocomp.language.checker import check
from monocomp.reference.oracle import evaluate
from monocomp.rewriting.driver import Rewriter
from monocomp.rewriting.equations import Equation
from monocomp.rewriting.rules import Rule, RuleSet
from monocomp.terms.algebra import SE_PAIR
from monocomp.terms.equations import Equations
from monocomp.terms.printer import show_monoid
from monocomp.translation.translator import translate
from tests.printed import loosely
from tests.rewriting.examples import example

SIZES = {"i": 4, "j": 3, "k": 5, "e": 2}


def equations(text: str) -> Equations:
    """A program, with the monoid SE if it speaks of that."""
    if "SE[" in text and "monoid SE" not in text:
        text = f"{show_monoid(SE_PAIR)}\n{text}"
    return translate(check(text))


def apply_only(rule: Rule, text: str) -> Rewriter:
    """Apply one rule, or choice for the whole program, until it matches nowhere."""
    rewriter = Rewriter(equations(text))
    rewriter.exhaust(RuleSet(rule.name, "", [rule]))
    return rewriter


def rule_of(rules: RuleSet, name: str) -> Rule:
    """A rule by name."""
    return next(rule for rule in rules.rules if rule.name == name)


def inputs_of(program: Equations, seed: int = 0) -> dict[str, Any]:
    """Random inputs, at sizes that differ from one another."""
    representatives = set(program.declared.extent_of.values()) - set(program.declared.bounds)
    sizes = {name: size for name, size in SIZES.items() if name in representatives}
    return random_inputs(program, sizes, dtype="float64", seed=seed)


def values(program: Equations, inputs: Mapping[str, Any], **params: float) -> Any:
    """The oracle's value of a printed program."""
    return evaluate(program.text(), inputs, **params)


def same_bodies(a: Equations, b: Equations) -> bool:
    """Are the equations made of identical terms, quotients that are asked about in either form?"""
    return _bodies(a) == _bodies(b)


def _bodies(program: Equations) -> list[tuple[Any, ...]]:
    return [(e.name, e.indices, loosely(e.body)) for e in program.equations]


def check_example(rule: Rule) -> None:
    """A rule does what its docstring says, and the oracle gives both sides one value."""
    assert rule.law, "no law, no rule"
    before, after = example(rule)
    texts = [(before, after)]
    if "<=" in before and not isinstance(rule, Equation):  # the first row has no element left
        texts.append((before.replace("<=", "<"), after.replace("<=", "<")))
    for text, expected in texts:
        rewriter = apply_only(rule, text)
        assert [step.rule for step in rewriter.steps] == [rule.name] * len(rewriter.steps)
        assert rewriter.steps
        assert same_bodies(rewriter.program, equations(expected)), str(rewriter.program)
        assert same_bodies(rewriter.program, equations(rewriter.program.text()))
        for seed in range(3):
            inputs = inputs_of(rewriter.start, seed)
            source = evaluate(rewriter.start.origin.text, inputs)
            np.testing.assert_allclose(values(rewriter.program, inputs), source, rtol=1e-12)


def check_variant(rule: Rule, before: str, after: str, rtol: float = 1e-12) -> None:
    """A rule turns one text into another, and where the first has a finite value the second
    has the same."""
    rewriter = apply_only(rule, before)
    assert same_bodies(rewriter.program, equations(after)), str(rewriter.program)
    inputs = inputs_of(rewriter.start)
    source = np.asarray(evaluate(rewriter.start.text(), inputs))
    finite = np.isfinite(source)
    assert finite.any()
    found = np.asarray(values(rewriter.program, inputs))
    np.testing.assert_allclose(found[finite], source[finite], rtol=rtol)


def check_does_not_fire(rule: Rule, text: str) -> None:
    """A rule leaves a program as it is."""
    steps = apply_only(rule, text).steps
    if steps:
        pytest.fail(f"{rule.name} turned {steps[0].before} into {steps[0].after}")


def rule_tests(
    rules: Iterable[Rule],
    near_misses: Mapping[str, list[str]],
    variants: Mapping[str, list[str]],
    *,
    miss: str = "",
    start: str = "",
    rtol: float = 1e-12,
    every: bool = True,
) -> tuple[Callable[..., None], Callable[..., None], Callable[..., None]]:
    """Return three tests: the example of each rule that is no equation, whose own are tried by
    `rewriting/test_equations`; programs that a rule leaves alone, which begin with `miss`; and
    `before => after`, what it does elsewhere, where both begin with `start`. With `every`, each
    rule that is no equation has near misses."""
    by_name = {rule.name: rule for rule in rules}
    procedures = [n for n, rule in by_name.items() if not isinstance(rule, Equation)]
    assert {*near_misses, *variants} <= {*by_name}
    assert {*procedures} <= {*near_misses} or not every

    @pytest.mark.parametrize("name", procedures)
    def test_example(name: str) -> None:
        check_example(by_name[name])

    @pytest.mark.parametrize(
        ("name", "text"), [(n, text) for n, texts in near_misses.items() for text in texts]
    )
    def test_near_miss(name: str, text: str) -> None:
        check_does_not_fire(by_name[name], miss + text)

    @pytest.mark.parametrize(
        ("name", "text"), [(n, text) for n, texts in variants.items() for text in texts]
    )
    def test_variant(name: str, text: str) -> None:
        before, after = text.split(" => ")
        check_variant(by_name[name], start + before, start + after, rtol)

    return test_example, test_near_miss, test_variant
