"""One tile program as the source of one Triton kernel."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from monocomp.backends.identifiers import LAUNCH, Identifiers
from monocomp.backends.triton.dialect import TRITON, Dialect
from monocomp.blocks import BlockProgram, Statement
from monocomp.blocks.building.kernels import Known, build
from monocomp.blocks.building.maps import build_map
from monocomp.blocks.choices.choose import choose
from monocomp.blocks.passes.chains import unchain
from monocomp.declarations.record import record
from monocomp.errors import UnsupportedError
from monocomp.tile import Combine, Fold, TileProgram

_OPTIONS = {"INDEX", "PRECISION", "FAST", "STEP", "GROUP_SIZE", "pid"}


@record()
class KernelSource:
    """A kernel as text.

    Attributes:
        program: what the text says.
        lines: the source, with decorator.
        origins: the statements that lines come from, by the number of the line, from 0.
        functions: the combine functions that it calls, by name.
        maps: the kernels of its maps.
    """

    program: BlockProgram
    lines: list[str]
    origins: dict[int, Statement]
    functions: dict[str, str]
    maps: tuple[KernelSource, ...] = ()


def block_program(
    program: TileProgram,
    passes: Collection[str] | None = None,
    name: str | None = None,
    functions: Mapping[str, str] | None = None,
    dialect: Dialect = TRITON,
    known: Known = lambda arguments, blocks: {},
    unchained: bool = False,
    map_name: Callable[[str], str] = str,
) -> BlockProgram:
    """Return a kernel as a block program, in names that the program cannot choose.

    Args:
        program: the kernel.
        passes: those that decide what its block program is like; all, unless given.
        name, functions: identifiers of the kernel and of the combines, by monoid; those of a file
            with no other kernel, unless given.
        dialect: the language that it is for.
        known: what is known of arguments.
        unchained: cut products off from those that they are made from (`unchain`).
        map_name: gives the kernel of a map an identifier, from the one that it should have.

    Raises:
        UnsupportedError: the language cannot say what the kernel does.
    """
    kernel = f"{program.name}_kernel" if name is None else name
    if functions is None:
        folds = (s.monoid for s in program.statements if isinstance(s, Fold))
        functions = {m.name: f"combine_{m.name}" for m in folds if isinstance(m, Combine)}
    combines = set(functions.values())
    passes = dialect.every_pass if passes is None else passes
    taken = {*LAUNCH, *dialect.device_functions, *_OPTIONS, *dialect.reserved}
    taken |= dialect.taken(program, kernel)

    def scope(function: str) -> Identifiers:
        others = combines if function == kernel else set()
        return Identifiers({*taken, function, *others})

    choices = choose(program, passes, dialect.resident)
    built = build(program, choices, kernel, scope, functions, known)
    built = unchain(built) if unchained else built
    maps = []
    for n, of in enumerate(choices.maps.values(), 1):
        called = map_name(f"{kernel}_map" if n == 1 else f"{kernel}_map_{n}")
        alone = choose(of, [p for p in passes if p != "list"], dialect.resident)
        maps.append(build_map(of, alone, called, scope, known))
    built = replace(built, maps=tuple(maps))
    try:
        for name, change in dialect.passes.items():
            built = change(built) if name in passes else built
    except UnsupportedError as reason:
        raise UnsupportedError(
            f"backend '{dialect.name}' has no form of kernel '{program.name}': {reason.message}",
            help=f"compile with backend='{TRITON.name}', which takes all kernels",
        ) from None
    return built


def source_of(p: BlockProgram, dialect: Dialect = TRITON) -> KernelSource:
    """Return the text of a block program."""
    printer = dialect.printer(p)
    lines = printer.kernel()
    origins = printer.origins
    functions = {n: printer.function(f) for n, f in p.functions.items()}
    maps = tuple(source_of(m, dialect) for m in p.maps)
    return KernelSource(p, lines, origins, functions, maps)
