"""A whole Triton source file: header, kernels, host function, self-check.

The file imports torch and triton only. Nothing of the program's text is interpolated but
numbers, whitelisted identifiers and comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from math import prod

from monocomp import __version__
from monocomp.backends.dialects import DIALECTS
from monocomp.backends.eager import reference_lines
from monocomp.backends.identifiers import Identifiers
from monocomp.backends.schedules.schedule import Schedule
from monocomp.backends.triton.dialect import TRITON, Dialect
from monocomp.backends.triton.host_source import HOST_NAMES, HostSource
from monocomp.backends.triton.interface import interface
from monocomp.backends.triton.kernel_source import KernelSource, block_program, source_of
from monocomp.backends.triton.known_arguments import Known, Promises
from monocomp.backends.triton.minimal import MinimalHost
from monocomp.backends.triton.selfcheck import RESERVED, main_lines, sizes_for
from monocomp.blocks import BlockProgram, Statement
from monocomp.checking.sizes import Sizes
from monocomp.declarations.record import record
from monocomp.errors import UnsupportedError
from monocomp.extents.nominal import packed_extents
from monocomp.host import program as H
from monocomp.host.building import host_program
from monocomp.host.launches import Describe
from monocomp.host.promised import promised
from monocomp.machine.gpus import HOPPER
from monocomp.terms.equations import Equations
from monocomp.tile import Combine, Fold, TileProgram, walk
from monocomp.tile.split_padding import split_padding

_REMARKS = re.compile(r'""".*?"""|#[^\n]*', re.DOTALL)
_DESCRIPTORS = "from triton.tools.tensor_descriptor import TensorDescriptor"


@record()
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
        """Return a schedule in the form that the host function takes."""
        return _config(schedule, self.kernels[kernel])


@record()
class Part:
    """A program of a file, with what it is written from; each kernel is in the language of its
    schedule.

    Attributes:
        start: the program before any rewrite, called as its host function is to be.
        kernels: the tile programs, in the order in which they run.
        schedules: one for each kernel.
        lowered: the program that the kernels compute.
        extents: those that are known; the file is for these alone.
        outline: the derivation, a line a step.
        promises: what a minimal file takes for granted; None for a whole one.
    """

    start: Equations
    kernels: Sequence[TileProgram]
    schedules: Sequence[Schedule]
    lowered: Equations
    extents: Mapping[str, int] = field(default_factory=dict)
    outline: Iterable[str] = ()
    promises: Promises | None = None

    @cached_property
    def dialects(self) -> list[Dialect]:
        """Return the language of each kernel."""
        return [DIALECTS[s.language]() for s in self.schedules]

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Return the known extents, with those that follow from them."""
        sizes = packed_extents(self.lowered, self.extents)
        if self.lowered.slices is not None:  # the last may be shorter
            sizes.pop(self.lowered.slices.part, None)
        return sizes

    @cached_property
    def checked(self) -> Sizes | None:
        """Return the sizes at which the file checks itself, if it does."""
        return None if self.promises else sizes_for(self.printed, self.sizes)

    @property
    def printed(self) -> Equations:
        """Return the program as it was written, with the sizes that it was lowered for."""
        return replace(self.start, sizes=self.lowered.sizes)


@record()
class Written:
    """A part as kernels and a host program; `taken` are names of the file, which its host function
    must leave alone."""

    part: Part
    names: Identifiers
    taken: frozenset[str]
    sources: Sequence[KernelSource]
    settings: Sequence[str]
    program: H.HostProgram

    @property
    def configs(self) -> list[dict[str, int]]:
        """Return the kernels' schedules."""
        programs = (s.program for s in self.sources)
        return list(map(_config, self.part.schedules, programs))

    def settings_lines(self) -> list[str]:
        """Return the lines that give the schedules."""
        lines = []
        for setting, config in zip(self.settings, self.configs, strict=True):
            entries = (f'    "{k}": {v},' for k, v in config.items())
            lines += [f"{setting} = {{", *entries, "}"]
        return lines

    def host_lines(self, host: str, precision: str) -> list[str]:
        """Return the host function."""
        start = self.part.start
        if self.part.promises:
            return MinimalHost(start, self.program, self.names, self.configs).lines(host)
        return HostSource(start, self.program, self.names, self.settings).lines(host, precision)

    def origins(self, before: int) -> dict[int, Statement]:
        """Return the statements that lines of the kernels come from, after so many other lines."""
        statements: dict[int, Statement] = {}
        for s in (x for source in self.sources for x in (*source.maps, source)):
            statements |= {before + 3 + n: statement for n, statement in s.origins.items()}
            before += 2 + len(s.lines)
        return statements


