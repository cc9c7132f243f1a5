"""Rows that lanes cannot load in chunks: copies that they can, where many blocks read them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

import monocomp as mc
from monocomp import library
from monocomp.backends.triton.launch import load
from monocomp.host.building import MANY_BLOCKS
from tests.backends import interpreted as interpreter
from tests.backends.library_cases import CASES
from tests.backends.running import exact
from tests.backends.tolerances import BESIDE_EAGER
from tests.gpu.comparing import all_in_nan

BLOCK = 16


def source(name: str, **sizes: int) -> str:
    return mc.compile(library.load(name), name="kernel").source(target="cuda:90", extents=sizes)


def _aligned(text: str, tensor: Tensor, widest: int = 2) -> tuple[Tensor, bool]:
    """A tensor in aligned rows, and whether it is the same one."""
    module = load(text)

    def empty(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.full(shape, math.nan if dtype.is_floating_point else 99, dtype=dtype)

    found: Tensor = module.aligned(tensor, empty, module.launch, widest)
    return found, found is tensor


def _shifted(t: Tensor, by: int) -> Tensor:
    return torch.cat([t.new_zeros(by), t.flatten()])[by:].view(t.shape)


LEFT: Mapping[str, Tensor] = {
    "sectors": torch.ones(2, 3, 5, 48).half(),
    "half a sector": torch.ones(2, 5, 40).half(),
    "a part of long rows": torch.ones(5, 128).half()[:, :33],
    "wide elements": torch.ones(5, 33),
    "one row": torch.ones(1, 1, 33).half(),
    "nothing": torch.ones(0, 33).half(),
    "repeated": torch.ones(1, 5, 33).half().expand(4, 5, 33),
    "columns": torch.ones(33, 5).half().T,
    "bytes": torch.ones(5, 48, dtype=torch.int8),
    "six dimensions": torch.ones(2, 1, 1, 1, 5, 33).half(),
}
COPIED: Mapping[str, tuple[Tensor, int]] = {  # with the length of its rows
    "odd": (torch.randn(2, 3, 5, 33).half(), 48),
    "a part of odd rows": (torch.randn(5, 33).half()[:, 1:17], 16),
    "shifted": (_shifted(torch.randn(5, 32).half(), 1), 32),
    "swapped": (torch.randn(5, 3, 20).half().transpose(0, 1), 32),
    "bytes": (torch.ones(5, 40, dtype=torch.int8), 64),
    "many, in parts, swapped": (torch.randn(3, 2, 4, 7, 21).half()[..., :19].transpose(0, 3), 32),
    "longer than a block": (torch.randn(2, 3, 1037).half(), 1040),
}


@pytest.mark.parametrize("kind", LEFT)
def test_what_is_left_as_it_is(kind: str) -> None:
    assert _aligned(source("attention"), LEFT[kind])[1]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", COPIED)
def test_what_is_copied(kind: str) -> None:
    tensor, length = COPIED[kind]
    found, _ = interpreter.call(_aligned, source("attention"), tensor)
    assert found.is_contiguous() and found.shape == (*tensor.shape[:-1], length)
    assert torch.equal(found[..., : tensor.shape[-1]], tensor)
    assert not found[..., tensor.shape[-1] :].any()
    assert _aligned(source("attention"), found)[1]


@pytest.mark.parametrize("length", [33, 1037])
def test_wide_elements_are_copied_where_descriptors_load_them(length: int) -> None:
    tensor = torch.randn(2, 3, length)
    found, is_same = interpreter.call(_aligned, source("attention"), tensor, 4)
    assert not is_same and torch.equal(found[..., :length], tensor)
    assert _aligned(source("attention"), tensor.double(), 4)[1]


def _run(text: str, inputs: Mapping[str, Tensor]) -> tuple[Tensor, int]:
    """The result, and how many tensors were copied."""
    module, copies = load(text), 0

    def launch(kernel: Any, programs: int, *args: Any, **options: Any) -> None:
        nonlocal copies
        copies += kernel is module.copy_rows
        module.launch(kernel, programs, *args, **options)

    config: dict[str, Any] = module.CONFIG | {"BLOCK_Q": BLOCK, "BLOCK_K": BLOCK}
    config["DESCRIPTORS"] = True
    return module.kernel(*inputs.values(), configs=(config,), launch=launch), copies


@pytest.mark.one_in(2)
@pytest.mark.parametrize("head", [7, 24, 64])
@pytest.mark.parametrize("name", ["causal", "gqa"])
def test_results(name: str, head: int) -> None:
    """Keys and values have rows of their own lengths; with fewer blocks nothing is copied."""
    text, case = source(name, d=head, e=44), CASES[name]
    for blocks in (MANY_BLOCKS - 1, MANY_BLOCKS):
        inputs = case.inputs(case.sizes(blocks * BLOCK, 37, head, 44), torch.float16)
        padded = all_in_nan(inputs)
        found, copies = interpreter.call(_run, text, padded)
        assert copies == (blocks == MANY_BLOCKS) * (1 + (head % 8 > 0))
        (wanted,), (eager,) = exact(case.text, inputs), case.in_eager_torch(inputs)
        BESIDE_EAGER[torch.float16].check(found, wanted, eager)
