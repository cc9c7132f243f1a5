"""Shapes of attention: head sizes, decoding, and more than 2**31 elements."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from tests.backends import eager
from tests.backends.library_cases import CASES
from tests.backends.running import make_inputs
from tests.gpu.comparing import (
    BITS16,
    DEVICE,
    ON_GPU,
    REPEATS,
    Inputs,
    all_in_nan,
    both,
    check,
    in_precision,
    run,
)

pytestmark = pytest.mark.gpu

NAN = float("nan")


# --- head sizes -----------------------------------------------------------------------------

HEAD_SIZES = (1, 3, 16, 40, 64, 72, 96, 100, 128, 192, 256, 320, 512)
# (d, dv): each size for both in bfloat16, for one of them in float16; some in float32.
HEADS = [
    *((d, d, BITS16) for d in HEAD_SIZES),
    *((d, e, torch.float16) for d, e in zip(HEAD_SIZES, (*HEAD_SIZES[1:], 1), strict=True)),
    *((d, d, torch.float32) for d in (1, 72, 128, 192, 256, 512)),
]


@pytest.mark.parametrize(("d", "e", "dtype"), HEADS, ids=lambda x: str(x).removeprefix("torch."))
def test_head_sizes(d: int, e: int, dtype: torch.dtype) -> None:
    """Held entirely, in one tile or in two."""
    case = CASES["causal"]
    made = case.inputs(case.sizes(129, 255, d, e, 2), shift=-20.0)
    inputs = in_precision(made, dtype)
    exact, usual = both(eager.causal, inputs, dtype)
    found = run(case.text, "causal", all_in_nan(inputs))
    check(found, exact, usual)


@pytest.mark.parametrize("d", [1, 33, 40, 88, 99, 100, 120, 130, 257])
@pytest.mark.parametrize("name", ["causal", "sliding_window"])
def test_odd_rows(name: str, d: int) -> None:
    """So many blocks of rows that keys and values are copied where they lie awkwardly."""
    case = CASES[name]
    made = case.inputs(case.sizes(1100, 1100, d, d + 3, 2), shift=20.0)
    inputs = in_precision(made, BITS16)
    formula = {"causal": eager.causal, "sliding_window": eager.sliding_window}[name]
    exact, usual = both(formula, inputs, BITS16)
    padded = all_in_nan(inputs)
    found = run(case.text, name, padded)
    check(found, exact, usual)
    for _ in range(3):
        assert all(map(torch.equal, run(case.text, name, padded), found))


# --- decoding -------------------------------------------------------------------------------

DECODE = """
    input Q[b,h,q,d], K[b,g,k,d], V[b,g,k,e], length[b]: int
    G[h] = h // (|h| // |g|)
    S[b,h,q,k] = Q[b,h,q,d] * K[b,G[h],k,d] / sqrt(|d|)
    O[b,h,q,e] = softmax[k if k < length[b]](S[b,h,q,k]) * V[b,G[h],k,e]
    L[b,h,q]   = logsumexp[k if k < length[b]](S[b,h,q,k])
    return O, L
    """
LATENT = """
    input QC[b,h,q,c], QR[b,h,q,r], C[b,k,c], R[b,k,r], length[b]: int
    S[b,h,q,k] = (QC[b,h,q,c] * C[b,k,c] + QR[b,h,q,r] * R[b,k,r]) / sqrt(192)
    O[b,h,q,c] = softmax[k if k < length[b]](S[b,h,q,k]) * C[b,k,c]
    L[b,h,q]   = logsumexp[k if k < length[b]](S[b,h,q,k])
    return O, L
    """
DECODERS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "mha": (DECODE, {"h": 8, "g": 8, "d": 128, "e": 128}),
    "gqa": (DECODE, {"h": 8, "g": 2, "d": 128, "e": 128}),
    "mqa": (DECODE, {"h": 8, "g": 1, "d": 64, "e": 64}),
    "mla": (LATENT, {"h": 16, "c": 512, "r": 64}),
}


def decode_in_torch(length: Tensor, **inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Both programs in eager torch."""
    if "QC" in inputs:
        Q = torch.cat([inputs["QC"], inputs["QR"]], -1)
        K = torch.cat([inputs["C"], inputs["R"]], -1)[:, None]
        V = inputs["C"][:, None]
        S = Q @ K.mT / 192**0.5
    else:
        Q, K, V = (inputs[n] for n in "QKV")
        K, V = (x.repeat_interleave(Q.shape[1] // x.shape[1], 1) for x in (K, V))
        S = eager.logits(Q, K)
    kept = torch.arange(S.shape[-1], device=S.device) < length[:, None, None, None]
    return eager.attend(S, V, kept), S.masked_fill(~kept, -torch.inf).logsumexp(-1)


@pytest.mark.parametrize("k", [1, 255, 1000, 8192])
@pytest.mark.parametrize("name", DECODERS)
def test_decoding(name: str, k: int) -> None:
    """One query a request, of lengths from 0 on, with NaN in what lies beyond them."""
    text, sizes = DECODERS[name]
    made = make_inputs(text, {"b": 4, "q": 1, "k": k, **sizes})
    made["length"] = torch.tensor([0, 1, k // 2, k])
    inputs = in_precision(made, BITS16)
    exact, usual = both(decode_in_torch, inputs, BITS16)
    for n in {"K", "V", "C", "R"} & inputs.keys():
        for tensor, length in zip(inputs[n], made["length"].tolist(), strict=True):
            tensor[..., length:, :] = NAN
    padded = all_in_nan(inputs)
    found = run(text, name, padded)
    check(found, exact, usual)
    assert (found[0][0] == 0).all() and (found[1][0] == -torch.inf).all()
    for _ in range(REPEATS):
        assert all(map(torch.equal, run(text, name, padded), found))


# --- more than 2**31 elements ---------------------------------------------------------------

BEYOND = 2**31 if ON_GPU else 2**16


def test_a_matrix_of_more_than_2_to_31_elements() -> None:
    """Read and written, at both ends."""
    rows = BEYOND // 32768 + 3
    X = torch.randn(rows, 32768, device=DEVICE, dtype=BITS16)
    (found,) = run(CASES["softmax"].text, "softmax", {"X": X})
    for part in (slice(0, 2), slice(-3, None)):
        exact, usual = X[part].double().softmax(-1), X[part].softmax(-1)
        check((found[part],), (exact,), (usual,))


@pytest.mark.parametrize("q", [16, 1])
def test_keys_of_more_than_2_to_31_elements(q: int) -> None:
    """The last keys outweigh all others, which are 0."""
    k = BEYOND // 64 + 101
    torch.manual_seed(0)
    Q = torch.randn(1, 1, q, 64, device=DEVICE).div(4).add(1).bfloat16()
    K = torch.zeros(1, 1, k, 64, device=DEVICE, dtype=BITS16)
    K[..., -5:, :] = 8 + torch.randn(5, 64, device=DEVICE)
    last: Inputs = {"Q": Q, "K": K[..., -5:, :], "V": K[..., -5:, :]}
    exact, usual = both(eager.attention, last, BITS16)
    found = run(CASES["attention"].text, "attention", {"Q": Q, "K": K, "V": K.clone()})
    check(found, exact, usual)
