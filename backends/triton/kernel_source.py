"""One tile program as the source of one Triton kernel."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from monocomp.backends.triton.device_functions import DEVICE_FUNCTIONS
from monocomp.backends.triton.identifiers import LAUNCH, Identifiers
from monocomp.backends.triton.printer import Printer
from monocomp.blocks.kernels import build
from monocomp.blocks.passes import PASSES, choose
from monocomp.blocks.program import Block, BlockProgram
from monocomp.tile import Axis, Combine, Fold, TileProgram, walk

_OPTIONS = {"INDEX", "PRECISION", "FAST", "STEP", "ABREAST", "pid"}


@dataclass
class KernelSource:
    """The text of a kernel and what its host function must pass.

    Attributes:
        name: the kernel's identifier.
        lines: the source, with decorator.
        helpers: names of the helper functions that it calls.
        functions: the combine functions that it calls, by name.
        arguments: the arguments in order, as (purpose, name, dimension).
        grid: rows and grid axes, the fastest first.
        shared: pairs of tensors that one matrix product takes together.
        held: the dimension of tensors along which a tile holds them entirely.
        blocks: what descriptors load, in the order of the arguments.
        added: the integer parameters of sums and products.
    """

    name: str
    lines: list[str]
    helpers: list[str]
    functions: dict[str, str]
    arguments: list[tuple[str, str, int]]
    grid: list[Axis]
    shared: list[tuple[str, str]] = field(default_factory=list)
    held: dict[str, int] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    added: list[str] = field(default_factory=list)


class KernelEmitter:
    """Writes one kernel, in names that the program cannot choose.

    Args:
        program: the kernel.
        kernel_name: its identifier.
        functions: identifiers of the combines, by monoid.
        narrow: the inputs of 8 bits.
        passes: those that decide what its block program is like.
    """

    def __init__(
        self,
        program: TileProgram,
        kernel_name: str,
        functions: Mapping[str, str] | None = None,
        narrow: Collection[str] = (),
        passes: Collection[str] = PASSES,
    ) -> None:
        functions = functions or {}
        taken = {*LAUNCH, *DEVICE_FUNCTIONS, *_OPTIONS}

        def scope(name: str) -> Identifiers:
            others = functions.values() if name == kernel_name else ()
            return Identifiers({*taken, name, *others})

        self.block_program, context = build(
            program, choose(program, narrow, passes), kernel_name, scope, functions
        )
        self.names = context.names
        self.held = self.block_program.held
        self.descriptors = self.block_program.blocks

    def _block(self, axis: str) -> str:
        return str(self.names.block(axis).attr)

    def _even(self, axis: str) -> str:
        return str(self.names.even(axis).attr)

    def descriptor(self, block: Block) -> str:
        """The name of what loads such blocks."""
        return str(self.names.descriptor(block).attr)

    def emit(self) -> KernelSource:
        """Write the kernel."""
        p = self.block_program
        printer = Printer(p)
        lines = printer.kernel()
        functions = {n: printer.function(f) for n, f in p.functions.items()}
        return KernelSource(
            p.name,
            lines,
            printer.helpers,
            functions,
            [a.key for a in p.arguments],
            list(p.grid),
            list(p.shared),
            dict(p.held),
            list(p.blocks),
            list(p.added),
        )


def block_program(
    program: TileProgram, narrow: Collection[str] = (), passes: Collection[str] = PASSES
) -> BlockProgram:
    """A kernel as a block program by itself, as a file with no other kernel has it.

    Args:
        program: the kernel.
        narrow: the inputs of 8 bits.
        passes: those that decide what its block program is like.
    """
    folds = (s.monoid for s in walk(program.body) if isinstance(s, Fold))
    functions = {m.name: f"combine_{m.name}" for m in folds if isinstance(m, Combine)}
    name = f"{program.name}_kernel"
    return KernelEmitter(program, name, functions, narrow, passes).block_program


__all__ = ["KernelEmitter", "KernelSource", "block_program"]
