"""Guards that what is chosen afterwards makes needless.

    where(c, f(where(g, x, 0)), u)  =  where(c, f(x), u)    if c implies g
    where(c, u, f(where(c, x, y)))  =  where(c, u, f(y))
    where(x == -inf, u, f(where(-inf < x, y, z)))  =  where(x == -inf, u, f(y))
    where(a < b, f(min(a, b)), u)  =  where(a < b, f(a), u)    and so of a maximum

Elements that are no members of a domain are read as 0, so that none of them gets into a sum. Where
the condition of the members is asked again before there is a sum, the value is the same without,
and it is one that other kernels compute as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from monocomp.backends.tape.bounds import Bounds, bounds, settled
from monocomp.backends.tape.recorder import Value
from monocomp.backends.tape.tile import Source, Tile, common_shape, conjuncts


def unguarded(x: Tile, *conditions: Tile) -> Tile:
    """Return a tile without the guards that conditions imply: the same where these hold."""
    return _Chosen(*conditions).of(x)


def unchosen(x: Tile, condition: Tile) -> Tile:
    """Return a tile without what it chooses where a condition holds: the same where it fails."""
    return _Chosen(fails=condition).of(x)


def implies(condition: Tile, guard: Tile) -> bool:
    """True if a guard is known to hold where a condition does."""
    return _Chosen(condition).implies(guard)


def is_positive(condition: Tile, x: Tile) -> bool:
    """True if a condition is that x is positive."""
    lower = _lower(condition)
    if lower is None:
        return False
    low, high = lower
    return low.value.number == 0 and _key(high) == _key(x)


def _lower(condition: Tile) -> tuple[Tile, Tile] | None:
    """Return the lower one and the higher one of what a condition compares, if it does."""
    source = condition.source
    if source is None or source.name not in ("lt", "le", "gt", "ge"):
        return None
    a, b = source.operands
    return (a, b) if source.name in ("lt", "le") else (b, a)


class _Chosen:
    """Tiles whose elements are chosen where conditions hold, and one fails."""

    def __init__(self, *conditions: Tile, fails: Tile | None = None) -> None:
        self.fails = None if fails is None else _key(fails)
        self.dims = {d for c in (*conditions, fails) if c is not None for d in c.dims}
        facts = [c for condition in conditions for c in conjuncts(condition)]
        self.facts = {*map(_key, facts)}
        ordered = filter(None, map(_lower, facts))
        self.ordered = {(_key(low), _key(high)) for low, high in ordered}
        self.numbers = set[object]()  # those that are above -inf
        if fails is not None and fails.source is not None and fails.source.name == "eq":
            for low, high in (fails.source.operands, fails.source.operands[::-1]):
                if low.value.number == -math.inf:
                    self.numbers.add(_key(high))
        self._made: dict[int, tuple[Tile, Tile]] = {}
        self.equal: dict[object, Bounds] = {}  # bounds of integers that others equal
        self.equal.update(self._equations(facts))

    def _equations(self, facts: Sequence[Tile]) -> Iterator[tuple[object, Bounds]]:
        """Yield integers with the bounds of those that they equal."""
        for c in facts:
            if c.source is not None and c.source.name == "eq":
                for x, other in (c.source.operands, c.source.operands[::-1]):
                    yield _key(self.of(x)), bounds(other)

    def of(self, x: Tile) -> Tile:
        """Return the same tile where the condition holds."""
        made = self._made.get(id(x))
        if made is None:
            made = self._made[id(x)] = x, self._of(x)
        return made[1]

    def _of(self, x: Tile) -> Tile:
        source = x.source
        if source is None or source.table is not None or source.dim in self.dims:
            return x
        if source.name == "where" and self.implies(source.operands[0]):
            tile = self.of(source.operands[1])
        elif source.name == "where" and _key(source.operands[0]) == self.fails:
            tile = self.of(source.operands[2])
        elif (extremum := self._extremum(source)) is not None:
            tile = self.of(extremum)
        else:
            operands = [self.of(o) for o in source.operands]
            if all(a is b for a, b in zip(operands, source.operands, strict=True)):
                return x
            tile = source.again(*operands)
        return x.ops.stretched(tile, common_shape(tile.shape, x.shape))

    def _extremum(self, source: Source) -> Tile | None:
        """Return which of two operands an extremum of them is, where that is known."""
        if source.name not in ("minimum", "maximum"):
            return None
        for low, high in (source.operands, source.operands[::-1]):
            if (_key(low), _key(high)) in self.ordered:
                return low if source.name == "minimum" else high
        return None

    def implies(self, guard: Tile) -> bool:
        """True if a guard holds where the condition does: it holds somewhere along some axes."""
        if _key(guard) in self.facts:
            return True
        source = guard.source
        if source is None:
            return False
        low, high = _lower(guard) or (guard, guard)
        if low.value.number == -math.inf and _key(high) in self.numbers:
            return True
        if source.name in ("lt", "le", "gt", "ge"):
            limits = (self.equal.get(_key(x), bounds(x)) for x in source.operands)
            return settled(source.name, *limits) is True
        is_somewhere = source.name == "amax" and (
            source.dim in self.dims or source.dim not in source.operands[0].dims
        )
        return (source.name == "and" or is_somewhere) and all(map(self.implies, source.operands))


def _key(x: Tile) -> tuple[Value, tuple[int, ...]]:
    return x.value, x.dims
