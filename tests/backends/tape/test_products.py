"""Tapes of elements that are selected by their position, and of sums of products: results are the
oracle's, and no tensor has all elements of a product; operations that torch does together come to
what their parts do, in fewer steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import permutations
from typing import Any

import pytest
import torch
from torch import Tensor

import monocomp as mc
from benchmarks.cpu import SIZES, inputs_at
from tests.backends.library_cases import CASES
from tests.backends.running import make_inputs
from tests.backends.tape.test_tape import tapes_made
from tests.backends.tolerances import Bound, near

PLACES = "input X[k,d], I[k]: int\nindex n < 5\n"


def largest(text: str, *inputs: Tensor) -> int:
    """Compare the results of a program with the oracle's; return the elements of the largest tensor
    that its tape takes."""
    kernel = mc.compile(text, backend="torch")
    with tapes_made() as made:
        result = kernel(*inputs)
    assert isinstance(result, Tensor) and result.is_contiguous() and not result._is_view()
    named = dict(zip(kernel.declared.inputs, inputs, strict=True))
    near("torch", text, named, [result.double() if result.is_floating_point() else result], 4)
    return int(made[0].largest)


@pytest.mark.parametrize("name", ["sum", "max"])
def test_elements_go_where_they_belong(name: str) -> None:
    """Elements of no place take no part, and a place without elements has the unit."""
    X, places = torch.randn(40, 3), torch.randint(-1, 7, (40,))
    places[places == 2] = 3
    X[places == 6] = torch.nan
    text = f"{PLACES}A[n,d] = exp({name}[k if n == I[k]](X[k,d]))"
    assert largest(text, X, places) < 5 * X.numel()
    for count in (0, 1):
        largest(text, X[:count], torch.full((count,), 4))


@pytest.mark.parametrize("dims", [*map(",".join, permutations("bgqr"))][::5])
def test_elements_at_positions_are_in_their_order(dims: str) -> None:
    """Torch lays them out as the positions lie."""
    text = f"input L[{dims}]: int, K[b,g,k,d]\nO[b,q,g,r,d] = K[b, g, L[{dims}], d]"
    sizes = {"b": 1, "g": 2, "q": 5, "r": 3}
    positions = torch.randint(0, 7, [sizes[d] for d in dims.split(",")])
    largest(text, positions, torch.randn(1, 2, 7, 4))


def test_elements_are_read_at_positions() -> None:
    """Positions outside read nothing."""
    X, places = torch.randn(40, 3), torch.randint(-2, 43, (9,))
    text = "input X[k,d], I[i]: int\nA[i,d] = sum[k if k == I[i]](X[k,d])"
    assert largest(text, X, places) <= X.numel()


def test_places_of_two_indices() -> None:
    """Pages that a table names, and slots in them."""
    X, places = torch.randn(40, 3), torch.randint(-1, 6, (40,))
    text = f"{PLACES}index m < 3\nA[n,m,d] = sum[k if n == I[k // 2] and m == k % 4](X[k,d])"
    assert largest(text, X, places) <= 2 * X.numel()


@pytest.mark.parametrize("batch", ["", "b,"])
@pytest.mark.parametrize("rows", [1, 4, 8])
def test_few_rows_are_multiplied_in_their_order(batch: str, rows: int) -> None:
    """Copy the one with few rows of two transposed matrices."""
    text = (
        f"input W[{batch}c,h], Z[{batch}n,c]\nO[{batch}h,n] = sum[c](W[{batch}c,h] * Z[{batch}n,c])"
    )
    sizes = (2,) if batch else ()
    inputs = torch.randn(*sizes, 3, rows), torch.randn(*sizes, 40, 3)
    largest(text, *inputs)
    with tapes_made() as made:
        mc.compile(text, backend="torch")(*inputs)
    ((rows_read, columns),) = (s.operands for s in made[0].steps if s.run in (torch.mm, torch.bmm))
    assert rows_read.is_contiguous == (rows < 8) and not columns.is_contiguous


@pytest.mark.parametrize(
    ("product", "shapes"),
    [
        ("O[i,j,k] = sum[d](A[i,d] * B[j,d] * C[k,d])", [(7, 11), (13, 11), (5, 11)]),
        ("O[i,j,k] = sum[d](A[i,d] * C[k,d] * B[j,d] * B[j,d])", [(7, 11), (13, 11), (5, 11)]),
        (
            "O[i,j,d] = sum[k](A[i,j,k] * (B[i,k,d] - C[j,k,d]))",
            [(7, 5, 11), (7, 11, 9), (5, 11, 9)],
        ),
    ],
)
def test_products_of_several_factors(product: str, shapes: list[tuple[int, ...]]) -> None:
    """All elements of the product are never there at once; addends are multiplied one by one."""
    reads = {name: product[product.index(f"{name}[") :].partition("]")[0] + "]" for name in "ABC"}
    text = f"input {', '.join(reads.values())}\n{product}"
    assert largest(text, *map(torch.randn, shapes)) < 7 * 13 * 5 * 11


def test_products_with_a_condition() -> None:
    """What a condition excludes is no number; what it excludes for all is in neither factor."""
    A, B, C = torch.randn(40, 30), torch.randn(40, 20), torch.randn(40, 20)
    limits = torch.randint(0, 18, (40,))
    for x in (B, C):
        x[torch.arange(20) >= limits[:, None]] = torch.nan
    A[limits == 0] = torch.nan
    text = """input A[q,d], B[q,k], C[q,k], c[q]: int
