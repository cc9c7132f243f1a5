"""What is saved of sums of exponentials: one number where logits are rounded as much, or two."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import monocomp as mc

MASKED = (
    "input Q[q,d], K[k,d], V[k,e], M[q,k]\nO[q,e] = softmax[k](Q[q,d] * K[k,d] + M[q,k]) * V[k,e]"
)


def test_a_logarithm_that_is_returned_is_not_all_that_is_read() -> None:
    """What the user calls L is the whole logarithm, of which digits are lost."""
    text = "input X[q,k], V[k]\nL[q] = logsumexp[k](X[q,k])\nO[q] = softmax[k](X[q,k]) * V[k]\n"
    for outputs in ("return O, L", "return O, L: accumulated"):
        found = mc.grad(text + outputs)
        assert set(found.saved) == {"O", "m", "L_2"} and found.frames == {"L_2": "m"}
    assert set(mc.grad(text + "return O", save=["O", "L"]).saved) == {"O", "m", "L_2"}


@pytest.mark.parametrize("kind", ["", ": accumulated"])
def test_a_pair_that_is_returned_has_gradients(kind: str) -> None:
    """Only what a gradient saved itself is any number."""
    text = f"""input X[q,k]
m[q] = max[k](X[q,k])
L[q] = logsumexp[k](X[q,k]) - m[q]
P[q,k] = softmax[k](X[q,k])
return m{kind}, L{kind}, P"""
    kernel = mc.compile(text, backend="torch")
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda x: kernel(X=x), x)
    assert gradgradcheck(lambda x: kernel(X=x), x)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # of torch itself
def test_second_derivatives() -> None:
    """And forward mode, as the maximum is any number."""
    kernel = mc.compile(MASKED, backend="torch")
    mask = torch.tensor([[0.0, -1e4, 0.0], [-1e4, -1e4, -1e4]], dtype=torch.float64)
    x = [torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in ((2, 2), (3, 2), (3, 2))]

    def f(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return kernel(Q=q, K=k, V=v, M=mask)

    assert gradcheck(f, x, check_forward_ad=True, fast_mode=True)
    assert gradgradcheck(f, x, fast_mode=True)


def test_slopes_of_moments_of_many_elements() -> None:
    """Distances from a mean are no larger than elements: times their number, they overflow."""
    text = "O = mean[k]((Y[k] - mean[k](Y[k])) ** 4) / mean[k]((Y[k] - mean[k](Y[k])) ** 2) ** 2"
    kernel = mc.compile(text, backend="torch")

    def kurtosis(Y: Tensor) -> Tensor:
        distances = Y - Y.mean()
        return distances.pow(4).mean() / distances.pow(2).mean() ** 2

    def slopes(f: Callable[..., Tensor], y: Tensor) -> Tensor:
        y = y.clone().requires_grad_()
        (found,) = torch.autograd.grad(f(Y=y), y)
        return found.double()

    y = torch.randn(40_000, generator=torch.Generator().manual_seed(0))
    exact = slopes(kurtosis, y.double())
    error, usual = ((slopes(f, y) - exact).abs().max() for f in (kernel, kurtosis))
    assert error <= 2 * usual
