"""Loops over streams, block by block, in the phases that `peel` has chosen.

What no row of a block admits is left out: intervals of rows with gaps between them are streamed
run by run, and where descriptors can load blocks these begin and end where the elements do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from monocomp import blocks as B
from monocomp.blocks.building.accesses import hoist_bases
from monocomp.blocks.building.context import Context, Stream
from monocomp.blocks.building.expressions import tile, whole_tile
from monocomp.blocks.building.periods import divides, name_first_positions, name_moves
from monocomp.blocks.choices.descriptors import is_dense
from monocomp.blocks.masking.bounds import (
    Range,
    cut_bounds,
    may_hold,
    name_extremes,
    name_row_bounds,
    range_of,
)
from monocomp.blocks.masking.filters import KINDS
from monocomp.blocks.masking.lists import list_of
from monocomp.blocks.masking.masks import forget_masks
from monocomp.blocks.masking.phases import STEP
from monocomp.blocks.masking.ranges import each_range, each_segment, named_range
from monocomp.blocks.operations import (
    arange,
    are_same,
    cdiv,
    extreme,
    infix,
    is_number,
    joined,
    name,
    none,
    number,
    over_blocks,
    select,
    to,
    where,
)
from monocomp.extents.nominal import COLUMNS
from monocomp.tile import Assign, Loop

Body = Callable[[Context, Loop], None]  # writes what a loop does with a block


def loop(c: Context, loop: Loop, body: Body) -> None:
    """Write a loop."""
    changes = {s.name: s for s in loop.body if isinstance(s, Assign)}
    for state in loop.state:
        with c.of(changes.get(state.name, loop)):
            start = whole_tile(c, state.start, c.order(state.axes), B.OF_KIND[state.start.kind])
            c.assign(c.local(state.name, start), start)
    hoist_bases(c, loop)
    cut_bounds(c, loop)
    with c.under(may_hold(c, c.choices.needed.get(loop, ()))):
        _in_turn(c, c.choices.loops[loop], body)


def _in_turn(c: Context, loops: Sequence[Loop], body: Body) -> None:
    """Loops one after the other."""
    for each in loops:
        phases = c.choices.phases[each]
        stream = Stream(each, phases)
        name_extremes(c, stream)
        c.streams.append(stream)
        _FORMS[phases.form](c, stream, body)
        c.streams.pop()


def _plus(c: Context, axis: str, first: B.Expr) -> B.Expr:
    """Return the positions of a block's elements."""
    return infix("+", first, to(arange(axis), c.names.offset))


def _aligned(c: Context, axis: str, x: B.Expr) -> B.Expr:
    """Return the last multiple of a block's length that is not after x."""
    if is_number(c.names.even(axis), True) and are_same(x, _size(c, axis)):
        return x
    block = c.names.block(axis)
    return infix("*", infix("//", x, block), block)


def _size(c: Context, axis: str) -> B.Expr:
    return c.names.size(c.program.axes[axis].extent)


# --- forms ------------------------------------------------------------------------------------


def _serial(c: Context, stream: Stream, body: Body) -> None:
    axis, segments = stream.loop.axis.name, stream.loop.segments
    with ExitStack() as stack:
        if len(segments) == 1:
            positions = range_of(c, stream.loop, segments[0])
            low, high = positions.low, positions.high
            stream.bounds = [(">=", tile(c, e)) for e in segments[0].lower]
            stream.bounds += [("<", tile(c, e)) for e in segments[0].upper]
        else:
            stack.enter_context(each_segment(c, stream))
            low, high, *_ = named_range(c, axis)
        at = c.targets.axis(axis)
        variable = c.targets.index("position", axis) if stream.loop.is_backwards else at
        with c.block() as inner:
            if stream.loop.is_backwards:
                c.let(at, infix("-", infix("+", low, infix("-", high, number(1))), variable))
            _block_body(c, stream, body)
        c.put(B.For(variable, B.Serial(low, high), tuple(inner)))


