"""Numbers that are large beside their spread, in float32, beside eager torch in float32.

Logits of 1e4 lose nothing that eager torch keeps, in values and in gradients, nor do means of 1e6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import pytest
import torch
from torch import Tensor

import monocomp as mc
from tests.backends import interpreted
from tests.large_masks import CASES, CONSTANTS, Case, check, check_masks, inputs
from tests.marks import slow_unless

Logits: TypeAlias = tuple[Case, tuple[float, ...]]
LABELS = torch.tensor([3, 50, 7])


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


def _case(text: str, eager: Callable[..., Tensor], means: tuple[float, ...]) -> Logits:
    """A program of tensors, the same in eager torch, and the means of these tensors."""
    return Case(text, lambda x: eager(*(t for n, t in x.items() if n != "N"))), means


LOGITS: dict[str, Logits] = {
    "divergence of distant logits": _case(
        _TWO + "D[t] = sum[v](exp(P[t,v]) * (P[t,v] - R[t,v]))\nreturn D", _divergence, (1.0, -1.0)
    ),
    "divergence from a mean": _case(
        "input A[t,v], B[t,v]\nP[t,v] = softmax[v](A[t,v])\nQ[t,v] = softmax[v](B[t,v])\n"
        "M[t,v] = (P[t,v] + Q[t,v]) / 2\n"
        "E[t,v] = P[t,v] * log(P[t,v] / M[t,v])\nF[t,v] = Q[t,v] * log(Q[t,v] / M[t,v])\n"
        "D[t] = (sum[v](E[t,v]) + sum[v](F[t,v])) / 2\nreturn D",
        _divergence_from_mean,
        (1.0, -1.0),
    ),
    "divergence from a mean of logarithms": _case(
        _TWO + "M[t,v] = log((exp(P[t,v]) + exp(R[t,v])) / 2)\n"
        "D[t] = sum[v](exp(P[t,v]) * (P[t,v] - M[t,v]) + exp(R[t,v]) * (R[t,v] - M[t,v])) / 2\n"
        "return D",
        _divergence_from_mean,
        (1.0, -1.0),
    ),
    "entropy": _case(_P + "H[t] = -sum[v](exp(P[t,v]) * P[t,v])\nreturn H", _entropy, (1.0,)),
    "cross entropy": _case(
        "input A[t,v], Y[t,v]\nP[t,v] = log_softmax[v](A[t,v])\n"
        "H[t] = -sum[v](Y[t,v] * P[t,v])\nreturn H",
        lambda a, y: -(y * a.log_softmax(-1)).sum(-1),
        (1.0, 0.0),
    ),
    "gate": _case(
        "input A[t,v], B[t,v]\nG[t] = sigmoid(logsumexp[v](A[t,v]) - logsumexp[v](B[t,v]))",
        lambda a, b: (a.logsumexp(-1) - b.logsumexp(-1)).sigmoid(),
        (1.0, 1.0),
    ),
    "small gates": _case(
        "input A[t,v], B[t,v]\nL[t] = log(sum[v](softmax[v](A[t,v]) * sigmoid(B[t,v])))",
        lambda a, b: (a.log_softmax(-1) + torch.nn.functional.logsigmoid(b)).logsumexp(-1),
        (1.0, -0.1),
    ),
    "mean logarithm of labels": _case(
        "input A[t,v], N[t]: int\nL = mean[t](logsumexp[v](A[t,v]) - A[t,N[t]])",
        lambda a: -a.log_softmax(-1)[torch.arange(3), LABELS].mean(),
        (1.0,),
    ),
}


SCALE = 1e5  # of logits that are exponentials
_U = f"U[t,v] = {SCALE} * exp(A[t,v])\nP[t,v] = log_softmax[v](U[t,v])\n"
# Logits that are exponentials, of which weighted sums are taken: weights stay apart from values.
EXPONENTIALS: dict[str, tuple[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "entropy": ("H[t] = -sum[v](exp(P[t,v]) * P[t,v])", lambda u, b: _entropy(u)),
    "mean": ("M[t] = sum[v](exp(P[t,v]) * U[t,v])", lambda u, b: (u.softmax(-1) * u).sum(-1)),
    "mean square": (
        "M[t] = sum[v](exp(P[t,v]) * exp(2 * A[t,v]))",
        lambda u, b: (u.softmax(-1) * (u / SCALE) ** 2).sum(-1),
    ),
    "divergence": (
        "R[t,v] = log_softmax[v](B[t,v])\nD[t] = sum[v](exp(P[t,v]) * (P[t,v] - R[t,v]))",
        _divergence,
    ),
    "entropy under a filter": (
        "H[t] = -sum[v](softmax[v if v < 60](U[t,v]) * log_softmax[v if v < 60](U[t,v]))",
        lambda u, b: _entropy(u[:, :60]),
    ),
    "gated values": (
        "O[t] = sum[v](softmax[v](U[t,v]) * sigmoid(B[t,v]))",
        lambda u, b: (u.softmax(-1) * b.sigmoid()).sum(-1),
    ),
    "logarithm of gated values": (
        "O[t] = log(sum[v](softmax[v](U[t,v]) * sigmoid(B[t,v])))",
        lambda u, b: (u.softmax(-1) * b.sigmoid()).sum(-1).log(),
    ),
    "values that are exponentials": (
        "O[t] = sum[v](softmax[v](U[t,v]) * exp(B[t,v]))",
        lambda u, b: (u.softmax(-1) * b.exp()).sum(-1),
    ),
}


def check_exponentials(name: str, backend: str) -> None:
    """Values and gradients have errors such as eager torch's, whose exponentials are more exact."""
    text, eager = EXPONENTIALS[name]
    kernel = mc.compile(f"{_U}{text}\nreturn {text.splitlines()[-1][0]}", backend=backend)
    generator = torch.Generator().manual_seed(7)
    drawn = {n: torch.randn(3, 90, generator=generator) for n in "AB"}
    drawn = {n: x / SCALE if n == "A" else x for n, x in drawn.items()}

    def outcomes(f: Callable[[Tensor, Tensor], Tensor], dtype: torch.dtype) -> list[Tensor]:
        given = [x.to(dtype).requires_grad_() for x in drawn.values()]
        result = f(*given)
        gradients = torch.autograd.grad(result.sum(), given, allow_unused=True)
        return [result, *(g for g in gradients if g is not None)]

    def ours(a: Tensor, b: Tensor) -> Tensor:
        result = kernel(**{n: x for n, x in {"A": a, "B": b}.items() if f"{n}[" in text + _U})
        assert isinstance(result, Tensor)
        return result

    def theirs(a: Tensor, b: Tensor) -> Tensor:
        return eager(SCALE * a.exp(), b)

    exact = outcomes(theirs, torch.float64)
    every = zip(exact, outcomes(ours, torch.float32), outcomes(theirs, torch.float32), strict=True)
    for x, found, usual in every:
        errors = [float(((y - x).abs().max() / x.abs().max()).detach()) for y in (found, usual)]
        assert errors[0] <= 5 * errors[1] + 1e-6, errors


