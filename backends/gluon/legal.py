"""The schedules of kernels whose rows lie in warpgroups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from math import ceil, prod

from monocomp.backends.gluon.passes import UNPRINTED
from monocomp.backends.schedules.features import varying_ends
from monocomp.backends.schedules.legal import Legal
from monocomp.backends.schedules.occupancy import streamed_length
from monocomp.backends.schedules.orders import orders
from monocomp.backends.schedules.schedule import Schedule
from monocomp.backends.triton.kernel_source import block_program
from monocomp.blocks import Block, BlockProgram
from monocomp.blocks.liveness import Moment, Shape, moments
from monocomp.blocks.passes.crossing import crossing
from monocomp.blocks.passes.division import WARPGROUP
from monocomp.costs.cost import STORED_BYTES
from monocomp.declarations.record import record
from monocomp.errors import UnsupportedError
from monocomp.machine.gpus import Warpgroups

_LENGTHS = (128, 64, 32, 16)
_WIDTHS = (1, 2)  # warps of a part are a power of two


@record()
class LegalOfWarpgroups(Legal):
    """Legal schedules of kernels whose rows are those of one to three warpgroups; or several share
    the columns of the same rows, if one can't hold these."""

    language: str = UNPRINTED.name

    def admits(self, schedule: Schedule) -> bool:
        return (
            schedule.descriptors
            and super().admits(schedule)
            and all(self._are_whole(schedule.lengths[a]) for a in self.blocks.divided)
            and all(self._is_aligned(block, schedule) for block in self.blocks.blocks)
            and self._may_meet(schedule)
            and self.registers(schedule) < self.warpgroups(schedule).registers
        )

    def _are_whole(self, rows: int) -> bool:
        """True if each warpgroup has as many rows as a product."""
        return rows in (self.gpu.direct_rows * groups for groups in self.gpu.warpgroups)

    def _is_aligned(self, block: Block, schedule: Schedule) -> bool:
        """True if 128 bytes divide a block, as those of several stages lie side by side. Vectors
        have elements of 16 or 32 bits."""
        length = prod(self.resources.length(a, schedule) for a in block.tile)
        return length * 2 % 128 == 0

    def _may_meet(self, schedule: Schedule) -> bool:
        """True if warpgroups can share the products that sum over rows: 64 rows or columns for
        each, and memory for two left operands, and for what is added."""
        groups, bytes_ = schedule.num_warps // WARPGROUP, 0
        for x in crossing(self.blocks.body):
            rows, columns = (self.resources.length(str(a), schedule) for a in x.layout)
            left = self.resources.elements(map(str, x.args[0].layout), schedule)
            bytes_ += 2 * self.resources.element_bytes * left + STORED_BYTES * rows * columns
            shares = min(groups, rows // self.gpu.direct_rows)
            if shares == 0 or self.width(schedule) > 1 or groups & groups - 1:
                return False
            if groups > shares and columns // (groups // shares) % self.gpu.direct_rows:
                return False
        return self.resources.shared(schedule) + bytes_ <= self.gpu.shared

    def refusal(self, notes: Sequence[str] = ()) -> UnsupportedError:
        usual = super().refusal()
        return UnsupportedError(
            f"warpgroups can't hold 64 rows of kernel '{self.program.name}'",
            notes=[usual.notes[0], *notes],
            help="compile with backend='triton', or make the axes that are held entirely shorter",
        )

    def warpgroups(self, schedule: Schedule) -> Warpgroups:
        """Return the warpgroups that compute."""
        return self.gpu.warpgroups[schedule.num_warps // WARPGROUP]

    def width(self, schedule: Schedule) -> int:
        """Return how many warpgroups share the columns of the same rows."""
        rows = prod(schedule.lengths[a] for a in self.blocks.divided)
        return schedule.num_warps // WARPGROUP // (rows // self.gpu.direct_rows)

    def registers(self, schedule: Schedule) -> int:
        """Count the registers of a thread: the most that live values take at any moment. Scalars
        have no share: most are uniform, and others may wait in memory while a loop runs."""
        shapes = {shape for moment in self._moments for shape, _ in moment}
        held = {shape: self._held(shape, schedule) for shape in shapes}
        for x in crossing(self.blocks.body):  # of which each warpgroup has a part
            held[x.layout, 32, False] *= WARPGROUP / schedule.num_warps
        return int(max(sum(n * held[x] for x, n in m) for m in self._moments))

    def time(self, schedule: Schedule) -> float:
        """Estimate the time of the kernel with a schedule, in any unit: of what each row streams
        on average, rows that fill no block included, and of the items that a processor works
        through; those that are not alike even out."""
        size, lengths = self.resources.size, schedule.lengths
        rows = prod(lengths[a] for a in self.rows)
        items = prod(ceil(size(a) / lengths[a]) for a in self.rows)
        turns = items * prod(map(size, self.program.axis_names("grid"))) / self.processors
        streams = self.program.stream_loops
        ends = max((varying_ends(s, self.resources.blocked) for s in streams), default=0)
        length, block = max(
            ((size(s.axis.name), lengths[s.axis.name]) for s in streams), default=(1, 1)
        )
        streamed = streamed_length(length, ends, rows, block)
        pace = self.warpgroups(schedule).pace
        return pace * rows * streamed * (max(1.0, turns) if ends else ceil(turns))

    @cached_property
    def blocks(self) -> BlockProgram:
        """Return the kernel's block program."""
        return block_program(self.program, dialect=UNPRINTED)

    @cached_property
    def _moments(self) -> set[Moment]:
        return moments(self.blocks)

    def _held(self, shape: Shape, schedule: Schedule) -> float:
        """Count the registers of a thread for a value. Of the result of a product it has two rows
        in 64, and a quarter of the columns; vectors lie as those rows or columns do."""
        axes, bits, is_operand = shape
        share = 4 if is_operand else 4 * self.width(schedule)
        lengths = [1 if a is None else self.resources.length(a, schedule) / share for a in axes]
        if axes and axes[0] in self.blocks.divided:
            lengths[0] = 2
        elif len(axes) == 2 and axes[0] is not None:
            lengths[0] = max(2, lengths[0] / 8)
        return prod(lengths) * bits / 32 if axes else 0


def first(legal: Legal) -> Schedule:
    """Return the schedule to take.

    Raises:
        UnsupportedError: no warpgroup can hold rows of this kernel.
    """
    return candidates(legal, 1)[0]


def candidates(legal: Legal, count: int = 12) -> list[Schedule]:
    """Return schedules: rows for each warpgroup, before columns are shared; as long blocks of
    streams as registers hold, with the warpgroups that are estimated to be fastest, then shorter
    blocks with theirs; and then other warpgroups."""
    admitted = list(_all(legal))
    if legal.has_descriptors:  # else no schedule can help, and passes say why
        admitted = [s for s in admitted if legal.admits(s)]
    if not admitted:
        raise legal.refusal()
    multiplied = _multiplied(legal)
    longest: dict[object, Schedule] = {}  # of each that differs in what takes part in products
    tried: Counter[object] = Counter()
    ranks: dict[Schedule, int] = {}
    for s in admitted:
        lengths = frozenset(b for b in s.blocks if b[0] in multiplied)
        if longest.setdefault((lengths, s.num_warps), s) is s:
            streams = frozenset(b for b in lengths if b[0] not in legal.rows)
            ranks[s] = tried[streams]
            tried[streams] += 1
    return sorted(ranks, key=ranks.__getitem__)[:count]


def reasons(legal: Legal) -> str:
    """List the schedules in the order in which they are tried, with the registers of a thread."""
    lines = [
        f"kernel {legal.program.name}",
        "  as long blocks as warpgroups' registers hold, then the fastest by estimate",
    ]
    for schedule in _all(legal):
        assert isinstance(legal, LegalOfWarpgroups)
        needed, most = legal.registers(schedule), legal.warpgroups(schedule).registers
        lines.append(f"  {schedule}: {needed} registers of {most}")
        if legal.admits(schedule):
            break
    return "\n".join(lines)


def _all(legal: Legal) -> Iterator[Schedule]:
    assert isinstance(legal, LegalOfWarpgroups)
    axes = (*legal.rows, *legal.program.axis_names("stream"))
    apart = {*axes} - _multiplied(legal) - {*legal.rows}
    warpgroups = legal.gpu.warpgroups
    for width, length in product(_WIDTHS, _LENGTHS):
        schedules = []
        several = [groups for groups in warpgroups if groups * width in warpgroups]
        for groups, other in product(several, _LENGTHS if apart else (0,)):
            blocks = dict.fromkeys(axes, length) | dict.fromkeys(apart, other)
            blocks |= dict.fromkeys(legal.blocks.divided, legal.gpu.direct_rows * groups)
            order = orders(legal.resources, prod(blocks[a] for a in legal.rows))[0]
            named, warps = tuple(blocks.items()), WARPGROUP * groups * width
            schedule = Schedule(named, warps, 2, descriptors=True, group_size=order)
            schedules.append(replace(schedule, language=legal.language))
        yield from sorted(schedules, key=legal.time)


def _multiplied(legal: Legal) -> set[str]:
    """Return the axes of operands of products: others may have blocks as long as they like."""
    return {a for e in legal.program.products for x in e.args[:2] for a in x.axes}
