"""The plans of calls of emitted kernels: what a host program comes to for a call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton import knobs
from triton.runtime.interpreter import InterpretedFunction, TensorHandle
from triton.tools.tensor_descriptor import TensorDescriptor

from monocomp.backends.forms import spoken
from monocomp.backends.schedules.measure import Empty
from monocomp.backends.schedules.search import Choice, Outputs
from monocomp.backends.torch_operations import TorchTarget
from monocomp.backends.triton.lists import Lists
from monocomp.blocks import SMALL_INT
from monocomp.host.plan import Launched, Plan, Ran, gather
from monocomp.host.program import HostProgram

_GUARDS: Any = torch._C._dynamo.guards
# What the code calls that Inductor writes: half of the time that `torch.empty` takes goes to its
# arguments, and to who may be watching. On a GPU it is the current one.
EMPTY = {"cpu": _GUARDS._empty_strided_cpu, "cuda": _GUARDS._empty_strided_cuda}


class _Thread(threading.local):
    """A thread's state: the devices on which it has CUDA contexts."""

    def __init__(self) -> None:
        self.contexts: set[int | None] = set()  # of which devices


_THREAD = _Thread()


class PlanTarget(TorchTarget):
    """Plans launches of the kernels of an emitted file, for `host.evaluation`.

    Args:
        program: the host program.
        module: the file, whose functions look at layouts.
        device: that of the inputs.
        precision: "ieee" or "tf32".
        empty: allocates what kernels write, if it is given.
    """

    def __init__(
        self,
        program: HostProgram,
        module: ModuleType,
        device: torch.device,
        precision: str,
        empty: Empty | None = None,
    ) -> None:
        super().__init__(device)
        self.program, self.module, self.precision, self.empty = program, module, precision, empty

    def allocation(self, shape: tuple[int, ...], dtype: torch.dtype) -> Callable[[], torch.Tensor]:
        if self.empty is not None:
            return partial(self.empty, shape, dtype=dtype, device=self.device)
        strides = self.stand_in(shape, dtype).stride()
        return partial(EMPTY[self.device.type], shape, strides, dtype)

    def kernel(self, number: int, programs: int) -> Callable[..., object]:
        return _Start(getattr(self.module, self.program.kernels[number].name), programs)

    def lists(self, kernel: str, shape: tuple[int, int], tensors: int) -> Lists:
        return Lists(getattr(self.module, kernel), shape, self.device, tensors)

    def index(self, wide: bool) -> tl.dtype:
        return tl.int64 if wide else tl.int32

    def is_wide(self, tensors: Sequence[torch.Tensor], params: Sequence[float]) -> bool:
        spans = any(self.module.span(t) >= 2**31 for t in tensors)
        return spans or any(abs(n) >= SMALL_INT for n in params)

    def is_fast(self, tensor: torch.Tensor, dtype: torch.dtype) -> bool:
        return tensor.is_cuda and torch.version.hip is None and dtype.itemsize == 2

    def multiprocessors(self) -> int:
        return int(torch.cuda.get_device_properties(self.device).multi_processor_count)

    def step(self, *held: tuple[torch.Tensor, int]) -> int:
        return int(self.module.step(*held))

    def describe(
        self, function: str, tensor: torch.Tensor, block: list[int]
    ) -> Callable[[torch.Tensor], TensorDescriptor] | None:
        described = getattr(self.module, function)(tensor, block)
        if described is None:
            return None
        attributes, device, kind = vars(described) | {"base": None}, self.device, type(described)
        index = device.index

        def make(base: torch.Tensor) -> TensorDescriptor:
            """Describe a tensor that looks the same, whose other attributes have been checked."""
            if index not in _THREAD.contexts:
                require_context(device)
            descriptor: TensorDescriptor = object.__new__(kind)
            descriptor.__dict__ = {**attributes, "base": base}
            return descriptor

        return make

    def aligned(
        self, tensor: torch.Tensor, position: int, copy: int, widest: int
    ) -> tuple[torch.Tensor, Launched] | None:
        made: list[Launched] = []

        def launch(kernel: Any, programs: int, *args: Any, **options: Any) -> None:
            start, both = _Start(kernel, programs), gather(position, copy)
            made.append(Launched(start, both, [*args[2:]], options))

        copied = self.module.aligned(
            tensor, lambda *a, **how: torch.empty(*a, **how | _META), launch, widest
        )
        return (copied, made[0]) if made else None


_META = {"device": "meta"}


class _Start:
    """Runs a kernel as Triton does, which compiles it the first time."""

    def __init__(self, kernel: Any, programs: int) -> None:
        self.kernel, self.programs = kernel, programs

    def __call__(self, *args: Any, **options: Any) -> None:
        if isinstance(self.kernel, InterpretedFunction):
            args = tuple(_as_compiled(a) if isinstance(a, float) else a for a in args)
        self.given = len(args)
        self.compiled = self.kernel[(self.programs,)](*args, **options)


