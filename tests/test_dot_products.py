"""`mc.sdpa` gives what torch's function of the same arguments gives, and the same gradients."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import monocomp as mc
from monocomp.errors import UsageError


def inputs(heads: int = 4, groups: int = 4, *batch: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((heads, 9, 8), (groups, 11, 8), (groups, 11, 5))
    return [
        torch.randn((*batch, *s), generator=generator, dtype=torch.float64).requires_grad_()
        for s in shapes
    ]


MASK = torch.arange(9)[:, None] * 2 + 1 >= torch.arange(11)
FLOATS = torch.linspace(-1, 1, 9 * 11, dtype=torch.float64).view(9, 11)
CASES: dict[str, tuple[list[Tensor], dict[str, Any]]] = {
    "plain": (inputs(4, 4, 2), {}),
    "causal": (inputs(4, 4, 2), {"is_causal": True}),
    "scaled": (inputs(4, 4, 2), {"scale": 0.7}),
    "a mask of truth values": (inputs(4, 4, 2), {"attn_mask": MASK}),
    "a mask of floats": (inputs(4, 4, 2), {"attn_mask": FLOATS}),
    "a mask for each batch": (inputs(4, 4, 2), {"attn_mask": MASK.expand(2, 1, 9, 11)}),
    "shared heads": (inputs(4, 2, 2), {"enable_gqa": True}),
    "shared heads, causal": (inputs(4, 2, 2), {"enable_gqa": True, "is_causal": True}),
    "no batch": (inputs(4, 4), {}),
    "two batches": (inputs(4, 4, 2, 3), {"attn_mask": MASK}),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", CASES)
def test_as_torch(name: str) -> None:
    tensors, options = CASES[name]
    found, expected = (
        mc.sdpa(*tensors, **options),
        F.scaled_dot_product_attention(*tensors, **options),
    )
    torch.testing.assert_close(found, expected)
    cotangent = torch.randn_like(found)
    torch.testing.assert_close(
        torch.autograd.grad(found, tensors, cotangent),
        torch.autograd.grad(expected, tensors, cotangent),
    )


def test_the_arguments_are_those_of_torch() -> None:
    assert list(inspect.signature(mc.sdpa).parameters) == [
        *("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
    ]


def test_a_learned_bias_has_a_gradient() -> None:
    query, key, value = inputs(4, 4, 2)
    bias = torch.randn(1, 4, 9, 11, dtype=torch.float64, requires_grad=True)
    found = torch.autograd.grad(mc.sdpa(query, key, value, bias).sum(), bias)
    expected = F.scaled_dot_product_attention(query, key, value, bias).sum()
    torch.testing.assert_close(found, torch.autograd.grad(expected, bias))


def test_dropout() -> None:
    """Weights are dropped by chance, the mean stays, and the generator decides."""
    query, key = torch.zeros(2, 1, 1, 64, 8)
    value = torch.eye(64)[None, None]
    torch.manual_seed(0)
    found = mc.sdpa(query, key, value, dropout_p=0.25)
    assert abs((found == 0).float().mean() - 0.25) < 0.05
    assert found.unique().tolist() == pytest.approx([0.0, 1 / 64 / 0.75])
    torch.manual_seed(0)
    assert torch.equal(found, mc.sdpa(query, key, value, dropout_p=0.25))
    assert not torch.equal(found, mc.sdpa(query, key, value, dropout_p=0.25))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"attn_mask": MASK, "is_causal": True}, "make one mask of them"),
        ({"dropout_p": 1.0}, "give a share from 0 to below 1"),
    ],
)
def test_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        mc.sdpa(*inputs(4, 4, 2), **options)
    with pytest.raises(UsageError, match=r"pass \(batch, heads, length, features\)"):
        mc.sdpa(torch.ones(2, 3), torch.ones(2, 3), torch.ones(2, 3))
