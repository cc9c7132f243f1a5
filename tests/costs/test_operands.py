"""Operands of products that are stored: in the dtype of what they are multiplied with."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
import torch

import monocomp as mc
from monocomp.backends.schedules.legal import Legal
from monocomp.backends.schedules.table import first
from monocomp.declarations.vocabulary import Kind
from monocomp.host.building import host_program, of_tile_program
from monocomp.host.program import Buffer
from monocomp.lowering.expressions import choose
from monocomp.planning.plan import Plan
from monocomp.tile import Expr
from tests.backends import interpreted
from tests.planning.test_slicing import LAYER, TOKENS, VOCABULARY, WIDTH, inputs, slices_of_four


def plan_of(text: str, **sizes: int) -> Plan:
    return mc.compile(text).stages.at(**sizes).plan


def test_the_dtype_is_that_of_what_it_is_multiplied_with() -> None:
    with slices_of_four("v"):
        plan = plan_of(LAYER, t=TOKENS, d=WIDTH, v=VOCABULARY)
    (name,) = plan.program.operands
    host = host_program(plan.program, [of_tile_program(k) for k in plan.kernels])
    (buffer,) = (s for s in host.statements() if isinstance(s, Buffer) and s.name == name)
    assert buffer.dtype == "operand" and {*buffer.beside} == {"X", "W"}
    assert f"{name}: stored float[v_slice, t] as operand" in str(plan.kernels[0])


def test_rows_that_most_varies_along_come_first() -> None:
    """Of what a kernel reads after its loop, most is one value a token: it is a value a row of a
    tile, although what is stored has the tokens last."""
    with slices_of_four("v"):
        kernel, *_ = plan_of(LAYER, t=TOKENS, d=WIDTH, v=VOCABULARY).kernels
    assert kernel.axis_names("row") == ["t", "v_slice"]
    assert kernel.outputs[0].dims == ("v_slice", "t")


def tile(name: str, *axes: str, kind: Kind = "float") -> Expr:
    return Expr("local", (), name, frozenset(axes), kind)


def test_choices_along_fewer_axes_are_one() -> None:
    """An element of a tile is chosen once, for all that its row says."""
    first, second = (tile(n, "t", kind="bool") for n in "ab")
    x, y, z = tile("x", "t"), tile("y", "t"), tile("z", "t", "v")
    found = choose(first, x, choose(second, y, z))
    condition, one_of_both, rest = found.args
    assert (condition.op, condition.axes, one_of_both.axes) == ("or", {"t"}, {"t"})
    assert one_of_both.args == (first, x, y) and rest is z
    assert choose(first, z, choose(second, y, z)).args[0] is first
    values = [np.array(v) for v in ([1, 1, 0, 0], [1, 0, 1, 0])]
    a, b = (v.astype(bool) for v in values)
    nested, joined = np.where(a, 1, np.where(b, 2, 3)), np.where(a | b, np.where(a, 1, 2), 3)
    assert np.array_equal(nested, joined)


def error(dtypes: Mapping[str, str]) -> float:
    """The largest difference of gradients from those in float64, over their norm."""
    given = inputs()
    x, w = (given[n].double().requires_grad_() for n in ("X", "W"))
    lse = (x @ w.T).logsumexp(-1)
    loss = lse - (x * w[given["label"]]).sum(-1)
    right = torch.autograd.grad(loss, (x, w), given["dO"].double())
    tensors = {n: t.to(getattr(torch, dtypes.get(n, str(t.dtype)[6:]))) for n, t in given.items()}
    with slices_of_four("v"):
        found = mc.compile(LAYER, backend="triton")(**tensors, L=lse.float().detach())
    return max(float((f - r).norm() / r.norm()) for f, r in zip(found, right, strict=True))


@pytest.mark.parametrize("dtypes", [{"X": "float16", "W": "float16"}, {"W": "float16"}])
def test_it_is_rounded_once(dtypes: dict[str, str]) -> None:
    assert interpreted.call(error, dtypes) < 2e-3


def test_a_product_for_each_value_of_an_index_is_in_a_loop() -> None:
    """Latent attention, whose heads share keys: heads one by one, and blocks of queries."""
    backward = str(mc.grad(mc.library.load("mla")))
    plan = plan_of(backward, b=2, h=2, q=200, k=200, c=20, r=5)
    kernel = next(k for k in plan.kernels if k.outputs[0].name == "dC")
    assert {a.name: a.role for a in kernel.axes.values()}["h"] == "serial"
    assert kernel.axis_names("stream") == ["q"]
    assert first(Legal(kernel, plan.extents({"q": 200, "k": 200, "c": 20}), 2, "cuda:90"))


def test_a_product_inside_of_a_sum_is_no_loop() -> None:
    """What queries of linear attention are divided by, in the sums over them."""
    backward = str(mc.grad(mc.library.load("linear_attention")))
    plan = plan_of(backward, b=2, h=4, q=4096, k=4096, d=64, e=64)
    assert not [k.name for k in plan.kernels if k.axis_names("serial")]


def test_the_closest_elements_come_last() -> None:
    """In splits of whose outer index each element has a product for itself."""
    text = "input F[q,h,k], Z[q,k,c]\ndW[c,h] = sum[k](sum[q](F[q,h,k] * Z[q,k,c]))\n"
    plan = mc.compile(text).planner.plan({"q": 2048, "k": 2048, "h": 16, "c": 32}, 132)
    kernel = plan.kernels[0]
    assert kernel.axis_names("serial") == ["q"] and kernel.axis_names("stream") == ["k"]
    (split,) = kernel.splits
    most = plan.program.declared.bounds[split]
    assert "128" not in str(most) and "256" not in str(most)


def largest_difference(rows: int, columns: int) -> float:
    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randn(n, 24, generator=generator) for n in (rows, columns))
    found = mc.compile("O[t,v] = sum[d](X[t,d] * W[v,d])", backend="triton")(X=x, W=w)
    return float((found - x @ w.T).abs().max())


def test_blocks_along_two_axes_take_turns() -> None:
    """All of them, whatever their number is."""
    assert interpreted.call(largest_difference, 400, 300) < 1e-4
