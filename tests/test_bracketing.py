"""Streams in parts: the parts cover the stream, results stay, and rows are packed."""

from __future__ import annotations

import pytest
import torch
import z3

import monocomp as mc
from monocomp.lowering.bracketing import ALIGNMENT
from tests.backends.library_cases import CASES
from tests.backends.running import run

PROCESSORS = 64
LENGTH = 613  # three parts, the last one short
# Programs that stay whole, and why.
WHOLE = {
    "softmax": "an output along the stream",
    "sparsemax": "an output along the stream",
    "attention_statistics": "a centre that moves",
    "log_softmax_statistics": "a centre that moves",
    "cross_entropy": "a centre that moves",
    "kl_divergence": "a centre that moves",
    "variance": "a centre that moves",
    "layer_norm": "a centre that moves",
    "softmax_top8": "a list of the largest",
}


def test_parts_are_a_disjoint_cover() -> None:
    """For any length and number of parts each element is in exactly one part."""
    length, parts, k, s = z3.Ints("length parts k s")
    whole = ALIGNMENT * parts
    part = ALIGNMENT * ((length + whole - 1) / whole)
    given = [length >= 0, parts >= 1, k >= 0, k < length]
    inside = z3.And(s >= 0, s < parts, s * part <= k, k < (s + 1) * part)
    solver = z3.Solver()
    solver.add(*given, part >= 1, parts * part < length)
    assert solver.check() == z3.unsat  # long enough
    one = z3.Solver()
    quotient = z3.Int("quotient")  # k // part is the part, and the only one
    one.add(*given, part >= 1, quotient * part <= k, k < (quotient + 1) * part)
    one.add(inside, s != quotient)
    assert one.check() == z3.unsat


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if not c.same_kernel_as])
def test_results_stay(name: str) -> None:
    """Few rows and a long stream: the results are those of the program as it is."""
    case = CASES[name]
    sizes = case.sizes(3, LENGTH, 8, 8)
    if case.extents.get("k") == "q" or name in ("two_simplicial", "talking_heads", "pair_bias"):
        sizes = case.sizes(3, LENGTH, 8, 8) | {"k": LENGTH}
    kernel = mc.compile(case.text, processors=PROCESSORS, backend="torch")
    extents = {kernel.program.extent_of[n]: size for n, size in sizes.items()}
    rules = [s.rule for s in kernel._cut(extents)[1]]
    if name in WHOLE:
        assert "split_stream" not in rules
        return
    if "split_stream" not in rules:
        pytest.skip("nothing is long and shared by few rows")
    for shift in (0.0, 20.0):
        inputs = case.inputs(sizes, shift=shift)
        expected = run("torch", case.text, inputs, **case.params)
        for backend in ("numpy", "torch", "triton"):
            found = run(backend, case.text, inputs, processors=PROCESSORS, **case.params)
            for x, y in zip(found, expected, strict=True):
                assert torch.allclose(x.double(), y.double(), rtol=2e-4, atol=2e-5), backend
