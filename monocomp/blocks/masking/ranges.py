"""Ranges of loops, one after the other: the segments of a domain, and in each the runs of elements
that rows admit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from monocomp import blocks as B
from monocomp.blocks.building.context import Context, Stream
from monocomp.blocks.masking.bounds import Range, name_row_bounds, range_of, tile_of
from monocomp.blocks.operations import (
    cast,
    extreme,
    infix,
    joined,
    number,
    scalar,
    spread,
    unknown,
    where,
)


@contextmanager
def each_range(c: Context, stream: Stream) -> Iterator[Range]:
    """Write the body for each segment and each run of it, and yield the range of these."""
    axis = stream.loop.axis.name
    with ExitStack() as stack:
        if len(stream.loop.segments) > 1:
            stack.enter_context(each_segment(c, stream))
            positions = named_range(c, axis)
        else:
            bounds = range_of(c, stream.loop, stream.loop.segments[0])
            pairs = zip(Range._fields, bounds, strict=True)
            positions = Range(*(c.set_bound(purpose, axis, x) for purpose, x in pairs))
            name_row_bounds(c, stream, positions.low, positions.high)
        if stream.phases.in_runs:
            low, high = stack.enter_context(_each_run(c, stream, positions.low, positions.high))
            positions = positions._replace(low=low, high=high)
        yield positions


def named_range(c: Context, axis: str) -> Range:
    """Return the names of bounds."""
    return Range(*(c.targets.index(purpose, axis) for purpose in Range._fields))


@contextmanager
def each_segment(c: Context, stream: Stream) -> Iterator[None]:
    """Write the body for each segment, with its bounds under common names."""
    loop, axis = stream.loop, stream.loop.axis.name
    segment = c.names.plain("segment", axis)
    layout = c.order({a for e in loop.bounds for a in e.axes})
    c.say("The domain is a disjoint union of segments.")
    low, high, full_low, full_high = named_range(c, axis)
    with c.block() as inner:
        cases: list[tuple[B.Statement, ...]] = []
        for s in loop.segments:
            with c.block() as case:
                positions = range_of(c, loop, s)
                c.let(low, positions.low)
                c.let(high, positions.high)
                c.let(full_low, high if s.masked else positions.full_low)
                c.let(full_high, high if s.masked else positions.full_high)
                for purpose, end, bounds in (("from", "low", s.lower), ("to", "high", s.upper)):
                    if layout:
                        value = tile_of(c, bounds, end, loop, layout)
                        c.let(c.targets.index(purpose, axis, layout), value)
            cases.append(tuple(case))
        rest = cases[-1]
        for n in reversed(range(len(cases) - 1)):
            rest = (B.If(infix("==", segment, number(n)), cases[n], rest, c.origin),)
        for part in rest:
            c.put(part)
        yield
    c.put(B.For(segment, B.Static(None, number(len(loop.segments))), tuple(inner)))


@contextmanager
def _each_run(
    c: Context, stream: Stream, low: B.Expr, high: B.Expr
) -> Iterator[tuple[B.Expr, B.Expr]]:
    """Yield the bounds of one run after the other of elements that rows admit: nothing in between
    is read, for what stands there, be it NaN, would enter a sum as 0 times itself."""
    axis = stream.loop.axis.name
    rows = c.order({a for e in stream.loop.bounds for a in e.axes})
    begin, end = c.targets.plain("begin", axis), c.targets.plain("end", axis)
    reach, following = c.targets.plain("reach", axis), c.targets.index("next", axis, rows)
    from_, to_ = c.targets.index("from", axis, rows), c.targets.index("to", axis, rows)
    inside = joined("&", [spread(c.names.inside(a), rows) for a in rows])

    def outermost(op: str, position: B.Expr) -> B.Expr:
        return cast(unknown(scalar(position, op)), c.names.offset)

    c.say("One run of elements that rows admit after the other.")
    c.assign(to_, where(inside, to_, number(0)))
    c.assign(end, cast(low, c.names.offset))
    with c.block() as inner:
        c.assign(following, extreme("maximum", from_, end))
        c.assign(begin, outermost("min", where(infix("<", following, to_), following, high)))
        c.assign(end, begin)
        reached = outermost("max", where(infix("<=", from_, end), to_, end))
        c.assign(reach, reached)
        with c.block() as further:
            c.assign(end, reach)
            c.assign(reach, reached)
        c.put(B.While(infix(">", reach, end), tuple(further)))
        stream.in_run = True
        c.assign(c.targets.index("run_from", axis, rows), extreme("maximum", from_, begin))
        c.assign(c.targets.index("run_to", axis, rows), extreme("minimum", to_, end))
        yield begin, end
    c.put(B.While(infix("<", end, high), tuple(inner)))
