"""Calls of a kernel: what is given is bound and checked, and a backend runs it.

Backends that emit source keep a runner for each set of kernels, and of each call a plan that
repeats it.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from monocomp import __version__
from monocomp.backends.dialects import DIALECTS, made_for
from monocomp.calls.paths import ALL
from monocomp.declarations.binding import Binding, bind, check_order, signature
from monocomp.declarations.dtypes import dtypes_by_name, is_narrow
from monocomp.declarations.given import (
    check_conversion,
    check_dense,
    check_dtype,
    check_floats,
    check_no_gradients,
    check_params,
    check_tensors,
    host_array,
    in_autocast,
    shape_of,
)
from monocomp.display.notes import Announcer
from monocomp.errors import DeviceError, UsageError
from monocomp.extents.intervals import evaluated
from monocomp.extents.nominal import power_of_two
from monocomp.host.building import host_program, of_tile_program
from monocomp.host.plan import Ran
from monocomp.host.program import HostProgram
from monocomp.host.slow_products import slow_products
from monocomp.machine.locking import BUILDING
from monocomp.planning.notes import notes_on
from monocomp.planning.plan import Plan, Planner
from monocomp.source import check_target

if TYPE_CHECKING:
    import torch

    from monocomp.backends.schedules.schedule import Schedule
    from monocomp.backends.schedules.search import Tuning
    from monocomp.backends.triton.dialect import Dialect
    from monocomp.backends.triton.launch import TritonRunner
    from monocomp.calls.autograd import Forward
    from monocomp.calls.plans import Plans
    from monocomp.host.plan import Repeat
    from monocomp.terms.equations import Equations


NO_PARAMS: dict[str, object] = {}


class Calls:
    """Runs the kernels of a program.

    Args:
        planner: of the program.
        backend: as for `compile`.
        checked: test every computed subscript.
        tf32: let float32 products use the tf32 units.
        deterministic: let sums be added up in the same order each time.
        save: what is kept for gradients, by name; what costs least, unless given.
        root: calls of the program as it is written, unless it is this one.
        path: the steps from that to this one (`paths`).

    Attributes:
        language: the backend whose source runs on a GPU.
        key: a digest of the program and the options: what they come to.
        last: the backend that ran last, on which device, and why.
        names: of inputs, then parameters.
        plans: of calls, where the backend keeps any.
        announcer: tells users what may surprise, also what only a call can know.
    """

    def __init__(
        self,
        planner: Planner,
        backend: str,
        *,
        checked: bool,
        tf32: bool,
        deterministic: bool = False,
        save: tuple[str, ...] | None = None,
        root: Calls | None = None,
        path: tuple[str, ...] = (),
    ) -> None:
        self.declared = planner.equations.declared
        self.has_order = self.declared.has_order
        self.planner = planner
        self.backend = backend
        self.language = backend if backend in DIALECTS else "triton"
        self.checked = checked
        self.tf32 = tf32
        self.deterministic = deterministic
        self.save = save
        self.root = root or self
        self.path = path
        self.last: Ran | None = None
        like = tuple(o.like for o in self.declared.outputs)
        options = backend, checked, tf32, planner.processors, planner.steps, planner.rules, like
        how = (*options, *(() if save is None else (save,)), *(("deterministic",) * deterministic))
        # The same for the same program and options; an attribute, as Dynamo looks at it.
        text = f"{__version__}\n{how!r}\n{planner.equations.written()}".encode(
            errors="backslashreplace"
        )
        self.key = hashlib.blake2b(text, digest_size=8).hexdigest()
        self.kinds = {n: i.kind for n, i in self.declared.inputs.items()}
        self.kinds |= {n: p.kind for n, p in self.declared.params.items()}
        self.names = tuple(self.kinds)
        self._not_given = (None,) * len(self.declared.params)
        self._count = len(self.declared.outputs)
        self._forwards: dict[object, Forward] = {}
        self._runners: dict[tuple[str, ...], TritonRunner] = {}
        self.plans: Plans | None = None
        self.announcer: Announcer = self.root.announcer if root is not None else Announcer()
        self._has_told = False
        ALL.add(self)

    def of(self, equations: Equations, *steps: str) -> Calls:
        """Return calls of another program, which is derived of this one, with the same options. The
        steps to it are those of `paths`."""
        its = self.planner
        planner = Planner(equations, rules=its.rules, processors=its.processors)
        return Calls(
            planner,
            self.backend,
            checked=self.checked,
            tf32=self.tf32,
            deterministic=self.deterministic,
            root=self.root,
            path=(*self.path, *steps),
        )

    def run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return the result of a call: a tensor, or a tuple of the outputs."""
        if args and not self.has_order:
            check_order(self.declared)
        plans = self.plans
        if plans is not None:
            values = args
            if kwargs or self._not_given:
                is_in_order = not args and tuple(kwargs) == plans.names
                values = tuple(kwargs.values()) if is_in_order else self._in_order(args, kwargs)
            last = plans.last[plans.is_recorded()]
            if last is not None and len(values) == plans.count:
                results = last.results(*values)
                if results is not None:
                    self.last = last.ran
                    return results[0] if self._count == 1 else results[: self._count]
            values, repeat = plans.of_call(values)
            if repeat is not None:
                self.last = repeat.ran
                return _unpacked(repeat(values))
        names = self.declared.inputs
        if not kwargs and len(args) == len(names) == len(self.kinds):  # there are no parameters
            inputs, params = dict(zip(names, args, strict=True)), NO_PARAMS
        else:
            inputs, params = signature(self.declared, args, kwargs)
        if self.backend == "numpy":
            check_no_gradients({**inputs, **params}, self.backend)
            return _unpacked(self.call({**inputs, **params}))
        return _unpacked(self.differentiable({**in_autocast(inputs), **params}))

    def _in_order(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """Inputs, then parameters, None for those that are not given; nothing where arguments are
        other than that."""
        if not kwargs:
            return (*args, *self._not_given) if self._not_given else args
        # None would pass for a parameter that is not given, but for no input.
        if not args and not self._not_given and tuple(kwargs) == self.names:
            return tuple(kwargs.values())
        by_name = [*map(kwargs.get, self.names[len(args) :])]
        used = len([v for v in by_name if v is not None])
        is_right = used == len(kwargs) and len(args) <= len(self.declared.inputs)
        return (*args, *by_name) if is_right else ()

    def found(self, values: Sequence[Any], recorded: bool = False) -> Repeat | None:
        """Return what repeats a call with these inputs and parameters in order, if it is known."""
        return None if self.plans is None else self.plans.find(values, recorded)

    def _repeat(
        self, values: Sequence[Any], recorded: bool = False
    ) -> tuple[torch.Tensor, ...] | None:
        """Return the results of a call like an earlier one."""
        repeat = self.found(values, recorded)
        if repeat is None:
            return None
        self.last = repeat.ran
        return repeat(values)

    def _separated(
        self, values: Mapping[str, Any], wrt: Sequence[str]
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return the tensors that autograd is to see, and other parameters."""
        if len(values) == len(self.declared.inputs):
            return values, NO_PARAMS
        given = {n: v for n, v in values.items() if n in self.declared.inputs or n in wrt}
        return given, {n: v for n, v in values.items() if n not in given}

    def differentiable(self, values: Mapping[str, Any]) -> tuple[torch.Tensor, ...]:
        """Return the results for torch tensors and parameters by name, with their gradients if
        any is asked for."""
        autograd, ordered = _autograd(), self._in_order((), values)
        if not autograd.is_watched():
            repeated = self._repeat(ordered, autograd.is_grad_enabled())
            if repeated is not None:
                return repeated
        if autograd.is_traced(values):
            from monocomp.calls.operators import operator

            for name in self.declared.inputs:
                check_dense(name, values[name])
            return operator(self, values)(values)
        wrt = autograd.wanted(self.kinds, values)
        if wrt is None:
            return self.call(values)
        forward = self.forward(wrt, values)
        given, others = self._separated(values, wrt)
        results: tuple[torch.Tensor, ...] = _recording().recorded(forward, given, others)
        self.last = forward.calls.last
        replay = None if autograd.is_transformed() else forward.calls.found(ordered)
        if replay is not None:
            repeat = _recording().Recorded(forward, given, replay)
            self._with_plans().keep(ordered, repeat, recorded=True)
        return results

    def forward(self, wrt: tuple[str, ...], values: Mapping[str, Any] | None = None) -> Forward:
        """Return the program for calls whose gradients with respect to some inputs are asked
        for: for sizes like those of values by name, or usual ones. What is best to save at small
        sizes is told by how many kernels are launched, and a tape launches none."""
        forward = self.forward_at(wrt, {})
        if values is None or not forward.depends_on_sizes:
            return forward
        devices = (values[n].device for n in self.declared.inputs)
        if not any(self._backend_for(device) in DIALECTS for device in devices):
            return forward
        return self.forward_at(wrt, self._sizes_like(values))

    def forward_at(self, wrt: tuple[str, ...], extents: Mapping[str, int]) -> Forward:
        """Return the program for calls with gradients, at sizes by index if any are given."""
        key = wrt, *extents.items()
        forward = self._forwards.get(key)
        if forward is None:
            forward = self._forwards.setdefault(key, _autograd().Forward(self, wrt, extents))
        return forward

    def _sizes_like(self, values: Mapping[str, Any]) -> dict[str, int]:
        """Return powers of two like the sizes of a call; none where they are symbols."""
        shapes = {n: tuple(values[n].shape) for n in self.declared.inputs}
        params = {n: values[n] for n in self.declared.params if n in values}
        sizes = [*(s for shape in shapes.values() for s in shape), *params.values()]
        if any(isinstance(s, _autograd().SYMBOLS) for s in sizes):
            return {}
        extents = self.bind(shapes, params).extents
        return {n: power_of_two(extents[n]) for n in self.declared.extent_of}

    def call(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the results for inputs and parameters by name, without gradients."""
        repeated = self._repeat(self._in_order((), values))
        if repeated is not None:
            return repeated
        inputs, params, binding = self._bound((), values)
        if self.backend == "numpy":
            return self._run_numpy(inputs, binding)
        return self._run_torch_tensors(inputs, params, binding)

    def tune(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        seconds: float,
        candidates: int,
        progress: Callable[[str, int, int], None],
    ) -> Tuning:
        """Search schedules for calls like this one; see `Kernel.tune`."""
        import torch

        if not seconds > 0 or candidates < 1:
            raise UsageError("a search takes more than 0 seconds and at least 1 candidate")
        inputs, _, binding = self._bound(args, kwargs)
        check_tensors(inputs, torch)
        device = next((t.device for t in inputs.values()), torch.device("cpu"))
        if device.type != "cuda" or self._backend_for(device) not in DIALECTS:
            raise DeviceError(
                "schedules are searched for emitted source on a GPU, and this call runs on "
                f"{self._backend_for(device)} ({device})",
                help="move the inputs to the GPU",
            )
        check_floats(binding.params, self._backend_for(device))
        tuning = self.runner(inputs, binding).tune(
            inputs,
            binding.params,
            binding.extents,
            seconds=seconds,
            candidates=candidates,
            progress=progress,
        )
        self.plans = None  # they launch what was chosen before
        return tuning

    def bind(self, shapes: Mapping[str, tuple[int, ...]], params: Mapping[str, object]) -> Binding:
        """Return the extents and parameters of a call with inputs of these shapes."""
        origin = self.planner.equations.origin
        return bind(self.declared, origin, shapes, params, evaluated)

    def _bound(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, object], Binding]:
        """Return the inputs and parameters of a call by name, checked, and the sizes."""
        inputs, params = signature(self.declared, args, kwargs)
        shapes = {n: shape_of(n, t) for n, t in inputs.items()}
        binding = self.bind(shapes, params)
        check_params(binding.params)
        for name, tensor in inputs.items():
            check_dtype(self.declared.inputs[name], tensor)
        return inputs, params, binding

    def _run_numpy(self, inputs: Mapping[str, Any], binding: Binding) -> tuple[Any, ...]:
        import numpy as np

        from monocomp.backends import numpy as backend

        arrays = {n: np.asarray(host_array(t)) for n, t in inputs.items()}
        plan, host = self._plan(_narrow(inputs), binding)
        programs = self.planner.processors or 1
        results = backend.run_all(
            host, plan.kernels, arrays, binding.params, programs, checked=self.checked
        )
        self.last = Ran("numpy", None)
        return results

    def _run_torch_tensors(
        self, inputs: Mapping[str, Any], params: Mapping[str, object], binding: Binding
    ) -> tuple[torch.Tensor, ...]:
        import torch

        check_tensors(inputs, torch)
        device = next(iter(inputs.values())).device if inputs else torch.device("cpu")
        if self._backend_for(device) in DIALECTS:
            return self._run_emitted(inputs, params, binding)
        from monocomp.backends import torch as backend

        if not any(t.dtype == torch.float64 for t in inputs.values()):
            check_floats(binding.params, "torch")
        plan, host = self._plan(_narrow(inputs), binding, in_memory=True)
        plans, programs = self._with_plans(), self.planner.processors or 1
        values, varying = binding.params, plans.varying(params)
        repeat = backend.repeated(
            host, plan.kernels, inputs, values, programs, varying=varying, checked=self.checked
        )
        results = repeat((*inputs.values(), *values.values()))
        plans.keep(self._in_order((), {**inputs, **params}), repeat)
        self.last = Ran("torch", device)
        return results

    def _plan(
        self, narrow: Mapping[str, str], binding: Binding, in_memory: bool = False
    ) -> tuple[Plan, HostProgram]:
        """Return the plan whose tile programs are interpreted, and the host program around them."""
        plan = self.planner.plan(binding.extents, in_memory=in_memory, narrow=narrow)
        self._tell_of(plan)
        return plan, host_program(plan.program, [of_tile_program(k) for k in plan.kernels])

    def _tell_of(self, plan: Plan) -> None:
        """Warn of what the first plan of the program as it is written stores and repeats."""
        if self.root is self and not self._has_told:
            self._has_told = True
            self.announcer.tell(notes_on(plan), plan.program.origin.text)

    def _backend_for(self, device: torch.device) -> str:
        if self.backend != "auto":
            return self.backend
        has_triton = importlib.util.find_spec("triton") is not None
        return "triton" if device.type == "cuda" and has_triton and not self.checked else "torch"

    def _run_emitted(
        self, inputs: Mapping[str, torch.Tensor], params: Mapping[str, object], binding: Binding
    ) -> tuple[torch.Tensor, ...]:
        from monocomp.backends.triton.replay import Replay

        runner, why = self._fastest(inputs, binding)
        check_floats(binding.params, self.language)
        plans = self._with_plans()
        varying = plans.varying(params)
        ran, results, plan = runner(inputs, binding.params, binding.extents, varying)
        ran = ran._replace(why="; ".join(filter(None, (why, ran.why))))
        if plan is not None:
            repeat = Replay(plan, ran.backend, ran.why)
            plans.keep(self._in_order((), {**inputs, **params}), repeat)
        self.last = ran
        return results

    def _with_plans(self) -> Plans:
        """Return the plans that repeat its calls, which it keeps from now on."""
        from monocomp.calls.plans import Plans

        if self.plans is None:
            self.plans = Plans(self.declared)
        return self.plans

    def runner(self, inputs: Mapping[str, torch.Tensor], binding: Binding) -> TritonRunner:
        """Return what launches the kernels for the sizes and dtypes of a call."""
        return self._fastest(inputs, binding)[0]

    def _fastest(
        self, inputs: Mapping[str, torch.Tensor], binding: Binding
    ) -> tuple[TritonRunner, str]:
        """Return what launches kernels, each in the dialects of the backend, by the fastest of
        several plans, and what was measured of these."""
        from monocomp.backends.triton import launch, rivals

        dialect = DIALECTS[self.language]()
        device = launch.device_of(dialect, inputs)
        check_target(dialect, launch.target_of(device))
        dialects = [dialect]
        if self.backend == "auto":
            dialects += made_for(launch.target_of(device))
        processors = self.planner.processors if dialect.merges else 1
        if processors is None and device.type == "cuda" and not launch.interpreted():
            processors = launch.multiprocessors(device)
        planned = partial(self.planner.plan, binding.extents, narrow=_narrow(inputs))
        plans = rivals.plans(planned, processors, dialects, adds=not self.deterministic)
        runners = [self._runner_of(plan, inputs, dialects) for plan in plans]
        return rivals.fastest(runners, inputs, binding.params, binding.extents)

    def _runner_of(
        self, plan: Plan, inputs: Mapping[str, torch.Tensor], dialects: Sequence[Dialect]
    ) -> TritonRunner:
        """Return what launches the kernels of a plan, each of them in some dialects."""
        narrow = _narrow(inputs)
        ids = (str(id(k)) for k in plan.kernels)
        names = (d.name for d in dialects)
        key = (*names, str(len(plan.kernels)), *ids, *map(str, narrow.items()))
        runner = self._runners.get(key)
        written = self.root.planner.equations
        slow = slow_products(written, plan, dtypes_by_name(inputs), self.tf32)
        self.announcer.tell(slow, written.origin.text)
        if runner is None:
            self._tell_of(plan)
            check_conversion(next(iter(inputs.values())).device, narrow)
            runner = self._runners.setdefault(key, self._new_runner(plan, narrow, dialects))
        return runner

    def _new_runner(
        self, plan: Plan, dtypes: Mapping[str, str], dialects: Sequence[Dialect]
    ) -> TritonRunner:
        """Return what launches the kernels of a plan for inputs of some dtypes."""
        from monocomp.backends.triton.emit import Module, Part, emit
        from monocomp.backends.triton.launch import TritonRunner

        outline = plan.derivation.outline()
        start, kernels = self.planner.equations.of_dtypes(dtypes), plan.kernels
        precision = "tf32" if self.tf32 else "ieee"

        def write(schedules: Sequence[Schedule]) -> Module:
            with BUILDING:
                part = Part(start, kernels, schedules, plan.program, {}, outline)
                return emit(part, precision)

        processors = self.planner.processors
        return TritonRunner(plan.program, kernels, write, precision, processors, dialects)


@cache
def _autograd() -> ModuleType:
    """Return the module that needs torch, which calls of the backend numpy do without. It is
    cached, as an import takes microseconds each time."""
    from monocomp.calls import autograd

    return autograd


@cache
def _recording() -> ModuleType:
    """Return the module for calls that autograd records."""
    from monocomp.calls import recording

    return recording


def _narrow(inputs: Mapping[str, Any]) -> dict[str, str]:
    """Return the dtypes of floats of 8 bits: kernels take all others as they come."""
    return {n: str(t.dtype).removeprefix("torch.") for n, t in inputs.items() if is_narrow(t)}


def _unpacked(results: tuple[Any, ...]) -> Any:
    return results[0] if len(results) == 1 else results
