"""Floats of 8 bits that are converted before kernels run."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch

import monocomp as mc
from monocomp import library
from monocomp.source import Emission
from tests.backends.running import run
from tests.backends.test_caches import E4M3, normal
from tests.backends.tolerances import agree

NAME = "float8_e4m3fn"
MANY_ROWS = 2048
MANY = {"b": 1, "h": 2, "q": MANY_ROWS, "k": 1024, "d": 64, "e": 64}
ATTENTION = "input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e]\n"
ATTENTION += "O[b,h,q,e] = softmax[k](Q[b,h,q,d] * K[b,h,k,d]) * V[b,h,k,e]"


def emission(text: str, sizes: Mapping[str, int], narrow: str, backend: str) -> Emission:
    planner = mc.compile(text).planner
    names = planner.equations.declared.extent_of
    floats = (n for n, i in planner.equations.declared.inputs.items() if i.kind == "float")
    dtypes = {n: NAME if n in narrow else "bfloat16" for n in floats}
    known = {names[n]: size for n, size in sizes.items() if n in names}
    return Emission(planner, known, dtypes, "cuda:90", backend)


@pytest.mark.parametrize(
    ("name", "changed", "widened"),
    [
        ("", {}, True),
        ("", {"q": MANY_ROWS // 2}, False),
        ("paged_attention", {}, False),  # of the pages not all may be read
        ("varlen", {}, False),  # nor of keys
        ("int8_cache", {}, False),  # integers stay what they are
    ],
)
def test_what_is_widened(name: str, changed: Mapping[str, int], widened: bool) -> None:
    """What many blocks of rows read, and all of it; then kernels see nothing of the 8 bits."""
    text = library.load(name) if name else ATTENTION
    narrow = "" if name == "int8_cache" else "KV"
    sizes = {**MANY, **changed, "g": 1, "n": 16, "s": 64, "p": 64}
    made = emission(text, sizes, narrow, "triton")
    assert made.module().source.count(".to(dtype)  # many instances read it") == 2 * widened
    read = ((k.inputs, n) for k in made.plan.kernels for n in narrow)
    seen = [inputs[n].dtype for inputs, n in read if n in inputs]
    assert seen.count(NAME) == (0 if widened else len(seen))
    assert {legal.element_bytes for legal in made.legal} == {2}


@pytest.mark.parametrize("narrow", ["V", "KV", "QKV"])
def test_hopper_multiplies_what_is_widened(narrow: str) -> None:
    """A language of products of 16 bits takes it."""
    made = emission(ATTENTION, {**MANY, "d": 128, "e": 128}, narrow, "gluon")
    assert made.module().source.count("many instances read it") == len(narrow)


def test_results() -> None:
    """As of the same numbers in float32."""
    shapes = {"Q": (1, 1, MANY_ROWS + 3, 16), "K": (1, 1, 20, 16), "V": (1, 1, 20, 16)}
    inputs = {n: normal(*shape, seed=len(n)) for n, shape in shapes.items()}
    narrow = {n: x.to(E4M3) if n in "KV" else x for n, x in inputs.items()}
    wide = {n: x.to(torch.float32) for n, x in narrow.items()}
    (found,) = agree("triton", ATTENTION, narrow)
    (right,) = run("triton", ATTENTION, wide)
    assert torch.equal(found, right)
