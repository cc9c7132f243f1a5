"""Compute what a schedule takes of a multiprocessor: registers, shared memory, the largest tile.

Tiles live in registers and in shared memory; how much follows from the axes of the tile
program's values. The numbers rule out schedules that cannot run, or run badly. How long a kernel
runs is measured, not computed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil, prod, sqrt

from monocomp import tile as P
from monocomp.backends.schedules.schedule import Schedule, held_length
from monocomp.blocks.choices.descriptors import descriptor_loads
from monocomp.blocks.choices.operands import Operands, unconverted
from monocomp.blocks.passes.division import WARPGROUP
from monocomp.costs.cost import STORED_BYTES
from monocomp.declarations.dtypes import NARROW
from monocomp.declarations.record import record
from monocomp.extents.nominal import LONG, MIN_DOT, SHORT
from monocomp.machine.gpus import Gpu

TILE_LIMIT = 1 << 20  # elements that Triton lets a tile have
_CHUNK = 16  # bytes that a thread loads at once
_BYTE = 1  # of what products take converted
_QUAD = 4  # threads that have a row of a product among them, and all of them its columns
_BARRIER = 8  # bytes, for a tile that the copy engine loads
_GRANULE = 8  # registers come in so many


@record(eq=False)
class _Moment:
    """The moment at which a statement is done, or a body begins.

    Attributes:
        live: the names that are live: values, and what loops carry.
        bodies: the numbers of those around it.
        products: what is multiplied just then.
    """

    live: tuple[str, ...]
    bodies: tuple[int, ...]
    products: tuple[P.Expr, ...] = ()


class Resources:
    """The resources that schedules of one kernel take at given sizes.

    Args:
        program: the kernel.
        sizes: extents that are known.
        element_bytes: bytes of an element of a matrix.
        on: the GPU.
    """

    def __init__(
        self, program: P.TileProgram, sizes: Mapping[str, int], element_bytes: int, on: Gpu
    ) -> None:
        self.program = program
        self.sizes = sizes
        self.element_bytes = element_bytes
        self.gpu = on
        self.lets = program.lets
        self.blocked = frozenset(program.axis_names("row", "stream", "whole"))
        # Of blocks along two axes of rows, where matrix units leave columns to few threads.
        rows = program.axis_names("row")
        self.columns = {*rows[1:][-1:]} if on.direct_rows else None
        expressions = list(program.expressions)
        self.products = program.products
        operands = Operands(program)
        products = [e for e in self.products if element_bytes <= 2 and operands.is_product(e)]
        factors = [a for e in products for a in e.args[:2]]
        self.in_limbs = {a for a in factors if operands.is_in_limbs(a)}
        self.is_chained = any(map(operands.is_from_product, factors))
        self.by_descriptor = descriptor_loads(program)
        self.levels = program.load_levels
        sides = [unconverted(a) for e in self.products for a in e.args[:2]]
        multiplied = [a.attr for a in sides if a.op == "local"]
        uses = [e.attr for e in expressions if e.op == "local"]
        # Tiles that are read as they are, and that only products use.
        self.operands = {
            name
            for name, value in self.lets.items()
            if value.op == "load" and 0 < uses.count(name) == multiplied.count(name)
        }
        # Those that the innermost loops load anew, and those that have to be converted.
        inner = [s for s in program.loops if not any(isinstance(x, P.Loop) for x in s.body)]
        self.renewed = {s.name for loop in inner for s in loop.body if isinstance(s, P.Let)}
        multiplying = [x for x in program.loops if P.multiplies([x])]
        self.beside = {s.name for x in multiplying for s in x.body if isinstance(s, P.Let)}
        self.stored = {n for n in self.operands if program.inputs[self.lets[n].attr].is_wide}
        self.converted = {n for n in self.operands if self._width(self.lets[n]) == _BYTE}
        self.tiles = self._tiles(expressions)
        # What is loaded for operands that are computed is loaded as far ahead; they are kept where
        # loops load nothing for them.
        computed = [a for e in self.products for a in e.args[:2] if a.op == "local"]
        loads = {n: e for n, e in self.lets.items() if e.op == "load"}
        tiles = {n for n, e in loads.items() if len(e.axes & self.blocked) > 1}
        loaded = tiles & self.renewed - self.operands
        sources = {a.attr: self._sources(a) for a in computed if a.attr not in self.operands}
        self.prepared = {n for names in sources.values() for n in names & loaded}
        masked = (e.args[0] for e in self.lets.values() if e.op == "masked")
        self.masked = {e.attr for e in masked if e.op == "local" and uses.count(e.attr) == 1}
        self.kept = {n for n, names in sources.items() if names and not names & loaded}
        self.passed = self._passed(uses)
        self.held = {a: held_length(program, a, self.size(a)) for a in self.blocked}
        self.given = {name: axes for s in program.statements for name, axes in _given(s).items()}
        self.loads: dict[int, list[tuple[str, frozenset[str]]]] = {}
        self.moments = list(self._moments(program.body, (), ()))

    def _tiles(self, expressions: Iterable[P.Expr]) -> set[frozenset[str]]:
        """Return the axes of each tile that is computed or stored."""
        loads = {id(self.lets[n]) for n in self.converted}  # a part at a time is in registers
        whole = (e for e in expressions if e.op not in ("local", "contract") and id(e) not in loads)
        computed = [e.axes for e in whole if unconverted(e).attr not in self.converted]
        # No matrix unit multiplies these: what is added up is a tile first.
        ints = [e.args for e in self.products if e.kind != "float"]
        added_up = [a.axes | b.axes for a, b, *_ in ints]
        stores = (s for s in self.program.statements if isinstance(s, P.Store))
        stored = [s.value.axes.union(s.axes) for s in stores]  # a number may fill a tile
        return {axes & self.blocked for axes in (*computed, *added_up, *stored)}

    def _passed(self, uses: Sequence[str]) -> set[str]:
        """Return the values that take no registers of their own: those that are computed where they
        are used, the only time, and those that replace what a loop carries."""
        once = (n for n, e in self.lets.items() if e.op != "load" and uses.count(n) == 1)
        in_place = {n for n in once if not _has_product(self.lets[n])}
        new = (s.value for s in self.program.statements if isinstance(s, P.Assign))
        replacing = {e.attr for e in new if e.op == "local"} & self.lets.keys()
        return in_place | replacing | self._finishing()

    def _sources(self, operand: P.Expr) -> set[str]:
        """Return all values that an operand is made of, by name; none if products or loops make
        it."""
        names = [operand.attr]
        for name in names:  # which grows
            value = self.lets.get(name)
            if value is None or _has_product(value):
                return set()
            names += [e.attr for e in P.subexpressions(value) if e.op == "local"]
        return {*names}

    def _finishing(self) -> set[str]:
        """Return the values of elements that only stores need after all loops: one element at a
        time goes from what loops have come to, to where it is stored."""
        names: set[str] = set()
        needed: set[str] = set()  # by what is no element by itself
        for s in reversed(self.program.body):
            if isinstance(s, P.Loop):
                return names
            parts = list(P.expressions([s]))
            is_alone = not any(e.op in ("contract", "load") or P.over(e) for e in parts)
            if isinstance(s, P.Let) and is_alone and s.name not in needed:
                names.add(s.name)
            elif not isinstance(s, P.Store):
                needed |= {e.attr for e in parts if e.op == "local"}
        return set()

    def size(self, axis: str) -> int:
        """Return the extent of an axis, or what it is taken for."""
        known = self.program.axes[axis]
        nominal = SHORT if known.role == "whole" else LONG
        return max(1, self.sizes.get(known.extent, nominal))

    def length(self, axis: str, schedule: Schedule) -> int:
        """Return the length of an axis in a tile."""
        return schedule.lengths.get(axis) or self.held.get(axis, 1)

    def elements(self, axes: Iterable[str], schedule: Schedule) -> int:
        """Count the elements of a tile with these axes."""
        return prod(self.length(a, schedule) for a in axes)

    def fits(self, schedule: Schedule) -> bool:
        """True if the schedule can run at all. Too few registers only make it slow."""
        return self.shared(schedule) <= self.gpu.shared and self.tile(schedule) <= TILE_LIMIT

    def spills(self, schedule: Schedule) -> bool:
        """True if far more registers are live than a thread can have."""
        return self.registers(schedule) > self.gpu.registers + self.gpu.saved

    def tile(self, schedule: Schedule) -> int:
        """Return the elements of the largest tile."""
        return max((self.elements(axes, schedule) for axes in self.tiles), default=1)

    # --- space --------------------------------------------------------------------------

    def _held(self, axes: Iterable[str], schedule: Schedule, size: int = 4) -> int:
        """Return registers a thread for a tile. Rows are little, and not counted; of columns each
        thread has a part as large as of a row of the result."""
        axes = set(axes) & self.blocked
        if len(axes) < 2 and self.products:
            return self.elements(axes, schedule) // _QUAD if axes == self.columns else 0
        threads = schedule.num_warps * self.gpu.lanes
        return ceil(self.elements(axes, schedule) * size / 4 / threads)

    def registers(self, schedule: Schedule) -> int:
        """Return the most registers of a thread that are live at a time."""
        has_no_addresses = bool(self.operands) and self.operands <= self._by_descriptor(schedule)
        working = self.gpu.counters if has_no_addresses else self.gpu.addresses
        held = {n: self._held_as(n, axes, schedule) for n, axes in self.given.items()}
        pointers = {n: self._addresses(loads, schedule) for n, loads in self.loads.items()}
        return working + max(
            sum(map(held.__getitem__, m.live))
            + sum(map(pointers.__getitem__, m.bodies))
            + (self._passing(m.products, schedule) if m.products else 0)
            for m in self.moments
        )

    def register_limit(self, schedule: Schedule) -> int:
        """Return how many registers a thread may have so that as many instances fit as shared
        memory allows, where matrix units read operands from it: on Hopper, instances hide each
        other's delays. 0 elsewhere, where a thread can't have so many or would need far more, and
        where its need is poorly known: with sizes that are not given, and with gathered tiles, each
        element of which may need an address."""
        axes = (self.program.axes[a] for a in self.held)
        is_known = all(a.extent in self.sizes for a in axes if a.role == "whole")
        is_known = is_known and not any(map(self._is_gathered, self.beside))
        is_known = is_known and self.gpu.limits_registers and self.is_direct(schedule)
        if not (self.products and is_known):
            return 0
        reserved = self.gpu.reserved
        room = (self.gpu.shared + reserved) // (self.shared(schedule) + reserved)
        threads = max(1, room) * schedule.num_warps * self.gpu.lanes
        limit = self.gpu.register_file // threads // _GRANULE * _GRANULE
        needed = (1 - self.gpu.spared) * self.registers(schedule)
        return limit if needed <= limit <= self.gpu.registers else 0

    def _moments(
        self, body: list[P.Statement], around: tuple[str, ...], bodies: tuple[int, ...]
    ) -> Iterator[_Moment]:
        """Yield the moments at which registers are counted in a body, with its number and those of
        the bodies around it."""
        bodies = (*bodies, len(self.loads))
        self.loads[bodies[-1]] = [
            (s.name if isinstance(s, P.Let) else "", e.axes)
            for s in body
            for root in P.roots(s)
            for e in P.subexpressions(root)
            if e.op == "load" and len(e.axes) > 1
        ]
        yield _Moment(around, bodies)
        last: dict[str, int] = {}
        for n, s in enumerate(body):
            last |= {e.attr: n for e in P.expressions([s]) if e.op == "local"}
        live: set[str] = set()
        for n, s in enumerate(body):
            if isinstance(s, P.Let) and not _has_product(s.value):  # in place
                live = {name for name in live if last.get(name, -1) > n}
            if isinstance(s, P.Loop):
                outside = [n for n in (*around, *live) if n not in _taken_over(s)]
                yield from self._moments(s.body, (*outside, *_given(s)), bodies)
            live |= _given(s).keys()
            parts = (e for root in P.roots(s) for e in P.subexpressions(root))
            products = tuple(e for e in parts if e.op == "contract")
            yield _Moment((*around, *live), bodies, products)
            live = {name for name in live if last.get(name, -1) > n}

    def _held_as(self, name: str, axes: frozenset[str], schedule: Schedule) -> int:
        """Return registers a thread for a named value; operands of products lie in shared memory,
        but without stages they get there through registers, and what no loop reads anew is kept
        where products read it."""
        if name in self.passed:
            return 0
        if name not in self.operands:
            return self._held(axes, schedule)
        if schedule.num_stages > 1 and (self._streamed(axes) or self.is_direct(schedule)):
            return 0
        return self._held(axes, schedule, self.element_bytes)

    def _passing(self, products: Sequence[P.Expr], schedule: Schedule) -> int:
        """Return registers a thread for operands of products, where they are not shared: of
        computed ones a copy in the inputs' precision, and in full float32 what each thread
        multiplies."""
        if self.element_bytes > 2:
            return sum(self._multiplied(e, schedule) for e in products)
        operands = [unconverted(a) for e in products for a in e.args[:2]]
        computed = [a for a in operands if a.op != "load" and a.attr not in self.operands]
        sizes = {a: self.element_bytes * (1 + (a in self.in_limbs)) for a in computed}
        exchanged = [e.axes for e in products if self._is_exchanged(e, schedule)]
        padding = MIN_DOT * schedule.num_warps // self._rows(schedule)
        return sum(self._held(a.axes, schedule, sizes[a]) for a in computed) + sum(
            padding * self._held(axes, schedule) for axes in exchanged
        )

    def _is_exchanged(self, e: P.Expr, schedule: Schedule) -> bool:
        """True if a sum is laid out anew between the limbs of a product. Each warp has 16 rows in
        all limbs except the last, which gives spare warps columns instead."""
        in_limbs = any(a in self.in_limbs for a in e.args[:2])
        return in_limbs and self._has_spare_warps(schedule)

    def lacks_rows(self, schedule: Schedule) -> bool:
        """True if warps repeat each other's work in a product from which another is made, as there
        are too few rows: Triton gives each warp 16."""
        return self.is_chained and self._has_spare_warps(schedule)

    def _has_spare_warps(self, schedule: Schedule) -> bool:
        is_lacking = self._rows(schedule) < MIN_DOT * schedule.num_warps
        return is_lacking and self.is_direct(schedule)

    def _multiplied(self, e: P.Expr, schedule: Schedule) -> int:
        """Return a thread computes a square of the result, from so many rows and columns."""
        side = sqrt(self._held(e.axes, schedule))
        return ceil(self.gpu.kept * 2 * side * self.length(e.attr, schedule))

    def _addresses(self, loads: Sequence[tuple[str, frozenset[str]]], schedule: Schedule) -> int:
        """Return pointers to what a loop reads: two registers for each chunk that a thread
        loads."""
        by_descriptor = self._by_descriptor(schedule)
        held = (
            self._held(axes, schedule) * (_BYTE if name in self.converted else self.element_bytes)
            for name, axes in loads
            if name not in by_descriptor
        )
        return ceil(sum(2 * n / _CHUNK for n in held))

    def _by_descriptor(self, schedule: Schedule) -> set[str]:
        """Return the tiles that descriptors load."""
        return {*self.by_descriptor} if schedule.descriptors else set()

    def _rows(self, schedule: Schedule) -> int:
        return self.elements(self.program.axis_names("row"), schedule)

    def is_direct(self, schedule: Schedule) -> bool:
        """True if products read their operands from shared memory, as on Hopper."""
        least = self.gpu.direct_rows
        is_large = self._rows(schedule) >= least and schedule.num_warps >= WARPGROUP
        return least > 0 and self.element_bytes <= 2 and is_large

    def _streamed(self, axes: Iterable[str]) -> bool:
        return any(self.program.axes[a].role == "stream" for a in axes)

    def shared(self, schedule: Schedule) -> int:
        """Return bytes for operands of products: those that a loop loads anew count each stage."""
        direct = self.is_direct(schedule)
        ahead = self._ahead(schedule)
        copies = max(1, ahead + direct)
        streamed = fixed = computed = converted = 0
        for name in self.operands:
            value = self.lets[name]
            held = self.elements(value.axes, schedule) * self.element_bytes
            if (
                name in self.stored | self.converted
            ):  # one tile at a time, where it has to lie there
                streamed += (
                    self.elements(value.axes, schedule) * self._width(value) * ahead // copies
                )
                converted = max(converted, held if direct or name in self.stored else 0)
            elif name in self.renewed:
                together = schedule.num_stages > 1  # else one makes room for the next
                streamed = streamed + held if together else max(streamed, held)
            else:
                fixed += held
        streamed *= copies
        for name in self.prepared:
            value = self.lets[name]
            # What is only masked on its way lies where products read it.
            is_operand = name in self.masked & self._by_descriptor(schedule)
            times = copies if is_operand else ahead
            streamed += self.elements(value.axes, schedule) * self._width(value) * times
        for e in self.products:
            for a in e.args[:2]:
                if a.op == "local" and a.attr not in self.operands | self.prepared:
                    size = self.elements(a.axes, schedule) * self.element_bytes
                    size *= 1 + (a in self.in_limbs)
                    if a.attr in self.kept:
                        fixed += size
                    else:
                        computed = max(computed, size)
        streamed += self._added(schedule)
        if direct:
            barriers = (
                _BARRIER * (1 + copies * len(self.by_descriptor)) if schedule.descriptors else 0
            )
            passed = computed if schedule.unchained else 0  # between warps
            return streamed + fixed + passed + converted + barriers
        return streamed + max(computed, converted) + (0 if self.gpu.lanes == 64 else fixed)

    def _ahead(self, schedule: Schedule) -> int:
        """Count the blocks ahead for which tiles are loaded: levels of loads share the stages, but
        two stages are for the last level alone."""
        return max((schedule.num_stages - 1) // self.levels, schedule.num_stages > 1)

    def _added(self, schedule: Schedule) -> int:
        """Return bytes for tiles that are added to a product of rows and a stream, which are loaded
        in another layout than it has: for copies ahead of those that lie in rows, and for what
        threads pass each other at a time, a chunk each, of those that are gathered."""
        rows, copied, exchanged = {*self.program.axis_names("row")}, 0, 0
        for name in self.beside - self.operands - self.prepared:
            value = self.lets[name]
            if value.op != "load" or not value.axes & rows or not self._streamed(value.axes):
                continue
            if all(position.op == "coordinate" for position in value.args):
                copied += self.elements(value.axes, schedule) * self._width(value)
            elif self.is_direct(schedule):
                exchanged = _CHUNK * schedule.num_warps * self.gpu.lanes
        return copied * max(0, schedule.num_stages - 1) + exchanged

    def _is_gathered(self, name: str) -> bool:
        """True if the named value is a tile that is loaded at computed positions."""
        value = self.lets[name]
        is_tile = value.op == "load" and len(value.axes & self.blocked) > 1
        varying = (p for p in value.args if p.axes & self.blocked)
        return is_tile and any(position.op != "coordinate" for position in varying)

    def _width(self, load: P.Expr) -> int:
        """Return the bytes of an element that is loaded: what another kernel has stored is
        float32, and integers that are multiplied are taken to have 8 bits."""
        tensor = self.program.inputs[load.attr]
        is_byte = tensor.dtype in NARROW or (tensor.kind == "int" and len(load.axes) > 1)
        return STORED_BYTES if tensor.is_wide else _BYTE if is_byte else self.element_bytes


def _given(s: P.Statement) -> dict[str, frozenset[str]]:
    """Return the values that a statement leaves behind, with their axes."""
    match s:
        case P.Let():
            return {s.name: s.value.axes}
        case P.Loop():
            return {f.name: f.axes for f in s.state}
        case P.Fold():
            return dict.fromkeys(s.names, s.elements[0].axes)
    return {}


def _taken_over(loop: P.Loop) -> set[str]:
    """Return the names that become the state of a loop and that the loop reads nowhere else."""
    starts = {f.start.attr for f in loop.state if f.start.op == "local"}
    read = P.names_read(loop.body)
    return starts - read


def _has_product(e: P.Expr) -> bool:
    return any(part.op == "contract" for part in P.subexpressions(e))
