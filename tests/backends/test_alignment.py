"""Rows that do not begin where sectors do: copies of them that do, where many blocks read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

import monocomp as mc
from monocomp import library
from monocomp.backends.triton.emit import MANY_BLOCKS
from monocomp.backends.triton.launch import load
from monocomp.backends.triton.schedule import longest_alike, shortest
from monocomp.backends.triton.space import Space
from tests.backends import interpreted as interpreter
from tests.backends.library_cases import CASES
from tests.backends.running import exact
from tests.backends.tolerances import BESIDE_EAGER
from tests.gpu.comparing import all_in_nan

BLOCK = 16
ATTENTION = library.load("attention")


def source(name: str, **sizes: int) -> str:
    return mc.compile(library.load(name), name="kernel").source(target="cuda:90", extents=sizes)


@pytest.fixture(scope="module")
def aligned() -> Callable[[Tensor], Tensor]:
    function: Callable[[Tensor], Tensor] = load(source("attention")).aligned
    return function


def _shifted(t: Tensor, by: int) -> Tensor:
    return torch.cat([t.new_zeros(by), t.flatten()])[by:].view(t.shape)


LEFT: Mapping[str, Tensor] = {
    "sectors": torch.ones(2, 3, 5, 48).half(),
    "a part of long rows": torch.ones(5, 128).half()[:, :48],
    "wide elements": torch.ones(5, 33),
    "one row": torch.ones(1, 1, 48).half(),
    "nothing": torch.ones(0, 33).half(),
    "repeated": torch.ones(1, 5, 33).half().expand(4, 5, 33),
    "columns": torch.ones(33, 5).half().T,
    "bytes": torch.ones(5, 64, dtype=torch.int8),
}
COPIED: Mapping[str, tuple[Tensor, int]] = {  # with the length of its rows
    "odd": (torch.randn(2, 3, 5, 33).half(), 48),
    "one row": (torch.randn(1, 33).half(), 48),
    "a part of long rows": (torch.randn(5, 128).half()[:, :40], 48),
    "half a sector": (torch.randn(2, 5, 40).half(), 48),
    "a part of odd rows": (torch.randn(5, 33).half()[:, 1:17], 16),
    "shifted": (_shifted(torch.randn(5, 32).half(), 1), 32),
    "swapped": (torch.randn(5, 3, 24).half().transpose(0, 1), 32),
    "bytes": (torch.ones(5, 48, dtype=torch.int8), 64),
}


@pytest.mark.parametrize("kind", LEFT)
def test_what_is_left_as_it_is(aligned: Callable[[Tensor], Tensor], kind: str) -> None:
    assert aligned(LEFT[kind]) is LEFT[kind]


@pytest.mark.parametrize("kind", COPIED)
def test_what_is_copied(aligned: Callable[[Tensor], Tensor], kind: str) -> None:
    tensor, length = COPIED[kind]
    found = aligned(tensor)
    assert found.is_contiguous() and found.shape == (*tensor.shape[:-1], length)
    assert torch.equal(found[..., : tensor.shape[-1]], tensor)
    assert not found[..., tensor.shape[-1] :].any()
    assert aligned(found) is found


def _run(text: str, inputs: Mapping[str, Tensor]) -> tuple[Tensor, int]:
    """The result, and how many tensors were copied."""
    module, copies = load(text), 0

    def aligned(tensor: Tensor) -> Tensor:
        nonlocal copies
        found: Tensor = module.aligned(tensor)
        copies += found is not tensor
        return found

    config: dict[str, Any] = module.CONFIG | {"BLOCK_Q": BLOCK, "BLOCK_K": BLOCK}
    config["DESCRIPTORS"] = True
    return module.kernel(*inputs.values(), configs=(config,), aligned=aligned), copies


@pytest.mark.parametrize("head", [1, 7, 24, 33, 64])
@pytest.mark.parametrize("name", ["attention", "causal", "gqa"])
def test_results(name: str, head: int) -> None:
    """Keys and values have rows of their own lengths; with fewer blocks nothing is copied."""
    text, case = source(name, d=head, e=40), CASES[name]
    for blocks in (MANY_BLOCKS - 1, MANY_BLOCKS):
        inputs = case.inputs(case.sizes(blocks * BLOCK, 37, head, 40), torch.float16)
        padded = all_in_nan(inputs)
        found, copies = interpreter.call(_run, text, padded)
        assert copies == (blocks == MANY_BLOCKS) * (1 + (head % 16 > 0))
        (wanted,), (eager,) = exact(case.text, inputs), case.in_eager_torch(inputs)
        BESIDE_EAGER[torch.float16].check(found, wanted, eager)


def test_what_is_never_copied() -> None:
    """What lies in pages, and rows that are streamed themselves."""
    for name in ("paged_attention", "softmax"):
        assert "aligned" not in source(name), name
    assert "W = aligned(W)" in source("cross_entropy", d=99)
    assert "aligned" not in source("cross_entropy", d=4100)


def test_sizes_that_share_schedules() -> None:
    """Rows that fill sectors are told from others."""
    assert longest_alike(112) == longest_alike(128) == 128
    assert longest_alike(99) == longest_alike(120) == longest_alike(127) == 127
    for size in range(1, 513):
        assert size <= longest_alike(size) <= shortest(size)
        assert (longest_alike(size) % 16 == 0) == (size % 16 == 0)


def test_odd_rows_are_described_first() -> None:
    for head in (24, 33, 72, 99, 100, 120, 130, 250):
        sizes = {"b": 1, "h": 8, "q": 4096, "k": 4096, "d": head, "e": head}
        (program,) = mc.compile(ATTENTION).tile_programs(sizes)
        assert Space(program, sizes, 2, "cuda:90", 132).first().descriptors
        assert not Space(program, sizes, 2, "cuda:80", 108).first().descriptors
