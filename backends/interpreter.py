"""Interprets a tile program on arrays: the check on lowering, and a backend of its own.

Every tile is an array with one dimension for each axis of the kernel, of length 1 where
it does not vary, so broadcasting is by name. Blocks at the end of an axis are cut to its
length; a loop runs over the blocks that hold a member of its domain, and applies the
domain's mask only to blocks that stick out of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import product
from typing import Any

from monocomp import tile as P
from monocomp.backends import folds
from monocomp.backends.array_operations import Array, Ops, Tiles
from monocomp.declarations.vocabulary import Kind
from monocomp.errors import IndexRangeError
from monocomp.tile.extrema import extremum_of
from monocomp.tile.operations import SIGNS

_EXTREMA = {"max": ("amax", -math.inf), "min": ("amin", math.inf)}


class Interpreter:
    """Runs one tile program.

    Args:
        program: the kernel.
        ops: the array library.
        extents, params: sizes and parameter values.
        blocks: block length of each grid, row and stream axis.
        checked: test computed subscripts, and name the read that leaves its tensor.
    """

    def __init__(
        self,
        program: P.TileProgram,
        ops: Ops,
        extents: Mapping[str, int],
        params: Mapping[str, Any],
        blocks: Mapping[str, int],
        checked: bool = False,
    ) -> None:
        self.program = program
        self.ops = ops
        self.extents = extents
        self.params = params
        self.blocks = blocks
        self.checked = checked
        self.backwards: set[str] = set()  # axes along which the loops that are open go backwards
        # Bounds that are exact are those of one value of the grid.
        self.is_exact = any(s.is_exact and not s.is_whole for s in program.loops)
        self.dims = {name: n for n, name in enumerate(program.axes)}
        self.range: dict[str, tuple[int, int]] = {}
        self.coordinates: dict[str, Array] = {}
        self.shifted: set[str] = set()  # axes along which values of the grid start anywhere
        self.values: dict[str, Array] = {}
        self.units: set[str] = set()  # states that are still what their loop starts with
        self.inside: Array | None = None
        self.around: Array | None = None
        self.masked = False
        self.inputs: Mapping[str, Array] = {}
        self.outputs: Mapping[str, Array] = {}

    def run(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """Compute the kernel's outputs from its inputs."""
        self.inputs, self.outputs = inputs, outputs
        for axis in self.program.axes.values():
            if axis.role == "whole":
                self._enter(axis.name, 0, self.extents[axis.extent])
            if axis.after is not None:  # where the tiles meet is of no account here
                size = self.extents[axis.extent]
                middle = (size + 1) // 2
                self._enter(axis.after, 0, middle)
                self._enter(axis.name, middle, size)
        outer = [a for a in self.program.axes.values() if a.role in ("grid", "row")]
        for blocks in product(*(self._blocks(a, 0, self.extents[a.extent]) for a in outer)):
            for axis, (start, stop) in zip(outer, blocks, strict=True):
                self._enter(axis.name, start, stop)
            self._run(self.program.body)

    def _blocks(self, axis: P.Axis, start: int, stop: int) -> Iterator[tuple[int, int]]:
        is_single = axis.role == "serial" or (axis.role == "grid" and self.is_exact)
        step = 1 if is_single else self.blocks[axis.name]
        for first in range(start, stop, step):
            yield first, min(first + step, stop)

    def _enter(self, axis: str, start: int, stop: int, first: Array | None = None) -> None:
        """Go to some elements of an axis, counted from a first one that may vary."""
        self.range[axis] = (start, stop)
        shape = [1] * len(self.dims)
        shape[self.dims[axis]] = stop - start
        coordinates = self.ops.arange(start, stop).reshape(shape)
        self.shifted.discard(axis)
        if first is not None:
            self.shifted.add(axis)
            coordinates = self.ops.elementwise["add"](first, coordinates)
        self.coordinates[axis] = coordinates

    # --- statements -------------------------------------------------------------------

    def _run(self, body: list[P.Statement]) -> None:
        for s in body:
            match s:
                case P.Loop():
                    self._loop(s)
                case P.Fold():
                    self._fold(s)
                case P.Mask():
                    if self.masked:
                        self.inside = _both(self.inside, self._value(s.value))
                        if not self.ops.bounds(self.inside)[1]:
                            return
                case P.Store():
                    self._store(s)
                case _:
                    self.values[s.name] = self._value(s.value)
                    self.units.discard(s.name)

    def _store(self, s: P.Store) -> None:
        is_whole = self.inside is None and self.around is None
        if s.mode == "add" or not is_whole or self.shifted.intersection(s.axes):
            self._scatter(s)
            return
        lengths = {a: self.range[a][1] - self.range[a][0] for a in s.axes}
        shape = tuple(lengths.get(a, 1) for a in self.dims)
        value = self.ops.library.broadcast_to(self._value(s.value), shape)
        order = [*s.axes, *(a for a in self.dims if a not in lengths)]
        value = self._permute(value, [self.dims[a] for a in order])
        positions = tuple(slice(*self.range[a]) for a in s.axes)
        self.ops.store(self.outputs[s.output], positions, value.reshape([*lengths.values()]))

    def _scatter(self, s: P.Store) -> None:
        """Store element by element, those that are members of the domain."""
        output, value = self.outputs[s.output], self._value(s.value)
        positions = [self.coordinates[a] for a in s.axes]
        shape = tuple(output.shape) or (1,)
        positions = positions or [self._zero("int")]
        if s.mode == "add":  # once for each value of the grid
            for a in self.program.axis_names("grid"):
                start, stop = self.range[a]
                value = self._stretch(value, self.dims[a], stop - start)
        guard = self._members(None, [*positions, value])
        valid = _within(positions, shape)
        valid = valid if guard is None else valid & guard
        sizes = zip(*(x.shape for x in (*positions, value, valid)), strict=True)
        shape = tuple(max(n) if min(n) else 0 for n in sizes)
        valid, value, *positions = (
            self.ops.library.broadcast_to(x, shape) for x in (valid, value, *positions)
        )
        self.ops.scatter(output, tuple(positions), value, valid, s.mode == "add")

    def _loop(self, loop: P.Loop) -> None:
        for state in loop.state:
            value = self.ops.unit(self._value(state.start))
            for a in state.axes:
                start, stop = self.range[a]
                value = self._stretch(value, self.dims[a], stop - start)
            self.values[state.name] = value
            if state.start.op == "number":
                self.units.add(state.name)
        axis = loop.axis
        extent = self.extents[axis.extent]
        if loop.is_backwards:
            self.backwards.add(axis.name)
        outer = self.inside, self.masked, self.around
        if self.inside is not None:
            self.around = _both(self.around, self.inside)
        for segment in loop.segments:
            start, full_start, full_stop, stop = self._range_of(segment, extent)
            offset, count = self._own_start(segment, stop - start)
            if offset is not None:
                start, stop, full_stop = 0, count, -1
            blocks = list(self._blocks(axis, start, stop))
            for first, last in reversed(blocks) if loop.is_backwards else blocks:
                self._enter(axis.name, first, last, offset)
                whole = full_start <= first and last <= full_stop
                self.inside = None if whole else self._within(segment, axis.name)
                self.masked = segment.masked
                self._run(loop.body)
        self.inside, self.masked, self.around = outer
        self.backwards.discard(axis.name)

    def _fold(self, s: P.Fold) -> None:
        """The state combined with the elements of this block, in their order."""
        dim = self.dims[s.axis]
        state = tuple(map(self._value, s.state))
        elements = self._in_order(tuple(self._along(e, s.axis) for e in s.elements), s.axis)
        if isinstance(s.monoid, P.Selection):
            results = self._select(s, s.monoid, dim, state, elements)
        elif s.prefixes:
            combine = partial(self._combine, s.monoid)
            tiles = self._after(s, state, folds.prefixes(self.ops, combine, dim, elements))
            tiles = tuple(self._stretch(x, dim, elements[0].shape[dim]) for x in tiles)
            results = folds.parts(tiles, dim, slice(-1, None))
            self.values |= zip(s.prefixes, self._in_order(tiles, s.axis), strict=True)
        else:
            results = self._after(s, state, self._total(s.monoid, dim, elements))
        self.values |= zip(s.names, results, strict=True)

    def _after(self, s: P.Fold, state: Tiles, tiles: Tiles) -> Tiles:
        """Return the state combined with what comes after it, the unit as well: it makes the
        mantissa of a lone exponential of -inf 0."""
        assert isinstance(s.monoid, P.Combine)
        return self._combine(s.monoid, state, tiles)

    def _is_first(self, s: P.Fold) -> bool:
        """True if the state of a fold is still what its loop starts with."""
        return all(e.op == "local" and e.attr in self.units for e in s.state)

    def _in_order(self, tiles: Tiles, axis: str) -> Tiles:
        """Return the tiles in the order of the loop along an axis, or those back again."""
        if axis not in self.backwards:
            return tiles
        dim = self.dims[axis]
        return folds.parts(tiles, dim, [*reversed(range(tiles[0].shape[dim]))])

    def _total(self, monoid: P.Combine, dim: int, tiles: Tiles) -> Tiles:
        extremum = extremum_of(monoid)
        if extremum is not None:
            return self.ops.first_extreme(extremum, tiles[0], tiles[1], dim)
        return folds.total(self.ops, partial(self._combine, monoid), dim, tiles)

    def _combine(self, monoid: P.Combine, left: Tiles, right: Tiles) -> Tiles:
        outer = self.values
        names = (*monoid.left, *monoid.right)
        self.values = dict(zip(names, (*left, *right), strict=True))
        for let in monoid.body:
            self.values[let.name] = self._value(let.value)
        results = tuple(map(self._value, monoid.results))
        self.values = outer
        return results

    def _select(
        self, s: P.Fold, selection: P.Selection, dim: int, state: Tiles, elements: Tiles
    ) -> Tiles:
        """Return the largest of the list so far and of this block."""
        rank = self.dims[selection.axis]
        count = state[0].shape[rank]
        values, positions = (self.ops.library.swapaxes(x, dim, rank) for x in elements)
        if not self._is_first(s) or values.shape[rank] < count:
            values, positions = folds.joined(self.ops, state, (values, positions), rank)
        values, positions = folds.alike(self.ops, values, positions, rank)
        return self.ops.largest(values, positions, rank, count)

    def _range_of(self, segment: P.Segment, extent: int) -> tuple[int, int, int, int]:
        """(start, start of the part that is inside for all rows, its stop, stop)."""
        start, stop, full_start, full_stop = 0, extent, 0, extent
        if segment.lower:
            pairs = [self.ops.bounds(self._value(e)) for e in segment.lower]
            start = max(start, *(low for low, _ in pairs))
            full_start = max(full_start, *(high for _, high in pairs))
        if segment.upper:
            pairs = [self.ops.bounds(self._value(e)) for e in segment.upper]
            stop = min(stop, *(high for _, high in pairs))
            full_stop = min(full_stop, *(low for low, _ in pairs))
        return start, full_start, full_stop, max(start, stop)

    def _own_start(self, segment: P.Segment, count: int) -> tuple[Array | None, int]:
        """Return the first element for each value of the grid, or also of other axes, and how
        many any of them has, if these are at most half of those that some have, and the values
        share none."""
        sides = [
            [x for x in map(self._value, side) if self.ops.known(x) is not None]
            for side in (segment.lower, segment.upper)
        ]
        grid = {self.dims[n] for n in self.program.axis_names("grid")}
        for dims in ({*self.dims.values()}, grid) if count > 1 else ():
            chosen = [[x for x in side if _varying(x) <= dims] for side in sides]
            varying = set[int]().union(*(_varying(x) for side in chosen for x in side))
            if not all(chosen) or not varying:
                continue
            first = reduce(self.ops.elementwise["maximum"], [*chosen[0], self._zero("int")])
            last = reduce(self.ops.elementwise["minimum"], chosen[1])
            lengths = self.ops.known(self.ops.elementwise["sub"](last, first))
            most = count if lengths is None else max(0, int(lengths.max()))
            if most * max(2, math.prod(first.shape[d] for d in varying - grid)) <= count:
                return first, most
        return None, count

    def _within(self, segment: P.Segment, axis: str) -> Array:
        """Return the test for elements of this block in the segment."""
        k = self.coordinates[axis]
        inside = None
        for e in segment.lower:
            inside = _both(inside, k >= self._value(e))
        for e in segment.upper:
            inside = _both(inside, k < self._value(e))
        if axis in self.shifted:
            inside = _both(inside, k < self.extents[self.program.axes[axis].extent])
        return inside

    # --- expressions ------------------------------------------------------------------

    def _value(self, e: P.Expr) -> Array:
        match e.op:
            case "number":
                return self.ops.full((1,) * len(self.dims), e.attr, e.kind)
            case "param":
                return self.ops.full((1,) * len(self.dims), self.params[e.attr], e.kind)
            case "extent":
                return self.ops.full((1,) * len(self.dims), self.extents[e.attr], "int")
            case "coordinate":
                return self.coordinates[e.attr]
            case "local":
                return self.values[e.attr]
            case "load":
                return self._load(e)
            case "contract":
                return self._contract(e)
            case "reduce":
                monoid, axis = e.attr
                return self._reduce(monoid, self._along(e.args[0], axis), self.dims[axis])
            case "masked":
                return self._masked(e)
            case "cast":
                return self.ops.cast(self._value(e.args[0]), e.kind)
            case "compare":
                return SIGNS[e.attr].value(*map(self._value, e.args))
        return self.ops.elementwise[e.op](*map(self._value, e.args))

    def _masked(self, e: P.Expr) -> Array:
        value = self._value(e.args[0])
        role = self.program.axes[e.attr[0]].role
        if self.inside is None or role == "whole":
            return value
        around = () if self.around is None else (self.around,)
        value = self.ops.chosen(value, self.inside, *around)
        unit = self.ops.full((1,) * len(self.dims), e.attr[1], e.kind)
        return self.ops.library.where(self.inside, value, unit)

    def _along(self, e: P.Expr, axis: str) -> Array:
        """Return a value with all its elements along the axis, also where they are the same."""
        start, stop = self.range[axis]
        return self._stretch(self._value(e), self.dims[axis], stop - start)

    def _permute(self, x: Array, order: list[int]) -> Array:
        return self.ops.library.moveaxis(x, tuple(order), tuple(range(len(order))))

    def _reduce(self, monoid: str, x: Array, dim: int) -> Array:
        if x.shape[dim] == 0 and monoid in _EXTREMA:
            shape = tuple(1 if n == dim else size for n, size in enumerate(x.shape))
            return self.ops.full(shape, _EXTREMA[monoid][1], "float")
        name = _EXTREMA[monoid][0] if monoid in _EXTREMA else monoid
        return getattr(self.ops.library, name)(x, axis=dim, keepdims=True)

    def _stretch(self, value: Array, dim: int, length: int) -> Array:
        shape = list(value.shape)
        if shape[dim] == length:
            return value
        shape[dim] = length
        return self.ops.library.broadcast_to(value, tuple(shape))

    def _contract(self, e: P.Expr) -> Array:
        left, right = (self._along(a, e.attr) for a in e.args[:2])
        result = self.ops.contract(left, right, self.dims[e.attr])
        if len(e.args) == 2:
            return result
        return self.ops.elementwise["add"](self._value(e.args[2]), result)

    def _load(self, e: P.Expr) -> Array:
        tensor = self.inputs[e.attr]
        if not e.args:
            return self.ops.promote(tensor).reshape((1,) * len(self.dims))
        names = self._coordinates(e.positions)
        if names is not None:
            block = self._slice(tensor, names)
            members = self._members(e.guard, [block])
            return block if members is None else self._where(members, block)
        positions = [self._value(s) for s in e.positions]
        return self._gather(e.attr, tensor, positions, self._members(e.guard, positions))

    def _members(self, condition: P.Expr | None, positions: list[Array]) -> Array | None:
        """Return the test for positions read, or written, for a member of the domain. What is for
        some element of an axis along which no position varies is so once."""
        guard = None if condition is None else self._value(condition)
        for inside in (self.inside, self.around):
            if inside is not None:
                guard = _both(guard, inside)
        if guard is not None:
            for dim in range(len(self.dims)):
                if guard.shape[dim] > 1 and all(p.shape[dim] == 1 for p in positions):
                    guard = self._reduce("max", guard, dim)
        return guard

    def _coordinates(self, positions: Sequence[P.Expr]) -> list[str] | None:
        """Return the axes whose coordinates these are, each once; None if they are others."""
        axes = [p.attr for p in positions if p.op == "coordinate"]
        is_distinct = len(set(axes)) == len(positions)
        return axes if is_distinct and not self.shifted.intersection(axes) else None

    def _slice(self, tensor: Array, names: list[str]) -> Array:
        block = tensor[tuple(slice(*self.range[n]) for n in names)]
        order = sorted(range(len(names)), key=lambda n: self.dims[names[n]])
        block = self._permute(block, order)
        lengths = {n: self.range[n][1] - self.range[n][0] for n in names}
        return self.ops.promote(block).reshape([lengths.get(a, 1) for a in self.dims])

    def _gather(
        self, name: str, tensor: Array, positions: list[Array], guard: Array | None
    ) -> Array:
        """Read computed positions. What its guard rules out is read as 0; what lies outside in
        unchecked mode is any element."""
        if self.checked:
            self._check(f"{name} is read", tensor.shape, positions, guard)
        if guard is not None:
            positions = [self.ops.chosen(p, guard) for p in positions]
        valid = [_inside(p, size) for p, size in zip(positions, tensor.shape, strict=True)]
        if 0 in tensor.shape:  # there is no position at all
            return self._where(reduce(_both, valid), self._zero(self.program.inputs[name].kind))
        where = self.ops.library.where
        pairs = zip(valid, positions, strict=True)
        read = tensor[tuple(where(ok, p, self._zero("int")) for ok, p in pairs)]
        read = self.ops.promote(read)
        return read if guard is None else self._where(guard, read)

    def _zero(self, kind: Kind) -> Array:
        return self.ops.full((1,) * len(self.dims), 0, kind)

    def _where(self, condition: Array, value: Array) -> Array:
        """Return the value, and 0 where the condition fails."""
        kind: Kind = "bool" if str(value.dtype).endswith("bool") else "float"
        if kind == "float" and not _is_floating(value):
            kind = "int"
        return self.ops.library.where(condition, value, self._zero(kind))

    def _check(
        self, what: str, sizes: Sequence[int], positions: list[Array], guard: Array | None
    ) -> None:
        for dim, (position, size) in enumerate(zip(positions, sizes, strict=True)):
            outside = (position < 0) | (position >= size)
            if guard is not None:
                outside = outside & guard
            if self.ops.bounds(outside)[1]:
                where = self.ops.library.where
                low, high = self.ops.bounds(where(outside, position, self._zero("int")))
                worst = low if low < 0 else high
                raise IndexRangeError(
                    f"{what} at {worst} in dimension {dim}, which has {size} entries",
                    help="guard the read with a filter, or mend the subscript",
                )


def _varying(x: Array) -> set[int]:
    """Return the dimensions along which an array may vary."""
    return {d for d, n in enumerate(x.shape) if n > 1}


def _within(positions: Sequence[Array], sizes: Sequence[int]) -> Array:
    """Return the test for positions in a tensor of at least one dimension."""
    return reduce(_both, map(_inside, positions, sizes))


def _inside(position: Array, size: int) -> Array:
    return (position >= 0) & (position < size)


def _both(a: Array | None, b: Array) -> Array:
    return b if a is None else a & b


def _is_floating(x: Array) -> bool:
    return "float" in str(x.dtype)
