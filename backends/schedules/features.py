"""Features that tell kernels apart when schedules are chosen: numbers, never a program's name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from dataclasses import fields
from math import log2, prod

from monocomp.backends.schedules.legal import Legal, Shape
from monocomp.backends.schedules.schedule import CHUNK, SECTOR, held_length
from monocomp.blocks.masking.filters import filters
from monocomp.blocks.masking.phases import loops_of
from monocomp.costs.cost import SPECIAL_TIME
from monocomp.declarations.record import record
from monocomp.extents.nominal import power_of_two
from monocomp.tile import Assign, Loop, Statement, TileProgram
from monocomp.tile.operations import OPERATIONS

# Element-wise operations that one counts for, by what does it; matrix units work beside them.
_WORK = {"element": 1, "special": SPECIAL_TIME}
_FEWEST_SPLITS, _FEW_ROWS = 4, 32
_USUAL = Shape((64,), (64,), 4, 3)


@record()
class Features:
    """Numbers of a kernel at given sizes; lengths and counts are logarithms to base 2.

    Attributes:
        rows, streams: how many axes of rows and of streams there are: shapes have a length of each.
        products: of matrices, in all loops; one that goes on from matrix to matrix is one.
        splits: are streams cut into splits?
        merges: is what is streamed what another kernel has stored of such splits?
        serial: loops over an index that no tile has, but for those that make a product longer.
        bytes: of the elements of matrices.
        positions: of the grid.
        row: how many rows there are at a position.
        columns: how many there are in the shorter direction, where rows have two.
        length: of the longest stream.
        held: the padded length of a row of all accumulators.
        whole: the longest padded axis that is held entirely.
        statistics: numbers of each row that a loop carries, such as its maximum.
        work: element-wise operations on tiles of rows and streams, for each of their elements.
        gathers: tiles read whose elements have a position each.
        limbs: products of operands in two bf16 limbs.
        masked: does a loop mask some of its elements, and no map list its blocks?
        bounded: how many ends of a loop vary with the rows?
        levels: of loads that wait for one another.
        rest: 0 where rows of a stream fill sectors of the cache, 1 where chunks, 2 for others.
        has_descriptors: can descriptors load tiles?
        split_padding: can axes be padded less as two tiles, and are there rows enough for that to
            matter?
        direct: do matrix units take operands from shared memory?
        lanes: of a warp that multiplies matrices.
        kept: bytes of shared memory that an instance has for each of its rows.
        streamed: the same for each element of a stream, and each stage.
        converted: tiles of 8 bits that products take converted.
    """

    rows: int
    streams: int
    products: int
    splits: bool
    merges: bool
    serial: int
    bytes: int
    positions: float
    row: float
    columns: float
    length: float
    held: float
    whole: float
    statistics: int
    work: float
    gathers: int
    limbs: int
    masked: bool
    bounded: int
    levels: int
    rest: int
    has_descriptors: bool
    split_padding: bool
    direct: bool
    lanes: float
    kept: float
    streamed: float
    converted: int

    def numbers(self) -> tuple[float, ...]:
        """Return the features as a row of the table."""
        return tuple(round(float(getattr(self, name)), 2) for name in NAMES)


NAMES = tuple(f.name for f in fields(Features))


def features(legal: Legal) -> Features:
    """Return the features of a kernel."""
    program, resources, sizes = legal.program, legal.resources, legal.sizes
    loops = program.stream_loops
    rows, streams = {*legal.rows}, {*legal.streams}
    values = list(program.expressions)
    tiles = [e for e in values if e.axes & rows and e.axes & streams]
    if not rows or not streams:
        tiles = [e for e in values if e.axes & resources.blocked]
    held = {a.name: a for a in program.axes.values() if a.role == "whole"}
    lengths = {n: held_length(program, n, resources.size(n)) for n in held}
    loads = [e for e in values if e.op == "load"]
    positions = max(1, prod(resources.size(a) for a in program.axis_names("grid")))
    sides = [power_of_two(resources.size(a)) for a in rows]
    row = max(1, prod(sides))
    # How many splits another kernel makes is not known, but that they keep all processors busy.
    given = {d for t in program.inputs.values() if not t.is_stored for d in t.dims}
    unknown = {a for a in streams if program.axes[a].extent not in {*sizes, *given}}
    stored = [e for e in loads if program.inputs[e.attr].is_stored]
    merged = {a for e in stored for a in e.axes & unknown}
    number = max(_FEWEST_SPLITS, 2 * legal.gpu.processors // positions)
    ends = [
        number if loop.axis.name in merged else resources.size(loop.axis.name) for loop in loops
    ]
    matrices = [e for e in loads if e.axes & streams and e.axes & held.keys()]
    last = [sizes.get(held[a].extent, SECTOR) for e in matrices for a in e.axes & held.keys()]
    is_longer = _is_longer_product(program)
    kept, streamed = _shared(legal)
    return Features(
        rows=len(rows),
        streams=len(streams),
        products=1 if is_longer else len({id(e) for e in resources.products}),
        splits=bool(program.splits),
        merges=bool(merged),
        serial=0 if is_longer else len(program.axis_names("serial")),
        bytes=legal.element_bytes,
        positions=log2(positions),
        row=log2(row),
        columns=log2(max(1, min(sides))) if len(sides) > 1 else 0.0,
        length=log2(max([1, *ends])),
        held=log2(max([1, *(_carried(loop, lengths) for loop in loops)])),
        whole=log2(max([1, *lengths.values()])),
        statistics=max((_statistics(loop, held.keys()) for loop in loops), default=0),
        work=log2(1 + sum(_WORK.get(OPERATIONS[e.op].unit or "", 0) for e in tiles)),
        gathers=sum(any(len(x.axes) > 1 for x in e.positions) for e in loads),
        limbs=sum(any(a in resources.in_limbs for a in e.args[:2]) for e in resources.products),
        masked=any(s.masked for loop in _unlisted(program) for s in loop.segments),
        bounded=max((varying_ends(loop, resources.blocked) for loop in loops), default=0),
        levels=resources.levels,
        rest=max((sum(size % n > 0 for n in (SECTOR, CHUNK)) for size in last), default=0),
        has_descriptors=legal.has_descriptors,
        split_padding=bool(legal.split_axes) and row > _FEW_ROWS,
        direct=_is_direct(legal, row),
        lanes=log2(legal.gpu.lanes) if legal.multiplies else 0.0,
        kept=log2(1 + kept),
        streamed=log2(1 + streamed),
        converted=len(resources.converted),
    )


def _unlisted(program: TileProgram) -> list[Loop]:
    """Return the loops over blocks that no map lists. What one lists takes the time of others."""
    loops = {s: loops_of(s) for s in program.loops}
    listed = filters(program, loops)
    each = (loop for found in loops.values() for loop in found if loop.axis.role == "stream")
    return [loop for loop in each if loop not in listed]


def _shared(legal: Legal) -> tuple[float, float]:
    """Return the bytes of shared memory for each row, and for each element of the last stream
    and stage: what one stage less leaves."""
    usual = legal.alike(_USUAL) if legal.multiplies and legal.rows and legal.streams else None
    more = usual and legal.named(usual)
    less = usual and legal.named(usual._replace(stages=usual.stages - 1))
    if usual is None or more is None or less is None:
        return 0.0, 0.0
    resources = legal.resources
    shared = resources.shared(more)
    stage = max(0, shared - resources.shared(less))
    stages = usual.stages - (not resources.is_direct(more))
    kept = max(0, shared - stages * stage)
    return kept / prod(usual.rows), stage / usual.streams[-1]


def _is_direct(legal: Legal, row: int) -> bool:
    is_matrix = legal.multiplies and legal.element_bytes <= 2
    return is_matrix and 0 < legal.gpu.direct_rows <= row


def _is_longer_product(program: TileProgram) -> bool:
    """True if this is a product, with blocks of rows of both sides, whose sum a serial loop
    continues from one matrix to the next."""
    loops = [s for s in program.body if isinstance(s, Loop)]
    if program.splits or len(program.axis_names("row")) < 2 or program.axis_names("whole"):
        return False
    return all(s.axis.role == "serial" and all(map(_hands_on, s.body)) for s in loops)


def _hands_on(s: Statement) -> bool:
    return isinstance(s, Loop) or (isinstance(s, Assign) and s.value.op == "local")


def varying_ends(loop: Loop, blocked: Set[str]) -> int:
    """Count the ends of a loop, lower and upper, that vary along blocked axes."""
    lower = any(e.axes & blocked for s in loop.segments for e in s.lower)
    upper = any(e.axes & blocked for s in loop.segments for e in s.upper)
    return lower + upper


def _statistics(loop: Loop, held: Collection[str]) -> int:
    """Count the tiles carried by a loop, and by loops inside it, with no axis held entirely."""
    inside = sum(_statistics(s, held) for s in loop.body if isinstance(s, Loop))
    return inside + sum(s.axes.isdisjoint(held) for s in loop.state)


def _carried(loop: Loop, lengths: Mapping[str, int]) -> int:
    """Return the length of a row of all tiles that a loop carries, also of those in loops
    inside."""
    inside = sum(_carried(s, lengths) for s in loop.body if isinstance(s, Loop))
    tiles = (s.axes & lengths.keys() for s in loop.state)
    return inside + sum(prod(lengths[a] for a in axes) for axes in tiles if axes)
