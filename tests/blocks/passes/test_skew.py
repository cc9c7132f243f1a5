"""`skew`, `persist` and `divide`: what stands where in the text of causal attention. That it means
the same is tried on the library (tests/backends/gluon)."""

from __future__ import annotations

from dataclasses import replace

import pytest

import monocomp as mc
from monocomp import blocks as B
from monocomp import library
from monocomp.backends.gluon.dialect import GLUON
from monocomp.backends.triton.kernel_source import block_program
from monocomp.blocks.passes.division import divide
from monocomp.errors import UnsupportedError


def test_rows_of_products_are_divided() -> None:
    """Rows of products are divided alone: each warpgroup has all columns."""
    (program,) = mc.compile("O[i,j] = A[i,k] * B[k,j]").tile_programs({})
    assert program.axis_names("row") == ["i", "j"]
    assert block_program(program, dialect=GLUON).divided.keys() == {"i"}
    sizes = {"i": 4096, "j": 4096, "k": 4096}
    schedule = GLUON.table.first(GLUON.legal(program, sizes, 2, "cuda:90", 132))
    assert schedule.lengths == {"i": 192, "j": 128, "k": 128}


def test_rows_that_are_summed_are_not_divided() -> None:
    (causal,) = mc.compile(library.load("causal")).tile_programs({})
    made = block_program(causal, GLUON.every_pass[:6], dialect=GLUON)
    assert divide(made).divided.keys() == {"q"}
    rows = B.Expr("name", (), "l_i", ("q",), B.FLOAT32)
    total = B.Expr("reduce", (rows,), B.Reduction("sum", 0), (), B.FLOAT32)
    summed = B.Assign((replace(rows, attr="total", layout=()),), total)
    with pytest.raises(UnsupportedError, match="it folds over q, whose rows are divided"):
        divide(replace(made, body=(*made.body, summed)))
    with pytest.raises(UnsupportedError, match="products have no rows in common"):
        divide(replace(made, axes={**causal.axes, "q": replace(causal.axes["q"], role="grid")}))
