"""Masks: which elements of a block are in the domain of its loop."""

from __future__ import annotations

from monocomp import tile as P
from monocomp.blocks import BOOL, INT32, INT64, Expr, Layout
from monocomp.blocks.building.context import Context, Stream
from monocomp.blocks.operations import (
    arange,
    broadcast_layout,
    cast,
    extreme,
    full,
    helper,
    infix,
    joined,
    name,
    number,
    reduced,
    select,
    spread,
    to,
    where,
    whole,
)


def forget_masks(c: Context) -> None:
    """Masks are named anew in each block of a loop."""
    for stream in c.streams:
        stream.kept = {}


def inside(c: Context, axis: str, want: Layout) -> Expr:
    """Return the test for elements along an axis that are in the domain, for a tile."""
    stream = c.stream(axis)
    if stream is None:
        return spread(c.names.inside(axis), want)
    return domain(c, stream, want)


def domain(c: Context, stream: Stream, want: Layout) -> Expr:
    """Return the name of the tile that tells which elements are in a loop's domain."""
    loop, axis = stream.loop, stream.loop.axis.name
    if want in stream.kept:
        return stream.kept[want]
    if stream.sliding is not None:
        return _slid_domain(c, stream, *stream.sliding, want)
    serial = loop.axis.role == "serial"
    offs = c.axis(axis) if serial else spread(c.axis(axis), want)
    tests = [infix(sign, offs, spread(bound, want)) for sign, bound in stream.bounds]
    is_bounded = False  # do the rows' bounds say it all?
    purposes = _row_purposes(c, stream)
    for purpose in purposes:
        is_bounded = is_bounded or purpose == "to"
        bound = spread(row_bound(c, stream, purpose), want)
        tests.append(infix(">=" if purpose == "from" else "<", offs, bound))
    admitted = None if stream.admitted is None else _admitted(c, stream, stream.admitted, want)
    if admitted is not None:
        tests.append(admitted)
    of_block = None
    if not serial and not is_bounded:
        of_block = spread(c.names.inside(axis), want)
    if not tests:
        return number(True, "bool") if of_block is None else of_block
    first = tests.pop(0)
    value = first if of_block is None else infix("&", of_block, first)
    full = broadcast_layout(value.layout, *(test.layout for test in tests))
    while tests and value.layout != full:  # a name has one layout
        value = infix("&", value, tests.pop(0))
    target = c.names.tile("keep", f"{axis} {want}", "keep", BOOL, value.layout)
    keep = c.let(target, value)
    for test in tests:
        # Triton's interpreter takes a truth value that it makes a tile of for a float.
        is_value = want and test is admitted and not c.order(_mask_of(loop).axes)
        kept = where(test, keep, number(False, "bool")) if is_value else infix("&", keep, test)
        keep = c.let(target, kept)
    if stream.unmasked is not None:
        keep = c.let(target, infix("|", keep, stream.unmasked))
    if not serial:
        stream.kept[want] = keep
    return keep


def members(c: Context, stream: Stream, want: Layout) -> Expr | None:
    """Return the test for elements of a tile that are in a loop's domain, for some element along
    axes that the tile has not; None if all are."""
    loop = stream.loop
    layout = c.order(loop.domain)
    kept = number(True, "bool") if loop.is_whole else domain(c, stream, layout)
    if kept.op == "number":
        return None
    for axis in (a for a in layout[::-1] if a not in want):
        kept = infix(">", reduced(to(kept, INT32), "max", layout.index(axis)), number(0))
    return spread(kept, want)


def _row_purposes(c: Context, stream: Stream) -> list[str]:
    """Return the bounds that each row of a block has a position for."""
    loop = stream.loop
    several = len(loop.segments) > 1
    if not _rows(c, loop) or (loop.axis.role == "serial" and not several):
        return []
    varies = any(c.order(e.axes) for e in loop.segments[0].lower)
    purposes = ["from"] if several or varies else []
    return purposes + (["to"] if several or loop.segments[0].upper else [])


def _rows(c: Context, loop: P.Loop) -> tuple[str, ...]:
    return c.order({a for b in loop.bounds for a in b.axes})


def row_bound(c: Context, stream: Stream, purpose: str) -> Expr:
    """Return the name of a bound for each row, within the run if there is one."""
    run = "run_" if stream.in_run else ""
    return c.names.index(run + purpose, stream.loop.axis.name, _rows(c, stream.loop))


