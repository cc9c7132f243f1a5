"""Operands of products of matrices that are written out, in slices of heads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
import torch

import monocomp as mc
from monocomp import library
from monocomp.planning import slicing, storing
from monocomp.rewriting.driver import Step
from monocomp.terms.equations import Equations
from tests.backends import interpreted
from tests.backends.library_cases import CASES

SIZES = {"b": 2, "h": 3, "q": 37, "k": 37, "c": 20, "r": 5}
LARGE = {"b": 4, "h": 32, "q": 2048, "k": 2048, "c": 512, "r": 64}


@contextmanager
def written_out(length: int = 2, of: str = "h") -> Iterator[None]:
    """As if it paid, in slices of an index; whole, where these have no length."""
    sets = storing._sets

    def of_operands(*args: Any) -> list[Any]:
        return [s for s in sets(*args) if s[0].is_operand]

    def sliced(program: Equations, stored: set[str], extent: str, *rest: Any) -> Step | None:
        return slicing.slice_index(program, stored, extent, *rest) if extent == of else None

    with (
        mock.patch.object(storing, "_sets", of_operands),
        mock.patch.object(storing, "slice_index", sliced),
        mock.patch.object(storing, "lengths_of_slices", lambda *_: [length]),
        mock.patch.object(storing, "time_of", lambda *_: 0.0),
        mock.patch.object(
            storing, "_largest_tensor", lambda program, sizes: sizes["q"] * 20 if length else 1e9
        ),
    ):
        yield


def gradient() -> mc.Kernel:
    return mc.compile(str(mc.grad(library.load("mla"))), backend="torch")


def test_what_a_filter_leaves_out_is_0() -> None:
    """Where weights would overflow, if their logits counted."""
    program = gradient().planner.plan(LARGE, 132).program
    for name in program.operands:
        assert "where(k <= q, " in str(program.by_name[name].body)


def errors(
    backend: str, length: int, of: str, dtype: str = "float32", extremes: bool = False
) -> list[float]:
    """Of the gradients of latent attention in slices, over their norms. Rows end within blocks, and
    what is not initialised is NaN."""
    generator = torch.Generator().manual_seed(0)
    shapes = {"QC": "bhqc", "QR": "bhqr", "C": "bkc", "R": "bkr"}
    wide = {
        n: torch.randn([SIZES[d] for d in dims], generator=generator).to(getattr(torch, dtype))
        for n, dims in shapes.items()
    }
    if extremes:  # logits of what the mask leaves out, in the thousands
        wide["C"][:, -1] *= 1e3
        wide["QC"][:, :, -1] = 0
    leaves = {n: t.double().requires_grad_() for n, t in wide.items()}
    out = CASES["mla"].in_eager_torch(leaves)[0]
    given = torch.randn(out.shape, generator=generator).to(getattr(torch, dtype))
    right = torch.autograd.grad(out, [*leaves.values()], given.double())
    with written_out(length, of):
        backward = mc.compile(str(mc.grad(library.load("mla"))), backend=backend)
        plan = backward.stages.at(**SIZES).plan
        slices = plan.program.slices
        assert slices.length == length if slices is not None else not length
        assert len(plan.program.operands) == 2
        logits = torch.einsum("bhqc,bkc->bhqk", leaves["QC"], leaves["C"])
        logits = (logits + torch.einsum("bhqr,bkr->bhqk", leaves["QR"], leaves["R"])) / 192**0.5
        mask = torch.ones(SIZES["q"], SIZES["k"]).tril() == 0
        lse = logits.masked_fill(mask, -torch.inf).logsumexp(-1).detach().float()
        tensors = {**wide, "O": out.detach().to(given.dtype), "dO": given, "L": lse}
        with poisoned() as made:
            found = [torch.as_tensor(x) for x in backward(**tensors)]
            again = [torch.as_tensor(x) for x in backward(**tensors)]
    whole = SIZES["b" if of == "h" else "h"], SIZES["k"], SIZES["q"]
    quadratic = sorted((length or SIZES[of], *whole))
    assert backend == "numpy" or [*map(sorted, made)].count(quadratic) >= 2
    assert all(torch.equal(a, b) for a, b in zip(found, again, strict=True))
    return [float((f.double() - r).norm() / r.norm()) for f, r in zip(found, right, strict=True)]


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
@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize(("length", "of"), [(2, "h"), (1, "h"), (1, "b"), (0, "h")])
def test_gradients(backend: str, length: int, of: str) -> None:
    assert max(errors(backend, length, of)) < 1e-5


@pytest.mark.parametrize(
    ("dtype", "extremes", "most"),
    [("float32", True, 1e-5), ("float16", False, 4e-3)],
)
def test_gradients_on_triton(dtype: str, extremes: bool, most: float) -> None:
    found = interpreted.call(errors, "triton", 2, "h", dtype, extremes)
    assert max(found) < most
