"""Folds by a monoid of several fields: of tiles, of their prefixes, of the largest elements."""

from __future__ import annotations

from monocomp.blocks import OF_KIND, Assign, Expr, Function, Reduction
from monocomp.blocks.building.context import Context
from monocomp.blocks.building.expressions import tile, whole_tile
from monocomp.blocks.choices.choose import choose
from monocomp.blocks.masking import masks
from monocomp.blocks.operations import (
    arange,
    broadcast_layout,
    infix,
    name,
    number,
    reduced,
    spread,
    where,
)
from monocomp.tile import Combine, Fold, Selection, TileProgram

Layout = tuple[str, ...]

_NOTHING = TileProgram("", {}, {}, {}, ())  # what a combine is in: it has no axes


def fold(c: Context, s: Fold) -> None:
    """Combine a state with the elements of a tile."""
    identifiers = [c.names.of("local", n) for n in s.names]
    state = [tile(c, e) for e in s.state]
    if isinstance(s.monoid, Selection):
        results = _merge_largest(c, s, s.monoid, state)
    elif s.prefixes:
        _prefixes(c, s, s.monoid)
        return
    else:
        elements = _folded_tile(c, s, s.monoid)
        results = _combined(c, s, s.monoid, [*state, *elements])
    targets = [
        c.local(n, name(i, x.dtype, x.layout))
        for n, i, x in zip(s.names, identifiers, state, strict=True)
    ]
    c.put(Assign(tuple(targets), results))
    c.known |= {*s.names}


def _prefixes(c: Context, s: Fold, monoid: Combine) -> None:
    """Combine the state with all prefixes of a tile; the last one is the next state."""
    outer = c.order(s.state[0].axes)
    layout = c.order(s.state[0].axes | {s.axis})
    scanned = _scanned(c, s, monoid, layout)
    state = [spread(tile(c, e, outer), layout) for e in s.state]
    targets = [
        c.local(n, name("", x.dtype, layout)) for n, x in zip(s.prefixes, state, strict=True)
    ]
    c.put(Assign(tuple(targets), _combined(c, s, monoid, [*state, *scanned])))
    for n, target in zip(s.names, targets, strict=True):
        last = _last(c, target, s.axis)
        c.assign(c.local(n, last), last)
    c.known |= {*s.names, *s.prefixes}


def _scanned(c: Context, s: Fold, monoid: Combine, layout: Layout) -> list[Expr]:
    """Return the names of all prefixes of a tile."""
    tiles = _whole_tiles(c, s, layout)
    prefixes = [
        name(c.names.of("scanned", n, f"{n.removesuffix('_new')}_scan"), x.dtype, layout)
        for n, x in zip(s.names, tiles, strict=True)
    ]
    dim = layout.index(s.axis)
    by = Reduction(_function(c, s, monoid), dim, "combine", _is_backwards(c, s.axis))
    c.put(Assign(tuple(prefixes), Expr("scan", tuple(tiles), by, layout, tiles[0].dtype)))
    return prefixes


def _last(c: Context, value: Expr, axis: str) -> Expr:
    """Return the last element of a tile along an axis, in the order of its loop."""
    offsets = spread(arange(axis), value.layout)
    last = number(0) if _is_backwards(c, axis) else infix("-", c.names.block(axis), number(1))
    is_last = infix("==", offsets, last)
    return reduced(where(is_last, value, number(0)), "sum", value.layout.index(axis))


def _is_backwards(c: Context, axis: str) -> bool:
    """True if the loop along an axis goes from its last element to its first."""
    stream = c.stream(axis)
    return stream is not None and stream.loop.is_backwards


def _merge_largest(c: Context, s: Fold, selection: Selection, state: list[Expr]) -> Expr:
    rank, axes = selection.axis, s.state[0].axes
    inside, listed = c.order(axes - {rank} | {s.axis}), c.order(axes)
    tiles = _whole_tiles(c, s, inside)
    ranks = spread(c.axis(rank), listed)
    count = c.names.size(c.program.axes[rank].extent)
    dims = number(inside.index(s.axis)), number(listed.index(rank))
    args = (*state, ranks, count, *tiles, *dims)
    return Expr("merge_largest", args, None, listed, state[0].dtype)


def _folded_tile(c: Context, s: Fold, monoid: Combine) -> list[Expr]:
    """Return the fields of the elements of a tile, combined in their order."""
    layout = c.order(s.state[0].axes | {s.axis})
    if s.axis not in layout:
        return _whole_tiles(c, s, layout)
    if not monoid.commutes:
        return [_last(c, x, s.axis) for x in _scanned(c, s, monoid, layout)]
    # A reduction takes the elements in an order of its own.
    tiles = _whole_tiles(c, s, layout)
    dim = layout.index(s.axis)
    rest = (*layout[:dim], *layout[dim + 1 :])
    folded = [
        name(c.names.of("folded", n, f"{n.removesuffix('_new')}_tile"), x.dtype, rest)
        for n, x in zip(s.names, tiles, strict=True)
    ]
    by = Reduction(_function(c, s, monoid), dim, "combine")
    c.put(Assign(tuple(folded), Expr("reduce", tuple(tiles), by, rest, tiles[0].dtype)))
    return [
        masks.folded(c, e.attr, x) if c.meaning(e) in c.choices.short else x
        for e, x in zip(s.elements, folded, strict=True)
    ]


def _whole_tiles(c: Context, s: Fold, layout: Layout) -> list[Expr]:
    """Return the names of the elements' fields, with all axes of a layout."""
    names = []
    for e, folded in zip(s.elements, s.names, strict=True):
        is_short = c.meaning(e) in c.choices.short
        built = whole_tile(c, e, layout, c.names.offset if is_short else OF_KIND[e.kind])
        identifier = c.names.of("element", folded, f"{folded.removesuffix('_new')}_{s.axis}")
        names.append(c.assign(name(identifier, built.dtype, layout), built))
    return names


def _combined(c: Context, s: Fold, monoid: Combine, args: list[Expr]) -> Expr:
    """Return the fields of two operands, combined."""
    function = _function(c, s, monoid)
    layout = broadcast_layout(*(x.layout for x in args))
    return Expr("combine", tuple(args), function, layout, args[0].dtype)


def _function(c: Context, s: Fold, monoid: Combine) -> str:
    """Return the name of a monoid's combine function."""
    called = c.function_names[monoid.name]
    if called not in c.functions:
        inner = Context(_NOTHING, choose(_NOTHING), c.scope, called, {})
        inner.fast = number(False, "bool")
        inner.origin = s
        dtypes = [OF_KIND[e.kind] for e in s.state]
        operands = [
            inner.local(n, name("", dtype))
            for n, dtype in zip((*monoid.left, *monoid.right), (*dtypes, *dtypes), strict=True)
        ]
        for let in monoid.body:
            identifier = inner.names.of("local", let.name)
            built = tile(inner, let.value)
            inner.assign(inner.local(let.name, name(identifier, built.dtype)), built)
        results = tuple(tile(inner, e) for e in monoid.results)
        what = "commutative " if monoid.commutes else ""
        doc = f"The combine of the {what}monoid {monoid.name}."
        c.functions[called] = Function(called, doc, tuple(operands), tuple(inner.out), results)
    return called
