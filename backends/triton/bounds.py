"""Bounds of streams: of a block of rows, of each row, and where no row needs a mask."""

from __future__ import annotations

from monocomp.backends.triton.expressions import Expressions
from monocomp.backends.triton.syntax import ATOM
from monocomp.tile import Expr, Loop, Segment

_MONOTONE = ("coordinate", "local", "add", "sub", "neg", "maximum", "minimum", "mul")


class Bounds(Expressions):
    """Writes bounds of loops."""

    def _may_have_gaps(self, segment: Segment) -> bool:
        """Can there be elements between the bounds of a block's rows that no row admits?

        Intervals that all begin, or all end, at the same element have none, nor have those whose
        ends grow by one from row to row.
        """
        varying = self._vary(segment.lower) and self._vary(segment.upper)
        return varying and not (segment.masked or all(map(self._grows_by_one, segment.bounds)))

    def _grows_by_one(self, bound: Expr) -> bool:
        """Is this a coordinate and what is the same for all rows, or only that?"""
        if not self._order(bound.axes):
            return True
        match bound.op:
            case "local" if bound.attr in self.lets:
                return self._grows_by_one(self.lets[bound.attr])
            case "add":
                varying = [a for a in bound.args if self._order(a.axes)]
                return len(varying) == 1 and self._grows_by_one(varying[0])
            case "sub":
                return self._grows_by_one(bound.args[0]) and not self._order(bound.args[1].axes)
        return bound.op == "coordinate"

    def _is_short(self, segment: Segment) -> bool:
        """Do the ends of a block's rows lie within as many elements as there are rows?"""
        return bool(segment.upper) and all(map(self._steps_by_one, segment.upper))

    def _steps_by_one(self, bound: Expr) -> bool:
        """Is a bound the same for all rows, or at most one more for the next row?"""
        if bound.op == "local" and bound.attr in self.lets:
            return self._steps_by_one(self.lets[bound.attr])
        if bound.op in ("maximum", "minimum"):
            return all(map(self._steps_by_one, bound.args))
        return self._grows_by_one(bound)

    def _vary(self, bounds: tuple[Expr, ...]) -> bool:
        """Are bounds not the same for all rows?"""
        return any(self._order(e.axes) for e in bounds)

    def _tile_of(
        self, bounds: tuple[Expr, ...], purpose: str, loop: Loop, layout: tuple[str, ...]
    ) -> str:
        """The bound of a segment for each row of the block, within the bounds of the block."""
        varying = [e for e in bounds if self._order(e.axes)]
        scalar = self._bound(loop.axis.name, purpose)
        if not varying:
            return f"tl.full([{self._shape(layout)}], {scalar}, INDEX)"
        text = scalar
        for e in varying:
            bound = self._wide(e, layout, 0) if self._is_load(e) else self._text(e, layout)
            text = f"tl.{'maximum' if purpose == 'low' else 'minimum'}({text}, {bound})"
        if any(map(self._has_64_bits, varying)):
            limit = "minimum" if purpose == "low" else "maximum"
            text = f"tl.{limit}({text}, {self._size(loop.axis.extent) if purpose == 'low' else 0})"
            text = f"tl.cast({text}, INDEX)"
        return text

    def _row_bounds(self, loop: Loop, low: str, high: str) -> None:
        """Name the bounds of a loop's only segment for each row of the block."""
        (segment,) = loop.segments
        axis = loop.axis.name
        layout = self._order({a for e in segment.bounds for a in e.axes})
        if not layout:
            return
        lower = segment.lower if self._vary(segment.lower) else ()
        for purpose, bounds, end, text in (
            ("from", lower, "low", low),
            ("to", segment.upper, "high", high),
        ):
            if bounds:
                if text != self._bound(axis, end):
                    self._assign(self._bound(axis, end), text)
                self._assign(self._bound(axis, purpose), self._tile_of(bounds, end, loop, layout))

    def _bounds(self, loop: Loop, segment: Segment) -> tuple[str, str, str, str]:
        """(low, high, full low, full high): the block's rows need [low, high), and
        [full low, full high) is inside for each of them."""
        size = self._size(loop.axis.extent)
        low = full_low = "0"
        high = full_high = size
        for e in segment.lower:
            least, most = self._interval(e)
            low, full_low = f"tl.maximum({low}, {least})", f"tl.maximum({full_low}, {most})"
        for e in segment.upper:
            least, most = self._interval(e)
            high, full_high = f"tl.minimum({high}, {most})", f"tl.minimum({full_high}, {least})"
        if any(map(self._has_64_bits, segment.lower)):
            low, full_low = (f"tl.cast(tl.minimum({x}, {size}), INDEX)" for x in (low, full_low))
        if any(map(self._has_64_bits, segment.upper)):
            high, full_high = (f"tl.cast(tl.maximum({x}, 0), INDEX)" for x in (high, full_high))
        return low, high, full_low, full_high

    def _has_64_bits(self, e: Expr) -> bool:
        """Is an int computed in 64 bits? A loop needs no more than its index has."""
        if e.op == "local" and e.attr in self.lets:
            return self._has_64_bits(self.lets[e.attr])
        wide = e.op == "load" or self._is_wide(e)
        return wide or any(map(self._has_64_bits, e.args))

    def _interval(self, e: Expr) -> tuple[str, str]:
        """The least and the largest value of an int over the block, as scalars."""
        if not self._order(e.axes):
            text = self._text(e, (), ATOM)
            return text, text
        match e.op:
            case "local" if e.attr in self.lets and self.lets[e.attr].op in _MONOTONE:
                return self._interval(self.lets[e.attr])
            case "coordinate" if self.program.axes[e.attr].role == "row":
                return self._name("start", e.attr), self._name("last", e.attr)
            case "add":
                (a, b), (c, d) = map(self._interval, e.args)
                return f"{a} + {c}", f"{b} + {d}"
            case "sub":
                (a, b), (c, d) = map(self._interval, e.args)
                return f"{a} - {_grouped(d)}", f"{b} - {_grouped(c)}"
            case "neg":
                a, b = self._interval(e.args[0])
                return f"-{_grouped(b)}", f"-{_grouped(a)}"
            case "maximum" | "minimum":
                (a, b), (c, d) = map(self._interval, e.args)
                return f"tl.{e.op}({a}, {c})", f"tl.{e.op}({b}, {d})"
            case "mul" if e.args[0].op == "number":
                a, b = self._interval(e.args[1])
                factor = e.args[0].attr
                low, high = (a, b) if factor >= 0 else (b, a)
                return f"{factor} * {_grouped(low)}", f"{factor} * {_grouped(high)}"
            case "floordiv" if e.args[1].op == "number" and e.args[1].attr > 0:
                low, high = self._interval(e.args[0])
                return self._quotient(e, low), self._quotient(e, high)
        layout = self._order(e.axes)
        text = self._wide(e, layout, 0) if self._is_load(e) else self._text(e, layout)
        least = most = text
        inside = " & ".join(self._all_inside(layout))
        if inside:
            least = f"tl.where({inside}, {text}, 2147483647)"
            most = f"tl.where({inside}, {text}, -2147483648)"
        for _ in layout:
            least, most = f"tl.min({least}, 0)", f"tl.max({most}, 0)"
        return least, most

    def _quotient(self, e: Expr, dividend: str) -> str:
        """An integer division of scalars with the divisor of e."""
        divisor = self._text(e.args[1], ())
        if e.attr == "nonnegative":
            return f"{_grouped(dividend)} // {divisor}"
        self.helpers["floordiv"] = None
        return f"floordiv({dividend}, {divisor})"


def _grouped(text: str) -> str:
    return text if text.isidentifier() or text.isdigit() else f"({text})"
