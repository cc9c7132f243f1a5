"""Interprets a block program on NumPy arrays: the check on passes and on what is built from them.

One program instance runs after the other. Arithmetic is that of the tile interpreter, float64 and
int64, so that both give the same, whatever dtypes a program converts to; but integers are divided
as GPUs do, towards 0. A read or write outside of a tensor is an error, also where the memory of
another row would be hit by none.

Parts run one after the other, as if rings had room for all blocks. What that leaves open, whether
parts wait for each other, or for too little, is checked in what is emitted of a program.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np

from monocomp import blocks as B
from monocomp.backends import folds
from monocomp.backends.array_operations import Tiles
from monocomp.backends.block_operations import (
    BY_SIGN,
    OPS,
    REDUCTIONS,
    Value,
    as_float,
    converted,
    function_of,
    kind_of,
)
from monocomp.backends.triton import interface
from monocomp.blocks.operations import broadcast_layout
from monocomp.errors import InternalError
from monocomp.host import arguments as A
from monocomp.tile.operations import scheduled, sign_of

_TOLD = ""  # the ring of the numbers that are told with items
_MAP = "map {}"  # what names the memory of one, which no tensor does
_AT_ONCE = 3  # instances of a program that works through items
Rings: TypeAlias = dict[str, deque[Any]]


@dataclass(frozen=True)
class _Pointer:
    """Positions in the memory of a tensor."""

    tensor: str
    offset: Value = 0

    def __add__(self, offset: Value) -> _Pointer:
        return replace(self, offset=self.offset + offset)


def run(
    program: B.BlockProgram,
    inputs: Mapping[str, np.ndarray[Any, Any]],
    outputs: Mapping[str, np.ndarray[Any, Any]],
    extents: Mapping[str, int],
    params: Mapping[str, Any],
    lengths: Mapping[str, int],
    *,
    descriptors: bool = False,
    group_size: int = 1,
    groups: int = 1,
) -> None:
    """Run one kernel; `outputs` are filled in place.

    Args:
        program: the kernel.
        inputs, outputs: tensors by name.
        extents, params: sizes and parameter values.
        lengths: block lengths by axis.
        descriptors: do descriptors load what they can?
        group_size: how many positions of the grid take turns.
        groups: how many warpgroups rows are divided among, where they are.
    """
    with np.errstate(all="ignore"):
        tensors = {**inputs, **outputs}
        tensors = {n: np.ascontiguousarray(t) for n, t in tensors.items()}
        for n, m in enumerate(program.maps):
            tensors[_MAP.format(n)] = _map(m, inputs, extents, params, lengths, group_size)
        given: dict[str, Value] = {}
        for a in program.arguments:
            given[a.name.attr] = argument(
                program, a, tensors, extents, params, lengths, descriptors, group_size
            )
        given |= {a.name.attr: groups for a in program.arguments if a.purpose == "groups"}
        own = {a: lengths[a] // groups for a in program.divided}
        count = count_items(program, extents, lengths)
        is_persistent = any(a.purpose == "items" for a in program.arguments)
        instances = min(count, _AT_ONCE) if is_persistent else count
        told = {"items": count, "counter": _Pointer("")}
        given |= {a.name.attr: told[a.purpose] for a in program.arguments if a.purpose in told}
        for instance in range(instances):
            number = instance, instances
            rings: Rings = {name: deque() for name in (_TOLD, *(r.name for r in program.rings))}
            if program.producer:
                one = _Instance(program, tensors, lengths, number, dict(given), rings)
                one.run(program.producer.body)
            for group in range(groups if program.divided else 1):
                blocks = {name: deque(ring) for name, ring in rings.items()}
                values = given | {"GROUP": group}
                one = _Instance(program, tensors, {**lengths, **own}, number, values, blocks)
                one.run(program.body)
                if any(blocks.values()):
                    raise InternalError(f"{program.name} leaves blocks in a ring")
        for name, output in outputs.items():
            output[...] = tensors[name].reshape(output.shape)


def _map(
    program: B.BlockProgram,
    inputs: Mapping[str, np.ndarray[Any, Any]],
    extents: Mapping[str, int],
    params: Mapping[str, Any],
    lengths: Mapping[str, int],
    group_size: int,
) -> np.ndarray[Any, Any]:
    """Run the kernel of a map, in memory that holds no number of a block."""
    length = _number(interface.map_length(program, _constants(lengths)), extents)
    made = np.full(count_items(program, extents, lengths) * length, -1)
    outputs = {_MAP.format(0): made}
    run(program, inputs, outputs, extents, params, lengths, group_size=group_size)
    return made


def count_items(
    program: B.BlockProgram, extents: Mapping[str, int], lengths: Mapping[str, int]
) -> int:
    """Count the blocks of rows, each at every position of the grid."""
    counts = (interface.count(axis, _constants(lengths)) for axis in program.grid)
    return int(_number(A.product(counts), extents))


def _constants(lengths: Mapping[str, int]) -> dict[str, A.Number]:
    return {axis: A.const(length) for axis, length in lengths.items()}


def _number(
    x: A.Number, extents: Mapping[str, int], params: Mapping[str, Any] | None = None
) -> Any:
    """Return a number of the host's at these sizes."""
    call: Any = SimpleNamespace(sizes=extents, params=params)
    return x.of(call)


