"""Variants of attention compile as their papers write them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

import monocomp as mc
from monocomp.backends.triton.launch import interpreted
from monocomp.language.checker import check
from tests.agreement import check_outputs
from tests.backends.compiling import SHARED_LIMIT, compile_for, first_launches, without_elements
from tests.backends.tolerances import agree
from tests.marks import slow_unless
from tests.variants.papers import VARIANTS

# Deriving these gradients takes more than a few seconds.
LONG = {
    "contextual positions",
    "gated linear",
    "layer norm of queries and keys",
    "multi-token",
    "native sparse",
    "sinkhorn",
}
NEW = ("rotary in halves", "neighbourhood", "stick-breaking")
PASSES = {  # of the indices that are streamed
    "rotary in halves": {"k": 1},
    "forgetting": {"q": 2},  # the keys, and the gates before them
    "neighbourhood": {"k": 1},
    "stick-breaking": {"k": 1},
    "retention": {"k": 1},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_result(name: str) -> None:
    variant = VARIANTS[name]
    inputs = {n: t.numpy() for n, t in variant.inputs().items()}
    kernel = mc.compile(variant.text, backend="torch")
    check_outputs(check(variant.text), kernel, inputs, note=name)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", slow_unless(lambda name: name not in LONG, VARIANTS))
def test_gradients(name: str) -> None:
    variant = VARIANTS[name]
    inputs, kernel = variant.inputs(seed=1), mc.compile(variant.text)

    def function(*floats: Tensor) -> Tensor:
        found: Tensor = kernel(**inputs | dict(zip(variant.shapes, floats, strict=True)))
        return found

    floats = [inputs[n].requires_grad_() for n in variant.shapes]
    assert gradcheck(function, floats, fast_mode=True)


@pytest.mark.parametrize("name", NEW)
def test_in_triton(name: str) -> None:
    agree("triton", VARIANTS[name].text, VARIANTS[name].inputs(torch.float32), 50)


@pytest.mark.one_in(2)
@pytest.mark.skipif(interpreted(), reason="Triton interprets in this process")
@pytest.mark.parametrize("name", NEW)
def test_compiles_without_a_gpu(name: str) -> None:
    kernel = mc.compile(VARIANTS[name].text)
    sizes = dict.fromkeys(kernel.declared.extent_of.values(), 128) | {"b": 2, "h": 4, "d": 64}
    sizes |= {"e": 64, "p": 32, "n": 32}
    for launch in first_launches(kernel, without_elements(kernel, sizes), sizes):
        used = compile_for("cuda:90", launch)
        # A product in a loop over the elements of a tile, beside what the outer loop holds.
        assert used.spilled <= (384 if name == "stick-breaking" else 64)
        assert used.shared <= SHARED_LIMIT["cuda:90"]


@pytest.mark.parametrize("name", PASSES)
def test_passes(name: str) -> None:
    assert mc.compile(VARIANTS[name].text).report()["passes"] == PASSES[name]
