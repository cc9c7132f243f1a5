"""What a stage holds is data: rebuilt from its text, or from its pickled parts, it is the same."""

from __future__ import annotations

import pickle
from typing import TypeVar

import pytest

import monocomp as mc
from monocomp import library
from monocomp.backends.dialects import DIALECTS
from monocomp.backends.triton.kernel_source import source_of
from monocomp.blocks.verifier import verify as verify_blocks
from monocomp.errors import MonocompError, UnsupportedError
from monocomp.host.verifier import verify as verify_host
from monocomp.language.checker import check
from monocomp.planning.plan import Planner
from monocomp.source import Emission
from monocomp.tile.verifier import verify_all
from monocomp.translation.translator import translate

V = TypeVar("V")


def rebuilt(value: V) -> V:
    found: V = pickle.loads(pickle.dumps(value))
    assert found is not value
    return found


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", library.names())
def test_equations_are_parsed_as_what_they_were(name: str) -> None:
    """After every step, term by term."""
    for step in mc.compile(library.load(name)).plan().rewrites:
        again, text = translate(check(step.program.text())), step.program.text()
        assert again.text() == text
        assert [e.body for e in again.equations] == [e.body for e in step.program.equations]


@pytest.mark.one_in(17)
@pytest.mark.parametrize("name", library.names())
def test_plans_of_gradients_are_verified(name: str) -> None:
    try:
        found = mc.grad(library.load(name))
    except MonocompError:  # which has none
        return
    for program in (found.forward, found.equations):
        try:
            plan = Planner(program).plan(processors=132)
        except UnsupportedError:
            continue
        plan.verify()
        verify_all(plan.kernels)


@pytest.mark.one_in(17)
@pytest.mark.parametrize("language", DIALECTS)
@pytest.mark.parametrize("name", library.names())
def test_stages_are_rebuilt(name: str, language: str) -> None:
    kernel = mc.compile(library.load(name), name=name)
    plan = kernel.plan()
    assert rebuilt(kernel.equations) == kernel.equations
    again = rebuilt(plan)
    assert str(again) == str(plan) and str(again.derivation) == str(plan.derivation)
    assert again.program == plan.program  # whose terms are the very same
    again.verify()
    verify_all(again.kernels)
    try:
        made = Emission(kernel.planner, {}, backend=language).module()
    except UnsupportedError:
        return
    for one, other in zip(made.kernels, rebuilt(made).kernels, strict=True):
        verify_blocks(other)
        assert str(other) == str(one)
        dialect = DIALECTS[language]()
        assert source_of(other, dialect).lines == source_of(one, dialect).lines
    verify_host(rebuilt(made.program))
    assert rebuilt(made.program) == made.program
