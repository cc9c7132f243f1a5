"""The driver of the rules asks nothing twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from monocomp import terms as T
from monocomp.derivation.rule_sets import derive
from monocomp.rewriting.driver import Rewriter
from monocomp.rewriting.rules import Choice, Rule, RuleSet
from monocomp.terms import Term
from monocomp.terms.equations import Equations
from tests.rewrites.rules import equations


def test_what_a_rule_leaves_it_is_not_asked_again() -> None:
    """Whatever set the rule is in, nor in another derivation."""
    asked: Counter[Term] = Counter()
    looked: list[Equations] = []

    def leave(t: Term) -> None:
        asked[t] += 1

    def look(program: Equations) -> None:
        looked.append(program)

    def drop(t: Term) -> Term | None:
        return t.args[0] if t.op == "relu" else None

    shared, choice = Rule("leave", leave), Rule("look", look)
    rewriter = Rewriter(equations("O[i] = exp(relu(X[i]))"))
    rewriter.exhaust(RuleSet("one", "", [shared], [choice]))
    assert set(asked.values()) == {1} and len(looked) == 1
    rewriter.exhaust(RuleSet("two", "", [shared, Rule("drop", drop)], [choice]))
    rewriter.exhaust(RuleSet("three", "", [shared], [choice]))
    (o,) = rewriter.program.equations
    assert repr(o.body) == repr(T.exp(o.body.args[0])) and len(rewriter.steps) == 1
    assert set(asked.values()) == {1} and o.body in asked
    assert looked == [rewriter.start, rewriter.program]
    Rewriter(rewriter.start).exhaust(RuleSet("four", "", [shared]))
    assert set(asked.values()) == {1}


def test_a_choice_looks_at_every_program_anew() -> None:
    """That it had nothing to do before a step says nothing of what comes after it."""

    def drop(t: Term) -> Term | None:
        return t.args[0] if t.op == "relu" else None

    def negate(program: Equations) -> Choice | None:
        (o,) = program.equations
        return Choice.replacing(o.body, T.neg(o.body), program) if o.body.op == "read" else None

    choices = RuleSet("choices", "", [], [Rule("negate", negate)])
    rewriter = Rewriter(equations("O[i] = relu(X[i])"))
    rewriter.exhaust(choices)
    rewriter.exhaust(RuleSet("rules", "", [Rule("drop", drop)]))
    rewriter.exhaust(choices)
    assert [s.rule for s in rewriter.steps] == ["drop", "negate"]


def test_a_derivation_remembers_nothing_of_another() -> None:
    program = equations("O[q] = softmax[k](S[q,k]) * V[k]")
    first, second = derive(program), derive(replace(program))
    assert [s.rule for s in first.steps] == [s.rule for s in second.steps] != []
