"""Filters by data: a kernel of its own stores where what they admit begins and ends."""

from __future__ import annotations

import pytest
import torch

import monocomp as mc
from monocomp.planning.plan import Plan
from tests.backends.running import DISTINCT, cut_for_long_extents, make_inputs, run
from tests.backends.test_domains import EXTENTS, inputs_for, poisoned, program
from tests.backends.tolerances import agree, near

# What no bounds follow from: which keys a query sees depends on what is read of the keys.
BY_DATA = (
    "document numbers",
    "tree",
    "prefix and tree",
    "columns",
    "guarded truth value",
    "mask before bounds",
)


def bounds(plan: Plan) -> list[str]:
    return [s.after for s in plan.decisions if s.rule == "bound_filter"]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("backend", DISTINCT)
@pytest.mark.parametrize("name", BY_DATA)
def test_results(name: str, backend: str) -> None:
    """Queries that see no key, keys between those seen, and NaN in those that none sees."""
    text = program(name)
    with cut_for_long_extents():
        assert len(bounds(mc.compile(text).plan({**EXTENTS}))) == 1
    for seed in range(1 if backend == "triton" else 2):
        inputs = inputs_for(text, seed)
        if seed:  # all that are seen lie together
            inputs |= {n: x.sort(-1).values for n, x in inputs.items() if n in ("some", "anc")}
        found = run(backend, text, poisoned(name, inputs), storing=True)
        near(backend, text, inputs, found, 4)


@pytest.mark.parametrize("sizes", [{"q": 0}, {"k": 0}, {"q": 1, "k": 1}, {"b": 0}, {"q": 3}])
def test_special_sizes(sizes: dict[str, int]) -> None:
    """Nothing to look at, and a block of one."""
    text = (
        "input doc[b,k]: int, own[b,q]: int\nS[b,q,k] = Q[b,q,d] * K[b,k,d]\n"
        "O[b,q,e] = softmax[k if doc[b,k] == own[b,q]](S[b,q,k]) * V[b,k,e]"
    )
    n = {"b": 2, "q": 5, "k": 9, "d": 4, "e": 3, **sizes}
    agree("numpy", text, make_inputs(text, n, torch.float64), storing=True)
