"""Compiles emitted kernels for GPUs that need not be there, and reads what they take."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from triton._C.libtriton import ir
from triton.compiler import ASTSource, make_backend

import monocomp as mc
from monocomp.backends.forms import Forms
from monocomp.backends.schedules.legal import element_bytes
from monocomp.backends.schedules.schedule import Schedule
from monocomp.backends.triton.dialect import TRITON, Dialect
from monocomp.backends.triton.emit import Part, emit
from monocomp.backends.triton.launch import load
from monocomp.backends.triton.machine_code import (
    Launch,
    Usage,
    compiled,
    dumped,
    gpu,
    recorded,
    source_of,
    usage_of,
)
from monocomp.tile import TileProgram

TARGETS = {t: gpu(t) for t in ("cuda:80", "cuda:90", "cuda:100", "hip:gfx942")}
SHARED_LIMIT = {
    "cuda:80": 163 << 10,
    "cuda:90": 227 << 10,
    "cuda:100": 227 << 10,
    "hip:gfx942": 64 << 10,
}


def without_elements(
    kernel: mc.Kernel,
    sizes: Mapping[str, int],
    dtype: torch.dtype = torch.bfloat16,
    dtypes: Mapping[str, torch.dtype] = {},
) -> dict[str, torch.Tensor]:
    """Inputs of these sizes that hold nothing: in dtypes of their own, or else floats in one dtype
    and integers in int32."""
    return {
        name: torch.empty(
            [sizes[d] for d in i.dims],
            dtype=dtypes.get(name, torch.int32 if i.kind == "int" else dtype),
            device="meta",
        )
        for name, i in kernel.declared.inputs.items()
    }


def launches_of(
    kernel: mc.Kernel,
    programs: Sequence[TileProgram],
    schedules: Sequence[Schedule],
    inputs: Mapping[str, torch.Tensor],
    target: str = "cuda:90",
    params: Mapping[str, float] | None = None,
    **options: Any,
) -> list[Launch]:
    """The launches of tile programs with these schedules; options are those of `Part`."""
    options = {"lowered": kernel.equations} | options
    module = emit(Part(kernel.equations, programs, schedules, **options), target=target)
    configs = tuple(module.config(n, s) for n, s in enumerate(schedules))
    named = {module.params[n]: v for n, v in (params or {}).items()}
    return recorded(load(module.source), module.host, inputs, target, configs=configs, **named)


def first_launches(
    kernel: mc.Kernel,
    inputs: Mapping[str, torch.Tensor],
    extents: Mapping[str, int],
    target: str = "cuda:90",
    *,
    dialects: Sequence[Dialect] = (TRITON,),
    processors: int = 1,
    params: Mapping[str, float] | None = None,
) -> list[Launch]:
    """The launches of a kernel, and of what is prepared for it, with the schedules that come
    first on a number of processors, each in the last language that has a form of the kernel."""
    plan = kernel.planner.plan(extents)
    widths = {n: t.element_size() for n, t in inputs.items() if t.is_floating_point()}
    narrow = {
        n: str(t.dtype).removeprefix("torch.") for n, t in inputs.items() if widths.get(n) == 1
    }
    schedules = []
    for p in plan.kernels:
        how = p, plan.extents(extents), element_bytes(p, widths), target, processors
        forms = Forms(tuple(dialect.legal(*how) for dialect in dialects))
        schedules.append(forms.candidates(1)[-1])
    typed = [p.of_dtypes(narrow) for p in plan.kernels]
    lowered = plan.program.of_dtypes(narrow)
    return launches_of(kernel, typed, schedules, inputs, target, params, lowered=lowered)


def compile_for(target: str, launch: Launch) -> Usage:
    """What a launch takes of a GPU."""
    return usage_of(compiled(target, launch), target)


def accepted(target: str, launch: Launch) -> str:
    """A launch in the target's own terms, tiles and all, as Triton takes it: what it refuses are
    types, shapes and functions. Machine code, which takes most of the time, is not made."""
    *made, options = source_of(launch)
    source, backend = ASTSource(*made), make_backend(TARGETS[target])
    settings = backend.parse_options(dict(options))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    functions, modules = backend.get_codegen_implementation(settings), backend.get_module_map()
    module = source.make_ir(TARGETS[target], settings, functions, modules, context)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, settings, source.language)
    metadata: dict[str, Any] = {"target": TARGETS[target], **settings.__dict__}
    for name in ("ttir", "ttgir"):
        module = stages[name](module, metadata)
    return str(module)


def compiled_to(stage: str, launch: Launch) -> str:
    """What Triton makes of a launch on Hopper, in one of its own languages."""
    return str(compiled("cuda:90", launch).asm[stage])


def instructions(launch: Launch) -> list[str]:
    """The instructions of a launch on Hopper, with their modifiers."""
    return [re.sub(r"^@!?\w+ ", "", text).split()[0] for _, text in machine_code(launch)]


def machine_code(launch: Launch) -> list[tuple[int, str]]:
    """The same by address, with their operands and predicates."""
    text = dumped(compiled("cuda:90", launch), "--dump-sass")
    found = re.findall(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", text, re.MULTILINE)
    return [(int(address, 16), instruction) for address, instruction in found]


def is_serialised(launch: Launch) -> bool:
    """True if products end before the next ones begin on Hopper: ptxas then makes an arrival of
    each instruction that multiplies, and not of each product (its warnings C7510 and C7512)."""
    products = compiled_to("ptx", launch).count("wgmma.fence")
    return sum(text.startswith("WARPGROUP.ARRIVE") for text in instructions(launch)) > products


def synchronisations(launch: Launch) -> int:
    """Count the barriers of a warpgroup's threads in the first loop that multiplies on Hopper."""
    return sum("BAR.SYNC" in text for text in _multiplying(launch))


def kept_in_memory(launch: Launch) -> int:
    """Count the instructions that read or write spilled registers in the first loop that multiplies
    on Hopper."""
    return sum(bool(re.search(r"\b(LDL|STL)\b", text)) for text in _multiplying(launch))


def _multiplying(launch: Launch) -> list[str]:
    """Return the first loop that multiplies: that of whole blocks, which runs most."""
    code = machine_code(launch)
    for end, text in code:
        jump = re.search(r"\bBRA\b.* 0x([0-9a-f]+)", text)
        body = [x for at, x in code if jump and int(jump[1], 16) <= at <= end]
        if any("MMA" in x for x in body):
            return body
    return []
