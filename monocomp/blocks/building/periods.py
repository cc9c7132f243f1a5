"""Positions in periods, where blocks are aligned with these (see `alignment`)."""

from __future__ import annotations

from monocomp import tile as P
from monocomp.blocks import INT, Expr
from monocomp.blocks.building.context import Context, Stream
from monocomp.blocks.choices.descriptors import is_dense
from monocomp.blocks.operations import arange, infix, joined, name, number, select, to


def is_in_period(c: Context, e: P.Expr) -> bool:
    """True if this is the position of a stream's element in a period of constant length."""
    return e.op == "mod" and e in c.choices.periods


def is_moved(c: Context, e: P.Expr) -> bool:
    """True if this is such a position, given as a sum: a tile, and how far it has moved."""
    return is_in_period(c, e) and c.choices.periods[e].divisor is not None


def _holds_blocks(c: Context, e: P.Expr) -> Expr | None:
    """Return the test that each block lies in one period; None if that is not known."""
    period = c.choices.periods[e]
    if period.divisor is None:
        return None
    block = c.names.block(period.axis)
    test = divides(block, _length(c, period.length))
    begins = divides(block, number(period.divisor))
    return infix("&", test, begins) if period.divisor else test


def divides(a: Expr, b: Expr) -> Expr:
    return infix("==", infix("%", b, a), number(0))


def position(c: Context, e: P.Expr) -> Expr:
    """Return the positions of a block's elements in a period, without the distance that the block
    has moved."""
    axis = e.args[0].attr
    offs, length = c.axis(axis), _length(c, e.args[1])
    stream = c.stream(axis)
    if stream is not None and stream.is_aligned:
        in_all = divides(length, c.names.block(axis))  # then all blocks have the first's positions
        held = _holds_blocks(c, e)
        test = in_all if held is None else infix("|", in_all, held)
        offs = select(test, _first_positions(c, axis), offs)
    return infix("%", offs, length)


def _length(c: Context, period: P.Expr) -> Expr:
    return c.names.size(period.attr) if period.op == "extent" else number(period.attr)


def moved(c: Context, e: P.Expr) -> Expr:
    """Return how far a block has moved in a period since the first block."""
    return c.names.read(_move(c, e))


def _move(c: Context, e: P.Expr) -> Expr:
    axis = e.args[0].attr
    key = f"{axis} {_length(c, e.args[1]).attr}"
    return name(c.names.of("moved", key, f"moved_{axis}"), INT)


def _first_positions(c: Context, axis: str) -> Expr:
    """Return the positions of a loop's first block."""
    return name(c.names.of("first block", axis, f"first_offs_{axis}"), c.names.offset, (axis,))


def name_first_positions(c: Context, stream: Stream, begin: Expr) -> None:
    """Name the positions of a loop's first block, if they are in a period."""
    axis = stream.loop.axis.name
    if _in_periods(c, stream):
        positions = infix("+", begin, to(arange(axis), c.names.offset))
        c.assign(_first_positions(c, axis), positions)
        stream.is_aligned = True


def name_moves(c: Context, stream: Stream, begin: Expr) -> None:
    """Name how far a block has moved in each period."""
    first = c.first(stream.loop.axis.name)
    for e in _in_periods(c, stream):
        if (held := _holds_blocks(c, e)) is not None:
            length = _length(c, e.args[1])
            distance = infix("-", infix("%", first, length), infix("%", begin, length))
            c.let(_move(c, e), select(held, distance, number(0)))


def _in_periods(c: Context, stream: Stream) -> list[P.Expr]:
    """Return the positions in periods that a loop computes of its elements, one for each period."""
    positions = (e for e in P.expressions(stream.loop.body) if is_in_period(c, e))
    own = [e for e in positions if e.args[0].attr == stream.loop.axis.name]
    return list({_length(c, e.args[1]).attr: e for e in own}.values())


def held_by_blocks(c: Context, load: P.Expr) -> tuple[str, Expr] | None:
    """Return the axis of a load that reads one element for a whole block, and when it does: if
    no subscript tells more than the period. The element is needed: the domain has all elements
    between its bounds, and so one of each block."""
    dense = {s.loop.axis.name for s in c.streams if is_dense(s.loop)}
    layout = c.order(load.axes)
    if load.guarded or len(layout) != 1 or layout[0] not in dense:
        return None
    positions = [x for x in map(c.meaning, load.args) if c.order(x.axes)]
    if not all(x.op == "floordiv" and x in c.choices.periods for x in positions):
        return None
    tests = {}
    for x in positions:
        test = _holds_blocks(c, x)
        if test is None:
            return None
        tests[x.args[0].attr, _length(c, x.args[1]).attr] = test
    return layout[0], joined("and", list(tests.values()))
