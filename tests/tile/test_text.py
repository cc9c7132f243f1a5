"""Tile programs hold together after every pass, and are parsed as what they were."""

from __future__ import annotations

import os
from dataclasses import astuple, replace

import pytest

from monocomp.errors import InternalError
from monocomp.tile import Loop, Statement, TileProgram
from monocomp.tile.parser import parse
from monocomp.tile.verifier import verify_all
from tests.program_generator import program
from tests.tile.kernels import TEXTS, after_passes, kernels

FUZZ = int(os.environ.get("MONOCOMP_FUZZ", "12"))
SEED = int(os.environ.get("MONOCOMP_SEED", "0"))


def without_origins(body: list[Statement]) -> list[Statement]:
    """Text does not tell them."""
    found: list[Statement] = []
    for s in body:
        changed = {"body": without_origins(s.body)} if isinstance(s, Loop) else {}
        found.append(replace(s, origin=None, **changed))
    return found


def check_text(p: TileProgram) -> None:
    again = parse(str(p))
    assert astuple(again) == astuple(replace(p, body=without_origins(p.body)))
    assert list(again.axes) == list(p.axes)
    assert str(again) == str(p)


def check_passes(text: str) -> None:
    """After every pass nothing is wrong, and the text says it all."""
    for found in after_passes(text):
        verify_all(found)
        for p in found:
            check_text(p)


@pytest.mark.one_in(9)
@pytest.mark.parametrize("name", TEXTS)
def test_every_pass(name: str) -> None:
    check_passes(TEXTS[name])


@pytest.mark.parametrize("seed", range(SEED, SEED + FUZZ))
def test_random_programs(seed: int) -> None:
    check_passes(program(seed))


def test_dtypes_of_inputs() -> None:
    (kernel,) = kernels(TEXTS["attention"])
    typed = kernel.of_dtypes({"K": "float8_e4m3fn"})
    assert "K: float[b, h, k, d] as float8_e4m3fn, V: float[b, h, k, e])" in str(typed)
    check_text(typed)


NAMES = """
kernel names(lambda: float[i], k: int, def: int) -> O: float[i]
  row i
  k[i] = lambda[coordinate(i)]
  i[i] = k + float(param(k) + def)
  store O[coordinate(i)] = i
"""


def test_names_that_hide_others() -> None:
    """A local has the name of an axis, or of a parameter; and names are Python's."""
    check_text(parse(NAMES))
    assert str(parse(NAMES)) == NAMES.strip()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("row i", "row i,"),
        ("[coordinate(i)]", "[coordinate(i)"),
        ("k + float", "k + + float"),
        ("k + float", "k ? float"),
        ("float(param(k) + def)", "floated(def)"),
        ("float(param(k) + def)", "float(param(c))"),
        ("float(param(k) + def)", "param(k)"),
        ("= i", "= i i"),
    ],
)
def test_what_is_no_tile_program(old: str, new: str) -> None:
    with pytest.raises(InternalError):
        parse(NAMES.replace(old, new))
