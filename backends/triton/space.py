"""Which schedules are worth measuring: what is known to be good, and what the model ranks next.

For each class of kernels there are a few shapes that have won measurements; the first of them
is taken where nothing is measured. Around them stands the whole space: block lengths, warps,
stages, and program instances for streams in parts. What cannot run, or would keep registers in
memory, is left out, and the rest is ranked by the cost model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import log2, prod

from monocomp.backends.triton import known_shapes
from monocomp.backends.triton.model import Gpu, Model, gpu
from monocomp.backends.triton.schedule import (
    CHUNK,
    MIN_DOT,
    SECTOR,
    Schedule,
    held_length,
    one_tile,
    shortest,
)
from monocomp.blocks.descriptors import described_loads
from monocomp.blocks.kernels import takes_turns
from monocomp.errors import UnsupportedError
from monocomp.sizes import power_of_two
from monocomp.tile import Let, Loop, Statement, TileProgram, expressions, walk
from monocomp.tile.split_padding import divisible, split_padding

LARGEST_TILE = 1 << 12  # elements of a tile that a warp can hold in registers
LONG_STREAM = 1 << 13  # elements: more take so long that the shape and the loads matter more


def has_product(program: TileProgram) -> bool:
    """Does the kernel multiply matrices?"""
    return any(e.op == "contract" for e in expressions(program.body))


def whole_length(program: TileProgram, sizes: Mapping[str, int]) -> int:
    """The longest padded axis that is held entirely; 64 where it is not known."""
    lengths: dict[str, int] = {}
    for a in program.axes.values():
        if a.role == "whole":
            first = a.after or a.name
            length = held_length(program, a.name, sizes.get(a.extent, 64))
            lengths[first] = lengths.get(first, 0) + length
    return max(lengths.values(), default=MIN_DOT)


def element_bytes(program: TileProgram, inputs: Mapping[str, int]) -> int:
    """The size of a matrix' elements in products, from the sizes of elements of float inputs.
    The widest counts that is read as a matrix: scales and biases of rows are in no product."""
    read = [e for e in expressions(program.body) if e.op == "load" and e.attr in inputs]
    blocked = {a.name for a in program.axes.values() if a.role not in ("grid", "serial")}
    matrices = {e.attr for e in read if len(e.axes & blocked) > 1}
    return max((n for name, n in inputs.items() if name in (matrices or inputs)), default=4)


@dataclass(frozen=True)
class Space:
    """The schedules of one kernel at given sizes, on one GPU.

    Attributes:
        program: the kernel.
        sizes: extents that are known.
        element_bytes: of the elements of matrices.
        target: "cuda:90", the default; "cuda:80", "hip:gfx942", ...
        processors: how many multiprocessors the GPU has.
    """

    program: TileProgram
    sizes: Mapping[str, int]
    element_bytes: int
    target: str | None = None
    processors: int = 1

    @cached_property
    def gpu(self) -> Gpu:
        """What the target has."""
        return gpu(self.target, self.processors)

    @cached_property
    def _model(self) -> Model:
        return Model(self.program, self.sizes, self.element_bytes, self.gpu)

    @cached_property
    def _orders(self) -> list[int]:
        return self._model.orders()

    @cached_property
    def _in_two(self) -> tuple[str, ...]:
        """The axes that are padded less in two tiles, in a kernel that multiplies matrices."""
        if not _multiplies_floats(self.program):
            return ()
        axes = [self.program.axes[a] for a in divisible(self.program)]
        sizes = {a.name: self.sizes[a.extent] for a in axes if a.extent in self.sizes}
        return tuple(a for a, size in sizes.items() if shortest(size) < one_tile(size))

    @cached_property
    def _divided(self) -> Space | None:
        """The schedules with these axes in two tiles, which they leave unsaid."""
        axes = self._in_two
        return replace(self, program=split_padding(self.program, axes)) if axes else None

    def _is_divided_first(self) -> bool:
        """Are two tiles known to be better? For few rows what counts is what is read, and padding
        is not; and where operands are in registers, two long ones take too many."""
        if self._divided is None or self.program.parts or self._row() <= 32:
            return False
        has_room = self.gpu.reads_shared or self.gpu.registers > 255
        return self._accumulated() <= (512 if has_room else 128)

    def _accumulated(self) -> int:
        """How long a row of all accumulators is: two take as much as one that is twice as long."""
        accumulators = max(1, _accumulators(self.program, self.program.body))
        return whole_length(self.program, self.sizes) * accumulators

    @cached_property
    def _describes(self) -> bool:
        """Can the copy engine load tiles of this kernel, in the dtypes that pay?"""
        return self.gpu.copies and self.element_bytes <= 2 and bool(described_loads(self.program))

    def first(self) -> Schedule:
        """The schedule to take where nothing is measured: the first of those that are known to
        be good. Kernels with a contraction too long to hold are no such class of their own; for
        them, and where registers are scarce, the model says which. Axes that are padded less in
        two tiles are held so, where that is known to be better.

        Raises:
            UnsupportedError: the GPU can't hold the smallest tiles of this kernel.
        """
        if self._divided is not None and self._is_divided_first():
            return replace(self._divided.first(), in_two=self._in_two)
        first = self._first()
        described = self._is_described_first(first)
        return replace(first, descriptors=described, abreast=self._orders[0])

    def _is_described_first(self, schedule: Schedule) -> bool:
        """Are descriptors known to be better? They are on Hopper where several instances wait
        for their loads in turn, and the barriers do not take the room of one of these; where rows
        do not fill chunks or, as a rule, sectors; for products in loops inside others where an
        instance is alone, but not for smaller ones; and for long streams in parts, as a call takes
        the host a few microseconds more."""
        if not self._describes or (self.target or "cuda:90") != "cuda:90":
            return False
        described = replace(schedule, descriptors=True)
        if self._has_inner_product:
            return schedule.num_warps == 8 and self._model.estimate(described).fits(self.gpu)
        room, fits = self._model.room(schedule), self._model.estimate(described).fits(self.gpu)
        if self.program.parts:
            is_alone = schedule.num_warps == 4 and room == 1
            return is_alone and fits and self._is_long(self._loops())
        if self._row() <= 32:
            return False
        if self._has_rests(CHUNK):
            return fits
        if self._has_rests(SECTOR):
            in_two = any(a.after for a in self.program.axes.values())
            whole = whole_length(self.program, self.sizes)
            return fits and (64 < whole <= 128 if in_two else whole > 32)
        return schedule.num_warps == 4 and fits and 1 < room == self._model.room(described)

    def _has_rests(self, unit: int) -> bool:
        """Are rows of a stream held entirely that units of so many elements do not divide?"""
        blocks = described_loads(self.program).values()
        axes = {self.program.axes[b.tile[-1]] for b in blocks}
        return any(self.sizes.get(a.extent, unit) % unit for a in axes if a.role == "whole")

    @cached_property
    def _has_inner_product(self) -> bool:
        """Does a loop inside another sum up a product of tiles that it reads?"""
        loops = [s for s in walk(self.program.body) if isinstance(s, Loop)]
        inner = {s.axis.name for x in loops for s in x.body if isinstance(s, Loop)}
        products = (e for e in expressions(self.program.body) if e.op == "contract")
        return any(e.attr in inner for e in products)

    def _first(self) -> Schedule:
        estimates = {s: self._model.estimate(s) for s in self._known()}
        fitting = [s for s, e in estimates.items() if e.fits(self.gpu)]
        # The model knows little of products in full precision, and of some that are in parts.
        rough = self.element_bytes > 2 or self._multiplies_in_parts
        lasting = [s for s in fitting if rough or not estimates[s].spills(self.gpu)]
        if lasting and not self.program.axis_names("serial"):
            return lasting[0]
        if fitting:
            return min(lasting or fitting, key=lambda s: estimates[s].cycles)
        ranked = self._ranked()
        if ranked:
            return ranked[0]
        if any(a.extent not in self.sizes for a in self.program.axes.values()):
            return next(iter(estimates))  # nobody has asked for the sizes that are too large
        raise self.refusal()

    def candidates(self, count: int = 12) -> list[Schedule]:
        """At most so many schedules that are worth measuring, the one to take first without
        measuring before those that are known to be good, its other orders, and then what the
        model ranks best. Who loads the tiles is tried out with the first."""
        first = self.first()
        other = replace(first, descriptors=not first.descriptors)
        found = dict.fromkeys([first, other, *self._others(first, count)])
        return [s for s in found if not s.descriptors or self.admits(s)][:count]

    def _others(self, first: Schedule, count: int) -> list[Schedule]:
        usual, *further = self._orders
        known = [s for s in self._known() if self._model.estimate(s).fits(self.gpu)]
        known = [replace(s, abreast=usual) for s in known]
        orders = [replace(first, abreast=n) for n in further]
        if self._divided is not None:
            divided = self._divided.candidates(max(1, count - len(known)))
            kept = [replace(s, in_two=self._in_two) for s in divided]
            return [*known, *orders, *kept]
        ranked = [] if len(known) >= count else self._ranked()
        ranked = [replace(s, abreast=usual) for s in ranked]
        found = [*known, *orders, *ranked]
        return [replace(s, descriptors=self._is_described_first(s)) for s in found]

    def admits(self, schedule: Schedule) -> bool:
        """Could this be a schedule of the kernel? Not everything that was remembered is."""
        if schedule.descriptors and not self._describes:
            return False
        if schedule.in_two:
            if self._divided is None or schedule.in_two != self._in_two:
                return False
            return self._divided.admits(replace(schedule, in_two=()))
        axes = self.program.axis_names("row", "stream")
        if sorted(a for a, _ in schedule.blocks) != sorted(axes):
            return False
        if bool(schedule.programs) != bool(self.program.parts):
            return False
        if schedule.abreast > 1 and not takes_turns(self.program):
            return False
        return self._model.estimate(schedule).fits(self.gpu)

    def refusal(self, notes: Sequence[str] = ()) -> UnsupportedError:
        """That no schedule fits, with the sizes."""
        least = dict.fromkeys(self.program.axis_names("row", "stream"), MIN_DOT)
        programs = self.processors if self.program.parts else 0
        smallest = self._model.estimate(Schedule(tuple(least.items()), 4, 1, programs))
        known = {
            a.extent: self.sizes[a.extent]
            for a in self.program.axes.values()
            if a.extent in self.sizes
        }
        sizes = ", ".join(f"{e.lstrip('.')} = {n}" for e, n in known.items())
        return UnsupportedError(
            f"the GPU can't hold a tile of kernel '{self.program.name}'",
            notes=[
                f"extents: {sizes or 'not known'}",
                f"its smallest tiles have up to {smallest.tile} elements and take "
                f"{smallest.shared / 1024:.0f} KiB of shared memory; a program instance "
                f"has {self.gpu.shared >> 10} KiB",
                *notes,
            ],
            help="compile with backend='torch', or make the axes that are held entirely shorter",
        )

    # --- what is known --------------------------------------------------------------------

    def _known(self) -> list[Schedule]:
        """Shapes that have won measurements, for kernels of this class.

        Targets differ in what a product takes: Hopper's reads its operands from shared memory,
        others hold them in registers, and products of full float32 are done element by
        element, from registers everywhere.
        """
        program, sizes = self.program, self.sizes
        rows, streams = program.axis_names("row"), program.axis_names("stream")
        inner = _streamed_contraction(program)
        if inner is not None:
            target, processors = self.target, self.processors
            width = self.element_bytes
            found = _of_matrix_product(program, inner, sizes, width, target, processors)
            return [replace(s, descriptors=self._is_described_first(s)) for s in found]
        if not has_product(program) and not program.parts:
            if rows:
                return _of_rows_alike(program, rows, streams, sizes)
            are_many = self._model.instances(Schedule((), 1, 1)) >= 16 * self.processors
            return _of_lone_rows(program, streams, sizes, are_many)
        found = []
        for row, stream, warps, stages, *instances in self._shapes(rows):
            blocks = {a: _clip(row, sizes, program.axes[a].extent) for a in rows}
            blocks |= {a: _clip(stream, sizes, program.axes[a].extent) for a in streams}
            _shrink(program, blocks, sizes, warps)
            programs = instances[0] * self.processors if program.parts else 0
            schedule = Schedule(tuple(blocks.items()), warps, stages, programs)
            schedule = replace(schedule, num_stages=self._model.stages(schedule))
            found.append(self._side_by_side(schedule))
        return list(dict.fromkeys(found))

    def _side_by_side(self, schedule: Schedule) -> Schedule:
        """With a stage less if that makes room for a second instance, where it takes two to overlap
        products with what comes between them."""
        model, fewer = self._model, replace(schedule, num_stages=schedule.num_stages - 1)
        is_small = model.is_direct(schedule) and schedule.num_warps == 4
        makes_room = model.room(schedule) == 1 and fewer.num_stages > 1 and model.room(fewer) > 1
        return fewer if is_small and makes_room else schedule

    def _shapes(self, rows: Sequence[str]) -> Sequence[tuple[int, ...]]:
        program, target = self.program, self.target or "cuda:90"
        whole = self._accumulated()
        row = self._row()
        if program.parts:
            return self._in_parts(row)
        if not _multiplies_floats(program):
            return [(16, 16, 4, 1)]
        if len(rows) >= 2:
            if self.element_bytes > 2:
                return [(64, 32, 4, 2), (32, 32, 4, 2)]
            return [(128, 64, 8, 3), (64, 64, 4, 3), (128, 32, 4, 4)]
        if target.startswith("hip:"):
            return known_shapes.for_cdna(whole, self.element_bytes)
        if self.element_bytes > 2:
            return known_shapes.in_full_precision(whole)
        if row <= 32:
            return [shape[:4] for shape in self._in_parts(row)]
        if int(target.removeprefix("cuda:")) < 90:
            return known_shapes.before_hopper(whole)
        in_two = any(a.after for a in program.axes.values())
        if in_two and _accumulators(program, program.body) == 1:
            return self._by_rows(known_shapes.for_hopper_in_two(whole, bool(self._whole_loops())))
        if self._multiplies_in_parts:
            return known_shapes.for_products_in_parts(whole, self._has_few_rows(rows))
        is_shared = _streamed_length(program, self.sizes) < 2 * whole
        reads_twice = self._is_long(self._whole_loops()) and not self._describes
        return self._by_rows(known_shapes.for_hopper(whole, reads_twice, is_shared))

    def _by_rows(self, shapes: list[known_shapes.Shape]) -> list[known_shapes.Shape]:
        """With most rows first where streamed ones do not fill sectors: each takes another, and is
        read less often so. Copies of those that do not even fill chunks do fill them."""
        if self._has_rests(CHUNK) or not self._has_rests(SECTOR):
            return shapes
        return sorted(shapes, key=lambda shape: -shape[0])

    def _row(self) -> int:
        """How many rows a block has at most; after that the rows are no longer few."""
        axes = [self.program.axes[a] for a in self.program.axis_names("row")]
        lengths = [power_of_two(self.sizes.get(a.extent, 64)) for a in axes]
        return max(MIN_DOT, min(64, max(lengths, default=1)))

    @cached_property
    def _multiplies_in_parts(self) -> bool:
        """Is this one of the kernels that `known_shapes.for_products_in_parts` is for?"""
        program = self.program
        is_alone = len(program.axis_names("row")) == 1 and not program.parts
        is_usual = self._row() > 32 and self._accumulated() <= 384
        return is_alone and is_usual and self.gpu.reads_shared and bool(self._model.in_parts)

    def _has_few_rows(self, rows: Sequence[str]) -> bool:
        """Would blocks of 128 rows leave processors idle?"""
        blocks = tuple(dict.fromkeys(rows, 128).items())
        return self._model.instances(Schedule(blocks, 8, 1)) < self.processors

    def _in_parts(self, row: int) -> list[tuple[int, int, int, int, int]]:
        size = self.element_bytes
        whole = whole_length(self.program, self.sizes) * size // 2
        return known_shapes.for_parts(row, whole, size, _streamed_length(self.program, self.sizes))

    def _is_long(self, loops: Sequence[Loop]) -> bool:
        """Is one of the streams long?"""
        return any(self.sizes.get(loop.axis.extent, 0) > LONG_STREAM for loop in loops)

    def _whole_loops(self) -> list[Loop]:
        """The streams that are the same for all rows."""
        return [loop for loop in self._loops() if loop.is_whole]

    def _loops(self) -> list[Loop]:
        return [s for s in walk(self.program.body) if isinstance(s, Loop)]

    # --- what could be good ---------------------------------------------------------------

    def _ranked(self) -> list[Schedule]:
        """The whole space but for what cannot run well, the best first by the model."""
        found: dict[Schedule, float] = {}
        for schedule in self._all():
            estimate = self._model.estimate(schedule)
            if estimate.fits(self.gpu) and not estimate.spills(self.gpu):
                found[schedule] = estimate.cycles
        ranked = sorted(found, key=lambda s: _rank(s, found[s]))
        # Of each shape two are worth measuring: stages and parts matter less.
        kept: dict[object, list[Schedule]] = {}
        for s in ranked:
            of_shape = kept.setdefault((s.blocks, s.num_warps), [])
            if len(of_shape) < 2:
                of_shape.append(s)
        chosen = {s for of_shape in kept.values() for s in of_shape}
        return [s for s in ranked if s in chosen]

    def _all(self) -> Iterator[Schedule]:
        program = self.program
        rows, streams = program.axis_names("row"), program.axis_names("stream")
        multiplies = has_product(program)
        lengths = (16, 32, 64, 128, 256) if multiplies else (4, 16, 64, 256, 1024, 4096)
        axes = [*rows, *streams]
        choices = []
        for a in axes:
            extent = program.axes[a].extent
            limit = max(MIN_DOT, power_of_two(self.sizes.get(extent, max(lengths))))
            choices.append([n for n in lengths if n <= limit])
        warps = (4, 8) if multiplies else (1, 2, 4, 8)
        stages = (1, 2, 3, 4, 5) if streams else (1,)
        programs = [n * self.processors for n in range(1, 7)] if program.parts else [0]
        shapes = product(product(*choices), warps)
        for blocks, count in shapes:
            named = dict(zip(axes, blocks, strict=True))
            largest = dict(named)
            _shrink(program, largest, self.sizes, count)
            if largest == named:
                for depth, number in product(stages, programs):
                    yield Schedule(tuple(named.items()), count, depth, number)


def _streamed_contraction(program: TileProgram) -> str | None:
    """The index that a product of two matrices streams inside of another stream, in a kernel
    whose only large accumulator is that of the product: what else it carries are rows."""
    rows, streams = program.axis_names("row"), program.axis_names("stream")
    lets = (s for s in walk(program.body) if isinstance(s, Let))
    read = {s.name for s in lets if s.value.op == "load" and len(s.value.axes) > 1}
    products = [e for e in expressions(program.body) if e.op == "contract"]
    inner = {e.attr for e in products if all(a.attr in read for a in e.args[:2])}
    if len(rows) != 1 or len(streams) != 2 or len(inner) != 1 or not inner <= {*streams}:
        return None
    held = program.axis_names("whole", "serial")
    is_alone = len(products) == 1 and _accumulators(program, program.body) == 1
    return inner.pop() if is_alone and not held and _multiplies_floats(program) else None


def _of_matrix_product(
    program: TileProgram,
    inner: str,
    sizes: Mapping[str, int],
    element_bytes: int,
    target: str | None,
    processors: int,
) -> list[Schedule]:
    """Schedules for a kernel that is a product of large matrices with something done to each
    tile: the tiles of such a product. A stream in parts makes one program instance a
    processor: these read the same columns at the same time."""
    if element_bytes > 2:  # rows, columns, streamed elements, warps, stages
        shapes = [(64, 64, 32, 8, 2), (128, 64, 32, 8, 2), (32, 64, 32, 4, 2)]
    elif target is not None and target.startswith("hip:"):
        shapes = [(128, 128, 32, 8, 2), (128, 128, 64, 8, 1), (64, 64, 64, 4, 2)]
    elif target is not None and int(target.removeprefix("cuda:")) < 90:
        shapes = [(128, 128, 32, 8, 3), (128, 128, 32, 4, 3), (64, 128, 64, 4, 3)]
    else:
        shapes = [(128, 256, 64, 8, 3), (256, 128, 64, 8, 3), (128, 128, 64, 4, 3)]
        shapes += [(128, 256, 64, 8, 4), (64, 128, 128, 4, 3), (64, 64, 32, 4, 2)]
    (rows,), streams = program.axis_names("row"), program.axis_names("stream")
    found = []
    for row, column, length, warps, stages in shapes:
        wanted = {rows: row} | {a: length if a == inner else column for a in streams}
        blocks = {a: _clip(n, sizes, program.axes[a].extent) for a, n in wanted.items()}
        programs = processors if program.parts else 0
        found.append(Schedule(tuple(blocks.items()), warps, stages, programs))
    return list(dict.fromkeys(found))


def _streamed_length(program: TileProgram, sizes: Mapping[str, int]) -> int:
    """How many elements of tensors a stream brings for each of its places."""
    whole = {a.name: a for a in program.axes.values() if a.role == "whole"}
    streams = {*program.axis_names("stream")}
    read = [e for e in expressions(program.body) if e.op == "load" and e.axes & streams]
    held = [whole[a] for e in read for a in e.axes & whole.keys()]
    return sum(held_length(program, a.name, sizes.get(a.extent, 64)) for a in held)


def _shrink(
    program: TileProgram, blocks: dict[str, int], sizes: Mapping[str, int], warps: int
) -> None:
    """Halve blocks until the largest tile fits the registers: one with three axes may not."""
    shapes = {e.axes for e in expressions(program.body) if e.op not in ("local", "contract")}
    tiles = sorted(shapes, key=sorted)

    def length(axis: str) -> int:
        known = program.axes[axis]
        if known.role in ("grid", "serial"):
            return 1
        return blocks.get(axis) or held_length(program, axis, sizes.get(known.extent, 64))

    while True:
        largest = max(tiles, key=lambda axes: prod(map(length, axes)), default=frozenset())
        cut = [a for a in sorted(largest) if blocks.get(a, 0) > MIN_DOT]
        if not cut or prod(map(length, largest)) <= warps * LARGEST_TILE:
            return
        blocks[max(cut, key=length)] //= 2


def _rank(schedule: Schedule, cycles: float) -> tuple[int, int, int]:
    """By the model; what it takes for about as fast, by large blocks and a usual depth."""
    elements = prod(length for _, length in schedule.blocks)
    return round(20 * log2(cycles)), -elements, abs(schedule.num_stages - 3)


def _multiplies_floats(program: TileProgram) -> bool:
    """Is there a product for the matrix units, which do not take wide integers?"""
    products = [e for e in expressions(program.body) if e.op == "contract"]
    return any(a.kind == "float" for e in products for a in e.args[:2])


def _accumulators(program: TileProgram, body: Sequence[Statement]) -> int:
    """How many tiles of two axes loops carry at the same time, two tiles of an axis as one."""
    second = {a.name for a in program.axes.values() if a.after}
    most = 0
    for loop in (s for s in body if isinstance(s, Loop)):
        carried = sum(len(s.axes) > 1 and second.isdisjoint(s.axes) for s in loop.state)
        most = max(most, carried + _accumulators(program, loop.body))
    return most


def _of_rows_alike(
    program: TileProgram, rows: list[str], streams: list[str], sizes: Mapping[str, int]
) -> list[Schedule]:
    """Schedules for a kernel without products, with blocks of rows that share what they stream."""
    width = max(1, whole_length(program, sizes) // 4) if program.axis_names("whole") else 1
    found = []
    for elements, warps in ((1024, 4), (2048, 8), (512, 2), (4096, 8)):
        length = max(MIN_DOT, elements // width)
        blocks = {a: _clip(min(length, 64), sizes, program.axes[a].extent) for a in streams}
        row = MIN_DOT if streams else length
        blocks |= {a: _clip(row, sizes, program.axes[a].extent) for a in rows}
        _shrink(program, blocks, sizes, warps)
        found.append(Schedule(tuple(blocks.items()), warps, 2))
    return list(dict.fromkeys(found))


def _of_lone_rows(
    program: TileProgram, streams: list[str], sizes: Mapping[str, int], are_many: bool
) -> list[Schedule]:
    """Schedules for a kernel whose rows are an instance each: 32 elements a lane under way, and as
    many warps as that makes. Where axes are held and rows are many, it is a warp: a multiprocessor
    takes 32 such instances, and no warp waits for another."""
    least, width = 4, whole_length(program, sizes) if program.axis_names("whole") else 1
    one, four = (1024, 1), (4096, 4)
    first = [one, four] if are_many and width > 1 else [four, one]
    found = []
    for elements, warps in (*first, (2048, 2), (8192, 8)):
        length = max(least, elements // width)
        blocks = {a: _clip(length, sizes, program.axes[a].extent, least) for a in streams}
        _shrink(program, blocks, sizes, warps)
        needed = max(blocks.values(), default=1) * width // 1024
        found.append(Schedule(tuple(blocks.items()), max(1, min(warps, needed)), 2))
    return list(dict.fromkeys(found))


def _clip(length: int, sizes: Mapping[str, int], extent: str, least: int = MIN_DOT) -> int:
    size = sizes.get(extent)
    return length if size is None else max(least, min(length, power_of_two(size)))
