"""Loads of tiles, by pointers or by descriptors."""

from __future__ import annotations

from functools import cached_property

from monocomp.backends.triton.descriptors import Block
from monocomp.backends.triton.expressions import Expressions
from monocomp.backends.triton.syntax import ATOM, BIT_AND, COMPARE, MUL
from monocomp.tile import Expr, Let, Loop, expressions, subexpressions, walk


class Accesses(Expressions):
    """Writes loads."""

    @cached_property
    def held(self) -> dict[str, int]:
        """The dimension of each tensor along which a tile holds it entirely, the last one."""
        found: dict[str, int] = {}
        for e in expressions(self.program.body):
            places = e.args if e.op == "load" else ()
            for dim, place in enumerate(places):
                if place.op == "coordinate" and self.program.axes[place.attr].role == "whole":
                    found[e.attr] = max(dim, found.get(e.attr, 0))
        for o in self.program.outputs:
            for dim, place in enumerate(self.program.stores(o.name)[0].places):
                if place.op == "coordinate" and self.program.axes[place.attr].role == "whole":
                    found[o.name] = dim
        return {tensor: dim for tensor, dim in found.items() if len(self._dims(tensor)) > 1}

    def _steps(self) -> None:
        """Say that STEP divides strides: what is held entirely is then loaded several elements
        at a time. By itself Triton only looks whether 16 divides an argument."""
        if self.held:
            self._put("# STEP divides these: loads of several elements need to know.")
        for tensor, held in self.held.items():
            rank = len(self._dims(tensor))
            for dim in (n for n in range(rank) if n != held):
                stride = self._stride(tensor, dim)
                self._assign(stride, f"{stride} // STEP * STEP")

    def _load(self, s: Let) -> None:
        """Load a tile: by a descriptor, where there is one and it can, or by pointers."""
        block = self.described.get(s.name)
        streams = [a for a in block.tile if self._streams(a)] if block else []
        if block is None or not all(a in self.covered for a in streams):
            self._load_by_pointers(s)
            return
        if block not in self.descriptors:
            self.descriptors.append(block)
        tests = [self.covered[a] for a in streams if self.covered[a]]
        self._put(f"if {' and '.join([f'{self.descriptor(block)} is not None', *tests])}:")
        self.indent += 1
        self._load_by_descriptor(s, block)
        self.indent -= 1
        self._put("else:")
        self.indent += 1
        self._load_by_pointers(s)
        self.indent -= 1

    def _load_by_descriptor(self, s: Let, block: Block) -> None:
        layout = self._order(s.value.axes)
        if s.name in self.flipped:
            layout = layout[::-1]
        places = ", ".join(map(self._first, block.axes, s.value.args))
        tile = f"{self.descriptor(block)}.load([{places}])"
        tile = f"tl.reshape({tile}, [{self._shape(block.tile)}])"
        text = tile if block.tile == layout else f"tl.trans({tile})"
        self._assign(self._local(s.name), text)

    def _first(self, axis: str | None, place: Expr) -> str:
        """The first element of a block along a dimension, or the only one."""
        if axis is None:
            text = self._text(place, ())
            return text if place.op in ("number", "coordinate") else f"tl.cast({text}, tl.int32)"
        known = self.program.axes[axis]
        if known.role == "whole":
            return self._block(known.after) if known.after else "0"
        if known.role == "row":
            return self._name("start", axis, f"start_{axis}")
        return self._name("first", axis, f"first_{axis}")

    def _load_by_pointers(self, s: Let) -> None:
        """Load a tile, or one element, where a block needs no other."""
        held = self._held_by_blocks(s.value)
        if held is None:
            self._load_elements(s)
            return
        (axis, test), target = held, self._local(s.name)
        self._put(f"if {test}:")
        self.indent += 1
        with self._at_first_element(axis):
            self._load_elements(s)
        self._assign(target, f"tl.broadcast_to({target}, [{self._block(axis)}])")
        self.indent -= 1
        self._put("else:")
        self.indent += 1
        self._load_elements(s)
        self.indent -= 1

    def _load_elements(self, s: Let) -> None:
        e = s.value
        layout = self._order(e.axes)
        if s.name in self.flipped:
            layout = layout[::-1]
        pointer = self._address(e, s.name, layout)
        masks = self._all_inside(layout)
        subscripts = e.args[: len(e.args) - 1] if e.guarded else e.args
        if any(x.op != "coordinate" for x in subscripts):
            masks += self._in_range(self.program.inputs[e.attr].dims, subscripts, layout)
        mask = self._guarded(e.args[-1] if e.guarded else None, layout, " & ".join(masks))
        target = self._local(s.name)
        if not mask:
            self._assign(target, f"tl.load({pointer})")
            return
        other = "0.0" if e.kind == "float" else "0"
        self._assign(target, f"tl.load({pointer}, mask={mask}, other={other})")

    def _guarded(self, guard: Expr | None, layout: tuple[str, ...], mask: str) -> str:
        """A mask where a guard holds, too."""
        if guard is None:
            return mask
        if layout and not self._order(guard.axes):  # as in `_infix`
            return f"tl.where({self._value(guard, (), 0)}, {mask or 'True'}, False)"
        text = self._value(guard, layout, BIT_AND + 1)
        return f"{mask} & {text}" if mask else text

    def _in_range(
        self, extents: tuple[str, ...], subscripts: tuple[Expr, ...], layout: tuple[str, ...]
    ) -> list[str]:
        """A computed subscript that leaves its tensor reads and writes nothing."""
        masks = []
        for extent, s in zip(extents, subscripts, strict=True):
            size, value = self._size(extent), self._meaning(s)
            if s.op == "number" and s.attr >= 0:
                masks.append(f"({size} > {s.attr})")
            elif s.op != "coordinate" and not _is_remainder(value, extent):
                text = self._text(value if self.single else s, layout, COMPARE + 1)
                if value.op not in ("floordiv", "mod") or value.attr != "nonnegative":
                    masks.append(f"({text} >= 0)")
                masks.append(f"({text} < {size})")
        return masks

    def _address(self, e: Expr, key: str, layout: tuple[str, ...]) -> str:
        """The pointers of a load: first what is the same for all of them, of which what is the
        same for the whole loop is added before it."""
        subscripts = e.args[: len(e.args) - 1] if e.guarded else e.args
        numbers = [self.bases.get(key) or self._base(e, subscripts)]
        tiles = []
        for dim, s in enumerate(subscripts):
            stride = self._stride(e.attr, dim)
            if not s.axes.isdisjoint(self.single):
                numbers.append(f"tl.cast({self._text(self._meaning(s), ())}, tl.int64) * {stride}")
            elif self._is_moved(self._meaning(s)):
                numbers.append(f"tl.cast({self._moved(self._meaning(s))}, tl.int64) * {stride}")
                text = self._local(s.attr) if s.op == "local" else f"({self._place(s)})"
                text = self._spread(text, self._layout(s), layout)
                tiles.append(f"{text}.to(INDEX) * {stride}")
            elif self._order(s.axes):
                text = self._text(s, layout, MUL)
                if s.op != "coordinate":
                    text = f"{self._text(s, layout, ATOM)}.to(INDEX)"
                tiles.append(f"{text} * {stride}")
        if layout and not tiles:  # a guard varies alone, and no mask is larger than its pointers
            tiles.append(f"tl.zeros([{self._shape(layout)}], tl.int32)")
        return " + ".join([*numbers, *tiles])

    def _base(self, e: Expr, subscripts: tuple[Expr, ...]) -> str:
        parts = [self._pointer(e.attr)]
        for dim, s in enumerate(subscripts):
            is_zero = s.op == "number" and s.attr == 0
            if not self._order(s.axes) and s.axes.isdisjoint(self.single) and not is_zero:
                stride, place = self._stride(e.attr, dim), self._text(s, ())
                if s.op == "number":
                    parts.append(f"{place} * tl.cast({stride}, tl.int64)")
                else:
                    parts.append(f"tl.cast({place}, tl.int64) * {stride}")
        return " + ".join(parts)

    def _hoist_bases(self, loop: Loop) -> None:
        for s in walk(loop.body):
            if not (isinstance(s, Let) and s.value.op == "load") or s.name in self.bases:
                continue
            e = s.value
            subscripts = e.args[: len(e.args) - 1] if e.guarded else e.args
            scalars = [x for x in subscripts if not self._order(x.axes)]
            inner = {x.attr for y in scalars for x in subexpressions(y) if x.op == "local"}
            serial = {x.attr for y in scalars for x in subexpressions(y) if x.op == "coordinate"}
            serial = {a for a in serial if self.program.axes[a].role == "serial"}
            if inner <= self.known and not serial:
                text = self._base(e, subscripts)
                if " + " in text:
                    name = self._name("base", s.name, f"{e.attr}_base")
                    self._assign(name, text)
                    self.bases[s.name] = name


def _is_remainder(e: Expr, extent: str) -> bool:
    """Is this a place below an extent, whatever was divided by it?"""
    divisor = e.args[1] if e.op == "mod" else None
    return divisor is not None and divisor.op == "extent" and divisor.attr == extent
