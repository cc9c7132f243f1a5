"""A whole Triton source file: header, kernels, host function, self-check.

The file imports torch and triton only. Nothing of the program's text is interpolated but
numbers, whitelisted identifiers and comments, and the result is parsed before it leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from monocomp import __version__
from monocomp.backends.triton.device_functions import DEVICE_FUNCTIONS
from monocomp.backends.triton.host_functions import HOST_FUNCTIONS
from monocomp.backends.triton.host_source import HOST_NAMES, HostSource
from monocomp.backends.triton.identifiers import Identifiers
from monocomp.backends.triton.interface import interface
from monocomp.backends.triton.kernel_source import KernelSource, block_program, source_of
from monocomp.backends.triton.known_arguments import Promises, of_sizes
from monocomp.backends.triton.layout import parse
from monocomp.backends.triton.minimal import MinimalHost
from monocomp.backends.triton.schedule import Schedule
from monocomp.backends.triton.selfcheck import RESERVED, main_lines, reference_lines, sizes_for
from monocomp.blocks.constants import with_constants
from monocomp.blocks.kernels import takes_turns
from monocomp.blocks.program import Statement
from monocomp.dtypes import NARROW
from monocomp.equations import Equations
from monocomp.errors import InternalError, UnsupportedError
from monocomp.host.building import host_program
from monocomp.host.program import (
    Align,
    Clear,
    Describe,
    Descriptor,
    HostProgram,
    Launch,
    Step,
    TwoTiles,
    Wide,
)
from monocomp.planning.sizes import packed_extents
from monocomp.tile import Combine, Fold, TileProgram, walk
from monocomp.tile.split_padding import split_padding


@dataclass(frozen=True)
class Module:
    """An emitted file, and what a caller needs to run it.

    Attributes:
        source: the text.
        host: the name of the host function.
        configs: the names of the schedules, one a kernel.
        blocks: for each kernel the names of its block lengths by axis.
        params: the names of the host function's keywords by parameter.
        program: what the host function does.
        described: for each kernel, can descriptors load tiles of it?
        ordered: for each kernel, does it take the order of its instances?
        origins: the statements of block programs that lines come from, by the line's number.
    """

    source: str
    host: str
    configs: tuple[str, ...]
    blocks: tuple[Mapping[str, str], ...]
    params: Mapping[str, str]
    program: HostProgram
    described: tuple[bool, ...]
    ordered: tuple[bool, ...]
    origins: Mapping[int, Statement]

    def config(self, kernel: int, schedule: Schedule) -> dict[str, int]:
        """A schedule in the form that the host function takes."""
        flags = (self.described[kernel], self.ordered[kernel])
        return _config(schedule, self.blocks[kernel], *flags)


@dataclass(frozen=True)
class _Written:
    """What all files of a program share."""

    names: Identifiers
    taken: frozenset[str]  # names of the file, which its host function must leave alone
    schedules: Sequence[Schedule]
    sources: Sequence[KernelSource]
    blocks: Sequence[Mapping[str, str]]
    settings: Sequence[str]
    described: Sequence[bool]
    ordered: Sequence[bool]
    configs: Sequence[Mapping[str, int]]
    program: HostProgram

    def kernels(self) -> list[str]:
        """The lines of the kernels, and of the functions that they call, each after those that
        it calls."""
        texts = ["\n".join(s.lines) for s in self.sources]
        texts += dict.fromkeys(f for s in self.sources for f in s.functions.values())
        helpers = dict.fromkeys(h for s in self.sources for h in s.helpers)
        return _apart(*texts, *(DEVICE_FUNCTIONS[h] for h in helpers))

    def origins(self, before: int) -> dict[int, Statement]:
        """The statements that lines of the kernels come from, after so many other lines."""
        found: dict[int, Statement] = {}
        for s in self.sources:
            found |= {before + 3 + n: statement for n, statement in s.origins.items()}
            before += 2 + len(s.lines)
        return found


def _write(
    start: Equations,
    kernels: Sequence[TileProgram],
    schedules: Sequence[Schedule],
    lowered: Equations,
    narrow: Mapping[str, str],
    sizes: Mapping[str, int],
    promises: Promises | None = None,
) -> _Written:
    """The kernels of a file, and its host program."""
    pairs = zip(kernels, schedules, strict=True)
    kernels = [split_padding(k, s.in_two) for k, s in pairs]
    taken = {*DEVICE_FUNCTIONS, *HOST_FUNCTIONS, *RESERVED}
    names = Identifiers({*taken, *HOST_NAMES})
    declared = start.declared
    if not declared.inputs:
        raise UnsupportedError(
            "backend 'triton' needs an input tensor, to know which GPU to run on",
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
    named = zip(kernels, kernel_names, strict=True)
    programs = [block_program(k, narrow, name=n, functions=functions) for k, n in named]
    settings = tuple(
        names.of("config", k.name, "CONFIG" if n == 0 else f"CONFIG_{n + 1}")
        for n, k in enumerate(kernels)
    )
    blocks = [
        {a: str(p.lengths[a].attr) for a, _ in s.blocks}
        for p, s in zip(programs, schedules, strict=True)
    ]
    described, ordered = [bool(p.blocks) for p in programs], list(map(takes_turns, kernels))
    configs = list(map(_config, schedules, blocks, described, ordered))
    for n, kernel in enumerate(kernels):
        known = of_sizes(kernel, sizes)
        known |= promises.of_schedule(programs[n], sizes, configs[n]) if promises else {}
        programs[n] = with_constants(programs[n], known) if known else programs[n]
    interfaces = [interface(*each) for each in zip(kernels, programs, strict=True)]
    # The function never reads its own name, so what is inside may have it too, as a tensor.
    taken |= {*kernel_names, *functions.values(), *settings, "TensorDescriptor"}
    return _Written(
        names,
        frozenset(taken),
        schedules,
        [source_of(p) for p in programs],
        blocks,
        settings,
        described,
        ordered,
        configs,
        host_program(lowered, interfaces, narrow, sizes),
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
    narrow: Mapping[str, str] | None = None,
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
        narrow: the inputs that are floats of 8 bits, with their dtypes.
        sizes: extents that are known; the file is for these alone.
    """
    narrow, lowered = narrow or {}, lowered or start
    sizes = packed_extents(lowered, sizes or {})
    written = _write(start, kernels, schedules, lowered, narrow, sizes)
    names, program = written.names, written.program
    host = Identifiers(written.taken).of("host", start.origin.name or "kernel")
    # What the file computes is printed as it was written, for the sizes that it was lowered for.
    here = replace(start, sizes=lowered.sizes)
    checked = sizes_for(here, sizes)
    lines = [
        *_header(start, target),
        *_derivation(outline, schedules, checked is not None),
        *_imports(written.described),
    ]
    for setting, config in zip(written.settings, written.configs, strict=True):
        entries = (f'    "{k}": {v},' for k, v in config.items())
        lines += [f"{setting} = {{", *entries, "}"]
    origins = written.origins(len(lines))
    lines += written.kernels()
    has_sums = any(isinstance(s, Clear) for s in program.body)
    arguments = [a for s in program.body if isinstance(s, Launch) for a in s.arguments]
    aligns = any(isinstance(s, Align) for s in program.body)
    needed = {
        "two_tiles": any(isinstance(s, TwoTiles) for s in program.body),
        "step": any(isinstance(a.value, Step) for a in arguments),
        "descriptor": any(isinstance(a.value, Descriptor) for a in arguments),
        "copy_rows": aligns,
        "aligned": aligns,
        "clear_elements": has_sums,
        "clear": has_sums,
    }
    lines += _apart(*(text for f, text in HOST_FUNCTIONS.items() if needed.get(f, True)))
    lines += ["", "", *HostSource(start, program, names, written.settings).lines(host, precision)]
    if checked is not None:
        identifiers = _identifiers(start, names)
        lines += ["", "", *reference_lines(start, identifiers)]
        lines += ["", "", *main_lines(here, identifiers, host, narrow, checked)]
    params = {n: names.of("param", n) for n in start.declared.params}
    return Module(
        _parsed(lines),
        host,
        tuple(written.settings),
        tuple(written.blocks),
        params,
        program,
        tuple(written.described),
        tuple(written.ordered),
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
    dtypes: Mapping[str, str],
    fast: bool,
) -> str:
    """The source file of a program without what whole ones look at in each call.

    Args:
        start, kernels, schedules, lowered, precision, target: as for `emit`.
        sizes: extents that are known; the file is for these alone.
        dtypes: of the inputs of floats.
        fast: may functions be as accurate as results of 16 bits?
    """
    narrow = {n: d for n, d in dtypes.items() if d in NARROW}
    widths = {n: 1 if n in narrow else 4 if d == "float32" else 2 for n, d in dtypes.items()}
    promises = Promises(precision, fast, widths)
    written = _write(start, kernels, schedules, lowered, narrow, sizes, promises)
    body = written.program.body
    name = Identifiers(written.taken).of("host", start.origin.name or "kernel")
    host = MinimalHost(start, written.program, written.names, written.configs)
    statements = {"two_tiles": TwoTiles, "span": Wide}
    needed = (f for f, kind in statements.items() if any(isinstance(s, kind) for s in body))
    lines = [*written.kernels(), *_apart(*map(HOST_FUNCTIONS.__getitem__, needed))]
    imports = _imports([any(isinstance(s, Describe) for s in body)])
    return _parsed([*_header(start, target), *imports, *lines[1:], "", "", *host.lines(name)])


