"""Plans: what they hold, that they are made once for sizes that decide alike, and what they say."""

from __future__ import annotations

from functools import partial
from unittest.mock import patch

import pytest

import monocomp as mc
from monocomp import library
from monocomp.planning import plan as planning
from monocomp.planning.search import Budget
from tests.backends.storing import PROGRAMS

ATTENTION = library.load("attention")


def test_sizes_that_decide_alike_share_a_plan() -> None:
    kernel = mc.compile(ATTENTION)
    assert kernel.plan({"q": 1000}) is kernel.plan({"q": 1024})
    assert kernel.plan({"q": 1000}) is not kernel.plan({"q": 1025})
    assert kernel.plan({"q": 1000}).kernels[0] is kernel.plan({"q": 1025}).kernels[0]


def test_gradients_of_two_biases_multiply_tiles() -> None:
    """A slope's gradient lacks the batch and the rows of the queries', however few those are: one
    loop for both would hold them all, and no product in it were one of two matrices."""
    gradient = mc.grad("""
        input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], i[b,q]: int, j[b,k]: int, pair[x,y], slope[h]
        S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] + pair[i[b,q], j[b,k]] + slope[h] * (k - q)
        O[b,h,q,e] = softmax[k](S[b,h,q,k]) * V[b,h,k,e]
        return O
    """)
    sizes = {"b": 2, "h": 2, "q": 11, "k": 11, "d": 16, "e": 16, "x": 5, "y": 5}
    kernel = mc.compile(gradient)
    products = [e for k in kernel.plan(sizes).kernels for e in k.expressions if e.op == "contract"]
    assert products and all(len(e.axes) <= 2 for e in products)
    assert kernel.source(target="cuda:90", extents=sizes)


def test_sizes_that_nobody_gave_are_names() -> None:
    kernel = mc.compile(library.load("causal"))
    assert "\n  for any b, h, q, d, k, e\n" in str(kernel.plan())
    assert "\n  for q = 64, any b, h, d, k, e\n" in str(kernel.plan({"q": 64}))
    shown = (*kernel.stages.values(), str(kernel.derivation), mc.explorer.page(kernel))
    assert not [text for text in shown if "= 16384" in text]


@pytest.mark.parametrize("trials", [0, 1, 100])
def test_a_plan_says_if_its_trials_were_too_few(trials: int) -> None:
    """Column sums store one value, which is one of several that could be."""
    with patch.object(planning, "Budget", partial(Budget, trials)):
        plan = mc.compile(PROGRAMS["column sums"]).plan()
    assert plan.is_spent == ("\n  with no trial left\n" in str(plan)) == (trials < 100)
    assert any(s.rule == "store_value" for s in plan.decisions) == (trials > 0)
