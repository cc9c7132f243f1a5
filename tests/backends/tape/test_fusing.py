"""Operations that torch does together: each comes to what its parts do, in fewer steps."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import monocomp as mc
from tests.backends.tape.test_tape import tapes_made

X = torch.randn(5, 7, generator=torch.Generator().manual_seed(1))
A = torch.randn(5, 3, generator=torch.Generator().manual_seed(2))
B = torch.randn(3, 7, generator=torch.Generator().manual_seed(3))


def made_of(text: str, **inputs: Tensor) -> tuple[tuple[Tensor, ...], list[str]]:
    """Return the results of a program, and the names of what its tape runs, but for views."""
    with tapes_made() as tapes:
        results = mc.compile(text, backend="torch")(**inputs)
    (tape,) = tapes
    runs = [getattr(s.run, "func", s.run).__name__ for s in tape.steps]
    return results if isinstance(results, tuple) else (results,), runs


@pytest.mark.parametrize(
    ("text", "compute"),
    [
        ("Y[i,j] = 0.5 * (A[i,d] * B[d,j])", lambda X, A, B: 0.5 * (A @ B)),
        ("Y[i,j] = A[i,d] * B[d,j] + X[i,j]", lambda X, A, B: X + A @ B),
        ("Y[i,j] = X[i,j] - sum[d](A[i,d] * B[d,j])", lambda X, A, B: X - A @ B),
        ("Y[i,j] = sin(X[i,j]) + A[i,d] * B[d,j]", lambda X, A, B: X.sin() + A @ B),
    ],
)
def test_products_with_a_factor_and_a_term(text: str, compute: object) -> None:
    """One product is all there is, and what is given is not written to."""
    inputs = {n: t.clone() for n, t in (("X", X), ("A", A), ("B", B)) if n in text}
    (result,), runs = made_of(text, **inputs)
    assert callable(compute)
    torch.testing.assert_close(result, compute(X, A, B))
    assert not {"mul", "add", "sub"} & {*runs} and "addmm" in runs
    for name, given in (("X", X), ("A", A), ("B", B)):
        assert name not in inputs or torch.equal(inputs[name], given)


def test_what_else_is_read_stays() -> None:
    """A product that is a result itself, and one of which two multiples are taken."""
    product, half, rows = A @ B, 0.5 * (A @ B), (A @ B).amax(1)
    text = "P[i,j] = A[i,d] * B[d,j]\nH[i,j] = 0.5 * P[i,j]\nM[i] = max[j](P[i,j])\nreturn P, H, M"
    results, runs = made_of(text, A=A, B=B)
    for result, expected in zip(results, (product, half, rows), strict=True):
        torch.testing.assert_close(result, expected)
    assert runs.count("mm") == 1 and "addmm" not in runs


def test_a_term_that_is_also_a_factor() -> None:
    """Its memory is not written to while it is read."""
    square = torch.randn(6, 6, generator=torch.Generator().manual_seed(4))
    text = "E[i,j] = exp(S[i,j])\nY[i,j] = E[i,j] + E[i,d] * E[d,j]"
    (result,), _ = made_of(text, S=square)
    torch.testing.assert_close(result, square.exp() + square.exp() @ square.exp())


def test_linear_functions_of_sums() -> None:
    """Products with one factor are one product, also of three terms; those of others are not."""
    C, D = (torch.randn(5, 3, generator=torch.Generator().manual_seed(n)) for n in (5, 6))
    text = "Y[i,j] = sum[d](A[i,d] * B[d,j]) + sum[d](C[i,d] * B[d,j]) - sum[d](D[i,d] * B[d,j])"
    (result,), runs = made_of(text, A=A, B=B, C=C, D=D)
    torch.testing.assert_close(result, (A + C - D) @ B)
    assert [runs.count(n) for n in ("mm", "addmm")] == [1, 0]
    text = "Y[i,j] = sum[d](A[i,d] * B[d,j]) + sum[d](C[i,d] * E[d,j])"
    (result,), runs = made_of(text, A=A, B=B, C=C, E=B + 1)
    torch.testing.assert_close(result, A @ B + C @ (B + 1))
    assert [runs.count(n) for n in ("mm", "addmm")] == [1, 1]


def test_positions_of_the_largest_are_in_range() -> None:
    """Positions are in range, except -1, which no element has."""
    text = "index r < 2\nA[i,r] = argtop[j -> r](X[i,j])\nY[i,r] = Z[A[i,r]]"
    x = X.clone()
    x[0, 1:] = -torch.inf
    (result,), runs = made_of(text, X=x, Z=B[0].contiguous())
    positions = x.topk(2).indices
    expected = B[0][positions]
    expected[0, 1] = 0
    torch.testing.assert_close(result, expected)
    assert sum(runs.count(n) for n in ("lt", "le", "ge", "gt")) == 1
