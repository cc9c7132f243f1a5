"""Schedules: what a tile program leaves open, and which choices are worth measuring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from monocomp.nominal import power_of_two
from monocomp.tile import Let, Loop, Statement, TileProgram, expressions, walk

MIN_DOT = 16  # the shortest side of a matrix product
LARGEST_TILE = 1 << 12  # elements of a tile that a warp can hold in registers


@dataclass(frozen=True)
class Schedule:
    """Block lengths by axis, warps a program instance, and stages of the load pipeline.

    `programs` is how many program instances a stream is cut into parts for; 0 if it is not.
    """

    blocks: tuple[tuple[str, int], ...]
    num_warps: int
    num_stages: int
    programs: int = 0

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "blocks": dict(self.blocks)}

    @staticmethod
    def from_json(data: Any) -> Schedule:
        """From plain data; raises ValueError or TypeError when it is not a schedule."""
        blocks = tuple((str(k), int(v)) for k, v in data["blocks"].items())
        numbers = (int(data[n]) for n in ("num_warps", "num_stages", "programs"))
        schedule = Schedule(blocks, *numbers)
        sizes = [v for _, v in blocks]
        if any(v < 1 or v & (v - 1) or v > 1 << 16 for v in sizes):
            raise ValueError("block lengths are powers of two")
        if schedule.num_warps not in (1, 2, 4, 8, 16) or not 1 <= schedule.num_stages <= 8:
            raise ValueError("warps or stages out of range")
        if schedule.programs < 0:
            raise ValueError("the number of program instances is negative")
        return schedule


def has_product(program: TileProgram) -> bool:
    """Does the kernel multiply matrices?"""
    return any(e.op == "contract" for e in expressions(program.body))


def whole_length(program: TileProgram, sizes: Mapping[str, int]) -> int:
    """The longest padded axis that is held entirely; 64 where it is not known."""
    lengths = [
        max(MIN_DOT, power_of_two(sizes.get(a.extent, 64)))
        for a in program.axes.values()
        if a.role == "whole"
    ]
    return max(lengths, default=MIN_DOT)


def element_bytes(program: TileProgram, inputs: Mapping[str, int]) -> int:
    """The size of a matrix' elements in products, from the sizes of elements of float inputs.
    The widest counts that is read as a matrix: scales and biases of rows are in no product."""
    read = [e for e in expressions(program.body) if e.op == "load" and e.attr in inputs]
    blocked = {a.name for a in program.axes.values() if a.role not in ("grid", "serial")}
    matrices = {e.attr for e in read if len(e.axes & blocked) > 1}
    return max((n for name, n in inputs.items() if name in (matrices or inputs)), default=4)


def candidates(
    program: TileProgram,
    sizes: Mapping[str, int],
    element_bytes: int,
    target: str | None = None,
    processors: int = 1,
) -> list[Schedule]:
    """Schedules worth measuring, the one to take without measuring first.

    The first spills no registers and fits the shared memory of the target ("cuda:90", the
    default; "cuda:80", "hip:gfx942", ...). Targets differ in what a product takes: Hopper's
    reads its operands from shared memory, others hold them in registers, and products of
    full float32 are done element by element, from registers everywhere.
    """
    rows = program.axis_names("row")
    streams = program.axis_names("stream")
    inner = _streamed_contraction(program)
    if inner is not None:
        return _of_matrix_product(program, inner, sizes, element_bytes, target, processors)
    if program.parts:
        return _in_parts(program, rows, streams, sizes, element_bytes, processors)
    if not has_product(program):
        return _without_product(program, rows, streams, sizes)
    # Two accumulators take as much as one that is twice as long.
    whole = whole_length(program, sizes) * max(1, _accumulators(program.body))
    if not _multiplies_floats(program):
        shapes = [(16, 16, 4, 1)]
    elif len(rows) >= 2:
        shapes = [(128, 64, 8, 3), (64, 64, 4, 3), (128, 32, 4, 4)]
        if element_bytes > 2:
            shapes = [(64, 32, 4, 2), (32, 32, 4, 2)]
    elif target is not None and target.startswith("hip:"):
        shapes = _for_cdna(whole, element_bytes)
    elif element_bytes > 2:
        shapes = [(64, 32, 8, 2), (64, 32, 4, 2), (32, 32, 4, 2), (64, 64, 8, 2)]
        if whole > 64:
            shapes = [(16, 16, 8 if whole <= 128 else 4, 2), (32, 16, 4, 2)]
            shapes += [(32, 32, 8, 1), (64, 32, 4, 2)]
        if whole > 256:
            shapes = [(16, 16, 8, 1), (16, 16, 8, 2), (16, 16, 4, 1), (32, 16, 8, 1)]
    elif target is not None and int(target.removeprefix("cuda:")) < 90:
        shapes = _before_hopper(whole)
    elif whole <= 64:
        shapes = [(64, 64, 4, 3), (128, 128, 8, 2), (128, 128, 4, 2), (128, 64, 4, 3)]
        shapes += [(128, 64, 8, 3), (128, 64, 4, 2)]
    elif whole <= 128:
        shapes = [(128, 64, 8, 3), (128, 128, 8, 2), (64, 64, 4, 3), (128, 64, 8, 2)]
        shapes += [(128, 32, 4, 3), (64, 64, 4, 2)]
    elif whole <= 256:
        shapes = [(128, 64, 8, 2), (64, 32, 8, 2), (64, 64, 4, 2), (64, 32, 4, 2)]
        if _has_two_ends(program):  # the third loop takes registers
            shapes = [shapes[1], shapes[0], *shapes[2:]]
    elif whole <= 512:
        shapes = [(64, 32, 8, 2), (64, 64, 8, 1), (64, 16, 8, 3), (32, 32, 8, 2)]
        if _has_two_ends(program):  # the third loop takes registers
            shapes = [shapes[-1], *shapes[:-1]]
    else:
        shapes = [(32, 16, 8, 2), (32, 32, 8, 1), (16, 16, 8, 1)]
    found = []
    for row, stream, warps, stages in shapes:
        blocks = {a: _clip(row, sizes, program.axes[a].extent) for a in rows}
        blocks |= {a: _clip(stream, sizes, program.axes[a].extent) for a in streams}
        _shrink(program, blocks, sizes, warps)
        found.append(Schedule(tuple(blocks.items()), warps, stages))
    return list(dict.fromkeys(found))


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
    is_alone = len(products) == 1 and _accumulators(program.body) == 1
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


_PROCESSORS = {"cuda:80": 108, "cuda:90": 132, "cuda:100": 148, "hip:gfx942": 304}


def processors_of(target: str | None) -> int:
    """How many multiprocessors a target has, as a rule; 1 if it is not known."""
    return _PROCESSORS.get(target or "", 1)


def _in_parts(
    program: TileProgram,
    rows: list[str],
    streams: list[str],
    sizes: Mapping[str, int],
    element_bytes: int,
    processors: int,
) -> list[Schedule]:
    """Schedules for a stream in parts: it is read once, so what counts is that enough of it
    is under way. With them goes how many program instances a processor holds."""
    whole = whole_length(program, sizes) * element_bytes // 2
    lengths = (power_of_two(sizes.get(program.axes[a].extent, 64)) for a in rows)
    row = max(MIN_DOT, min(64, max(lengths, default=1)))
    shapes = [(row, 128, 8, 3, 1), (row, 128, 4, 3, 1), (row, 64, 4, 4, 2), (row, 64, 4, 2, 5)]
    shapes += [(row, 64, 4, 3, 2)]
    if whole > 128:
        shapes = [(row, 32, 4, 3, 2), (row, 64, 8, 2, 1), (row, 32, 4, 2, 2), (row, 64, 4, 2, 1)]
    if whole > 256 and element_bytes > 2:
        shapes = [(MIN_DOT, 16, 4, 2, 2), (MIN_DOT, 32, 8, 2, 1), (MIN_DOT, 32, 4, 2, 1)]
    elif whole > 256:
        shapes = [(row, 32, 8, 2, 1), (row, 64, 8, 1, 1), (MIN_DOT, 32, 4, 2, 1)]
        if _streamed_length(program, sizes) < 2 * whole:  # one tile is keys and values
            shapes = [(row, 64, 8, 2, 1), *shapes]
    found = []
    for rows_, stream, warps, stages, instances in shapes:
        blocks = {a: _clip(rows_, sizes, program.axes[a].extent) for a in rows}
        blocks |= {a: _clip(stream, sizes, program.axes[a].extent) for a in streams}
        _shrink(program, blocks, sizes, warps)
        found.append(Schedule(tuple(blocks.items()), warps, stages, instances * processors))
    return list(dict.fromkeys(found))


def _streamed_length(program: TileProgram, sizes: Mapping[str, int]) -> int:
    """How many elements of tensors a stream brings for each of its places."""
    whole = {a.name: a for a in program.axes.values() if a.role == "whole"}
    streams = {*program.axis_names("stream")}
    read = [e for e in expressions(program.body) if e.op == "load" and e.axes & streams]
    held = (whole[a].extent for e in read for a in e.axes & whole.keys())
    return sum(power_of_two(sizes.get(extent, 64)) for extent in held)


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
        whole = max(MIN_DOT, power_of_two(sizes.get(known.extent, 64)))
        return blocks.get(axis, whole)

    while True:
        largest = max(tiles, key=lambda axes: prod(map(length, axes)), default=frozenset())
        cut = [a for a in sorted(largest) if blocks.get(a, 0) > MIN_DOT]
        if not cut or prod(map(length, largest)) <= warps * LARGEST_TILE:
            return
        blocks[max(cut, key=length)] //= 2


def _for_cdna(whole: int, element_bytes: int) -> list[tuple[int, int, int, int]]:
    """Rows, streamed elements, warps, stages: 64 lanes a warp, 512 registers, 64 KiB shared."""
    if element_bytes > 2:
        if whole > 256:
            return [(16, 16, 4, 1), (16, 16, 8, 1)]
        return [(64, 32, 4, 2), (32, 32, 4, 2)] if whole <= 128 else [(32, 16, 4, 2)]
    if whole > 256:
        return [(16, 32, 4, 1), (32, 32, 4, 1)]
    if whole <= 64:
        return [(128, 64, 4, 2), (64, 64, 4, 2), (128, 32, 4, 2)]
    if whole <= 128:
        return [(128, 32, 4, 2), (128, 64, 4, 2), (64, 64, 4, 2)]
    return [(64, 32, 4, 2), (32, 32, 4, 2)]


def _before_hopper(whole: int) -> list[tuple[int, int, int, int]]:
    """Rows, streamed elements, warps, stages: operands in registers, 99 KiB shared or more."""
    if whole <= 64:
        return [(128, 64, 8, 3), (128, 64, 4, 3), (64, 64, 4, 3), (128, 32, 4, 3)]
    if whole <= 128:
        return [(128, 32, 8, 3), (128, 64, 8, 3), (64, 32, 4, 3), (64, 64, 4, 3)]
    if whole <= 256:
        return [(32, 32, 4, 2), (64, 32, 8, 2)]
    return [(32, 32, 8, 2), (16, 32, 4, 1)]


def _multiplies_floats(program: TileProgram) -> bool:
    """Is there a product for the matrix units, which do not take wide integers?"""
    products = [e for e in expressions(program.body) if e.op == "contract"]
    return any(a.kind == "float" for e in products for a in e.args[:2])


def _accumulators(body: Sequence[Statement]) -> int:
    """How many tiles of two axes loops carry at the same time."""
    most = 0
    for loop in (s for s in body if isinstance(s, Loop)):
        carried = sum(len(state.axes) > 1 for state in loop.state)
        most = max(most, carried + _accumulators(loop.body))
    return most


def _has_two_ends(program: TileProgram) -> bool:
    """Does a stream begin and end where its rows say?"""
    loops = (s for s in walk(program.body) if isinstance(s, Loop))
    return any(segment.lower and segment.upper for loop in loops for segment in loop.segments)


def _without_product(
    program: TileProgram, rows: list[str], streams: list[str], sizes: Mapping[str, int]
) -> list[Schedule]:
    found = []
    width = whole_length(program, sizes) // 4 if program.axis_names("whole") else 1
    for elements, warps in ((1024, 4), (2048, 8), (512, 2), (4096, 8)):
        length = max(MIN_DOT, elements // width)
        blocks = {a: _clip(length, sizes, program.axes[a].extent) for a in streams}
        row = length if not streams else 16
        blocks |= {a: _clip(row, sizes, program.axes[a].extent) for a in rows}
        if streams and rows:
            blocks |= {a: min(blocks[a], 64) for a in streams}
        _shrink(program, blocks, sizes, warps)
        found.append(Schedule(tuple(blocks.items()), warps, 2))
    return list(dict.fromkeys(found))


def _clip(length: int, sizes: Mapping[str, int], extent: str) -> int:
    size = sizes.get(extent)
    return length if size is None else max(MIN_DOT, min(length, power_of_two(size)))