def _masked(c: Context, stream: Stream, body: Body) -> None:
    """Every block is masked: one loop."""
    if len(stream.loop.segments) > 1:
        _edges(c, stream, body)
        return
    begin, high, condition = _masked_range(c, stream)
    stream.begin = begin
    _blocks(c, stream, begin, high, condition, body)


def _masked_range(c: Context, stream: Stream) -> tuple[B.Expr, B.Expr, B.Expr]:
    """Return where the blocks of a segment begin and end, and which elements of one are in it."""
    axis, (segment,) = stream.loop.axis.name, stream.loop.segments
    positions = range_of(c, stream.loop, segment)
    low = c.set_bound("low", axis, positions.low)
    high = c.set_bound("high", axis, positions.high)
    begins_by_row, offs = stream.phases.begins_by_row, c.targets.axis(axis)
    begin, condition = low, infix("<", offs, high)
    if not segment.upper and (begins_by_row or not segment.lower):
        condition = infix("|", condition, c.names.even(axis))
    if begins_by_row:
        begin = c.set_bound("begin", axis, _aligned(c, axis, low))
        condition = infix("&", infix(">=", offs, low), condition)
    name_row_bounds(c, stream, low, high)
    return begin, high, condition


def _listed(c: Context, stream: Stream, body: Body) -> None:
    """The blocks of each list of a map."""
    axis = stream.loop.axis.name
    begin, _, condition = _masked_range(c, stream)
    name_first_positions(c, stream, begin)
    lists = list_of(c, stream.loop)
    c.say("Blocks that need no mask, those of which each element is needed, then others.")
    kind = name(c.names.of("kind", axis, "kind"), B.INT)
    with c.loop(kind, B.Static(None, number(KINDS))) as kind:
        stream.unmasked = infix("==", kind, number(0))
        stream.seen = infix("<", kind, number(KINDS - 1))
        count = name(c.names.of("count", f"{axis} listed", "count"), B.INT32)
        lists.load(c, count, lists.count(kind))
        position = c.targets.index("position", axis)
        with c.block() as inner:
            block = name(c.names.of("block number", axis, f"block_{axis}"), B.INT32)
            lists.load(c, block, lists.entry(kind, position))
            distance = infix("*", to(block, c.names.offset), c.names.block(axis))
            first = c.let(c.targets.index("first", axis), infix("+", begin, distance))
            c.let(c.targets.axis(axis), _plus(c, axis, first))
            c.let(c.targets.inside(axis), infix("|", condition, stream.seen))
            name_moves(c, stream, begin)
            _block_body(c, stream, body)
        c.put(B.For(position, B.Serial(number(0), count), tuple(inner)))


def _split(c: Context, stream: Stream, body: Body) -> None:
    """Blocks up to where the first row ends, and the others."""
    axis, (segment,) = stream.loop.axis.name, stream.loop.segments
    positions = range_of(c, stream.loop, segment)
    low = c.set_bound("low", axis, positions.low)
    high = c.set_bound("high", axis, positions.high)
    full_high = c.set_bound("full_high", axis, positions.full_high)
    name_row_bounds(c, stream, low, high)
    middle = _aligned(c, axis, full_high)
    if segment.lower:
        middle = infix("+", low, _aligned(c, axis, infix("-", full_high, low)))
    if segment.bounds:
        middle = extreme("maximum", low, middle)
    elif stream.phases.is_repeated:
        middle = select(c.names.single(axis), c.names.block(axis), middle)
    middle = c.set_bound("full_end", axis, middle)
    is_one_phase = number(False, "bool")
    if segment.bounds:
        c.say("Blocks that need no mask, then those that do.")
    elif stream.phases.is_repeated:
        is_one_phase = infix("|", c.names.even(axis), c.names.single(axis))
    else:
        is_one_phase = c.names.even(axis)
    masked = name(c.names.of("masked", axis, "masked"), B.INT)
    last = select(is_one_phase, number(1), number(2))
    with c.loop(masked, B.Static(None, last)) as masked:
        is_first = unmasked = infix("==", masked, number(0))
        if not segment.bounds and stream.phases.is_repeated:
            unmasked = select(c.names.single(axis), c.names.even(axis), is_first)
        begin = c.let(c.targets.plain("begin", axis), select(masked, middle, low))
        end = c.let(c.targets.plain("end", axis), select(masked, high, middle))
        stream.unmasked = unmasked
        if is_dense(stream.loop):
            stream.covered = is_first if segment.bounds else True
        stream.in_step = stream.phases.divisor % STEP == 0
        condition = infix("|", infix("<", c.targets.axis(axis), high), unmasked)
        stages = _stages(c, stream, masked)
        fused = _fused(c, stream, is_first)
        _blocks(c, stream, begin, end, condition, body, stages, fused)


