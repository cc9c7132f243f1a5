"""Distributed data parallel: two processes on the CPU, whose gradients are averaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn

import monocomp as mc
from monocomp import library

KERNEL = mc.compile(library.load("causal"), backend="torch", name="causal")


class Attention(nn.Module):
    """A layer whose attention is a kernel."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.of_all = nn.Linear(6, 18)
        self.kernel = KERNEL

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.of_all(x)[:, None].chunk(3, -1)
        found: Tensor = self.kernel(q, k, v)
        return found


def data() -> Tensor:
    return torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(1))


def loss(module: nn.Module, x: Tensor) -> Tensor:
    return (module(x) ** 2).sum() / len(x)


def run(rank: int, folder: str) -> None:
    """One process, with its half of the batch."""
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    module = nn.parallel.DistributedDataParallel(Attention())
    for _ in range(2):
        module.zero_grad()
        loss(module, data().chunk(2)[rank]).backward()
    torch.save([p.grad for p in module.parameters()], f"{folder}/{rank}")
    dist.destroy_process_group()


@pytest.mark.slow
def test_gradients_are_those_of_the_whole_batch(tmp_path: Path) -> None:
    module = Attention()
    loss(module, data()).backward()
    wanted = [p.grad for p in module.parameters()]
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    mp.spawn(run, args=(str(tmp_path),), nprocs=2)  # type: ignore[no-untyped-call]
    for rank in range(2):
        found = torch.load(tmp_path / str(rank))
        for ours, theirs in zip(found, wanted, strict=True):
            torch.testing.assert_close(ours, theirs)
