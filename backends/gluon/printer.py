"""Block programs as Gluon: what is not as in Triton are tiles' places in registers, products of
operands in shared memory, and the rings through which a producer hands blocks on."""

from __future__ import annotations

from monocomp import blocks as B
from monocomp.backends.line_breaks import fill, fit
from monocomp.backends.triton.printer import Printer, call
from monocomp.blocks.passes.registers import WARPS, tiles


def layout_name(tile: tuple[str, str]) -> str:
    """The name of where tiles along two axes lie."""
    return f"LAYOUT_{tile[0].upper()}_{tile[1].upper()}"


class GluonPrinter(Printer):
    """Prints one kernel, as three functions."""

    language = "gl"

    def __init__(self, program: B.BlockProgram) -> None:
        super().__init__(program)
        parts = ("", "_full", "_empty")
        self.rings = [f"{r.name}{part}" for r in program.rings for part in parts]

    def kernel(self) -> list[str]:
        """The function of those that compute, that of the producer, and the kernel."""
        p = self.program
        assert p.producer is not None
        arguments = [*self._arguments(), *self.rings]
        turns = [f"    {r.name}_turn = 0" for r in p.rings]
        self.out = ["@gluon.jit", *fill(f"def {p.name}_consumer(", arguments, "):", 0), *turns]
        for a, b in tiles(p):
            where = self._call(
                "NVMMADistributedLayout",
                version="[3, 0]",
                warps_per_cta=f"[{WARPS.attr}, 1]",
                instr_shape=f"[16, {self._length(b)}, 16]",
            )
            self.out += fit(f"{layout_name((a, b))}: gl.constexpr = ", where, "", 1)
        self._body(p.body, 1)
        self.out += ["", "", "@gluon.jit", *fill(f"def {p.name}_producer(", arguments, "):", 0)]
        self.out += turns
        self._body(p.producer.body, 1)
        self.out += ["", "", "@gluon.jit", *fill(f"def {p.name}(", self._arguments(), "):", 0)]
        self._parts(p.producer)
        return self.out

    def _parts(self, producer: B.Producer) -> None:
        p = self.program
        for r in p.rings:
            desc, depth = r.descriptor.attr, self._depth(r)
            memory = f"[{depth}] + {desc}.block_type.shape, {desc}.layout"
            barriers = f"gl.int64, [{depth}, 1], mbarrier.MBarrierLayout()"
            self._put(f"{r.name} = gl.allocate_shared_memory({desc}.dtype, {memory})", 1)
            self._put(f"{r.name}_full = gl.allocate_shared_memory({barriers})", 1)
            self._put(f"{r.name}_empty = gl.allocate_shared_memory({barriers})", 1)
            self._put(f"for n in gl.static_range({depth}):", 1)
            self._put(f"mbarrier.init({r.name}_full.index(n), count=1)", 2)
            self._put(f"mbarrier.init({r.name}_empty.index(n), count=1)", 2)
        names = [a.name.attr for a in p.arguments]
        self._put("gl.warp_specialize(", 1)
        self._put("[", 2)
        for part in ("consumer", "producer"):
            self.out += fill(f"({p.name}_{part}, (", [*names, *self.rings], ")),", 3)
        self._put("],", 2)
        self._put(f"[{producer.warps}],", 2)
        self._put(f"[{producer.registers}],", 2)
        self._put(")", 1)

    # --- statements ---------------------------------------------------------------------------

    def _statement(self, s: B.Statement, indent: int) -> None:
        match s:
            case B.Give():
                slot, phase = self._slot(s.ring, indent)
                name, desc = s.ring.name, s.ring.descriptor.attr
                self._put(f"mbarrier.wait({name}_empty.index({slot}), {phase} ^ 1)", indent)
                full = f"{name}_full.index({slot})"
                self._put(f"mbarrier.expect({full}, {desc}.block_type.nbytes)", indent)
                positions = ", ".join(map(self._expr, s.access.positions))
                place = f"{name}.index({slot})"
                copy = call("tma.async_copy_global_to_shared", desc, f"[{positions}]", full, place)
                self.out += fit("", copy, "", indent)
                self._put(f"{name}_turn += 1", indent)
            case B.Take():
                slot, phase = self._slot(s.ring, indent)
                name, tile = s.ring.name, s.ring.block.tile
                self._put(f"mbarrier.wait({name}_full.index({slot}), {phase})", indent)
                view = f"{name}.index({slot}).reshape({self._shape(tile)})"
                view += "" if tile == s.target.layout else ".permute((1, 0))"
                self.out += fit(f"{s.target.attr} = ", view, "", indent)
            case B.Release():
                slot, _ = self._slot(s.ring, indent)
                self._put(f"mbarrier.arrive({s.ring.name}_empty.index({slot}), count=1)", indent)
                self._put(f"{s.ring.name}_turn += 1", indent)
            case B.Issue():
                product = self._product(s.product, is_async="True")
                self.out += fit(f"{s.target.attr} = ", product, "", indent)
            case B.Wait():
                wait = f"warpgroup_mma_wait(num_outstanding={s.behind}, deps=[{s.target.attr}])"
                self._put(f"{s.target.attr} = {wait}", indent)
            case _:
                super()._statement(s, indent)

    def _depth(self, ring: B.Ring) -> str:
        return "1" if ring.depth is None else str(ring.depth.attr)

    def _slot(self, ring: B.Ring, indent: int) -> tuple[str, str]:
        """Where the block of this turn is, and the phase of its barriers."""
        if ring.depth is None:
            return "0", "0"
        depth = self._depth(ring)
        return f"{ring.name}_turn % {depth}", f"({ring.name}_turn // {depth} % 2)"

    def _range(self, r: B.Static | B.Serial | B.Blocks) -> str:
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
            case "dot":
                return self._product(e)
        return super()._expr(e)

    def _tile(self, e: B.Expr, *args: str) -> str:
        where = None if e.attr is None else self._registers(e.attr)
        return self._call(e.op, *args, layout=where)

    def _product(self, e: B.Expr, is_async: str | None = None) -> str:
        operands, use = list(map(self._expr, e.args)), None
        if len(operands) == 2:
            m, n = e.layout
            assert m is not None and n is not None
            shape, where = self._shape(e.layout), self._registers(B.Registers((m, n)))
            operands.append(self._call("zeros", shape, self._dtype(e.dtype), layout=where))
            use = "False"
        return call("warpgroup_mma", *operands, use_acc=use, is_async=is_async)

    def _registers(self, at: B.Registers) -> str:
        parent = layout_name(at.tile)
        return parent if at.dim is None else self._call("SliceLayout", str(at.dim), parent)
