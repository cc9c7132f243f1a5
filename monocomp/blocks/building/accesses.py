"""Loads and stores of tiles, by pointers or by descriptors."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from monocomp import blocks as B
from monocomp import tile as P
from monocomp.blocks.building import periods
from monocomp.blocks.building.context import Context, Stream
from monocomp.blocks.building.expressions import tile, value
from monocomp.blocks.building.moving import distances, first_of, least
from monocomp.blocks.choices.moving import signs
from monocomp.blocks.masking.masks import members
from monocomp.blocks.operations import (
    broadcast,
    broadcast_layout,
    cast,
    full,
    infix,
    joined,
    name,
    number,
    pointers,
    spread,
    to,
    where,
)
from monocomp.blocks.values import show

Layout = tuple[str, ...]


def held_dims(program: P.TileProgram) -> dict[str, int]:
    """Return the dimension of each tensor along which a tile holds it entirely, the last one."""
    dims: dict[str, int] = {}
    ranks = {n: len(t.dims) for n, t in program.inputs.items()}
    for e in program.expressions:
        for dim, position in enumerate(e.args if e.op == "load" else ()):
            if position.op == "coordinate" and program.axes[position.attr].role == "whole":
                dims[e.attr] = max(dim, dims.get(e.attr, 0))
    for o in program.outputs:
        ranks[o.name] = len(o.dims)
        for dim, axis in enumerate(program.stores(o.name)[0].axes):
            if program.axes[axis].role == "whole":
                dims[o.name] = dim
    return {tensor: dim for tensor, dim in dims.items() if ranks[tensor] > 1}


def load(c: Context, s: P.Let) -> None:
    """Load a tile: by a descriptor, where there is one and it can, or by pointers."""
    block = c.choices.by_descriptor.get(s.name)
    conditions = [] if block is None else _described(c, block)
    if block is None or not all(conditions):
        _load_by_pointers(c, s)
        return
    descriptor = c.names.descriptor(block)
    tests = [c.names.given(block), *(x for x in conditions if isinstance(x, B.Expr))]
    access = B.Descriptor(
        descriptor,
        block,
        tuple(_first(c, a, x) for a, x in zip(block.axes, s.value.args, strict=True)),
        _within(c, s.name),
    )
    by_descriptor = B.Load(_target(c, s), block.tensor, access, c.origin)
    with c.block() as other:
        _load_by_pointers(c, s)
    c.put(B.If(joined("and", tests), (by_descriptor,), tuple(other)))


def _described(c: Context, block: B.Block) -> list[B.Expr | bool]:
    """Return tests that a descriptor can load a block: of each stream that it moves along, and of
    that along which its rows go, as 16 bytes must divide where they begin."""
    streams = [x for x in map(c.stream, block.tile) if x is not None]
    last = block.axes[-1] and c.stream(block.axes[-1])
    return [x.covered for x in streams] + ([last.in_step] if last else [])


def _within(c: Context, load: str) -> B.Within | None:
    """Return what rows admit of a block along the stream that a product sums; None: all that the
    tensor has."""
    axis = c.choices.summed.get(load)
    stream = None if axis is None else c.stream(axis)
    if axis is None or stream is None or stream.range is None or stream.loop.is_whole:
        return None
    return B.Within(axis, first_of(c, axis), *stream.range, _ends_between_blocks(c, stream))


def _ends_between_blocks(c: Context, stream: Stream) -> B.Expr | None:
    """Return a test that the last row of a block admits what is up to the end of a stream's block;
    None if that is not known."""
    block = c.names.block(stream.loop.axis.name)
    tests: list[B.Expr] = []
    for rows in stream.phases.ends:
        tests += [c.names.even(rows), periods.divides(block, c.names.block(rows))]
    return joined("and", tests) if tests else None


def _layout(c: Context, s: P.Let) -> Layout:
    """Return the dimensions in which a tile is loaded."""
    layout = c.order(s.value.axes)
    return layout[::-1] if s.name in c.layouts.flipped else layout


def _target(c: Context, s: P.Let) -> B.Expr:
    """Return the name of what is loaded."""
    return c.local(s.name, name("", c.names.element(s.value.attr), _layout(c, s)))


def _first(c: Context, axis: str | None, position: P.Expr) -> B.Expr:
    """Return the first element of a block along a dimension, or the only one."""
    if axis is not None and position.op == "coordinate":
        return first_of(c, axis)
    lowest = least(c, position)
    return lowest if position.op in ("number", "coordinate") else cast(lowest, B.INT32)


def _load_by_pointers(c: Context, s: P.Let) -> None:
    """Load a tile, or one element, where a block needs no other."""
    held = periods.held_by_blocks(c, s.value)
    if held is None:
        _load_elements(c, s)
        return
    axis, test = held
    with c.block() as one:
        c.single.add(axis)
        _load_elements(c, s)
        c.single.remove(axis)
        elements = broadcast(c.local(s.name), (axis,))
        c.assign(c.local(s.name, elements), elements)
    with c.block() as other:
        _load_elements(c, s)
    c.put(B.If(test, tuple(one), tuple(other)))


def _load_elements(c: Context, s: P.Let) -> None:
    e, layout = s.value, _layout(c, s)
    base, offsets = _address(c, e, layout)
    masks = [spread(x, layout) for _, x in c.all_inside(layout)]
    if any(x.op != "coordinate" for x in e.positions):
        masks += _in_range(c, c.names.dims(e.attr), e.positions, layout, e.inside)
    mask = _guarded(c, e.guard, layout, masks)
    # A guard may vary alone, or what varies be known.
    layouts = [x.layout for x in offsets]
    if broadcast_layout(*layouts, mask.layout if mask and any(layouts) else ()) != layout:
        offsets = (*offsets, B.Expr("zeros", (), None, layout, B.INT32))
    fill = None
    if mask is not None:
        fill = number(0.0, "float") if e.kind == "float" else number(0)
    c.put(B.Load(_target(c, s), e.attr, pointers(base, offsets, mask, fill)))


def _guarded(
    c: Context, guard: P.Expr | None, layout: Layout, masks: list[B.Expr]
) -> B.Expr | None:
    """Return the test that all masks and a guard hold. Scalars beside tiles choose, as in
    operations."""
    if guard is not None:
        masks = [*masks, value(c, guard, layout if c.order(guard.axes) else ())]
    scalars = [m for m in masks if not m.layout] if layout else []
    tiles = [m for m in masks if m not in scalars]
    mask = joined("&", tiles) if tiles else None
    if not scalars:
        return mask
    both = number(True, "bool") if mask is None else mask
    return where(joined("&", scalars), both, number(False, "bool"))


def _in_range(
    c: Context,
    extents: tuple[str, ...],
    subscripts: tuple[P.Expr, ...],
    layout: Layout,
    inside: Collection[int],
) -> list[B.Expr]:
    """Return a computed subscript that leaves its tensor reads and writes nothing."""
    masks = []
    for dim, (extent, s) in enumerate(zip(extents, subscripts, strict=True)):
        if dim in inside:
            continue
        size, meant = c.names.size(extent), c.meaning(s)
        if s.op == "number" and s.attr >= 0:
            masks.append(infix(">", size, number(s.attr)))
        elif s.op != "coordinate" and not _is_remainder(meant, extent):
            position = tile(c, s if s.axes.isdisjoint(c.single) else meant, layout)
            if meant.op not in ("floordiv", "mod") or meant.attr != "nonnegative":
                masks.append(infix(">=", position, number(0)))
            masks.append(infix("<", position, size))
    return masks


def _fixed(c: Context, positions: Sequence[P.Expr]) -> list[P.Expr]:
    """Return the parts of subscripts that are the same for a whole tile."""
    return [x for s in positions if not c.order(s.axes) for x in P.subexpressions(s)]


def _base(
    c: Context, tensor: str, positions: Sequence[P.Expr], is_tile: bool = True
) -> tuple[B.Expr, list[B.Expr]]:
    """Return the pointer that all elements of a tile are offset from, and what is to be added to
    it. Where it does not change any more, it gets a name: all accesses share it."""
    pointer, offsets = c.names.pointer(tensor), _scalar_offsets(c, tensor, positions)
    base = joined("+", [pointer, *offsets])
    text = show(base)
    if text not in c.bases:
        used = {x.attr for x in _fixed(c, positions) if x.op == "local"}
        if not (is_tile and offsets and used <= c.known):
            return pointer, offsets
        target = name(c.names.of("base", text, f"{tensor}_base"), pointer.dtype)
        c.bases[text] = c.let(target, base)
    return c.bases[text], []


def _address(c: Context, e: P.Expr, layout: Layout) -> tuple[B.Expr, tuple[B.Expr, ...]]:
    """Return the pointers of a load: first what is the same for all of them."""
    base, numbers = _base(c, e.attr, e.positions, is_tile=bool(layout))
    tiles = []
    for dim, s in enumerate(e.positions):
        stride, meant = c.names.stride(e.attr, dim), c.meaning(s)
        if not s.axes.isdisjoint(c.single):
            numbers.append(infix("*", cast(tile(c, meant, ()), B.INT64), stride))
        elif periods.is_moved(c, meant):
            numbers.append(infix("*", cast(periods.moved(c, meant), B.INT64), stride))
            first = c.local(s.attr) if s.op == "local" else periods.position(c, s)
            tiles.append(infix("*", to(spread(first, layout), c.names.offset), stride))
        elif (directions := _signs(c, s)) is not None:
            numbers.append(infix("*", cast(least(c, s), B.INT64), stride))
            tiles.append(infix("*", to(distances(c, directions, layout), B.INT64), stride))
        elif c.order(s.axes):
            position = tile(c, s, layout)
            position = position if s.op == "coordinate" else to(position, c.names.offset)
            tiles.append(_offset(c, e.attr, dim, position))
    return base, (*numbers, *tiles)


def _signs(c: Context, s: P.Expr) -> dict[str, int] | None:
    """Return the signs with which a subscript moves along several axes, if it moves by one along
    each of them. None otherwise, or where a block slides: its last elements may share a
    position."""
    slides = any(x.sliding is not None for x in map(c.stream, s.axes) if x is not None)
    return None if slides or len(c.order(s.axes)) < 2 else signs(s, c.program)


def _scalar_offsets(c: Context, tensor: str, positions: Sequence[P.Expr]) -> list[B.Expr]:
    """Return what subscripts that are the same for a whole tile add to a pointer."""
    offsets = []
    for dim, s in enumerate(positions):
        is_zero = s.op == "number" and s.attr == 0
        if not c.order(s.axes) and s.axes.isdisjoint(c.single) and not is_zero:
            stride, position = c.names.stride(tensor, dim), tile(c, s, ())
            if s.op == "number":
                offsets.append(infix("*", position, cast(stride, B.INT64)))
            else:
                offsets.append(_offset(c, tensor, dim, cast(position, B.INT64)))
    return offsets


# Positions in a fragment of a product: so many lie together, and such groups so far apart.
_FRAGMENT_ROWS = ((64, 64), (16, 128), (8, 2), (1, 16))
_FRAGMENT_COLUMNS = ((64, 4096), (8, 512), (2, 4), (1, 1))


def _offset(c: Context, tensor: str, dim: int, position: B.Expr) -> B.Expr:
    """Return what a position along a dimension adds to a pointer. Of 64 rows and 8 columns of a
    product each of 128 threads has two columns of rows r and r + 8: these lie together."""
    outputs = {o.name: o for o in c.program.outputs}
    of, stride = outputs.get(tensor) or c.program.inputs[tensor], c.names.stride(tensor, dim)
    if of.dtype != P.FRAGMENTS or dim < len(of.dims) - 2:
        return infix("*", position, stride)
    is_row, whole, total = dim == len(of.dims) - 2, None, []
    for length, apart in _FRAGMENT_ROWS if is_row else _FRAGMENT_COLUMNS:
        left = position if whole is None else infix("%", position, number(whole))
        times = number(apart)
        if whole is None and is_row:
            times = infix("*", times, stride)
        total.append(infix("*", infix("//", left, number(length)), times))
        whole = length
    return joined("+", total)


def hoist_bases(c: Context, loop: P.Loop) -> None:
    """Name what is the same for a whole loop of the pointers that it loads from."""
    for s in P.walk(loop.body):
        if isinstance(s, P.Let) and s.value.op == "load":
            parts = _fixed(c, s.value.positions)
            used = {x.attr for x in parts if x.op == "local"}
            axes = (c.program.axes[x.attr] for x in parts if x.op == "coordinate")
            if used <= c.known and all(a.role != "serial" for a in axes):
                _base(c, s.value.attr, s.value.positions)


def store(c: Context, s: P.Store) -> None:
    """Write a tile to an output, or add it to what is there."""
    layout = c.order({*s.axes, *s.value.axes})
    (output,) = (o for o in c.program.outputs if o.name == s.output)
    at = [P.coordinate(c.program.axes[a]) for a in s.axes]
    base, numbers = _base(c, s.output, at, is_tile=bool(layout))
    tiles = [(n, spread(c.axis(a), layout)) for n, a in enumerate(s.axes) if a in layout]
    offsets = (*numbers, *(_offset(c, s.output, n, position) for n, position in tiles))
    stored = _stored(c, s, layout)
    masks = [spread(x, layout) for _, x in c.all_inside(layout)]
    masks += [x for stream in c.streams if (x := members(c, stream, layout)) is not None]
    mask, first = _guarded(c, None, layout, masks), tuple[B.Expr, ...]()
    if output.dtype == P.FRAGMENTS:
        first = tuple(first_of(c, a) if a in layout else c.axis(a) for a in s.axes)
    c.put(B.Store(s.output, pointers(base, offsets, mask), stored, s.mode, first=first))


def _stored(c: Context, s: P.Store, layout: Layout) -> B.Expr:
    """Return a name for the value, in the dtype of the output."""
    value = tile(c, s.value, layout)
    if layout and not value.layout:
        value = full(value, layout, B.OF_KIND[s.value.kind])
    if value.op != "name":
        result = name(c.names.of("result", s.output, f"{s.output}_tile"), value.dtype, value.layout)
        value = c.assign(result, value)
    dtype = c.names.element(s.output)
    # A size of 1 is a constant for Triton, and a parameter a number for its interpreter.
    is_plain = not layout and (s.value.kind == "int" or s.value.op == "param")
    return cast(value, dtype) if is_plain else to(value, dtype)


def _is_remainder(e: P.Expr, extent: str) -> bool:
    """True if a position is a remainder modulo an extent, and so lies below it."""
    divisor = e.args[1] if e.op == "mod" else None
    return divisor is not None and divisor.op == "extent" and divisor.attr == extent
