"""The search for schedules on a GPU: what it finds is right, remembered, and used."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import monocomp as mc
from monocomp import library
from monocomp.backends.schedules.measure import GpuBench
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


def test_what_is_wrong_never_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that every second candidate spoils."""
    original, turn = GpuBench.outputs, itertools.count()
    spoiled: list[Any] = []

    def outputs(bench: GpuBench, choice: Any) -> Any:
        found = original(bench, choice)
        if next(turn) % 2 == 0:
            return found
        spoiled.append(choice)
        return tuple(t + 1 for t in found)

    monkeypatch.setattr(GpuBench, "outputs", outputs)
    found = mc.compile(library.load("causal")).tune(*tensors(), candidates=4)
    assert found.wrong == len(spoiled) > 0
    assert found.measured > 0 and found.schedules not in spoiled


def test_an_interruption_keeps_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    original, turn = GpuBench.timer, itertools.count()

    def timer(bench: GpuBench, choice: Any) -> Any:
        if next(turn) == 2:
            raise KeyboardInterrupt
        return original(bench, choice)

    monkeypatch.setattr(GpuBench, "timer", timer)
    found = mc.compile(library.load("causal")).tune(*tensors(), candidates=4)
    assert found.was_interrupted and found.measured == 2 and found.entry is not None
