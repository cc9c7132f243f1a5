"""A block of rows' lists in a map, in memory: how many blocks each has, and then their numbers."""

from __future__ import annotations

from collections.abc import Iterable

from monocomp import blocks as B
from monocomp.blocks import INT64, Expr
from monocomp.blocks.building.context import Context
from monocomp.blocks.masking.filters import KINDS
from monocomp.blocks.operations import cast, cdiv, infix, name, number, pointers
from monocomp.declarations.record import record
from monocomp.tile import Axis, Loop


@record()
class Lists:
    """Lists that begin at `base`, with room for so many blocks each."""

    base: Expr
    room: Expr

    def count(self, kind: Expr) -> B.Pointers:
        """Return where the number of blocks in a list is."""
        return pointers(self.base, [kind])

    def entry(self, kind: Expr, position: Expr) -> B.Pointers:
        """Return where a list has the number of a block."""
        return pointers(self.base, [number(KINDS), infix("*", kind, self.room), position])

    def load(self, c: Context, target: Expr, access: B.Pointers) -> None:
        """Load a number."""
        c.put(B.Load(target, self.base.attr, access, c.origin))

    def store(self, c: Context, access: B.Pointers, value: Expr) -> None:
        """Write a number."""
        c.put(B.Store(self.base.attr, access, value, origin=c.origin))


def list_of(c: Context, loop: Loop) -> Lists:
    """Name the lists of a block of rows for a loop."""
    number_of_map = [*c.choices.maps].index(loop)
    return lists_at(c, number_of_map, loop, c.choices.maps[loop].axes.values())


def lists_at(c: Context, number_of_map: int, loop: Loop, axes: Iterable[Axis]) -> Lists:
    """Name the lists of a block of rows in a map that has some for each block along these axes."""
    axis = loop.axis.name
    room = name(c.names.of("room", axis, f"num_{axis}"), B.INT)
    room = c.let(room, cdiv(c.names.size(loop.axis.extent), c.names.block(axis)))
    row = number(0)
    for a in axes:
        if a.name != axis:
            count, at = c.names.size(a.extent), c.axis(a.name)
            if a.role == "row":
                block = c.names.block(a.name)
                count, at = cdiv(count, block), infix("//", c.names.index("start", a.name), block)
            row = infix("+", infix("*", row, count), at)
    length = infix("+", number(KINDS), infix("*", number(KINDS), room))
    pointer = c.names.map(number_of_map)
    base = name(c.names.of("lists", axis, f"lists_{axis}"), pointer.dtype)
    offset = infix("*", cast(row, INT64), length)
    return Lists(c.let(base, infix("+", pointer, offset)), room)
