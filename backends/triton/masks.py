"""Masks of tiles: which elements of a block are in the domain of its loop."""

from __future__ import annotations

from monocomp.backends.triton.bounds import Bounds
from monocomp.backends.triton.syntax import ADD, literal
from monocomp.tile import Expr, Let, Loop, Mask


class Masks(Bounds):
    """Writes masks."""

    def _mask(self, s: Mask, loop: Loop) -> None:
        """Name what a mask admits. A block in which a mask that is read admits nothing is
        left out: reading it is cheap beside what it saves. One that is computed has members
        everywhere, as a rule."""
        axis = loop.axis.name
        text = self._value(s.value, self._layout(s.value), 0)
        if not text.isidentifier():
            name = self._name("admitted", axis, "admitted")
            self._assign(name, text)
            text = name
        self.admitted[axis] = self._spread(text, self._layout(s.value), self._order(s.value.axes))
        self.kept = {}
        if loop.axis.role == "serial":
            return
        self._leave_out(loop, s.value)
        if self._reads_along(s.value, {axis}):
            count = self._name("members", axis, f"any_{axis}")
            self._assign(count, f"tl.max({self._inside(axis)}.to(tl.int32), 0)")
            tests = [f"{segment} == {n}" for segment, n in self._unmasked_segments(loop)]
            self._put(f"if {' or '.join([*tests, f'{count} > 0'])}:")
            self.indent += 1

    def _leave_out(self, loop: Loop, mask: Expr) -> None:
        """Read nothing that no row of the block admits: what stands there, be it NaN, would
        enter a sum as 0 times itself."""
        axis = loop.axis.name
        layout = self._order({axis}.union(*(e.axes for e in (mask, *loop.bounds))))
        inside, seen = self._inside(axis), self._domain_text(loop, layout)
        if len(layout) > 1:
            seen = f"{seen}.to(tl.int32)"
            for place in reversed([n for n, a in enumerate(layout) if a != axis]):
                seen = f"tl.max({seen}, {place})"
            seen = f"({seen} > 0)"
        self._assign(inside, f"{inside} & {seen}")

    def _reads_along(self, e: Expr, axes: set[str]) -> bool:
        """Is a tensor read along one of the axes to compute the value?"""
        if axes.isdisjoint(e.axes):
            return False
        parts = (self.lets[e.attr],) if e.op == "local" and e.attr in self.lets else e.args
        return e.op == "load" or any(self._reads_along(p, axes) for p in parts)

    def _masked(self, e: Expr, want: tuple[str, ...]) -> str:
        axis, unit = e.attr
        loop = next((x for x in reversed(self.loops) if x.axis.name == axis), None)
        if loop is None:
            condition = self._spread(self._inside(axis), (axis,), want)
        else:
            condition = self._domain_text(loop, want)
        value = self._value(e.args[0], want, 0)
        if e.kind == "int":
            value = f"tl.cast({value}, tl.int64)"
        return self._where(condition, value, e.kind, unit)

    def _domain_text(self, loop: Loop, want: tuple[str, ...]) -> str:
        """The name of the tile that tells which elements are in the loop's domain."""
        axis = loop.axis
        found = self.kept.get((axis.name, want))
        if found is not None:
            return found
        if axis.name in self.sliding:
            return self._slid_domain(loop, want)
        serial = axis.role == "serial"
        offs = self._axis(axis.name)
        if not serial:
            offs = self._spread(offs, (axis.name,), want)
        parts = []
        rows = self._order({a for b in loop.bounds for a in b.axes})
        is_bounded = False  # do the rows' bounds say it all?
        if serial and len(loop.segments) == 1:
            (segment,) = loop.segments
            parts += [f"({offs} >= {self._text(b, want, ADD)})" for b in segment.lower]
            parts += [f"({offs} < {self._text(b, want, ADD)})" for b in segment.upper]
        elif rows:
            several = len(loop.segments) > 1
            purposes = ["from"] if several or self._vary(loop.segments[0].lower) else []
            purposes += ["to"] if several or loop.segments[0].upper else []
            is_bounded = "to" in purposes
            for purpose in purposes:
                run = "run_" if axis.name in self.runs else ""
                bound = self._spread(self._bound(axis.name, run + purpose), rows, want)
                parts.append(f"({offs} {'>=' if purpose == 'from' else '<'} {bound})")
        admitted = self._admitted(loop, want) if axis.name in self.admitted else None
        if admitted is not None:
            parts.append(admitted)
        inside = None
        if not serial and not is_bounded:
            inside = self._spread(self._inside(axis.name), (axis.name,), want)
        if not parts:
            return inside or "True"
        name = self._name("keep", f"{axis.name} {want}", "keep")
        first = parts.pop(0)
        self._assign(name, f"{inside} & {first}" if inside else first)
        for p in parts:
            # Triton's interpreter takes a truth value that it makes a tile of for a float.
            is_value = want and p is admitted and not self._order(_mask_of(loop).axes)
            self._assign(name, f"tl.where({p}, {name}, False)" if is_value else f"{name} & {p}")
        if axis.name in self.unmasked:
            self._assign(name, f"{name} | {self.unmasked[axis.name]}")
        if not serial:
            self.kept[axis.name, want] = name
        return name

    def _slid_domain(self, loop: Loop, want: tuple[str, ...]) -> str:
        """The elements of a block that slides which are in the domain, but for those that the
        block before it has."""
        axis = loop.axis.name
        place, high = self.sliding[axis]
        first, run = self._name("first", axis), "run_" if axis in self.runs else ""
        rows = self._order({a for b in loop.bounds for a in b.axes})
        begin = f"{run}from" if rows else "low"  # of each row, or of all
        low = f"(tl.maximum({self._bound(axis, begin)}, {place}) - {first})"
        if rows and (len(loop.segments) > 1 or loop.segments[0].upper):
            end = self._spread(f"({self._bound(axis, f'{run}to')} - {first})", rows, want)
        else:
            end = f"{high} - {first}"
        places = self._spread(f"tl.arange(0, {self._block(axis)})", (axis,), want)
        name = self._name("keep", f"{axis} {want}", "keep")
        self.helpers["between"] = None
        self._assign(name, f"between({places}, {self._spread(low, rows, want)}, {end})")
        self.kept[axis, want] = name
        return name

    def _is_masked_at_edges(self, e: Expr) -> bool:
        """Is a whole tile masked, in a loop that asks at each block whether to?"""
        axis, _ = e.attr
        layout = self._layout(e)
        is_whole = self._order(e.args[0].axes) == layout
        return is_whole and axis in self.edges and (axis, layout) not in self.kept

    def _mask_at_edges(self, s: Let) -> None:
        (axis, unit), name, layout = s.value.attr, self._local(s.name), self._layout(s.value)
        loop = next(x for x in reversed(self.loops) if x.axis.name == axis)
        value = self._value(s.value.args[0], layout, 0)
        self._assign(name, f"tl.cast({value}, tl.int64)" if s.value.kind == "int" else value)
        self._put(f"if {self.edges[axis]}:")
        self.indent += 1
        self._assign(name, self._where(self._domain_text(loop, layout), name, s.value.kind, unit))
        self.kept.pop((axis, layout), None)  # named under the condition only
        self.indent -= 1

    def _where(self, condition: str, value: str, kind: str, unit: float) -> str:
        """The value, or a monoid's unit."""
        other = literal(unit, kind)
        if kind == "int":  # the unit may need all bits
            return f"tl.where({condition}, {value}, tl.full([], {other}, tl.int64))"
        return f"tl.where({condition}, {value}, {other})"

    def _admitted(self, loop: Loop, want: tuple[str, ...]) -> str:
        """What the mask admits; in segments without a mask all."""
        text = self._spread(self.admitted[loop.axis.name], self._order(_mask_of(loop).axes), want)
        tests = [f"({segment} == {n})" for segment, n in self._unmasked_segments(loop)]
        return f"({' | '.join([text, *tests])})" if tests else text

    def _unmasked_segments(self, loop: Loop) -> list[tuple[str, int]]:
        """The name that counts a loop's segments, with the numbers of those without a mask."""
        name = self._name("segment", loop.axis.name, "segment")
        return [(name, n) for n, s in enumerate(loop.segments) if not s.masked]


def _mask_of(loop: Loop) -> Expr:
    """What the elements of a loop with a mask must satisfy."""
    return next(s.value for s in loop.body if isinstance(s, Mask))