def _stages(c: Context, stream: Stream, is_last: B.Expr) -> B.Expr | None:
    """Return the stages of a phase: 1 for the few blocks at the end where descriptors load the
    others, so that they are not loaded ahead. Two pipelines would take more shared memory than
    one."""
    phases = stream.phases
    if not phases.descriptors or not phases.is_short:
        return None
    is_described = c.names.given(phases.descriptors[0])
    return select(infix("&", is_described, is_last), number(1), none())


def _fused(c: Context, stream: Stream, is_plain: B.Expr) -> B.Expr | None:
    """Return the test that the loop inside may become one with this one."""
    if stream.phases.fused is None:
        return None
    block, axis = stream.phases.fused
    return joined("&", [c.names.given(block), c.names.even(axis), is_plain])


def _edges(c: Context, stream: Stream, body: Body) -> None:
    """The blocks that stick out of what all rows admit are masked, under a condition."""
    axis, block = stream.loop.axis.name, c.names.block(stream.loop.axis.name)
    with each_range(c, stream) as (low, high, full_low, full_high):
        stream.range = low, high
        begin = c.set_bound("outer", axis, _aligned(c, axis, low))
        first, offs = c.targets.index("first", axis), c.targets.axis(axis)
        stream.covered = bool(stream.phases.descriptors) and is_dense(stream.loop)
        stream.in_step = stream.phases.divisor % STEP == 0
        if stream.phases.form == "edges":
            stream.edge = _sticks_out(first, block, full_low, full_high)
            if stream.phases.ends:
                stream.edge = _before_or_first(c, stream, begin, full_low, full_high)
            if stream.loop.is_whole and is_dense(stream.loop):
                stream.edge = select(c.names.even(axis), number(False, "bool"), stream.edge)
            c.say("Blocks that are inside for every row need no mask.")
        condition = infix("<", offs, high)
        if not is_number(low, 0):
            condition = infix("&", infix(">=", offs, low), condition)
        _blocks(c, stream, begin, high, condition, body)


def _sticks_out(position: B.Expr, block: B.Expr, low: B.Expr, high: B.Expr) -> B.Expr:
    is_after = infix(">", infix("+", position, block), high)
    return is_after if is_number(low, 0) else infix("|", infix("<", position, low), is_after)


def _before_or_first(
    c: Context, stream: Stream, begin: B.Expr, low: B.Expr, high: B.Expr
) -> B.Expr:
    """Return a test of a block that sticks out, where the last comes first: if the rows' blocks fit
    into its own, no other has elements after their ends."""
    axis, block = stream.loop.axis.name, c.names.block(stream.loop.axis.name)
    tests = [divides(c.names.block(rows), block) for rows in stream.phases.ends]
    fits = name(c.names.of("fits", axis, f"fits_{axis}"), B.BOOL)
    fits = c.let(fits, joined("and", tests), is_static=True)
    first = c.targets.index("first", axis)
    is_first = infix("==", c.targets.index("position", axis), begin)
    is_after = select(fits, is_first, infix(">", infix("+", first, block), high))
    return is_after if is_number(low, 0) else infix("|", infix("<", first, low), is_after)


