"""`specialise`: a warp of its own asks for blocks, and the others use them: what they wait for is a
block, never an address.

Both run the same loops. Of what is computed the producer keeps what says where blocks are, and
the others leave out what only that needed. Where the last block comes first, elements that it has
beyond the end of the loop are cleared before the loop.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from types import UnionType

from monocomp import blocks as B
from monocomp.blocks.operations import is_number
from monocomp.blocks.passes.unread import needed
from monocomp.errors import UnsupportedError


def specialise(program: B.BlockProgram) -> B.BlockProgram:
    """Give what asks for blocks to a producer.

    Raises:
        UnsupportedError: where a block is depends on a tile.
    """
    used = B.Store | B.Take | B.Clear | B.Release | B.Issue | B.Wait
    producer = needed(_without(program.body, used | B.Comment))
    for s in B.walk(producer):
        if any(t.layout for t in B.targets(s)):
            raise UnsupportedError("where a block of a tensor is depends on a tile")
    consumer = needed(_without(program.body, B.Give | B.Comment))
    return replace(program, body=_cleared(consumer), producer=B.Producer(producer))


def _without(body: B.Body, kinds: type | UnionType) -> B.Body:
    kept = (s for s in body if not isinstance(s, kinds))
    return tuple(B.inside(s, lambda body: _without(body, kinds)) for s in kept)


def _cleared(body: B.Body) -> B.Body:
    """Return loops from the last block to the first without bounds of their blocks' ends: where
    nothing bounds their beginnings, only the first that is taken can reach beyond. Where that is
    has a name before a loop that is one block behind."""
    statements: list[B.Statement] = []
    cleared: set[str] = set()
    for s in body:
        match s:
            case B.For(range=B.Blocks(is_backwards=True)):
                named = {t.attr for x in statements for t in B.targets(x)}
                for t in s.body:
                    match t:
                        case B.Take(within=B.Within() as within) if (
                            is_number(within.low, 0) and within.first.read_names <= named
                        ):
                            statements.append(B.Clear(t.ring, within, t.origin))
                            cleared.add(t.ring.name)
                s = replace(s, body=_unbound(s.body, cleared))
            case _:
                s = B.inside(s, _cleared)
        statements.append(s)
    return _unbound(statements, cleared)


def _unbound(body: Sequence[B.Statement], rings: Collection[str]) -> B.Body:
    return tuple(
        replace(s, within=None) if isinstance(s, B.Take) and s.ring.name in rings else s
        for s in body
    )
