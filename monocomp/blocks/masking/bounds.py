"""Bounds of streams: of a block of rows, of each row, and where no row needs a mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from monocomp import tile as P
from monocomp.blocks import INT32, Expr, subexpressions
from monocomp.blocks.building.context import Context, Stream
from monocomp.blocks.building.expressions import is_wide, tile, value, wide
from monocomp.blocks.choices.moving import is_all_or_none
from monocomp.blocks.masking.masks import any_of
from monocomp.blocks.operations import (
    cast,
    chained,
    extreme,
    full,
    helper,
    infix,
    joined,
    name,
    negated,
    number,
    scalar,
    spread,
    to,
    unknown,
    where,
)
from monocomp.declarations.record import record
from monocomp.terms.transfer import LARGEST_EXTENT
from monocomp.tile.printer import show

_MONOTONE = ("coordinate", "add", "sub", "neg", "maximum", "minimum", "mul")
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}


class Range(NamedTuple):
    """The block's rows need [low, high), and [full low, full high) is inside for each of them."""

    low: Expr
    high: Expr
    full_low: Expr
    full_high: Expr


def range_of(c: Context, loop: P.Loop, segment: P.Segment) -> Range:
    """Return the bounds of a segment."""
    size = c.names.size(loop.axis.extent)
    low = full_low = number(0)
    high = full_high = size
    for e in segment.lower:
        bound = _bound(c, loop, e)
        low, full_low = (
            extreme("maximum", a, b) for a, b in ((low, bound.least), (full_low, bound.most))
        )
    for e in segment.upper:
        bound = _bound(c, loop, e)
        high, full_high = (
            extreme("minimum", a, b) for a, b in ((high, bound.most), (full_high, bound.least))
        )
    if any(_has_64_bits(c, e) for e in segment.lower if not _is_cut(c, loop, e)):
        low, full_low = (cast(extreme("minimum", x, size), c.names.offset) for x in (low, full_low))
    if any(_has_64_bits(c, e) for e in segment.upper if not _is_cut(c, loop, e)):
        high, full_high = (
            cast(extreme("maximum", x, number(0)), c.names.offset) for x in (high, full_high)
        )
    return Range(low, high, full_low, full_high)


def cut_bounds(c: Context, loop: P.Loop) -> None:
    """Name what bounds in 64 bits come to for each row within an axis: as positions they need no
    more than an index has."""
    axis, size = loop.axis.name, c.names.size(loop.axis.extent)
    for text, e in {show(e): e for e in loop.bounds}.items():
        layout = c.order(e.axes)
        if layout and _has_64_bits(c, e):
            x = wide(c, e, layout) if c.is_load(e) else tile(c, e, layout)
            within = extreme("minimum", extreme("maximum", x, number(0)), size)
            identifier = c.names.of("bound", f"{axis} {text}", f"bound_{axis}")
            target = name(identifier, c.names.offset, layout)
            c.cut[axis, text] = c.let(target, to(within, c.names.offset))


def _cut(c: Context, loop: P.Loop, e: P.Expr) -> Expr | None:
    """Return the name of what a bound comes to within the axis, if it has one."""
    return c.cut.get((loop.axis.name, show(e)))


def _is_cut(c: Context, loop: P.Loop, e: P.Expr) -> bool:
    """True if the interval of a bound is read from the bound's values within the axis. If only
    positions and numbers make up the bound, its interval is known without reading any element."""
    parts = subexpressions(_interval(c, e).least)
    return _cut(c, loop, e) is not None and any(x.op == "reduce" for x in parts)


def _bound(c: Context, loop: P.Loop, e: P.Expr) -> _Interval:
    """Return the interval of a bound over the block."""
    cut = _cut(c, loop, e)
    if cut is None or not _is_cut(c, loop, e):
        return _interval(c, e)
    return _read(c, cut, c.order(e.axes))


def tile_of(
    c: Context, bounds: tuple[P.Expr, ...], purpose: str, loop: P.Loop, layout: tuple[str, ...]
) -> Expr:
    """Return the bound of a segment for each row of the block, within the bounds of the block."""
    varying = [e for e in bounds if c.order(e.axes)]
    end = c.names.index(purpose, loop.axis.name)
    if not varying:
        return full(end, layout, c.names.offset)
    for e in varying:
        cut = _cut(c, loop, e)
        bound = tile(c, e, layout) if cut is None else spread(cut, layout)
        end = extreme("maximum" if purpose == "low" else "minimum", end, bound)
    return end


def name_row_bounds(c: Context, stream: Stream, low: Expr, high: Expr) -> None:
    """Name the bounds of a loop's only segment for each row of the block."""
    loop, (segment,) = stream.loop, stream.loop.segments
    axis = loop.axis.name
    layout = c.order({a for e in segment.bounds for a in e.axes})
    if not layout:
        return
    for purpose, bounds, end, given in (
        ("from", segment.lower, "low", low),
        ("to", segment.upper, "high", high),
    ):
        bound = c.targets.index(end, axis)
        if given.attr != bound.attr:
            c.let(bound, given)
        row_ends = tile_of(c, bounds, end, loop, layout)
        c.let(c.targets.index(purpose, axis, layout), row_ends)


def name_extremes(c: Context, stream: Stream) -> None:
    """Name the extremes of the rows that are compared with what is read along a loop."""
    axis = stream.loop.axis.name
    for n, e in enumerate(stream.phases.apart):
        sign, (along, rows) = e.attr, e.args
        if axis in rows.axes:
            sign, along, rows = _MIRRORED[sign], rows, along
        least, most = _extremes(c, rows)
        for test in ("<=", ">=") if sign == "==" else (sign,):
            purpose, end = ("most", most) if test in ("<", "<=") else ("least", least)
            if end.op not in ("name", "number"):
                called = c.names.of(purpose, f"{axis} {n}", f"{purpose}_{axis}")
                end = c.let(name(called, end.dtype), end)
            stream.extremes.append((test, along, end))


