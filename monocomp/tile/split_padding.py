"""Split padding: an axis as two tiles, where its length is far below a power of two.

Tiles have powers of two as lengths, so that an axis of 96 that is held as one takes 128, and as
two takes 64 + 32. Whatever has the axis becomes two values, and a sum over it the sum over the
second tile, added to that over the first:

    sum[d](a * b)  =  sum[d'](a' * b') + sum[d](a * b)        d before d', one index

so that products accumulate, `tl.dot(a', b', tl.dot(a, b))`. Nothing else of the kernel changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from monocomp import tile as P
from monocomp.errors import InternalError
from monocomp.tile.operations import JOIN


def split_padding(program: P.TileProgram, axes: Collection[str]) -> P.TileProgram:
    """Return the program with some of its axes held as two tiles each.

    Args:
        program: a kernel.
        axes: of those that `divisible` names.
    """
    for axis in axes:
        if axis not in divisible(program):
            raise InternalError(f"{program.name} cannot hold {axis} as two tiles")
        program = _SplitAxis(program, axis).run()
    return program


def divisible(program: P.TileProgram) -> list[str]:
    """Return the axes that can be held as two tiles: those held entirely, in one, that only
    values, reductions and stores have. A fold along one, and the ranks of a selection, need all
    of it."""
    body = list(program.statements)
    folds = [s for s in body if isinstance(s, P.Fold)]
    needed = {s.axis for s in folds}
    needed |= {s.monoid.axis for s in folds if isinstance(s.monoid, P.Selection)}
    needed |= {a for s in body if isinstance(s, P.Mask) for a in s.value.axes}
    needed |= {a for s in body if isinstance(s, P.Loop) for e in s.bounds for a in e.axes}
    # The second state would be computed from the first one's next.
    assigned = [s.value for s in body if isinstance(s, P.Assign)]
    needed |= {
        a for e in assigned for a in e.axes if any(P.over(x) == a for x in P.subexpressions(e))
    }
    held = {a.name: a.after for a in program.axes.values() if a.role == "whole"}
    needed |= {a for pair in held.items() if pair[1] for a in pair if a}
    return [a for a in held if a not in needed]


class _SplitAxis:
    """Holds one axis as two tiles. The first keeps the names, the second gets others."""

    def __init__(self, program: P.TileProgram, axis: str) -> None:
        self.program = program
        self.axis = axis
        self.second = _other(axis, program.axes)
        given = {name: axes for s in program.statements for name, axes in P.given(s).items()}
        self.copies: dict[str, str] = {}
        for name in (name for name, axes in given.items() if axis in axes):
            self.copies[name] = _other(name, {*given, *self.copies.values()})

    def run(self) -> P.TileProgram:
        """Return the program."""
        axes = {}
        for name, axis in self.program.axes.items():
            axes[name] = axis
            if name == self.axis:
                axes[self.second] = replace(axis, name=self.second, after=name)
        return replace(self.program, axes=axes, body=self._body(self.program.body))

    def _body(self, body: list[P.Statement]) -> list[P.Statement]:
        return [part for s in body for part in self._statement(s)]

    def _statement(self, s: P.Statement) -> Iterator[P.Statement]:
        """Yield a statement, and once more for the second tile if it has the axis."""
        match s:
            case P.Loop():
                yield self._loop(s)
            case P.Mask():
                yield P.with_roots(s, self._value)
            case P.Let() | P.Assign():
                yield P.with_roots(s, self._value)
                if s.name in self.copies:
                    yield replace(P.with_roots(s, self._second), name=self.copies[s.name])
            case P.Fold():
                yield P.with_roots(s, self._value)
                if s.names[0] in self.copies:
                    names, prefixes = map(self._renamed, (s.names, s.prefixes))
                    second = P.with_roots(s, self._second)
                    yield replace(second, names=names, prefixes=prefixes)
            case P.Store():
                yield P.with_roots(s, self._value)
                if self.axis in {*s.axes, *s.value.axes}:
                    axes = tuple(self.second if a == self.axis else a for a in s.axes)
                    yield replace(P.with_roots(s, self._second), axes=axes)

    def _loop(self, s: P.Loop) -> P.Loop:
        state = []
        for field in s.state:
            state.append(replace(field, start=self._value(field.start)))
            if field.name in self.copies:
                start, axes = self._second(field.start), self._axes(field.axes)
                state.append(P.State(self.copies[field.name], axes, start))
        return replace(P.with_roots(s, self._value), state=state, body=self._body(s.body))

    def _renamed(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self.copies.get(n, n) for n in names)

    def _axes(self, axes: frozenset[str]) -> frozenset[str]:
        return axes - {self.axis} | {self.second} if self.axis in axes else axes

    def _value(self, e: P.Expr, second: bool = False) -> P.Expr:
        """Return an expression for the first or the second tile. What does not have the axis is
        the same for both."""
        if P.over(e) == self.axis:
            return self._joined(e, second)
        args = tuple(self._value(a, second) for a in e.args)
        if not second or self.axis not in e.axes:
            is_same = all(a is b for a, b in zip(args, e.args, strict=True))
            return e if is_same else replace(e, args=args)
        attr = e.attr
        match e.op:
            case "coordinate" if attr == self.axis:
                attr = self.second
            case "local":
                attr = self.copies[attr]
            case "masked" if attr[0] == self.axis:
                attr = self.second, attr[1]
        return replace(e, args=args, attr=attr, axes=self._axes(e.axes))

    def _second(self, e: P.Expr) -> P.Expr:
        return self._value(e, second=True)

    def _joined(self, e: P.Expr, second: bool) -> P.Expr:
        """Return a reduction over the axis: over its first tile, and over its second."""
        if e.op == "contract":
            initial = tuple(self._value(a, second) for a in e.args[2:])
            tiles = [tuple(self._value(a, n) for a in e.args[:2]) for n in (False, True)]
            first = replace(e, args=(*tiles[0], *initial))
            return replace(e, args=(*tiles[1], first), attr=self.second)
        monoid = e.attr[0]
        parts = []
        for axis, n in ((self.axis, False), (self.second, True)):
            value = self._value(e.args[0], n)
            parts.append(replace(e, args=(value,), attr=(monoid, axis)))
        return P.apply(JOIN[monoid], *parts)


def _other(name: str, taken: Collection[str]) -> str:
    """Return a name like this one that is not taken."""
    n = 2
    while f"{name}_{n}" in taken:
        n += 1
    return f"{name}_{n}"
