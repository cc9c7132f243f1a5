"""Kernels that read what others store, on every backend, against the oracle; what is rounded where
a kernel multiplies in 16 bits, and what is multiplied in two limbs."""

from __future__ import annotations

import pytest
import torch

import monocomp as mc
from tests.backends.library_cases import CASES
from tests.backends.running import (
    DISTINCT,
    compiled,
    exact,
    make_inputs,
    run,
)
from tests.backends.storing import PROGRAMS
from tests.backends.tolerances import ALONE, BESIDE_EAGER, Bound, agree

SIZES = {"h": 3, "g": 2, "i": 19, "j": 21, "q": 33, "k": 37, "d": 5, "e": 6, "c": 40}


# Little work: it takes many rows to pay, or a block of them that read the same.
LONG = {"integers and truth values": {"j": 1000}, "a bias a head": {"h": 16}}


def inputs_for(text: str, dtype: torch.dtype = torch.float32, **sizes: int):
    """Random inputs of small sizes, others where they are given."""
    return make_inputs(text, {**SIZES, **sizes}, dtype)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("backend", DISTINCT)
@pytest.mark.parametrize("name", PROGRAMS)
def test_stored_values(name: str, backend: str) -> None:
    """What one kernel stores another one reads, in blocks that stick out."""
    text = PROGRAMS[name]
    inputs = inputs_for(text, **LONG.get(name, {}))
    if name == "lengths":  # some of 0
        inputs["len"] = 5 * torch.arange(len(inputs["len"])) % 38
    bound = Bound(0.0, 4 * ALONE[backend].floor)  # two kernels in a row
    found = run(backend, text, inputs, storing=True)
    for got, wanted in zip(found, exact(text, inputs), strict=True):
        rounding = Bound(0.0, 2**-7)  # of bfloat16, which the interpreter rounds down
        (rounding if got.dtype == torch.bfloat16 else bound).check(got, wanted)
    if backend == "triton":  # its kernel is in another process
        return
    kernel = compiled(text, backend, None, 16, False, True, None, None)
    (programs,) = (p.kernels for p in kernel.planner._plans.values())
    assert any(o.is_stored for p in programs for o in p.outputs)


@pytest.mark.parametrize("backend", DISTINCT)
@pytest.mark.parametrize("empty", ["h", "q", "k", "d"])
def test_nothing_to_store(empty: str, backend: str) -> None:
    """An index without values leaves no rows, or sums over nothing."""
    text = PROGRAMS["column sums"].replace(" / sqrt(|d|)", "")
    agree(backend, text, inputs_for(text, **{empty: 0}), storing=True)


@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_stored_values_are_as_precise_as_sums(backend: str) -> None:
    """In bfloat16, deviations from a mean of 1000 are right to bfloat16's last digit: the
    mean was not rounded to bfloat16 between the kernels."""
    text = (
        "M[i] = mean[k](sum[c](X[i,c] * Y[k,c]))\n"
        "O[j] = sum[i](M[i] * W[i,j]) / 1000\nreturn M, O: float32"
    )
    inputs = inputs_for(text, torch.bfloat16)
    inputs["X"] = inputs["X"].abs() * 8 + 31
    inputs["Y"] = inputs["Y"].abs() / 8 + 4
    inputs["W"] = inputs["W"].sign()
    rounded, found = run(backend, text, inputs, storing=True)
    _, wanted = exact(text, inputs)
    assert rounded.dtype == torch.bfloat16
    Bound(0.0, 1e-4).check(found, wanted.to(found.dtype))


# --- rounding ----------------------------------------------------------------------------


MASKED = "O[i,j] = sum[k if k <= i](A[i,k] * B[k,j])"


def limbs(text: str, **extents: int) -> int:
    """How many products a program's kernels take in limbs."""
    source = mc.compile(text).source("triton", target="cuda:90", dtype="bf16", extents=extents)
    return source.count("dot_in_limbs(") - source.count("def dot_in_limbs(")


@pytest.mark.parametrize(
    ("text", "count", "size"),
    [
        ("O[i,j] = A[i,k] * B[k,j]", 0, 64),
        (MASKED, 0, 64),  # what a mask leaves of an input is an input's
        ("O[i,j] = where(k <= i, -A[i,k], 0) * B[k,j]", 0, 64),
        ("O[i,j] = tanh(A[i,k]) * B[k,j]", 1, 64),
        ("O[i,j] = tanh(A[i,k]) * tanh(B[k,j])", 1, 64),
        ("X[i,j] = A[i,k] * B[k,j]\nO[i,l] = relu(X[i,j]) * C[j,l]", 0, 64),
        ("X[i,j] = A[i,k] * B[k,j]\nO[i,l] = relu(X[i,j]) * tanh(C[j,l])", 1, 4096),
    ],
)
def test_what_is_multiplied_in_limbs(text: str, count: int, size: int) -> None:
    """Computed operands that no product has gone into."""
    extents = dict.fromkeys((i for i in "ijkl" if f"{i}]" in text or f"{i}," in text), size)
    assert limbs(text, **extents) == count


@pytest.mark.parametrize(
    ("name", "q", "k"),
    [
        ("attention_moments", 128, 256),
        pytest.param("talking_heads", 128, 256, marks=pytest.mark.slow),
        ("rms_norm", 1, 1000),
    ],
)
def test_no_worse_than_eager_torch(name: str, q: int, k: int) -> None:
    """In float16, where roundings were seen to add up to more than those of eager torch."""
    case = CASES[name]
    sizes = case.sizes(q, k, 64, 64, 2) | {"q": q, "k": k, "d": 64}
    inputs = case.inputs(sizes, torch.float16)
    found = run("triton", case.text, inputs, name=name, block=None, **case.params)
    wanted = exact(case.text, inputs, **case.params)
    for f, w, e in zip(found, wanted, case.in_eager_torch(inputs), strict=True):
        BESIDE_EAGER[torch.float16].check(f, w, e)


def test_limbs_of_bfloat16() -> None:
    """Two limbs hold 15 bits of what is computed: they show where neighbours nearly cancel."""
    A = torch.linspace(0.5, 3.5, 32 * 16).reshape(32, 16).bfloat16()
    A = torch.stack([A, torch.nextafter(A, torch.tensor(torch.inf).bfloat16())], -1).reshape(32, 32)
    B = torch.zeros(32, 16).bfloat16()
    B[::2], B[1::2] = torch.eye(16), -torch.eye(16)
    (result,) = run("triton", "O[i,j] = tanh(A[i,k]) * B[k,j]", {"A": A, "B": B})
    wanted = A.double().tanh() @ B.double()
    assert wanted.abs().max() > 2**-9 > 2**-12 > wanted.abs().min()
    torch.testing.assert_close(result.double(), wanted, rtol=2.0**-8, atol=2.0**-15)


@pytest.mark.parametrize("value", [300.0, -300.0, torch.inf, torch.nan])
def test_what_16_bits_cannot_hold(value: float) -> None:
    """Overflows to an infinity of its sign, as in eager torch, and does not become NaN."""
    A, B = torch.ones(16, 16), torch.ones(16, 16)
    A[3, 5] = value
    inputs = {"A": A.half(), "B": B.half()}
    (found,) = run("triton", "O[i,j] = A[i,k] ** 3 * B[k,j]", inputs)
    wanted = (inputs["A"] ** 3) @ inputs["B"]
    assert torch.equal(found.nan_to_num(), wanted.nan_to_num())
    assert torch.equal(found.isnan(), wanted.isnan())
