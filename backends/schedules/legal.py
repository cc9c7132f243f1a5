"""The schedules that a kernel may have at given sizes on one GPU: what resources allow.

A shape is a schedule without the names of a kernel's axes and the number of processors, so that
kernels that are alike can share it. Legal are those that fit: blocks no longer than the sizes,
tiles that a warp holds in registers, operands and stages in shared memory, descriptors and two
tiles where the kernel has them. Which of these is good is the table's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from monocomp.backends.schedules.orders import orders
from monocomp.backends.schedules.resources import Resources
from monocomp.backends.schedules.schedule import MIN_DOT, Schedule, shortest
from monocomp.blocks.building.kernels import is_grouped
from monocomp.blocks.choices.descriptors import descriptor_loads
from monocomp.declarations.record import record
from monocomp.errors import UnsupportedError
from monocomp.extents.nominal import one_tile, power_of_two
from monocomp.machine.gpus import Gpu, gpu
from monocomp.tile import TileProgram
from monocomp.tile.split_padding import divisible, split_padding

SHORTEST = 4  # block of elements that are not multiplied
_WARPS = {True: (4, 8), False: (1, 2, 4, 8)}
_STAGES = range(1, 6)
_MOST_INSTANCES = 8
_TEXT = re.compile(r"([\dx]*)/([\dx]*) (\d+)w (\d+)s(?: (\d+)i)?( split)?( tma)?")


class Shape(NamedTuple):
    """A schedule without names.

    Attributes:
        rows: block lengths of the row axes, in the kernel's order.
        streams: of the streamed axes, outer loops first.
        warps, stages: of a program instance.
        instances: how many a processor has, where streams are cut into splits; else 0.
        split_axes: are axes split that are padded less so?
        descriptors: do descriptors load tiles?
    """

    rows: tuple[int, ...]
    streams: tuple[int, ...]
    warps: int
    stages: int
    instances: int = 0
    split_axes: bool = False
    descriptors: bool = False

    def __str__(self) -> str:
        """Return text such as "64/64 4w 3s tma", which `parse` reads."""
        blocks = "/".join("x".join(map(str, lengths)) for lengths in (self.rows, self.streams))
        more = f" {self.instances}i" if self.instances else ""
        flags = " split" * self.split_axes + " tma" * self.descriptors
        return f"{blocks} {self.warps}w {self.stages}s{more}{flags}"

    @staticmethod
    def parse(text: str) -> Shape:
        """Read a shape from text; raises ValueError when it is none."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is no shape")
        blocks = [tuple(int(n) for n in part.split("x") if n) for part in match.group(1, 2)]
        warps, stages, instances = (int(n or 0) for n in match.group(3, 4, 5))
        return Shape(blocks[0], blocks[1], warps, stages, instances, bool(match[6]), bool(match[7]))


def element_bytes(program: TileProgram, inputs: Mapping[str, int]) -> int:
    """Return the size of a matrix' elements, from the sizes of elements of float inputs: the widest
    that is read as a matrix, and not along a part of another one's axes. What has 8 bits elsewhere
    has 16 in a kernel that does not see these."""
    tensors = program.inputs
    inputs = {
        n: max(size, 2) if n in tensors and tensors[n].dtype is None else size
        for n, size in inputs.items()
    }
    read = [e for e in program.expressions if e.op == "load" and e.attr in inputs]
    blocked = {a.name for a in program.axes.values() if a.role not in ("grid", "serial")}
    axes = {e.axes & blocked for e in read}
    most = {a for a in axes if len(a) > 1 and not any(a < other for other in axes)}
    matrices = {e.attr for e in read if e.axes & blocked in most}
    return max((n for name, n in inputs.items() if name in (matrices or inputs)), default=4)


