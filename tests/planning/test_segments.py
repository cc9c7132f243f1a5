"""Sums of what reads a row of a table: over segments of a list that each call sorts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.nn.functional import embedding

import monocomp as mc
from monocomp.planning.plan import Plan
from tests.backends.running import DISTINCT, cut_for_long_extents, run
from tests.backends.tolerances import agree
from tests.gradients.test_emitted import check_pasted

ONE = "input N[i]: int\nO[i,d] = W[N[i],d]"
SEVERAL = "input N[b,t]: int\nO[b,t,d] = W[N[b,t],d]"
LISTS = "input N[h,t,b]: int\nO[b,t,h,d] = W[h,N[h,t,b],b,d]"
GATHERED = """
input T[k]: int
S[q,k] = Q[q,d] * K[T[k],d]
O[q,e] = softmax[k](S[q,k]) * V[T[k],e]
"""
TIED = "input N[i]: int\nX[i,d] = W[N[i],d]\nO[i,v] = sigmoid(X[i,d] * W[v,d])"
EXPONENTIALS = "input N[i]: int\nO[i] = sum[d](exp(W[N[i],d]) * X[i,d])"
TEXTS = (ONE, SEVERAL, LISTS, GATHERED, TIED, EXPONENTIALS)
SIZES = {"W0": 4096, "b": 4, "t": 256, "d": 64}


def sorted_for(plan: Plan) -> list[tuple[str, ...]]:
    return [s.place for s in plan.decisions if s.rule == "sum_in_segments"]


@pytest.mark.parametrize("text", TEXTS)
def test_plans(text: str) -> None:
    plan = mc.compile(str(mc.grad(text))).plan()
    assert sorted_for(plan) in ([("dW",)], [("dK",), ("dV",)]) and plan.certificate.holds
    assert any(c.why == "segments of a list share nothing" for k in plan.planned for c in k.roles)


def drawn(text: str, **sizes: int) -> dict[str, Tensor]:
    """Inputs of a gradient. Where it reads no table, some of what is read lies outside of that, and
    is no element."""
    torch.manual_seed(0)
    n = {"b": 2, "t": 5, "h": 3, "i": 7, "k": 19, "q": 4, "d": 3, "e": 2, **sizes}
    found = {}
    for given in mc.compile(text).declared.inputs.values():
        shape = [n.get(i.lstrip("."), 6) for i in given.dims]
        if given.kind == "int":
            is_read = f"[{given.name}[" in text
            found[given.name] = torch.randint(*((0, 6) if is_read else (-2, 8)), shape)
        else:
            found[given.name] = torch.randn(shape, dtype=torch.float64)
    return found


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("text", "backend"), [*product(TEXTS, ["numpy"]), *product((ONE, LISTS), DISTINCT)]
)
def test_results(text: str, backend: str) -> None:
    gradient = str(mc.grad(text, save=[]))
    inputs = drawn(gradient)
    if backend == "triton":
        inputs = {n: x.float() if x.is_floating_point() else x for n, x in inputs.items()}
    with cut_for_long_extents():
        assert sorted_for(mc.compile(gradient).plan())
    agree(backend, gradient, inputs, storing=True)


@pytest.mark.parametrize("backend", DISTINCT)
@pytest.mark.parametrize("sizes", [{"t": 0}, {"b": 1, "t": 1}, {"d": 1}])
def test_special_sizes(sizes: dict[str, int], backend: str) -> None:
    gradient = str(mc.grad(SEVERAL))
    inputs = {n: x if n == "N" else x.float() for n, x in drawn(gradient, **sizes).items()}
    agree(backend, gradient, inputs, storing=True)


@pytest.mark.parametrize("backend", DISTINCT)
def test_rows_that_nothing_reads(backend: str) -> None:
    """They get 0, whatever stands in them, and in cotangents of what reads no row."""
    gradient = str(mc.grad(ONE))
    inputs = {
        "N": torch.tensor([3, 1, 9, 3, -1]),
        "W": torch.full((6, 3), torch.nan),
        "dO": torch.arange(15.0).reshape(5, 3),
    }
    inputs["dO"][[2, 4]] = torch.nan
    (found,) = run(backend, gradient, inputs, storing=True)
    wanted = torch.zeros(6, 3)
    wanted[1], wanted[3] = inputs["dO"][1], inputs["dO"][0] + inputs["dO"][3]
    assert torch.equal(found.float(), wanted)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_training(dtype: torch.dtype) -> None:
    """As torch's own embedding, twice, by autograd and in a compiled graph; each time the same."""
    torch.manual_seed(0)
    numbers = torch.randint(0, SIZES["W0"] // 2, (4, 256), dtype=dtype)
    weights = torch.randn(SIZES["W0"], SIZES["d"], requires_grad=True)
    cotangent = torch.randn(4, 256, SIZES["d"])
    kernel = mc.compile(SEVERAL.replace(": int", ": int, W[v,d]"))

    def gradient(call: Callable[..., Tensor], *args: Tensor) -> Tensor:
        return torch.autograd.grad(call(*args), weights, cotangent)[0]

    wanted = gradient(embedding, numbers, weights)
    found = [gradient(kernel, numbers, weights) for _ in range(3)]
    torch.testing.assert_close(found[0], wanted)
    assert all(torch.equal(g, found[0]) for g in found)
    assert not found[0][SIZES["W0"] // 2 :].any()
    compiled = torch.compile(kernel, fullgraph=True, backend="aot_eager")
    assert torch.equal(gradient(compiled, numbers, weights), found[0])
    (plan,) = (c.planner.plan(SIZES) for c in [mc.compile(str(mc.grad(SEVERAL)))])
    assert sorted_for(plan) == [("dW",)]


def test_pasted_files() -> None:
    """They sort by themselves."""
    check_pasted(ONE, ("W",), {"i": 9, "d": 5}, {})
    check_pasted(LISTS, ("W",), {"h": 2, "t": 9, "b": 3, "d": 5}, {})
    whole = {"i": 1024, "W0": 4096, "d": 64}
    text = mc.grad(ONE, name="pasted").source(extents=whole, minimal=True)
    assert (
        "    sort_positions(N, order, first, last, ())\n" in text and "def sort_positions(" in text
    )
