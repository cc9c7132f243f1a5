"""Check what must hold of a block program, whatever passes have chosen: names are given before they
are used and keep their dimensions and kind, tiles meet in dimensions that agree, and accesses have
the dimensions of what they read and write.
"""

from __future__ import annotations

from collections.abc import Mapping

from monocomp import blocks as B
from monocomp.blocks.operations import broadcast_layout
from monocomp.errors import InternalError, faults_of, require
from monocomp.tile.operations import scheduled

_Known = dict[str, tuple[B.Layout, B.DtypeKind]]


def verify(program: B.BlockProgram) -> None:
    """Check a program.

    Raises:
        InternalError: with what is wrong, and the program.
    """
    for m in program.maps:
        verify(m)
    with faults_of(program):
        known = {a.name.attr: (a.name.layout, a.name.dtype.kind) for a in program.arguments}
        known["pid"] = known["GROUP"] = ((), "int")
        for part in (program.body, program.producer.body if program.producer else ()):
            _Verifier(program).body(part, dict(known))
        for f in program.functions.values():
            operands = {x.attr: (x.layout, x.dtype.kind) for x in f.operands}
            inner = _Verifier(program)
            inner.body(f.body, operands)
            for x in f.results:
                inner.expr(x, operands)


class _Verifier:
    def __init__(self, program: B.BlockProgram) -> None:
        self.program = program

    # --- statements ---------------------------------------------------------------------------

    def body(self, body: B.Body, known: _Known) -> None:
        """Check statements, and add the names that they give."""
        for s in body:
            for e in B.roots(s):
                self.expr(e, known)
            match s:
                case B.Assign(targets=(target,)):
                    require(target.layout == s.value.layout, f"{target.attr} has other dimensions")
                    require(_are_alike(target, s.value), f"{target.attr} is of another kind")
                    self._name(target, known)
                case B.Assign() | B.Learn():
                    for target in s.targets:
                        self._name(target, known)
                case B.Load():
                    self._load(s)
                    self._name(s.target, known)
                case B.Take():
                    same = sorted(s.ring.block.tile) == sorted(a for a in s.target.layout if a)
                    require(same and s.ring in self.program.rings, f"{s.target.attr} is no block")
                    self._name(s.target, known)
                case B.Issue():
                    require(s.target.layout == s.product.layout, f"{s.target.attr} is no product")
                    known.pop(s.target.attr, None)
                case B.Wait():
                    self._name(s.target, known)
                case B.Give():
                    require(s.ring.block == s.access.block, f"{s.ring.name} holds other blocks")
                case B.Store():
                    layout = self._pointers(s.access)
                    fits = broadcast_layout(layout, s.value.layout) == layout
                    require(fits, f"pointers along {layout} for a tile along {s.value.layout}")
                case B.For():
                    inner = dict(known)
                    self._name(s.variable, inner)
                    self.body(s.body, inner)
                    self._keep(inner, known)
                case B.While():
                    inner = dict(known)
                    self.body(s.body, inner)
                    self._keep(inner, known)
                case B.If():
                    one, other = dict(known), dict(known)
                    self.body(s.body, one)
                    self.body(s.orelse, other)
                    for name in one.keys() & other.keys():
                        require(one[name] == other[name], f"{name} differs between branches")
                        known[name] = one[name]

    def _name(self, target: B.Expr, known: _Known) -> None:
        known[target.attr] = target.layout, target.dtype.kind

    def _keep(self, inner: Mapping[str, tuple[B.Layout, B.DtypeKind]], known: _Known) -> None:
        """A loop may run no time: what it names is not known after it."""
        for name in known:
            require(inner.get(name) == known[name], f"{name} changes what it is in a loop")

    def _load(self, s: B.Load) -> None:
        if isinstance(s.access, B.Pointers):
            layout = self._pointers(s.access)
            same = layout == s.target.layout
            require(same, f"pointers along {layout} for a tile along {s.target.layout}")
            return
        block = s.access.block
        require(block.tensor == s.tensor, f"a descriptor of {block.tensor} loads {s.tensor}")
        require(len(s.access.positions) == len(block.axes), f"{s.tensor} has another rank")
        same = sorted(block.tile) == sorted(a for a in s.target.layout if a)
        require(same and len(block.tile) in (1, 2), f"{s.target.attr} is no block of {s.tensor}")

    def _pointers(self, access: B.Pointers) -> B.Layout:
        """Return the dimensions of the pointers."""
        require(access.base.dtype.kind == "pointer", "what is loaded from is no pointer")
        for e in access.offsets:
            require(e.dtype.kind == "int", "an offset is no int")
        parts = list(access.offsets)
        if access.mask is not None:
            require(access.mask.dtype.kind == "bool", "a mask has no truth values")
            parts.append(access.mask)
        return broadcast_layout(*(e.layout for e in parts))

    # --- expressions --------------------------------------------------------------------------

    def expr(self, e: B.Expr, known: _Known) -> None:
        """Check a value and its operands."""
        for a in e.args:
            self.expr(a, known)
        row = scheduled(e.op)
        if row is None:
            raise InternalError(f"there is no operation {e.op}")
        require(row.takes(len(e.args)), f"{e.op} of {len(e.args)} operands")
        layouts = [a.layout for a in e.args]
        match e.op:
            case "name":
                options = ("INDEX", "PRECISION", "FAST", "STEP", "GROUP_SIZE")
                require(e.attr in known or e.attr in options, f"{e.attr} has no value yet")
                if e.attr in known:
                    has = e.layout, e.dtype.kind
                    require(known[e.attr] == has, f"{e.attr} is read as {has}, not {known[e.attr]}")
            case "arange":
                require(e.layout[0] in self.program.lengths, f"{e.layout} has no blocks")
            case "expand":
                kept = tuple(a for a in e.layout if a is not None)
                require(kept == layouts[0], f"{layouts[0]} is not expanded to {e.layout}")
            case "trans":
                require(e.layout == layouts[0][::-1], "trans swaps dimensions")
            case "broadcast":
                require(broadcast_layout(layouts[0], e.layout) == e.layout, "too narrow")
            case "reduce":
                dim = e.attr.dim
                for layout in layouts:
                    require(0 <= dim < len(layout), "no such dimension")
                    require(layout[dim] is not None, "a dimension of length 1 is reduced")
                    require(e.layout == (*layout[:dim], *layout[dim + 1 :]), "reduce drops one")
            case "dot" | "dot_in_limbs":
                (m, k), (k2, n) = layouts[:2]
                require(k == k2 and e.layout == (m, n), f"{layouts[:2]} do not meet in a product")
                require(layouts[2:] in ([], [()], [(m, n)]), "what is added has other dimensions")
            case "select" | "given":
                require(not layouts[0], "a choice between values needs a scalar")
            case "compare" | "and" | "or":
                require(e.dtype.kind == "bool", "a comparison is true or false")
        if row.is_elementwise:
            require(broadcast_layout(*layouts) == e.layout, f"{e.op} has other dimensions")


def _are_alike(target: B.Expr, value: B.Expr) -> bool:
    kinds = {target.dtype.kind, value.dtype.kind}
    return len(kinds) == 1 or kinds == {"bool", "int"}
