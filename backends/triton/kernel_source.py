"""One tile program as the source of one Triton kernel."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from monocomp.backends.triton.device_functions import DEVICE_FUNCTIONS
from monocomp.backends.triton.identifiers import LAUNCH, Identifiers
from monocomp.backends.triton.printer import Printer
from monocomp.blocks.kernels import build
from monocomp.blocks.passes import PASSES, choose
from monocomp.blocks.program import BlockProgram, Statement
from monocomp.tile import Combine, Fold, TileProgram, walk

_OPTIONS = {"INDEX", "PRECISION", "FAST", "STEP", "ABREAST", "pid"}


@dataclass(frozen=True)
class KernelSource:
    """A kernel as text.

    Attributes:
        program: what the text says.
        lines: the source, with decorator.
        origins: the statements that lines come from, by the number of the line, from 0.
        helpers: names of the helper functions that it calls.
        functions: the combine functions that it calls, by name.
    """

    program: BlockProgram
    lines: list[str]
    origins: dict[int, Statement]
    helpers: list[str]
    functions: dict[str, str]


def block_program(
    program: TileProgram,
    narrow: Collection[str] = (),
    passes: Collection[str] = PASSES,
    name: str | None = None,
    functions: Mapping[str, str] | None = None,
) -> BlockProgram:
    """A kernel as a block program, in names that the program cannot choose.

    Args:
        program: the kernel.
        narrow: the inputs of 8 bits.
        passes: those that decide what its block program is like.
        name, functions: identifiers of the kernel and of the combines, by monoid; those of a file
            with no other kernel, unless given.
    """
    kernel = f"{program.name}_kernel" if name is None else name
    if functions is None:
        folds = (s.monoid for s in walk(program.body) if isinstance(s, Fold))
        functions = {m.name: f"combine_{m.name}" for m in folds if isinstance(m, Combine)}
    combines = set(functions.values())

    def scope(function: str) -> Identifiers:
        others = combines if function == kernel else set()
        return Identifiers({*LAUNCH, *DEVICE_FUNCTIONS, *_OPTIONS, function, *others})

    return build(program, choose(program, narrow, passes), kernel, scope, functions)


def source_of(p: BlockProgram) -> KernelSource:
    """The text of a block program."""
    printer = Printer(p)
    lines = printer.kernel()
    origins = printer.origins
    functions = {n: printer.function(f) for n, f in p.functions.items()}
    return KernelSource(p, lines, origins, printer.helpers, functions)
