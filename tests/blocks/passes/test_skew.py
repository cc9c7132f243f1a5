"""`skew`, `persist`, `divide`, `advance` and `end_products`: what stands where in their texts.

They mean the same: the library is run in tests/backends/gluon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

import monocomp as mc
from monocomp import blocks as B
from monocomp import library
from monocomp.backends.gluon.dialect import GLUON
from monocomp.backends.triton.kernel_source import block_program
from monocomp.blocks.passes.advance import advance
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


# --- products that end before the next block, and others --------------------------------


ROW = "input A[i,k], B[k,j], C[k,l]\n"


@pytest.mark.parametrize(
    ("text", "is_ended"),
    [
        ("O[i,j] = A[i,k] * B[k,j]", False),  # as it is loaded
        ("O[i,j] = exp(A[i,k]) * B[k,j]", True),  # computed from what is loaded
        ("O[i,j] = exp(sum[l](A[i,l] * C[k,l])) * B[k,j]", False),  # from a product of the block
        (library.load("attention"), False),
        (library.load("linear_attention"), True),
    ],
)
def test_products_that_are_ended(text: str, is_ended: bool) -> None:
    text = text if "input" in text else ROW + text
    stages = mc.compile(text).stages
    assert ("ended(" in stages["blocks"]) == is_ended
    assert "ended(" not in stages.before("end_products")


# --- folds that are read more than once ---------------------------------------------------


@pytest.mark.parametrize(
    ("text", "is_held"),
    [
        ("O[i,j] = sum[k](cos(A[i,k] - sum[k](A[i,k])) * B[k,j])", False),
        ("S[i] = sum[k](A[i,k])\nO[i,j] = sum[k](cos(A[i,k] - S[i] * S[i]) * B[k,j])", True),
        ("S[i] = sum[k](A[i,k] ** 2)\nO[i,j] = sum[k](cos(A[i,k] - S[i] * S[i]) * B[k,j])", False),
        ("O[i,j] = sum[k](cos(A[i,k] - tanh(sum[k](A[i,k]))) * B[k,j])", True),  # by a function
        ("O[i,j] = sum[k](A[i,k] * B[k,j]) * logsumexp[k](A[i,k])", False),
        # A maximum that is read behind its loop, in another one.
        ("O[i,j] = logsumexp[k](A[i,k]) * sum[k](cos(A[i,k] + max[l](A[i,l])) * B[k,j])", True),
    ],
)
def test_folds_that_are_held(text: str, is_held: bool) -> None:
    """Ends of loaded tiles, not of computed ones, where one read is not all."""
    stages = mc.compile(text).stages
    assert (stages.before("hold_folds") != stages.after("hold_folds")) == is_held


# --- `advance` ---------------------------------------------------------------------------


BEFORE = GLUON.every_pass[: GLUON.every_pass.index("skew")]


def loop_of(program: B.BlockProgram) -> B.Body:
    """The body of the loop that multiplies."""
    (found,) = (
        s.body
        for s in B.walk(program.body)
        if isinstance(s, B.For) and any(_is_product(x) for x in s.body)
    )
    return found


def order_of(body: Sequence[B.Statement]) -> list[str]:
    """The results of products and of conditions in it, in order."""
    found = []
    for s in body:
        if _is_product(s):
            found.append(s.targets[0].attr)  # type: ignore[union-attr]
        elif isinstance(s, B.If) and not s.orelse:  # no choice of how to load
            found.append(" ".join(t.attr for x in s.body for t in B.targets(x)))
    return found


def _is_product(s: B.Statement) -> bool:
    return isinstance(s, B.Assign) and s.value.op == "dot"


@pytest.mark.parametrize("name", ["causal", "attention"])
def test_gradient(name: str) -> None:
    """Both first products are issued before anything waits, and dS is made from the masked P, so
    that P itself is kept for nothing."""
    program = mc.compile(mc.grad(library.load(name))).tile_programs({})[-1]
    before = loop_of(block_program(program, BEFORE, dialect=GLUON))
    body = advance(before)
    assert order_of(before) == order_of(body)
    names = [t.attr for s in body for t in B.targets(s)]
    assert names.index("dP") < names.index("P")
    assert names.index("dV_acc") > names.index("dS_in")
    reads = {t.attr: B.names_of((s,)) for s in body for t in B.targets(s)}
    assert "P_in" in reads["dS_in"] and "P" not in reads["dS_in"]
