"""`specialise`: a warp of its own asks for blocks, and the others use them: what they wait for is a
block, never an address.

Both run the same loops. Of what is computed the producer keeps what says where blocks are, and
the others leave out what only that needed.
"""

from __future__ import annotations

from dataclasses import replace
from types import UnionType

from monocomp import blocks as B
from monocomp.blocks.passes.unread import needed
from monocomp.errors import UnsupportedError


def specialise(program: B.BlockProgram) -> B.BlockProgram:
    """Give what asks for blocks to a producer.

    Raises:
        UnsupportedError: where a block is depends on a tile.
    """
    used = B.Store | B.Take | B.Release | B.Issue | B.Wait
    producer = needed(_without(program.body, used | B.Comment))
    for s in B.walk(producer):
        if any(t.layout for t in B.targets(s)):
            raise UnsupportedError("where a block of a tensor is depends on a tile")
    consumer = needed(_without(program.body, B.Give | B.Comment))
    return replace(program, body=consumer, producer=B.Producer(producer))


def _without(body: B.Body, kinds: type | UnionType) -> B.Body:
    kept = (s for s in body if not isinstance(s, kinds))
    return tuple(B.inside(s, lambda body: _without(body, kinds)) for s in kept)
