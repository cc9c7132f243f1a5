"""Liveness, of bodies as short as each reason needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from monocomp import blocks as B
from monocomp.blocks.liveness import moments
from monocomp.blocks.operations import (
    function,
    infix,
    name,
    number,
    over_blocks,
    pointers,
    to,
)

TILE: B.Layout = ("q", "k")
RING = B.Ring("ring", name("desc", B.NONE), B.Block("V", ("k", "e")), number(2))
SUM, HALF = name("acc", B.FLOAT32, ("q", "e")), name("half", B.BFLOAT16, TILE)
RIGHT = name("V_tile", B.Dtype("V_ptr", "float", "tensor"), ("k", "e"))
OPERAND = B.Expr("operand", (HALF,), B.Registers(("q", "e")), TILE, B.BFLOAT16)
PRODUCT = B.Expr("dot", (OPERAND, RIGHT, SUM), None, ("q", "e"), B.FLOAT32)
STORED = pointers(name("O_ptr", B.INT64), ())


def tile(identifier: str, layout: B.Layout = TILE) -> B.Expr:
    return name(identifier, B.FLOAT32, layout)


def made(target: B.Expr, *args: B.Expr) -> B.Assign:
    """A statement that reads values element by element."""
    return B.Assign((target,), B.Expr("fma", args, None, target.layout, target.dtype))


def stored(*values: B.Expr) -> B.Body:
    return tuple(B.Store("O", STORED, x) for x in values)


def most(*body: B.Statement) -> Mapping[tuple[str, int], int]:
    """The values that are live when most bits are, all axes having 8 elements."""
    program = B.BlockProgram("kernel", (), {}, {}, body)
    found = []
    for moment in moments(program):
        values: Counter[tuple[str, int]] = Counter()
        for (axes, bits, _), count in moment:
            values["".join(filter(None, axes)), bits] += count
        found.append(values)
    return max(found, key=lambda m: sum(8 ** len(a) * bits * n for (a, bits), n in m.items()))


def test_branches() -> None:
    """Values that one of two branches reads are live before both."""
    x, y = tile("x"), tile("y")
    test = B.If(name("masked", B.BOOL), (made(y, x),))
    assert most(made(x), made(y, x), test, *stored(y)) == {("qk", 32): 2}
    assert most(made(x), made(y, x), test, made(x), *stored(y)) == {("qk", 32): 2}
    assert most(made(x), made(y, x), B.If(test.test, (made(y, y),)), *stored(y)) == {("qk", 32): 1}


def test_loops() -> None:
    """Values that a loop reads are live throughout, as is a state that it hands on to itself."""
    x, y, state = tile("x"), tile("y"), tile("state", ("q", "e"))
    over = over_blocks("k", number(0), number(64), None)

    def loop(*body: B.Statement) -> B.For:
        return B.For(name("first_k", B.INDEX), over, body)

    carried = (made(x), made(y, x), made(state, state, y))
    assert most(made(state), loop(*carried), *stored(state)) == {("qk", 32): 1, ("qe", 32): 1}
    again = (made(y), made(y, x, y))
    assert most(made(x), loop(*again)) == {("qk", 32): 2}
    assert most(made(x), loop(loop(*again))) == {("qk", 32): 2}


def test_products() -> None:
    """From its issue to its wait a product has its operand in registers, whatever becomes of the
    name; what lies in shared memory takes none."""
    s, issue, wait = tile("s"), B.Issue(SUM, PRODUCT), B.Wait(SUM, 0)
    beside = made(SUM), made(HALF), B.Take(RIGHT, RING), issue
    both = {("qe", 32): 1, ("qk", 16): 1}
    assert most(*beside, wait, *stored(SUM)) == both
    assert most(*beside, made(s), *stored(s), wait, *stored(SUM)) == both | {("qk", 32): 1}
    later = made(s), B.Assign((HALF,), to(s, B.BFLOAT16)), wait, *stored(SUM, HALF)
    assert most(*beside, *later) == both | {("qk", 32): 1}
    ended = wait, made(s), *stored(s, SUM)
    assert most(*beside, *ended) == {("qe", 32): 1, ("qk", 32): 1}


def test_temporaries() -> None:
    """A divisor has a factor for each of its own elements; what is loaded needs pointers."""
    x, rows = tile("x"), tile("rows", ("q",))
    by_tile = B.Assign((x,), infix("/", number(1.0, "float"), function("exp2", x)))
    assert most(made(x), by_tile, *stored(x)) == {("qk", 32): 2}
    column = B.Expr("expand", (rows,), None, ("q", None), B.FLOAT32)
    by_row = B.Assign((x,), infix("/", x, column))
    assert most(made(x), made(rows), by_row, *stored(x)) == {("qk", 32): 1, ("q", 32): 1}
    load = B.Load(HALF, "F", pointers(name("F_ptr", B.INT64), (column,)))
    held = {("qk", 16): 1, ("qk", 64): 1, ("q", 64): 1}
    assert most(made(rows), load, *stored(HALF)) == held
