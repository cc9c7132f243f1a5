"""What else only a GPU can show: strides past 32 bits, memory, and NaN."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import monocomp as mc
from monocomp import library

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no interpreter has this"),
]


def inputs(q: int, k: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values."""
    generator = torch.Generator("cuda").manual_seed(q * 1009 + k)

    def tensor(length: int) -> Tensor:
        return torch.randn(2, 4, length, 64, generator=generator, device="cuda").to(dtype)

    return tensor(q), tensor(k), tensor(k)


def test_offsets_beyond_32_bits() -> None:
    """A view whose rows lie 2**26 elements apart, most of which were never written."""
    kernel = mc.compile(library.load("attention"))
    q, k, v = inputs(64, 40, torch.float16)
    stride = (1 << 31) // 32  # 40 keys span more than 2**31 elements
    storage = torch.full((39 * stride + 64,), math.nan, dtype=torch.float16, device="cuda")
    spread = torch.as_strided(storage, (1, 1, 40, 64), (0, 0, stride, 1))
    spread.copy_(k[:1, :1])
    assert torch.equal(
        kernel(q[:1, :1], spread, v[:1, :1]), kernel(q[:1, :1], k[:1, :1], v[:1, :1])
    )


@pytest.mark.parametrize("divisor", [1, 2, 3, 64, 128, 1000, -1, -3, -64])
@pytest.mark.parametrize("shift", [0, 3, 64, 384, 5000])
def test_quotients_of_negative_positions(divisor: int, shift: int) -> None:
    """Neighbours of which one is a multiple have quotients of their own."""
    text = (
        "input X[i]: int\n"
        f"O[i] = 10000 * ((X[i] * 0 + i - {shift}) // {divisor}) + (i - {shift}) % {divisor}\n"
        f"P[i] = (i - {shift}) // {divisor}\n"
        "return O, P"
    )
    x = torch.zeros(1000, dtype=torch.int64, device="cuda")
    at = torch.arange(1000, device="cuda") - shift
    quotient = torch.div(at, divisor, rounding_mode="floor")
    found, plain = mc.compile(text)(x)
    assert torch.equal(plain.long(), quotient)
    assert torch.equal(found.long(), 10000 * quotient + at % divisor)


def test_memory_is_inputs_and_outputs() -> None:
    """Nothing of the size of the weights is ever there."""
    kernel = mc.compile(library.load("causal"))
    q, k, v = (torch.randn(1, 2, 8192, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    kernel(q, k, v)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = kernel(q, k, v)
    torch.cuda.synchronize()
    assert torch.cuda.max_memory_allocated() - before <= result.nbytes + (1 << 20)
