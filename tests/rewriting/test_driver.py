"""The driver of the rules asks nothing twice, ends, and says where each step changed a program."""

from __future__ import annotations

from collections import Counter

import pytest

from monocomp import library
from monocomp import terms as T
from monocomp.costs.fold_elements import elements_of_folds
from monocomp.derivation.rule_sets import RULES, derive, split_normal_form
from monocomp.errors import InternalError
from monocomp.language.checker import check
from monocomp.rewrites.exchange import disorder
from monocomp.rewriting.driver import Rewriter
from monocomp.rewriting.rules import Choice, ProgramRule, Rule, RuleSet
from monocomp.terms import Term
from monocomp.terms.equations import Equations
from monocomp.translation.translator import translate
from tests.rewrites.rules import equations
from tests.rewriting.examples import example


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

    shared, choice = Rule("leave", leave), ProgramRule("look", look)
    rewriter = Rewriter(equations("O[i] = exp(relu(X[i]))"))
    rewriter.exhaust(RuleSet("one", "", [shared, choice]))
    assert set(asked.values()) == {1} and len(looked) == 1
    rewriter.exhaust(RuleSet("two", "", [shared, Rule("drop", drop), choice]))
    rewriter.exhaust(RuleSet("three", "", [shared, choice]))
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

    choices = RuleSet("choices", "", [ProgramRule("negate", negate)])
    rewriter = Rewriter(equations("O[i] = relu(X[i])"))
    rewriter.exhaust(choices)
    rewriter.exhaust(RuleSet("rules", "", [Rule("drop", drop)]))
    rewriter.exhaust(choices)
    assert [s.rule for s in rewriter.steps] == ["drop", "negate"]


# --- every derivation ends ---------------------------------------------------------------


# Sums of which the cheapest order is not the fixed one of sums that follow one another directly.
CHAINS = [
    "input A[i,k], B[j,i], X[i]\nO[i] = sum[l, k, j if j == i](A[l,k] * B[j,l] * k) + X[i]",
    "O[i] = sum[l, k, j if j == i](A[l,k] * B[j,l]) + sum[j, l, k](A[l,k] * B[j,l] * D[k,i])",
    "O[i,e] = sum[j, k, l if l <= e](A[i,j] * B[j,k] * C[k,l] * D[l,e])",
]

# A mean beside other distances, whose weights are not its own; and a sum of results, of which an
# equation that takes all of its addends says nothing, beside a number that another one takes out. A
# sum in a frame of its own, which the frame of a larger one asks whether it is 0. A result beside a
# mask, which does not leave.
UNDONE = [
    "O = sum[k](X[k] * (Y[k] - max[k](Y[k])) * (Y[k] - mean[k](Y[k])))",
    "input b\nO = sum[i]((2 * X[i] - 2) * (b * (sum[i](X[i]) - log(b) * max[i](X[i])) - log(b)))",
    "Z = sum[k](exp(W[k]))\nV[j] = P[j] / Z - sum[k](exp(W[k]) * P[k]) / Z ** 2\n"
    "O[j] = exp(Y[j]) * (P[j] + 2 * exp(W[j]) * V[j])",
    "O[i] = sum[k](exp(S[i,k]) * (A[k] + B[k] * sum[k](exp(S[i,k])) * where(C[i] < 0, 0, -inf)))",
]


CENTRED = [
    "O[j] = maximum(var[k](Y[k] - B[k,j]), W[j])",
    "O[i,j] = var[k](S[i,k] - Z[i] / Y[k]) * W[j]",
    # A mean of y - b and distances of b - y are about one centre.
    "P[q,k] = softmax[k](S[q,k])\nM[q] = sum[k](P[q,k] * (Y[k] - B[q,k]))\n"
    "V[q] = sum[k](P[q,k] * (Y[k] - B[q,k] - M[q]) ** 2)",
]


def derived(program: Equations) -> Rewriter:
    """Derive a program, of whose forms none comes twice."""
    rewriter = derive(program, step_limit=200)
    assert rewriter.finished, rewriter.steps[-3:]
    forms = [program, *(step.program for step in rewriter.steps)]
    bodies = [(p.known, p.given, tuple((e.name, e.body) for e in p.equations)) for p in forms]
    assert len({*bodies}) == len(bodies)
    return rewriter


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("name", RULES)
def test_no_rule_is_undone(name: str, side: str) -> None:
    derived(equations(example(RULES[name])[side == "after"]))


@pytest.mark.parametrize("text", UNDONE)
def test_no_form_comes_twice(text: str) -> None:
    derived(equations(text))


def test_rules_that_undo_one_another_are_named() -> None:
    def there(t: Term) -> Term | None:
        return T.function("tanh", *t.args) if t.op == "relu" else None

    def back(t: Term) -> Term | None:
        return T.function("relu", *t.args) if t.op == "tanh" else None

    rewriter = Rewriter(equations("O[i] = exp(relu(X[i]))"))
    with pytest.raises(InternalError, match="for ever: back, there"):
        rewriter.exhaust(RuleSet("both", "", [Rule("there", there), Rule("back", back)]))


@pytest.mark.parametrize("text", CENTRED)
def test_means_are_centred_once(text: str) -> None:
    assert [s.rule for s in derived(equations(text)).steps].count("centre_powers") == 1


def test_sums_that_a_weight_splits_are_not_merged_again() -> None:
    text = """O[k] = sum[q](exp(S[q,k]) * (A[q] * exp(-L[q]) + C[q] * exp(-L[q])
        + B[q] * (D[q,k] * exp(-L[q]) - G[q] * F[q,k])))"""
    names = [step.rule for step in derived(equations(text)).steps]
    assert "split_weights" in names and "merge_weighted_sums" not in names


@pytest.mark.parametrize("text", CHAINS)
def test_each_exchange_lowers_the_measure(text: str) -> None:
    """Of the normal forms, which is what the rules between two exchanges leave."""
    measures = []
    for step in derived(equations(text)).steps:
        if step.rule in ("exchange_sums", "join_products"):
            settled = Rewriter(step.program)
            settled.exhaust(split_normal_form)
            measures.append((elements_of_folds(settled.program), *disorder(settled.program)))
    assert measures == sorted({*measures}, reverse=True)


# --- steps say what they changed ----------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", library.names())
def test_steps_know_what_they_changed(name: str) -> None:
    for step in derive(translate(check(library.load(name)))).steps:
        assert bool(step.changed) == (step.rule != "name_operand"), step.rule
        assert {*step.changed} >= {*step.place} or step.rule == "name_operand"
