"""Random numbers choose the elements of sums, also where they choose none."""

from __future__ import annotations

import math

import numpy as np
import pytest

import monocomp as mc
from monocomp import library
from monocomp.derivation.rule_sets import derive
from monocomp.language.checker import check
from monocomp.planning.random_filters import choose_elements
from monocomp.translation.translator import translate

DECLARED = "param r: float\n"
CHOSEN = [
    "O[i,d] = sum[k if r <= uniform(3, i, k)](X[i,k] * Y[k,d])",
    "O[i,d] = sum[k if k <= i and r <= uniform(3, i, k)](X[i,k] * Y[k,d]) / (1 - r)",
    "O[i,d] = tanh(Z[i]) * sum[k if not uniform(3, i, k) < r](X[i,k] * Y[k,d]) / (1 - r) + Z[i]",
]
KEPT = [
    "O[i,d] = max[k if r <= uniform(3, i, k)](X[i,k] * Y[k,d])",
    "O[i,d] = sum[k if r <= X[i,k]](X[i,k] * Y[k,d])",
    # Of nothing over nothing 0 is left.
    "O[i,d] = sum[k if r <= uniform(3, i, k)](X[i,k] * Y[k,d])"
    " / sum[k if r <= uniform(3, i, k)](X[i,k])",
]


@pytest.mark.parametrize("line", CHOSEN)
def test_chosen(line: str) -> None:
    """Infinities and NaN that are not admitted stay out, and of nothing remains nothing."""
    program = derive(translate(check(DECLARED + line))).program
    steps = list(choose_elements(program))
    before, after = program.text(), steps[-1].program.text()
    assert "uniform(" not in after.partition("if ")[2].partition("]")[0]
    generator = np.random.default_rng(0)
    for point in (0.0, 1.0, math.inf, -math.inf, math.nan):
        inputs = {"X": generator.choice([point, 1.0], size=(5, 6)), "Z": np.arange(5.0)}
        inputs["Y"] = generator.normal(size=(6, 2))
        inputs = {n: inputs[n] for n in program.declared.inputs}
        for r in (0.0, 0.3, 1.0, 2.0, math.nan):
            with np.errstate(all="ignore"):
                wanted, found = (mc.evaluate(p, inputs, r=r) for p in (before, after))
            there = ~np.isnan(wanted)
            np.testing.assert_allclose(found[there], wanted[there], rtol=1e-12)


@pytest.mark.parametrize("line", KEPT)
def test_kept(line: str) -> None:
    assert not list(choose_elements(derive(translate(check(DECLARED + line))).program))


CAUSAL = """
param dropout: float = 0.1, seed: int = 0
P[b,h,q,k] = softmax[k if k <= q](Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|))
D[b,h,q,k] = P[b,h,q,k] * where(uniform(seed, b, h, q, k) < dropout, 0, 1 / (1 - dropout))
O[b,h,q,e] = D[b,h,q,k] * V[b,h,k,e]
return O
"""


@pytest.mark.parametrize("text", [library.load("dropout"), CAUSAL], ids=["full", "causal"])
def test_gradients_of_dropout_fold_once_over_keys_and_once_over_queries(text: str) -> None:
    """They read the result, draw numbers where they need them, and leave no block out for them."""
    found = mc.grad(text)
    assert "input O[" in str(found)
    kernel = mc.compile(found)
    assert kernel.source().count("tl.dot(") == 3 + 4
    loops = [s.strip() for s in str(kernel.stages["tile"]).splitlines() if " for " in s]
    bounds = ["for k in 0 .. min(|k|, q + 1):", "for q in max(0, k) .. |q|:"]
    assert loops[-2:] == (
        bounds if text is CAUSAL else ["for k in 0 .. |k|:", "for q in 0 .. |q|:"]
    )
