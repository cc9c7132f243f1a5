"""Filters by data: a kernel of its own stores where what they admit begins and ends."""

from __future__ import annotations

import pytest
import torch

import monocomp as mc
from monocomp import library
from monocomp.backends.schedules.schedule import Schedule
from monocomp.backends.triton.launch import interpreted
from monocomp.planning.plan import Plan
from monocomp.rewriting.rules import STATED
from tests.backends.compiling import compiled_to, launches_of, without_elements
from tests.backends.running import DISTINCT, cut_for_long_extents, run
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
SIZES = {"b": 4, "h": 16, "q": 4096, "k": 4096, "d": 128, "e": 128}


def bounds(plan: Plan) -> list[str]:
    return [s.after for s in plan.decisions if s.rule == "bound_filter"]


@pytest.mark.parametrize("name", BY_DATA)
def test_bounds_are_stored(name: str) -> None:
    plan = mc.compile(program(name)).plan()
    plan.verify()
    assert len(bounds(plan)) == 1
    (step,) = (s for s in plan.decisions if s.rule == "bound_filter")
    assert step.law == STATED["bound_filter"].law and step.place == ("O", "L")
    assert step.cost is not None and step.cost.after < step.cost.before
    assert [len(k.outputs) for k in plan.kernels] == [3, 2]


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
    shapes = {"Q": "bqd", "K": "bkd", "V": "bke", "doc": "bk", "own": "bq"}
    torch.manual_seed(0)
    inputs = {
        t: torch.randn(*(n[i] for i in dims), dtype=torch.float64)
        if t.isupper()
        else torch.randint(0, 3, [n[i] for i in dims])
        for t, dims in shapes.items()
    }
    given = {t: inputs[t] for t in ("doc", "own", "Q", "K", "V")}
    agree("numpy", text, given, storing=True)


@pytest.mark.skipif(interpreted(), reason="Triton interprets in this process")
def test_loads_from_where_rows_say() -> None:
    """A loop that begins where a reduction says loads ahead, several elements at a time: Triton
    loses what it knows of addresses where a loop begins at what a reduction comes to."""
    kernel = mc.compile(str(mc.grad(library.load("document"))))
    programs = kernel.plan(SIZES).kernels
    schedules = [
        Schedule((("k", 16), ("q", 512)), 2, 2),
        Schedule((("q", 64), ("e", 64), ("k", 64)), 4, 2),
        Schedule((("k", 64), ("q", 32)), 4, 3),
    ]
    *_, found = launches_of(kernel, programs, schedules, without_elements(kernel, SIZES))
    text = compiled_to("ttgir", found)
    # Queries and their cotangents, in three stages, with the loop beside that asks the filter and
    # without it.
    assert text.count("ttg.local_alloc : () -> !ttg.memdesc<3x32x128xbf16") == 4
