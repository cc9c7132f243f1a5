"""A whole Triton source file: header, kernels, host function, self-check.

The file imports torch and triton only. Nothing of the program's text is interpolated but
numbers, whitelisted identifiers and comments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from monocomp import __version__
from monocomp.backends.eager import reference_lines
from monocomp.backends.triton.device_functions import DEVICE_FUNCTIONS
from monocomp.backends.triton.dialect import TRITON, Dialect
from monocomp.backends.triton.host_functions import HOST_FUNCTIONS
from monocomp.backends.triton.host_source import HOST_NAMES, HostSource
from monocomp.backends.triton.identifiers import Identifiers
from monocomp.backends.triton.interface import interface
from monocomp.backends.triton.kernel_source import KernelSource, block_program, source_of
from monocomp.backends.triton.known_arguments import Known, Promises
from monocomp.backends.triton.minimal import MinimalHost
from monocomp.backends.triton.schedule import Schedule
from monocomp.backends.triton.selfcheck import RESERVED, main_lines, sizes_for
from monocomp.blocks.program import BlockProgram, Statement
from monocomp.dtypes import itemsize
from monocomp.equations import Equations
from monocomp.errors import UnsupportedError
from monocomp.host import arguments as A
from monocomp.host import program as H
from monocomp.host.building import host_program
from monocomp.sizes import packed_extents
from monocomp.tile import Combine, Fold, TileProgram, walk
from monocomp.tile.split_padding import split_padding


@dataclass(frozen=True)
class Module:
    """An emitted file, and what a caller needs to run it.

    Attributes:
        source: the text.
        host: the name of the host function.
        configs: the names of the schedules, one a kernel.
        kernels: the block programs.
        params: the names of the host function's keywords by parameter.
        program: what the host function does.
        origins: the statements of block programs that lines come from, by the line's number.
    """

    source: str
    host: str
    configs: tuple[str, ...]
    kernels: tuple[BlockProgram, ...]
    params: Mapping[str, str]
    program: H.HostProgram
    origins: Mapping[int, Statement]

    def config(self, kernel: int, schedule: Schedule) -> dict[str, int]:
        """A schedule in the form that the host function takes."""
        return _config(schedule, self.kernels[kernel])


@dataclass(frozen=True)
class Written:
    """What all files of a program share."""

    dialect: Dialect
    names: Identifiers
    taken: frozenset[str]  # names of the file, which its host function must leave alone
    schedules: Sequence[Schedule]
    sources: Sequence[KernelSource]
    settings: Sequence[str]
    program: H.HostProgram

    @property
    def configs(self) -> list[dict[str, int]]:
        """The kernels' schedules."""
        programs = (s.program for s in self.sources)
        return list(map(_config, self.schedules, programs))

    def settings_lines(self) -> list[str]:
        """The lines that give the schedules."""
        lines = []
        for setting, config in zip(self.settings, self.configs, strict=True):
            entries = (f'    "{k}": {v},' for k, v in config.items())
            lines += [f"{setting} = {{", *entries, "}"]
        return lines

    def origins(self, before: int) -> dict[int, Statement]:
        """The statements that lines of the kernels come from, after so many other lines."""
        found: dict[int, Statement] = {}
        for s in self.sources:
            found |= {before + 3 + n: statement for n, statement in s.origins.items()}
            before += 2 + len(s.lines)
        return found


def write(
    start: Equations,
    kernels: Sequence[TileProgram],
    schedules: Sequence[Schedule],
    lowered: Equations,
    dialect: Dialect,
    sizes: Mapping[str, int],
    promises: Promises | None = None,
    before: Written | None = None,
) -> Written:
    """The kernels of a program, and its host program; `before` is written in the same file."""
    pairs = zip(kernels, schedules, strict=True)
    kernels = [split_padding(k, s.in_two) for k, s in pairs]
    taken = {*DEVICE_FUNCTIONS, *dialect.host_functions, *RESERVED, *dialect.reserved}
    taken |= before.taken if before is not None else set()
    names = Identifiers({*taken, *HOST_NAMES})
    declared = start.declared
    if not declared.inputs:
        raise UnsupportedError(
            f"backend '{dialect.name}' needs an input tensor, to know which GPU to run on",
            help="compile with backend='torch'",
        )
    kernel_names = [names.of("kernel", k.name, f"{k.name}_kernel") for k in kernels]
    for name in declared.inputs:
        names.of("tensor", name)
    for name in declared.params:
        names.of("param", name)
    folds = (s.monoid for k in kernels for s in walk(k.body) if isinstance(s, Fold))
    monoids = dict.fromkeys(m.name for m in folds if isinstance(m, Combine))
    functions = {m: names.of("combine", m, f"combine_{m}") for m in monoids}
    taken |= {x for k, n in zip(kernels, kernel_names, strict=True) for x in dialect.taken(k, n)}
    programs = []
    for kernel, schedule, name in zip(kernels, schedules, kernel_names, strict=True):
        known = Known(kernel, schedule, sizes, promises)
        programs.append(
            block_program(kernel, name=name, functions=functions, dialect=dialect, known=known)
        )
    first = 1 + (len(before.settings) if before is not None else 0)
    settings = tuple(
        names.of("config", k.name, "CONFIG" if n == 1 else f"CONFIG_{n}")
        for n, k in enumerate(kernels, first)
    )
    interfaces = [interface(*each) for each in zip(kernels, programs, strict=True)]
    # The function never reads its own name, so what is inside may have it too, as a tensor.
    taken |= {*kernel_names, *functions.values(), *settings, "TensorDescriptor"}
    return Written(
        dialect,
        names,
        frozenset(taken),
        schedules,
        [source_of(p, dialect) for p in programs],
        settings,
        host_program(lowered, interfaces, sizes),
    )