def _slid_domain(c: Context, stream: Stream, position: Expr, high: Expr, want: Layout) -> Expr:
    """Return the elements of a block that slides which are in the domain, but for those that the
    block before it has."""
    axis = stream.loop.axis.name
    first = c.first(axis)
    rows = _rows(c, stream.loop)
    begin = row_bound(c, stream, "from") if rows else c.names.index("low", axis)
    low = infix("-", extreme("maximum", begin, position), first)
    if rows and (len(stream.loop.segments) > 1 or stream.loop.segments[0].upper):
        end = spread(infix("-", row_bound(c, stream, "to"), first), want)
    else:
        end = infix("-", high, first)
    positions = spread(arange(axis), want)
    test = helper("between", positions, spread(low, want), end, layout=want, dtype=BOOL)
    if stream.fits is not None:
        at_least = infix(">=", spread(c.axis(axis), want), spread(begin, want))
        test = select(stream.fits, at_least, test)
    keep = c.let(c.names.tile("keep", f"{axis} {want}", "keep", BOOL, want), test)
    stream.kept[want] = keep
    return keep


def _admitted(c: Context, stream: Stream, admitted: Expr, want: Layout) -> Expr:
    """Return a test of what the mask admits; segments without a mask admit everything."""
    return joined("|", [spread(admitted, want), *_unmasked_segments(c, stream.loop)])


def _unmasked_segments(c: Context, loop: P.Loop) -> list[Expr]:
    """Return tests for the segments of a loop without a mask."""
    segment = c.names.plain("segment", loop.axis.name)
    numbered = enumerate(loop.segments)
    return [infix("==", segment, number(n)) for n, s in numbered if not s.masked]


def _mask_of(loop: P.Loop) -> P.Expr:
    """Return the condition that the elements of a loop with a mask must satisfy."""
    return next(s.value for s in loop.body if isinstance(s, P.Mask))


def admit(c: Context, stream: Stream, s: P.Mask, admitted: Expr) -> Expr | None:
    """Name what a mask admits; a test whether it admits anything, if that is to be asked."""
    axis = stream.loop.axis.name
    if admitted.op not in ("name", "number"):
        target = c.names.tile("admitted", axis, "admitted", BOOL, admitted.layout)
        admitted = c.let(target, admitted)
    stream.admitted = spread(admitted, c.order(s.value.axes))
    forget_masks(c)
    phases = stream.phases
    if not (phases.leaves_out or phases.asks):
        return None
    seen = _seen(c, stream, s.value)
    if phases.leaves_out:
        seen = infix("&", c.names.inside(axis), seen)
        if stream.seen is not None:
            seen = select(stream.seen, c.names.inside(axis), seen)
        seen = c.let(c.targets.inside(axis), seen)
    return any_of(c, axis, seen, "members") if phases.asks else None


def _seen(c: Context, stream: Stream, mask: P.Expr) -> Expr:
    """Return the test for elements of a block that any row admits. No other is read: NaN there
    would enter a sum as 0 times itself."""
    axis = stream.loop.axis.name
    layout = c.order({axis}.union(*(e.axes for e in (mask, *stream.loop.bounds))))
    seen = domain(c, stream, layout)
    if len(layout) == 1:
        return seen
    seen = to(whole(seen, layout), INT32)
    for dim in reversed([n for n, a in enumerate(layout) if a != axis]):
        seen = reduced(seen, "max", dim)
    return infix(">", seen, number(0))


def any_of(c: Context, axis: str, test: Expr, purpose: str) -> Expr:
    """Return a test whether `test` holds for any element of a block along an axis."""
    result = name(c.names.of(purpose, axis, f"any_{axis}"), INT32)
    return infix(">", c.let(result, reduced(to(test, INT32), "max", 0)), number(0))


def chosen(c: Context, e: P.Expr, condition: Expr, value: Expr) -> Expr:
    """Return the value of what is masked where a condition holds, else a monoid's unit."""
    if e in c.choices.short:
        return where(condition, value, _short_unit(c, e))
    other = number(e.attr[1], e.kind)
    if e.kind == "int":  # the unit may need all bits
        return where(condition, value, full(other, (), INT64))
    return where(condition, value, other)


def with_unit_bits(c: Context, e: P.Expr, value: Expr) -> Expr:
    """Return the value of what is masked, with the bits of its unit."""
    return cast(value, INT64) if e.kind == "int" and e not in c.choices.short else value


def _short_unit(c: Context, e: P.Expr) -> Expr:
    (x,), (_, unit) = e.args, e.attr
    if x.op == "number":
        return number(0)
    return c.names.size(c.program.axes[x.attr].extent) if unit > 0 else number(-1)


def folded(c: Context, local: str, mask: Expr) -> Expr:
    """Return the result of a fold of short ints, in all bits and with the unit of its monoid."""
    e = c.lets[local]
    if e.args[0].op == "number":
        return to(mask, INT64)
    other, unit = _short_unit(c, e), e.attr[1]
    position = name(c.names.of("folded", local, "found"), mask.dtype, mask.layout)
    c.assign(position, mask)
    is_position = infix("<" if unit > 0 else ">", position, other)
    return where(is_position, position, full(number(unit, "int"), (), INT64))
