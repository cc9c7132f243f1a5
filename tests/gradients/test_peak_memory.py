"""What a gradient takes of memory at most: inputs, results, gradients, statistics of rows."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch

import monocomp as mc
from monocomp.backends.triton.launch import load

GROUPED = """
input Q[b,h,q,d], K[b,g,k,d], V[b,g,k,e]

G[h]       = h // (|h| // |g|)
S[b,h,q,k] = Q[b,h,q,d] * K[b,G[h],k,d] / sqrt(|d|)
O[b,h,q,e] = softmax[k if k <= q](S[b,h,q,k]) * V[b,G[h],k,e]
"""
MOST = 1.05  # times the tensors that a call gives and gets, and two numbers a row


class Memory:
    """Counts the bytes of tensors that have no elements, until nothing holds them."""

    def __init__(self) -> None:
        self.now = self.peak = 0

    def hold(self, tensor: torch.Tensor) -> torch.Tensor:
        self.now += tensor.nbytes
        self.peak = max(self.peak, self.now)
        weakref.finalize(tensor, self._free, tensor.nbytes)
        return tensor

    def _free(self, size: int) -> None:
        self.now -= size

    def empty(self, shape: tuple[int, ...], **how: Any) -> torch.Tensor:
        return self.hold(torch.empty(shape, **how))


def peak(text: str, sizes: dict[str, int]) -> float:
    """The most that is held by forward and backward of an emitted file, as times what it takes."""
    found = mc.grad(text, extents=sizes)
    file = load(found.source(target="cuda:90", extents=sizes))
    memory = Memory()
    how = {"empty": memory.empty, "launch": lambda *args, **options: None}

    def tensor(dims: tuple[str, ...]) -> torch.Tensor:
        shape = tuple(sizes[d] for d in dims)
        return memory.empty(shape, dtype=torch.bfloat16, device="meta")

    values: dict[str, torch.Tensor] = {
        n: tensor(i.dims) for n, i in found.program.declared.inputs.items()
    }
    names = [o.name for o in found.forward.declared.outputs]
    values |= zip(names, file.kernel_forward(*values.values(), **how), strict=True)
    for output, cotangent in found.cotangents.items():
        values[cotangent] = memory.hold(torch.empty_like(values[output]))
    given = [values[n] for n in found.equations.declared.inputs]
    gradients = file.kernel_backward(*given, **how)
    rows: int = 4 * sizes["b"] * sizes["h"] * sizes["q"]  # a float32 each; the forward's is a value
    taken: int = sum(t.nbytes for t in [*values.values(), *gradients])
    return memory.peak / (taken + rows)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_few_grouped_heads(groups: int) -> None:
    """Few program instances are no reason to sum over heads one element of a product at a time."""
    sizes = {"b": 1, "h": 4, "g": groups, "q": 4096, "k": 4096, "d": 64, "e": 64}
    assert peak(GROUPED, sizes) < MOST
