"""Variants of attention compile as their papers write them, and give what plain torch gives."""

from __future__ import annotations

import pytest
import torch

import monocomp as mc
from monocomp.backends.triton.launch import interpreted
from tests.backends.compiling import SHARED_LIMIT, compile_for, first_launches, without_elements
from tests.backends.running import run
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
    inputs = variant.inputs()
    found = mc.compile(variant.text)(**inputs)
    torch.testing.assert_close(found, variant.expected(inputs), rtol=1e-9, atol=1e-10)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", slow_unless(lambda name: name not in LONG, VARIANTS))
def test_gradients(name: str) -> None:
    variant = VARIANTS[name]
    inputs = variant.inputs(seed=1)
    wanted = [inputs[n].requires_grad_() for n in variant.shapes]
    found, expected = mc.compile(variant.text)(**inputs), variant.expected(inputs)
    cotangent = torch.linspace(-1, 1, found.numel(), dtype=found.dtype).view(found.shape)
    pairs = [torch.autograd.grad(x, wanted, cotangent) for x in (found, expected)]
    torch.testing.assert_close(*pairs, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", NEW)
def test_in_triton(name: str) -> None:
    variant = VARIANTS[name]
    inputs = variant.inputs()
    single = {n: t.float() if t.is_floating_point() else t for n, t in inputs.items()}
    (found,) = run("triton", variant.text, single)
    expected = variant.expected(inputs).float()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


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
