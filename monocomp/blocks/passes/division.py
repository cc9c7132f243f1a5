"""`divide`: the rows of a program instance are divided among warpgroups, each with a copy of what
computes. They share blocks of streams, of which each leaves unread what its own rows do not admit,
all of them if it has no rows, and wait for nothing of each other. Where they meet at products that
sum over rows, all go over all blocks, those without rows as well: their rows are masked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from monocomp import blocks as B
from monocomp.blocks.operations import cdiv, extreme, infix, is_number, name, number, select
from monocomp.blocks.passes.own_rows import GROUPS, OwnRows, own_rows
from monocomp.blocks.passes.unread import needed, without
from monocomp.errors import UnsupportedError

WARPGROUP = 4  # warps
_COMPUTING = B.Store | B.Clear | B.Issue | B.Wait | B.Comment
GROUP = name("GROUP", B.INT)  # the number of one of them


def divide(program: B.BlockProgram) -> B.BlockProgram:
    """Give each warpgroup its rows.

    Raises:
        UnsupportedError: products have no rows in common, or something is summed over these.
    """
    values = [x for s in B.walk(program.body) for e in B.roots(s) for x in B.subexpressions(e)]
    of_products = {x.layout[0] for x in values if x.op == "dot"}
    common = [a for a in program.axes if program.axes[a].role == "row" and a in of_products]
    if len(common) != 1:
        raise UnsupportedError("products have no rows in common")
    rows = {a: program.lengths[a] for a in common}
    for x in values:
        if _summed(x) in rows:
            raise UnsupportedError(f"it folds over {_summed(x)}, whose rows are divided")
    lengths = {a: name(f"ROWS_{a.upper()}", B.INT) for a in rows}
    shares = tuple(
        B.Assign((lengths[a],), infix("//", whole, GROUPS), program.axes[a], is_static=True)
        for a, whole in rows.items()
    )
    own = own_rows(program, rows.keys())
    divided = needed(_Division(program, lengths, own).body(program.body))
    groups = B.Argument("groups", "", 0, GROUPS, True)
    program = own.settled(replace(program, body=divided))
    return replace(
        program,
        arguments=(*program.arguments, groups),
        body=(*shares, *program.body),
        divided=lengths,
    )


def _summed(e: B.Expr) -> str | None:
    """Return the axis that a warpgroup folds over."""
    if e.op not in ("reduce", "scan", "dot"):
        return None
    dim: int = 1 if e.op == "dot" else e.attr.dim
    return e.args[0].layout[dim]


class _Division:
    """Gives a warpgroup its own rows: where they begin, and all that follows from that. Numbers
    that follow from all rows of the instance are computed beside its own."""

    def __init__(
        self, program: B.BlockProgram, lengths: Mapping[str, B.Expr], told: OwnRows
    ) -> None:
        self.program, self.lengths, self.told = program, lengths, told
        self.axes = {rows.start.attr: a for a, rows in program.rows.items() if a in lengths}
        # By the name of what begins all rows, counts them, or is what they come to.
        self.own: dict[str, B.Expr] = {**told.names}
        self.common: dict[str, B.Expr] = {}  # by the name that own rows give another value
        statements = list(B.walk(program.body))
        # Names that say where a stretch of blocks is, which all rows have in common.
        self.stretches = {n for s in statements if isinstance(s, B.While) for n in _led_by(s)}
        self.meet = any(isinstance(s, B.Meet) for s in statements)  # those without rows as well
        self.taken = program.taken
        for target in self._varying(statements):
            self.common[target.attr] = self._fresh(target, "all")

    def body(self, body: B.Body) -> B.Body:
        """Return statements about the rows of one warpgroup, if there are any."""
        statements: list[B.Statement] = []
        for n, s in enumerate(body):
            statements += self._statement(s)
            for axis in (self.axes[t.attr] for t in B.targets(s) if t.attr in self.axes):
                rows = self.program.rows[axis]
                own = infix("<", self.own[rows.start.attr], rows.stop)
                own = select(rows.are_full, number(True, "bool"), own)
                if not is_number(own, True) and not self.meet:
                    others = body[n + 1 :]
                    left = needed(without(_skipped(others), _COMPUTING))
                    return *statements, B.If(own, self.body(others), left, s.origin)
        return tuple(statements)

    def _same(self, body: B.Body) -> B.Body:
        """Return the statements of a loop, or around it, that is divided already."""
        return tuple(B.inside(self._of_own(s), self._same) for s in body)

    def _statement(self, s: B.Statement) -> Iterator[B.Statement]:
        match s:
            case B.For() if any(isinstance(x, B.Meet) for x in s.body):  # all go over all blocks
                yield from (replace(x, body=self._same(s.body)) for x in self._of_all_rows(s))
            case B.Assign() | B.Learn() if starts := [t for t in s.targets if t.attr in self.axes]:
                yield self.told.learnt(s) if isinstance(s, B.Learn) else s
                for target in starts:
                    axis = self.axes[target.attr]
                    first, length = self._fresh(target, "own"), self.lengths[axis]
                    start = infix("+", target, infix("*", GROUP, length))
                    yield B.Assign((first,), start, s.origin)
                    self.own |= {target.attr: first, self.program.lengths[axis].attr: length}
            case B.Learn():
                yield self.told.learnt(s)
            case B.While():
                yield B.inside(B.with_roots(s, self._of_all), self.body)
            case B.Assign(targets=(target,)) if self._is_of_stretch(target):
                yield B.with_roots(s, self._of_all)
            case B.Assign(targets=(target,)):
                if target.attr in self.common:
                    yield replace(s, targets=(self._of_all(target),), value=self._of_all(s.value))
                yield self._of_own(s)
            case B.For() | B.If() if (loop := _stream(s)) is not None:
                yield from self._shared(s, loop)
            case _:
                yield B.inside(self._of_own(s), self.body)

    def _varying(self, statements: Sequence[B.Statement]) -> Iterator[B.Expr]:
        """Yield the numbers, by name, that are others for own rows, but for those of blocks."""
        loops = [s for s in statements if isinstance(s, B.For) and isinstance(s.range, B.Blocks)]
        of_blocks = B.given(loops)
        names = {*self.axes, *self.told.names}
        for s in statements:
            match s:
                case B.Assign(targets=(B.Expr(layout=()) as target,)):
                    is_new = target.attr not in names | of_blocks | self.stretches
                    if is_new and not names.isdisjoint(s.value.read_names):
                        names.add(target.attr)
                        yield target

    def _shared(self, s: B.For | B.If, loop: B.For) -> Iterator[B.Statement]:
        """Yield a loop over blocks that are shared, for own rows: before and after it loops that
        leave to others the blocks that they alone admit."""
        blocks = loop.range
        assert isinstance(blocks, B.Blocks)
        for x in () if s is loop else s.body:
            if isinstance(x, B.Assign) and loop.variable in x.targets:
                blocks = replace(blocks, start=x.value)
        length = self.program.lengths[blocks.axis]
        first, (start, stop) = blocks.start, map(self._of_all, (blocks.start, blocks.stop))
        many = {x.ring for x in B.walk(loop.body) if isinstance(x, B.Take)}
        takes = [x for x in B.walk((s,)) if isinstance(x, B.Take)]
        own = B.inside(self._of_own(s), self._same)
        if start is first and stop is blocks.stop:
            yield own
            return
        if once := _left(x for x in takes if x.ring not in many):
            assert isinstance(own, B.If)
            own = replace(own, orelse=(B.If(infix("<", start, stop), once, (), s.origin),))
        left = _left(x for x in takes if x.ring in many)
        leave = replace(loop, variable=self._fresh(loop.variable, "left"), body=left)
        below, above = [], []
        if start is not first:
            if first.op != "name":
                raise UnsupportedError("where a loop begins has no name")
            skipped = infix("//", _positive(infix("-", first, start)), length)
            yield B.Assign((first,), infix("+", start, infix("*", skipped, length)), s.origin)
            until = extreme("minimum", first, stop)
            below.append(replace(leave, range=replace(blocks, start=start, stop=until)))
        count = cdiv(_positive(infix("-", blocks.stop, first)), length)
        end = infix("+", first, infix("*", count, length))
        above.append(replace(leave, range=replace(blocks, start=end, stop=stop)))
        yield from above if blocks.is_backwards else below
        yield own
        yield from below if blocks.is_backwards else above

    def _of_all_rows(self, s: B.For) -> Iterator[B.For]:
        """Yield a loop over the blocks of all rows."""
        shared = B.with_roots(s, self._of_all)
        if isinstance(shared, B.For):
            yield shared

    def _of_own(self, s: B.Statement) -> B.Statement:
        """Return a statement about own rows; but of blocks that are shared it is all rows that
        say what is admitted."""
        if isinstance(s, B.Take | B.Clear):
            return B.with_roots(s, self._of_all)
        return B.with_roots(s, lambda e: B.renamed(e, self.own))

    def _is_of_stretch(self, target: B.Expr) -> bool:
        """True if a number says where a stretch of blocks is."""
        return not target.layout and target.attr in self.stretches

    def _of_all(self, e: B.Expr) -> B.Expr:
        return B.renamed(e, self.common)

    def _fresh(self, like: B.Expr, suffix: str) -> B.Expr:
        return replace(like, attr=B.fresh(f"{like.attr}_{suffix}", self.taken))


def _led_by(loop: B.While) -> set[str]:
    """Return the names given in a loop that lead to its end, or are told in it."""
    inside, names = B.given(loop.body), B.names_of((replace(loop, body=()),))
    names |= {t.attr for s in loop.body if isinstance(s, B.Learn) for t in s.targets}
    while True:
        made = (s for s in B.walk(loop.body) if any(t.attr in names for t in B.targets(s)))
        further = {n for s in made for e in B.roots(s) for n in e.read_names}
        if further <= names:
            return names & inside
        names |= further


def _stream(s: B.For | B.If) -> B.For | None:
    """Return a loop that takes blocks, also if its first block stands before it in a condition.

    Raises:
        UnsupportedError: such a loop holds another.
    """
    for x in (s,) if isinstance(s, B.For) else s.body:
        if isinstance(x, B.For) and isinstance(x.range, B.Blocks):
            inner = [i for i in B.walk(x.body) if isinstance(i, B.Take | B.For)]
            if any(isinstance(i, B.Take) for i in inner):
                if any(isinstance(i, B.For) and isinstance(i.range, B.Blocks) for i in inner):
                    raise UnsupportedError("a loop over blocks holds another")
                return x
    return None


def _skipped(body: B.Body) -> B.Body:
    """Return statements that leave unread what others take."""
    statements: list[B.Statement] = []
    for s in body:
        match s:
            case B.Take():
                statements += [] if s.ring.beside else [B.Skip(s.ring, s.origin)]
            case B.Release():
                pass
            case _:
                statements.append(B.inside(s, _skipped))
    return tuple(statements)


def _left(takes: Iterable[B.Take]) -> B.Body:
    """Return what leaves blocks unread, one of each ring."""
    rings = {x.ring: x.origin for x in takes if x.ring.beside is None}
    return tuple(B.Skip(ring, origin) for ring, origin in rings.items())


def _positive(e: B.Expr) -> B.Expr:
    return extreme("maximum", e, number(0))
