"""Compiles emitted kernels for GPUs that need not be there, and reads what they take.

A file's host function is called with tensors that hold nothing (device "meta"), and its
launches are recorded. Each is compiled as Triton would at the first call: what is a pointer,
an integer equal to 1 or a multiple of 16 follows from the recorded arguments.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import triton
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

import monocomp as mc
from monocomp.backends.triton.emit import emit
from monocomp.backends.triton.launch import load
from monocomp.backends.triton.schedule import Schedule
from monocomp.tile import TileProgram

TARGETS = {
    "cuda:80": GPUTarget("cuda", 80, 32),
    "cuda:90": GPUTarget("cuda", 90, 32),
    "cuda:100": GPUTarget("cuda", 100, 32),
    "hip:gfx942": GPUTarget("hip", "gfx942", 64),
}
SHARED_LIMIT = {
    "cuda:80": 163 << 10,
    "cuda:90": 227 << 10,
    "cuda:100": 227 << 10,
    "hip:gfx942": 64 << 10,
}
_POINTERS = {
    torch.bfloat16: "*bf16",
    torch.float16: "*fp16",
    torch.float32: "*fp32",
    torch.int32: "*i32",
    torch.int64: "*i64",
    torch.int8: "*i8",
    torch.bool: "*i1",
    torch.float8_e4m3fn: "*fp8e4nv",
    torch.float8_e5m2: "*fp8e5",
}
_OPTIONS = ("num_warps", "num_stages")


@dataclass
class Launch:
    """One kernel call that a host function made."""

    function: JITFunction[Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True)
class Usage:
    """What a compiled kernel takes of the GPU; `spilled` counts bytes a thread, or registers."""

    registers: int
    spilled: int
    shared: int


class _Recorder:
    def __init__(self, function: JITFunction[Any], launches: list[Launch]) -> None:
        self.function = function
        self.launches = launches

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def launch(*args: Any, **kwargs: Any) -> None:
            self.launches.append(Launch(self.function, args, kwargs))

        return launch


def recorded(
    module: ModuleType, host: str, inputs: Mapping[str, torch.Tensor], **keywords: Any
) -> list[Launch]:
    """The launches of a host function on tensors of these shapes, strides and dtypes."""
    launches: list[Launch] = []
    kernels = {n: f for n, f in vars(module).items() if isinstance(f, JITFunction)}
    try:
        for name, function in kernels.items():
            setattr(module, name, _Recorder(function, launches))
        getattr(module, host)(*(t.to("meta") for t in inputs.values()), **keywords)
    finally:
        for name, function in kernels.items():
            setattr(module, name, function)
    return launches


def without_elements(kernel: mc.Kernel, sizes: Mapping[str, int]) -> dict[str, torch.Tensor]:
    """Inputs of these sizes that hold nothing: floats in bf16, integers in int32."""
    return {
        name: torch.empty(
            [sizes[d] for d in i.dims],
            dtype=torch.int32 if i.kind == "int" else torch.bfloat16,
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
    """The launches of tile programs with these schedules; options are those of `emit`."""
    module = emit(kernel.equations, programs, schedules, target=target, **options)
    configs = tuple(module.config(n, s) for n, s in enumerate(schedules))
    named = {module.params[n]: v for n, v in (params or {}).items()}
    return recorded(load(module.source), module.host, inputs, configs=configs, **named)


def compile_for(target: str, launch: Launch) -> Usage:
    """What a launch takes of a GPU."""
    return _usage(_compiled(target, launch), target)


def accepted(target: str, launch: Launch) -> str:
    """A launch in the target's own terms, tiles and all, as Triton takes it: what it refuses are
    types, shapes and functions. Machine code, which takes most of the time, is not made."""
    *made, options = _source(launch)
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
    return str(_compiled("cuda:90", launch).asm[stage])


def instructions(launch: Launch) -> list[str]:
    """The instructions of a launch on Hopper, with their modifiers."""
    return [re.sub(r"^@!?\w+ ", "", text).split()[0] for _, text in machine_code(launch)]


def machine_code(launch: Launch) -> list[tuple[int, str]]:
    """The same by address, with their operands and predicates."""
    text = _dumped(_compiled("cuda:90", launch), "--dump-sass")
    found = re.findall(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", text, re.MULTILINE)
    return [(int(address, 16), instruction) for address, instruction in found]


def _compiled(target: str, launch: Launch) -> Any:
    *made, options = _source(launch)
    source = GluonASTSource if launch.function.is_gluon() else ASTSource
    return triton.compile(source(*made), target=TARGETS[target], options=options)


def _source(launch: Launch) -> tuple[Any, ...]:
    """The function, its signature, constants and attributes, and options."""
    names = launch.function.arg_names
    given = dict(zip(names, launch.args, strict=False)) | launch.kwargs
    options = {name: given.pop(name) for name in _OPTIONS if name in given}
    signature: dict[str, str] = {}
    constants: dict[tuple[int, ...], Any] = {}
    attributes: dict[tuple[int, ...], list[Any]] = {}
    for place, name in enumerate(names):
        value = given[name]
        is_constexpr = launch.function.params[place].is_constexpr
        is_constant = is_constexpr or value is None or _is_one(value)
        signature[name] = "constexpr" if is_constant else _type_of(value)
        if is_constant:
            constants[place,] = value
        elif isinstance(value, torch.Tensor) or (isinstance(value, int) and value % 16 == 0):
            attributes[place,] = [["tt.divisibility", 16]]
    return launch.function, signature, constants, attributes, options


def _is_one(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value == 1


def _type_of(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return _POINTERS[value.dtype]
    if isinstance(value, TensorDescriptor):
        return f"tensordesc<{_POINTERS[value.base.dtype][1:]}{value.block_shape}>"
    if isinstance(value, GluonDescriptor):
        block = f"{_POINTERS[value.base.dtype][1:]}{value.block_shape}"
        return f"tensordesc<{block},{value.layout!r}>"
    if isinstance(value, float):
        return "fp32"
    return "i32" if -(1 << 31) <= value < 1 << 31 else "i64"


def _usage(compiled: Any, target: str) -> Usage:
    shared = int(compiled.metadata.shared)
    if target.startswith("hip"):
        text = compiled.asm["amdgcn"]
        vectors, spilled = (
            int(re.search(rf"\.{what}:\s+(\d+)", text)[1])  # type: ignore[index]
            for what in ("vgpr_count", "vgpr_spill_count")
        )
        return Usage(vectors, spilled, shared)
    text = _dumped(compiled, "--dump-resource-usage")
    found = re.search(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", text)
    assert found is not None, text
    registers, stack, local = map(int, found.groups())
    return Usage(registers, stack + local, shared)


def _dumped(compiled: Any, what: str) -> str:
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        command = [str(tool), what, file.name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
