"""`specialise`: a warp of its own asks for blocks, and the others use them: what they wait for is a
block, never an address.

Both run the same loops. Of what is computed the producer keeps what says where blocks are, and the
others leave out what only that needed. Where items are divided into positions the producer alone
finds out, and tells the others, who wait for nothing else. Where all rows of an instance say where
blocks are, that takes longer than the last blocks of an item before: a finder does it, another
warp, which may be an item ahead, and tells the producer as well. Where the last block comes first,
elements that it has beyond the end of the loop are cleared before the loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence, Set
from dataclasses import replace

from monocomp import blocks as B
from monocomp.blocks.operations import is_number
from monocomp.blocks.passes.spanning import comes_of_rows
from monocomp.blocks.passes.unread import needed, read, without
from monocomp.errors import UnsupportedError

_ASKING = B.Give | B.Comment


def specialise(program: B.BlockProgram) -> B.BlockProgram:
    """Give what asks for blocks to a producer.

    Raises:
        UnsupportedError: where a block is depends on a tile.
    """
    used = B.Store | B.Take | B.Clear | B.Release | B.Issue | B.Wait
    used |= B.Put | B.Meet | B.Send | B.Drain | B.Comment
    messages = _Messages(program.body, program.spanning)
    finder: B.Body = ()
    if messages.have_finder:
        finder = needed(without(messages.telling, used | B.Give))
    producer = needed(without(messages.learning if finder else messages.telling, used))
    for s in B.walk((*finder, *producer)):
        if any(not program.spanning.issuperset(t.layout) for t in B.targets(s)):
            raise UnsupportedError("where a block of a tensor is depends on a tile")
    consumer = needed(without(messages.learning, _ASKING))
    return replace(program, body=_cleared(consumer), producer=producer, finder=finder)


# --- numbers ----------------------------------------------------------------------------------


class _Messages:
    """Tell others what the producer, or the finder, alone computes of an item: numbers that
    divisions give of it, as what follows from these takes little time, and numbers that all rows of
    an instance come to.

    Attributes:
        items: the loops over items.
        have_finder: True if the producer is told as well.
        sources: the statements that give such numbers.
        read: the names that the others read.
        telling, learning: the program where such numbers are told, as soon as all are known that
            a body gives, and where bodies begin with them instead of computing them.
    """

    def __init__(self, body: B.Body, spanning: Set[str]) -> None:
        self.items = {s for s in body if isinstance(s, B.For) and isinstance(s.range, B.Claims)}
        self.have_finder = bool(self.items and spanning)
        self.sources = {s for items in self.items for s in _sources(items, spanning)}
        apart = B.Comment if self.have_finder else _ASKING
        self.read = read(needed(without(self._without_sources(body), apart)))
        self.telling = tuple(map(self._told, body))
        self.learning = tuple(map(self._learnt, body))

    def _without_sources(self, body: B.Body) -> B.Body:
        """Return the statements that those who use blocks have, too."""
        return tuple(B.inside(s, self._without_sources) for s in body if s not in self.sources)

    def _numbers(self, body: B.Body) -> tuple[B.Expr, ...]:
        """Return the numbers that a body gives and others read."""
        targets = (t for s in B.walk(s for s in body if s in self.sources) for t in B.targets(s))
        return tuple({t.attr: t for t in targets if t.attr in self.read}.values())

    def _told(self, s: B.Statement) -> B.Statement:
        """Return a statement that tells numbers as soon as all of a body are known."""

        def change(body: B.Body) -> B.Body:
            told, names = tuple(map(self._told, body)), self._numbers(body)
            if not names and s not in self.items:
                return told
            own = {t.attr for t in names}
            last = (n for n, x in enumerate(body) if x in self.sources and own & B.given((x,)))
            at = max(last, default=-1) + 1
            return (*told[:at], B.Tell(names, s.origin), *told[at:])

        return B.inside(s, change)

    def _learnt(self, s: B.Statement) -> B.Statement:
        """Return a statement that learns numbers instead of computing them."""

        def change(body: B.Body) -> B.Body:
            names = self._numbers(body)
            own = {t.attr for t in names}
            learning = (
                self._learnt(x)
                for x in body
                if x not in self.sources and own.isdisjoint(t.attr for t in B.targets(x))
            )
            learn = (B.Learn(names, s.origin),) if names or s in self.items else ()
            return (*learn, *learning)

        return B.inside(s, change)


def _sources(items: B.For, spanning: Set[str]) -> Iterator[B.Statement]:
    """Yield the statements that give such numbers: what else than blocks a loop finds, too."""
    given = B.given(items.body)
    near = {items.variable.attr}  # what follows from the item without a division
    for s in items.body:
        match s:
            case B.Assign(targets=(target,)) if not near.isdisjoint(s.value.read_names):
                if s.value.read_names & given <= near:
                    if any(x.op in ("floordiv", "mod") for x in B.subexpressions(s.value)):
                        yield s
                    else:
                        near.add(target.attr)
    for s in B.walk(items.body):
        inner = [*B.walk(s.body)] if isinstance(s, B.While) else [s]
        is_known = any(_comes_of_all(x, spanning) for x in inner)
        if is_known and all(isinstance(x, B.Assign) for x in inner):
            yield s


def _comes_of_all(s: B.Statement, spanning: Set[str]) -> bool:
    """True if a scalar follows from the numbers of all rows of an instance."""
    axes = (a for e in B.roots(s) for x in B.subexpressions(e) for a in x.layout)
    return comes_of_rows(s) and all(a in spanning for a in axes)


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
