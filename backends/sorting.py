"""Sorting, for sums over segments: the torch backend runs it, and emitted files hold its text."""

from __future__ import annotations

import torch


def sort_positions(
    tensor: torch.Tensor,
    order: torch.Tensor,
    first: torch.Tensor,
    last: torch.Tensor,
    kept: tuple[int, ...],
) -> None:
    """Write the positions of a tensor's elements in the order of these, and where in that list
    each number begins and ends. Each element of the kept dimensions has a list of its own."""
    others = [n for n in range(tensor.dim()) if n not in kept]
    rows = tensor.permute(*kept, *others).flatten(len(kept)).to(torch.int64).contiguous()
    rows, positions = rows.sort(stable=True)
    order.copy_(positions)
    numbers = torch.arange(first.shape[-1], device=first.device).expand(first.shape)
    first.copy_(torch.searchsorted(rows, numbers.contiguous()))
    last.copy_(torch.searchsorted(rows, numbers.contiguous(), right=True))