def argument(
    program: B.BlockProgram,
    a: B.Argument,
    tensors: Mapping[str, np.ndarray[Any, Any]],
    extents: Mapping[str, int],
    params: Mapping[str, Any],
    lengths: Mapping[str, int],
    descriptors: bool,
    group_size: int,
) -> Value:
    """Return the value of a kernel's argument: numbers are those that the host computes."""
    match a.purpose:
        case "pointer":
            return _Pointer(a.of)
        case "map":
            return _Pointer(_MAP.format(a.dim))
        case "descriptor":
            return tensors[a.of] if descriptors and min(tensors[a.of].shape) else None
        case "stride":
            return tensors[a.of].strides[a.dim] // tensors[a.of].itemsize
        case "order":
            return group_size
        case "stages":  # turns are taken where there are several, which changes no value
            return 2
        case "size" | "param" | "block" | "even" | "single":
            value = interface.value_of(program, a, _constants(lengths))
            assert isinstance(value, A.Number)
            return _number(value, extents, params)
    return {"STEP": 1, "FAST": False}.get(a.of)


class _Instance:
    """Runs one program instance, or a part of it; `values` are its names, and `rings` hold the
    blocks that a producer has given."""

    def __init__(
        self,
        program: B.BlockProgram,
        tensors: Mapping[str, np.ndarray[Any, Any]],
        lengths: Mapping[str, int],
        number: tuple[int, int],
        values: dict[str, Value],
        rings: Rings,
    ) -> None:
        self.program, self.tensors, self.lengths = program, tensors, lengths
        self.number, self.instances = number
        self.values, self.rings = values, rings
        self.taken: dict[str, str] = {}  # the last tile of each ring
        self.running: dict[str, Value] = {}  # products

    # --- statements ---------------------------------------------------------------------------

    def run(self, body: B.Body) -> None:
        """Run statements."""
        for s in body:
            match s:
                case B.Assign():
                    self._assign(s)
                case B.Load():
                    self.values[s.target.attr] = self._load(s)
                case B.Store():
                    self._store(s)
                case B.Give():
                    tile = self._load_block(s.access, s.ring.block.tile)
                    self.rings[s.ring.name].append(tile)
                case B.Take():
                    tile = self._own(self.rings[s.ring.name].popleft(), s.ring.block.tile)
                    is_flipped = s.target.layout != s.ring.block.tile
                    tile = self._within(tile, s.within, s.ring.block.tile)
                    self.values[s.target.attr] = tile.T if is_flipped else tile
                    self.taken[s.ring.name] = s.target.attr
                case B.Clear():
                    ring, tile = self.rings[s.ring.name], s.ring.block.tile
                    ring[0] = self._within(ring[0], s.within, tile)
                case B.Release():  # from here on it may be another
                    for r in self._beside(s.ring):
                        del self.values[self.taken.pop(r.name)]
                case B.Skip():
                    for r in self._beside(s.ring):
                        self.rings[r.name].popleft()
                case B.Issue():
                    self.running[s.target.attr] = self._value(s.product)
                    self.values.pop(s.target.attr, None)
                case B.Wait():
                    self.values[s.target.attr] = self.running.pop(s.target.attr)
                case B.Tell():
                    self.rings[_TOLD].append([self._value(x) for x in s.values])
                case B.Learn():
                    told = self.rings[_TOLD].popleft()
                    names = (x.attr for x in s.targets)
                    self.values |= dict(zip(names, told, strict=True))
                case B.For():
                    for n in self._range(s.range):
                        self.values[s.variable.attr] = n
                        self.run(s.body)
                case B.While():
                    while self._value(s.test):
                        self.run(s.body)
                case B.If():
                    self.run(s.body if self._value(s.test) else s.orelse)

    def _beside(self, ring: B.Ring) -> list[B.Ring]:
        """Return a ring, and those whose blocks come and go with its own."""
        return [r for r in self.program.rings if ring.name in (r.name, r.beside)]

    def _own(self, tile: Value, axes: tuple[str, ...]) -> Value:
        """Return the rows of a block that a warpgroup has."""
        for dim, axis in enumerate(axes):
            if axis in self.program.divided:
                rows = self.lengths[axis]
                tile = np.take(tile, self.values["GROUP"] * rows + np.arange(rows), dim)
        return tile

    def _assign(self, s: B.Assign) -> None:
        value = self._value(s.value)
        values = value if isinstance(value, tuple) else (value,)
        for target, x in zip(s.targets, values, strict=True):
            if not isinstance(x, _Pointer):
                x = np.broadcast_to(x, self._shape(target.layout))
            self.values[target.attr] = x

    def _range(self, r: B.Range) -> range:
        if isinstance(r, B.Claims):
            return range(self.number, int(self._value(r.stop)), self.instances)
        start = 0 if r.start is None else int(self._value(r.start))
        step = self.lengths[r.axis] if isinstance(r, B.Blocks) else 1
        return range(start, int(self._value(r.stop)), step)

    def _positions(
        self, access: B.Pointers, layout: B.Layout
    ) -> tuple[np.ndarray[Any, Any], Value, Value]:
        """Return the memory of an access, positions in it, and which of these are meant."""
        pointer = self._value(access.base)
        positions = pointer.offset + sum(self._value(x) for x in access.offsets)
        mask = True if access.mask is None else self._value(access.mask)
        shape = self._shape(layout)
        positions, mask = np.broadcast_to(positions, shape), np.broadcast_to(mask, shape)
        memory = self.tensors[pointer.tensor].reshape(-1)
        if (mask & ((positions < 0) | (positions >= memory.size))).any():
            raise InternalError(f"{self.program.name} leaves {pointer.tensor}")
        return memory, positions, mask

    def _load(self, s: B.Load) -> Value:
        if isinstance(s.access, B.Descriptor):
            return self._load_block(s.access, s.target.layout)
        memory, positions, mask = self._positions(s.access, s.target.layout)
        fill = 0 if s.access.fill is None else self._value(s.access.fill)
        if not memory.size:
            return np.full(positions.shape, fill, memory.dtype)
        return np.where(mask, memory[np.where(mask, positions, 0)], fill).astype(memory.dtype)

    def _load_block(self, access: B.Descriptor, layout: B.Layout) -> Value:
        """Return the block, with 0 for what is outside of the tensor."""
        tensor = self._value(access.descriptor)
        axes = access.block.axes
        inside: Value = True
        index = []
        for dim, (axis, position) in enumerate(zip(axes, access.positions, strict=True)):
            length = 1 if axis is None else self.lengths[axis]
            shape = [1] * len(axes)
            shape[dim] = length
            at = (int(self._value(position)) + np.arange(length)).reshape(shape)
            inside = inside & (at >= 0) & (at < tensor.shape[dim])
            index.append(np.clip(at, 0, tensor.shape[dim] - 1))
        tile = access.block.tile
        block = np.where(inside, tensor[tuple(index)], 0).reshape(self._shape(tile))
        block = self._within(block, access.within, tile)
        return block if tile == layout else block.T

    def _within(self, tile: Value, within: B.Within | None, axes: tuple[str, ...]) -> Value:
        """Return a block with 0 for what it is not to have."""
        if within is None:
            return tile
        first, low, high = map(self._value, (within.first, within.low, within.high))
        is_below = within.is_below is not None and self._value(within.is_below)
        at = first + np.arange(self.lengths[within.axis])
        inside = (at >= low) & (at < high if not is_below else True)
        return np.where(inside[:, None] if axes[0] == within.axis else inside, tile, 0)

    def _store(self, s: B.Store) -> None:
        value = self._value(s.value)
        layout = broadcast_layout(*(x.layout for x in s.access.offsets))
        memory, positions, mask = self._positions(s.access, layout)
        value = np.broadcast_to(value, positions.shape)
        OPS.scatter(memory, (positions,), value, mask, s.mode == "add")

    # --- expressions --------------------------------------------------------------------------

    def _shape(self, layout: B.Layout) -> tuple[int, ...]:
        return tuple(1 if a is None else self.lengths[a] for a in layout)

    def _value(self, e: B.Expr) -> Value:
        if e.op == "select":
            return self._value(e.args[1] if self._value(e.args[0]) else e.args[2])
        args = [self._value(a) for a in e.args]
        if (sign := sign_of(e.op, e.attr)) is not None:
            return BY_SIGN[sign.text](*args)
        match e.op:
            case "name":
                return self.values[e.attr]
            case "number":
                return e.attr
            case "none":
                return None
            case "arange":
                return np.arange(self._shape(e.layout)[0])
            case "full":
                return OPS.full(self._shape(e.layout), args[0], kind_of(e.dtype))
            case "zeros":
                return np.zeros(self._shape(e.layout), np.int64)
            case "expand" | "broadcast":
                return self._expand(args[0], e)
            case "trans":
                return args[0].T
            case "convert" | "operand" | "fetch":
                return args[0]
            case "cast" | "to":
                return converted(args[0], e.dtype)
            case "given":
                return args[0] is not None
            case "reduce" | "scan":
                return self._reduction(e.op, e.attr, args)
            case "dot" | "dot_in_limbs":
                a, b, *rest = args
                initial = next((x for x in rest if x is not None), 0)
                return as_float(a) @ as_float(b) + initial
            case "combine":
                return self._combine(e.attr, args)
            case "program_id":
                return self.number
        row = scheduled(e.op)
        is_special = row is not None and row.unit == "special"
        return function_of(e.op)(*(map(as_float, args) if is_special else args))

    def _expand(self, x: Value, e: B.Expr) -> Value:
        if e.op == "broadcast":
            return np.broadcast_to(x, self._shape(e.layout))
        return np.reshape(x, self._shape(e.layout))

    def _combine(self, called: str, args: list[Value]) -> tuple[Value, ...]:
        function = self.program.functions[called]
        names = (x.attr for x in function.operands)
        inner = _Instance(
            self.program, {}, self.lengths, (0, 1), dict(zip(names, args, strict=True)), {}
        )
        for s in function.body:
            assert isinstance(s, B.Assign)
            inner.values[s.targets[0].attr] = inner._value(s.value)
        return tuple(inner._value(x) for x in function.results)

    def _reduction(self, op: str, r: B.Reduction, tiles: list[Value]) -> Value:
        if r.kind != "combine":
            return REDUCTIONS[r.by](tiles[0], axis=r.dim)

        def combine(left: Tiles, right: Tiles) -> Tiles:
            return self._combine(r.by, [*left, *right])

        step = -1 if r.is_backwards else 1
        fields = folds.parts(tuple(tiles), r.dim, slice(None, None, step))
        if op == "scan":
            prefixes = folds.prefixes(OPS, combine, r.dim, fields)
            return folds.parts(prefixes, r.dim, slice(None, None, step))
        return folds.parts(folds.total(OPS, combine, r.dim, fields), r.dim, 0)
