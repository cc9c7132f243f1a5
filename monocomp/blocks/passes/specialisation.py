"""`specialise`: a warp of its own asks for blocks, and the others use them: what they wait for is a
block, never an address.

Both run the same loops. Of what is computed the producer keeps what says where blocks are, and
the others leave out what only that needed. Where items are divided into positions, the producer
does so and tells the others, who wait for nothing else. Where the last block comes first, elements
that it has beyond the end of the loop are cleared before the loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from monocomp import blocks as B
from monocomp.blocks.operations import is_number
from monocomp.blocks.passes.unread import needed, read, without
from monocomp.errors import UnsupportedError


def specialise(program: B.BlockProgram) -> B.BlockProgram:
    """Give what asks for blocks to a producer.

    Raises:
        UnsupportedError: where a block is depends on a tile.
    """
    used = B.Store | B.Take | B.Clear | B.Release | B.Issue | B.Wait
    used |= B.Put | B.Meet | B.Send | B.Drain
    told = _told(program.body)
    producer = needed(without(_telling(program.body, told), used | B.Comment))
    for s in B.walk(producer):
        if any(not program.spanning.issuperset(t.layout) for t in B.targets(s)):
            raise UnsupportedError("where a block of a tensor is depends on a tile")
    consumer = needed(without(_learning(program.body, told), B.Give | B.Comment))
    return replace(program, body=_cleared(consumer), producer=producer)


# --- items ------------------------------------------------------------------------------------


def _told(body: B.Body) -> list[B.Expr]:
    """Return the numbers that divisions give of an item alone and that others than such divisions
    read: what follows from these takes little time."""
    numbers: list[B.Expr] = []
    for items in _items(body):
        given = {t.attr for s in B.walk(items.body) for t in B.targets(s)}
        near = {items.variable.attr}  # what follows from the item without a division
        divisions: dict[B.Statement, B.Expr] = {}
        for s in items.body:
            match s:
                case B.Assign(targets=(target,)) if not near.isdisjoint(s.value.read_names):
                    if s.value.read_names & given <= near:
                        if any(x.op in ("floordiv", "mod") for x in B.subexpressions(s.value)):
                            divisions[s] = target
                        else:
                            near.add(target.attr)
        used = needed(without(items.body, B.Give | B.Comment))
        names = read(tuple(s for s in used if s not in divisions))
        numbers += (target for target in divisions.values() if target.attr in names)
    return numbers


def _items(body: B.Body) -> Iterator[B.For]:
    """Yield the loop over items."""
    return (s for s in body if isinstance(s, B.For) and isinstance(s.range, B.Claims))


def _telling(body: B.Body, told: Sequence[B.Expr]) -> B.Body:
    """Return statements that tell numbers as soon as all are known."""
    loops = {*_items(body)}
    return tuple(replace(s, body=_told_in(s, told)) if s in loops else s for s in body)


def _told_in(items: B.For, told: Sequence[B.Expr]) -> B.Body:
    names = {x.attr for x in told}
    last = (n for n, s in enumerate(items.body) if any(t.attr in names for t in B.targets(s)))
    at = max(last, default=-1) + 1
    return (*items.body[:at], B.Tell(tuple(told), items.origin), *items.body[at:])


def _learning(body: B.Body, told: Sequence[B.Expr]) -> B.Body:
    """Return statements that learn numbers instead of computing them."""
    loops, names = {*_items(body)}, {x.attr for x in told}

    def learned(items: B.For) -> B.Body:
        rest = (s for s in items.body if names.isdisjoint(t.attr for t in B.targets(s)))
        return B.Learn(tuple(told), items.origin), *rest

    return tuple(replace(s, body=learned(s)) if s in loops else s for s in body)


# --- bounds -----------------------------------------------------------------------------------


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
