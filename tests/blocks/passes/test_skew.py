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
from monocomp.errors import UnsupportedError


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