def check_logits(name: str, scale: float, backend: str) -> None:
    """Values and gradients are as near to those in float64 as eager torch's."""
    case, means = LOGITS[name]

    def draw(number: int) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(7 + number)
        drawn = {
            n: torch.randn(3, 90, generator=generator) + scale * m
            for n, m in zip(case.wrt, means, strict=True)
        }
        return drawn | {"N": LABELS}

    check(case, case.kernel(backend), draw, torch.float32)


@pytest.mark.parametrize("scale", [1e4, -1e6])
@pytest.mark.parametrize("name", LOGITS)
def test_logits(name: str, scale: float) -> None:
    check_logits(name, scale, "torch")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", LOGITS)
def test_logits_on_triton(name: str) -> None:
    interpreted.call(check_logits, name, 1e4, "triton")


@pytest.mark.parametrize("name", EXPONENTIALS)
def test_exponentials(name: str) -> None:
    check_exponentials(name, "torch")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", EXPONENTIALS)
def test_exponentials_on_triton(name: str) -> None:
    interpreted.call(check_exponentials, name, "triton")


# --- masks of large finite numbers -----------------------------------------

INTERPRETED = ("causal", "grouped heads", "learned sinks")
ALWAYS = ("grouped heads", "saved logits", "saved softcap", "weights of keys", "gates of logits")


@pytest.mark.parametrize("name", slow_unless(ALWAYS.__contains__, CASES))
def test_torch(name: str) -> None:
    case = CASES[name]
    kernel = case.kernel("torch")
    check_masks(case, kernel, 13, 8, (torch.float32,), values=("1e4", "1e9", "float32"))
    check_masks(case, kernel, 13, 8, (torch.bfloat16,), values=("1e9",))
    check_masks(case, kernel, 13, 8, (torch.float16,), values=("float16",))


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants(name: str) -> None:
    case = CONSTANTS[name]
    draw = partial(inputs, case, 13, 8, torch.float32, "cpu")
    check(case, case.kernel("torch"), draw, torch.float32)


@pytest.mark.parametrize("name", slow_unless(lambda name: name != "learned sinks", INTERPRETED))
def test_triton(name: str) -> None:
    interpreted.call(check_triton, name, (torch.float16,), ("1e9", "float16"))


def check_triton(name: str, dtypes: Sequence[torch.dtype], values: Sequence[str]) -> None:
    """Check a case in the process that interprets."""
    case = CASES[name]
    check_masks(case, case.kernel("triton"), 13, 8, dtypes, values=values)
