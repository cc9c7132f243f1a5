"""Tapes of elements that are selected by their position, and of sums of products."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import monocomp as mc
from tests.backends.library_cases import CASES
from tests.backends.running import largest_error, scale_of
from tests.backends.tape.test_tape import tapes_made

PLACES = "input X[k,d], I[k]: int\nindex n < 5\n"


def run(text: str, *inputs: Tensor) -> tuple[Tensor, int]:
    """The result of a program, and the elements of the largest tensor that it took."""
    with tapes_made() as made:
        result = mc.compile(text, backend="torch")(*inputs)
    assert isinstance(result, Tensor) and result.is_contiguous() and not result._is_view()
    return result, made[0].largest


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["sum", "max"])
def test_elements_go_where_they_belong(name: str, dtype: torch.dtype) -> None:
    """Elements of no place take no part, and a place without elements has the unit."""
    X, places = torch.randn(40, 3, dtype=dtype), torch.randint(-1, 7, (40,))
    places[places == 2] = 3
    X[places == 6] = torch.nan
    found, largest = run(f"{PLACES}A[n,d] = exp({name}[k if n == I[k]](X[k,d]))", X, places)
    member = (torch.arange(5)[:, None] == places)[..., None]
    sums, largest_ones = (
        torch.where(member, X, 0).sum(1),
        torch.where(member, X, -torch.inf).amax(1),
    )
    torch.testing.assert_close(found, (sums if name == "sum" else largest_ones).exp())
    assert largest < 5 * X.numel()


def test_elements_are_read_at_positions() -> None:
    """Positions outside read nothing."""
    X, places = torch.randn(40, 3), torch.randint(-2, 43, (9,))
    text = "input X[k,d], I[i]: int\nA[i,d] = sum[k if k == I[i]](X[k,d])"
    found, largest = run(text, X, places)
    inside = (places >= 0) & (places < 40)
    assert torch.equal(found, torch.where(inside[:, None], X[places.clamp(0, 39)], 0))
    assert largest <= X.numel()


def test_places_of_two_indices() -> None:
    """Pages that a table names, and slots in them."""
    X, places = torch.randn(40, 3), torch.randint(-1, 6, (40,))
    text = f"{PLACES}index m < 3\nA[n,m,d] = sum[k if n == I[k // 2] and m == k % 4](X[k,d])"
    found, largest = run(text, X, places)
    wanted = torch.zeros(5, 3, 3)
    for k in range(40):
        n, m = int(places[k // 2]), k % 4
        if 0 <= n < 5 and m < 3:
            wanted[n, m] += X[k]
    torch.testing.assert_close(found, wanted)
    assert largest <= 2 * X.numel()


@pytest.mark.parametrize("count", [0, 1])
def test_few_elements_to_place(count: int) -> None:
    """None, and one."""
    X, places = torch.randn(count, 3), torch.full((count,), 4)
    found, _ = run(f"{PLACES}A[n,d] = sum[k if n == I[k]](X[k,d])", X, places)
    assert torch.equal(found[:4], torch.zeros(4, 3))
    assert torch.equal(found[4], X.sum(0))


@pytest.mark.parametrize(
    ("text", "equation"),
    [
        ("sum[d](A[i,d] * B[j,d] * C[k,d])", "id,jd,kd->ijk"),
        ("sum[d](A[i,d] * C[k,d] * B[j,d] * B[j,d])", "id,jd,jd,kd->ijk"),
    ],
)
def test_products_of_several_factors(text: str, equation: str) -> None:
    """All elements of the product are never there at once."""
    A, B, C = torch.randn(7, 11), torch.randn(13, 11), torch.randn(5, 11)
    found, largest = run(f"input A[i,d], B[j,d], C[k,d]\nO[i,j,k] = {text}", A, B, C)
    factors = [A, B, B, C] if "jd,jd" in equation else [A, B, C]
    torch.testing.assert_close(found, torch.einsum(equation, *factors))
    assert largest < 7 * 13 * 5 * 11


def test_products_with_sums() -> None:
    """Each addend is multiplied by itself."""
    A, B, C = torch.randn(7, 13, 11), torch.randn(7, 11, 9), torch.randn(13, 11, 9)
    text = "input A[i,j,k], B[i,k,d], C[j,k,d]\nO[i,j,d] = sum[k](A[i,j,k] * (B[i,k,d] - C[j,k,d]))"
    found, _ = run(text, A, B, C)
    wanted = torch.einsum("ijk,ikd->ijd", A, B) - torch.einsum("ijk,jkd->ijd", A, C)
    torch.testing.assert_close(found, wanted)


def test_products_with_a_condition() -> None:
    """What a condition excludes is no number; what it excludes for all is in neither factor."""
    A, B, C = torch.randn(40, 30), torch.randn(40, 20), torch.randn(40, 20)
    limits = torch.randint(0, 18, (40,))
    k = torch.arange(20)
    for x in (B, C):
        x[k >= limits[:, None]] = torch.nan
    A[limits == 0] = torch.nan
    text = """input A[q,d], B[q,k], C[q,k], c[q]: int
