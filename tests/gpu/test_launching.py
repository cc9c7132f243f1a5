"""How kernels are launched: in CUDA graphs, on the current stream and device, from threads."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import monocomp as mc
from monocomp import library
from tests.threads import faults_of

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no interpreter has this"),
]

ATTENTION = library.load("attention")
SECOND_GPU = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


def tensors(length: int = 64, device: str = "cuda") -> list[Tensor]:
    """Queries, keys and values."""
    return [torch.randn(2, 4, length, 64, device=device, dtype=torch.bfloat16) for _ in range(3)]


def renew(inputs: list[Tensor]) -> None:
    """Other elements in the same memory."""
    for t in inputs:
        t.normal_()


def test_a_first_call_in_a_graph(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Measures nothing: the first schedule runs there, and the next call outside measures."""
    monkeypatch.setenv("MONOCOMP_CACHE_DIR", str(tmp_path))
    mc.compile(ATTENTION)(*tensors(96))  # has been compiled
    monkeypatch.setenv("MONOCOMP_TUNE", "")
    monkeypatch.setattr(mc.schedules, "_given", {})
    kernel, inputs = mc.compile(ATTENTION), tensors(96)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="relaxed"):
        result = kernel(*inputs)
    assert not mc.schedules._given
    graph.replay()
    wanted = kernel(*inputs)
    assert mc.schedules._given
    assert torch.allclose(result, wanted, atol=2e-2)


def test_the_current_stream() -> None:
    """A call waits for what its stream does before."""
    kernel, inputs = mc.compile(ATTENTION), tensors()
    wanted = kernel(*(t * 2 for t in inputs))
    kernel(*inputs)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(200_000_000)
        for t in inputs:
            t.mul_(2)
        found = kernel(*inputs)
    torch.cuda.synchronize()
    assert torch.equal(found, wanted)


@SECOND_GPU
def test_the_device_of_the_inputs() -> None:
    """Whichever is the current one, which stays so."""
    kernel, inputs = mc.compile(ATTENTION), tensors()
    wanted = kernel(*inputs)
    for _ in range(3):
        found = kernel(*(t.to("cuda:1") for t in inputs))
        assert found.device == torch.device("cuda:1")
        assert torch.cuda.current_device() == 0
        assert torch.equal(found.to("cuda:0"), wanted)


def test_a_thread_that_has_used_no_gpu() -> None:
    """Tensors are described to the GPU before anything is launched; at d = 128 they are."""
    kernel = mc.compile(ATTENTION)
    inputs = [torch.randn(2, 4, 256, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    wanted = torch.nn.functional.scaled_dot_product_attention(*inputs)
    kernel(*inputs)

    def work(_: int) -> None:
        assert torch.allclose(kernel(*inputs), wanted, atol=2e-2)

    assert not faults_of(work, 1)


def test_threads_on_streams_of_their_own() -> None:
    """Each gets the results of its own inputs."""
    kernel = mc.compile(ATTENTION)

    def work(number: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            inputs = tensors(32 + 8 * (number % 4))
            for _ in range(50):
                renew(inputs)
                wanted = torch.nn.functional.scaled_dot_product_attention(*inputs)
                assert torch.allclose(kernel(*inputs), wanted, atol=2e-2)

    assert not faults_of(work)
