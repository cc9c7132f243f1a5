"""Plans that a first call measures beside each other."""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import monocomp as mc
from monocomp import library
from monocomp.backends.gluon.dialect import GLUON
from monocomp.backends.triton import launch
from monocomp.backends.triton.dialect import TRITON
from monocomp.backends.triton.launch import TritonRunner
from monocomp.backends.triton.rivals import fastest, manner, plans

SPLIT, WHOLE = "with streams in splits", "with whole streams"
ADDS, STORED = "with kernels that add", "with matrices stored"


@pytest.mark.parametrize(
    ("gradient", "heads", "length", "adds", "manners"),
    [
        (False, 32, 2048, True, [WHOLE]),
        (False, 2, 2048, True, [SPLIT, WHOLE]),
        (True, 32, 2048, True, [WHOLE, ADDS]),
        (True, 32, 2048, False, [WHOLE]),
        (True, 2, 2048, True, [SPLIT, WHOLE, ADDS]),
        (True, 512, 256, True, [STORED, WHOLE]),
        (True, 512, 256, False, [STORED, WHOLE]),
    ],
)
def test_plans(gradient: bool, heads: int, length: int, adds: bool, manners: list[str]) -> None:
    """Streams are whole for a language that merges no splits, also where few instances stream, and
    it computes products again that another one stores."""
    text = library.load("attention")
    kernel = mc.compile(mc.grad(text) if gradient else text)
    d = 512 if length == 256 else 128
    extents = {"b": 1, "h": heads, "q": length, "k": length, "d": d, "e": d}
    planned = partial(kernel.planner.plan, extents)
    both = plans(planned, 132, [TRITON, GLUON], adds)
    assert [manner(plan.program, plan.kernels) for plan in both] == manners
    (first,) = plans(planned, 132, [TRITON], adds)
    assert manner(first.program, first.kernels) == manners[0]


@pytest.mark.parametrize(("name", "gains"), [("attention", True), ("learned_sink", False)])
def test_plans_that_gain(name: str, gains: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel without splits has a form in Gluon, unless it adds up a few numbers only."""
    monkeypatch.setattr(launch, "target_of", lambda _: "cuda:90")
    monkeypatch.setattr(launch, "multiprocessors", lambda _: 132)
    text = library.load(name)
    kernel = mc.compile(text if name == "attention" else mc.grad(text))
    heads = 2 if name == "attention" else 32
    extents = {"b": 1, "h": heads, "q": 2048, "k": 2048, "d": 128, "e": 128}
    both = list(plans(partial(kernel.planner.plan, extents), 132, [TRITON, GLUON], adds=False))
    assert [manner(plan.program, plan.kernels) for plan in both] == [SPLIT, WHOLE]
    first, other = (
        TritonRunner(p.program, p.kernels, lambda _: None, "ieee", None, (TRITON, GLUON))  # type: ignore[arg-type, return-value]
        for p in both
    )
    inputs = {n: torch.zeros(1, dtype=torch.bfloat16) for n in kernel.declared.inputs}
    assert other.gains(first, inputs, {}, extents) == gains


@pytest.mark.parametrize(
    ("times", "gains", "chosen", "why"),
    [
        ((2.0, 1.0), True, 1, f"1 ms {WHOLE}, 2 ms {SPLIT}"),
        ((1.0, 2.0), True, 0, f"1 ms {SPLIT}, 2 ms {WHOLE}"),
        ((2.0, 1.0), False, 0, ""),
        ((math.inf, math.inf), True, 0, ""),
    ],
)
def test_the_fastest_plan(times: Any, gains: bool, chosen: int, why: str) -> None:
    """Measure plans whose kernels have forms that those of the first lack, if calls measure."""
    kernels = [
        SimpleNamespace(splits=splits, outputs=()) for splits in (frozenset("k"), frozenset())
    ]
    program = mc.compile(library.load("attention")).planner.plan({}).program
    runners: Any = [
        SimpleRunner(
            program=program, kernels=[k], milliseconds=lambda *_, t=t: t, gains=lambda *_: gains
        )
        for k, t in zip(kernels, times, strict=True)
    ]
    assert fastest(runners, {}, {}, {}) == (runners[chosen], why)


class SimpleRunner(SimpleNamespace):
    """A runner that is told what it takes, and is itself alone."""

    __hash__ = object.__hash__
