"""Values that are stored for a slice of an index at a time; operands of products of matrices that
are written out, in slices of heads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

import pytest
import torch

import monocomp as mc
from monocomp import library
from monocomp.backends.triton.launch import load
from monocomp.costs import cost
from monocomp.planning import slicing, storing
from monocomp.planning.search import Draft
from monocomp.rewriting.driver import Step
from monocomp.terms.equations import Equations
from tests.backends import interpreted, running
from tests.backends.running import exact

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
def in_slices(
    length: int = 4,
    of: str = "tv",
    largest: Callable[[Mapping[str, int]], float] = lambda sizes: sizes["t"] * 5,
    sets: Callable[..., Any] = storing._sets,
) -> Iterator[None]:
    """As if slices of this length paid, along one of these, and launches cost nothing."""

    def sliced(program: Equations, stored: set[str], extent: str, *rest: Any) -> Step | None:
        return slicing.slice_index(program, stored, extent, *rest) if extent in of else None

    with (
        mock.patch.object(storing, "_sets", sets),
        mock.patch.object(storing, "slice_index", sliced),
        mock.patch.object(storing, "lengths_of_slices", lambda *_: [length]),
        mock.patch.object(Draft, "largest", property(lambda draft: largest(draft.sizes))),
        running.paying("slice_index" if length else "store_value"),
        running.estimated_anew(),
        mock.patch.object(cost, "LAUNCH_TIME", 0),
    ):
        yield


def inputs(tokens: int = TOKENS) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(tokens, WIDTH, generator=generator)
    w = torch.randn(VOCABULARY, WIDTH, generator=generator)
    label = torch.randint(VOCABULARY, (tokens,), generator=generator)
    lse = (x.double() @ w.double().T).logsumexp(-1).float()
    return {
        "X": x,
        "W": w,
        "label": label,
        "dO": torch.randn(tokens, generator=generator),
        "L": lse,
    }


def layer(tokens: int, backend: str, of: str, dtypes: Mapping[str, str] | None = None) -> float:
    """The largest error of the gradients of a linear layer's cross-entropy, over their norms."""
    given, sizes = inputs(tokens), {"t": tokens, "d": WIDTH, "v": VOCABULARY}
    right = exact(LAYER, given)
    given |= {n: given[n].to(getattr(torch, dtype)) for n, dtype in (dtypes or {}).items()}
    with in_slices(of=of):
        kernel = mc.compile(LAYER, backend="triton" if backend == "minimal" else backend)
        plan = kernel.stages.at(**sizes).plan
        assert plan.program.slices is not None and plan.program.slices.whole == of
        assert plan.program.slices.length == 4 and len(plan.program.operands) == 1
        if backend == "minimal":
            file = load(kernel.source(dtype="fp32", extents=sizes, minimal=True))
            found = file.kernel(*(given[n] for n in kernel.declared.inputs))
        else:
            found = kernel(**given)
    return max(float((f - r).norm() / r.norm()) for f, r in zip(found, right, strict=True))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("of", ["t", "v"])
@pytest.mark.parametrize("tokens", [TOKENS, 4, 1, 8])
def test_gradients_of_a_layer(tokens: int, of: str) -> None:
    assert layer(tokens, "torch", of) < 1e-5


@pytest.mark.parametrize("backend", ["triton", "minimal"])
@pytest.mark.parametrize(("tokens", "of"), [(TOKENS, "t"), (3, "v")])
def test_gradients_of_a_layer_on_triton(tokens: int, backend: str, of: str) -> None:
    """By calls, and by a file to paste."""
    assert interpreted.call(layer, tokens, backend, of) < 1e-5


@in_slices()
def test_what_reads_the_values_of_a_row_is_in_the_slice() -> None:
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
@in_slices()
def test_what_is_not_sliced(line: str) -> None:
    """Slices of neither index: a value depends on how long the whole is, or is joined by no
    sum."""
    plan = mc.compile(line, backend="torch").stages.at(t=64, d=32, e=32, v=64).plan
    assert plan.program.slices is None


