"""Calls that repeat an earlier one: what that one checked, chose and computed is not done again.

A `Recorder` watches a host function through its hooks `empty` and `launch`, and makes a `Plan` of
what it saw: the tensors to allocate, and the kernels to launch, with every argument. `Plans` keeps
one for each look of a call: everything but the elements of tensors and the values of parameters
that only kernels read. A call that looks like an earlier one allocates and launches.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from monocomp.arguments import is_in_float32
from monocomp.blocks.program import SMALL_INT
from monocomp.terms.declarations import Declarations

Look: TypeAlias = tuple[Any, ...]
_PLANS = 256  # that a kernel keeps; the oldest go
_TENSORS = (torch.Tensor, torch.nn.Parameter)
_ALIGNMENT = 16  # bytes; Triton compiles for pointers and integers that this divides
_KINDS = {"int": int, "float": float}
_THREAD = threading.local()  # for which devices a thread has a context


@dataclass(frozen=True, slots=True)
class _Launch:
    """A kernel with its grid, and its arguments but for some that a call gives.

    Of a descriptor a call gives the tensor; the other attributes have been checked.
    """

    run: Callable[..., object]
    args: list[Any]
    options: dict[str, Any]
    given: tuple[tuple[int, str | int], ...]
    described: tuple[tuple[int, str | int, dict[str, Any]], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a call does: allocations, launches, and its results: which tensors, in which shapes
    where these are not their own.

    A given value goes by its name, a tensor that the call allocates by its number.
    """

    device: torch.device
    allocations: tuple[tuple[tuple[int, ...], torch.dtype], ...]
    launches: tuple[_Launch, ...]
    results: tuple[tuple[int, tuple[int, ...] | None], ...]

    def __call__(self, values: Mapping[str, Any]) -> tuple[torch.Tensor, ...]:
        """The results for values of this look."""
        device = self.device
        if device.type == "cuda" and device.index != torch.cuda.current_device():
            with torch.cuda.device(device):
                return self._call(values)
        return self._call(values)

    def _call(self, values: Mapping[str, Any]) -> tuple[torch.Tensor, ...]:
        known: dict[Any, Any] = dict(values)
        for number, (shape, dtype) in enumerate(self.allocations):
            known[number] = torch.empty(shape, dtype=dtype, device=self.device)
        for launch in self.launches:
            args = launch.args.copy()
            for place, name in launch.given:
                args[place] = known[name]
            if launch.described:
                require_context(self.device)
            for place, name, attributes in launch.described:
                args[place] = described = TensorDescriptor.__new__(TensorDescriptor)
                vars(described).update(attributes, base=known[name])
            launch.run(*args, **launch.options)
        return tuple(
            [known[n] if shape is None else known[n].view(shape) for n, shape in self.results]
        )


