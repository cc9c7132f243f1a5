"""Operands of products that are stored: in the dtype of what they are multiplied with."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch

import monocomp as mc
from monocomp.declarations.vocabulary import Kind
from monocomp.host.building import host_program, of_tile_program
from monocomp.host.tensors import Buffer
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