def emit(
    start: Equations,
    kernels: Sequence[TileProgram],
    schedules: Sequence[Schedule],
    *,
    lowered: Equations | None = None,
    outline: Iterable[str] = (),
    precision: str = "ieee",
    target: str | None = None,
    dialect: Dialect = TRITON,
    sizes: Mapping[str, int] | None = None,
) -> Module:
    """The source file of a program.

    Args:
        start: the program before any rewrite, for the header and the self-check.
        kernels: the tile programs, in the order in which they run.
        schedules: one for each kernel.
        lowered: the program that the kernels compute; the start, unless given.
        outline: the derivation, a line a step.
        precision: "ieee" or "tf32", for products of float32.
        target: what the file was made for, for the header.
        dialect: the language.
        sizes: extents that are known; the file is for these alone.
    """
    lowered = lowered or start
    sizes = packed_extents(lowered, sizes or {})
    if lowered.slices is not None:  # the last may be shorter
        sizes.pop(lowered.slices.part, None)
    written = write(start, kernels, schedules, lowered, dialect, sizes)
    names, program = written.names, written.program
    host = Identifiers(written.taken).of("host", start.origin.name or "kernel")
    # What the file computes is printed as it was written, for the sizes that it was lowered for.
    here = replace(start, sizes=lowered.sizes)
    checked = sizes_for(here, sizes)
    lines = [
        *header(start, target),
        *derivation(outline),
        *derived_for(schedules, checked is not None),
        *imports(written),
        *written.settings_lines(),
    ]
    origins = written.origins(len(lines))
    lines += [*kernels_of(written), *host_functions(written)]
    lines += ["", "", *HostSource(start, program, names, written.settings).lines(host, precision)]
    if checked is not None:
        found = identifiers(start, names)
        lines += ["", "", *reference_lines(start, found)]
        lines += ["", "", *main_lines(here, found, host, dialect.devices, checked)]
    params = {n: names.of("param", n) for n in start.declared.params}
    return Module(
        text_of(lines),
        host,
        tuple(written.settings),
        tuple(s.program for s in written.sources),
        params,
        program,
        origins,
    )


def emit_minimal(
    start: Equations,
    kernels: Sequence[TileProgram],
    schedules: Sequence[Schedule],
    *,
    lowered: Equations,
    sizes: Mapping[str, int],
    precision: str,
    target: str | None,
    fast: bool,
) -> str:
    """The source file of a program without what whole ones look at in each call.

    Args:
        start, kernels, schedules, lowered, precision, target: as for `emit`.
        sizes: extents that are known; the file is for these alone.
        fast: may functions be as accurate as results of 16 bits?
    """
    dtypes = {i.name: i.dtype for i in start.declared.inputs.values() if i.kind == "float"}
    widths = {n: itemsize(d or "bfloat16") for n, d in dtypes.items()}
    promises = Promises(precision, fast, widths)
    written = write(start, kernels, schedules, lowered, TRITON, sizes, promises)
    name = Identifiers(written.taken).of("host", start.origin.name or "kernel")
    host = MinimalHost(start, written.program, written.names, written.configs)
    lines = [*kernels_of(written), *minimal_functions(written)]
    lines = [*header(start, target), *imports(written), *lines[1:], "", "", *host.lines(name)]
    return text_of(lines)


def kernels_of(*parts: Written) -> list[str]:
    """The lines of the kernels, and of the functions that they call, each after those that it
    calls."""
    sources = [s for part in parts for s in part.sources]
    texts = ["\n".join(s.lines) for s in sources]
    texts += dict.fromkeys(f for s in sources for f in s.functions.values())
    helpers = dict.fromkeys(h for s in sources for h in s.helpers)
    return _apart(*texts, *(parts[0].dialect.device_functions[h] for h in helpers))


