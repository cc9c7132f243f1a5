"""The names of a kernel: an identifier for each purpose, which the program cannot choose."""

from __future__ import annotations

from typing import Protocol

from monocomp.blocks.operations import name
from monocomp.blocks.program import BOOL, FLOAT, INDEX, INT, INT64, Block, Dtype, Expr, Layout
from monocomp.tile import TileProgram


class Scope(Protocol):
    """Gives each (purpose, name) of a kernel an identifier of its own."""

    def of(self, purpose: str, name: str, wanted: str | None = None) -> str: ...


class Names:
    """The names of one kernel's arguments and values."""

    def __init__(self, program: TileProgram, scope: Scope) -> None:
        self.program = program
        self.scope = scope
        self._dims = {n: t.dims for n, t in program.inputs.items()}
        for o in program.outputs:
            positions = zip(o.dims, program.stores(o.name)[0].positions, strict=True)
            dims = (p.attr if p.op == "coordinate" else dim for dim, p in positions)
            self._dims[o.name] = tuple(dims)

    def of(self, purpose: str, of: str, wanted: str | None = None) -> str:
        """The identifier for a purpose."""
        return self.scope.of(purpose, of, wanted)

    def index(self, purpose: str, axis: str, layout: Layout = ()) -> Expr:
        """A position along an axis, or a bound of positions: low_k."""
        return name(self.of(purpose, axis, f"{purpose}_{axis}"), INDEX, layout)

    def plain(self, purpose: str, axis: str) -> Expr:
        """The same, with a name that does not tell the axis: begin."""
        return name(self.of(purpose, axis, purpose), INDEX)

    def axis(self, axis: str) -> Expr:
        """The coordinate: a number, or those of a block's elements."""
        if self.program.axes[axis].role in ("grid", "serial"):
            return name(self.of("axis", axis), INT)
        return name(self.of("axis", axis, f"offs_{axis}"), INDEX, (axis,))

    def inside(self, axis: str) -> Expr:
        """Which of a block's elements count?"""
        return name(self.of("inside", axis, f"in_{axis}"), BOOL, (axis,))

    def block(self, axis: str) -> Expr:
        """The length of a block."""
        return name(self.of("block", axis, f"BLOCK_{axis.upper()}"), INT)

    def even(self, axis: str) -> Expr:
        """Return a test that a block's length divides the extent."""
        return name(self.of("even", axis, f"EVEN_{axis.upper()}"), BOOL)

    def single(self, axis: str) -> Expr:
        """Return a test that one block holds all elements, of which there are some."""
        return name(self.of("single", axis, f"SINGLE_{axis.upper()}"), BOOL)

    def size(self, extent: str) -> Expr:
        return name(self.of("size", extent, f"size_{extent.lstrip('.')}"), INT)

    def param(self, param: str) -> Expr:
        kind = self.program.params[param]
        return name(self.of("param", param), FLOAT if kind == "float" else INT)

    def pointer(self, tensor: str) -> Expr:
        return name(self.of("pointer", tensor, f"{tensor}_ptr"), Dtype(tensor, "pointer"))

    def element(self, tensor: str) -> Dtype:
        """The dtype of a tensor's elements."""
        kinds = {o.name: o.kind for o in self.program.outputs}
        known = self.program.inputs.get(tensor)
        kind = kinds[tensor] if known is None else known.kind
        return Dtype(self.pointer(tensor).attr, kind, "tensor")

    def stride(self, tensor: str, dim: int) -> Expr:
        wanted = f"stride_{tensor}_{self._dim(tensor, dim)}"
        return name(self.of("stride", f"{tensor}/{dim}", wanted), INT)

    def descriptor(self, block: Block) -> Expr:
        """Return the descriptor that loads such blocks."""
        wanted = f"{block.tensor}_desc"
        kind = Dtype(block.tensor, "descriptor")
        return name(self.of("descriptor", repr(block), wanted), kind)

    def dims(self, tensor: str) -> tuple[str, ...]:
        """Names for the dimensions of a tensor: their extents, or the axes of an output."""
        return self._dims[tensor]

    def _dim(self, tensor: str, dim: int) -> str:
        dims = self.dims(tensor)
        name = dims[dim].lstrip(".")
        return name if dims.count(dims[dim]) == 1 else f"{name}{dim}"


PID = name("pid", INT)


def option(of: str) -> Expr:
    """An option of the launch, whose name no program can have."""
    return name(of, BOOL if of == "FAST" else INT64)