O[d,k] = sum[q if k < c[q]](A[q,d] * B[q,k] * C[q,k])"""
    found, largest = run(text, A, B, C, limits)
    product = A.nan_to_num()[:, :, None] * (B * C).nan_to_num()[:, None]
    torch.testing.assert_close(found, product.sum(0))
    assert largest < product.numel()


def test_blocks_of_a_stream() -> None:
    """Each row goes over its own elements alone, beside conditions that vary otherwise."""
    X, Y, limits = torch.randn(4, 2), torch.randn(32, 2), torch.randint(0, 33, (4,))
    text = """input X[j,d], Y[k,d], c[j]: int
O[j] = sum[k if j == k // 8 and k < c[j]](exp(sum[d](X[j,d] * Y[k,d])))"""
    found, largest = run(text, X, Y, limits)
    k = torch.arange(32)
    members = (k // 8 == torch.arange(4)[:, None]) & (k < limits[:, None])
    torch.testing.assert_close(found, torch.where(members, (X @ Y.T).exp(), 0).sum(1))
    assert largest <= Y.numel()


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("shift", [0, 3])
def test_first_of_the_largest(name: str, shift: int) -> None:
    """Of equal elements the first one; position 0 where there is none; one step for each."""
    X = torch.randint(0, 4, (9, 40)).float()
    X[0], X[1, 3:] = -torch.inf, -torch.inf
    sign = -1 if name == "argmin" else 1
    text = f"A[i] = {name}[k if {shift} <= k]({sign} * X[i,k])"
    with tapes_made() as made:
        found = mc.compile(text, backend="torch")(X=X)
    wanted = X[:, shift:].numpy().argmax(1) + shift
    wanted[X[:, shift:].amax(1).numpy() == -torch.inf] = 0
    assert found.tolist() == wanted.tolist()
    assert len(made[0].steps) < 16


@pytest.mark.parametrize("summed", ["d", "k"])
def test_tables_that_are_looked_up(summed: str) -> None:
    """Products go with the table, not with what is read of it."""
    q, k, d = 24, 20, 32
    A, T = torch.randn(q, d if summed == "d" else k), torch.randn(9, d)
    position = (torch.arange(k) - torch.arange(q)[:, None]).clamp(-4, 4) + 4
    at = "minimum(maximum(k - q, -4), 4) + 4"
    if summed == "d":
        text = f"input A[q,d], T[r,d]\nindex k < {k}\nO[q,k] = sum[d](A[q,d] * T[{at}, d])"
        wanted = torch.einsum("qd,qkd->qk", A, T[position])
    else:
        text = f"input A[q,k], T[r,d]\nO[q,d] = sum[k](A[q,k] * T[{at}, d])"
        wanted = torch.einsum("qk,qkd->qd", A, T[position])
    found, largest = run(text, A, T)
    torch.testing.assert_close(found, wanted)
    assert largest < q * k * d


@pytest.mark.parametrize("is_given", [True, False])
def test_rows_of_a_table_that_nothing_reads_may_be_anything(is_given: bool) -> None:
    """Positions are known, or given."""
    q, k, d = 24, 20, 32
    A, T = torch.randn(q, k), torch.randn(9, d)
    T[8] = torch.nan
    position = (torch.arange(k) - torch.arange(q)[:, None]).clamp(-4, 3) + 4
    at = "P[q,k]" if is_given else "minimum(maximum(k - q, -4), 3) + 4"
    inputs = "A[q,k], T[r,d], P[q,k]: int" if is_given else "A[q,k], T[r,d]"
    text = f"input {inputs}\nO[q,d] = sum[k](A[q,k] * T[{at}, d])"
    found, largest = run(text, A, T, *([position] if is_given else ()))
    torch.testing.assert_close(found, torch.einsum("qk,qkd->qd", A, T[position]))
    assert is_given or largest < q * k * d


@pytest.mark.parametrize("name", ["t5", "shaw_values", "paged_attention", "two_simplicial"])
def test_gradients_of_what_is_looked_up(name: str) -> None:
    """They are as near to float64 as those of eager torch."""
    case = CASES[name]
    inputs = case.inputs(case.sizes(33, 40, 8, 8))
    floats = {n: t.requires_grad_() for n, t in inputs.items() if t.dtype == torch.float32}

    def gradients(compute: object, tensors: dict[str, Tensor]) -> list[Tensor]:
        made = compute(tensors)  # type: ignore[operator]
        first = made[0] if isinstance(made, tuple) else made
        cotangent = torch.linspace(-1, 1, first.numel()).reshape(first.shape).to(first.dtype)
        return list(torch.autograd.grad(first, [tensors[n] for n in floats], cotangent))

    kernel = mc.compile(case.text, backend="torch")
    found = gradients(lambda x: kernel(**x, **case.params), inputs)
    eager = gradients(case.in_eager_torch, inputs)
    wide = {
        n: t.detach().double().requires_grad_() if n in floats else t for n, t in inputs.items()
    }
    exact = gradients(case.in_eager_torch, wide)
    for x, y, z in zip(found, eager, exact, strict=True):
        error = largest_error(x, z)
        assert error <= 2 * largest_error(y, z) + 1e-6 * max(1.0, scale_of(z))
