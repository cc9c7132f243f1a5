"""Minimal files: right for the sizes that they are for, and short."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

import monocomp as mc
from monocomp import library
from monocomp.backends.triton.launch import load
from tests.backends import interpreted as interpreter
from tests.backends.library_cases import CASES
from tests.backends.running import poisoned_empty
from tests.backends.tolerances import near


def minimal(name: str, sizes: Mapping[str, int], dtype: str = "bf16", processors: int = 1) -> str:
    kernel = mc.compile(library.load(name), name="kernel", processors=processors)
    return kernel.source(target="cuda:90", dtype=dtype, extents=sizes, minimal=True)


def _run(text: str, inputs: Mapping[str, Tensor], params: Mapping[str, Any]) -> tuple[Tensor, ...]:
    with poisoned_empty():
        found = load(text).kernel(*inputs.values(), **params)
    return found if isinstance(found, tuple) else (found,)


def check(name: str, text: str, sizes: Mapping[str, int]) -> None:
    case = CASES[name]
    inputs = case.inputs(sizes, torch.float32)
    ordered = {n: inputs[n] for n in mc.compile(case.text).declared.inputs}
    found = interpreter.call(_run, text, ordered, case.params)
    near("triton", case.text, inputs, found, 4, **case.params)


@pytest.mark.one_in(9)
@pytest.mark.parametrize("name", CASES)
def test_results_for_known_sizes(name: str) -> None:
    """All of them, which are odd."""
    sizes = CASES[name].sizes(19, 37, 16, 24)
    check(name, minimal(name, sizes, "fp32"), sizes)


@pytest.mark.one_in(9)
@pytest.mark.parametrize("name", CASES)
def test_results_where_lengths_are_left_open(name: str) -> None:
    """Some sizes are constants, others are read off the shapes."""
    sizes = CASES[name].sizes(70, 120, 16, 16)
    known = {i: n for i, n in sizes.items() if n == 16}
    check(name, minimal(name, known, "fp32"), sizes)


def test_rows_that_no_descriptor_can_load() -> None:
    """At d = 20 in 16 bits, which 16 bytes do not divide; at d = 104 they do."""
    for head in (20, 104):
        text = minimal("causal", {"d": head, "e": head})
        assert ("TensorDescriptor" in text) == (head == 104)
        check("causal", text, CASES["causal"].sizes(64, 64, head, head))


@pytest.mark.parametrize("name", ["attention", "gqa"])
def test_results_in_splits(name: str) -> None:
    """Several kernels, of which one merges what the others have stored."""
    sizes = CASES[name].sizes(1, 4096, 16, 16)
    text = minimal(name, sizes, "fp32", processors=32)
    assert text.count("[grid](") > 1
    check(name, text, sizes)


def test_other_sizes_are_refused() -> None:
    """And tensors whose last dimensions have gaps."""
    case = CASES["attention"]
    kernel = load(minimal("attention", {"d": 16, "e": 16})).kernel
    with pytest.raises(AssertionError):
        kernel(*case.inputs(case.sizes(5, 7, 24, 16), torch.float32).values())
    inputs = case.inputs(case.sizes(16, 16, 16, 16), torch.float32)
    with pytest.raises(AssertionError):
        kernel(*(t.transpose(-1, -2) for t in inputs.values()))
