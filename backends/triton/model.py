"""A cost model of schedules: what one takes of a multiprocessor, and about how long it runs.

Tiles live in registers and in shared memory; how much follows from the axes of the tile
program's values. Time is that of a stream's blocks: products, element-wise work and loads each
have their units, which instances on one multiprocessor share and overlap, while within one
instance a block is a chain (the roofline model, with Little's law for the instances). The
numbers rank candidates and leave out those that cannot run well; they predict no milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod, sqrt

from monocomp.backends.triton.schedule import (
    MOST_ABREAST,
    Schedule,
    held_length,
    processors_of,
)
from monocomp.blocks.descriptors import described_loads
from monocomp.blocks.kernels import takes_turns
from monocomp.blocks.operands import Operands
from monocomp.sizes import LONG, SHORT
from monocomp.tile import (
    Assign,
    Expr,
    Fold,
    Let,
    Loop,
    Statement,
    TileProgram,
    elements,
    expressions,
    roots,
    subexpressions,
    walk,
)
from monocomp.tile.operations import OPERATIONS

TILE_LIMIT = 1 << 20  # elements that Triton lets a tile have
_WORKING = 72  # registers for addresses, masks and counters
_COUNTERS = 40  # where no operand of a product needs addresses and masks
_CHUNK = 16  # bytes that a thread loads at once
_SHARED_RATE = 128  # bytes a cycle from and to shared memory
_KEPT = 0.3  # of the rows and columns that a thread multiplies in full precision
_FEW = 64  # rows: of a block or two, whose order hardly matters, and fewer read a stream once
_LATENCY = 800  # cycles until a load arrives
_RESERVED = 1024  # bytes of shared memory that each instance takes beside its own
_STORED = 4  # bytes of an element that one kernel stores for another
_BARRIER = 8  # bytes, for a tile that the copy engine loads
_TURN = 200  # cycles for what comes with each block, such as barriers
_STARTING = 2500  # cycles for the parts of an instance that come before and after its loops
_A_CYCLE = {"element": 128, "special": 16}  # operations of a unit


@dataclass(frozen=True)
class Gpu:
    """A multiprocessor, and how many there are.

    Attributes:
        lanes: threads of a warp.
        registers: that a thread can have; a multiprocessor has `file` in all.
        saved: registers by which estimates may be above that: so many the compiler has saved by
            itself, or at a few bytes in memory, in what was compiled for Hopper; the shapes that
            are known for others stay below.
        shared: bytes that an instance can have; a multiprocessor has `shared_in_all`.
        matrix: operations a cycle of the matrix units, on elements of 16 bits.
        bandwidth: bytes a cycle from the second-level cache.
        reads_shared: do matrix units take operands from shared memory, given 64 rows?
        copies: does it have an engine that copies blocks of tensors to shared memory?
        cached: bytes that places may stream while they take turns: on Hopper a sixth of the
            second-level cache has been best, and others are taken to be alike.
        processors: number of multiprocessors.
    """

    lanes: int
    registers: int
    saved: int
    file: int
    shared: int
    shared_in_all: int
    matrix: int
    bandwidth: int
    reads_shared: bool
    copies: bool
    cached: int
    processors: int


_AMPERE = Gpu(
    lanes=32,
    registers=255,
    saved=64,
    file=65536,
    shared=163 << 10,
    shared_in_all=164 << 10,
    matrix=2048,
    bandwidth=24,
    reads_shared=False,
    copies=False,
    cached=8 << 20,
    processors=0,
)
_HOPPER = replace(
    _AMPERE,
    saved=160,
    shared=227 << 10,
    shared_in_all=228 << 10,
    matrix=4096,
    bandwidth=32,
    reads_shared=True,
    copies=True,
)
_CONSUMER = replace(_AMPERE, shared=99 << 10, shared_in_all=100 << 10, matrix=1024, cached=1 << 20)
_BLACKWELL = replace(_HOPPER, matrix=8192, cached=16 << 20)
_CDNA = replace(_AMPERE, lanes=64, registers=512, file=131072)


def gpu(target: str | None, processors: int = 0) -> Gpu:
    """The GPU that a target names; Hopper for None, and what came before for others."""
    target = target or "cuda:90"
    processors = processors if processors > 1 else processors_of(target)
    if target.startswith("hip:"):
        held = (160 if target == "hip:gfx950" else 64) << 10
        return replace(_CDNA, shared=held, shared_in_all=held, processors=processors)
    arch = int(target.removeprefix("cuda:"))
    if arch in (86, 87, 89, 120, 121):
        found = _CONSUMER
    elif arch < 90:
        found = _AMPERE
    else:
        found = _HOPPER if arch < 100 else _BLACKWELL
    return replace(found, processors=processors)


def load_levels(program: TileProgram) -> int:
    """How many loads of a block wait for each other: two where a table tells where the elements
    of a tile are, such as the pages of a cache."""
    levels: dict[str, int] = {}

    def level(e: Expr) -> int:
        if e.op == "local":
            return levels.get(e.attr, 0)
        is_streamed = any(program.axes[a].role == "stream" for a in e.axes)
        return max(map(level, e.args), default=0) + (e.op == "load" and is_streamed)

    for s in walk(program.body):
        if isinstance(s, Let):
            levels[s.name] = level(s.value)
    return max([1, *levels.values()])


@dataclass(frozen=True)
class Estimate:
    """What a schedule takes: registers a thread, bytes of shared memory, elements of the
    largest tile; and cycles, for comparisons."""

    registers: int
    shared: int
    tile: int
    cycles: float

    def fits(self, on: Gpu) -> bool:
        """Can it run at all? Registers that are missing are only slow."""
        return self.shared <= on.shared and self.tile <= TILE_LIMIT

    def spills(self, on: Gpu) -> bool:
        """Are far more registers live than there are?"""
        return self.registers > on.registers + on.saved


class Model:
    """Estimates for one kernel at given sizes.

    Args:
        program: the kernel.
        sizes: extents that are known.
        element_bytes: of the elements of matrices.
        on: the GPU.
    """

    def __init__(
        self, program: TileProgram, sizes: Mapping[str, int], element_bytes: int, on: Gpu
    ) -> None:
        self.program = program
        self.sizes = sizes
        self.element_bytes = element_bytes
        self.gpu = on
        self.lets = {s.name: s.value for s in walk(program.body) if isinstance(s, Let)}
        self.blocked = frozenset(program.axis_names("row", "stream", "whole"))
        found = list(expressions(program.body))
        self.products = [e for e in found if e.op == "contract"]
        self.tiles = {e.axes & self.blocked for e in found if e.op not in ("local", "contract")}
        operands = Operands(program)
        products = [e for e in self.products if element_bytes <= 2 and operands.is_product(e)]
        self.in_parts = {a for e in products for a in e.args[:2] if operands.is_in_parts(a)}
        self.described = described_loads(program)
        self.levels = load_levels(program)
        multiplied = [a.attr for e in self.products for a in e.args[:2] if a.op == "local"]
        uses = [e.attr for e in found if e.op == "local"]
        # Tiles that are read as they are, and that only products use.
        self.operands = {
            name
            for name, value in self.lets.items()
            if value.op == "load" and 0 < uses.count(name) == multiplied.count(name)
        }
        # What takes no registers of its own: values that are computed where they are used, the
        # only time, and those that replace what a loop carries.
        once = (n for n, e in self.lets.items() if e.op != "load" and uses.count(n) == 1)
        new = (s.value for s in walk(program.body) if isinstance(s, Assign))
        self.passed = {n for n in once if not _has_product(self.lets[n])}
        self.passed |= {e.attr for e in new if e.op == "local"}

    def size(self, axis: str) -> int:
        """The extent of an axis, or what it is taken for."""
        known = self.program.axes[axis]
        nominal = SHORT if known.role == "whole" else LONG
        return max(1, self.sizes.get(known.extent, nominal))

    def length(self, axis: str, schedule: Schedule) -> int:
        """How long an axis is in a tile."""
        if axis not in self.blocked:
            return 1
        given = dict(schedule.blocks).get(axis)
        return given or held_length(self.program, axis, self.size(axis))

    def elements(self, axes: Iterable[str], schedule: Schedule) -> int:
        """How many elements a tile with these axes has."""
        return prod(self.length(a, schedule) for a in axes)

    def estimate(self, schedule: Schedule) -> Estimate:
        """What a schedule takes."""
        tile = max((self.elements(axes, schedule) for axes in self.tiles), default=1)
        has_no_addresses = bool(self.operands) and self.operands <= self._described(schedule)
        working = _COUNTERS if has_no_addresses else _WORKING
        registers = working + self._registers(self.program.body, schedule)
        shared = self._shared(schedule)
        return Estimate(registers, shared, tile, self._cycles(schedule, registers, shared))

    # --- space --------------------------------------------------------------------------

    def _held(self, axes: Iterable[str], schedule: Schedule, size: int = 4) -> int:
        """Registers a thread for a tile; rows are little, and not counted."""
        axes = set(axes) & self.blocked
        if len(axes) < 2 and self.products:
            return 0
        threads = schedule.num_warps * self.gpu.lanes
        return ceil(self.elements(axes, schedule) * size / 4 / threads)

    def _registers(self, body: Sequence[Statement], schedule: Schedule) -> int:
        """The most that is live at a time in a body, beside what is live around it."""
        last: dict[str, int] = {}
        for n, s in enumerate(body):
            for root in _everything(s):
                last |= {e.attr: n for e in subexpressions(root) if e.op == "local"}
        live: dict[str, int] = {}
        most = 0
        for n, s in enumerate(body):
            dying = {name for name in live if last.get(name, -1) <= n}
            match s:
                case Let():
                    if not _has_product(s.value):
                        live = {k: v for k, v in live.items() if k not in dying}  # in place
                    live[s.name] = self._held_as(s.name, s.value, schedule)
                case Loop():
                    carried = sum(self._held(state.axes, schedule) for state in s.state)
                    inside = self._registers(s.body, schedule)
                    most = max(most, sum(live.values()) + carried + inside)
                    live |= {f.name: self._held(f.axes, schedule) for f in s.state}
                case Fold():
                    live |= {name: self._held(s.elements[0].axes, schedule) for name in s.names}
            passing = sum(self._passing(root, schedule) for root in roots(s))
            most = max(most, sum(live.values()) + passing)
            live = {name: held for name, held in live.items() if last.get(name, -1) > n}
        return most + self._addresses(body, schedule)

    def _held_as(self, name: str, value: Expr, schedule: Schedule) -> int:
        """Registers a thread for a named value; operands of products lie in shared memory, but
        without stages they get there through registers, and what no loop reads anew is kept
        where products read it."""
        if name in self.passed:
            return 0
        if name not in self.operands:
            return self._held(value.axes, schedule)
        if schedule.num_stages > 1 and (self._streamed(value) or self.is_direct(schedule)):
            return 0
        return self._held(value.axes, schedule, self.element_bytes)

    def _passing(self, root: Expr, schedule: Schedule) -> int:
        """Registers a thread for operands of products, where they are not shared: of computed
        ones a copy in the inputs' precision, and in full float32 what each thread multiplies."""
        products = [e for e in subexpressions(root) if e.op == "contract"]
        if self.element_bytes > 2:
            return sum(self._multiplied(e, schedule) for e in products)
        operands = [a for e in products for a in e.args[:2]]
        computed = [a for a in operands if a.op != "load" and a.attr not in self.operands]
        sizes = {a: self.element_bytes * (1 + (a in self.in_parts)) for a in computed}
        exchanged = [e.axes for e in products if self._is_exchanged(e, schedule)]
        padding = 16 * schedule.num_warps // self._rows(schedule)
        return sum(self._held(a.axes, schedule, sizes[a]) for a in computed) + sum(
            padding * self._held(axes, schedule) for axes in exchanged
        )

    def _is_exchanged(self, e: Expr, schedule: Schedule) -> bool:
        """Is a sum laid out anew between the parts of a product? Warps have 16 rows each in all
        of them but the last, which gives warps that are left columns instead."""
        in_parts = any(a in self.in_parts for a in e.args[:2])
        is_lacking = self._rows(schedule) < 16 * schedule.num_warps
        return in_parts and is_lacking and self.is_direct(schedule)

    def _multiplied(self, e: Expr, schedule: Schedule) -> int:
        """A thread computes a square of the result, from so many rows and columns."""
        side = sqrt(self._held(e.axes, schedule))
        return ceil(_KEPT * 2 * side * self.length(e.attr, schedule))

    def _addresses(self, body: Sequence[Statement], schedule: Schedule) -> int:
        """Pointers to what a loop reads: two registers for each chunk that a thread loads."""
        described = self._described(schedule)
        pointed = (s for s in body if not (isinstance(s, Let) and s.name in described))
        axes = [load.axes for s in pointed for root in roots(s) for load in _loads(root)]
        chunk = _CHUNK / self.element_bytes
        return ceil(sum(2 * self._held(a, schedule) / chunk for a in axes))

    def _described(self, schedule: Schedule) -> set[str]:
        """The tiles that descriptors load."""
        return {*self.described} if schedule.descriptors else set()

    def _rows(self, schedule: Schedule) -> int:
        return self.elements(self.program.axis_names("row"), schedule)

    def is_direct(self, schedule: Schedule) -> bool:
        """Do products read their operands from shared memory, as Hopper's do?"""
        is_large = self._rows(schedule) >= 64 and schedule.num_warps >= 4
        return self.gpu.reads_shared and self.element_bytes <= 2 and is_large

    def _streamed(self, e: Expr) -> bool:
        return any(self.program.axes[a].role == "stream" for a in e.axes)

    def _shared(self, schedule: Schedule) -> int:
        """Operands of products, those of streams as often as there are stages."""
        direct = self.is_direct(schedule)
        copies = max(1, self._ahead(schedule) + direct)
        streamed = fixed = computed = 0
        for name in self.operands:
            value = self.lets[name]
            held = self.elements(value.axes, schedule) * self.element_bytes
            if self._streamed(value):
                together = schedule.num_stages > 1  # else one makes room for the next
                streamed = streamed + held if together else max(streamed, held)
            else:
                fixed += held
        for e in self.products:
            for a in e.args[:2]:
                if a.op == "local" and a.attr not in self.operands:
                    size = self.elements(a.axes, schedule) * self.element_bytes
                    computed = max(computed, size * (1 + (a in self.in_parts)))
        barriers = _BARRIER * (1 + copies * len(self.described)) if schedule.descriptors else 0
        if direct:
            return streamed * copies + fixed + barriers + self._added(schedule)
        return streamed * copies + computed + (0 if self.gpu.lanes == 64 else fixed)

    def _ahead(self, schedule: Schedule) -> int:
        """For how many blocks ahead tiles are loaded: levels of loads share the stages, but two
        stages are for the last level alone."""
        return max((schedule.num_stages - 1) // self.levels, schedule.num_stages > 1)

    def stages(self, schedule: Schedule) -> int:
        """What the stages of a schedule for loads of one level are where there are more. An
        instance that is alone on its multiprocessor needs as many tiles under way. Where there
        are several it is best to load a tile while the one before is used, and what tells its
        places in between: that takes little, and they wait in turn. But few rows do not wait for
        more than an entry or two."""
        usual = schedule.num_stages
        if self.levels == 1 or usual <= 2:
            return usual
        is_alone = self.program.parts or self.instances(schedule) <= self.gpu.processors
        is_waiting = self._rows(schedule) < _FEW and self._entries(schedule) > 2
        return 1 + (usual - 1) * self.levels if is_alone or is_waiting else 2

    def _entries(self, schedule: Schedule) -> float:
        """How many entries of a table tell the places of a block: one for each of its pages."""
        loads = [value for value in self.lets.values() if value.op == "load"]
        inside = [e for value in loads for a in value.args for e in subexpressions(a)]
        tables = (self.lets[e.attr] for e in inside if e.op == "local" and e.attr in self.lets)
        places = (a for table in tables if table.op == "load" for a in table.args)
        found = [self._periods(a, schedule) for a in places if self._streamed(a)]
        return max(found, default=1)

    def _periods(self, place: Expr, schedule: Schedule) -> float:
        """Of how many values a subscript is in a block: fewer than it is long if they are those of
        k // s for elements k."""
        period = 1
        if place.op == "floordiv" and place.args[0].op == "coordinate":
            by = place.args[1]
            period = by.attr if by.op == "number" else self.sizes.get(by.attr, 1)
        return self.elements(place.axes & self.blocked, schedule) / max(1, period)

    def _added(self, schedule: Schedule) -> int:
        """Bytes for tiles that are added to a product of rows and a stream, which are loaded in
        another layout than it has: for copies ahead of those that lie in rows, and for what threads
        pass each other at a time, a chunk each, of those that are gathered."""
        rows, copied, exchanged = {*self.program.axis_names("row")}, 0, 0
        for name, value in self.lets.items():
            is_added = name not in self.operands and bool(value.axes & rows)
            if value.op != "load" or not is_added or not self._streamed(value):
                continue
            if all(place.op == "coordinate" for place in value.args):
                copied += self.elements(value.axes, schedule) * self._width(value)
            else:
                exchanged = _CHUNK * schedule.num_warps * self.gpu.lanes
        return copied * max(0, schedule.num_stages - 1) + exchanged

    def _width(self, load: Expr) -> int:
        """The bytes of an element that is loaded: what another kernel has stored is float32."""
        return _STORED if self.program.inputs[load.attr].is_stored else self.element_bytes

    # --- order --------------------------------------------------------------------------

    def orders(self) -> list[int]:
        """How many places of the grid may take turns, the best first. Where rows bound what they
        stream, some have more to do than others: the heaviest of several places come first, so
        that light ones even out the end, but of no more places than share the cache. Where all
        are alike, the rows of one place, which read the same, follow each other."""
        loops, rows = self._loops(), prod(map(self.size, self.program.axis_names("row")))
        if not takes_turns(self.program) or not loops or self.program.parts or rows <= _FEW:
            return [1]
        places = prod(map(self.size, self.program.axis_names("grid")))
        abreast, streamed = MOST_ABREAST // 2, max(1, self._streamed_bytes())
        while abreast > 1 and abreast * streamed > self.gpu.cached * places:
            abreast //= 2
        is_even = not any(self._varies(loop.bounds) for loop in loops)
        return list(dict.fromkeys([1, abreast] if is_even else [abreast, 2 * abreast, 1]))

    def _streamed_bytes(self) -> float:
        """The bytes that all places stream in loops that their blocks of rows have in common."""
        known = {a.extent: self.size(a.name) for a in self.program.axes.values()}
        rows = {*self.program.axis_names("row")}
        found: dict[str, float] = {}
        for loop in self._loops():
            for e in expressions(loop.body):
                if e.op == "load" and loop.axis.name in e.axes and not e.axes & rows:
                    dims = self.program.inputs[e.attr].dims
                    elements = prod(self.sizes.get(d) or known.get(d, LONG) for d in dims)
                    read = elements * self.element_bytes * self._share(loop)
                    found[e.attr] = max(read, found.get(e.attr, 0))
        return sum(found.values())

    def _loops(self) -> list[Loop]:
        """The loops over streams."""
        loops = [s for s in walk(self.program.body) if isinstance(s, Loop)]
        return [loop for loop in loops if loop.axis.role == "stream"]

    def _share(self, loop: Loop) -> float:
        """How much of a stream a block of rows reads, on average: an end that varies with the
        rows leaves half."""
        ends = [self._varies(s.lower) + self._varies(s.upper) for s in loop.segments]
        return min(1.0, sum(0.5**n for n in ends))

    def _varies(self, bounds: Iterable[Expr]) -> bool:
        """Do bounds of a stream vary with the rows?"""
        return any(e.axes & self.blocked for e in bounds)

    # --- time ---------------------------------------------------------------------------

    def _cycles(self, schedule: Schedule, registers: int, shared: int) -> float:
        """The time of all instances, in cycles."""
        gpu = self.gpu
        threads = schedule.num_warps * gpu.lanes
        resident = min(
            gpu.file // (min(registers, gpu.registers) * threads) or 1,
            gpu.shared_in_all // (shared + _RESERVED) or 1,
            2048 // threads or 1,
        )
        instances = self.instances(schedule)
        side_by_side = min(resident, ceil(instances / gpu.processors))
        rounds = ceil(instances / (gpu.processors * side_by_side))
        total = _STARTING + self._time(self.program.body, schedule, side_by_side, instances)
        lacking = max(0, registers - gpu.registers)
        return rounds * total * (1 + lacking / 32)

    def room(self, schedule: Schedule) -> int:
        """For how many program instances there is shared memory on a multiprocessor."""
        return self.gpu.shared_in_all // (self._shared(schedule) + _RESERVED)

    def instances(self, schedule: Schedule) -> int:
        """How many program instances there are."""
        axes = self.program.axes.values()
        grid = [a for a in axes if a.role == "grid" and a.extent not in self.program.parts]
        counts = [self.size(a.name) for a in grid]
        rows = self.program.axis_names("row")
        counts += [ceil(self.size(a) / self.length(a, schedule)) for a in rows]
        number = prod(counts)
        return max(number, schedule.programs) if self.program.parts else number

    def _time(
        self, body: Sequence[Statement], schedule: Schedule, side_by_side: int, instances: int
    ) -> float:
        """The cycles of a body for as many instances as a multiprocessor holds."""
        total = 0.0
        for loop in (s for s in body if isinstance(s, Loop)):
            product, simple, moved = self._work(loop.body, schedule)
            inner = self._time(loop.body, schedule, side_by_side, instances)
            chain = product + simple + inner + _TURN
            waiting = max(0.0, _LATENCY - self._ahead(schedule) * max(chain, 100.0))
            block = max(
                side_by_side * max(product, simple, moved) + inner, chain + waiting, moved + 100.0
            )
            total += self._blocks(loop, schedule, instances) * block
        return total

    def _work(self, body: Sequence[Statement], schedule: Schedule) -> tuple[float, float, float]:
        """Cycles that a body keeps the matrix units, the lanes and the memory busy."""
        product = simple = moved = 0.0
        rate, direct = float(self.gpu.matrix), self.is_direct(schedule)
        if self.element_bytes > 2:
            rate = 256.0  # one by one, in full precision
        elif self.gpu.reads_shared and not direct:
            rate /= 2  # the units of the generation before
        for s in body:
            for e in (e for root in roots(s) for e in subexpressions(root)):
                if e.op == "contract":
                    axes = e.args[0].axes | e.args[1].axes
                    share = min(1.0, self._columns(e, schedule) / 64) if direct else 1.0
                    more = sum(a in self.in_parts for a in e.args[:2])
                    product += 2 * (1 + more) * self.elements(axes, schedule) / rate / share
                    if self._is_exchanged(e, schedule):
                        simple += 4 * 4 * self.elements(e.axes, schedule) / _SHARED_RATE
                elif e.op == "load":
                    moved += self.elements(e.axes, schedule) * self.element_bytes
                elif unit := OPERATIONS[e.op].unit:
                    simple += self.elements(elements(e), schedule) / _A_CYCLE[unit]
        return product, simple, moved / self.gpu.bandwidth

    def _columns(self, e: Expr, schedule: Schedule) -> int:
        """How wide a product is: units that take operands from shared memory read the left one
        for every 64 columns anew."""
        rows = set(self.program.axis_names("row"))
        return self.elements(e.axes - rows, schedule) or 1

    def _blocks(self, loop: Loop, schedule: Schedule, instances: int) -> float:
        """How many blocks of its axis a loop has, on average: a bound that varies with the rows
        leaves half of them, and some more that stick out."""
        if loop.axis.role != "stream":
            return self.size(loop.axis.name)
        size = float(self.size(loop.axis.name))
        if self.program.parts and loop in self.program.body:
            whole = self.instances(replace(schedule, programs=0))
            size /= max(1, instances // max(1, whole))
        bounds = sum(1 for e in loop.bounds if e.axes & self.blocked)
        block = self.length(loop.axis.name, schedule)
        rows = self.elements(self.program.axis_names("row"), schedule)
        blocks = size / 2**bounds / block
        return max(1.0, ceil(size / block) if not bounds else blocks + (rows / block + 1) / 2)


def _has_product(e: Expr) -> bool:
    return any(part.op == "contract" for part in subexpressions(e))


def _everything(s: Statement) -> Iterator[Expr]:
    """The expressions of a statement and of those in it."""
    yield from roots(s)
    if isinstance(s, Loop):
        for inner in s.body:
            yield from _everything(inner)


def _loads(root: Expr) -> Iterator[Expr]:
    return (e for e in subexpressions(root) if e.op == "load" and len(e.axes) > 1)
