"""Kernels compiled for GPUs that need not be there, and what they take of them.

A file's host function is called with tensors that hold nothing (device "meta") and pass for
those of the GPU, and its launches are recorded. Each is compiled as Triton would at the first
call: what is a pointer, an integer equal to 1 or a multiple of 16 follows from the recorded
arguments.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from inspect import signature
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from monocomp.backends.triton.emit import Module
from monocomp.backends.triton.launch import interpreted, load
from monocomp.declarations.records import Declarations
from monocomp.errors import InternalError, UnsupportedError, UsageError

POINTERS = {
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
FORMS = ("ttir", "ttgir", "llir", "ptx", "amdgcn")  # in the order in which Triton makes them
_OPTIONS = ("num_warps", "num_stages", "maxnreg")


@dataclass
class Launch:
    """One kernel call that a host function made."""

    function: JITFunction[Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True)
class Usage:
    """A compiled kernel's use of the GPU; `spilled` counts bytes a thread, or registers."""

    registers: int
    spilled: int
    shared: int


@dataclass(frozen=True)
class MachineCode:
    """A kernel, compiled for a target, and its text in one of the forms on the way there."""

    name: str
    warps: int
    usage: Usage
    text: str

    def __str__(self) -> str:
        u = self.usage
        return (
            f"// {self.name}: {u.registers} registers a thread, {u.spilled} spilled, "
            f"{u.shared} bytes of shared memory, {self.warps} warps\n{self.text}"
        )


def gpu(target: str) -> GPUTarget:
    """Triton's name for a target."""
    kind, _, arch = target.partition(":")
    if kind == "cuda":
        return GPUTarget("cuda", int(arch), 32)
    return GPUTarget("hip", arch, 64 if arch.startswith("gfx9") else 32)


def machine_code(
    module: Module,
    declared: Declarations[Any],
    sizes: Mapping[str, int],
    dtypes: Mapping[str, str],
    target: str,
    form: str,
) -> list[MachineCode]:
    """Compile the launches of a file for a GPU.

    Args:
        module: the file.
        declared: what the program declares.
        sizes: of its inputs' dimensions, by representative.
        dtypes: of the inputs of floats.
        target: such as "cuda:90".
        form: one of `FORMS`.
    """
    if interpreted():
        raise UsageError(
            "Triton's interpreter makes no machine code", help="unset TRITON_INTERPRET"
        )
    _require_known(target)
    inputs = {
        name: torch.empty(
            [sizes[extent] for extent in declared.extents(name)],
            dtype=getattr(torch, dtypes[name])
            if i.kind == "float"
            else {"bool": torch.bool}.get(i.kind, torch.int32),
            device="meta",
        )
        for name, i in declared.inputs.items()
    }
    params = {module.params[p.name]: 1 for p in declared.params.values() if p.default is None}
    kernels = []
    for launch in recorded(load(module.source), module.host, inputs, target, **params):
        made = compiled(target, launch)
        if form not in made.asm:
            known = ", ".join(f for f in FORMS if f in made.asm)
            raise UnsupportedError(f"{target} has no {form}", help=f"one of {known}")
        usage = usage_of(made, target)
        kernels.append(
            MachineCode(str(made.metadata.name), made.metadata.num_warps, usage, made.asm[form])
        )
    return kernels


# --- launches -----------------------------------------------------------------------------


class _OnCuda(torch.Tensor):
    """A tensor that passes for one of an NVIDIA GPU: host functions choose kernels by that."""

    is_cuda = True


class _Recorder:
    def __init__(self, function: JITFunction[Any], launches: list[Launch]) -> None:
        self.function = function
        self.launches = launches

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def launch(*args: Any, **kwargs: Any) -> None:
            self.launches.append(Launch(self.function, args, kwargs))

        return launch


def _launch(kernel: Any, programs: int, *args: Any, **options: Any) -> None:
    if programs > 0:
        kernel[(programs,)](*args, **options)


