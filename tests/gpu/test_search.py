"""The search for schedules on a GPU: what it finds is right, remembered, and used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import monocomp as mc
from monocomp import library
from monocomp.backends.triton.launch import TritonRunner

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no interpreter has this"),
]


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MONOCOMP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(mc.schedules, "_given", {})


def tensors(rows: int = 512, length: int = 512) -> list[Tensor]:
    """Queries, keys and values."""
    sizes = (rows, length, length)
    return [torch.randn(2, 4, n, 64, device="cuda", dtype=torch.bfloat16) for n in sizes]


@pytest.mark.parametrize(("rows", "length"), [(512, 512), (1, 65536)])
def test_what_is_found_is_used(rows: int, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the kernel itself, and by others that find it in the cache; kernels in parts too."""
    inputs = tensors(rows, length)
    kernel = mc.compile(library.load("attention"))
    wanted = kernel(*inputs)
    found = kernel.tune(*inputs, seconds=30, candidates=4)
    assert found.is_checked and not found.wrong and not found.was_interrupted
    assert found.milliseconds is not None and 0 < found.milliseconds < 100
    assert found.before is not None and 0 < found.before < 100
    assert torch.allclose(kernel(*inputs), wanted, atol=2e-2)
    monkeypatch.setattr(mc.schedules, "_given", {})
    used: list[Any] = []
    original = TritonRunner._call

    def call(runner: TritonRunner, given: Any, params: Any, choice: Any, *rest: Any) -> Any:
        used.append(choice)
        return original(runner, given, params, choice, *rest)

    monkeypatch.setattr(TritonRunner, "_call", call)
    mc.compile(library.load("attention"))(*inputs)
    assert used == [found.schedules]


def raced() -> int:
    """How many races are remembered."""
    return sum(e.raced for e in mc.schedules._given.values())


def test_first_calls_race(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward and backward, once; results are right, and inputs are as they were."""
    monkeypatch.setenv("MONOCOMP_TUNE", "")
    inputs = [t.requires_grad_() for t in tensors()]
    before = [t.detach().clone() for t in inputs]
    for _ in range(2):
        result = mc.compile(library.load("causal"), backend="triton")(*inputs)
        found = torch.autograd.grad(result.float().square().sum(), inputs)
        assert raced() == 2
    assert all(map(torch.equal, inputs, before))
    exact = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=True)
    wanted = torch.autograd.grad(exact.float().square().sum(), inputs)
    assert torch.allclose(result, exact, atol=2e-2)
    for a, b in zip(found, wanted, strict=True):
        assert (a - b).abs().max() <= 0.05 * b.abs().max()


@pytest.mark.filterwarnings(r"ignore::Warning:torch\..*")  # of dynamo and inductor
def test_a_race_before_a_graph_of_torch_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first run is no graph yet; later ones repeat what has won."""
    monkeypatch.setenv("MONOCOMP_TUNE", "")
    kernel, inputs = mc.compile(library.load("attention"), backend="triton"), tensors()
    compiled = torch.compile(lambda *x: kernel(*x) * 2, mode="reduce-overhead")
    wanted = torch.nn.functional.scaled_dot_product_attention(*inputs) * 2
    for _ in range(4):
        assert torch.allclose(compiled(*inputs), wanted, atol=4e-2)
    assert raced() == 1
