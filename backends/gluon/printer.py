"""Block programs as Gluon: what is not as in Triton are tiles' places in registers, products of
operands in shared memory, and the rings through which a producer hands blocks on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from monocomp import blocks as B
from monocomp.backends.line_breaks import fill, fit
from monocomp.backends.triton.printer import Printer, call
from monocomp.blocks.operations import infix, is_number, number, select
from monocomp.blocks.passes.crossing import crossing
from monocomp.blocks.passes.division import GROUP, WARPGROUP
from monocomp.blocks.passes.own_rows import GROUPS, TOLD
from monocomp.blocks.passes.persistence import ITEM
from monocomp.blocks.passes.registers import tiles
from monocomp.machine.gpus import HOPPER


def layout_name(at: B.Registers) -> str:
    """Return the name of where tiles along two axes lie."""
    return "_".join(["ROWS" if at.in_rows else "LAYOUT", *(a.upper() for a in at.tile)])


# The ring through which items are told.
_TOLD = ("item_ring", "item_ring_full", "item_ring_empty")
ITEM_NAMES = {"item", "item_slot", "item_phase", "claimed_ptr", *_TOLD}


class GluonPrinter(Printer):
    """Prints one kernel, as three functions."""

    language = "gl"

    def __init__(self, program: B.BlockProgram) -> None:
        super().__init__(program)
        self.rings: list[str] = []
        self.beside: dict[str, list[B.Ring]] = {}  # those that share the barriers of one
        for r in program.rings:
            parts = ("", "_full", "_empty") if r.beside is None else ("",)
            self.rings += (f"{r.name}{part}" for part in parts)
            self.beside.setdefault(r.beside or r.name, []).append(r)
        statements = list(B.walk(program.body))
        takes = {s.target.attr: s.ring for s in statements if isinstance(s, B.Take)}
        self.puts = [s for s in statements if isinstance(s, B.Put)]
        self.sends = [s for s in statements if isinstance(s, B.Send)]
        for s in self.puts:
            self.rings += (f"{s.target.attr}{part}" for part in ("", "_full"))
        self.rings += (f"{s.output}_staged" for s in self.sends)
        self.right = {e.args[0].attr: takes[e.args[1].attr] for e in crossing(program.body)}
        # The rings of whose blocks every warpgroup reads all parts, by that which comes first.
        self.met = {r.beside or r.name for r in self.right.values()}
        self.is_persistent = any(
            isinstance(s, B.For) and isinstance(s.range, B.Claims) for s in program.body
        )
        self.rings += _TOLD if self.is_persistent else ()
        told = (s for s in B.walk((*program.producer, *program.finder)) if isinstance(s, B.Tell))
        words = (len(s.values) + len(s.own) * max(HOPPER.warpgroups) for s in told)
        self.words = 1 + max(words, default=0)  # of a slot: an item, and what is told of it
        self.claims = False  # in the part that does
        self.heard: B.Statement | None = None  # what learns of an item that has been heard of

    def kernel(self) -> list[str]:
        """Return the function of those that compute, that of the producer, and the kernel."""
        p = self.program
        self.out = []
        consumer = self._part("consumer", self._consumer, [f"{GROUP.attr}: gl.constexpr"])
        self.out += ["", ""]
        warps = {}  # parts of one warp each
        for role, body in (("producer", p.producer), ("finder", p.finder)):
            self.claims = body is (p.finder or p.producer)
            if body:
                warps[role] = self._part(role, partial(self._placed_body, body))
                self.out += ["", ""]
        self.out += ["@gluon.jit", *fill(f"def {p.name}(", self._arguments(), "):", 0)]
        self._memory()
        self._specialised(consumer, warps)
        return self.out

    def _part(self, role: str, put: Callable[[], None], more: Sequence[str] = ()) -> list[str]:
        """Put the function of a part, and return what it is called with: the kernel's arguments
        that it uses, and all rings."""
        leaders = [r for r in self.program.rings if r.beside is None]
        turns = [f"    {r.name}_slot = 0" for r in leaders if self._has_slots(r)]
        turns += [f"    {r.name}_phase = 0" for r in leaders]
        turns += ["    item_slot = 0", "    item_phase = 0"] if self.is_persistent else []
        if role == "consumer":
            turns += (f"    {s.target.attr}_{x} = 0" for s in self.puts for x in ("slot", "phase"))
        before, self.out, origins = self.out, [], self.origins.copy()
        put()
        used = set(re.findall(r"\w+", "\n".join(self.out)))
        self.out, self.origins = before, origins
        arguments = [a for a in self._arguments() if a.partition(":")[0] in used]
        given = [*arguments, "rings", *more]
        self.out += ["@gluon.jit", *fill(f"def {self.program.name}_{role}(", given, "):", 0)]
        self.out += fill("(", self.rings, ") = rings", 1)
        self.out += (x for x in turns if x.split()[0] in used)
        put()
        return [*(a.partition(":")[0] for a in arguments), "rings"]

    def _consumer(self) -> None:
        p = self.program
        for s in p.body[: len(p.divided)]:
            self._statement(s, 1)
        self._put("WIDTH: gl.constexpr = gl.num_warps() // 4  # warpgroups of the same rows", 1)
        self._placed_body(p.body[len(p.divided) :])

    def _placed_body(self, body: B.Body) -> None:
        """Put statements after the layouts of their tiles."""
        for at in tiles(body):
            self.out += fit(f"{layout_name(at)}: gl.constexpr = ", self._layout(at), "", 1)
        self._body(body, 1)

    def _memory(self) -> None:
        """Put what allocates rings and their barriers."""
        p = self.program
        for r in p.rings:
            desc, depth = r.descriptor.attr, self._depth(r)
            memory = f"[{depth}] + {desc}.block_type.shape, {desc}.layout"
            barriers = f"gl.int64, [{depth}, 1], mbarrier.MBarrierLayout()"
            self._put(f"{r.name} = gl.allocate_shared_memory({desc}.dtype, {memory})", 1)
            if r.beside is not None:
                continue
            self._put(f"{r.name}_full = gl.allocate_shared_memory({barriers})", 1)
            self._put(f"{r.name}_empty = gl.allocate_shared_memory({barriers})", 1)
            self._put(f"for n in gl.static_range({depth}):", 1)
            self._put(f"mbarrier.init({r.name}_full.index(n), count=1)", 2)
            is_own = self._is_divided(r) and r.name not in self.met
            users = "1" if is_own else GROUPS.attr
            self._put(f"mbarrier.init({r.name}_empty.index(n), count={users})", 2)
        for s in self.puts:
            self._put_memory(s)
        for sent in self.sends:
            desc = sent.access.descriptor.attr
            memory = f"gl.float32, [{GROUPS.attr}] + {desc}.block_type.shape, {desc}.layout"
            self._put(f"{sent.output}_staged = gl.allocate_shared_memory({memory})", 1)
        if self.is_persistent:
            layout = "gl.SwizzledSharedLayout(1, 1, 1, order=[0])"
            ring, full, empty = _TOLD
            self._put(
                f"{ring} = gl.allocate_shared_memory(gl.int32, [{2 * self.words}, 1], {layout})", 1
            )
            for barrier in (full, empty):
                memory = "gl.int64, [2, 1], mbarrier.MBarrierLayout()"
                self._put(f"{barrier} = gl.allocate_shared_memory({memory})", 1)
            self._put("for n in gl.static_range(2):", 1)
            self._put(f"mbarrier.init({full}.index(n), count=1)", 2)
            learning = f"{GROUPS.attr} + 1" if p.finder else GROUPS.attr
            self._put(f"mbarrier.init({empty}.index(n), count={learning})", 2)
        self._put("fence_async_shared()", 1)
        self.out += fill("rings = (", self.rings, ")", 1)

    def _put_memory(self, s: B.Put) -> None:
        """Put what allocates two tiles that warpgroups put their rows into, and their barriers."""
        name, dtype = s.target.attr, f"{self.right[s.target.attr].descriptor.attr}.dtype"
        lengths = [*map(super()._length, s.target.layout)]
        shape = ", ".join([f"{lengths[0]} // {GROUPS.attr}", *lengths[1:]])
        layout = f"gl.NVMMASharedLayout.get_default_for([{shape}], {dtype})"
        memory = f"{dtype}, [2 * {GROUPS.attr}, {shape}], {layout}"
        self.out += fit(f"{name} = ", f"gl.allocate_shared_memory({memory})", "", 1)
        barriers = "gl.int64, [2, 1], mbarrier.MBarrierLayout()"
        self._put(f"{name}_full = gl.allocate_shared_memory({barriers})", 1)
        self._put("for n in gl.static_range(2):", 1)
        self._put(f"mbarrier.init({name}_full.index(n), count={GROUPS.attr})", 2)

    def _specialised(self, consumer: Sequence[str], single: Mapping[str, Sequence[str]]) -> None:
        """Put what runs the parts, called with these arguments: warpgroups, and single warps."""
        name = self.program.name
        for count in sorted(HOPPER.warpgroups, reverse=True):
            groups = HOPPER.warpgroups[count]
            # The first warpgroup is there when others begin, and has what they leave.
            warps = [WARPGROUP] * (count - 1) + [1] * len(single)
            registers = [groups.registers] * (count - 1) + [groups.producer] * len(single)
            self._put(f"if {GROUPS.attr} == {count}:", 1)
            self._put("gl.warp_specialize(", 2)
            self._put("[", 3)
            for n in range(count):
                self.out += fill(f"({name}_consumer, (", [*consumer, str(n)], ")),", 4)
            for role, arguments in single.items():
                self.out += fill(f"({name}_{role}, (", arguments, ")),", 4)
            self._put("],", 3)
            self._put(f"{warps},", 3)
            self._put(f"{registers},", 3)
            self._put(")", 2)

    # --- statements ---------------------------------------------------------------------------

    def _statement(self, s: B.Statement, indent: int) -> None:
        match s:
            case B.Give():
                group = "n" if self._is_divided(s.ring) else None
                if group is not None:
                    self._put(f"for {group} in gl.static_range({GROUPS.attr}):", indent)
                self._give(s, group, indent + (group is not None))
                if s.ring == self.beside[s.ring.beside or s.ring.name][-1]:
                    self._turn(s.ring, indent)
            case B.Take():
                slot, phase = self._slot(s.ring)
                name, tile, target = s.ring.name, s.ring.block.tile, s.target.attr
                if s.ring.beside is None and name in self.met:
                    self._put(f"for n in gl.static_range({GROUPS.attr}):", indent)
                    self._put(f"mbarrier.wait({name}_full.index(n), {phase})", indent + 1)
                elif s.ring.beside is None:
                    self._put(f"mbarrier.wait({name}_full.index({slot}), {phase})", indent)
                view = f"{name}.index({slot}).reshape({self._shape(tile)})"
                if s.within is not None:
                    self.out += fit(f"{target} = ", view, "", indent)
                    self._keep_within(target, s.within, tile.index(s.within.axis), indent)
                    view = target
                view += "" if tile == s.target.layout else ".permute((1, 0))"
                if view != target:
                    self.out += fit(f"{target} = ", view, "", indent)
            case B.Clear():
                slot, phase = self._slot(s.ring)
                name, tile = s.ring.name, s.ring.block.tile
                full = f"{s.ring.beside or name}_full.index({slot})"
                wait = f"mbarrier.wait({full}, {phase})"
                view = f"{name}.index({slot}).reshape({self._shape(tile)})"
                self._keep_within(view, s.within, tile.index(s.within.axis), indent, wait)
            case B.Skip():
                slot, phase = self._slot(s.ring)
                self._put(f"mbarrier.wait({s.ring.name}_full.index({slot}), {phase})", indent)
                self._release(s.ring, indent)
            case B.Release():
                self._release(s.ring, indent)
            case B.Issue():
                product = self._product(s.product, is_async="True")
                self.out += fit(f"{s.target.attr} = ", product, "", indent)
            case B.Wait():
                wait = f"warpgroup_mma_wait(num_outstanding={s.behind}, deps=[{s.target.attr}])"
                self._put(f"{s.target.attr} = {wait}", indent)
            case B.Put():
                name = s.target.attr
                mine = f"{name}.index({name}_slot * {GROUPS.attr} + {GROUP.attr})"
                self.out += fit("", f"{mine}.store({self._expr(s.value)})", "", indent)
                self._put("fence_async_shared()", indent)
                self._put(f"mbarrier.arrive({name}_full.index({name}_slot), count=1)", indent)
            case B.Meet():
                name = s.tile.attr
                self._put(f"mbarrier.wait({name}_full.index({name}_slot), {name}_phase)", indent)
                self._put(f"{name}_first = {name}_slot * {GROUPS.attr}", indent)
                self._follow(name, "2", indent)
            case B.Send():
                desc, at = s.access.descriptor.attr, list(map(self._expr, s.access.positions))
                given = f"{s.output}_staged", s.value.attr, f"[{', '.join(at[:-2])}]", *at[-2:-1]
                rows = self._length(s.value.layout[0])
                text = call("add_part", desc, *given, rows, GROUP.attr)
                self.out += fit("", text, "", indent)
            case B.Drain():
                self._put("tma.store_wait(0)", indent)
            case B.Turn(way="take"):
                self._turns(s, "sync", str(GROUP.attr), indent)
            case B.Turn():
                self._turns(s, "arrive", f"({GROUP.attr} + 1) % {GROUPS.attr}", indent)
            case B.For(range=B.Claims() as claims):
                self._claims(s, claims, indent)
            case B.Tell():
                self._tell((ITEM, *s.values), indent, s.own)
            case B.Learn():
                if s is not self.heard:
                    self._hear(indent)
                for n, target in enumerate(s.targets, start=1):
                    self._word(self._place(n), target, indent)
                for target, place in zip(s.own, self._own_places(len(s.targets)), strict=False):
                    self._word(f"{place} + {GROUP.attr}", target, indent)
                self._put("mbarrier.arrive(item_ring_empty.index(item_slot), count=1)", indent)
                self._follow("item", "2", indent)
            case _:
                super()._statement(s, indent)

    def _keep_within(
        self, block: str, within: B.Within, dim: int, indent: int, wait: str = ""
    ) -> None:
        """Put what clears the elements of a block that are not meant, where there are any, and what
        waits for the block."""
        bounds = (self._expr(x) for x in (within.first, within.low, within.high))
        length = self.program.lengths[within.axis]
        is_after = infix(">", infix("+", within.first, length), within.high)
        if within.is_below is not None:
            is_after = select(within.is_below, number(False, "bool"), is_after)
        is_before = infix("<", within.first, within.low)
        test = is_after if is_number(within.low, 0) else infix("|", is_before, is_after)
        self._put(f"if {self._expr(test)}:", indent)
        if wait:
            self._put(wait, indent + 1)
        self.out += fit("", call("keep_within", block, *bounds, str(dim)), "", indent + 1)

    def _claims(self, s: B.For, claims: B.Claims, indent: int) -> None:
        """Put a loop over items: who asks for blocks claims them, the others wait until they are
        told."""
        item, stop = s.variable.attr, self._expr(claims.stop)
        if self.claims:
            self._put(f"{item} = gl.program_id(0)", indent)
        else:
            self._hear(indent)
            self.heard = s.body[0]
        self._put(f"while {item} < {stop}:", indent)
        self._body(s.body, indent + 1)
        if self.claims:
            counter = self._expr(claims.counter)
            claimed = f'gl.atomic_add({counter}, 1, sem="relaxed")'
            self._put(f"{item} = gl.num_programs(0) + {claimed}", indent + 1)
            self._tell((s.variable,), indent)
        else:
            self._hear(indent + 1)

    def _tell(self, values: Sequence[B.Expr], indent: int, own: Sequence[B.Expr] = ()) -> None:
        """Put numbers into the ring of items, and some for each warpgroup."""
        self._put("mbarrier.wait(item_ring_empty.index(item_slot), item_phase ^ 1)", indent)
        for n, x in enumerate(values):
            self._put(call("tell", "item_ring", self._place(n), self._expr(x)), indent)
        if own:
            self._put(f"for {TOLD.attr} in gl.static_range({GROUPS.attr}):", indent)
        for x, place in zip(own, self._own_places(len(values) - 1), strict=False):
            message = "item_ring", f"{place} + {TOLD.attr}", self._expr(x)
            self.out += fit("", call("tell", *message), "", indent + 1)
        self._put("mbarrier.arrive(item_ring_full.index(item_slot), count=1)", indent)
        self._follow("item", "2", indent)

    def _hear(self, indent: int) -> None:
        """Put the wait for an item."""
        self._put("mbarrier.wait(item_ring_full.index(item_slot), item_phase)", indent)
        self._word(self._place(0), ITEM, indent)

    def _word(self, place: str, target: B.Expr, indent: int) -> None:
        """Put what takes a number from the ring of items."""
        self._put(f"{target.attr} = {call('told', 'item_ring', place)}", indent)

    def _own_places(self, shared: int) -> Iterator[str]:
        """Yield where the item's slot has numbers for each warpgroup, behind those for all."""
        return (self._place(n) for n in range(1 + shared, self.words, max(HOPPER.warpgroups)))

    def _place(self, n: int) -> str:
        """Return where a number of the item's slot is."""
        place = "item_slot" if self.words == 1 else f"item_slot * {self.words}"
        return f"{place} + {n}" if n else place

    def _length(self, axis: str | None) -> str:
        divided = self.program.divided.get(str(axis))
        return super()._length(axis) if divided is None else self._expr(divided)

    def _is_divided(self, ring: B.Ring) -> bool:
        """True if each warpgroup has a slot of its own, for its rows of the block."""
        return any(axis in self.program.divided for axis in ring.block.tile)

    def _give(self, s: B.Give, group: str | None, indent: int) -> None:
        """Put a request for a block, or for the rows of one warpgroup."""
        slot, phase = self._slot(s.ring, group)
        name, desc, leader = s.ring.name, s.ring.descriptor.attr, s.ring.beside or s.ring.name
        full = f"{leader}_full.index({slot})"
        if s.ring.beside is None:
            descs = (ring.descriptor.attr for ring in self.beside[name])
            size = " + ".join(f"{x}.block_type.nbytes" for x in descs)
            self._put(f"mbarrier.wait({name}_empty.index({slot}), {phase} ^ 1)", indent)
            self.out += fit("", call("mbarrier.expect", full, size), "", indent)
        positions = []
        for axis, e in zip(s.access.block.axes, s.access.positions, strict=True):
            text = self._expr(e)
            if group is not None and axis in self.program.divided:
                text += f" + {group} * ({super()._length(axis)} // {GROUPS.attr})"
            positions.append(text)
        at, place = f"[{', '.join(positions)}]", f"{name}.index({slot})"
        self.out += fit(
            "", call("tma.async_copy_global_to_shared", desc, at, full, place), "", indent
        )

    def _depth(self, ring: B.Ring) -> str:
        return GROUPS.attr if self._is_divided(ring) else self._expr(ring.depth)

    def _slot(self, ring: B.Ring, group: str | None = None) -> tuple[str, str]:
        """Return the slot of a warpgroup's block in this turn, and the phase of its barriers."""
        leader = ring.beside or ring.name
        if self._is_divided(ring):
            slot = group or str(GROUP.attr)
        else:
            slot = f"{leader}_slot" if self._has_slots(ring) else "0"
        return slot, f"{leader}_phase"

    def _has_slots(self, ring: B.Ring) -> bool:
        """True if the blocks of a ring take turns in its slots."""
        return not self._is_divided(ring) and not is_number(ring.depth, 1)

    def _turn(self, ring: B.Ring, indent: int) -> None:
        """Put the step to the next block of a ring."""
        leader = ring.beside or ring.name
        if self._has_slots(ring):
            self._follow(leader, self._depth(ring), indent)
        else:
            self._put(f"{leader}_phase ^= 1", indent)

    def _release(self, ring: B.Ring, indent: int) -> None:
        """Put the return of a block's slot."""
        slot, _ = self._slot(ring)
        if ring.name in self.met:
            self._put(f"for n in gl.static_range({GROUPS.attr}):", indent)
            self._put(f"mbarrier.arrive({ring.name}_empty.index(n), count=1)", indent + 1)
        else:
            self._put(f"mbarrier.arrive({ring.name}_empty.index({slot}), count=1)", indent)
        self._turn(ring, indent)

    def _follow(self, ring: str, depth: str, indent: int) -> None:
        slot, phase = f"{ring}_slot", f"{ring}_phase"
        self._put(f"{slot}, {phase} = following({slot}, {phase}, {depth})", indent)

    def _turns(self, s: B.Turn, way: str, group: str, indent: int) -> None:
        self._put(f"if {self._expr(s.test)}:", indent)
        self._put(call("turn", f'"{way}"', group), indent + 1)

    def _range(self, r: B.Range) -> str:
        if not isinstance(r, B.Blocks):
            return super()._range(r)
        return call("range", self._expr(r.start), self._expr(r.stop), self._length(r.axis))

    # --- expressions --------------------------------------------------------------------------

    def _expr(self, e: B.Expr) -> str:
        match e.op:
            case "maximum" | "minimum" if e.attr != "frame":  # which only Triton has a name for
                return self._call(e.op, *map(self._expr, e.args), "tl.PropagateNan.ALL")
            case "convert" | "operand":
                where = self._registers(e.attr)
                if e.op == "operand":
                    options = {"operand_index": "0", "parent": where, "k_width": "2"}
                    where = self._call("DotOperandLayout", **options)
                return self._call("convert_layout", self._expr(e.args[0]), where)
            case "fetch":
                return f"{self._expr(e.args[0])}.load({self._registers(e.attr)})"
            case "dot":
                return self._product(e)
            case "next_power_of_2":
                return f"triton.next_power_of_2({self._expr(e.args[0])})"
            case "trans":  # of a block in shared memory
                return f"{self._expr(e.args[0])}.permute((1, 0))"
        return super()._expr(e)

    def _tile(self, e: B.Expr, *args: str) -> str:
        where = None if e.attr is None else self._registers(e.attr)
        return self._call(e.op, *args, layout=where)

    def _crossed(self, e: B.Expr) -> str:
        """Return a warpgroup's part of a product that sums over the rows of all."""
        left, (send,) = e.args[0].attr, (s for s in self.sends if s.value.layout == e.layout)
        given = left, f"{left}_first", self.right[left].name, send.access.descriptor.attr
        return call("crossed", *given, GROUP.attr, GROUPS.attr)

    def _product(self, e: B.Expr, is_async: str | None = None) -> str:
        if e.op == "crossed":
            return self._crossed(e)
        operands, use = list(map(self._expr, e.args)), None
        if len(operands) == 2:
            m, n = e.layout
            assert m is not None and n is not None
            shape, where = self._shape(e.layout), self._registers(B.Registers((m, n)))
            operands.append(self._call("zeros", shape, self._dtype(e.dtype), layout=where))
            use = "False"
        return call("warpgroup_mma", *operands, use_acc=use, is_async=is_async)

    def _layout(self, at: B.Registers) -> str:
        """Return the layout of tiles, as four warps hold the rows, or as often four columns."""
        if len(at.tile) == 1:
            return self._call("BlockedLayout", "[1]", "[32]", "[gl.num_warps()]", "[0]")
        columns = self._length(at.tile[1])
        if at.in_rows:  # 8 elements of 16 bits are 16 bytes
            threads = f"min({columns} // 8, 32)"
            each = "[1, 8]", f"[32 // {threads}, {threads}]", "[4 * WIDTH, 1]", "[1, 0]"
            return self._call("BlockedLayout", *each)
        return self._call(
            "NVMMADistributedLayout",
            version="[3, 0]",
            warps_per_cta="[4, WIDTH]",
            instr_shape=f"[16, {columns} // WIDTH, 16]",
        )

    def _registers(self, at: B.Registers) -> str:
        parent = layout_name(at)
        return parent if at.dim is None else self._call("SliceLayout", str(at.dim), parent)