O[d,k] = sum[q if k < c[q]](A[q,d] * B[q,k] * C[q,k])"""
    assert largest(text, A, B, C, limits) < 40 * 30 * 20


def test_sums_of_addends_with_a_condition() -> None:
    """A product with a sum is that of each addend where the condition holds, also along an index
    that neither has."""
    A, S, D, Q = (torch.randn(24, *n) for n in ((5,), (5,), (), (16,)))
    text = """input A[q,g], S[q,g], D[q], Q[q,d]
index k < 12
O[k,g,d] = sum[q if 2 * k <= q](A[q,g] * (S[q,g] - D[q]) * Q[q,d])"""
    largest(text, A, S, D, Q)


def test_blocks_of_a_stream() -> None:
    """Each row goes over its own elements alone, beside conditions that vary otherwise."""
    X, Y, limits = torch.randn(4, 2), torch.randn(32, 2), torch.randint(0, 33, (4,))
    text = """input X[j,d], Y[k,d], c[j]: int
O[j] = sum[k if j == k // 8 and k < c[j]](exp(sum[d](X[j,d] * Y[k,d])))"""
    assert largest(text, X, Y, limits) <= Y.numel()


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("shift", [0, 3])
def test_first_of_the_largest(name: str, shift: int) -> None:
    """The first of equal elements is meant; position 0 where there is none."""
    X = torch.randint(0, 4, (9, 40)).float()
    if name == "argmax":  # -inf stands for what is not there
        X[0], X[1, 3:] = -torch.inf, -torch.inf
    largest(f"A[i] = {name}[k if {shift} <= k](X[i,k])", X)


AT = "minimum(maximum(k - q, -4), 3) + 4"


@pytest.mark.parametrize(
    ("text", "is_known"),
    [
        (f"input A[q,d], T[r,d]\nindex k < 20\nO[q,k] = sum[d](A[q,d] * T[{AT}, d])", True),
        (f"input A[q,k], T[r,d]\nO[q,d] = sum[k](A[q,k] * T[{AT}, d])", True),
        ("input A[q,k], T[r,d], P[q,k]: int\nO[q,d] = sum[k](A[q,k] * T[P[q,k], d])", False),
    ],
)
def test_tables_that_are_looked_up(text: str, is_known: bool) -> None:
    """Products go with the table, not with what is read of it; a row that nothing reads may be
    anything."""
    T = torch.randn(9, 32)
    T[8] = torch.nan
    position = (torch.arange(20) - torch.arange(24)[:, None]).clamp(-4, 3) + 4
    A = torch.randn(24, 32 if "A[q,d]" in text else 20)
    assert largest(text, A, T, *(() if is_known else (position,))) < 24 * 20 * 32 or not is_known


# --- operations that torch does together -------------------------------------------------


X = torch.randn(5, 7, generator=torch.Generator().manual_seed(1))
B = torch.randn(3, 7, generator=torch.Generator().manual_seed(3))


def made_of(text: str, **inputs: Tensor) -> tuple[tuple[Tensor, ...], list[str]]:
    """Return the results of a program, and the names of what its tape runs, but for views."""
    with tapes_made() as tapes:
        results = mc.compile(text, backend="torch")(**inputs)
    (tape,) = tapes
    runs = [getattr(s.run, "func", s.run).__name__ for s in tape.steps]
    return results if isinstance(results, tuple) else (results,), runs


FUSED = [  # with how many products torch computes, and adds to something
    *(
        (f"Y[i,j] = {text}", {"addmm": 1, "mm": 0, "mul": 0, "add": 0, "sub": 0})
        for text in (
            "0.5 * (A[i,d] * B[d,j])",
            "A[i,d] * B[d,j] + X[i,j]",
            "X[i,j] - sum[d](A[i,d] * B[d,j])",
            "sin(X[i,j]) + A[i,d] * B[d,j]",
            "0.5 * (A[i,d] * B[d,j]) + X[i,j]",
        )
    ),
    (  # a product that is a result itself, and of which two multiples are taken
        "P[i,j] = A[i,d] * B[d,j]\nH[i,j] = 0.5 * P[i,j]\nM[i] = max[j](P[i,j])\nreturn P, H, M",
        {"mm": 1, "addmm": 0},
    ),
    # The memory of a term that is also a factor is not written to while it is read.
    ("E[i,j] = exp(S[i,j])\nY[i,j] = E[i,j] + E[i,d] * E[d,j]", {}),
    # Products with one factor are one product, also of three terms; those of others are not.
    (
        "Y[i,j] = sum[d](A[i,d] * B[d,j]) + sum[d](C[i,d] * B[d,j]) - sum[d](D[i,d] * B[d,j])",
        {"mm": 1, "addmm": 0},
    ),
    ("Y[i,j] = sum[d](A[i,d] * B[d,j]) + sum[d](C[i,d] * E[d,j])", {"mm": 1, "addmm": 1}),
    (  # with a factor of rows
        "Y[i,j] = sum[d](A[i,d] * B[d,j]) - x[i] * sum[d](C[i,d] * B[d,j])",
        {"mm": 1, "addmm": 0},
    ),
    ("Y[i,j] = sum[d](A[i,d] * B[d,j]) - z[j] * sum[d](C[i,d] * B[d,j])", {"mm": 2}),
]


@pytest.mark.parametrize(("text", "counts"), FUSED)
def test_operations_that_torch_does_together(text: str, counts: dict[str, int]) -> None:
    """Results are the oracle's, and what is given is not written to."""
    inputs = make_inputs(text, {"i": 6} if "S[" in text else {"i": 5, "j": 7, "d": 3})
    before = {n: t.clone() for n, t in inputs.items()}
    results, runs = made_of(text, **inputs)
    near("torch", text, before, results, 4)
    assert {n: runs.count(n) for n in counts} == counts
    assert all(torch.equal(before[n], t) for n, t in inputs.items())


def test_positions_of_the_largest_are_in_range() -> None:
    """Positions are in range, except -1: what is read there may be any element."""
    text = "index r < 2\nA[i,r] = argtop[j -> r](X[i,j])\nY[i,r] = Z[A[i,r]]"
    x = X.clone()
    x[0, 1:] = -torch.inf
    (result,), runs = made_of(text, X=x, Z=B[0].contiguous())
    expected = B[0][x.topk(2).indices]
    expected[0, 1] = result[0, 1]
    torch.testing.assert_close(result, expected)
    assert sum(runs.count(n) for n in ("lt", "le", "ge", "gt")) == 1


def test_sums_of_sums_are_one() -> None:
    A = torch.randn(6, 40, 30)
    (result,), runs = made_of("O[i] = sum[k](sum[j](A[i,j,k] * 1))", A=A)
    torch.testing.assert_close(result, A.sum((1, 2)), rtol=1e-4, atol=1e-4)
    assert runs.count("sum") == 1


# --- gradients at the sizes that are timed ----------------------------------------------

# A gradient adds up more than a result, in an order of its own.
GRADIENTS = Bound(4.0, 2e-6)


def gradients(
    compute: Callable[[Mapping[str, Tensor]], Any], inputs: Mapping[str, Tensor], dtype: torch.dtype
) -> tuple[Tensor, ...]:
    """The gradients of results, with the same weights in all dtypes, by all floats."""
    floats = {n: t.detach().to(dtype) for n, t in inputs.items() if t.dtype == torch.float32}
    for t in floats.values():
        t.requires_grad_()
    made = compute({**inputs, **floats})
    results = [x for x in (made if isinstance(made, tuple) else (made,)) if x.is_floating_point()]
    random = torch.Generator().manual_seed(0)
    weights = [torch.randn(x.shape, generator=random).to(dtype) for x in results]
    return torch.autograd.grad(results, [*floats.values()], weights, materialize_grads=True)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CASES)
def test_gradients_at_benchmarked_sizes(name: str, size: str) -> None:
    """Compare a first call, and those that repeat it."""
    case = CASES[name]
    inputs = inputs_at(case, size)
    eager, wanted = (
        gradients(case.in_eager_torch, inputs, dtype) for dtype in (torch.float32, torch.float64)
    )
    kernel = mc.compile(case.text, backend="torch")
    for _ in range(3):
        found = gradients(lambda x: kernel(**x, **case.params), inputs, torch.float32)
        for ours, exact, usual in zip(found, wanted, eager, strict=True):
            GRADIENTS.check(ours, exact, usual)
