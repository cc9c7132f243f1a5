"""Check what must hold of a tile program, whatever pass has made it.

Names are given once and before they are used; those of a loop's body are seen in that body, its
states also after the loop. A stream or serial axis has coordinates in its loop only. What is loaded
has a name, states are assigned once, outputs stored. That operations fit their operands `apply`
sees to.
"""

from __future__ import annotations

from collections.abc import Iterable

from monocomp import tile as P
from monocomp.declarations.dtypes import kind_of
from monocomp.declarations.vocabulary import Kind
from monocomp.errors import InternalError, faults_of, require
from monocomp.tile.printer import show

# dtypes in which many values are added up
_WIDE = ("float32", "float64", "accumulated", "int32", "int64")


def verify(program: P.TileProgram) -> P.TileProgram:
    """Check a tile program, and return it.

    Raises:
        InternalError: what is wrong, with the expression or name, and the program.
    """
    with faults_of(program, f"{program.name}: "):
        _Verifier(program).run()
    return program


class _Verifier:
    def __init__(self, program: P.TileProgram) -> None:
        self.program = program
        self.axes = program.axes
        self.outputs = {o.name: o for o in program.outputs}
        self.known: dict[str, P.Expr] = {}  # what a name stands for, as a local
        self.given: set[str] = set()
        self.loops: list[P.Loop] = []
        self.depends: dict[str, frozenset[str]] = {}  # axes from which a name has elements

    def run(self) -> None:
        for name, axis in self.axes.items():
            require(axis.name == name, f"axis {axis.name} is known as {name}")
            first = self.axes.get(axis.after or name)
            halves = axis.after is None or axis.role == "whole"
            same = first is not None and (first.extent, first.role) == (axis.extent, axis.role)
            require(halves and same, f"{name} has no tile {axis.after} before it")
        for t in self.program.inputs.values():
            kind = "float" if t.is_stored and t.dtype == P.OPERAND else kind_of(t.dtype or "")
            fits = t.dtype is None or kind == t.kind
            require(fits, f"{t.name} is {t.kind}, and not {t.dtype}")
        self._body(self.program.body)
        for name in self.outputs:
            require(self.program.stores(name), f"{name} is not stored")

    # --- statements -------------------------------------------------------------------

    def _body(self, body: list[P.Statement]) -> None:
        for s in body:
            if not isinstance(s, P.Loop):
                for e in P.roots(s):
                    self._expression(e, isinstance(s, P.Let))
            match s:
                case P.Let():
                    self._give(s.name, s.value.axes, s.value.kind, (s.value,))
                case P.Fold():
                    self._fold(s)
                case P.Mask():
                    self._mask(s, body)
                case P.Store():
                    self._store(s)
                case P.Loop():
                    self._loop(s)

    def _give(
        self, name: str, axes: frozenset[str], kind: Kind, sources: Iterable[P.Expr] = ()
    ) -> None:
        require(name not in self.given, f"{name} is given twice")
        self.given.add(name)
        self.known[name] = P.Expr("local", (), name, axes, kind)
        self.depends[name] = axes.union(*map(self._sources, sources))

    def _sources(self, e: P.Expr) -> frozenset[str]:
        """Return the axes of the elements that have gone into a value."""
        if e.op == "local":
            return self.depends[e.attr]
        return P.elements(e).union(*map(self._sources, e.args))

    def _loop(self, s: P.Loop) -> None:
        axis = s.axis
        require(self.axes.get(axis.name) == axis, f"the loop's axis {axis.name} is another one")
        is_walked = axis.role in ("stream", "serial")
        require(is_walked, f"a loop over {axis.name}, which is {axis.role}")
        require(axis not in (x.axis for x in self.loops), f"a loop over {axis.name} in its own")
        require(s.segments, f"the loop over {axis.name} has no segment")
        for e in s.bounds:
            self._expression(e)
            require(e.kind == "int", f"a bound is {e.kind}: {show(e)}")
        masks = [x for x in s.body if isinstance(x, P.Mask)]
        require(len(masks) <= 1, f"the loop over {axis.name} has several masks")
        is_masked = any(x.masked for x in s.segments)
        require(is_masked == bool(masks), f"the loop over {axis.name} and its mask do not fit")
        for field in s.state:
            self._expression(field.start)
            fits = field.start.axes <= field.axes
            require(fits, f"{field.name} starts as a larger tile: {show(field.start)}")
        for field in s.state:
            self._give(field.name, field.axes, field.kind, (field.start,))
        outside = dict(self.known)
        self.loops.append(s)
        self._body(s.body)
        self._assignments(s)
        self.loops.pop()
        self.known = outside

    def _assignments(self, s: P.Loop) -> None:
        assigned = [x for x in s.body if isinstance(x, P.Assign)]
        names = [x.name for x in assigned]
        wanted = [field.name for field in s.state]
        require(sorted(names) == sorted(wanted), f"{wanted} are assigned as {names}")
        for x in assigned:
            state = self.known[x.name]
            fits = x.value.kind == state.kind and x.value.axes <= state.axes
            require(fits, f"{x.name} becomes what it cannot hold: {show(x.value)}")
        # After the loop a state has elements from all blocks.
        for x in assigned:
            self.depends[x.name] |= self._sources(x.value)

    def _mask(self, s: P.Mask, body: list[P.Statement]) -> None:
        enclosing = self.loops[-1].body if self.loops else None
        require(enclosing is body, "a mask outside of a loop")
        require(s.value.kind == "bool", f"a mask is {s.value.kind}: {show(s.value)}")

    def _fold(self, s: P.Fold) -> None:
        counts = {len(s.names), len(s.state), len(s.elements)}
        kinds = [e.kind for e in s.state]
        require(len(counts) == 1, f"{', '.join(s.names)} have other fields than their fold")
        require(not s.prefixes or len(s.prefixes) == len(s.names), "some prefixes are missing")
        require([e.kind for e in s.elements] == kinds, f"elements of {s.names[0]} are no states")
        require(s.axis in self.axes, f"a fold along {s.axis}")
        if isinstance(s.monoid, P.Selection):
            rank = self.axes.get(s.monoid.axis)
            require(rank and rank.role == "whole", f"a list along {s.monoid.axis}")
            require(kinds == ["float", "int"], f"a list of {kinds}")
            require(not s.prefixes, "a list has no prefixes")
            require(all(s.monoid.axis in e.axes for e in s.state), "a list is of several axes")
        else:
            self._combine(s.monoid, kinds)
        given = frozenset().union(*(e.axes for e in (*s.state, *s.elements))) - {s.axis}
        for name, kind in zip(s.names, kinds, strict=True):
            self._give(name, given, kind, (*s.state, *s.elements))
        for name, kind in zip(s.prefixes, kinds, strict=False):
            self._give(name, given | {s.axis}, kind, (*s.state, *s.elements))

    def _combine(self, monoid: P.Combine, kinds: list[Kind]) -> None:
        """The formulas of a combine are about its fields and nothing else."""
        fields = {len(monoid.left), len(monoid.right), len(monoid.results), len(kinds)}
        require(len(fields) == 1, f"the combine {monoid.name} has other fields")
        inner = _Verifier(P.TileProgram(monoid.name, {}, {}, {}, ()))
        for name, kind in zip((*monoid.left, *monoid.right), kinds * 2, strict=True):
            inner._give(name, frozenset(), kind)
        inner._body(list(monoid.body))
        for e, kind in zip(monoid.results, kinds, strict=True):
            inner._expression(e)
            require(e.kind == kind, f"the combine {monoid.name} makes {e.kind} of {kind}")

    def _store(self, s: P.Store) -> None:
        output = self.outputs.get(s.output)
        if output is None:
            raise InternalError(f"{s.output} is stored and no output")
        require(
            len(s.positions) == len(output.dims), f"{s.output} has {len(output.dims)} dimensions"
        )
        require(all(e.kind == "int" for e in s.positions), f"a position in {s.output} is no int")
        require(s.value.kind == output.kind, f"{s.output} is {output.kind}: {show(s.value)}")
        require(s.guard is None or s.guard.kind == "bool", f"a guard of {s.output} is no bool")
        others = {x.mode for x in self.program.stores(s.output)} - {s.mode}
        require(not others, f"{s.output} is both set and added to")
        axes = frozenset().union(*(e.axes for e in s.positions))
        guarded = frozenset() if s.guard is None else s.guard.axes
        require(guarded <= axes | s.value.axes, f"a guard of {s.output} is for other elements")
        if s.mode == "set":
            require(s.value.axes <= axes, f"several elements are stored in one of {s.output}")
            return
        is_wide = output.kind == "int" or output.is_wide or output.dtype in _WIDE
        require(is_wide and output.kind != "bool", f"{s.output} is too narrow to be added to")
        # What lacks an axis that is cut into blocks is added once a block, so it must be a sum
        # over the block.
        cut = ("row", "stream")
        blocks = {*self.program.axis_names("row"), *(x.axis.name for x in self.loops)}
        blocks = {a for a in blocks if self.axes[a].role in cut}
        missing = sorted(blocks - self._sources(s.value) - axes)
        require(not missing, f"{s.output} is added to for each block of {', '.join(missing)}")

    # --- expressions ------------------------------------------------------------------

    def _expression(self, root: P.Expr, is_named: bool = False) -> None:
        for e in P.subexpressions(root):
            match e.op:
                case "load":
                    require(is_named and e is root, f"{show(e)} has no name")
                case "local":
                    known = self.known.get(e.attr)
                    fits = known is not None and (known.axes, known.kind) == (e.axes, e.kind)
                    require(fits, f"{e.attr} is {e.kind} along {sorted(e.axes)}, and not {known}")
                case "coordinate":
                    axis = self.axes[e.attr]
                    is_walked = axis.role in ("stream", "serial")
                    is_open = not is_walked or axis in (x.axis for x in self.loops)
                    require(is_open, f"{e.attr} outside of its loop")


def verify_all(programs: Iterable[P.TileProgram]) -> None:
    """Check the kernels of a program, and that each reads what one before it has stored."""
    programs = tuple(programs)
    for p in programs:
        verify(p)
    written = {o.name: n for n, p in enumerate(programs) for o in p.outputs}
    for n, p in enumerate(programs):
        for t in p.inputs.values():
            is_there = not t.is_stored or written.get(t.name, n) < n
            require(is_there, f"{p.name} reads {t.name}, which no kernel before it stores")
