"""Attention with decays: prefixes that weights are made of are stored once, by a kernel of their
own, where each tile would compute them anew."""

from __future__ import annotations

import numpy as np
import pytest

import monocomp as mc
from monocomp.checking.random_inputs import random_inputs
from monocomp.kernel import Kernel
from monocomp.language.checker import check
from monocomp.planning.report import tile_cost
from monocomp.translation.translator import translate

CAUSAL = "k if k <= q"
PROGRAMS = {
    "gated linear attention": "C[b,h,t] = sum[..t](G[b,h,t])\n"
    f"O[b,h,q,e] = sum[{CAUSAL}](sum[d](Q[b,h,q,d] * K[b,h,k,d])"
    " * exp(C[b,h,q] - C[b,h,k]) * V[b,h,k,e])",
    "a gate a channel": "C[b,h,t,d] = sum[..t](G[b,h,t,d])\n"
    f"O[b,h,q,e] = sum[{CAUSAL}](sum[d](Q[b,h,q,d] * K[b,h,k,d]"
    " * exp(C[b,h,q,d] - C[b,h,k,d])) * V[b,h,k,e])",
    "forgetting attention": "C[b,h,t] = sum[..t](-log(1 + exp(-G[b,h,t])))\n"
    f"O[b,h,q,e] = softmax[{CAUSAL}](Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)"
    " + C[b,h,q] - C[b,h,k]) * V[b,h,k,e]",
    "a window": "C[b,h,t] = sum[..t](G[b,h,t])\n"
    "O[b,h,q,e] = softmax[k if k <= q and q - k < 100](Q[b,h,q,d] * K[b,h,k,d]"
    " + C[b,h,q] - C[b,h,k]) * V[b,h,k,e]",
}
FORGETTING = PROGRAMS["forgetting attention"]


def kernel(text: str, **options: str) -> Kernel:
    return mc.compile(text, **options)


def sizes(k: Kernel, length: int, **more: int) -> dict[str, int]:
    given = {"b": 2, "h": 16, "d": 64, "e": 64, **more}
    extents = {e: given.get(e, length) for e in k.declared.extent_of.values()}
    return extents


@pytest.mark.parametrize("length", [4096, 16384, 65536])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_prefix_is_computed_once(name: str, length: int) -> None:
    """By the first kernel, with few operations an element; the second one reads it."""
    k = kernel(PROGRAMS[name])
    given = sizes(k, length)
    first, second = k.plan(given).kernels
    assert [o.is_stored for o in first.outputs] == [True]
    assert first.outputs[0].name in second.inputs
    work = tile_cost(first, given)
    channels = 64 if "channel" in name else 1
    assert work.flops <= 20 * 32 * length * channels
    assert work.launches == 1 and tuple(work.passes.values()) == (1,)


def test_a_short_prefix_is_not_worth_a_launch() -> None:
    k = kernel(FORGETTING)
    assert len(k.plan(sizes(k, 64, b=1, h=1)).kernels) == 1


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results(name: str, backend: str) -> None:
    """In two kernels, by the interpreters, as by the oracle."""
    text = PROGRAMS[name]
    k = kernel(text, backend=backend)
    extents = sizes(k, 70, b=1, h=2, d=3, e=4)
    inputs = random_inputs(translate(check(text)), extents)
    wanted = mc.evaluate(text, inputs)
    long = k.plan(sizes(k, 8192))
    assert len(long.kernels) == 2
    k.planner.plan = lambda *_, **__: long  # type: ignore[method-assign]
    found = np.asarray(k(**inputs) if backend == "numpy" else k(**_tensors(inputs)))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def _tensors(inputs):  # type: ignore[no-untyped-def]
    import torch

    return {n: torch.from_numpy(np.asarray(x, dtype=np.float64)) for n, x in inputs.items()}
