"""How many registers a thread may have: so many that shared memory decides how many instances a
multiprocessor has."""

from __future__ import annotations

from dataclasses import replace

import pytest

import monocomp as mc
from monocomp import library
from monocomp.backends.schedules import table
from monocomp.backends.schedules.legal import Legal
from monocomp.backends.triton.launch import interpreted
from tests.backends.compiling import compile_for, launches_of, without_elements
from tests.backends.schedules.test_table import spaces, spaces_at

GATHERED = """
input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], R[h,r]
index r < |q| + |k| - 1
O[b,h,q,e] = softmax[k](Q[b,h,q,d] * K[b,h,k,d] + R[h,q - k + |k| - 1]) * V[b,h,k,e]
"""
SIZES = {"b": 4, "h": 16, "q": 4096, "k": 4096, "d": 64, "e": 64}


def limit(legal: Legal) -> int:
    return table.first(legal).registers


@pytest.mark.parametrize("name", ["attention", "causal", "document", "softcap"])
def test_shared_memory_decides(name: str) -> None:
    (legal,) = spaces(name, 4096, 4096, 64)
    schedule = table.first(legal)
    each = (schedule.num_warps * 32, legal.resources.shared(schedule) + 1024)
    instances = min(65536 // (each[0] * schedule.registers), 228 * 1024 // each[1])
    assert instances == 228 * 1024 // each[1] > 65536 // (each[0] * (schedule.registers + 8))


def test_no_limit() -> None:
    """Where a thread may have all that it can, needs far more, or nothing is known of that."""
    (wide,) = spaces("causal", 4096, 4096, 128)
    assert limit(wide) == 0
    few = table.first(spaces("causal", 4096, 4096, 64)[0])
    assert wide.resources.register_limit(replace(few, num_warps=8, num_stages=1)) == 0
    for target in ("cuda:80", "cuda:100", "hip:gfx942"):
        assert limit(spaces("causal", 4096, 4096, 64, target=target)[0]) == 0
    assert limit(spaces_at("causal", {"q": 4096, "k": 4096})[0]) == 0
    assert limit(spaces("causal", 4096, 4096, 64, element_bytes=4)[0]) == 0
    (program,) = mc.compile(GATHERED).tile_programs(SIZES)
    assert limit(Legal(program, {**SIZES, "r": 8191}, 2, "cuda:90", 132)) == 0


def test_what_is_admitted() -> None:
    (legal,) = spaces("causal", 4096, 4096, 64)
    schedule = table.first(legal)
    assert legal.admits(schedule) and legal.admits(replace(schedule, registers=0))
    assert not legal.admits(replace(schedule, registers=schedule.registers // 2))


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
