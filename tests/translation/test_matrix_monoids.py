"""Monoids whose fields have indices: products of matrices, and what is made of them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np
import pytest
import torch

import monocomp as mc
from monocomp.language.checker import check
from monocomp.reference.oracle import evaluate
from monocomp.terms.nodes import UserMonoid
from monocomp.translation.translator import translate
from tests.backends import interpreted

INDICES = "index r < 2, s < 2, t < 2\n"
MAT = INDICES + ("monoid Mat(A[r,s]) = unit (where(r == s, 1, 0)), combine (A[r,t] * A'[t,s])\n")
# Maps x -> A x + b, the earlier one first.
MAPS = INDICES + (
    "monoid Maps(A[r,s], b[r]) = unit (where(r == s, 1, 0), 0),"
    " combine (A'[r,t] * A[t,s], A'[r,t] * b[t] + b'[r])\n"
)
GENERATOR = np.random.default_rng(0)


def products(x: np.ndarray) -> np.ndarray:
    """The product of the first n matrices, for every n from 0."""
    found = [np.eye(x.shape[-1])]
    for matrix in x:
        found.append(found[-1] @ matrix)
    return np.stack(found)


def affine(w: np.ndarray, x: np.ndarray) -> np.ndarray:
    """h = W h + x, at every step."""
    h, found = np.zeros(2), np.empty_like(x)
    for n, (matrix, shift) in enumerate(zip(w, x, strict=True)):
        found[n] = h = matrix @ h + shift
    return found


@cache
def compiled(text: str, monoids: tuple[mc.Monoid, ...]) -> mc.Kernel:
    return mc.compile(text, monoids=monoids)


def everywhere(text: str, monoids: Iterable[mc.Monoid] = (), **inputs: np.ndarray) -> np.ndarray:
    """What the oracle finds, as the kernel and the printed equations do."""
    program = check(text, monoids={m.name: m.statement for m in monoids})
    wanted = evaluate(program, inputs)
    assert isinstance(wanted, np.ndarray)
    kernel = compiled(text, tuple(monoids))
    found = kernel(**{name: torch.from_numpy(x) for name, x in inputs.items()})
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)
    again = kernel.equations.text()
    np.testing.assert_allclose(evaluate(again, inputs), wanted, rtol=1e-10, atol=1e-10)
    assert translate(check(again)).text() == again
    return wanted


PROGRAMS = {
    "P[k,r,s] = Mat[..k](X[k,r,s]).A[r,s]": lambda p: p[1:],
    "P[k,i,j] = Mat[..k](X[k,r,s]).A[j,i]": lambda p: p[1:].swapaxes(1, 2),
    "P[r,s] = Mat[k](X[k,r,s]).A[r,s]": lambda p: p[-1],
    "P = Mat[k](X[k,r,s]).A[0,1]": lambda p: p[-1, 0, 1],
    "P = Mat[k](X[k,r,s]).A[r,r]": lambda p: np.trace(p[-1]),
    "P[r] = Mat[k](X[k,r,s]).A[r,s] * (s + 2)": lambda p: p[-1] @ [2, 3],
    "P[r,s] = Mat[k](X[k,s,r]).A[s,r]": lambda p: p[-1],
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("program", PROGRAMS)
def test_products(program: str) -> None:
    """From left to right, though they do not commute."""
    for length in (0, 1, 37):
        x = GENERATOR.standard_normal((length, 2, 2))
        if program.startswith("P[r,s] = Mat[k](X[k,s,r])"):
            wanted = products(x.swapaxes(1, 2))[-1].T
        else:
            wanted = PROGRAMS[program](products(x))
        np.testing.assert_allclose(everywhere(MAT + program, X=x), wanted, atol=1e-9)


@pytest.mark.parametrize("length", [0, 1, 19])
def test_affine_maps(length: int) -> None:
    """A field that is a vector beside one that is a matrix."""
    w, x = GENERATOR.standard_normal((length, 2, 2)), GENERATOR.standard_normal((length, 2))
    text = MAPS + "H[k,i] = Maps[..k](W[k,r,s], X[k,r]).b[i]"
    np.testing.assert_allclose(everywhere(text, W=w, X=x), affine(w, x), atol=1e-9)


def test_names_of_indices_are_local() -> None:
    """Those of operands belong to the monoid, and those in the declaration meet none outside."""
    mat = mc.monoid(MAT)
    assert (mat.fields, mat.is_commutative) == (("A",), False)
    x = GENERATOR.standard_normal((2, 5, 2, 2))
    for matrix in (MAT, ""):
        given = () if matrix else (mat,)
        text = matrix + "P[t,r] = Mat[k](X[t,k,r,s]).A[r,t]"
        wanted = [products(x[t])[-1][:, t] for t in range(2)]
        np.testing.assert_allclose(everywhere(text, given, X=x), wanted, atol=1e-9)
        text = matrix + "P[i] = Mat[k](Mat[n](X[n,k,r,s]).A[s,r]).A[0,i]"
        inner = np.stack([products(x[:, k])[-1].T for k in range(5)])
        np.testing.assert_allclose(everywhere(text, given, X=x), products(inner)[-1][0], atol=1e-9)
    long = GENERATOR.standard_normal((7, 2, 2))  # 't' has another extent than in the declaration
    found = everywhere("P[t,r,s] = Mat[..t](X[t,r,s]).A[r,s]", [mat], X=long)
    np.testing.assert_allclose(found, products(long)[1:], atol=1e-9)


def test_entries_have_names_of_their_own() -> None:
    text = (
        "index r < 2\nmonoid M(A[r], A_0, A_1[r]) = unit (0, 0, 0),"
        " combine (A[r] + A'[r], A_0 + A_0', A_1[r] + A_1'[r])\n"
        "O[r] = M[k](X[k,r], 1, 0).A[r]"
    )
    (monoid,) = translate(check(text)).monoids
    assert isinstance(monoid, UserMonoid) and len(set(monoid.fields)) == 5
    x = GENERATOR.standard_normal((5, 2))
    np.testing.assert_allclose(everywhere(text, X=x), x.sum(0))


def test_gradients() -> None:
    w = torch.randn(9, 2, 2, dtype=torch.float64, requires_grad=True)
    x = torch.randn(9, 2, dtype=torch.float64, requires_grad=True)
    h, states = torch.zeros(2, dtype=torch.float64), []
    for matrix, shift in zip(w, x, strict=True):
        h = matrix @ h + shift
        states.append(h)
    weight = torch.randn(9, 2, dtype=torch.float64)
    wanted = torch.autograd.grad((torch.stack(states) * weight).sum(), (w, x))
    kernel = mc.compile(MAPS + "H[k,i] = Maps[..k](W[k,r,s], X[k,r]).b[i]")
    found = torch.autograd.grad((kernel(W=w, X=x) * weight).sum(), (w, x))
    torch.testing.assert_close(found, wanted)


def _emitted(text: str, x: torch.Tensor) -> torch.Tensor:
    """What an emitted file gives."""
    from monocomp.backends.triton.launch import load

    kernel = mc.compile(text, name="matrices", backend="triton")
    found: torch.Tensor = load(kernel.source("triton")).matrices(x)
    return found


def test_an_emitted_kernel() -> None:
    for n in (2, 3):
        text = MAT.replace("< 2", f"< {n}") + "P[k,r,s] = Mat[..k](X[k,r,s]).A[r,s]"
        x = torch.randn(70, n, n) / 2
        found = interpreted.call(_emitted, text, x)
        wanted = torch.from_numpy(products(x.double().numpy())[1:])
        torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-5)


def test_entries_are_proved() -> None:
    text = MAT.replace("A'[t,s]", "A'[s,t]") + "P = Mat[k](X[k,r,s]).A[0,0]"
    with pytest.raises(mc.MonocompError, match="monoid 'Mat' is not associative"):
        mc.compile(text)


def test_a_given_monoid_has_its_own_extents() -> None:
    with pytest.raises(mc.MonocompError, match="index 'r' of monoid 'Mat' has extent 2"):
        mc.compile("index r < 3\nP[r,s] = Mat[k](X[k,r,s]).A[r,s]", monoids=[mc.monoid(MAT)])
