"""The schedules that a kernel may have at given sizes on one GPU: what resources allow.

A shape is a schedule without the names of a kernel's axes and the number of processors, so that
kernels that are alike can share it. A space holds the shapes that fit: blocks no longer than the
sizes, tiles that a warp holds in registers, operands and stages in shared memory, descriptors and
two tiles where the kernel has them. Which of these is good is the table's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import log2, prod

from monocomp.backends.triton.model import Gpu, Model, gpu
from monocomp.backends.triton.schedule import MIN_DOT, Schedule, one_tile, shortest
from monocomp.blocks.descriptors import described_loads
from monocomp.blocks.kernels import takes_turns
from monocomp.sizes import power_of_two
from monocomp.tile import Loop, TileProgram, expressions, walk
from monocomp.tile.split_padding import divisible, split_padding

LARGEST_TILE = 1 << 12  # elements of a tile that a warp can hold in registers
_LENGTHS = {True: (16, 32, 64, 128, 256), False: (4, 16, 64, 256, 1024, 4096)}
_WARPS = {True: (4, 8), False: (1, 2, 4, 8)}
_STAGES = (1, 2, 3, 4, 5)
_INSTANCES = (1, 2, 3, 4, 5, 6)
_TEXT = re.compile(r"([\dx]*)/([\dx]*) (\d+)w (\d+)s(?: (\d+)i)?( two)?( tma)?")


@dataclass(frozen=True, order=True)
class Shape:
    """A schedule without names.

    Attributes:
        rows: block lengths of the row axes, in the kernel's order.
        streams: of the streamed axes, outer loops first.
        warps, stages: of a program instance.
        instances: how many a processor has, where streams are cut into parts; else 0.
        in_two: are axes in two tiles that are padded less so?
        descriptors: do descriptors load tiles?
    """

    rows: tuple[int, ...]
    streams: tuple[int, ...]
    warps: int
    stages: int
    instances: int = 0
    in_two: bool = False
    descriptors: bool = False

    def __str__(self) -> str:
        """As in "64/64 4w 3s tma", which `parse` reads."""
        blocks = "/".join("x".join(map(str, lengths)) for lengths in (self.rows, self.streams))
        more = f" {self.instances}i" if self.instances else ""
        flags = " two" * self.in_two + " tma" * self.descriptors
        return f"{blocks} {self.warps}w {self.stages}s{more}{flags}"

    @staticmethod
    def parse(text: str) -> Shape:
        """From text; raises ValueError when it is no shape."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is no shape")
        blocks = [tuple(int(n) for n in part.split("x") if n) for part in found.group(1, 2)]
        warps, stages, instances = (int(n or 0) for n in found.group(3, 4, 5))
        return Shape(blocks[0], blocks[1], warps, stages, instances, bool(found[6]), bool(found[7]))