def host_functions(*parts: Written) -> list[str]:
    """What host functions call."""
    body = [s for part in parts for s in part.program.statements()]
    has_sums = any(isinstance(s, H.Clear) for s in body)
    arguments = [a for s in body if isinstance(s, H.Launch) for a in s.arguments]
    aligns = any(isinstance(s, H.Align) for s in body)
    needed = {
        "two_tiles": any(isinstance(s, H.TwoTiles) for s in body),
        "step": any(isinstance(a.value, A.Step) for a in arguments),
        "descriptor": any(isinstance(a.value, A.Descriptor) for a in arguments),
        "copy_rows": aligns,
        "aligned": aligns,
        "clear_elements": has_sums,
        "clear": has_sums,
    }
    functions = parts[0].dialect.host_functions
    return _apart(*(text for f, text in functions.items() if needed.get(f, True)))


def minimal_functions(*parts: Written) -> list[str]:
    """What the host functions of minimal files call."""
    body = [s for part in parts for s in part.program.statements()]
    statements = {"two_tiles": H.TwoTiles, "span": H.Wide}
    needed = (f for f, kind in statements.items() if any(isinstance(s, kind) for s in body))
    return _apart(*map(HOST_FUNCTIONS.__getitem__, needed))


def _apart(*texts: str) -> list[str]:
    """Functions, each after two empty lines."""
    return [line for text in texts for line in ("", "", text)]


def text_of(lines: Sequence[str]) -> str:
    """The text of a file."""
    return "\n".join(lines).rstrip() + "\n"


def _config(schedule: Schedule, kernel: BlockProgram) -> dict[str, int]:
    """A schedule by the names that the host function and the kernel have for it."""
    entries = {str(kernel.lengths[axis].attr): length for axis, length in schedule.blocks}
    entries |= {"num_warps": schedule.num_warps, "num_stages": schedule.num_stages}
    if schedule.programs:
        entries["PROGRAMS"] = schedule.programs
    if kernel.blocks and not kernel.rings:
        entries["DESCRIPTORS"] = schedule.descriptors
    said = {
        "order": schedule.abreast,
        "stages": schedule.num_stages,
        "warps": schedule.num_warps,
    }
    given = (a for a in kernel.arguments if a.purpose in said)
    return entries | {a.name.attr: said[a.purpose] for a in given}


def identifiers(start: Equations, names: Identifiers) -> dict[str, str]:
    """Identifiers of the program's names inside the self-check, which has its own scope."""
    declared = start.declared
    given = {n: names.of("tensor", n) for n in declared.inputs}
    given |= {n: names.of("param", n) for n in declared.params}
    given |= {n: names.of("definition", n) for n in start.by_name if n not in given}
    given |= {n: names.of("index", n) for n in declared.extent_of if n not in given}
    return given


def _comment(text: str) -> str:
    safe = text.encode("ascii", "backslashreplace").decode("ascii")
    return "# " + "".join(c if c.isprintable() else " " for c in safe)


def header(start: Equations, target: str | None) -> list[str]:
    """What a file is, and the program that it computes."""
    made_for = f" for {target}" if target else ""
    return [
        f"# Generated by monocomp {__version__}{made_for}.",
        *quoted("Program", start.origin.text),
    ]


def quoted(title: str, text: str) -> list[str]:
    """A text as a comment under its title."""
    out = ["#", f"# {title}:", "#"]
    return out + [_comment("    " + line).rstrip() for line in text.strip("\n").splitlines()]


def derivation(outline: Iterable[str], of: str = "") -> list[str]:
    """How kernels follow from their program."""
    return quoted(f"Derivation{of}", "\n".join(outline))


def derived_for(schedules: Iterable[Schedule], is_checked: bool) -> list[str]:
    """What schedules do to axes, and whether the file checks itself."""
    out = []
    held = dict.fromkeys(axis for s in schedules for axis in s.in_two)
    if held:
        out += ["#", _comment(f"In two tiles, to be padded less: {', '.join(held)}.")]
    if is_checked:
        return [*out, "#", "# Run this file to check it against a plain evaluation in torch."]
    out += ["#", "# A plain evaluation, to check it against, would take too much memory at these"]
    return [*out, "# sizes: a file that is not for them checks itself."]


def imports(*parts: Written) -> list[str]:
    """The imports of a file."""
    dialect = parts[0].dialect
    body = [s for part in parts for s in part.program.statements()]
    is_described = any(isinstance(s, H.Describe) for s in body)
    lines = ["", "import torch", "import triton", "import triton.language as tl", *dialect.imports]
    return [*lines, *[dialect.descriptor_import] * is_described, ""]
