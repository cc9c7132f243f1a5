"""`end_products`: products end before the next block overwrites what they read.

On Hopper a product may have its left operand in registers, and Triton lets the last product of a
block run on while the next block begins: ptxas gives these registers away too early
(triton-lang/triton, issue 9433; seen on an H200 with Triton 3.6.0, where a gradient of linear
attention was infinite). Where the next block computes the operand from a product of its own, it
waits for that, and so for all before. Elsewhere the sum is read at the end of the block, which
waits as well.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from functools import partial

from monocomp import blocks as B
from monocomp.blocks.operations import helper

PRODUCTS = ("dot", "dot_in_limbs")
_MOVED = ("trans", "reshape")


def end_products(program: B.BlockProgram) -> B.BlockProgram:
    """End the products in loops whose left operands are computed from no other product there."""
    return replace(program, body=_ended(program.body))


def is_made(e: B.Expr, made: Set[str]) -> bool:
    """True if a value is made from a product, or from names that are."""
    return not made.isdisjoint(e.read_names) or any(x.op in PRODUCTS for x in B.subexpressions(e))


def _ended(body: B.Body) -> B.Body:
    """Return the statements that are in no loop."""
    return tuple(
        B.inside(s, _of_new_loop if isinstance(s, B.For | B.While) else _ended) for s in body
    )


def _of_new_loop(body: B.Body) -> B.Body:
    return _of_loop(body, set(), set())


def _of_loop(body: B.Body, computed: set[str], made: set[str]) -> B.Body:
    """Return the statements of a loop, after others that have computed names, some of them from
    products."""
    statements: list[B.Statement] = []
    for s in body:
        within = partial(_of_loop, computed=computed, made=made)
        s = B.inside(s, _of_new_loop if isinstance(s, B.For | B.While) else within)
        statements.append(s)
        values = B.subexpressions(s.value) if isinstance(s, B.Assign) else ()
        if isinstance(s, B.Assign) and any(_runs_on(x, computed, made) for x in values):
            (sum_,) = s.targets
            ended = helper("ended", sum_, layout=sum_.layout, dtype=sum_.dtype)
            statements.append(replace(s, value=ended))
        for inner in (x for x in B.walk((s,)) if isinstance(x, B.Assign)):
            names = {t.attr for t in inner.targets}
            computed |= names
            made |= names if is_made(inner.value, made) else set()
    return tuple(statements)


def _runs_on(x: B.Expr, computed: Set[str], made: Set[str]) -> bool:
    """True for a product that goes on with a sum, and takes what no product before has made."""
    if x.op not in PRODUCTS or len(x.args) < 3 or x.args[2].op == "none":
        return False
    left = x.args[0]
    while left.op in _MOVED:
        left = left.args[0]
    is_computed = left.op != "name" or left.attr in computed or x.op == "dot_in_limbs"
    return is_computed and not is_made(left, made)
