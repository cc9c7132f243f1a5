"""A host program evaluated for a call: all but its tensors becomes numbers, once for all calls of
the same signature."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import itemgetter, methodcaller
from typing import Any, Protocol, cast

from monocomp.errors import InternalError, UnsupportedError
from monocomp.extents.nominal import split_lengths
from monocomp.host import arguments as A
from monocomp.host import program as H
from monocomp.host.plan import Gather, Launched, Plan, Stage, gather


class Target(Protocol):
    """A backend's operations for host programs. Tensors are those of the call, or stand-ins."""

    device: Any

    def promoted(self, tensors: Sequence[Any], default: str) -> Any:
        """The dtype of results."""

    def dtype(self, buffer: H.Buffer, promoted: Any) -> Any:
        """Return the dtype of a buffer."""

    def allocation(self, shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
        """Return a function that allocates a tensor."""

    def stand_in(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """A tensor that need not have elements."""

    def clear(self, tensor: Any) -> object:
        """Write 0 to all elements of a tensor."""

    def sort(self, tensor: Any, order: Any, first: Any, last: Any, kept: tuple[int, ...]) -> object:
        """Write what `host.program.Sort` says."""

    def kernel(self, number: int, programs: int) -> Callable[..., object]:
        """Return a function that runs a kernel in a number of program instances."""


class Scheduled(Target, Protocol):
    """The same for kernels that have schedules, and arguments that depend on layouts.

    What makes descriptors of such tensors is None, and so is what copies them, where it cannot or
    need not be done; a copy comes with its stand-in.
    """

    precision: str

    def index(self, wide: bool) -> Any: ...
    def is_wide(self, tensors: Sequence[Any], params: Sequence[float]) -> bool: ...
    def is_fast(self, tensor: Any, dtype: Any) -> bool: ...
    def step(self, *held: tuple[Any, int]) -> int: ...
    def describe(self, tensor: Any, block: list[int]) -> Callable[[Any], Any] | None: ...
    def aligned(self, tensor: Any, position: int, copy: int) -> tuple[Any, Launched] | None: ...


class Evaluation:
    """Evaluates a host program for one call.

    Args:
        program: the host program.
        target: the backend's part.
        tensors: the inputs.
        params: the values of parameters.
        configs: for each kernel what its schedule chooses, by the names of its parameters.
        varying: the parameters whose values the plan leaves open.
    """

    def __init__(
        self,
        program: H.HostProgram,
        target: Target,
        tensors: Mapping[str, Any],
        params: Mapping[str, int | float],
        configs: Sequence[Mapping[str, int]],
        varying: Collection[str] = (),
    ) -> None:
        self.program = program
        self.target = target
        self.tensors = dict(tensors)
        self.params = dict(params)
        self.configs = configs
        self.varying = varying
        self.sizes: dict[str, int] = {}
        self.lengths: dict[str, int] = {}  # of axes that two tiles hold
        # Where a plan has them.
        self.positions = {n: position for position, n in enumerate((*tensors, *params))}
        self.next = len(self.positions)
        self.dtype: Any = None
        self.config: dict[str, int] = {}
        self.is_described = self.is_fast = self.is_wide = False
        self.programs = 1
        self.descriptors: dict[str, Callable[[Any], Any] | None] = {}
        self.made: list[tuple[Callable[..., Any], int | None]] = []
        self.launches: list[Launched] = []
        self.origins: dict[int, int | None] = {}  # of what is made, the value that it is made of
        self.stages: list[Stage] = []
        self.results = gather()

    def plan(self) -> Plan:
        """Evaluate the program, and return the plan of the call."""
        for s in self.program.body:
            self._run(s)
        self._end_stage()
        return Plan(self.target.device, tuple(self.stages), self.results)

    @property
    def scheduled(self) -> Scheduled:
        """The target, where kernels have schedules."""
        return cast(Scheduled, self.target)

    def _run(self, s: H.Statement) -> None:
        match s:
            case H.Sizes():
                shape = zip(s.extents, self.tensors[s.tensor].shape, strict=True)
                self.sizes |= {e: int(n) for e, n in shape if e is not None}
            case H.Bound():
                self.sizes[s.extent] = self._number(s.value)
            case H.Split():
                config = self.configs[s.kernel]
                programs = max(1, self._number(s.others, config))
                self.params[s.param] = max(1, config[A.PROGRAMS] // programs)
            case H.SplitPadding():
                both = split_lengths(self.sizes[s.extent])
                self.lengths[s.first], self.lengths[s.second] = both
            case H.CheckShapes():
                for t in s.tensors:
                    if tuple(self.tensors[t.tensor].shape) != self._shape(t.shape):
                        raise InternalError(f"{t.tensor} has not the shape {self._shape(t.shape)}")
            case H.CheckEmpty():
                if self.sizes[s.extent] != 0:
                    raise InternalError(f"kernels are for {s.extent} of size 0")
            case H.CheckSome():
                others = sum(math.prod(self.tensors[n].shape) for n in s.buffers)
                if self.sizes[s.extent] == 0 < others:
                    raise InternalError(f"kernels are for {s.extent} of larger sizes than 0")
            case H.Promote():
                found = [self.tensors[n] for n in s.tensors]
                self.dtype = self.target.promoted(found, s.default)
            case H.Convert():
                self._convert(s)
            case H.Buffer():
                beside = [self.tensors[n] for n in s.beside]
                found = self.target.promoted(beside, "") if beside else self.dtype
                self._allocate(s.name, self._shape(s.shape), self.target.dtype(s, found))
            case H.Clear():
                self.launches.append(Launched(self.target.clear, self._gather(s.tensor), [], {}))
            case H.Free():
                self._end_stage(s.tensors)
            case H.Sort():
                sorted = self._gather(s.tensor, s.order, s.first, s.last)
                self.launches.append(Launched(self.target.sort, sorted, [], {"kept": s.kept}))
            case H.Align():
                if self._number(s.programs) >= s.least:
                    for name in s.tensors:
                        self._align(name)
            case H.View():
                self._view(s.name, methodcaller("reshape", self._shape(s.shape)), s.tensor)
            case H.Choose():
                self.config = dict(self.configs[s.kernel])
                self.is_described = bool(self.config.pop(A.DESCRIPTORS, False))
                self.config.pop(A.PROGRAMS, None)
            case H.Fast():
                self.is_fast = self.scheduled.is_fast(self.tensors[s.tensor], self.dtype)
            case H.Wide():
                params = [self.params[n] for n in s.params]
                tensors = [self.tensors[n] for n in s.tensors]
                self.is_wide = self.scheduled.is_wide(tensors, params)
            case H.Programs():
                self.programs = self._number(s.value)
            case H.Describe():
                for d in s.descriptors:
                    self._describe(d, s.is_required)
            case H.Launch():
                self._launch(s)
            case H.Slices():
                for start in range(0, self.sizes[s.whole], s.length):
                    self._slice(s, start)
            case H.Return():
                self.results = self._gather(*s.tensors)

    # --- numbers ----------------------------------------------------------------------

    def _number(self, n: A.Number, config: Mapping[str, int] | None = None) -> Any:
        """The value of a number, under the schedule of the next kernel or under another one."""
        match n.op:
            case "const":
                return n.attr
            case "size":
                return self.sizes[n.attr]
            case "param":
                return self.params[n.attr]
            case "setting":
                return (self.config if config is None else config)[n.attr]
            case "length":
                return self.lengths[n.attr]
        return A.FUNCTIONS[n.op](*(self._number(a, config) for a in n.args))

    def _shape(self, extents: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(self.sizes[e] for e in extents)

    # --- tensors ----------------------------------------------------------------------

    def _make(self, name: str, make: Callable[..., Any], of: str | None = None) -> None:
        """Let a name stand for something new, made of another's value or of none."""
        origin = None if of is None else self.positions[of]
        self.made.append((make, origin))
        self.origins[self.next] = origin
        self.positions[name] = self.next
        self.next += 1

    def _view(self, name: str, view: Callable[[Any], Any], of: str) -> None:
        """Let a name stand for a view of another's value, which kernels may read."""
        self._make(name, view, of)
        self.tensors[name] = view(self.tensors[of])

    def _end_stage(self, freed: tuple[str, ...] = ()) -> None:
        """Go on with another stage, without these tensors and what was made of them."""
        gone = {self.positions[n] for n in freed}
        for made, origin in self.origins.items():
            gone |= {made} if origin in gone else set()
        self.stages.append(Stage(tuple(self.made), tuple(self.launches), tuple(sorted(gone))))
        self.made, self.launches = [], []

    def _gather(self, *names: str) -> Gather:
        return gather(*(self.positions[n] for n in names))

    def _allocate(self, name: str, shape: tuple[int, ...], dtype: Any) -> None:
        self._make(name, self.target.allocation(shape, dtype))
        self.tensors[name] = self.target.stand_in(shape, dtype)

    def _convert(self, s: H.Convert) -> None:
        if len({self.tensors[n].dtype for n in s.tensors}) == 1:
            return
        for name in s.tensors:
            if self.tensors[name].dtype != self.dtype:
                self._make(name, methodcaller("to", self.dtype), name)
                self.tensors[name] = self.tensors[name].to("meta", self.dtype)

    def _slice(self, s: H.Slices, start: int) -> None:
        """The statements for the slice from an element on."""
        stop = min(start + s.length, self.sizes[s.whole])
        self.sizes[s.part] = stop - start
        if s.start is not None:
            self.params[s.start] = start
        for view in s.views:
            position = (*[slice(None)] * view.dim, slice(start, stop))
            self._view(view.name, itemgetter(position), view.tensor)
        for inner in s.body:
            self._run(inner)

    def _align(self, name: str) -> None:
        found = self.scheduled.aligned(self.tensors[name], self.positions[name], self.next)
        if found is not None:
            self.tensors[name] = found[0]
            self._make(name, self.target.allocation(tuple(found[0].shape), found[0].dtype))
            self.launches.append(found[1])

    def _describe(self, d: A.Descriptor, is_required: bool) -> None:
        make, tensor = None, self.tensors[d.tensor]
        if (self.is_described or is_required) and not self.is_wide:
            block = [1 if n is None else self._number(n) for n in d.lengths]
            make = self.scheduled.describe(tensor, block)
        if is_required and make is None:
            raise UnsupportedError(
                f"this backend loads {d.tensor} by descriptors, and none fits it",
                notes=[
                    f"its shape is {tuple(tensor.shape)}, its strides {tensor.stride()}, and its "
                    f"dtype {str(tensor.dtype).removeprefix('torch.')}",
                    "descriptors take elements of 16 bits without gaps in the last dimension, "
                    "other strides that 16 bytes divide, no size of 0, and offsets below 2**31",
                ],
                help=f"give {d.tensor}.to(torch.bfloat16).contiguous(), or compile with "
                "backend='triton'",
            )
        self.descriptors[d.parameter] = make

    # --- launches ---------------------------------------------------------------------

    def _launch(self, s: H.Launch) -> None:
        if self.programs <= 0:
            return
        args: list[Any] = []
        tensors: list[str] = []
        varying: list[tuple[int, int, Callable[[Any], Any] | None]] = []
        options: dict[str, Any] = {}
        for a in s.arguments:
            if not a.is_positional:
                options[a.parameter] = self._value(a.value)
                continue
            match a.value:
                case A.Pointer(tensor) if not args:
                    tensors.append(tensor)
                    continue
                case A.Pointer(tensor):
                    varying.append((len(args), self.positions[tensor], None))
                case A.Number("param", attr=name) if name in self.varying:
                    varying.append((len(args), self.positions[name], None))
                case A.Descriptor(parameter, tensor):
                    make = self.descriptors[parameter]
                    if make is not None:
                        varying.append((len(args), self.positions[tensor], make))
            args.append(self._value(a.value))
        run, options = self.target.kernel(s.kernel, self.programs), options | self.config
        found = Launched(run, self._gather(*tensors), args, options, tuple(varying))
        self.launches.append(found)

    def _value(self, value: A.Value) -> Any:
        """Return the value of an argument; None where a call gives it."""
        match value:
            case A.Stride():
                return self.tensors[value.tensor].stride(value.dim)
            case A.Number("param", attr=name) if name in self.varying:
                return None
            case A.Number():
                return self._number(value)
            case A.Step():
                return self.scheduled.step(*((self.tensors[x.tensor], x.dim) for x in value.held))
            case A.Flag("index"):
                return self.scheduled.index(self.is_wide)
            case A.Flag("precision"):
                return self.scheduled.precision
            case A.Flag("fast"):
                return self.is_fast
        return None
