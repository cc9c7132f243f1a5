"""Running sums in exponents: forward and backward weigh by the same numbers."""

from __future__ import annotations

import torch

import monocomp as mc

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
