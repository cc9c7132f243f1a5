"""`unchain`: products from which others are made are cut off from them.

Triton shares the rows of a product that another is made from among all warps, 16 to each, so that
sums along rows need no exchange (FlashAttention-2, arXiv:2307.08691, section 3.3). Where rows are
fewer than that, some warps repeat what others do. A product that is cut off has its columns shared
out, too.
"""

from __future__ import annotations

from dataclasses import replace

from monocomp.blocks import program as B
from monocomp.blocks.operations import helper


def unchain(program: B.BlockProgram) -> B.BlockProgram:
    """Cut off each product from which others of the same block are made."""
    return replace(program, body=_unchained(program.body))


def _unchained(body: B.Body) -> B.Body:
    found: list[B.Statement] = []
    for n, s in enumerate(body):
        match s:
            case B.Assign(targets=(target,), value=B.Expr(op="dot") as dot) if _is_multiplied(
                target.attr, body[n + 1 :]
            ):
                cut = helper("unchained", dot, layout=dot.layout, dtype=dot.dtype)
                found.append(replace(s, value=cut))
            case _:
                found.append(B.inside(s, _unchained))
    return tuple(found)


def _is_multiplied(name: str, body: B.Body) -> bool:
    """Is another product made from a value?"""
    made = {name}
    for s in B.walk(body):
        parts = [x for e in B.roots(s) for x in B.subexpressions(e)]
        if any(x.op == "name" and x.attr in made for x in parts):
            if any(x.op in ("dot", "dot_in_limbs") for x in parts):
                return True
            made |= {t.attr for t in B.targets(s)}
    return False
