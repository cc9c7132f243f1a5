"""Operations that torch does together: each comes to what its parts do, in fewer steps."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import monocomp as mc
from monocomp.backends.tape.recorder import Recorder, Value
from monocomp.backends.tape.tape import Tape
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
        ("Y[i,j] = exp(X[i,j]) + A[i,d] * B[d,j]", lambda X, A, B: X.exp() + A @ B),
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


def test_exponentials_are_natural() -> None:
    """exp2(log2(e) * x) takes one step, and is 0 of -inf."""
    x = X.clone()
    x[0, :3] = -torch.inf
    x[1] = -torch.inf
    (result,), runs = made_of("L[i] = logsumexp[j](X[i,j])", X=x)
    torch.testing.assert_close(result, x.logsumexp(1))
    assert runs.count("exp") == 1 and not {"exp2", "mul"} & {*runs}
    (result,), runs = made_of("Y[i,j] = exp(X[i,j] - Z[i,j])", X=X, Z=2 * X)
    torch.testing.assert_close(result, (-X).exp())
    assert runs.count("exp") == 1 and "exp2" not in runs


def test_exponents_with_factors() -> None:
    """A factor log2(e) is taken out of each term, or of none."""
    x, y, s = torch.rand(5, 7), torch.rand(5), torch.rand(5, 7)
    recorder = Recorder(4)
    inputs = [
        recorder.input(n, tuple(t.shape), t.dtype) for n, t in enumerate((x, y[:, None], s, s + 1))
    ]
    X, Y, S, T = inputs
    log2_e = recorder.constant("log2(e)", torch.tensor(math.log2(math.e)))

    def step(key: str, run: Callable[..., Tensor], *operands: Value) -> Value:
        return recorder.step(key, run, operands, (5, 7), x.dtype)

    scaled = recorder.step("mul", torch.mul, (log2_e, Y), (5, 1), x.dtype)
    for factor, divides in ((T, False), (step("mul", torch.mul, log2_e, T), True)):
        term = step("mul", torch.mul, step("mul", torch.mul, S, factor), X)
        result = step("exp2", torch.exp2, step("sub", torch.sub, term, scaled))
        made = Tape(recorder.steps, inputs, [result])
        expected = torch.exp2(
            s * (s + 1) * x * (math.log2(math.e) if divides else 1) - math.log2(math.e) * y[:, None]
        )
        torch.testing.assert_close(made.run(x, y[:, None], s, s + 1)[0], expected)
        assert (torch.exp in [s.run for s in made.steps]) == divides


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


@pytest.mark.parametrize("other", [0.0, 1.0])
def test_sums_of_choices(other: float) -> None:
    """Under one condition, between a value and 0, they are one choice."""
    recorder, float32 = Recorder(3), torch.float32
    c, x, y = (recorder.input(n, (5,), d) for n, d in enumerate((torch.bool, float32, float32)))
    number = recorder.constant("other", torch.tensor(other))
    chosen = [
        recorder.step("where", torch.where, [c, v, number], (5,), float32, takes_out=True)
        for v in (x, y)
    ]
    total = recorder.step("sub", torch.sub, chosen, (5,), float32, takes_out=True)
    tape = Tape(recorder.steps, recorder.inputs, [total])
    holds = torch.tensor([True, False, True, False, False])
    found = tape.run(holds, X[0, :5], X[1, :5])[0]
    assert torch.equal(found, torch.where(holds, X[0, :5] - X[1, :5], 0))
    assert len(tape.steps) == (3 if other else 2)


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