def _sliding(c: Context, stream: Stream, body: Body) -> None:
    """Blocks of elements that rows admit, and of no others: none needs a mask to be loaded.
    The last one slides back to where the elements end. Fewer than a block of them descriptors
    leave to pointers, which load the last element for those that are missing. Where blocks fit
    none slides, and those that are masked come first."""
    axis, block = stream.loop.axis.name, c.names.block(stream.loop.axis.name)
    with each_range(c, stream) as bounds:
        low, high, full_low, _ = bounds
        described = joined("|", list(map(c.names.given, stream.phases.descriptors)))
        middle = where(infix("<", infix("-", high, low), block), low, high)
        middle, last = select(described, middle, high), select(described, number(3), number(2))
        stream.in_step = _in_step(c, stream)
        fits = stream.fits = _fits(c, stream)
        c.say("The last block slides back to the end; what it has twice is masked.")
        if fits is not None:
            c.say("Where blocks fit none does, and those that are masked come first.")
            full = infix("*", cdiv(infix("-", full_low, low), block), block)
            middle = select(fits, extreme("minimum", infix("+", low, full), high), middle)
            last = select(fits, number(3), last)
        middle = c.set_bound("full_end", axis, middle)
        phase = name(c.names.of("phase", axis, "phase"), B.INT)
        with c.loop(phase, B.Static(number(1), last)) as phase:
            is_first = infix("==", phase, number(1))
            start = c.let(c.targets.index("start", axis), select(is_first, low, middle))
            stop = c.let(c.targets.index("stop", axis), select(is_first, middle, high))
            _slide(c, stream, start, stop, is_first, bounds, body)


def _slide(
    c: Context,
    stream: Stream,
    start: B.Expr,
    stop: B.Expr,
    is_first: B.Expr,
    bounds: Range,
    body: Body,
) -> None:
    """Write a phase of blocks that slide: of the first one no block but the last does."""
    axis, block = stream.loop.axis.name, c.names.block(stream.loop.axis.name)
    position = c.targets.index("position", axis)
    stream.edge = _sticks_out(position, block, bounds.full_low, bounds.full_high)
    stream.covered = is_first
    if stream.fits is not None:
        # They are loaded ahead, too: where they are not, the assembler may lack registers for
        # products that overlap, and then lets none do so, in no block.
        stream.covered = infix("or", stream.fits, is_first)
        stream.edge = select(stream.fits, is_first, stream.edge)
    stages = select(stream.covered, none(), number(1))
    stream.sliding = (position, bounds.high)
    with c.loop(position, over_blocks(axis, start, stop, stages)) as position:
        back = extreme("minimum", position, infix("-", bounds.high, block))
        first = c.let(c.targets.index("first", axis), extreme("maximum", back, bounds.low))
        inside = _plus(c, axis, first)
        offs = extreme("minimum", inside, infix("-", bounds.high, number(1)))
        if stream.fits is not None:
            offs = select(stream.fits, inside, offs)
        c.let(c.targets.axis(axis), offs)
        _block_body(c, stream, body)


def _ahead(c: Context, stream: Stream, body: Body) -> None:
    """Blocks that slide, in one loop: only one of fewer elements than a block has holds others."""
    axis, block = stream.loop.axis.name, c.names.block(stream.loop.axis.name)
    with each_range(c, stream) as (low, high, full_low, full_high):
        back = extreme("maximum", low, infix("-", high, block))
        last = c.set_bound("last_first", axis, back)
        position = c.targets.index("position", axis)
        stream.edge = _sticks_out(position, block, full_low, full_high)
        stream.range, stream.sliding = (number(0), high), (position, high)
        stream.covered = is_dense(stream.loop)
        c.say("The last block slides back to the end; what it has twice is masked.")
        # Own rows, where these are divided, have blocks in a part of what all have.
        start = c.set_bound("start", axis, extreme("maximum", low, c.names.index("low", axis)))
        stop = extreme("minimum", high, c.names.index("high", axis))
        is_any = infix("<", start, stop) if stream.phases.is_tested else None
        with c.under(is_any), c.loop(position, over_blocks(axis, start, stop, None)) as position:
            first = c.let(c.targets.index("first", axis), extreme("minimum", position, last))
            end = infix("-", high, number(1))
            c.let(c.targets.axis(axis), extreme("minimum", _plus(c, axis, first), end))
            _block_body(c, stream, body)