def may_admit(c: Context, stream: Stream) -> Expr | None:
    """Return a test whether a mask may admit anything in a block, if extremes of its rows tell."""
    if not stream.extremes:
        return None
    axis = stream.loop.axis.name
    tests = [infix(sign, value(c, e, (axis,)), end) for sign, e, end in stream.extremes]
    return any_of(c, axis, joined("&", [c.names.inside(axis), *tests]), "admissible")


def may_hold(c: Context, tests: Sequence[P.Expr]) -> Expr | None:
    """Return a test whether comparisons may hold for any row of the block, by the ends of both
    sides."""
    comparisons = []
    for e in tests:
        x, y = (_interval(c, a) for a in e.args)
        if e.attr in ("<", "<=", "=="):
            comparisons.append(infix("<" if e.attr == "<" else "<=", x.least, y.most))
        if e.attr == "==":
            comparisons.append(infix(">=", x.most, y.least))
    return joined("&", comparisons) if comparisons else None


def _has_64_bits(c: Context, e: P.Expr) -> bool:
    """True if an int is computed in 64 bits, as states are: a loop needs no more than its index
    has."""
    parts = c.program.made_of(e)
    return any(x.op == "load" or is_wide(c, x) or c.is_state(x) for x in parts)


@record()
class _Interval:
    """The least and the largest value over a block, as scalars, and are they values as such?"""

    least: Expr
    most: Expr
    is_value: bool = False


def _interval(c: Context, e: P.Expr) -> _Interval:
    """Return the interval of an int over the block."""
    if not c.order(e.axes):
        scalar = tile(c, e, ())
        return _Interval(scalar, scalar, is_value=True)
    match e.op:
        case "local" if c.meaning(e).op in _MONOTONE or is_all_or_none(c.meaning(e), c.program):
            return _interval(c, c.meaning(e))
        case "coordinate" if c.program.axes[e.attr].role == "row":
            return _Interval(c.names.index("start", e.attr), c.names.index("last", e.attr))
        case "add":
            x, y = (_interval(c, a) for a in e.args)
            plus = infix if y.is_value else chained
            return _Interval(plus("+", x.least, y.least), plus("+", x.most, y.most))
        case "sub":
            x, y = (_interval(c, a) for a in e.args)
            return _Interval(infix("-", x.least, y.most), infix("-", x.most, y.least))
        case "neg":
            x = _interval(c, e.args[0])
            return _Interval(negated(x.most), negated(x.least))
        case "maximum" | "minimum":
            x, y = (_interval(c, a) for a in e.args)
            return _Interval(extreme(e.op, x.least, y.least), extreme(e.op, x.most, y.most))
        case "mul" if e.args[0].op == "number":
            x, factor = _interval(c, e.args[1]), e.args[0].attr
            low, high = (x.least, x.most) if factor >= 0 else (x.most, x.least)
            a = number(factor)
            return _Interval(infix("*", a, low), infix("*", a, high))
        case "floordiv" if e.args[1].op == "number" and e.args[1].attr > 0:
            x = _interval(c, e.args[0])
            return _Interval(_quotient(c, e, x.least), _quotient(c, e, x.most))
        case "where" if is_all_or_none(e, c.program):
            test, every, none = c.meaning(e.args[0]), *(tile(c, a, ()) for a in e.args[1:])
            x, y = (_interval(c, a) for a in test.args)
            of_all, of_any = infix(test.attr, x.most, y.least), infix(test.attr, x.least, y.most)
            return _Interval(where(of_all, every, none), where(of_any, every, none))
    layout = c.order(e.axes)
    return _read(c, tile(c, e, layout), layout)


def _read(c: Context, x: Expr, layout: tuple[str, ...]) -> _Interval:
    """Return the interval of a tile, of which nothing else is known."""
    least, most = _over_block(c, x, layout)
    return _Interval(unknown(least), unknown(most))


def _extremes(c: Context, e: P.Expr) -> tuple[Expr, Expr]:
    """Return the least and the largest value of an int over the block, as a mask compares it."""
    layout = c.order(e.axes)
    if e.op == "coordinate" or not layout:
        interval = _interval(c, e)
        return interval.least, interval.most
    return _over_block(c, value(c, e, layout), layout)


def _over_block(c: Context, x: Expr, layout: tuple[str, ...]) -> tuple[Expr, Expr]:
    """Return the least and the largest of a tile's elements that are inside, as far as positions
    go: where a loop ends, Triton subtracts where it begins, and what int32 has at its own ends
    would overflow if nothing is inside."""
    least = most = x
    inside = [spread(test, layout) for _, test in c.all_inside(layout)]
    if inside:
        test, ends = joined("&", inside), (number(LARGEST_EXTENT), number(-LARGEST_EXTENT))
        if x.dtype.of:  # a small tensor's type has not their bits
            ends = (full(ends[0], (), INT32), full(ends[1], (), INT32))
        least, most = (where(test, x, end) for end in ends)
    return scalar(least, "min"), scalar(most, "max")


def _quotient(c: Context, e: P.Expr, dividend: Expr) -> Expr:
    """Return an integer division of scalars with the divisor of e."""
    divisor = tile(c, e.args[1], ())
    if e.attr == "nonnegative":
        return infix("//", dividend, divisor)
    return helper("floordiv", dividend, divisor, layout=(), dtype=dividend.dtype)