@dataclass(frozen=True)
class Legal:
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
    def rows(self) -> list[str]:
        """The axes of rows."""
        return self.program.axis_names("row")

    @cached_property
    def streams(self) -> list[str]:
        """The streamed axes, those of outer loops first."""
        loops = (s.axis.name for s in walk(self.program.body) if isinstance(s, Loop))
        streams = {*self.program.axis_names("stream")}
        return [a for a in dict.fromkeys(loops) if a in streams]

    @cached_property
    def multiplies(self) -> bool:
        """Does the kernel multiply matrices?"""
        return any(e.op == "contract" for e in expressions(self.program.body))

    @cached_property
    def in_two(self) -> tuple[str, ...]:
        """The axes that are padded less in two tiles, in a kernel that multiplies matrices."""
        products = [e for e in expressions(self.program.body) if e.op == "contract"]
        if not any(a.kind == "float" for e in products for a in e.args[:2]):
            return ()
        axes = [self.program.axes[a] for a in divisible(self.program)]
        sizes = {a.name: self.sizes[a.extent] for a in axes if a.extent in self.sizes}
        return tuple(a for a, size in sizes.items() if shortest(size) < one_tile(size))

    @cached_property
    def describes(self) -> bool:
        """Can the copy engine load tiles of this kernel, in the dtypes that pay?"""
        return self.gpu.copies and self.element_bytes <= 2 and bool(described_loads(self.program))

    @cached_property
    def model(self) -> Model:
        """Estimates of schedules that hold each axis as one tile."""
        return Model(self.program, self.sizes, self.element_bytes, self.gpu)

    @cached_property
    def _model_in_two(self) -> Model:
        program = split_padding(self.program, self.in_two)
        return Model(program, self.sizes, self.element_bytes, self.gpu)

    def model_of(self, schedule: Schedule) -> Model:
        """Estimates of schedules like this one."""
        return self._model_in_two if schedule.in_two else self.model

    # --- shapes and schedules -------------------------------------------------------------

    def schedule(self, shape: Shape) -> Schedule | None:
        """The schedule of a shape for this kernel, with blocks no longer than the sizes; None if
        it cannot have one."""
        if (len(shape.rows), len(shape.streams)) != (len(self.rows), len(self.streams)):
            return None
        if bool(shape.instances) != bool(self.program.parts):
            return None
        if (shape.in_two and not self.in_two) or (shape.descriptors and not self.describes):
            return None
        lengths = dict(zip(self.rows, shape.rows, strict=True))
        lengths |= dict(zip(self.streams, shape.streams, strict=True))
        axes = self.program.axis_names("row") + self.program.axis_names("stream")
        found = Schedule(
            tuple((a, min(lengths[a], self._longest(a))) for a in axes),
            shape.warps,
            shape.stages,
            shape.instances * self.processors,
            self.in_two if shape.in_two else (),
            shape.descriptors,
            self.orders[0],
        )
        return found if self.holds(found) else None

    def shape(self, schedule: Schedule) -> Shape:
        """The shape of a schedule."""
        lengths = dict(schedule.blocks)
        return Shape(
            tuple(lengths[a] for a in self.rows),
            tuple(lengths[a] for a in self.streams),
            schedule.num_warps,
            schedule.num_stages,
            schedule.programs // self.processors,
            bool(schedule.in_two),
            schedule.descriptors,
        )

    @cached_property
    def orders(self) -> list[int]:
        """How many places of the grid may take turns, the best first."""
        return self.model.orders()

    def _longest(self, axis: str) -> int:
        """The longest block of an axis that is of use."""
        size = self.sizes.get(self.program.axes[axis].extent)
        least = MIN_DOT if self.multiplies or axis in self.rows else min(_LENGTHS[False])
        return 1 << 16 if size is None else max(least, power_of_two(size))

    def holds(self, schedule: Schedule) -> bool:
        """Does all of it fit? Registers that are missing are slow, so that they count, but where
        the model knows little: of products in full precision, and of some in limbs."""
        model = self.model_of(schedule)
        estimate = model.estimate(schedule)
        if not estimate.fits(self.gpu):
            return False
        if all(n <= MIN_DOT for _, n in schedule.blocks):
            return True  # there is nothing smaller
        is_rough = self.element_bytes > 2 or bool(model.in_parts)
        if not is_rough and estimate.spills(self.gpu):
            return False
        tiles = (model.elements(axes, schedule) for axes in model.tiles)
        return max(tiles, default=1) <= schedule.num_warps * LARGEST_TILE

    def admits(self, schedule: Schedule) -> bool:
        """Could this be a schedule of the kernel? Not everything that was remembered is."""
        if schedule.descriptors and not self.describes:
            return False
        if schedule.in_two and schedule.in_two != self.in_two:
            return False
        if sorted(a for a, _ in schedule.blocks) != sorted(self.rows + self.streams):
            return False
        if bool(schedule.programs) != bool(self.program.parts):
            return False
        if schedule.abreast > 1 and not takes_turns(self.program):
            return False
        return self.model_of(schedule).estimate(schedule).fits(self.gpu)

    # --- the whole space ------------------------------------------------------------------

    def shapes(self, stages: Sequence[int] = _STAGES) -> Iterator[Shape]:
        """All shapes, blocks no longer than the sizes."""
        axes = [*self.rows, *self.streams]
        choices = [[n for n in _LENGTHS[self.multiplies] if n <= self._longest(a)] for a in axes]
        lengths = [c or [MIN_DOT] for c in choices]
        depths = stages if self.streams else (1,)
        instances = _INSTANCES if self.program.parts else (0,)
        two = (False, True) if self.in_two else (False,)
        engines = (False, True) if self.describes else (False,)
        for blocks in product(*lengths):
            rest = product(_WARPS[self.multiplies], depths, instances, two, engines)
            rows, streams = blocks[: len(self.rows)], blocks[len(self.rows) :]
            yield from (Shape(rows, streams, *chosen) for chosen in rest)

    def ranked(self, stages: Sequence[int] = _STAGES) -> list[Shape]:
        """Those that fit, the best first by the model; of each choice of blocks and warps the best
        two, as stages and parts matter less."""
        found: dict[Shape, float] = {}
        for shape in self.shapes(stages):
            schedule = self.schedule(shape)
            if schedule is not None:
                found[shape] = self.model_of(schedule).estimate(schedule).cycles
        ranked = sorted(found, key=lambda s: _rank(s, found[s]))
        kept: dict[object, int] = {}
        chosen = []
        for s in ranked:
            key = s.rows, s.streams, s.warps
            kept[key] = kept.get(key, 0) + 1
            if kept[key] <= 2:
                chosen.append(s)
        return chosen

    def neighbours(self, shape: Shape) -> list[Shape]:
        """The shapes one step away that fit: a length doubled or halved, other warps, a stage or an
        instance more or less, another way to load or to hold axes."""
        steps = [replace(shape, warps=w) for w in (shape.warps * 2, shape.warps // 2)]
        for n, length in enumerate(shape.streams):
            for new in (length * 2, length // 2):
                steps.append(replace(shape, streams=_with(shape.streams, n, new)))
        for n, length in enumerate(shape.rows):
            for new in (length * 2, length // 2):
                moved = replace(shape, rows=_with(shape.rows, n, new))
                steps += [moved, replace(moved, warps=shape.warps * new // length)]
        if self.streams:
            steps += [replace(shape, stages=shape.stages + n) for n in (1, -1)]
        if shape.instances:
            steps += [replace(shape, instances=shape.instances + n) for n in (1, -1)]
        steps += [replace(shape, descriptors=not shape.descriptors)]
        steps += [replace(shape, in_two=not shape.in_two)]
        least = min(_LENGTHS[self.multiplies])
        kept = (
            s
            for s in steps
            if s.stages in _STAGES
            and s.warps in _WARPS[self.multiplies]
            and s.instances in (0, *_INSTANCES)
            and min((*s.rows, *s.streams), default=least) >= least
        )
        schedules = (self.schedule(s) for s in kept)
        found = dict.fromkeys(self.shape(s) for s in schedules if s is not None)
        return [s for s in found if s != shape]


def _with(lengths: tuple[int, ...], place: int, new: int) -> tuple[int, ...]:
    return (*lengths[:place], new, *lengths[place + 1 :])


def _rank(shape: Shape, cycles: float) -> tuple[int, int, int]:
    """By the model; what it takes for about as fast, by large blocks and a usual depth."""
    elements = prod((*shape.rows, *shape.streams))
    return round(20 * log2(cycles)), -elements, abs(shape.stages - 3)