def _as_compiled(number: float) -> tl.tensor:
    """Return a float as it is in a compiled kernel. The interpreter leaves it to Python, which
    divides nothing by 0."""
    return tl.tensor(TensorHandle(np.array([number], np.float32), tl.float32), tl.float32)


def started(plan: Plan) -> Plan:
    """Return a plan that has run, with its kernels as they have been compiled."""
    stages = (replace(s, launches=tuple(map(_started, s.launches))) for s in plan.stages)
    return replace(plan, stages=tuple(stages))


def compiling(plan: Plan) -> Plan:
    """Return a plan that compiles its kernels and launches none."""
    stages = (replace(s, launches=tuple(map(_compiling, s.launches))) for s in plan.stages)
    return replace(plan, stages=tuple(stages))


def _compiling(launch: Launched) -> Launched:
    start = launch.run
    if not isinstance(start, _Start):
        return launch
    return replace(launch, run=partial(start.kernel.run, grid=(start.programs,), warmup=True))


def _started(launch: Launched) -> Launched:
    start = launch.run
    if not isinstance(start, _Start):  # torch's, which clears a tensor
        return launch
    kernel, programs = start.kernel, start.programs
    if not _can_be_launched(start.compiled):
        return replace(launch, run=kernel[(programs,)])
    options = launch.options or {}
    rest = [options[n] for n in kernel.arg_names[start.given :]]
    run = _launching(start.compiled, programs)
    return replace(launch, run=run, args=[*launch.args, *rest], options=None)


def _launching(compiled: Any, programs: int) -> Callable[..., object]:
    """Launches a compiled kernel as Triton does. Where nobody watches launches it leaves out what
    Triton makes for that: a description of each, and two calls of empty chains of hooks."""
    watched = compiled[(programs, 1, 1)]
    run, function, metadata = compiled.run, compiled.function, compiled.packed_metadata

    def launch(*args: Any, stream: int | None = None) -> None:
        runtime = knobs.runtime
        if stream is None or _calls(runtime.launch_enter_hook) or _calls(runtime.launch_exit_hook):
            watched(*args, stream=stream)
        else:
            run(programs, 1, 1, stream, function, metadata, None, None, None, *args)

    return launch


def _calls(hook: Any) -> bool:
    """True if there is a hook, and not an empty chain of hooks."""
    return hook is not None and bool(getattr(hook, "calls", True))


def require_context(device: torch.device) -> None:
    """Let this thread have a CUDA context. A launch makes one, but Triton describes tensors to
    the GPU before, which fails in a thread that has used no GPU yet."""
    if device.type == "cuda" and torch.version.hip is None:
        torch.cuda.mem_get_info(device)
    _THREAD.contexts.add(device.index)


def _can_be_launched(compiled: object) -> bool:
    """True if a compiled kernel may be called without Triton looking at the arguments again.

    False where kernels are interpreted, and on AMD: there they are also compiled for the size
    of a tensor's storage, which the signature of a call leaves out.
    """
    from triton.compiler import CompiledKernel

    return isinstance(compiled, CompiledKernel) and torch.version.hip is None


class Replay:
    """Runs a plan, on its device, whichever is the current one."""

    __slots__ = ("device", "plan", "ran")

    def __init__(self, plan: Plan, backend: str, why: str = "") -> None:
        self.plan, self.device = plan, plan.device
        self.ran = Ran(backend, plan.device, why)

    def __call__(self, values: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        return self.run(*values)

    def run(self, *values: Any) -> tuple[torch.Tensor, ...]:
        """Return the results for inputs and parameters one by one."""
        index = self.device.index
        if index is None:  # on the CPU
            return self.plan(values)
        stream = torch._C._cuda_getCurrentRawStream(index)
        if index != torch._C._cuda_getDevice():
            with torch.cuda.device(self.device):
                return self.plan(values, stream=stream)
        return self.plan(values, stream=stream)


class Repeated:
    """Repeat a call with one choice of schedules or another, which is planned once.

    Args:
        call: calls kernels with schedules, and returns how to repeat that.
        plan: returns the plan of such a call.
        values: of the call: inputs, then parameters.
    """

    def __init__(
        self,
        call: Callable[..., tuple[Outputs, Plan]],
        plan: Callable[[Choice], Plan],
        values: Sequence[Any],
    ) -> None:
        self.call, self.plan, self.values = call, plan, values
        self.replays: dict[tuple[Choice, Empty | None], Replay] = {}

    def __call__(self, choice: Choice, empty: Empty | None = None) -> Outputs:
        replay = self.replays.get((choice, empty))
        if replay is not None:
            return replay(self.values)
        results, plan = self.call(choice, empty=empty)
        self.replays[choice, empty] = Replay(plan, spoken(choice))
        return results

    def compile(self, choice: Choice) -> None:
        """Compile its kernels."""
        compiling(self.plan(choice))(self.values)
