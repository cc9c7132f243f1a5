"""Gradients on a GPU: in CUDA graphs, the same bits each time, beside eager torch at the edges."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.autograd import grad

import monocomp as mc
from benchmarks.variants import RELATIVE_BIAS
from monocomp import library
from tests.gpu.comparing import DEVICE, ON_GPU, REPEATS

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::RuntimeWarning")]  # of NumPy
needs_gpu = pytest.mark.skipif(not ON_GPU, reason="no interpreter has this")
BITS16 = torch.bfloat16 if ON_GPU else torch.float16


def tensors(n: int, d: int, dtype: torch.dtype, heads: int = 2) -> list[Tensor]:
    generator = torch.Generator().manual_seed(n * 31 + d)
    found = [torch.randn(1, heads, n, d, generator=generator) for _ in range(4)]
    return [x.to(DEVICE, dtype).requires_grad_(m < 3) for m, x in enumerate(found)]


def leaves_like(*tensors: Tensor) -> list[Tensor]:
    """The same memory; autograd remembers on which stream a leaf was used."""
    return [x.detach().requires_grad_() for x in tensors]


@needs_gpu
def test_a_graph_repeats_forward_and_backward() -> None:
    """No call waits for the GPU, and all memory is of the graph's pool."""
    kernel = mc.compile(library.load("causal"))
    q, k, v, cotangent = tensors(200, 64, torch.bfloat16)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            leaves = leaves_like(q, k, v)
            grad(kernel(*leaves), leaves, cotangent)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = kernel(q, k, v)
        found = grad(result, (q, k, v), cotangent)
    others = tensors(201, 64, torch.bfloat16)
    with torch.no_grad():
        for x, y in zip((q, k, v, cotangent), others, strict=True):
            x.copy_(y[:, :, :200])
    graph.replay()
    torch.cuda.synchronize()
    leaves = leaves_like(q, k, v)
    again = kernel(*leaves)
    assert torch.equal(result, again)
    for captured, called in zip(found, grad(again, leaves, cotangent), strict=True):
        assert torch.equal(captured, called)


@pytest.mark.parametrize("name", ["causal", "softcap", *["pair_bias"][: int(ON_GPU)]])
def test_the_same_bits(name: str) -> None:
    """Each time: nothing is added up in the order in which it comes."""
    from monocomp.checking.random_inputs import random_inputs

    kernel = mc.compile(library.load(name), backend="triton")
    sizes = {"b": 1, "h": 2, "q": 70, "k": 70, "d": 16, "e": 16}
    if ON_GPU:
        sizes = {"b": 1, "h": 8, "q": 256, "k": 256, "d": 64, "e": 64, "c": 16}
    known = {i: n for i, n in sizes.items() if i in kernel.declared.extent_of}
    params = {n: 2.0 for n, p in kernel.declared.params.items() if p.default is None}
    inputs = {
        n: torch.as_tensor(x).to(DEVICE).requires_grad_(x.dtype.kind == "f")
        for n, x in random_inputs(kernel.equations, known).items()
    }
    floats = [x for x in inputs.values() if x.requires_grad]
    first = None
    for _ in range(REPEATS):
        found = grad(kernel(**inputs, **params).square().sum(), floats)
        first = first or found
        assert all(torch.equal(x, y) for x, y in zip(found, first, strict=True))


@pytest.mark.parametrize("n", [300, 512] if ON_GPU else [70])
def test_a_bias_that_is_learned_by_distance(n: int) -> None:
    """Its gradient is summed along diagonals, at positions before the first, too."""
    kernel = mc.compile(RELATIVE_BIAS, backend="triton")
    q, k, v, cotangent = tensors(n, 64, BITS16)
    generator = torch.Generator().manual_seed(n)
    bias = torch.randn(2, 2 * n - 1, generator=generator).to(DEVICE, BITS16).requires_grad_()
    at = torch.arange(n, device=DEVICE)
    at = at[:, None] - at + n - 1

    def result(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
        return (q @ k.mT / math.sqrt(64) + bias[:, at]).softmax(-1) @ v

    given = q, k, v, bias
    found = grad(kernel(*given), given, cotangent)
    usual = grad(result(*given), given, cotangent)
    wide = tuple(x.detach().double().requires_grad_() for x in given)
    exact = grad(result(*wide), wide, cotangent.double())
    for ours, theirs, right in zip(found, usual, exact, strict=True):
        error, limit = (ours.double() - right).norm(), (theirs.double() - right).norm()
        assert error <= 2 * limit, (error.item(), limit.item())


def test_keys_that_are_masked_out_and_rows_without_any() -> None:
    """NaN there changes no gradient, and gradients of empty rows are 0."""
    text = (
        "input Q[q,d], K[k,d], V[k,e], length: int, first: int\n"
        "O[q,e] = softmax[k if k < length and first <= q](Q[q,d] * K[k,d]) * V[k,e]"
    )
    kernel = mc.compile(text, backend="triton")
    numbers = [torch.tensor(n, device=DEVICE) for n in (21, 4)]
    found = []
    for poison in (0.0, math.nan):
        q, k, v = (x.detach()[0, 0] for x in tensors(37, 16, torch.float32)[:3])
        k[21:] = v[21:] = poison
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        found.append(grad(kernel(*leaves, *numbers).sum(), leaves))
    for clean, poisoned in zip(*found, strict=True):
        assert torch.equal(clean, poisoned) and clean.any()
    dq, dk, dv = found[1]
    assert not dq[:4].any() and not dk[21:].any() and not dv[21:].any()


@needs_gpu
def test_products_end_before_their_operands_are_overwritten() -> None:
    """A stored sum is multiplied in two limbs, with two warpgroups and three stages."""
    kernel = mc.compile(library.load("linear_attention"))
    generator = torch.Generator(DEVICE).manual_seed(0)
    shape, bits = (4, 16, 4096, 128), {"dtype": torch.bfloat16, "device": DEVICE}
    inputs = [torch.randn(shape, generator=generator, **bits).requires_grad_() for _ in range(3)]
    result = kernel(*inputs)
    cotangent = torch.randn(shape, generator=generator, **bits)
    found = grad(result, inputs, cotangent)
    q, k, v = (x.detach().float().requires_grad_() for x in inputs)
    weights = [torch.nn.functional.elu(x) + 1 for x in (q, k)]
    total = weights[0] @ weights[1].sum(-2, keepdim=True).mT
    expected = grad(weights[0] @ (weights[1].mT @ v) / total, (q, k, v), cotangent.float())
    for x, y in zip(found, expected, strict=True):
        assert (x - y).abs().max() <= 2e-2 * y.abs().max()
