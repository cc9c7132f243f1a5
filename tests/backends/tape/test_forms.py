"""Values that kernels compute alike, each in its own order of dimensions."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch

import monocomp as mc
from monocomp.backends.tape import extrema
from monocomp.backends.tape.recorder import Recorder, Value, contiguous_strides
from monocomp.backends.tape.tile import Tile
from monocomp.backends.tape.tiles import TapeOps
from monocomp.backends.torch_operations import TorchOps
from tests.backends.library_cases import CASES


def operations(recorder: Recorder, axes: str) -> TapeOps:
    """Return the operations of a kernel whose axes are letters."""
    done_by = TorchOps(torch.device("cpu"), torch.float32)
    return TapeOps(recorder, done_by, axes, {name: n for n, name in enumerate(axes)})


def given(recorder: Recorder, position: int, shape: tuple[int, ...], dtype: torch.dtype) -> Value:
    """Return a tensor that a call gives."""
    value = recorder.input(position, shape, dtype)
    value.strides = contiguous_strides(shape)
    return value


def test_products_and_what_is_made_of_them_in_another_order() -> None:
    """The second kernel has the rows of the first one in the place of its columns."""
    recorder = Recorder(2)
    x, y = (given(recorder, n, (3 + n, 5), torch.float32) for n in range(2))
    one, other = operations(recorder, "ijd"), operations(recorder, "jid")
    a = one.contract(Tile(one, x, (0, 2), (3, 1, 5)), Tile(one, y, (1, 2), (1, 4, 5)), 2)
    a = one.elementwise["exp2"](a)
    count = len(recorder.steps)
    b = other.contract(Tile(other, y, (0, 2), (4, 1, 5)), Tile(other, x, (1, 2), (1, 3, 5)), 2)
    b = other.elementwise["exp2"](b)
    assert b.value is a.value
    assert (a.dims, b.dims, b.shape) == ((0, 1), (1, 0), (4, 3, 1))
    assert len(recorder.steps) == count


def test_factors_that_are_exchanged_give_another_product() -> None:
    recorder = Recorder(2)
    x, y = (given(recorder, n, (4, 4), torch.float32) for n in range(2))
    ops = operations(recorder, "ijd")
    found = [
        ops.contract(Tile(ops, x, at, shape), Tile(ops, y, (1, 2), (1, 4, 4)), 2)
        for at, shape in (((0, 2), (4, 1, 4)), ((2, 0), (4, 1, 4)))
    ]
    assert found[0].value is not found[1].value


def test_products_have_the_form_of_their_factors() -> None:
    """(2 x) (y z) is twice (z x) y, and their sums are of one product."""
    recorder = Recorder(3)
    ops = operations(recorder, "ij")
    x, y, z = (
        Tile(ops, given(recorder, n, shape, torch.float32), dims, full)
        for n, (shape, dims, full) in enumerate(
            (((3, 4), (0, 1), (3, 4)), ((3,), (0,), (3, 1)), ((4,), (1,), (1, 4)))
        )
    )
    mul, two = ops.elementwise["mul"], ops.full((1, 1), 2.0, "float")
    one, other = mul(mul(two, x), mul(y, z)), mul(mul(z, x), y)
    assert other.value.made_by is not None and other.value.made_by[1][1] is one.value
    assert other.value.made_by[1][0].number == 0.5
    assert mul(mul(two, z), mul(x, y)).value is one.value
    assert mul(mul(y, y), x).value is not one.value
    assert ops.contract(mul(x, z), y, 0).value is ops.contract(mul(x, y), z, 0).value


def test_axes_that_are_cut_are_one() -> None:
    """exp(x[6 i + j]) y[6 i + j] is exp(x[k]) y[k]; at 2 i + j it is another."""
    recorder = Recorder(2)
    one, other = operations(recorder, "k"), operations(recorder, "ij")
    x, y = (given(recorder, n, (12,), torch.float32) for n in range(2))
    whole = [Tile(one, v, (0,), (12,)) for v in (x, y)]
    a = one.elementwise["mul"](one.elementwise["exp2"](whole[0]), whole[1])

    def cut(stride: int) -> Tile:
        position = torch.arange(2)[:, None] * stride + torch.arange(6)
        at = other.constant(("at", stride), position, (0, 1), 2)
        parts = [Tile(other, v, (0,), (12,))[(at,)] for v in (x, y)]
        return other.elementwise["mul"](parts[1], other.elementwise["exp2"](parts[0]))

    assert cut(6).value.root is a.value
    assert cut(6).value.shape == (2, 6)
    assert cut(2).value.root is not a.value
    back = one.elementwise["exp2"](cut(6).like((0, 1), (2, 6)).reshape((12,)))
    assert back.value is one.elementwise["exp2"](a).value


def test_comparisons_are_those_of_the_difference() -> None:
    """k < n + 1, k <= n, n >= k and 0 <= n - k hold alike; k < n does not."""
    recorder = Recorder(1)
    ops = operations(recorder, "qk")
    n = Tile(ops, given(recorder, 0, (3,), torch.int64), (0,), (3, 1))
    k = ops.constant("k", torch.arange(5), (1,), 2)
    one, zero = (ops.full((1, 1), number, "int") for number in (1, 0))
    add, sub = ops.elementwise["add"], ops.elementwise["sub"]
    alike = [k < add(n, one), k <= n, n >= k, zero <= sub(n, k)]
    assert len({c.value for c in alike}) == 1
    assert (k < n).value is not alike[0].value
    assert (k == n).value is (n == k).value


def test_a_condition_implies_that_it_holds_somewhere() -> None:
    recorder = Recorder(1)
    ops = operations(recorder, "qk")
    n = Tile(ops, given(recorder, 0, (3,), torch.int64), (0,), (3, 1))
    holds = ops.constant("k", torch.arange(5), (1,), 2) <= n
    somewhere = ops.library.amax(holds, axis=1, keepdims=True)
    assert (holds & somewhere).value is (somewhere & holds).value is holds.value


def test_results_that_are_kept_may_not_be_written_to() -> None:
    """They are not copied; autograd tells of it, as in eager torch."""
    kernel = mc.compile("P[q,k] = softmax[k](X[q,k])", backend="torch")
    X = torch.randn(5, 7, requires_grad=True)
    for _ in range(3):
        P = kernel(X)
        (found,) = torch.autograd.grad(P.square().sum(), X)
    (wanted,) = torch.autograd.grad(X.softmax(-1).square().sum(), X)
    torch.testing.assert_close(found, wanted)
    P = kernel(X)
    P.detach().zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        P.sum().backward()


def test_extrema_that_are_results_are_looked_for_once() -> None:
    case = CASES["softmax_top8"]
    inputs = case.inputs(case.sizes(19, 23, 8, 6, 2))
    floats = [t.requires_grad_() for t in inputs.values() if t.dtype == torch.float32]
    kernel = mc.compile(case.text, backend="torch")
    largest = extrema.largest_of_distinct
    with patch.object(extrema, "largest_of_distinct", wraps=largest) as looked_for:
        for _ in range(5):
            looked_for.reset_mock()
            values, *_ = kernel(**inputs)
            torch.autograd.grad(values.sum(), floats)
    assert looked_for.call_count == 1


def test_guards_of_positions_are_dropped_where_what_is_read_is_guarded() -> None:
    """Kernels that read a table under different conditions read it once, at the same positions."""
    text = "input T[p,d], at[k]: int, n[b]: int\nY[b,d] = sum[k if k < n[b]](T[at[k], d])"
    kernel = mc.compile(text, backend="torch")
    table, n = torch.randn(5, 3), torch.tensor([2, 4, 0])
    at = torch.tensor([1, 4, 0, 3, 9, -7])  # what no row reads may be out of range
    expected = torch.stack([table[at[:m]].sum(0) for m in n.tolist()])
    torch.testing.assert_close(kernel(table, at, n), expected)
    recorder = Recorder(0)
    ops = TapeOps(recorder, TorchOps(torch.device("cpu"), torch.float32), ["k"], {"k": 0})
    position, guard = (
        Tile(ops, Value((4,), dtype), (0,), (4,)) for dtype in (torch.int64, torch.bool)
    )
    zero = ops.full((1,), 0, "int")
    guarded = ops.library.where(guard, position, zero)
    assert ops.chosen(guard, guarded).value is position.value
    assert ops.chosen(ops.compared("lt", position, zero), guarded).value is guarded.value
