"""Columns of sums of products in an order that suits bytes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import monocomp as mc
from monocomp import blocks as B
from monocomp import library
from monocomp.backends.triton.kernel_source import block_program
from monocomp.backends.triton.launch import interpreted, load
from tests.backends import interpreted as interpreter
from tests.backends.compiling import instructions
from tests.backends.tolerances import near
from tests.backends.triton.test_compile_targets import of_cache

SUM = "input Q[q,d], K[k,d], V[k,e]: int, x[e]\nS[q,k] = Q[q,d] * K[k,d]\n"
CACHE = library.load("int8_cache")


def helpers(text: str, *, op: str = "interleaved") -> int:
    """How often a helper is called in the kernels of a program."""
    bodies = [block_program(k).body for k in mc.compile(text).plan().kernels]
    values = [e for body in bodies for s in B.walk(body) for e in B.roots(s)]
    return sum(x.op == op for e in values for x in B.subexpressions(e))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("O[q,e] = softmax[k](S[q,k]) * V[k,e]", 1),
        ("O[q,e] = x[e] * (softmax[k](S[q,k]) * V[k,e])", 1),
        ("O[q,e] = softmax[k](S[q,k]) * (V[k,e] * x[e])", 1),
        ("O[q,e] = softmax[k](S[q,k]) * where(V[k,e] > 0, x[e], 1)", 0),
        ("O[q,e] = max[k](V[k,e] + S[q,k])", 0),
    ],
)
def test_sums(text: str, count: int) -> None:
    """Columns may be used behind the loop, not within, and maxima are no products."""
    assert helpers(SUM + text) == helpers(SUM + text, op="in_order") == count


def test_floats_are_left_alone() -> None:
    assert helpers(CACHE) == 1
    assert helpers(CACHE.replace(": int, V[b,g,k,e]: int", ", V[b,g,k,e]")) == 0


def run(text: str, *inputs: Tensor) -> Tensor:
    source = mc.compile(text, name="cache").source()
    found: Tensor = load(source).cache(*inputs)
    return found


@pytest.mark.parametrize("columns", [21, 32, 64, 128])
def test_results(columns: int) -> None:
    """In Triton's interpreter, with columns that are in order and in another."""
    seed = torch.Generator().manual_seed(0)
    codes = [torch.randint(-127, 128, (1, 2, 70, n), generator=seed) for n in (16, columns)]
    scales = [torch.rand(1, 2, 70, generator=seed) / 73 for _ in codes]
    rows, length = torch.randn(1, 4, 3, 16, generator=seed), torch.tensor([67])
    inputs = [rows, *(x.to(torch.int8) for x in codes), *scales, length]
    found = interpreter.call(run, CACHE, *inputs)
    named = dict(zip(("Q", "K", "V", "SK", "SV", "length"), inputs, strict=True))
    near("triton", CACHE, named, [found], 4)


@pytest.mark.skipif(interpreted(), reason="Triton interprets in this process")
@pytest.mark.parametrize("name", ["int8_cache", "fp8_cache"])
def test_words_are_read(name: str) -> None:
    """No byte is read by itself from shared memory."""
    for launch in of_cache(name, "cuda:90", 1):
        assert not any(i.startswith("LDS.U8") for i in instructions(launch))
