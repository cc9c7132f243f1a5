"""`span`: where rows say each for itself which elements of a stream they admit, all rows of an
instance say where its blocks are. These numbers lie along an axis of their own, which nothing
divides, and what they come to has a name: who asks for blocks finds it for all who use them.
Tiles have a power of 2 of elements: the last row stands for those that there are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from monocomp import blocks as B
from monocomp.blocks.operations import extreme, helper, infix, name, number
from monocomp.declarations.record import record


def span(program: B.BlockProgram) -> B.BlockProgram:
    """Give the numbers of rows from which scalars follow an axis of their own."""
    made: dict[str, list[B.Statement]] = {}
    for s in B.walk(program.body):
        for t in B.targets(s):
            made.setdefault(t.attr, []).append(s)
    names: set[str] = set()
    waiting = {n for s in B.walk(program.body) if comes_of_rows(s) for n in _vectors(s)}
    while waiting:
        names |= waiting
        waiting = {v for n in waiting for s in made[n] for v in _vectors(s)} - names
    statements = [s for n in names for s in made[n]]
    layouts = {t.layout for s in statements for t in B.targets(s)}
    axis = next((a for a in program.rows if layouts == {(a,)}), None)
    if axis is None or not all(isinstance(s, B.Assign | B.Load) for s in statements):
        return program
    rows, length = program.rows[axis], program.lengths[axis]
    count = extreme("minimum", length, infix("-", rows.stop, rows.start))
    last = infix("-", count, number(1))
    own = {n: f"{n}_all" for n in names}
    spanning = _Spanning(axis, f"{axis}_all", own, last, program.taken)
    length = helper("next_power_of_2", length, layout=(), dtype=length.dtype)
    return replace(
        program,
        axes={**program.axes, spanning.all: program.axes[axis]},
        lengths={**program.lengths, spanning.all: length},
        body=spanning.body(program.body),
    )


def comes_of_rows(s: B.Statement) -> bool:
    """True if a scalar follows from the numbers of rows."""
    return isinstance(s, B.Assign) and not any(t.layout for t in s.targets) and any(_vectors(s))


def _vectors(s: B.Statement) -> Iterator[str]:
    """Yield the names of tiles that a statement reads."""
    values = (x for e in B.roots(s) for x in B.subexpressions(e))
    return (x.attr for x in values if x.op == "name" and x.layout)


@record()
class _Spanning:
    """Writes statements for all rows.

    Attributes:
        axis, all: the axis of rows, and that of all rows of an instance.
        names: of the tiles along it, by those of the tiles of rows.
        last: the number of the last row among them.
        taken: names that there are.
    """

    axis: str
    all: str
    names: dict[str, str]
    last: B.Expr
    taken: set[str]

    def body(self, body: B.Body) -> B.Body:
        """Return statements where scalars follow from all rows."""
        return tuple(written for s in body for written in self._statement(s))

    def _statement(self, s: B.Statement) -> Iterator[B.Statement]:
        if comes_of_rows(s):
            yield from self._apart(B.with_roots(s, self._of_all))
            return
        yield B.inside(s, self.body)
        match s:
            case B.Assign(targets=(target,)) if target.attr in self.names:
                yield replace(s, targets=(self._of_all(target),), value=self._of_all(s.value))
            case B.Load(target=target) if target.attr in self.names:
                load = B.with_roots(s, self._of_all)
                assert isinstance(load, B.Load)
                yield replace(load, target=self._of_all(target))

    def _apart(self, s: B.Statement) -> Iterator[B.Statement]:
        """Yield a statement after those that give names to what rows come to, if it says more."""
        names: dict[B.Expr, B.Expr] = {}
        assert isinstance(s, B.Assign)
        whole = s.value.args[0] if s.value.op == "cast" else s.value
        for x in () if is_come_to(whole) else B.subexpressions(s.value):
            if is_come_to(x) and x not in names:
                names[x] = name(B.fresh(f"{s.targets[0].attr}_rows", self.taken), x.dtype)
                yield B.Assign((names[x],), x, s.origin)
        yield replace(s, value=_with(s.value, names))

    def _of_all(self, e: B.Expr) -> B.Expr:
        """Return a value for all rows."""
        layout = tuple(self.all if a == self.axis else a for a in e.layout)
        attr = self.names.get(e.attr, e.attr) if e.op == "name" else e.attr
        value = replace(e, args=tuple(map(self._of_all, e.args)), attr=attr, layout=layout)
        is_row = e.op == "arange" and e.layout == (self.axis,)
        return extreme("minimum", value, self.last) if is_row else value


def is_come_to(e: B.Expr) -> bool:
    """True if this is a number that rows come to, of which the compiler knows nothing."""
    return e.op == "unknown" and e.args[0].op == "reduce"


def _with(e: B.Expr, names: Mapping[B.Expr, B.Expr]) -> B.Expr:
    """Return a value with names for some values."""
    return names.get(e) or replace(e, args=tuple(_with(a, names) for a in e.args))