def write(part: Part, before: Written | None = None) -> Written:
    """Return the kernels of a program, and its host program; `before` is written in the same
    file."""
    declared = part.start.declared
    pairs = zip(part.kernels, part.schedules, strict=True)
    kernels = [split_padding(k, s.split_axes) for k, s in pairs]
    taken = {*RESERVED} | (before.taken if before is not None else set())
    for dialect in languages(part):
        taken |= {*dialect.device_functions, *dialect.host_functions, *dialect.reserved}
    names = Identifiers({*taken, *HOST_NAMES})
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
    programs = []
    every = zip(kernels, part.schedules, kernel_names, part.dialects, strict=True)
    for kernel, schedule, name, dialect in every:
        taken |= dialect.taken(kernel, name)
        known = Known(kernel, schedule, part.sizes, part.promises)
        programs.append(
            block_program(
                kernel,
                name=name,
                functions=functions,
                dialect=dialect,
                known=known,
                unchained=schedule.unchained,
                map_name=lambda called: names.of("map", called),
            )
        )
    first = 1 + (len(before.settings) if before is not None else 0)
    settings = tuple(
        names.of("config", k.name, "CONFIG" if n == 1 else f"CONFIG_{n}")
        for n, k in enumerate(kernels, first)
    )
    interfaces = [interface(*each) for each in zip(kernels, programs, strict=True)]
    host = host_program(part.lowered, interfaces, part.sizes)
    # The function never reads its own name, so what is inside may have it too, as a tensor.
    taken |= {*kernel_names, *functions.values(), *settings, "TensorDescriptor"}
    taken |= {m.name for p in programs for m in p.maps}
    return Written(
        part,
        names,
        frozenset(taken),
        [source_of(p, dialect) for p, dialect in zip(programs, part.dialects, strict=True)],
        settings,
        promised(host) if part.promises else host,
    )


def emit(part: Part, precision: str = "ieee", target: str | None = None) -> Module:
    """Return the source file of a program.

    Args:
        part: the program.
        precision: "ieee" or "tf32", for products of float32.
        target: what the file was made for, for the header.
    """
    start, written = part.start, write(part)
    host = Identifiers(written.taken).of("host", start.origin.name or "kernel")
    lines, before = body(header(start, target), [written], [host], precision)
    if part.checked is not None:
        named = identifiers(start, written.names)
        lines += ["", "", *reference_lines(start, named)]
        devices = languages(part)[-1].devices
        lines += ["", "", *main_lines(part.printed, named, host, devices, part.checked)]
    return Module(
        text_of(lines),
        host,
        tuple(written.settings),
        tuple(s.program for s in written.sources),
        {n: written.names.of("param", n) for n in start.declared.params},
        written.program,
        written.origins(before),
    )


def body(
    head: Sequence[str], parts: Sequence[Written], hosts: Sequence[str], precision: str
) -> tuple[list[str], int]:
    """Return the lines of a file up to its host functions, which have these names; and how many
    lines come before those of its kernels."""
    first = parts[0].part
    if first.promises:
        lines = [*head, *imports(*parts)]
    else:
        lines = [*head]
        for written, of in zip(parts, ("", " of the gradients"), strict=False):
            lines += quoted(f"Derivation{of}", "\n".join(written.part.outline))
        schedules = [s for written in parts for s in written.part.schedules]
        lines += [*derived_for(schedules, first.checked is not None), *imports(*parts)]
        lines += [line for written in parts for line in written.settings_lines()]
    before = len(lines)
    texts = (
        "\n".join(written.host_lines(host, precision))
        for written, host in zip(parts, hosts, strict=True)
    )
    host_lines = _apart(*texts)
    lines += kernels_of(*parts)[bool(first.promises) :]
    functions = _functions(d.host_functions for d in languages(*(w.part for w in parts)))
    lines += _apart(*called(functions, host_lines))
    return [*lines, *host_lines], before


def kernels_of(*parts: Written) -> list[str]:
    """Return the lines of the kernels, and of the functions that they call, each after those
    that it calls."""
    sources = [x for part in parts for s in part.sources for x in (*s.maps, s)]
    texts = ["\n".join(s.lines) for s in sources]
    texts += dict.fromkeys(f for s in sources for f in s.functions.values())
    functions = _functions(d.device_functions for d in languages(*(w.part for w in parts)))
    return _apart(*texts, *called(functions, texts))


