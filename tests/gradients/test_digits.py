"""Digits of gradients: what is saved of sums of exponentials, one number or two; running sums in
exponents; and rows of adjoints that sum to 0."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import monocomp as mc
from monocomp import library
from tests.agreement import check_slopes


def test_a_logarithm_that_is_returned_is_not_all_that_is_read() -> None:
    """What the user calls L is the whole logarithm, of which digits are lost."""
    text = "input X[q,k], V[k]\nL[q] = logsumexp[k](X[q,k])\nO[q] = softmax[k](X[q,k]) * V[k]\n"
    for outputs in ("return O, L", "return O, L: accumulated"):
        found = mc.grad(text + outputs)
        assert set(found.saved) == {"O", "m", "L_2"} and found.frames == {"L_2": "m"}
    assert set(mc.grad(text + "return O", save=["O", "L"]).saved) == {"O", "m", "L_2"}


@pytest.mark.parametrize("bound", ["0", "Y[0]", "where(k > 0, Y[k - 1], 0)"])
def test_a_maximum_that_does_not_cancel_has_gradients(bound: str) -> None:
    """One that is guarded, as its condition reads at a computed position, leaves no logarithm."""
    weight = f"W[j] + where(Y[k] < {bound}, 0, -inf)"
    text = f"O[k] = sum[j](exp({weight} - max[j]({weight})) * C[k])"
    kernel = mc.compile(f"input Y[k], W[j], C[k]\n{text}", backend="torch")
    y, w, c = (torch.randn(n, dtype=torch.float64) for n in (5, 3, 5))
    for x in (w, c):
        x.requires_grad_()
    assert gradcheck(lambda w, c: kernel(Y=y, W=w, C=c), (w, c))
    assert gradgradcheck(lambda w, c: kernel(Y=y, W=w, C=c), (w, c))


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


# --- running sums in exponents -----------------------------------------------------------


SSD = """
input C[b,t,n], B[b,s,n], X[b,s,h,p], dt[b,s,h], A[h]
L[b,s,h] = sum[..s](dt[b,s,h] * A[h])
Y[b,t,h,p] = sum[s if s <= t](C[b,t,n] * B[b,s,n] * exp(L[b,t,h] - L[b,s,h])
    * dt[b,s,h] * X[b,s,h,p])
"""


def eager(C, B, X, dt, A):  # type: ignore[no-untyped-def]
    running, length = (dt * A).cumsum(1), C.shape[1]
    mask = torch.ones(length, length, dtype=torch.bool).tril()[None, :, :, None]
    decay = torch.where(mask, running[:, :, None] - running[:, None], -torch.inf).exp()
    return torch.einsum("btn,bsn,btsh,bsh,bshp->bthp", C, B, decay, dt, X)


def test_gradients_of_strong_decays_keep_their_digits() -> None:
    torch.manual_seed(0)
    inputs = {
        "C": torch.randn(1, 97, 4),
        "B": torch.randn(1, 97, 4),
        "X": torch.randn(1, 97, 2, 8),
        "dt": torch.rand(1, 97, 2),
        "A": -20 * torch.rand(2),
    }
    cotangent = torch.randn(1, 97, 2, 8)

    def gradients(f, dtype):  # type: ignore[no-untyped-def]
        x = {n: v.to(dtype).requires_grad_() for n, v in inputs.items()}
        return torch.autograd.grad(f(**x), list(x.values()), cotangent.to(dtype))

    exact = gradients(eager, torch.float64)
    allowed = gradients(eager, torch.float32)
    found = gradients(mc.compile(SSD, backend="torch"), torch.float32)
    for w, a, f in zip(exact, allowed, found, strict=True):
        assert (f - w).abs().max() <= 10 * (a - w).abs().max()


def test_no_large_prefix_is_saved() -> None:
    text = "C[q,k] = sum[..k](softplus(S[q,k]))\nO[q,e] = sum[k](exp(S[q,k] - C[q,k]) * V[k,e])"
    assert "C" not in mc.grad(text).saved


# --- sums of adjoints whose rows sum to 0 ------------------------------------------------


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
            "sum[k](K[h,k,d] * dT[h,q,k] / sqrt(|d|))",
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


def test_what_is_compared_with_0_is_not_rounded_to_it() -> None:
    """A share is no 0 where the sum that it is of is one to a float."""
    text = "O[q] = log(sum[k](softmax[k](S[q,k]) * sigmoid(V[k])))"
    given = {
        "S": torch.tensor([[-1e3, -999.0], [0.5, 1.0]], dtype=torch.float64, requires_grad=True),
        "V": torch.tensor([-1.0, 0.5], dtype=torch.float64, requires_grad=True),
    }
    eager = (given["S"].softmax(-1) * given["V"].sigmoid()).sum(-1).log()
    result = mc.compile(text, backend="torch")(**given)
    assert isinstance(result, torch.Tensor)
    pairs = zip(
        torch.autograd.grad(result.sum(), [*given.values()]),
        torch.autograd.grad(eager.sum(), [*given.values()]),
        strict=True,
    )
    for computed, wanted in pairs:
        torch.testing.assert_close(computed, wanted, rtol=1e-10, atol=1e-12)


def test_a_bias_of_logits_that_are_exponentials_keeps_its_digits() -> None:
    """Its sum over rows is of distances from their logarithms, as each element's is."""
    text = "O[q] = sum[k](softmax[k](exp(S[q,k] + M[k])) * log_softmax[k](exp(S[q,k] + M[k])))"
    generator = torch.Generator().manual_seed(0)
    s, m = (torch.randn(*n, generator=generator, dtype=torch.float64) for n in ((9, 20), (20,)))

    def gradient(f: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        x, y = (3 * s).requires_grad_(), m.clone().requires_grad_()
        return torch.autograd.grad(f(x, y).sum(), y)[0]

    def eager(s: Tensor, m: Tensor) -> Tensor:
        u = (s + m).exp()
        return (u.softmax(-1) * u.log_softmax(-1)).sum(-1)

    kernel, exact = mc.compile(text, backend="torch"), gradient(eager)
    error = (gradient(lambda s, m: kernel(S=s, M=m)) - exact).abs().max()
    assert error < 1e-11 * exact.abs().max()


def test_factors_are_found_once() -> None:
    """Each of two weights that are equal in the reals is no larger than the other."""
    text = "input Y[k], W[j], C\nD = exp(-(C - C))\n"
    text += "O = maximum(logsumexp[k](Y[k] + C) + max[k](Y[k] + C), logsumexp[j](W[j] - D))"
    y, w, c = (torch.randn(n, requires_grad=True, dtype=torch.float64) for n in ([3], [4], []))
    found = torch.autograd.grad(mc.compile(text, backend="torch")(y, w, c), [y, w, c])
    either = (y + c).logsumexp(0) + (y + c).max(), (w - (c - c).exp()).logsumexp(0)
    whole = torch.maximum(*either)
    for a, b in zip(found, torch.autograd.grad(whole, [y, w, c]), strict=True):
        torch.testing.assert_close(a, b)
