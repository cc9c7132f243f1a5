"""Nests: which loops run over blocks, and which over one value at a time.

A tile has two long axes at most: three would take all registers of a program instance and
more. A product of matrices keeps to that by itself. Elsewhere the innermost loop goes one
value at a time, or, where it would carry tiles of three axes then, the loop around it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from monocomp import terms as T
from monocomp.lowering.values import Values
from monocomp.planning.roles import fits_whole, is_read
from monocomp.rewrites.pullback import Pass
from monocomp.terms import Term
from monocomp.terms.algebra import is_selection
from monocomp.terms.monomials import factors
from monocomp.tile import Role

_MOST_AXES = 2


class Nests(Values):
    """Chooses the roles of loops.

    Attributes:
        nominal: a size for every extent, also for those that are not known.
    """

    nominal: Mapping[str, int]

    def _is_short(self, extent: str) -> bool:
        """Can an axis be held entirely, and is one that is not known likely to be?"""
        return fits_whole(extent, self.nominal)

    def _loop_role(self, group: Pass) -> Role:
        """Blocks, or one value at a time."""
        if any(map(is_selection, group.folds)):
            return "stream"
        if self._in_blocks():
            one_by_one = self._is_short(group.extent) or any(map(self._is_wide, group.folds))
        else:
            one_by_one = any(map(self._carries_too_much, group.folds))
        return "serial" if one_by_one else "stream"

    def _in_blocks(self) -> bool:
        """Is a loop open that runs over blocks?"""
        return any(s.axis is not None and self.axes[s.axis].role == "stream" for s in self.scopes)

    def _carries_too_much(self, f: Term) -> bool:
        """Would blocks of this loop make a long loop inside it carry tiles of three axes, or
        make tiles of three axes in each of its steps?"""
        opened, parts = T.open_fold(f)
        name = opened[0].attr[0]
        inner = (g for g in T.subterms(*parts) if g.op == "fold" and name in g.free)
        return any(
            not self._fits(g.attr.extents[0])
            and self._is_wide(g)
            and len(self._axes_of_state(g)) > _MOST_AXES
            for g in inner
        )

    def _axes_of_state(self, f: Term) -> frozenset[str]:
        opened, parts = T.open_fold(f)
        axes: frozenset[str] = frozenset().union(*map(self._tile_axes, parts[1:]))
        return axes - {i.attr[0] for i in opened}

    def _is_wide(self, f: Term) -> bool:
        """Would a block of the fold's index take part in a tile of three long axes?"""
        opened, parts = T.open_fold(f)
        tiles = list(parts[1:])
        if f.attr.monoid == "sum":
            tiles = self._sides(parts[1], opened[0].attr[0])
        return any(len(self._long_axes(t)) > _MOST_AXES for t in tiles)

    def _long_axes(self, t: Term) -> frozenset[str]:
        """The axes of a term's tile that are cut into blocks, those of loops not yet built
        included."""
        known = self.axes
        return frozenset(
            n for n in self._tile_axes(t) if n not in known or known[n].role in ("row", "stream")
        )

    def _sides(self, body: Term, axis: str) -> list[Term]:
        """The factors of a body, multiplied into one or two terms, such that the sum over the
        axis of their product is a product of matrices: each side has an axis that the other
        lacks. What fits both belongs to the one that is known further outside, or else to one
        that is computed in any case: a tile that is only read is multiplied as it is."""
        axes = {f: self._tile_axes(f) for f in factors(body)}
        free = {f: a - {axis} for f, a in axes.items()}
        largest = sorted(set(free.values()), key=lambda a: (-len(a), sorted(a)))
        maximal: list[frozenset[str]] = []
        for a in largest:
            if not any(a <= m for m in maximal):
                maximal.append(a)
        if len(maximal) != 2 or any(a and axis not in a for a in axes.values()):
            return [body]
        own = {m: [f for f in free if free[f] == m] for m in maximal}
        first, second = maximal
        if self._rank(second, own[second]) < self._rank(first, own[first]):
            right = [f for f in free if free[f] <= second]
            left = [f for f in free if f not in right]
        else:
            left = [f for f in free if free[f] <= first]
            right = [f for f in free if f not in left]
        return [T.mul(*left), T.mul(*right)]

    def _rank(self, axes: frozenset[str], own: Sequence[Term]) -> tuple[int, bool]:
        """The lower it is, the less it costs to multiply a side by something more."""
        return self._depth(axes), len(own) == 1 and is_read(own[0])

    def _depth(self, axes: frozenset[str]) -> int:
        return self.scopes.index(self._home(axes))
