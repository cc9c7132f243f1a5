"""Plans for long extents, which run at short ones as well.

Attention with decays: prefixes that weights are made of are stored once, by a kernel of their own,
where each tile would compute them anew. Attention to what lists say, one for a group of heads or a
block of queries: those are packed to rows, so that a product of tiles computes what would be a sum
an element otherwise.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

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
PACKED = {
    "heads of a group": "input L[b,g,q,r]: int, Q[b,h,q,d], K[b,g,k,d], V[b,g,k,e]\n"
    "G[h] = h // (|h| // |g|)\n"
    "O[b,h,q,e] = softmax[r](Q[b,h,q,d] * K[b, G[h], L[b,G[h],q,r], d] / sqrt(|d|))"
    " * V[b, G[h], L[b,G[h],q,r], e]",
    "blocks of queries": "input L[b,h,n,r]: int, Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e]\n"
    "index j < |r| * 16\ndef position(x, j) = x * 16 + j % 16\n"
    "O[b,h,q,e] = softmax[j](Q[b,h,q,d] * K[b, h, position(L[b, h, q // 16, j // 16], j), d])"
    " * V[b, h, position(L[b, h, q // 16, j // 16], j), e]",
}


def kernel(text: str, backend: str = "auto") -> Kernel:
    return mc.compile(text, backend=backend, processors=132 if text in PACKED.values() else None)


def sizes(k: Kernel, length: int, **more: int) -> dict[str, int]:
    given = {"b": 2, "g": 4, "h": 16, "n": length // 16, "r": 128, "d": 64, "e": 64, **more}
    extents = k.declared.extent_of.values()
    return {e: given.get(e, length) for e in extents if e != "j"}


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


def test_other_rows_need_no_packing() -> None:
    """All queries share what one list says."""
    k = kernel("input L[r]: int\nO[q,e] = softmax[r](Q[q,d] * K[L[r],d]) * V[L[r],e]")
    assert not k.plan({"q": 4096, "r": 128, "d": 64, "e": 64}, processors=132).decisions


@pytest.mark.parametrize("name", [*PROGRAMS, *PACKED])
def test_results(name: str) -> None:
    """The plan for long extents, interpreted, gives the results of the oracle."""
    text = (PROGRAMS | PACKED)[name]
    k = kernel(text, "torch")
    length, heads = (70, 2) if name in PROGRAMS else (48, 6)
    extents = sizes(k, length, b=1, g=2, h=heads, r=3, d=3, e=4)
    inputs = dict(random_inputs(translate(check(text)), extents, dtype="float64"))
    if "L" in inputs:
        inputs["L"] = inputs["L"] % extents["r"]  # of blocks, too
    wanted = mc.evaluate(text, inputs)
    long = k.plan(sizes(k, 8192, h=16 if name in PROGRAMS else 64))
    assert len(long.kernels) == 2 if name in PROGRAMS else long.decisions
    k.planner.plan = lambda *_, **__: long  # type: ignore[method-assign]
    tensors = {n: torch.as_tensor(x) for n, x in inputs.items()}
    np.testing.assert_allclose(k(**tensors), wanted, rtol=1e-6, atol=1e-9)