def _apart(*texts: str) -> list[str]:
    """Functions, each after two empty lines."""
    return [line for text in texts for line in ("", "", text)]


def _parsed(lines: Sequence[str]) -> str:
    """The text of a file."""
    text = "\n".join(lines).rstrip() + "\n"
    try:
        parse(text)
    except SyntaxError as fault:
        raise InternalError(f"the emitted source does not parse: {fault}", notes=[text]) from None
    return text


def _config(
    schedule: Schedule, blocks: Mapping[str, str], is_described: bool, is_ordered: bool
) -> dict[str, int]:
    """A schedule by the names that the host function and the kernel have for it."""
    entries = {blocks[axis]: length for axis, length in schedule.blocks}
    entries |= {"num_warps": schedule.num_warps, "num_stages": schedule.num_stages}
    if schedule.programs:
        entries["PROGRAMS"] = schedule.programs
    if is_described:
        entries["DESCRIPTORS"] = schedule.descriptors
    if is_ordered:
        entries["ABREAST"] = schedule.abreast
    return entries


def _identifiers(start: Equations, names: Identifiers) -> dict[str, str]:
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


def _header(start: Equations, target: str | None) -> list[str]:
    made_for = f" for {target}" if target else ""
    out = [f"# Generated by monocomp {__version__}{made_for}.", "#", "# Program:", "#"]
    for line in start.origin.text.strip("\n").splitlines():
        out.append(_comment("    " + line).rstrip())
    return out


def _derivation(
    outline: Iterable[str], schedules: Sequence[Schedule], is_checked: bool
) -> list[str]:
    out = ["#", "# Derivation:", "#"]
    out += [_comment("    " + line).rstrip() for line in outline]
    held = dict.fromkeys(axis for s in schedules for axis in s.in_two)
    if held:
        out += ["#", _comment(f"In two tiles, to be padded less: {', '.join(held)}.")]
    if is_checked:
        return [*out, "#", "# Run this file to check it against a plain evaluation in torch."]
    out += ["#", "# A plain evaluation, to check it against, would take too much memory at these"]
    return [*out, "# sizes: a file that is not for them checks itself."]


def _imports(described: Sequence[bool]) -> list[str]:
    lines = ["", "import torch", "import triton", "import triton.language as tl"]
    if any(described):
        lines += ["from triton.tools.tensor_descriptor import TensorDescriptor"]
    return [*lines, ""]
