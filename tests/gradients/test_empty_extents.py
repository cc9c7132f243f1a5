"""Extents of 0: results and gradients of programs, each index in turn without values."""

from __future__ import annotations

from typing import Any

import pytest

import monocomp as mc
from monocomp import library
from monocomp.checking.random_inputs import random_inputs
from monocomp.checking.sizes import free_extents
from monocomp.checking.steps import small_params
from monocomp.translation.translator import translate
from tests.agreement import check_gradients, check_outputs
from tests.backends.running import program_of

# A group of no heads reads at 0, where nothing is.
UNDEFINED = {("gqa", "g")}
NAMES = ("causal", "gqa", "layer_norm")


def cases() -> list[Any]:
    """Each program with each of its indices."""
    found = []
    for name in NAMES:
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
