"""Kernels that read what others store, on every backend, against the oracle."""

from __future__ import annotations

import pytest
import torch

from tests.backends.running import (
    DISTINCT,
    compiled,
    exact,
    make_inputs,
    run,
)
from tests.backends.storing import PROGRAMS
from tests.backends.tolerances import ALONE, Bound, agree

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


@pytest.mark.parametrize("backend", DISTINCT)
def test_rows_without_elements(backend: str) -> None:
    """A stored sum over nothing is 0, and so is what is divided by it."""
    text = PROGRAMS["lengths"]
    inputs = inputs_for(text)
    inputs["len"] = torch.arange(len(inputs["len"])) % 3
    (found,) = agree(backend, text, inputs, storing=True)
    assert (found[2:] == 0).all()


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
