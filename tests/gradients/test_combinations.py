"""Gradients of programs that combine windows, tables and biases, beside autograd."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import monocomp as mc


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def check_gradients(
    kernel: Callable[..., Tensor], given: dict[str, Tensor], wanted: Tensor
) -> None:
    result = kernel(**given)
    torch.testing.assert_close(result, wanted)
    inputs = [t for t in given.values() if t.requires_grad]
    ours, theirs = (torch.autograd.grad(r.sin().sum(), inputs) for r in (result, wanted))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("width", [1, 6])
def test_a_relative_table_in_a_window_of_a_parameter(width: int) -> None:
    """The table's gradient is summed along diagonals, in blocks whose number the width decides."""
    kernel = mc.compile(
        "param w: int = 6\n"
        "O[q,e] = softmax[k if abs(q - k) < w](S[q,k] + R[q - k + w - 1]) * V[k,e]",
        backend="torch",
    )
    n = 33
    s, r, v = normal(n, n), normal(2 * width - 1), normal(n, 4)
    i = torch.arange(n)
    distance = i[:, None] - i
    logits = s + r[(distance + width - 1).clamp(0, 2 * width - 2)]
    weights = logits.masked_fill(distance.abs() >= width, -torch.inf).softmax(1)
    check_gradients(lambda **t: kernel(**t, w=width), {"S": s, "R": r, "V": v}, weights @ v)


def test_a_head_of_size_0() -> None:
    """All admitted keys weigh the same, and the logarithms lack the axis of the values."""
    kernel = mc.compile("O[q,e] = softmax[k if k <= q](Q[q,d] * K[k,d]) * V[k,e]", backend="torch")
    q, k, v = normal(5, 0), normal(5, 0), normal(5, 3)
    weights = torch.ones(5, 5, dtype=torch.float64).tril()
    wanted = weights / weights.sum(1, keepdim=True) @ v + 0 * q.sum() + 0 * k.sum()
    check_gradients(kernel, {"Q": q, "K": k, "V": v}, wanted)


def test_weights_that_are_visibly_positive() -> None:
    """What a gradient gives a name stays a weight of at least 0."""
    kernel = mc.compile("O[b] = Welford[k](sigmoid(X[b]), A[b,k], 0).m2", backend="torch")
    x, a = normal(2), normal(2, 4)
    check_gradients(kernel, {"X": x, "A": a}, x.sigmoid() * 4 * a.var(1, correction=0))
