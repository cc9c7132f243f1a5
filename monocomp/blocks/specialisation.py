"""`specialise`: a warp of its own asks for blocks, and the others use them: what they wait for is a
block, never an address.

Both run the same loops. Of what is computed the producer keeps what says where blocks are, and
the others leave out what only that needed.
"""

from __future__ import annotations

from dataclasses import replace
from types import UnionType

from monocomp.blocks import program as B
from monocomp.errors import UnsupportedError


def specialise(program: B.BlockProgram) -> B.BlockProgram:
    """Give what asks for blocks to a producer.

    Raises:
        UnsupportedError: where a block is depends on a tile.
    """
    producer = _needed(_without(program.body, B.Store | B.Take | B.Release | B.Issue | B.Wait))
    for s in B.walk(producer):
        if any(t.layout for t in B.targets(s)):
            raise UnsupportedError("where a block of a tensor is depends on a tile")
    consumer = _needed(_without(program.body, B.Give))
    return replace(program, body=consumer, producer=B.Producer(producer))


def _without(body: B.Body, kinds: type | UnionType) -> B.Body:
    kept = (s for s in body if not isinstance(s, kinds))
    return tuple(B.inside(s, lambda body: _without(body, kinds)) for s in kept)


def _needed(body: B.Body) -> B.Body:
    """The statements with an effect, and those that they need."""
    needed: set[str] = set()
    while True:
        found = _with(body, needed)
        now = B.names(found)
        if now <= needed:
            return found
        needed |= now


def _with(body: B.Body, needed: set[str]) -> B.Body:
    """The statements with an effect, and those that give names that are needed."""
    found: list[B.Statement] = []
    for s in body:
        match s:
            case B.Comment():
                continue
            case B.Assign() | B.Load():
                is_kept = any(t.attr in needed for t in B.targets(s))
            case B.For() | B.While() | B.If():
                s = B.inside(s, lambda body: _with(body, needed))
                is_kept = any(B.bodies(s))
            case _:
                is_kept = True
        found += [s] if is_kept else []
    return tuple(found)