class Recorder:
    """The hooks of a host function, for one call.

    Args:
        inputs: the tensors of the call by name, no two of which are one object.
        varying: the parameters whose values a plan leaves open.
        params: for each kernel the places of parameters among its arguments.
    """

    def __init__(
        self,
        inputs: Mapping[str, torch.Tensor],
        varying: Sequence[str],
        params: Mapping[str, Mapping[int, str]],
    ) -> None:
        self.names: dict[int, str | int] = {id(t): n for n, t in inputs.items()}
        self.device = next(iter(inputs.values())).device
        self.varying = varying
        self.params = params
        self.allocated: list[torch.Tensor] = []
        self.launches: list[_Launch] = []
        self.is_complete = True

    def empty(
        self, shape: tuple[int, ...], *, dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        """A new tensor on the inputs' device."""
        tensor = torch.empty(shape, dtype=dtype, device=device)
        self.names[id(tensor)] = len(self.allocated)
        self.allocated.append(tensor)
        return tensor

    def launch(self, kernel: Any, programs: int, *args: Any, **options: Any) -> None:
        """Run a kernel."""
        if programs <= 0:
            return
        if any(isinstance(value, TensorDescriptor) for value in args):
            require_context(self.device)
        compiled = kernel[(programs,)](*args, **options)
        given: list[tuple[int, str | int]] = []
        described: list[tuple[int, str | int, dict[str, Any]]] = []
        for place, value in enumerate(args):
            is_described = isinstance(value, TensorDescriptor)
            tensor = value.base if is_described else value
            if isinstance(tensor, torch.Tensor):
                if id(tensor) not in self.names:  # a copy that the host function has made
                    self.is_complete = False
                    return
                name = self.names[id(tensor)]
                if is_described:
                    described.append((place, name, vars(value) | {"base": None}))
                else:
                    given.append((place, name))
        for place, name in self.params.get(kernel.__name__, {}).items():
            if name in self.varying:
                given.append((place, name))
        run, rest = kernel[(programs,)], options
        if _can_be_launched(compiled):
            names = kernel.arg_names[len(args) :]
            run, args, rest = compiled[(programs, 1, 1)], (*args, *(options[n] for n in names)), {}
        template = list(args)
        for place in (*(place for place, _ in given), *(place for place, *_ in described)):
            template[place] = None  # no tensor outlives its call
        self.launches.append(_Launch(run, template, rest, tuple(given), tuple(described)))

    def _origin(self, result: torch.Tensor) -> tuple[int, tuple[int, ...] | None] | None:
        """The number of the tensor that a result is; or is a view of, and its shape."""
        for number, t in enumerate(self.allocated):
            if t is result:
                return number, None
            is_alike = t.dtype == result.dtype and t.numel() == result.numel()
            if is_alike and t.data_ptr() == result.data_ptr():
                return number, tuple(result.shape)
        return None

    def plan(self, results: Sequence[torch.Tensor]) -> Plan | None:
        """What the call did; None if it did more than hooks can see."""
        origins = tuple(o for o in map(self._origin, results) if o is not None)
        if not self.is_complete or len(origins) != len(results):
            return None
        made = tuple((tuple(t.shape), t.dtype) for t in self.allocated)
        return Plan(self.device, made, tuple(self.launches), origins)


def require_context(device: torch.device) -> None:
    """Let this thread have a CUDA context. A launch makes one, but Triton describes tensors to
    the GPU before, which fails in a thread that has used no GPU yet."""
    if device.type == "cuda" and torch.version.hip is None:
        known: set[int | None] = _THREAD.__dict__.setdefault("devices", set())
        if device.index not in known:
            torch.cuda.mem_get_info(device)
            known.add(device.index)


def _can_be_launched(compiled: object) -> bool:
    """May a compiled kernel be called without Triton's looking at the arguments again?

    Not where kernels are interpreted. On AMD they are compiled for the size of a tensor's
    storage too, which the look of a call leaves out.
    """
    from triton.compiler import CompiledKernel

    return isinstance(compiled, CompiledKernel) and torch.version.hip is None


class Plans:
    """The plans of a kernel, by the look of a call.

    Args:
        declared: the program's inputs and parameters.
        checked: the parameters whose values a call may be refused for.
    """

    def __init__(self, declared: Declarations, checked: Iterable[str] = ()) -> None:
        self.inputs = tuple(declared.inputs)
        self.params = declared.params
        self.fixed = {*declared.params_of_extents, *checked}
        self._plans: dict[Look, Plan] = {}
        self._lock = threading.Lock()

    def find(self, values: Mapping[str, object]) -> Plan | None:
        """The plan for a call, if one that looks the same has been kept.

        Args:
            values: inputs and parameters by name, as they were given.
        """
        look = self._look(values)
        return self._plans.get(look) if look is not None else None

    def keep(self, values: Mapping[str, object], plan: Plan) -> None:
        """Remember the plan of a call."""
        look = self._look(values)
        if look is None:
            return
        with self._lock:
            while len(self._plans) >= _PLANS:
                del self._plans[next(iter(self._plans))]
            self._plans[look] = plan

    def varying(self, values: Mapping[str, object]) -> list[str]:
        """The parameters whose values the plan for a call leaves open."""
        return [n for n, v in values.items() if n in self.params and self._varies(n, v)]

    def _look(self, values: Mapping[str, object]) -> Look | None:
        """All that a plan depends on; None for a call that must be looked at closely.

        Of a tensor that is all that Triton compiles for; of an integer that only goes to
        kernels, what Triton distinguishes; of any other parameter, its value.
        """
        look: list[Any] = []
        gradients = torch.is_grad_enabled()
        try:
            for name in self.inputs:
                value: Any = values.get(name)
                if type(value) not in _TENSORS or (gradients and value.requires_grad):
                    return None
                if value.is_neg():  # its elements are others than memory has
                    return None
                look += (value.shape, value.stride(), value.dtype, value.device)
                look.append(value.data_ptr() % _ALIGNMENT)
        except RuntimeError:  # a tensor without strides or storage
            return None
        unseen = len(values) - len(self.inputs)
        for name in self.params if unseen else ():
            if name in values:
                value = values[name]
                if type(value) not in (int, float):
                    return None
                look += (name, self._look_of(name, value))
                unseen -= 1
        return None if unseen else tuple(look)

    def _varies(self, name: str, value: object) -> bool:
        return name not in self.fixed and type(value) is _KINDS[self.params[name].kind]

    def _look_of(self, name: str, value: Any) -> Look:
        if not self._varies(name, value):
            return type(value), value
        if type(value) is float:
            return (is_in_float32(value),)
        narrow, wide = -(1 << 31) <= value < 1 << 31, -(1 << 63) <= value < 1 << 63
        return value == 1, value % _ALIGNMENT == 0, abs(value) < SMALL_INT, narrow, wide
