"""Values that are stored for a slice of an index at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
import torch

import monocomp as mc
from monocomp.backends.triton.launch import load
from monocomp.costs import cost
from monocomp.planning import slicing, storing
from monocomp.rewriting.driver import Step
from monocomp.terms.equations import Equations
from tests.backends import interpreted, running

LAYER = """
input X[t,d], W[v,d], label[t]: int, dO[t], L[t] = logsumexp[v](X[t,d] * W[v,d])
S[t,v]  = X[t,d] * W[v,d]
G[t,v]  = dO[t] * (exp(S[t,v] - L[t]) - where(v == label[t], 1, 0))
dX[t,d] = G[t,v] * W[v,d]
dW[v,d] = G[t,v] * X[t,d]
return dX, dW
"""
TWO_LEVELS = """
input X[t,d], W[v,d]
S[t,v] = X[t,d] * W[v,d]
D[t]   = sum[v](cos(S[t,v]))
O[t,d] = sum[v](tanh(S[t,v]) * W[v,d]) * D[t]
A[v,d] = sum[t](sin(S[t,v]) * D[t] * X[t,d]) + W[v,d]
return O, A
"""
TOKENS, WIDTH, VOCABULARY = 11, 5, 37


@contextmanager
def slices_of_four(of: str = "tv") -> Iterator[None]:
    """As if they paid, along one of these, and launches cost nothing."""

    def sliced(program: Equations, stored: set[str], extent: str, *rest: Any) -> Step | None:
        return slicing.slice_index(program, stored, extent, *rest) if extent in of else None

    with (
        mock.patch.object(storing, "slice_index", sliced),
        mock.patch.object(storing, "lengths_of_slices", lambda *_: [4]),
        mock.patch.object(storing, "time_of", lambda *_: 0.0),
        mock.patch.object(storing, "_largest_tensor", lambda program, sizes: sizes["t"] * 5),
        running.estimated_anew(),
        mock.patch.object(cost, "LAUNCH_TIME", 0),
    ):
        yield


@pytest.fixture
def in_slices() -> Iterator[None]:
    with slices_of_four():
        yield


def inputs(tokens: int = TOKENS) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(tokens, WIDTH, generator=generator)
    w = torch.randn(VOCABULARY, WIDTH, generator=generator)
    label = torch.randint(VOCABULARY, (tokens,), generator=generator)
    return {"X": x, "W": w, "label": label, "dO": torch.randn(tokens, generator=generator)}


def layer(tokens: int, backend: str, of: str) -> list[torch.Tensor]:
    """The gradients of a linear layer's cross-entropy, and what autograd says."""
    given = inputs(tokens)
    x, w = (given[n].double().requires_grad_() for n in ("X", "W"))
    lse = (x @ w.T).logsumexp(-1)
    loss = lse - (x * w[given["label"]]).sum(-1)
    right = torch.autograd.grad(loss, (x, w), given["dO"].double())
    kernel = mc.compile(LAYER, backend="triton" if backend == "minimal" else backend)
    sizes = {"t": tokens, "d": WIDTH, "v": VOCABULARY}
    plan = kernel.stages.at(**sizes).plan
    assert plan.program.slices is not None and plan.program.slices.whole == of
    assert plan.program.slices.length == 4 and len(plan.program.operands) == 1
    given["L"] = lse.float().detach()
    if backend == "minimal":
        file = load(kernel.source(dtype="fp32", extents=sizes, minimal=True))
        found = file.kernel(*(given[n] for n in kernel.declared.inputs))
    else:
        found = kernel(**given)
    return [f.double() - r for f, r in zip(found, right, strict=True)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("of", ["t", "v"])
@pytest.mark.parametrize("tokens", [TOKENS, 4, 1, 8])
def test_gradients_of_a_layer(tokens: int, of: str) -> None:
    with slices_of_four(of):
        assert all(difference.abs().max() < 1e-5 for difference in layer(tokens, "torch", of))


def worst(tokens: int, backend: str, of: str) -> float:
    with slices_of_four(of):
        return max(float(d.abs().max()) for d in layer(tokens, backend, of))


@pytest.mark.parametrize("backend", ["triton", "minimal"])
@pytest.mark.parametrize(("tokens", "of"), [(TOKENS, "t"), (3, "v")])
def test_gradients_of_a_layer_on_triton(tokens: int, backend: str, of: str) -> None:
    """By calls, and by a file to paste."""
    assert interpreted.call(worst, tokens, backend, of) < 1e-5


def test_what_reads_the_values_of_a_row_is_in_the_slice(in_slices: None) -> None:
    kernel = mc.compile(TWO_LEVELS, backend="torch")
    given = {n: x.double() for n, x in inputs().items() if n in ("X", "W")}
    plan = kernel.stages.at(t=TOKENS, d=WIDTH, v=VOCABULARY).plan
    assert plan.program.slices is not None
    for found, right in zip(kernel(**given), mc.evaluate(TWO_LEVELS, given), strict=True):
        assert torch.allclose(found, torch.as_tensor(right), rtol=1e-9)


@pytest.mark.parametrize(
    "line",
    [
        "O[t,d] = sum[v](tanh(X[t,e] * W[v,e]) * W[v,d]) / |t| / |v|",
        "O[d] = max[t](sum[v](tanh(X[t,e] * W[v,e]) * W[v,d] * X[t,d])) + max[v](W[v,d])",
    ],
)
def test_what_is_not_sliced(in_slices: None, line: str) -> None:
    """Slices of neither index: a value depends on how long the whole is, or is joined by no
    sum."""
    plan = mc.compile(line, backend="torch").stages.at(t=64, d=32, e=32, v=64).plan
    assert plan.program.slices is None
