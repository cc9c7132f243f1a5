"""Words that programs were found to need: int(x), floors as subscripts, parts of a dimension, and
tensors that are called like functions. Each with its meaning, its kernel, and its gradient."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import monocomp as mc
from monocomp.language.checker import check


def test_a_floor_is_a_subscript() -> None:
    text = "input T[n], A[i]\nindex n < 8\nO[i] = T[floor(A[i])] + 10 * T[int(A[i])]"
    table, places = torch.arange(8.0), torch.tensor([0.5, 3.9, 7.0])
    expected = 11 * torch.tensor([0.0, 3.0, 7.0])
    assert torch.equal(mc.compile(text)(table, places), expected)
    checked = mc.compile(text, checked=True)
    with pytest.raises(mc.errors.IndexRangeError):
        checked(table, torch.tensor([math.nan, 0.0, 0.0]))


def test_what_is_piecewise_constant_has_no_gradient() -> None:
    kernel = mc.compile("input T[n]\nO[i] = A[i] * int(2 * A[i]) + T[int(A[i])]")
    places = torch.tensor([0.75, 1.25], requires_grad=True)
    table = torch.arange(4.0, requires_grad=True)
    kernel(T=table, A=places).sum().backward()
    assert places.grad is not None and table.grad is not None
    assert places.grad.tolist() == [1.0, 2.0]
    assert table.grad.tolist() == [1.0, 1.0, 0.0, 0.0]


HALVES = """
    input Q[q,d], C[q,p], D[q,p]
    index p < |d| // 2
    O[q,p] = Q[q,p] * C[q,p] - Q[q, p + |p|] * D[q,p]
    N[q]   = Q[q,p] * Q[q,p]
"""


def test_an_index_of_half_an_extent() -> None:
    kernel = mc.compile(HALVES)
    Q = torch.randn(5, 8, dtype=torch.float64, requires_grad=True)
    C, D = torch.randn(2, 5, 4, dtype=torch.float64)
    x, y = Q.chunk(2, 1)
    found, expected = kernel(Q, C, D), (x * C - y * D, (x * x).sum(1))
    torch.testing.assert_close(found, expected)
    (gradient,) = torch.autograd.grad(sum(t.sum() for t in found), Q)
    torch.testing.assert_close(gradient, torch.autograd.grad(sum(t.sum() for t in expected), Q)[0])


def test_the_order_of_reads_of_a_part_decides_nothing() -> None:
    one = check("index p < |d| // 2\nO[q] = Q[q,p]\nN[q] = Q[q,d]")
    other = check("index p < |d| // 2\nN[q] = Q[q,d]\nO[q] = Q[q,p]")
    assert one.inputs == other.inputs and one.extent_of == other.extent_of


def test_a_part_that_is_larger_than_the_whole_is_out_of_range() -> None:
    text = "input A[d]\nindex p < 2 * |d|\nO[p] = A[p]"
    with pytest.raises(mc.errors.IndexRangeError):
        mc.evaluate(text, {"A": np.ones(3)})
    with pytest.raises(mc.errors.IndexRangeError):
        mc.compile(text, checked=True)(torch.ones(3))


def test_a_tensor_may_be_called_like_a_function() -> None:
    kernel = mc.compile("input cos[q,d], exp\nO[q,d] = cos(X[q,d]) * cos[q,d] + exp + exp(0.0)")
    X, C = torch.randn(2, 3, 4)
    found = kernel(cos=C, exp=torch.tensor(2.0), X=X)
    torch.testing.assert_close(found, X.cos() * C + 3)
    assert "cos_ptr" in kernel.source("triton")
    assert kernel.derivation.check().ok
