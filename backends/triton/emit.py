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
from monocomp.backends.triton.kernel_source import KernelEmitter
from monocomp.backends.triton.layout import parse
from monocomp.backends.triton.schedule import Schedule, has_order
from monocomp.backends.triton.selfcheck import RESERVED, main_lines, reference_lines
from monocomp.equations import Equations
from monocomp.errors import InternalError, UnsupportedError
from monocomp.host.building import host_program
from monocomp.host.program import Align, HostProgram
from monocomp.lowering import in_two_tiles
from monocomp.tile import Combine, Fold, TileProgram, walk


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
    """

    source: str
    host: str
    configs: tuple[str, ...]
    blocks: tuple[Mapping[str, str], ...]
    params: Mapping[str, str]
    program: HostProgram
    described: tuple[bool, ...]
    ordered: tuple[bool, ...]

    def config(self, kernel: int, schedule: Schedule) -> dict[str, int]:
        """A schedule in the form that the host function takes."""
        flags = (self.described[kernel], self.ordered[kernel])
        return _config(schedule, self.blocks[kernel], *flags)


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
    """
    narrow = narrow or {}
    pairs = zip(kernels, schedules, strict=True)
    kernels = [in_two_tiles(k, s.in_two) for k, s in pairs]
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
    emitters = [KernelEmitter(k, n, functions, narrow) for k, n in named]
    sources = [e.emit() for e in emitters]
    configs = tuple(
        names.of("config", k.name, "CONFIG" if n == 0 else f"CONFIG_{n + 1}")
        for n, k in enumerate(kernels)
    )
    # The function never reads its own name, so what is inside may have it too, as a tensor.
    taken |= {*kernel_names, *functions.values(), *configs, "TensorDescriptor"}
    host = Identifiers(taken).of("host", start.origin.name or "kernel")
    lines = [*_header(start, outline, target, schedules), "", "import torch", "import triton"]
    lines += ["import triton.language as tl"]
    described = tuple(bool(s.blocks) for s in sources)
    ordered = tuple(map(has_order, kernels))
    if any(described):
        lines += ["from triton.tools.tensor_descriptor import TensorDescriptor"]
    lines += [""]
    blocks: list[dict[str, str]] = []
    for n, (emitter, schedule) in enumerate(zip(emitters, schedules, strict=True)):
        blocks.append({a: emitter._block(a) for a, _ in schedule.blocks})
        entries = _config(schedule, blocks[n], described[n], ordered[n])
        lines += [f"{configs[n]} = {{", *(f'    "{k}": {v},' for k, v in entries.items()), "}"]
    for helper in dict.fromkeys(h for s in sources for h in s.helpers):
        lines += ["", "", DEVICE_FUNCTIONS[helper]]
    for text in dict.fromkeys(f for s in sources for f in s.functions.values()):
        lines += ["", "", text]
    for s in sources:
        lines += ["", "", *s.lines]
    interfaces = [interface(*each) for each in zip(kernels, sources, emitters, strict=True)]
    program = host_program(lowered or start, interfaces, narrow)
    aligns = any(isinstance(s, Align) for s in program.body)
    needed = {
        "two_tiles": any(s.in_two for s in schedules),
        "step": any(s.held for s in sources),
        "descriptor": any(described),
        "copy_rows": aligns,
        "aligned": aligns,
    }
    for function, text in HOST_FUNCTIONS.items():
        if needed.get(function, True):
            lines += ["", "", text]
    lines += ["", "", *HostSource(start, program, names, configs).lines(host, precision)]
    identifiers = _identifiers(start, names)
    lines += ["", "", *reference_lines(start, identifiers)]
    # What the file computes is printed as it was written, for the sizes that it was lowered for.
    here = replace(start, sizes=(lowered or start).sizes)
    lines += ["", "", *main_lines(here, identifiers, host, narrow)]
    text = "\n".join(lines).rstrip() + "\n"
    try:
        parse(text)
    except SyntaxError as fault:
        raise InternalError(f"the emitted source does not parse: {fault}", notes=[text]) from None
    params = {n: names.of("param", n) for n in declared.params}
    return Module(text, host, configs, tuple(blocks), params, program, described, ordered)


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


def _header(
    start: Equations, outline: Iterable[str], target: str | None, schedules: Sequence[Schedule]
) -> list[str]:
    made_for = f" for {target}" if target else ""
    out = [f"# Generated by monocomp {__version__}{made_for}.", "#", "# Program:", "#"]
    for line in start.origin.text.strip("\n").splitlines():
        out.append(_comment("    " + line).rstrip())
    out += ["#", "# Derivation:", "#"]
    out += [_comment("    " + line).rstrip() for line in outline]
    held = dict.fromkeys(axis for s in schedules for axis in s.in_two)
    if held:
        out += ["#", _comment(f"In two tiles, to be padded less: {', '.join(held)}.")]
    return [*out, "#", "# Run this file to check it against a plain evaluation in torch."]
