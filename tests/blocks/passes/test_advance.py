"""`advance`: the order of a gradient's statements. That they mean the same is tried on the library
(tests/backends/gluon)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import monocomp as mc
from monocomp import blocks as B
from monocomp import library
from monocomp.backends.gluon.dialect import GLUON
from monocomp.backends.triton.kernel_source import block_program
from monocomp.blocks.passes.advance import advance

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
