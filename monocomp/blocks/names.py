"""The names of a kernel: an identifier for each purpose, which the program cannot choose. Where a
name stands for a constant, as that of a known argument does, it is read as the constant."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Protocol, TypeAlias

from monocomp.blocks import (
    BOOL,
    FLOAT,
    INDEX,
    INT,
    INT64,
    Argument,
    Block,
    Dtype,
    Expr,
    Layout,
)
from monocomp.blocks.operations import name, none, number
from monocomp.tile import TileProgram

Key: TypeAlias = tuple[str, str, int]  # of an argument
# A number, a flag, a dtype, the precision of products; None for no descriptor, True for one.
Constant: TypeAlias = int | bool | str | Dtype | None


class Scope(Protocol):
    """Gives each (purpose, name) of a kernel an identifier of its own."""

    def of(self, purpose: str, name: str, wanted: str | None = None) -> str: ...


class Names:
    """The names of one kernel's arguments and values.

    Attributes:
        program: the kernel.
        values: the constants that names stand for, by identifier.
        present: the descriptors that every call gives, by identifier.
        offset: the dtype of offsets.
    """

    def __init__(self, program: TileProgram, scope: Scope) -> None:
        self.program = program
        self.scope = scope
        self.values: dict[str, Expr] = {}
        self.present: set[str] = set()
        self.offset = INDEX
        self._dims = {n: t.dims for n, t in program.inputs.items()}
        self._dims |= {o.name: program.stores(o.name)[0].axes for o in program.outputs}

    def learn(self, arguments: Iterable[Argument], known: Mapping[Key, Constant]) -> None:
        """Note what is known of arguments, by their keys."""
        for a in arguments:
            match known.get(a.key, ...):
                case Dtype() as dtype:
                    self.offset = dtype
                case str() as text:
                    self.values[a.name.attr] = Expr("text", (), text)
                case None:
                    self.values[a.name.attr] = none()
                case True if a.purpose == "descriptor":
                    self.present.add(a.name.attr)
                case bool() as flag:
                    self.values[a.name.attr] = number(flag, "bool")
                case int() as value:
                    self.values[a.name.attr] = number(value)

    def unread(self) -> Names:
        """Return the names as such, to give values to."""
        names = copy.copy(self)
        names.values = {}
        return names

    def read(self, called: Expr) -> Expr:
        """Return what a name stands for."""
        return self.values.get(called.attr, called)

    def of(self, purpose: str, of: str, wanted: str | None = None) -> str:
        """Return the identifier for a purpose."""
        return self.scope.of(purpose, of, wanted)

    def index(self, purpose: str, axis: str, layout: Layout = ()) -> Expr:
        """Return a position along an axis, or a bound of positions: low_k."""
        return self.read(self.tile(purpose, axis, f"{purpose}_{axis}", self.offset, layout))

    def tile(self, purpose: str, of: str, wanted: str, dtype: Dtype, layout: Layout) -> Expr:
        """Return a name for a tile of this layout alone: what a branch assigns has the type that it
        has before the branch."""
        return name(self.of(purpose, f"{of} {layout}" if layout else of, wanted), dtype, layout)

    def plain(self, purpose: str, axis: str) -> Expr:
        """Return a position along an axis, by a name that does not tell the axis: begin."""
        return self.read(name(self.of(purpose, axis, purpose), self.offset))

    def axis(self, axis: str) -> Expr:
        """Return the coordinate: a number, or those of a block's elements."""
        if self.program.axes[axis].role in ("grid", "serial"):
            return self.read(name(self.of("axis", axis), INT))
        return self.read(name(self.of("axis", axis, f"offs_{axis}"), self.offset, (axis,)))

    def inside(self, axis: str) -> Expr:
        """Return the test for the elements of a block that count."""
        return self.read(name(self.of("inside", axis, f"in_{axis}"), BOOL, (axis,)))

    def block(self, axis: str) -> Expr:
        """Return the length of a block."""
        return self.read(name(self.of("block", axis, f"BLOCK_{axis.upper()}"), INT))

    def even(self, axis: str) -> Expr:
        """Return a test that a block's length divides the extent."""
        return self.read(name(self.of("even", axis, f"EVEN_{axis.upper()}"), BOOL))

    def single(self, axis: str) -> Expr:
        """Return a test that one block holds all elements, of which there are some."""
        return self.read(name(self.of("single", axis, f"SINGLE_{axis.upper()}"), BOOL))

    def size(self, extent: str) -> Expr:
        return self.read(name(self.of("size", extent, f"size_{extent.lstrip('.')}"), INT))

    def param(self, param: str) -> Expr:
        kind = self.program.params[param]
        return self.read(name(self.of("param", param), FLOAT if kind == "float" else INT))

    def pointer(self, tensor: str) -> Expr:
        return name(self.of("pointer", tensor, f"{tensor}_ptr"), Dtype(tensor, "pointer"))

    def element(self, tensor: str) -> Dtype:
        """Return the dtype of a tensor's elements."""
        kinds = {o.name: o.kind for o in self.program.outputs}
        known = self.program.inputs.get(tensor)
        kind = kinds[tensor] if known is None else known.kind
        return Dtype(self.pointer(tensor).attr, kind, "tensor")

    def stride(self, tensor: str, dim: int) -> Expr:
        wanted = f"stride_{tensor}_{self._dim(tensor, dim)}"
        return self.read(name(self.of("stride", f"{tensor}/{dim}", wanted), INT))

    def map(self, number: int) -> Expr:
        """Return the pointer to a map's lists."""
        identifier = self.of("map", str(number), "map_ptr")
        return name(identifier, Dtype(identifier, "pointer"))

    def descriptor(self, block: Block) -> Expr:
        """Return the descriptor that loads such blocks."""
        wanted = f"{block.tensor}_desc"
        kind = Dtype(block.tensor, "descriptor")
        return self.read(name(self.of("descriptor", repr(block), wanted), kind))

    def given(self, block: Block) -> Expr:
        """Return a test that there is a descriptor for such blocks."""
        descriptor = self.descriptor(block)
        if descriptor.op == "none" or descriptor.attr in self.present:
            return number(descriptor.op != "none", "bool")
        return Expr("given", (descriptor,), None, (), BOOL)

    def option(self, of: str) -> Expr:
        """Return an option of the launch."""
        return self.read(option(of))

    def dims(self, tensor: str) -> tuple[str, ...]:
        """Return names for the dimensions of a tensor: their extents, or the axes of an output."""
        return self._dims[tensor]

    def _dim(self, tensor: str, dim: int) -> str:
        dims = self.dims(tensor)
        name = dims[dim].lstrip(".")
        return name if dims.count(dims[dim]) == 1 else f"{name}{dim}"


PID = name("pid", INT)


def option(of: str) -> Expr:
    """Return an option of the launch, whose name no program can have."""
    return name(of, BOOL if of == "FAST" else INT64)