# --- operands of products of matrices that are written out, in sl ------------------------


EXTENTS = {"b": 2, "h": 3, "q": 37, "k": 37, "c": 20, "r": 5}
LARGE = {"b": 4, "h": 32, "q": 2048, "k": 2048, "c": 512, "r": 64}


def written_out(length: int = 2, of: str = "h") -> AbstractContextManager[None]:
    """As if it paid, in slices of an index; whole, where these have no length."""
    sets = storing._sets

    def of_operands(*args: Any) -> list[Any]:
        return [s for s in sets(*args) if s[0].is_operand]

    return in_slices(length, of, lambda n: n["q"] * 20 if length else 1e9, of_operands)


def test_what_a_filter_leaves_out_is_0() -> None:
    """Where weights would overflow, if their logits counted."""
    planner = mc.compile(str(mc.grad(library.load("mla")))).planner
    program = planner.plan(LARGE, 132).program
    for name in program.operands:
        assert "where(k <= q, " in str(program.by_name[name].body)


def errors(
    backend: str, length: int, of: str, dtype: str = "float32", extremes: bool = False
) -> float:
    """The largest error of the gradients of latent attention in slices, over their norms. Rows end
    within blocks, and what is not initialised is NaN."""
    generator = torch.Generator().manual_seed(0)
    made = mc.grad(library.load("mla"))
    declared, forward = made.equations.declared, made.forward
    shapes = {n: [EXTENTS[d] for d in declared.inputs[n].dims] for n in ("QC", "QR", "C", "R")}
    given = {
        n: torch.randn(s, generator=generator).to(getattr(torch, dtype)) for n, s in shapes.items()
    }
    if extremes:  # logits of what the mask leaves out, in the thousands
        given["C"][:, -1] *= 1e3
        given["QC"][:, :, -1] = 0
    results = exact(forward.text(), {n: given[n] for n in forward.declared.inputs})
    names = [o.name for o in forward.declared.outputs]
    given |= {
        n: x.to(given["C"].dtype if n == "O" else torch.float32)
        for n, x in zip(names, results, strict=True)
    }
    given["dO"] = torch.randn(given["O"].shape, generator=generator).to(given["O"])
    right = exact(str(made), {n: given[n] for n in declared.inputs})
    with written_out(length, of), poisoned() as seen:
        backward = mc.compile(str(made), backend=backend)
        plan = backward.stages.at(**EXTENTS).plan
        slices = plan.program.slices
        assert slices.length == length if slices is not None else not length
        assert len(plan.program.operands) == 2
        found, again = (backward(**{n: given[n] for n in declared.inputs}) for _ in range(2))
    whole = EXTENTS["b" if of == "h" else "h"], EXTENTS["k"], EXTENTS["q"]
    assert [*map(sorted, seen)].count(sorted((length or EXTENTS[of], *whole))) >= 2
    assert all(torch.equal(a, b) for a, b in zip(found, again, strict=True))
    return max(float((f - r).norm() / r.norm()) for f, r in zip(found, right, strict=True))


@contextmanager
def poisoned() -> Iterator[list[tuple[int, ...]]]:
    """As if memory held NaN before anything is written; gives the shapes of what is made."""
    empty = torch.empty
    made: list[tuple[int, ...]] = []

    def of_nan(*args: Any, **options: Any) -> torch.Tensor:
        found = empty(*args, **options)
        made.append(tuple(found.shape))
        return found.fill_(torch.nan) if found.is_floating_point() else found

    with mock.patch.object(torch, "empty", of_nan):
        yield made


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("length", "of"), [(2, "h"), (1, "h"), (1, "b"), (0, "h")])
def test_gradients(length: int, of: str) -> None:
    assert errors("torch", length, of) < 1e-5


@pytest.mark.parametrize(
    ("dtype", "extremes", "most"),
    [("float32", True, 1e-5), ("float16", False, 4e-3)],
)
def test_gradients_on_triton(dtype: str, extremes: bool, most: float) -> None:
    assert interpreted.call(errors, "triton", 2, "h", dtype, extremes) < most
