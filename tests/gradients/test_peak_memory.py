"""What a gradient takes of memory at most: inputs, results, gradients, statistics of rows."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import monocomp as mc
from benchmarks.variants import RELATIVE_BIAS
from monocomp import library
from monocomp.backends.torch_operations import TorchTarget
from monocomp.backends.triton.launch import load
from monocomp.host.building import host_program, of_tile_program
from monocomp.host.evaluation import Evaluation

GROUPED = library.load("gqa").replace("softmax[k]", "softmax[k if k <= q]")
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


class Meta(TorchTarget):
    """Allocates what has no elements, and runs no kernel."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(torch.device("meta"))
        self.memory = memory

    def allocation(self, shape: tuple[int, ...], dtype: torch.dtype) -> Callable[[], torch.Tensor]:
        return lambda: self.memory.empty(shape, dtype=dtype, device="meta")

    def kernel(self, number: int, programs: int) -> Callable[..., object]:
        return lambda *args, **options: None


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_few_grouped_heads(groups: int) -> None:
    """Few program instances are no reason to sum over heads one element of a product at a time."""
    sizes = {"b": 1, "h": 4, "g": groups, "q": 4096, "k": 4096, "d": 64, "e": 64}
    assert peak(GROUPED, sizes) < MOST


@pytest.mark.parametrize(("heads", "width", "length"), [(16, 128, 4096), (4, 64, 16384)])
def test_a_learned_bias(heads: int, width: int, length: int) -> None:
    """Sums along diagonals are stored for some heads at a time, and given back before the gradients
    of keys and values are allocated."""
    sizes = {"b": 1, "h": heads, "q": length, "k": length, "d": width, "e": width}
    sizes["r"] = 2 * length - 1
    assert peak(RELATIVE_BIAS, sizes) < MOST
    plan = mc.compile(mc.grad(RELATIVE_BIAS, extents=sizes)).plan(sizes, processors=132)
    assert plan.program.slices is not None and plan.program.slices.whole == "h"
    assert plan.program.slices.length == heads // 2  # each slice is two more launches


def test_a_call_gives_back_what_slices_hold() -> None:
    """The plan of a call has the same peak as the emitted file."""
    sizes = {"b": 1, "h": 16, "q": 4096, "k": 4096, "d": 128, "e": 128, "r": 8191}
    kernel = mc.compile(mc.grad(RELATIVE_BIAS, extents=sizes))
    plan = kernel.plan(sizes, processors=132)
    program = host_program(plan.program, list(map(of_tile_program, plan.kernels)))
    memory = Memory()
    inputs = {
        n: memory.empty(tuple(sizes[d] for d in i.dims), dtype=torch.bfloat16, device="meta")
        for n, i in kernel.declared.inputs.items()
    }
    given = memory.now
    call = Evaluation(program, Meta(memory), inputs, {}, [{}] * len(program.kernels)).plan()
    results = call([*inputs.values()])
    rows = 4 * sizes["h"] * sizes["q"]
    assert memory.peak < MOST * (given + sum(t.nbytes for t in results) + rows)
    assert memory.now <= given + sum(t.nbytes for t in results)
