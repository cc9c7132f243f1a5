"""Every derivation ends: no rule brings back what another has left behind."""

from __future__ import annotations

import pytest

from monocomp.costs.fold_elements import elements_of_folds
from monocomp.derivation.rule_sets import RULES, derive, split_normal_form
from monocomp.rewrites.exchange import disorder
from monocomp.rewriting.driver import Rewriter
from monocomp.terms.equations import Equations
from tests.rewrites.rules import equations

# Sums of which the cheapest order is not the fixed one of sums that follow one another directly.
CHAINS = [
    "input A[i,k], B[j,i], X[i]\nO[i] = sum[l, k, j if j == i](A[l,k] * B[j,l] * k) + X[i]",
    "O[i] = sum[l, k, j if j == i](A[l,k] * B[j,l]) + sum[j, l, k](A[l,k] * B[j,l] * D[k,i])",
    "O[i,e] = sum[j, k, l if l <= e](A[i,j] * B[j,k] * C[k,l] * D[l,e])",
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
    derived(equations(RULES[name].section(side)))


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
