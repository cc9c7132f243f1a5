"""`unchain`: products are cut off from the products that they are made from.

Triton shares the rows of a product that another is made from among all warps, 16 to each, so that
sums along rows need no exchange (FlashAttention-2, arXiv:2307.08691, section 3.3). Where rows are
fewer than that, some warps repeat what others do. If the products made from it are cut off, its
columns are shared out, too.

Loops of these are asked beforehand whether there is any block, as those that gather (`phases`).
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from functools import partial

from monocomp import blocks as B
from monocomp.blocks.operations import helper, infix
from monocomp.blocks.passes.endings import PRODUCTS, is_made


def unchain(program: B.BlockProgram) -> B.BlockProgram:
    """Cut off what products take that other products of the same block have made."""
    return replace(program, body=_unchained(program.body, frozenset()))


def _unchained(body: B.Body, made: Set[str]) -> B.Body:
    """Return the statements that follow others, of which products have made these names."""
    statements: list[B.Statement] = []
    for s in body:
        match s:
            case B.Assign():
                s = replace(s, value=_cut(s.value, made))
            case B.For(range=B.Blocks() as blocks, body=inside):
                s = replace(s, body=_unchained(inside, made))
                if s.body != inside and not _are_numbers(blocks):
                    s = B.If(infix("<", blocks.start, blocks.stop), (s,), origin=s.origin)
            case _:
                s = B.inside(s, partial(_unchained, made=made))
        for inner in B.walk((s,)):
            if any(is_made(e, made) for e in B.roots(inner)):
                made = made | {t.attr for t in B.targets(inner)}
        statements.append(s)
    return tuple(statements)


def _are_numbers(blocks: B.Blocks) -> bool:
    return blocks.start.op == blocks.stop.op == "number"


def _cut(e: B.Expr, made: Set[str]) -> B.Expr:
    args = tuple(_cut(a, made) for a in e.args)
    if e.op in PRODUCTS:
        args = tuple(_apart(a) if is_made(a, made) else a for a in args)
    return e if args == e.args else replace(e, args=args)


def _apart(e: B.Expr) -> B.Expr:
    return helper("unchained", e, layout=e.layout, dtype=e.dtype)
