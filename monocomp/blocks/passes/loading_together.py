"""`load_together`: loops over single positions issue the loads of several at once.

A row or column of one position is a few bytes for each thread, and a loop that uses it at once
waits for memory at every position. Unrolled, the loop has many such loads under way, as long as
its code fits caches. Tiles of two axes are many bytes, and products of matrices have pipelines of
their own.
"""

from __future__ import annotations

from dataclasses import replace

from monocomp import blocks as B
from monocomp.blocks.passes.endings import PRODUCTS

LONGEST = 96  # statements of an unrolled loop; more code than an H200 caches makes loops slower


def load_together(program: B.BlockProgram) -> B.BlockProgram:
    """Let loops over single positions issue the loads of several at once."""
    return replace(program, body=_unrolled(program.body))


def _unrolled(body: B.Body) -> B.Body:
    statements = [B.inside(s, _unrolled) for s in body]
    return tuple(replace(s, range=_together(s)) if isinstance(s, B.For) else s for s in statements)


def _together(loop: B.For) -> B.Range:
    """Return the range of a loop, and of one that loads little how many positions go together: a
    power of two, as most sizes are multiples of those."""
    if not isinstance(loop.range, B.Serial) or not all(map(_is_small, loop.body)):
        return loop.range
    if not any(isinstance(s, B.Load) for s in loop.body):
        return loop.range
    most = LONGEST // len(loop.body)
    start, stop = loop.range.start, loop.range.stop
    if start.op == stop.op == "number":
        most = min(most, stop.attr - start.attr)
    return replace(loop.range, together=1 << max(1, most).bit_length() - 1)


def _is_small(s: B.Statement) -> bool:
    """True if a statement neither multiplies matrices nor holds others, nor loads a tile of more
    than one axis."""
    match s:
        case B.Load(target=target):
            return len(target.layout) <= 1
        case B.Assign():
            return not any(e.op in PRODUCTS for r in B.roots(s) for e in B.subexpressions(r))
    return isinstance(s, B.Comment)