def recorded(
    module: ModuleType,
    host: str,
    inputs: Mapping[str, torch.Tensor],
    target: str = "cuda:90",
    /,
    **keywords: Any,
) -> list[Launch]:
    """Return the launches of a host function on a target's tensors of these shapes, strides and
    dtypes."""
    launches: list[Launch] = []
    kind = _OnCuda if target.startswith("cuda") else torch.Tensor
    kernels = {n: f for n, f in vars(module).items() if isinstance(f, JITFunction)}
    try:
        for name, function in kernels.items():
            setattr(module, name, _Recorder(function, launches))
        tensors = (t.to("meta").as_subclass(kind) for t in inputs.values())
        run = getattr(module, host)
        if "launch" in signature(run).parameters:  # how many instances run is the GPU's affair
            keywords = {"launch": _launch, **keywords}
        run(*tensors, **keywords)
    finally:
        for name, function in kernels.items():
            setattr(module, name, function)
    return launches


def compiled(target: str, launch: Launch) -> Any:
    """Compile the kernel of a launch with Triton."""
    *made, options = source_of(launch)
    source = GluonASTSource if launch.function.is_gluon() else ASTSource
    return triton.compile(source(*made), target=gpu(target), options=options)


@triton.jit
def _nothing():  # type: ignore[no-untyped-def]
    pass


def _require_known(target: str) -> None:
    """Raises UnsupportedError if Triton cannot compile a kernel of no statement for a target."""
    try:
        with redirect_stdout(StringIO()):  # Triton prints what its assembler says
            triton.compile(ASTSource(_nothing, {}, {}), target=gpu(target))
    except Exception as fault:
        raise UnsupportedError(
            f"Triton {triton.__version__} compiles no kernels for {target}",
            help="--form source emits them all the same",
        ) from fault


def source_of(launch: Launch) -> tuple[Any, ...]:
    """Return the function, its signature, constants and attributes, and options."""
    names = launch.function.arg_names
    given = dict(zip(names, launch.args, strict=False)) | launch.kwargs
    options = {name: given.pop(name) for name in _OPTIONS if name in given}
    signature: dict[str, str] = {}
    constants: dict[tuple[int, ...], Any] = {}
    attributes: dict[tuple[int, ...], list[Any]] = {}
    for position, name in enumerate(names):
        value = given[name]
        is_constexpr = launch.function.params[position].is_constexpr
        is_constant = is_constexpr or value is None or _is_one(value)
        signature[name] = "constexpr" if is_constant else _type_of(value)
        if is_constant:
            constants[position,] = value
        elif isinstance(value, torch.Tensor) or (isinstance(value, int) and value % 16 == 0):
            attributes[position,] = [["tt.divisibility", 16]]
    return launch.function, signature, constants, attributes, options


def _is_one(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value == 1


def _type_of(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return POINTERS[value.dtype]
    if isinstance(value, TensorDescriptor):
        return f"tensordesc<{POINTERS[value.base.dtype][1:]}{value.block_shape}>"
    if isinstance(value, GluonDescriptor):
        block = f"{POINTERS[value.base.dtype][1:]}{value.block_shape}"
        return f"tensordesc<{block},{value.layout!r}>"
    if isinstance(value, float):
        return "fp32"
    return "i32" if -(1 << 31) <= value < 1 << 31 else "i64"


# --- what is made of them -----------------------------------------------------------------


def usage_of(made: Any, target: str) -> Usage:
    """Return what a compiled kernel takes, as its assembler says."""
    shared = int(made.metadata.shared)
    if target.startswith("hip"):
        vectors, spilled = (
            _numbers(rf"\.{what}:\s+(\d+)", made.asm["amdgcn"])[0]
            for what in ("vgpr_count", "vgpr_spill_count")
        )
        return Usage(vectors, spilled, shared)
    text = dumped(made, "--dump-resource-usage")
    registers, stack, local = _numbers(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", text)
    return Usage(registers, stack + local, shared)


def _numbers(pattern: str, text: str) -> list[int]:
    match = re.search(pattern, text)
    if match is None:
        raise InternalError(f"the assembler does not say what the kernel takes: {text[:200]}")
    return [int(number) for number in match.groups()]


def dumped(made: Any, what: str) -> str:
    """Return what Triton's tool for machine code says of a compiled kernel."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(made.asm["cubin"])
        file.flush()
        command = [str(tool), what, file.name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
