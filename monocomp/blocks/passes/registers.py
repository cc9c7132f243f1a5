"""`place`: where each tile lies in registers. Every tile along two axes lies as the result of a
product would, and a vector as the first such tile without its other dimension; where it meets
another one it is converted, which moves nothing between threads that hold the same rows. What is
in shared memory, for products or all threads, is fetched where arithmetic takes it. Positions
are computed anew where they are wanted. A tile that is stored goes through shared memory first, so
that a thread writes 16 bytes of a row, not four.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import replace

from monocomp import blocks as B
from monocomp.errors import UnsupportedError

_MADE = ("arange", "full", "zeros")  # tiles that are made where they are wanted
_JOINING = ("dot", "reduce", "scan", "combine", "dot_in_limbs")  # elements of a dimension


def place(program: B.BlockProgram) -> B.BlockProgram:
    """Position the tiles of what uses blocks.

    Raises:
        UnsupportedError: for what needs other positions than products have.
    """
    parts = program.body, program.producer, program.finder
    body, producer, finder = (_placed(program, part) for part in parts)
    return replace(program, body=body, producer=producer, finder=finder)


def _placed(program: B.BlockProgram, body: B.Body) -> B.Body:
    return _Placer(replace(program, body=body)).body(body)


def tiles(body: B.Body) -> list[B.Registers]:
    """Return where tiles lie."""
    layouts: dict[B.Registers, None] = {}
    shared = _shared(body)
    for s in B.walk(body):
        for e in B.roots(s):
            for x in B.subexpressions(e):
                if isinstance(x.attr, B.Registers):
                    layouts[replace(x.attr, dim=None)] = None
                elif x.op == "crossed" or isinstance(s, B.Send):  # parts, which lie as they are
                    continue
                elif len(x.layout) == 2 and None not in x.layout and x.attr not in shared:
                    layouts[B.Registers((str(x.layout[0]), str(x.layout[1])))] = None
    return list(layouts)


def _shared(body: B.Body) -> set[str]:
    """Return the tiles in shared memory."""
    return {s.target.attr for s in B.walk(body) if isinstance(s, B.Take | B.Put)}


def _positions(program: B.BlockProgram) -> dict[str, B.Expr]:
    """Return the vectors that positions in a block and numbers alone give, by name."""
    statements = list(B.walk(program.body))
    given = Counter(t.attr for s in statements for t in B.targets(s))
    loops = {s.variable.attr for s in statements if isinstance(s, B.For)}
    positions: dict[str, B.Expr] = {}
    for s in statements:
        match s:
            case B.Assign(targets=(target,)) if len(target.layout) == given[target.attr] == 1:
                names = {x for x in B.subexpressions(s.value) if x.op == "name"}
                scalars = (x.attr for x in names if not x.layout)
                if _is_position(s.value, positions.keys()) and all(
                    given[x] < 2 and x not in loops for x in scalars
                ):
                    positions[target.attr] = s.value
    return positions


def _is_position(e: B.Expr, positions: Set[str]) -> bool:
    """True if positions in a block and numbers alone give a value, and these names do."""
    parts = list(B.subexpressions(e))
    named = (x.attr for x in parts if x.op == "name" and x.layout)
    return positions >= {*named} and not any(x.op in _JOINING for x in parts)


class _Placer:
    def __init__(self, program: B.BlockProgram) -> None:
        self.shared = _shared(program.body)
        self.positions = _positions(program)
        self.vectors = {axis: B.Registers((axis,)) for axis in program.spanning}
        values = (x for s in B.walk(program.body) for e in B.roots(s) for x in B.subexpressions(e))
        tiles = [x for x in values if len(x.layout) == 2 and x.attr not in self.shared]
        for x in sorted(tiles, key=lambda x: x.op != "dot"):
            match x.layout:
                case (str(m), str(n)):
                    self.vectors.setdefault(m, B.Registers((m, n), 1))
                    self.vectors.setdefault(n, B.Registers((m, n), 0))

    def body(self, body: B.Body) -> B.Body:
        """Return statements with their values placed."""
        return tuple(map(self._statement, body))

    def _statement(self, s: B.Statement) -> B.Statement:
        match s:
            case B.Assign(targets=(target,)):
                return replace(s, value=self._placed(s.value, self._usual(target.layout)))
            case B.Load(access=B.Pointers() as access):
                at = self._usual(s.target.layout)
                return replace(s, access=self._access(access, at))
            case B.Store():
                at = self._usual(s.value.layout)
                if at is not None and at.dim is None and s.mode == "set":
                    at = replace(at, in_rows=True)
                return replace(
                    s, access=self._access(s.access, at), value=self._placed(s.value, at)
                )
            case B.Put():
                return replace(s, value=self._placed(s.value, self._usual(s.value.layout)))
            case B.Tell():
                return replace(s, own=tuple(self._placed(x, None) for x in s.own))
            case B.Send() | B.Meet():  # of parts, which lie as they are
                return s
            case B.Issue() if s.product.op == "crossed":
                return s
            case B.Issue():
                return replace(s, product=self._placed(s.product, self._usual(s.target.layout)))
            case B.Assign() | B.Load():
                raise UnsupportedError("tuples and descriptors have no position in registers")
        return B.inside(s, self.body)

    def _access(self, access: B.Pointers, at: B.Registers | None) -> B.Pointers:
        offsets = tuple(self._placed(x, at) for x in access.offsets)
        mask = None if access.mask is None else self._placed(access.mask, at)
        return replace(access, offsets=offsets, mask=mask)

    def _usual(self, layout: B.Layout) -> B.Registers | None:
        """Return the layouts of named values."""
        match layout:
            case ():
                return None
            case (str(axis),):
                if axis in self.vectors:
                    return self.vectors[axis]
            case (str(a), str(b)):
                return B.Registers((a, b))
        raise UnsupportedError(f"no product says where a tile along {layout} lies in registers")

    def _placed(self, e: B.Expr, want: B.Registers | None) -> B.Expr:
        """Return a value where it is wanted."""
        if not e.layout:
            return replace(e, args=tuple(self._placed(a, self._usual(a.layout)) for a in e.args))
        if e.op == "expand":
            if want is None or want.dim is not None or None not in e.layout:
                raise UnsupportedError(f"a vector is expanded to {e.layout} for no tile")
            inner = replace(want, dim=e.layout.index(None))
            return replace(e, args=(self._placed(e.args[0], inner),))
        is_free = None in e.layout or e.op in _MADE or _is_position(e, self.positions.keys())
        layout = want if is_free and want is not None else self._usual(e.layout)
        match e.op:
            case "name" if e.attr in self.positions and layout != self._usual(e.layout):
                return self._placed(self.positions[e.attr], layout)
            case "name" if e.attr in self.shared:
                return B.Expr("fetch", (e,), want or layout, e.layout, e.dtype)
            case "name":
                placed = e
            case "arange" | "full" | "zeros":
                args = tuple(self._placed(a, None) for a in e.args)
                return replace(e, args=args, attr=layout)
            case "reduce":
                (x,) = e.args
                at = self._usual(x.layout)
                assert at is not None
                layout = B.Registers(at.tile, e.attr.dim)
                placed = replace(e, args=(self._placed(x, at),))
            case "dot":
                placed = self._dot(e, layout)
            case "trans" | "broadcast" | "scan" | "combine" | "dot_in_limbs":
                raise UnsupportedError(f"{e.op} has no position in registers")
            case _:
                placed = replace(e, args=tuple(self._placed(a, layout) for a in e.args))
        if want is None or layout == want:
            return placed
        return B.Expr("convert", (placed,), want, e.layout, e.dtype)

    def _dot(self, e: B.Expr, at: B.Registers | None) -> B.Expr:
        left, right, *initial = e.args
        tile = right.args[0] if right.op == "trans" else right
        if tile.attr not in self.shared:
            raise UnsupportedError("a product's right operand is in no shared memory")
        if left.op != "name" or left.attr not in self.shared:
            placed = self._placed(left, self._usual(left.layout))
            left = B.Expr("operand", (placed,), at, left.layout, left.dtype)
        return replace(e, args=(left, right, *(self._placed(x, at) for x in initial)))
