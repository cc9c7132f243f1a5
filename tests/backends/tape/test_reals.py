"""Guards against -inf and empty rows are left out where numbers are known to be real."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.backends.tape.test_products import made_of

A, B, R = torch.randn(7, 5), torch.randn(9, 5), torch.randn(7, 9)
S = R.clone()
S[2], S[3, 4:] = -torch.inf, -torch.inf
MASKED = (A @ B.T).masked_fill(torch.ones(7, 9).tril(-1) == 0, -torch.inf)


@pytest.mark.parametrize(
    ("text", "wanted", "is_guarded"),
    [
        ("O[i] = logsumexp[j](A[i,d] * B[j,d])", (A @ B.T).logsumexp(1), False),
        ("O[i,j] = softmax[j](2 * (A[i,d] * B[j,d]) - 1)", (2 * A @ B.T - 1).softmax(1), False),
        ("O[i] = logsumexp[j if j < i](A[i,d] * B[j,d])", MASKED.logsumexp(1), True),
        ("O[i] = logsumexp[j](S[i,j])", S.logsumexp(1), True),
        (
            "O[i,k] = softmax[k](R[i,j] * maximum(sum[d](B[j,d] * A[k,d]), 0))",
            (R @ (B @ A.T).relu()).softmax(1),
            True,
        ),
        ("O[i,d] = softmax[d](R[i,j] * exp(B[j,d]))", (R @ B.exp()).softmax(1), True),
    ],
)
def test_real_numbers_need_no_guard(text: str, wanted: Tensor, is_guarded: bool) -> None:
    """Products of inputs are real; inputs, masked numbers and positive multiples may be -inf."""
    every = {"A": A, "B": B, "R": R, "S": S}
    (result,), runs = made_of(text, **{n: x for n, x in every.items() if f"{n}[" in text})
    assert ("nan_to_num" in runs) == is_guarded
    torch.testing.assert_close(result, wanted)