def languages(*parts: Part) -> list[Dialect]:
    """Return the languages of a file, which is at least one of Triton."""
    others = {s.language: None for part in parts for s in part.schedules}
    return [TRITON, *(DIALECTS[name]() for name in others if name != TRITON.name)]


def _functions(of: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the functions of several languages by name, those of the last where two have one."""
    return {name: text for functions in of for name, text in functions.items()}


def called(functions: Mapping[str, str], lines: Sequence[str]) -> list[str]:
    """Return those functions, of some by name, that lines call, and that these call in turn."""
    needed: set[str] = set()
    waiting = [*lines]
    while waiting:
        code = _REMARKS.sub("", waiting.pop())
        names = {*re.findall(r"\w+(?=[(,)])", code)} & functions.keys() - needed
        needed |= names
        waiting += (functions[name] for name in names)
    return [text for name, text in functions.items() if name in needed]


def _apart(*texts: str) -> list[str]:
    """Functions, each after two empty lines."""
    return [line for text in texts for line in ("", "", text)]


def text_of(lines: Sequence[str]) -> str:
    """Return the text of a file."""
    return "\n".join(lines).rstrip() + "\n"


def _config(schedule: Schedule, kernel: BlockProgram) -> dict[str, int]:
    """Return a schedule by the names that the host function and the kernel have for it."""
    entries = {str(kernel.lengths[axis].attr): length for axis, length in schedule.blocks}
    groups = prod(schedule.lengths[a] // HOPPER.direct_rows for a in kernel.divided)
    warps = schedule.num_warps // groups  # it begins the others itself
    entries |= {"num_warps": warps, "num_stages": schedule.num_stages}
    if schedule.registers:
        entries["maxnreg"] = schedule.registers
    if schedule.programs:
        entries["PROGRAMS"] = schedule.programs
    if kernel.blocks and not kernel.rings:
        entries["DESCRIPTORS"] = schedule.descriptors
    said = {
        "order": schedule.group_size,
        "stages": schedule.num_stages,
        "groups": groups,
    }
    given = (a for a in kernel.arguments if a.purpose in said)
    return entries | {a.name.attr: said[a.purpose] for a in given}


def identifiers(start: Equations, names: Identifiers) -> dict[str, str]:
    """Return the identifiers of the program's names inside the self-check, which has its own
    scope."""
    declared = start.declared
    given = {n: names.of("tensor", n) for n in declared.inputs}
    given |= {n: names.of("param", n) for n in declared.params}
    given |= {n: names.of("definition", n) for n in start.by_name if n not in given}
    given |= {n: names.of("index", n) for n in declared.extent_of if n not in given}
    return given


def _comment(text: str) -> str:
    safe = text.encode("ascii", "backslashreplace").decode("ascii")
    if not safe.isprintable():
        safe = "".join(c if c.isprintable() else " " for c in safe)
    return f"# {safe}"


def header(start: Equations, target: str | None) -> list[str]:
    """Write comments that say what a file is, and the program that it computes."""
    made_for = f" for {target}" if target else ""
    return [
        f"# Generated by monocomp {__version__}{made_for}.",
        *quoted("Program", start.origin.text),
    ]


def quoted(title: str, text: str) -> list[str]:
    """Return a text as a comment under its title."""
    out = ["#", f"# {title}:", "#"]
    return out + [_comment("    " + line).rstrip() for line in text.strip("\n").splitlines()]


def derived_for(schedules: Iterable[Schedule], is_checked: bool) -> list[str]:
    """Write comments on what schedules do to axes, and whether the file checks itself."""
    out = []
    held = dict.fromkeys(axis for s in schedules for axis in s.split_axes)
    if held:
        out += ["#", _comment(f"Split padding: {', '.join(held)}.")]
    if is_checked:
        return [*out, "#", "# Run this file to check it against a plain evaluation in torch."]
    out += ["#", "# A plain evaluation, to check it against, would take too much memory at these"]
    return [*out, "# sizes: a file that is not for them checks itself."]


def imports(*parts: Written) -> list[str]:
    """Return the imports of a file."""
    body = [s for part in parts for s in part.program.statements()]
    is_described = any(isinstance(s, Describe) for s in body)
    lines = ["", "import torch", "import triton", "import triton.language as tl"]
    lines += [line for d in languages(*(w.part for w in parts)) for line in d.imports]
    return [*lines, *[_DESCRIPTORS] * is_described, ""]
