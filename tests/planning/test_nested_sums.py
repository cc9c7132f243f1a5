"""Sums over everything beside the rows of a kernel, and the order of sums."""

from __future__ import annotations

import pytest
import torch

import monocomp as mc
from monocomp.language.checker import check
from monocomp.planning import storing
from monocomp.planning.plan import Plan
from tests.agreement import check_step
from tests.backends.both_stages import both_stages
from tests.backends.running import make_inputs
from tests.backends.tolerances import agree

P = "P[b,h,q,k] = tanh(Q[b,h,q,d] * K[b,h,k,d])\n"
VALUES = "O[b,h,q,e] = sum[k if k <= q](P[b,h,q,k] * V[b,h,k,e])\n"
KEYS = "R[b,h,k,d] = sum[q if k <= q](P[b,h,q,k] * Q[b,h,q,d])\n"
BESIDE_QUERIES = P + VALUES + "W[h] = sum[b,k,q if k <= q](P[b,h,q,k] * (q - k))\nreturn O, W"
BESIDE_KEYS = P + KEYS + "W[h] = sum[b,k,q if k <= q](P[b,h,q,k] * (q - k))\nreturn R, W"
SIZES = {"b": 4, "h": 16, "q": 4096, "k": 4096, "d": 64, "e": 64}
CASES = {
    "queries": (BESIDE_QUERIES, ("O", "F")),
    "keys": (BESIDE_KEYS, ("R", "F")),
}


def plan(text: str, **sizes: int) -> Plan:
    return mc.compile(text).plan(sizes)


@pytest.mark.parametrize("name", CASES)
def test_each_step_keeps_the_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "WORTH_STORING", 1.0)  # at small sizes launches take the time
    text, together = CASES[name]
    known = check(text).extent_of
    sizes = {n: s for n, s in zip(SIZES, (2, 3, 21, 20, 2, 3), strict=True) if n in known}
    inputs = make_inputs(text, sizes, torch.float64)
    found = plan(text, **sizes)
    assert set(together) in [set(k.names) for k in found.planned]
    for step in found.decisions:
        check_step(text, step.program.text(), {n: x.numpy() for n, x in inputs.items()})
    with both_stages() as seen:
        agree("numpy", text, inputs)
    assert len(seen) == 2


def rules(found: Plan) -> list[str]:
    return [s.rule for s in found.decisions]


@pytest.mark.parametrize(
    "text",
    [
        "W[h] = sum[b,q](X[b,h,q] ** 2)",  # its elements are read: nothing is computed again
        "W[h] = sum[b](max[q](X[b,h,q]))",  # a maximum of sums is no sum of maxima
        P + "W[h] = sum[b,k,q if k <= q](P[b,h,q,k] * (q - k))",  # no kernel has rows for it
        # Nobody looks at the rows that a filter leaves out, where nothing might be to read.
        "input N[q]: int\n"
        "W[h] = sum[q if N[q] < |k|](sum[k](tanh(sum[d](X[h,q,d] * Y[h,N[q],k,d]))))",
    ],
)
def test_nothing_is_stored(text: str) -> None:
    sizes = {n: s for n, s in SIZES.items() if n in check(text).extent_of}
    assert "store_partial_sum" not in rules(plan(text, **sizes))
