"""`skew`, `persist` and `divide`: what stands where in the text of causal attention. That it means
the same is tried on the library (tests/backends/gluon)."""

from __future__ import annotations

from dataclasses import replace

import pytest

import monocomp as mc
from monocomp import library
from monocomp.backends.gluon.dialect import GLUON
from monocomp.backends.triton.kernel_source import block_program
from monocomp.blocks.passes.division import divide
from monocomp.blocks.passes.skew import skew
from monocomp.errors import UnsupportedError


def lines_after(name: str, last: str) -> list[str]:
    """Return the text of a library program's only kernel after the passes up to one."""
    (program,) = mc.compile(library.load(name)).tile_programs({})
    passes = GLUON.every_pass[: GLUON.every_pass.index(last) + 1]
    return str(block_program(program, passes, dialect=GLUON)).splitlines()


def at(lines: list[str], words: str, start: int = 0) -> int:
    """Return the number of the first line with these words."""
    return next(n for n in range(start, len(lines)) if words in lines[n])


def test_the_last_product_stands_beside_the_first_of_the_next_block() -> None:
    lines = lines_after("causal", "skew")
    loop = at(lines, "for first_k in")
    first, last = at(lines, "s[q,k]", loop), at(lines, "dot(acc_left", loop)
    assert first < last < at(lines, "s_in[q,k]", loop)
    assert "first_k_behind" in lines[at(lines, "V_tile", loop)]
    # Before the loop a block has its first product alone, and after it its last one.
    assert at(lines, "s[q,k]") < loop
    assert sum("dot(acc_left" in line for line in lines) == 2


def test_loops_without_such_a_product_stay() -> None:
    """A loop whose body has one product has none to move."""
    (program,) = mc.compile("O[i] = sum[k](relu(sum[d](A[i,d] * B[k,d])))").tile_programs({})
    before = block_program(program, GLUON.every_pass[:6], dialect=GLUON)
    assert str(skew(before)) == str(before)


def test_items_are_claimed() -> None:
    lines = lines_after("causal", "persist")
    loop = at(lines, "for item in claims below ITEMS")
    assert "item" in lines[at(lines, "pid", loop)]
    assert not any("program_id" in line for line in lines)


def test_rows_that_are_summed_are_not_divided() -> None:
    (program,) = mc.compile("O[k] = sum[q](A[q] * B[q,k])").tile_programs({})
    blocks = block_program(program, GLUON.every_pass[:6], dialect=GLUON)
    rows = {a.name for a in program.axes.values() if a.role == "row"}
    assert rows == {"k"}
    assert divide(blocks).divided.keys() == rows
    (causal,) = mc.compile(library.load("causal")).tile_programs({})
    axes = {**causal.axes, "k": replace(causal.axes["k"], role="row")}
    made = block_program(causal, GLUON.every_pass[:6], dialect=GLUON)
    with pytest.raises(UnsupportedError, match="it folds over k, whose rows are divided"):
        divide(replace(made, axes=axes))
