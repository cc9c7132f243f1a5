"""Programs of the library by torch's gradcheck and gradgradcheck, in float64; and results and
gradients of extents of 0."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import monocomp as mc
from monocomp import library
from monocomp.checking.random_inputs import random_inputs
from monocomp.checking.sizes import free_extents
from monocomp.checking.steps import small_params
from monocomp.translation.translator import translate
from tests.agreement import check_gradients, check_outputs
from tests.backends.running import program_of

# Entries of `top` of fewer elements than it takes are -inf, which has no differences.
NO_DIFFERENCES = {"softmax_top8"}
# Small sizes of those that would take long: large caches, and four sums over heads in one another.
_PAGES = {"b": 1, "h": 2, "g": 1, "q": 2, "d": 2, "e": 2, "p": 3, "s": 2, "n": 2}
_HEADS = {"b": 1, "g": 2, "h": 2, "i": 2, "q": 2, "k": 3, "d": 2, "e": 2}
SMALL = {"fp8_cache": _PAGES, "paged_attention": _PAGES, "talking_heads": _HEADS}
CHEAP = ("attention", "gqa", "layer_norm", "learned_sink", "softcap", "softmax", "sparsemax")
CHEAP_AGAIN = ("logsumexp", "softmax")


def case(name: str) -> tuple[Any, list[torch.Tensor]]:
    """A function of a program's floats, and values for them."""
    kernel = mc.compile(library.load(name), backend="torch", name=name)
    params = small_params(kernel.declared)
    drawn = random_inputs(kernel.equations, SMALL.get(name, {}), dtype="float64", params=params)
    given = {n: torch.as_tensor(x) for n, x in drawn.items()}
    floats = [n for n, x in given.items() if x.is_floating_point()]

    def function(*values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = kernel(**{**given, **dict(zip(floats, values, strict=True))}, **params)
        results = found if isinstance(found, tuple) else (found,)
        return tuple(r for r in results if r.requires_grad)

    return function, [given[n].requires_grad_() for n in floats]


def some(names: list[str], cheap: tuple[str, ...]) -> list[Any]:
    return [n if n in cheap else pytest.param(n, marks=pytest.mark.slow) for n in names]


NAMES = sorted({*library.names()} - NO_DIFFERENCES)


@pytest.mark.parametrize("name", some(NAMES, CHEAP))
def test_gradients(name: str) -> None:
    function, values = case(name)
    assert gradcheck(function, values, fast_mode=True)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", some(NAMES, CHEAP_AGAIN))
def test_second_derivatives(name: str) -> None:
    function, values = case(name)
    assert gradgradcheck(function, values, fast_mode=True)


# --- extents of 0 ------------------------------------------------------------------------


# A group of no heads reads at 0, where nothing is.
UNDEFINED = {("gqa", "g")}
SOME = ("causal", "gqa", "layer_norm")


def cases() -> list[Any]:
    """Each program with each of its indices."""
    found = []
    for name in SOME:
        declared = translate(program_of(library.load(name))).declared
        indices = [e.lstrip(".") for e in free_extents(declared)]
        found += [(name, i) for i in indices if (name, i) not in UNDEFINED]
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "index"), cases())
def test_an_index_without_values(name: str, index: str) -> None:
    program = program_of(library.load(name))
    params = small_params(translate(program).declared)
    drawn = random_inputs(translate(program), {index: 0}, dtype="float64", params=params)
    kernel = mc.compile(library.load(name), backend="torch")
    check_outputs(program, kernel, drawn, note=name, params=params)
    check_gradients(program, kernel, drawn, note=name, params=params)