@record()
class Legal:
    """The schedules of one kernel in one language at given sizes, on one GPU.

    Attributes:
        program: the kernel.
        sizes: extents that are known.
        element_bytes: of the elements of matrices.
        target: "cuda:90", the default; "cuda:80", "hip:gfx942", ...
        processors: how many multiprocessors the GPU has.
        language: of the kernel.
    """

    program: TileProgram
    sizes: Mapping[str, int]
    element_bytes: int
    target: str | None = None
    processors: int = 1
    language: str = "triton"

    @cached_property
    def gpu(self) -> Gpu:
        """Return the GPU that the target names."""
        return gpu(self.target, self.processors)

    @cached_property
    def rows(self) -> list[str]:
        """Return the axes of rows."""
        return self.program.axis_names("row")

    @cached_property
    def streams(self) -> list[str]:
        """Return the streamed axes, those of outer loops first."""
        loops = (s.axis.name for s in self.program.loops)
        streams = {*self.program.axis_names("stream")}
        return [a for a in dict.fromkeys(loops) if a in streams]

    @cached_property
    def multiplies(self) -> bool:
        """True if the kernel multiplies matrices."""
        return bool(self.program.products)

    @cached_property
    def split_axes(self) -> tuple[str, ...]:
        """Return the axes that are padded less as two tiles, in a kernel that multiplies
        matrices."""
        if not any(a.kind == "float" for e in self.program.products for a in e.args[:2]):
            return ()
        axes = [self.program.axes[a] for a in divisible(self.program)]
        sizes = {a.name: self.sizes[a.extent] for a in axes if a.extent in self.sizes}
        return tuple(a for a, size in sizes.items() if shortest(size) < one_tile(size))

    @cached_property
    def has_descriptors(self) -> bool:
        """True if the copy engine can load tiles of this kernel, in dtypes for which that pays."""
        return self.gpu.copies and self.element_bytes <= 2 and bool(descriptor_loads(self.program))

    @cached_property
    def resources(self) -> Resources:
        """Return the resources of schedules that hold each axis as one tile."""
        return Resources(self.program, self.sizes, self.element_bytes, self.gpu)

    @cached_property
    def _resources_split(self) -> Resources:
        program = split_padding(self.program, self.split_axes)
        return Resources(program, self.sizes, self.element_bytes, self.gpu)

    def resources_of(self, schedule: Schedule) -> Resources:
        """Return the resources of schedules like this one."""
        return self._resources_split if schedule.split_axes else self.resources

    # --- shapes and schedules -------------------------------------------------------------

    def schedule(self, shape: Shape) -> Schedule | None:
        """Return the schedule of a shape for this kernel; None if it cannot have one."""
        unlimited = self._blocks(shape)
        if unlimited is None or not self.resources_of(unlimited).fits(unlimited):
            return None
        unlimited = self._with_registers(unlimited)
        return unlimited if self.holds(unlimited) else None

    def named(self, shape: Shape) -> Schedule | None:
        """Return the same, whether it fits or not, with blocks no longer than the sizes."""
        unlimited = self._blocks(shape)
        return None if unlimited is None else self._with_registers(unlimited)

    def _blocks(self, shape: Shape) -> Schedule | None:
        """Return the blocks of a shape, and how they are loaded."""
        if (len(shape.rows), len(shape.streams)) != (len(self.rows), len(self.streams)):
            return None
        if bool(shape.instances) != bool(self.program.splits):
            return None
        if shape.split_axes and not self.split_axes:
            return None
        if shape.descriptors and not self.has_descriptors:
            return None
        if self._is_short(shape.rows + shape.streams):
            return None
        lengths = dict(zip(self.rows, shape.rows, strict=True))
        lengths |= dict(zip(self.streams, shape.streams, strict=True))
        axes = self.program.axis_names("row") + self.program.axis_names("stream")
        return Schedule(
            tuple((a, min(lengths[a], self._longest[a])) for a in axes),
            shape.warps,
            shape.stages,
            shape.instances * self.processors,
            self.split_axes if shape.split_axes else (),
            shape.descriptors,
            self.orders[0],
            language=self.language,
        )

    def _with_registers(self, schedule: Schedule) -> Schedule:
        """Return a schedule with what its tiles leave of registers."""
        resources = self.resources_of(schedule)
        schedule = replace(schedule, unchained=resources.lacks_rows(schedule))
        return replace(schedule, registers=resources.register_limit(schedule))

    def alike(self, shape: Shape) -> Shape:
        """Return the shape for this kernel that comes nearest to another kernel's. Rows and
        columns of a tile are the last axes of theirs, and what a stream inside another has
        belongs to the last; further axes of rows are short, and further streams inside are like
        the last."""
        rows, streams = shape.rows[-len(self.rows) :], shape.streams
        rows = (MIN_DOT,) * (len(self.rows) - len(rows)) + rows if self.rows else ()
        more = len(self.streams) - len(streams)
        streams = streams + (streams[-1:] or (MIN_DOT,)) * more if more > 0 else streams[-more:]
        return Shape(
            self._within(rows),
            tuple(min(n, self._longest[a]) for n, a in zip(streams, self.streams, strict=True)),
            shape.warps,
            shape.stages,
            max(1, shape.instances) if self.program.splits else 0,
            shape.split_axes and bool(self.split_axes),
            shape.descriptors and self.has_descriptors,
        )

    def _within(self, lengths: tuple[int, ...]) -> tuple[int, ...]:
        """Return the blocks of rows that are no longer than the sizes. Where columns are few, a
        tile has as many elements in more rows."""
        shortened = [min(n, self._longest[a]) for n, a in zip(lengths, self.rows, strict=True)]
        if len(shortened) > 1:
            shortened[-2] = min(
                shortened[-2] * lengths[-1] // shortened[-1], self._longest[self.rows[-2]]
            )
        return tuple(shortened)

    def shape(self, schedule: Schedule) -> Shape:
        """Return the shape of a schedule."""
        lengths = schedule.lengths
        return Shape(
            tuple(lengths[a] for a in self.rows),
            tuple(lengths[a] for a in self.streams),
            schedule.num_warps,
            schedule.num_stages,
            schedule.programs // self.processors,
            bool(schedule.split_axes),
            schedule.descriptors,
        )

    @cached_property
    def orders(self) -> list[int]:
        """List how many positions of the grid may take turns, the best number first."""
        return orders(self.resources)

    @property
    def _least(self) -> int:
        """Return the length of the shortest blocks: products have as many elements to sum."""
        return MIN_DOT if self.multiplies else SHORTEST

    def _is_short(self, lengths: Iterable[int]) -> bool:
        return min(lengths, default=self._least) < self._least

    @cached_property
    def _longest(self) -> dict[str, int]:
        """Return the longest block of each axis that is of use."""
        sizes = {a: self.sizes.get(self.program.axes[a].extent) for a in self.rows + self.streams}
        least = {a: MIN_DOT if a in self.rows else self._least for a in sizes}
        return {
            a: 1 << 16 if size is None else max(least[a], power_of_two(size))
            for a, size in sizes.items()
        }

    def holds(self, schedule: Schedule) -> bool:
        """True if all of it fits, registers included: a lack of them is slow. Where little is known
        of them, products in full precision may need any number, and some in limbs up to twice as
        many as there are. Kernels with the smallest blocks only have to run."""
        resources = self.resources_of(schedule)
        if not resources.fits(schedule):
            return False
        if all(n <= MIN_DOT for _, n in schedule.blocks):
            return True  # there is nothing smaller
        if self.element_bytes <= 2 and resources.spills(schedule):
            much = resources.registers(schedule) > 2 * resources.gpu.registers
            if much or not resources.in_limbs:
                return False
        return resources.tile(schedule) <= schedule.num_warps * self.gpu.warp_tile

    def admits(self, schedule: Schedule) -> bool:
        """True if this could be a schedule of the kernel. Not everything that was remembered is."""
        if schedule.language != self.language:
            return False
        if schedule.descriptors and not self.has_descriptors:
            return False
        if schedule.split_axes and schedule.split_axes != self.split_axes:
            return False
        if sorted(a for a, _ in schedule.blocks) != sorted(self.rows + self.streams):
            return False
        if bool(schedule.programs) != bool(self.program.splits):
            return False
        if schedule.group_size > 1 and not is_grouped(self.program):
            return False
        if self._is_short(schedule.lengths.values()):
            return False
        resources = self.resources_of(schedule)
        if schedule.registers not in (0, resources.register_limit(schedule)):
            return False
        return resources.fits(schedule)

    def smaller(self, shape: Shape) -> Iterator[Shape]:
        """Yield a shape with its longest block halved, again and again, and the smallest in the
        end. Each comes with more warps as well: before it where a thread lacks registers."""
        yield from self._with_warps(shape)
        while (longest := max((*shape.rows, *shape.streams), default=0)) > self._least:
            lengths = [*shape.rows, *shape.streams]
            lengths[lengths.index(longest)] //= 2
            rows, streams = lengths[: len(shape.rows)], lengths[len(shape.rows) :]
            shape = shape._replace(rows=tuple(rows), streams=tuple(streams))
            yield from self._with_warps(shape)
        yield shape._replace(stages=1, descriptors=False)

    def _with_warps(self, shape: Shape) -> list[Shape]:
        """Return a shape and the one with most warps, whose threads need fewer registers."""
        both = [shape, shape._replace(warps=max(_WARPS[self.multiplies]))]
        schedule = self.named(shape)
        lacks = schedule and self.resources_of(schedule).registers(schedule) > self.gpu.registers
        return both[::-1] if lacks else both

    def neighbours(self, shape: Shape) -> list[Shape]:
        """Return the shapes one step away that fit: a length doubled or halved, other warps, a
        stage or an instance more or less, another way to load or to hold axes."""
        steps = [shape._replace(warps=w) for w in (shape.warps * 2, shape.warps // 2)]
        for n, length in enumerate(shape.streams):
            for new in (length * 2, length // 2):
                steps.append(shape._replace(streams=_with(shape.streams, n, new)))
        for n, length in enumerate(shape.rows):
            for new in (length * 2, length // 2):
                moved = shape._replace(rows=_with(shape.rows, n, new))
                steps += [moved, moved._replace(warps=shape.warps * new // length)]
        if self.streams:
            steps += [shape._replace(stages=shape.stages + n) for n in (1, -1)]
        if shape.instances:
            steps += [shape._replace(instances=shape.instances + n) for n in (1, -1)]
        steps += [shape._replace(descriptors=not shape.descriptors)]
        steps += [shape._replace(split_axes=not shape.split_axes)]
        kept = (
            s
            for s in steps
            if s.stages in _STAGES
            and s.warps in _WARPS[self.multiplies]
            and bool(shape.instances) <= s.instances <= _MOST_INSTANCES
        )
        schedules = (self.schedule(s) for s in kept)
        shapes = dict.fromkeys(self.shape(s) for s in schedules if s is not None)
        return [s for s in shapes if s != shape]

    def refusal(self, notes: Sequence[str] = ()) -> UnsupportedError:
        """Return an error which says that no schedule fits, with the sizes."""
        least = dict.fromkeys(self.program.axis_names("row", "stream"), MIN_DOT)
        programs = self.processors if self.program.splits else 0
        smallest = Schedule(tuple(least.items()), 4, 1, programs)
        tile, shared = self.resources.tile(smallest), self.resources.shared(smallest)
        extents = (a.extent for a in self.program.axes.values() if a.extent in self.sizes)
        sizes = ", ".join(f"{e.lstrip('.')} = {self.sizes[e]}" for e in dict.fromkeys(extents))
        held = ", ".join(self.program.axis_names("whole"))
        shapes = (",".join(d.lstrip(".") for d in o.dims) for o in self.program.outputs)
        pairs = zip(self.program.outputs, shapes, strict=True)
        computed = ", ".join(f"{o.name}[{dims}]" if dims else o.name for o, dims in pairs)
        return UnsupportedError(
            f"the GPU can't hold a tile of kernel '{self.program.name}'",
            notes=[
                f"it computes {computed}" + (f", and holds all of {held} at once" if held else ""),
                f"extents: {sizes or 'not known'}",
                f"its smallest tiles have up to {tile} elements and take "
                f"{shared / 1024:.0f} KiB of shared memory; a program instance "
                f"has {self.gpu.shared >> 10} KiB",
                *notes,
            ],
            help="compile with backend='torch'"
            + (f", or make {held.replace(', ', ' or ')} shorter" if held else ""),
        )


def _with(lengths: tuple[int, ...], position: int, new: int) -> tuple[int, ...]:
    return (*lengths[:position], new, *lengths[position + 1 :])
