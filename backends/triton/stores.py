"""Stores of tiles, and their sums: at coordinates or at computed places."""

from __future__ import annotations

from monocomp.backends.triton.loops import Loops
from monocomp.backends.triton.syntax import ATOM, TYPES
from monocomp.tile import Loop, Store, roots


class Stores(Loops):
    """Writes stores."""

    def _store(self, s: Store) -> None:
        layout = self._order({a for e in roots(s) for a in e.axes})
        (output,) = (o for o in self.program.outputs if o.name == s.output)
        pointer = self._places(s, layout)
        value = self._stored(s, layout)
        masks = self._all_inside(layout)
        masks += [m for loop in self.loops for m in self._members(loop, layout)]
        if any(p.op != "coordinate" for p in s.places):
            masks += self._in_range(output.dims, s.places, layout)
        mask = self._guarded(s.guard, layout, " & ".join(masks))
        arguments = [pointer, value] + ([f"mask={mask}"] if mask else [])
        function = "tl.store"
        if s.mode == "add":  # in any order
            function, arguments = "tl.atomic_add", [*arguments, 'sem="relaxed"']
        self._fit("", f"{function}({', '.join(arguments)})", "")

    def _places(self, s: Store, layout: tuple[str, ...]) -> str:
        """The pointers of a store."""
        parts = [self._pointer(s.output)]
        for dim, place in enumerate(s.places):
            stride = self._stride(s.output, dim)
            if place.op == "coordinate" and self._order(place.axes):
                text = self._text(place, layout)
            elif self._order(place.axes):
                text = f"{self._text(place, layout, ATOM)}.to(INDEX)"
            else:
                text = f"tl.cast({self._text(place, ())}, tl.int64)"
            parts.append(f"{text} * {stride}")
        if self._order({a for e in s.places for a in e.axes}) != layout:
            parts.append(f"tl.zeros([{self._shape(layout)}], tl.int32)")
        return " + ".join(parts)

    def _stored(self, s: Store, layout: tuple[str, ...]) -> str:
        """A name for the value, in the dtype of the output."""
        value = self._text(s.value, layout, ATOM)
        if self._layout(s.value) != layout and not self._layout(s.value):
            kind = TYPES[s.value.kind]
            value = f"tl.full([{self._shape(layout)}], {self._text(s.value)}, {kind})"
        if not value.isidentifier():
            tile = self._name("result", s.output, f"{s.output}_tile")
            self._assign(tile, self._text(s.value, layout) if value[0] == "(" else value)
            value = tile
        dtype = f"{self._pointer(s.output)}.dtype.element_ty"
        # A size of 1 is a constant for Triton, and a parameter a number for its interpreter.
        is_plain = not layout and (s.value.kind == "int" or s.value.op == "param")
        return f"tl.cast({value}, {dtype})" if is_plain else f"{value}.to({dtype})"

    def _members(self, loop: Loop, layout: tuple[str, ...]) -> list[str]:
        """The mask of the elements that are in a loop's domain, for some element along axes that
        the tile has not; none if all are."""
        if loop.is_whole:
            return []
        domain = self._order(loop.domain)
        text = self._domain_text(loop, domain)
        if text == "True":
            return []
        for axis in (a for a in domain[::-1] if a not in layout):
            text = f"(tl.max({text}.to(tl.int32), {domain.index(axis)}) > 0)"
        return [self._spread(text, tuple(a for a in domain if a in layout), layout)]
