"""Sums of adjoints whose rows sum to 0: what multiplies them is taken about its mean."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor

import monocomp as mc
from monocomp import library
from tests.agreement import check_slopes

SLOPES = """input Q[h,q,d], K[h,k,d], V[h,k,e], A[h]
S[h,q,k] = Q[h,q,d] * K[h,k,d] / sqrt(|d|)
O[h,q,e] = softmax[{k}](S[h,q,k] + A[h] * (k - q)) * V[h,k,e]
return O"""
TEMPERATURE = """input Q[q,d], K[k,d], V[k,e], T
O[q,e] = softmax[k if k <= q](T * Q[q,d] * K[k,d]) * V[k,e]"""


ALIBI = library.load("alibi")
SINK = """input S[q,k], V[k,e], A, B
Z[q] = exp(B) + sum[k](exp(S[q,k] + A * k))
O[q,e] = exp(S[q,k] + A * k) * V[k,e] / Z[q]
return O"""


def equation(text: str, name: str) -> str:
    """The right-hand side of an equation of a gradient."""
    (found,) = re.findall(rf"^{re.escape(name)} = (.*)$", str(mc.grad(text)), re.M)
    return str(found)


@pytest.mark.parametrize(
    ("text", "name", "wanted"),
    [
        (SLOPES.format(k="k"), "dA[h]", "sum[q](D[h,q])"),
        (SLOPES.format(k="k if k <= q"), "dA[h]", "sum[q](D[h,q])"),
        (ALIBI, "dslope[h]", "sum[b, q](D[b,h,q])"),
        (
            SLOPES.format(k="k"),
            "dQ[h,q,d]",
            "sum[k](G[h,q,k] * K[h,k,d] / sqrt(|d|))",
        ),  # of matrices
    ],
)
def test_sums_of_rows(text: str, name: str, wanted: str) -> None:
    assert equation(text, name) == wanted
    check_slopes(text, elementwise=False)


@pytest.mark.parametrize("text", [SINK, TEMPERATURE])
def test_others_stay(text: str) -> None:
    """Rows of a softmax with a sink sum to something, and logits are no distances."""
    assert "D[" not in str(mc.grad(text))


def with_slopes(q: Tensor, k: Tensor, v: Tensor, a: Tensor) -> Tensor:
    i = torch.arange(k.shape[-2])
    logits = q @ k.mT * q.shape[-1] ** -0.5 + a[:, None, None] * (i[None] - i[:, None])
    return logits.softmax(-1) @ v


def test_slopes_in_float16() -> None:
    """What rounding the result takes from the rows is not multiplied by distances."""
    generator = torch.Generator().manual_seed(3)
    x = [torch.randn(2, 90, 8, generator=generator).half() for _ in "QKV"]
    x.append(torch.randn(2, generator=generator).half())
    kernel = mc.compile(SLOPES.format(k="k"), backend="torch")

    def gradient(f: object, inputs: list[Tensor]) -> Tensor:
        assert callable(f)
        inputs = [t.clone().requires_grad_() for t in inputs]
        result = f(*inputs)
        cotangent = torch.cos(torch.arange(result.numel())).reshape(result.shape)
        found: Tensor = torch.autograd.grad(result, inputs[3], cotangent.to(result.dtype))[0]
        return found.double()

    exact = gradient(with_slopes, [t.double() for t in x])
    usual = (gradient(with_slopes, x) - exact).norm()
    error = (gradient(kernel, x) - exact).norm()
    assert error < usual / 2 + 2**-11 * exact.norm()
