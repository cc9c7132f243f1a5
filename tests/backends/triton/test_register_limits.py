"""How many registers a thread may have: so many that shared memory decides how many instances a
multiprocessor has."""

from __future__ import annotations

import pytest

import monocomp as mc
from monocomp import library
from monocomp.backends.schedules import table
from monocomp.backends.schedules.legal import Legal
from monocomp.backends.triton.launch import interpreted
from tests.backends.compiling import compile_for, launches_of, without_elements

SIZES = {"b": 4, "h": 16, "q": 4096, "k": 4096, "d": 64, "e": 64}


def limit(legal: Legal) -> int:
    return table.first(legal).registers


def test_emitted() -> None:
    """A file says its limit where sizes are given; nothing is known of others."""
    kernel = mc.compile(library.load("causal"))
    assert '    "maxnreg": 128,\n' in kernel.source(target="cuda:90", extents=SIZES)
    assert "maxnreg" not in kernel.source(target="cuda:90")
    assert "maxnreg" not in kernel.source(target="hip:gfx942", extents=SIZES)
    text = kernel.source(target="cuda:90", extents=SIZES, minimal=True)
    assert "maxnreg=128" in text


@pytest.mark.skipif(interpreted(), reason="Triton interprets in this process")
def test_compiled() -> None:
    """It is kept, and costs next to nothing."""
    kernel = mc.compile(library.load("document"))
    programs = kernel.tile_programs(SIZES)
    first = table.first(Legal(programs[0], SIZES, 2, "cuda:90", 132))
    (launch,) = launches_of(kernel, programs, [first], without_elements(kernel, SIZES))
    usage = compile_for("cuda:90", launch)
    assert usage.registers <= first.registers == 128 and usage.spilled <= 32
