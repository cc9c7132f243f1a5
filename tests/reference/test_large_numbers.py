"""Numbers that are large beside their spread, in float32, beside eager torch in float32.

Logits of 1e4 lose nothing that eager torch keeps, in values and in gradients, nor do means of 1e6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import monocomp as mc
from tests.backends import interpreted

LABELS = torch.tensor([3, 50, 7])


@dataclass(frozen=True)
class Case:
    """A program of float32 tensors, and the same in eager torch.

    Attributes:
        means: those of the inputs, in their order.
    """

    text: str
    eager: Callable[..., Tensor]
    means: tuple[float, ...]


def _log_softmax(*x: Tensor) -> tuple[Tensor, ...]:
    return tuple(t.log_softmax(-1) for t in x)


def _divergence(a: Tensor, b: Tensor) -> Tensor:
    p, r = _log_softmax(a, b)
    return (p.exp() * (p - r)).sum(-1)


def _divergence_from_mean(a: Tensor, b: Tensor) -> Tensor:
    p, q = a.softmax(-1), b.softmax(-1)
    m = (p + q) / 2
    return ((p * (p / m).log()).sum(-1) + (q * (q / m).log()).sum(-1)) / 2


def _entropy(a: Tensor) -> Tensor:
    (p,) = _log_softmax(a)
    return -(p.exp() * p).sum(-1)


_P = "input A[t,v]\nP[t,v] = log_softmax[v](A[t,v])\n"
_TWO = "input A[t,v], B[t,v]\nP[t,v] = log_softmax[v](A[t,v])\nR[t,v] = log_softmax[v](B[t,v])\n"
LOGITS = {
    "divergence": Case(
        _TWO + "D[t] = sum[v](exp(P[t,v]) * (P[t,v] - R[t,v]))\nreturn D", _divergence, (1.0, 1.0)
    ),
    "divergence of distant logits": Case(
        _TWO + "D[t] = sum[v](exp(P[t,v]) * (P[t,v] - R[t,v]))\nreturn D", _divergence, (1.0, -1.0)
    ),
    "divergence in one line": Case(
        "input A[t,v], B[t,v]\nD[t] = sum[v](softmax[v](A[t,v]) * (A[t,v] - B[t,v]))"
        " - logsumexp[v](A[t,v]) + logsumexp[v](B[t,v])",
        _divergence,
        (1.0, -1.0),
    ),
    "divergence from a mean": Case(
        "input A[t,v], B[t,v]\nP[t,v] = softmax[v](A[t,v])\nQ[t,v] = softmax[v](B[t,v])\n"
        "M[t,v] = (P[t,v] + Q[t,v]) / 2\n"
        "E[t,v] = P[t,v] * log(P[t,v] / M[t,v])\nF[t,v] = Q[t,v] * log(Q[t,v] / M[t,v])\n"
        "D[t] = (sum[v](E[t,v]) + sum[v](F[t,v])) / 2\nreturn D",
        _divergence_from_mean,
        (1.0, -1.0),
    ),
    "divergence from a mean of logarithms": Case(
        _TWO + "M[t,v] = log((exp(P[t,v]) + exp(R[t,v])) / 2)\n"
        "D[t] = sum[v](exp(P[t,v]) * (P[t,v] - M[t,v]) + exp(R[t,v]) * (R[t,v] - M[t,v])) / 2\n"
        "return D",
        _divergence_from_mean,
        (1.0, -1.0),
    ),
    "entropy": Case(_P + "H[t] = -sum[v](exp(P[t,v]) * P[t,v])\nreturn H", _entropy, (1.0,)),
    "cross entropy": Case(
        "input A[t,v], Y[t,v]\nP[t,v] = log_softmax[v](A[t,v])\n"
        "H[t] = -sum[v](Y[t,v] * P[t,v])\nreturn H",
        lambda a, y: -(y * a.log_softmax(-1)).sum(-1),
        (1.0, 0.0),
    ),
    "gate": Case(
        "input A[t,v], B[t,v]\nG[t] = sigmoid(logsumexp[v](A[t,v]) - logsumexp[v](B[t,v]))",
        lambda a, b: (a.logsumexp(-1) - b.logsumexp(-1)).sigmoid(),
        (1.0, 1.0),
    ),
    "mean logarithm": Case(
        _P + "H[t] = -mean[v](P[t,v])\nreturn H", lambda a: -a.log_softmax(-1).mean(-1), (1.0,)
    ),
    "logarithm of a label": Case(
        "input A[t,v], Y[t]: int\nL[t] = logsumexp[v](A[t,v]) - A[t,Y[t]]",
        lambda a: -a.log_softmax(-1)[torch.arange(3), LABELS],
        (1.0,),
    ),
    "mean logarithm of labels": Case(
        "input A[t,v], Y[t]: int\nL = mean[t](logsumexp[v](A[t,v]) - A[t,Y[t]])",
        lambda a: -a.log_softmax(-1)[torch.arange(3), LABELS].mean(),
        (1.0,),
    ),
}


def _with_gradients(f: Callable[..., Tensor], inputs: list[Tensor]) -> list[Tensor]:
    x = [t.detach().clone().requires_grad_() for t in inputs]
    result = f(*x)
    cotangent = torch.cos(torch.arange(result.numel())).reshape(result.shape).to(result.dtype)
    return [result.detach(), *torch.autograd.grad(result, x, cotangent)]


def check(name: str, scale: float, backend: str) -> None:
    """Values and gradients are as near to those in float64 as eager torch's, by the order of sums:
    twice its error, and the rounding of results."""
    case = LOGITS[name]
    generator = torch.Generator().manual_seed(7)
    inputs = [torch.randn(3, 90, generator=generator) + scale * m for m in case.means]
    kernel = mc.compile(case.text, backend=backend)
    labels = [LABELS] if ": int" in case.text else []
    exact = _with_gradients(case.eager, [x.double() for x in inputs])
    eager = _with_gradients(case.eager, inputs)
    found = _with_gradients(lambda *x: kernel(*x, *labels), inputs)
    for n, (f, e, x) in enumerate(zip(found, eager, exact, strict=True)):
        error, usual = (float((t - x).abs().max() / x.abs().max()) for t in (f, e))
        assert error <= 2 * usual + 1e-6, f"result {n}: error {error:.1e}, eager {usual:.1e}"


@pytest.mark.parametrize("scale", [1e4, -1e6])
@pytest.mark.parametrize("name", LOGITS)
def test_logits(name: str, scale: float) -> None:
    check(name, scale, "torch")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", LOGITS)
def test_logits_on_triton(name: str) -> None:
    interpreted.call(check, name, 1e4, "triton")


def _centred(x: Tensor) -> Tensor:
    """The variance of all elements, of distances from their mean less what rounding leaves."""
    distances = x - x.mean()
    return (distances - distances.mean()).square().mean()


MOMENTS = {
    "of a matrix": Case("input A[t,v]\nV = var[t, v](A[t,v])", _centred, (1.0,)),
    "of a sum of two": Case(
        "input A[t,v], B[t,v]\nV = var[t, v, w](A[t,v] + B[t,w])",
        lambda a, b: _centred(a[:, :, None] + b[:, None]),
        (1.0, 1.0),
    ),
    "over a triangle": Case(
        "input A[t,v]\nV = var[t, v if v <= t](A[t,v])",
        lambda a: _centred(a[torch.ones(3, 90).tril().bool()]),
        (1.0,),
    ),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_variances_over_several_indices(name: str) -> None:
    """Beside a mean of 1e6, whose rounding is 0.03."""
    case = MOMENTS[name]
    generator = torch.Generator().manual_seed(7)
    inputs = [torch.randn(3, 90, generator=generator) + 1e6 * m for m in case.means]
    found = float(mc.compile(case.text, backend="torch")(*inputs))
    exact, eager = (float(case.eager(*x)) for x in ([t.double() for t in inputs], inputs))
    assert abs(found - exact) <= 2 * abs(eager - exact) + 1e-6 * exact