def _in_step(c: Context, stream: Stream) -> B.Expr | bool:
    """Return a test that all blocks begin at multiples of `STEP`; False if that is never known.
    Blocks that slide end where the tensor does."""
    axis, multiples = stream.loop.axis.name, stream.phases.multiples
    if multiples is None:
        return False
    lengths = (c.names.block(x) for x in multiples if isinstance(x, str))
    return joined("and", [c.names.even(axis), *(divides(number(STEP), x) for x in lengths)])


def _fits(c: Context, stream: Stream) -> B.Expr | None:
    """Name a test that all blocks begin at multiples of their length, and end with the loop. None
    if that is never known. The test fails where a row's states have many columns: there two loops
    are no use, as what one hands to the other would be kept in memory."""
    axis, multiples = stream.loop.axis.name, stream.phases.multiples
    if multiples is None:
        return None
    lengths = (number(x) if isinstance(x, int) else c.names.block(x) for x in multiples)
    tests = [c.names.even(axis), *(divides(c.names.block(axis), x) for x in lengths)]
    whole = {*c.program.axis_names("whole")}
    held = [[c.names.block(a) for a in sorted(s.axes & whole)] for s in stream.loop.state]
    if columns := [joined("*", lengths) for lengths in held if lengths]:
        tests.append(infix("<=", joined("+", columns), number(COLUMNS)))
    fits = name(c.names.of("fits", axis, f"fits_{axis}"), B.BOOL)
    return c.let(fits, joined("and", tests), is_static=True)


# --- blocks -----------------------------------------------------------------------------------


def _blocks(
    c: Context,
    stream: Stream,
    begin: B.Expr,
    end: B.Expr,
    condition: B.Expr,
    body: Body,
    stages: B.Expr | None = None,
    fused: B.Expr | None = None,
) -> None:
    """One block after the other, in a condition that says which elements count."""
    axis, block = stream.loop.axis.name, c.names.block(stream.loop.axis.name)
    first = variable = c.targets.index("first", axis)
    name_first_positions(c, stream, begin)
    is_backwards = stream.loop.is_backwards or bool(stream.phases.ends)
    if is_backwards:
        variable = c.targets.index("position", axis)
        count = infix("//", infix("-", infix("-", end, begin), number(1)), block)
        reach = infix("+", begin, infix("*", count, block))
        last = c.set_bound("last_first", axis, infix("+", begin, reach))
    over = replace(over_blocks(axis, begin, end, stages, fused), is_backwards=is_backwards)
    is_any = infix("<", begin, end) if stream.phases.is_tested else None
    with c.under(is_any), c.loop(variable, over) as position:
        if is_backwards:
            position = c.let(first, infix("-", last, position))
        c.let(c.targets.axis(axis), _plus(c, axis, position))
        c.let(c.targets.inside(axis), condition)
        name_moves(c, stream, begin)
        _block_body(c, stream, body)


def _block_body(c: Context, stream: Stream, body: Body) -> None:
    forget_masks(c)
    stream.admitted = None
    body(c, stream.loop)


_FORMS: dict[str, Callable[[Context, Stream, Body], None]] = {
    "serial": _serial,
    "masked": _masked,
    "listed": _listed,
    "split": _split,
    "edges": _edges,
    "sliding": _sliding,
    "ahead": _ahead,
}
