"""A host program evaluated for a call: all but its tensors becomes numbers, once for all calls of
the same signature."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, cast

from monocomp.errors import InternalError
from monocomp.host.plan import Launched, Plan
from monocomp.host.program import (
    DESCRIPTORS,
    POSITIONAL,
    PROGRAMS,
    Align,
    Bound,
    Buffer,
    CheckEmpty,
    CheckShapes,
    CheckSome,
    Choose,
    Convert,
    Count,
    Describe,
    Descriptor,
    Even,
    Extent,
    Fast,
    Flag,
    HostProgram,
    Launch,
    Length,
    Param,
    Pointer,
    Programs,
    Promote,
    Return,
    Size,
    Split,
    Statement,
    Step,
    Stride,
    TwoTiles,
    Value,
    View,
    Wide,
)
from monocomp.intervals import evaluated


class Target(Protocol):
    """What a backend does for host programs. Tensors are as they are given, or stand-ins."""

    device: Any

    def promoted(self, tensors: Sequence[Any], default: str) -> Any:
        """The dtype of results."""

    def dtype(self, buffer: Buffer, promoted: Any) -> Any:
        """That of a buffer."""

    def stand_in(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """A tensor that need not have elements."""

    def kernel(self, number: int, programs: int) -> Callable[..., object]:
        """What runs a kernel, in so many program instances."""


class Scheduled(Target, Protocol):
    """The same for kernels that have schedules; `precision` is that of products."""

    precision: str

    def tile(self, size: int) -> int:
        """The length of the tile that holds an axis."""

    def two_tiles(self, size: int) -> tuple[int, int]:
        """The lengths of two."""

    def index(self, wide: bool) -> Any:
        """The type of indices."""

    def is_wide(self, tensors: Sequence[Any], params: Sequence[float]) -> bool:
        """Do offsets, or sums with parameters, leave 32 bits?"""

    def is_fast(self, tensor: Any, dtype: Any) -> bool:
        """May functions be as accurate as results of 16 bits?"""

    def step(self, *held: tuple[Any, int]) -> int:
        """What divides the strides of tensors but along one dimension each."""

    def describe(self, tensor: Any, block: list[int]) -> Callable[[Any], Any] | None:
        """What makes descriptors of such tensors, if their layout can have them."""

    def aligned(self, tensor: Any, name: str, copy: str) -> tuple[Any, Launched] | None:
        """A copy's stand-in, and what copies, if rows are odd: from one name to another."""


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
        program: HostProgram,
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
        self.names = {n: n for n in tensors}  # what a plan has for a tensor
        self.dtype: Any = None
        self.config: dict[str, int] = {}
        self.is_described = self.is_fast = self.is_wide = False
        self.programs = 1
        self.descriptors: dict[str, Callable[[Any], Any] | None] = {}
        self.converted: list[tuple[str, Any]] = []
        self.allocations: list[tuple[str, tuple[int, ...], Any]] = []
        self.launches: list[Launched] = []
        self.shapes: dict[str, tuple[int, ...] | None] = {}  # of views
        self.results: tuple[tuple[str, tuple[int, ...] | None], ...] = ()

    def plan(self) -> Plan:
        """What the call does."""
        for s in self.program.body:
            self._run(s)
        return Plan(
            self.target.device,
            tuple(self.converted),
            tuple(self.allocations),
            tuple(self.launches),
            self.results,
        )

    @property
    def scheduled(self) -> Scheduled:
        """The target, where kernels have schedules."""
        return cast(Scheduled, self.target)

    def _run(self, s: Statement) -> None:
        match s:
            case Size():
                self.sizes[s.extent] = int(self.tensors[s.tensor].shape[s.dim])
            case Bound():
                self.sizes[s.extent] = self._number(s)
            case Split():
                config = self.configs[s.kernel]
                programs = max(1, self._count(s.grid, config))
                self.params[s.param] = max(1, config[PROGRAMS] // programs)
            case TwoTiles():
                both = self.scheduled.two_tiles(self.sizes[s.extent])
                self.lengths[s.first], self.lengths[s.second] = both
            case CheckShapes():
                for name, extents in s.tensors:
                    if tuple(self.tensors[name].shape) != self._shape(extents):
                        raise InternalError(f"{name} has not the shape {self._shape(extents)}")
            case CheckEmpty():
                if self.sizes[s.extent] != 0:
                    raise InternalError(f"kernels are for {s.extent} of size 0")
            case CheckSome():
                others = sum(math.prod(self.tensors[n].shape) for n in s.buffers)
                if self.sizes[s.extent] == 0 < others:
                    raise InternalError(f"kernels are for {s.extent} of larger sizes than 0")
            case Promote():
                found = [self.tensors[n] for n in s.tensors]
                self.dtype = self.target.promoted(found, s.default)
            case Convert():
                self._convert(s)
            case Buffer():
                self._allocate(s.name, self._shape(s.shape), self.target.dtype(s, self.dtype))
            case Align():
                if self._count(s.rows, self.config) >= s.least:
                    for name in s.tensors:
                        self._align(name)
            case View():
                self.names[s.name] = self.names[s.tensor]
                self.shapes[s.name] = self._shape(s.shape)
            case Choose():
                self.config = dict(self.configs[s.kernel])
                self.is_described = bool(self.config.pop(DESCRIPTORS, False))
                self.config.pop(PROGRAMS, None)
            case Fast():
                self.is_fast = self.scheduled.is_fast(self.tensors[s.tensor], self.dtype)
            case Wide():
                params = [self.params[n] for n in s.params]
                tensors = [self.tensors[n] for n in s.tensors]
                self.is_wide = self.scheduled.is_wide(tensors, params)
            case Programs():
                self.programs = self._count(s.grid, self.config)
            case Describe():
                for d in s.descriptors:
                    self._describe(d)
            case Launch():
                self._launch(s)
            case Return():
                self.results = tuple((self.names[n], self.shapes.get(n)) for n in s.tensors)

    # --- numbers ----------------------------------------------------------------------

    def _number(self, s: Bound) -> int:
        found = evaluated(s.value, self.sizes, self.params)
        if found is None:
            raise InternalError(f"the size of {s.extent} is not known")
        return found

    def _shape(self, extents: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(self.sizes[e] for e in extents)

    def _count(self, grid: tuple[Count, ...], config: Mapping[str, int]) -> int:
        """How many program instances there are."""
        return math.prod(
            -(-self.sizes[c.extent] // (1 if c.block is None else config[c.block])) for c in grid
        )

    def _length(self, length: Length) -> int:
        match length.tile:
            case "block":
                return self.config[length.parameter]
            case "one":
                return self.scheduled.tile(self.sizes[length.extent])
        return self.lengths[length.axis]

    def _is_even(self, length: Length) -> bool:
        size, found = self.sizes[length.extent], self._length(length)
        match length.tile:
            case "block":
                return size % found == 0
            case "one":
                return size == found
            case "first":
                return size >= found
        return size == self.lengths[str(length.first)] + found

    # --- tensors ----------------------------------------------------------------------

    def _allocate(self, name: str, shape: tuple[int, ...], dtype: Any) -> None:
        self.names[name] = name
        self.allocations.append((name, shape, dtype))
        self.tensors[name] = self.target.stand_in(shape, dtype)

    def _convert(self, s: Convert) -> None:
        if self.tensors[s.left].dtype == self.tensors[s.right].dtype:
            return
        for name in (s.left, s.right):
            if self.tensors[name].dtype != self.dtype:
                self.converted.append((name, self.dtype))
                self.tensors[name] = self.tensors[name].to("meta", self.dtype)

    def _align(self, name: str) -> None:
        copy = f"{name} aligned"  # no name of the program has a blank
        found = self.scheduled.aligned(self.tensors[name], self.names[name], copy)
        if found is not None:
            self.names[name], self.tensors[name] = copy, found[0]
            self.allocations.append((copy, tuple(found[0].shape), found[0].dtype))
            self.launches.append(found[1])

    def _describe(self, d: Descriptor) -> None:
        self.descriptors[d.parameter] = None
        if self.is_described and not self.is_wide:
            block = [1 if n is None else self._length(n) for n in d.lengths]
            self.descriptors[d.parameter] = self.scheduled.describe(self.tensors[d.tensor], block)

    # --- launches ---------------------------------------------------------------------

    def _launch(self, s: Launch) -> None:
        if self.programs <= 0:
            return
        args: list[Any] = []
        given: list[tuple[int, str]] = []
        made: list[tuple[int, str, Callable[[Any], Any]]] = []
        options: dict[str, Any] = {}
        for a in s.arguments:
            if not isinstance(a.value, POSITIONAL):
                options[a.parameter] = self._value(a.value)
                continue
            match a.value:
                case Pointer(tensor):
                    given.append((len(args), self.names[tensor]))
                case Param(name) if name in self.varying:
                    given.append((len(args), name))
                case Descriptor(parameter, tensor):
                    make = self.descriptors[parameter]
                    if make is not None:
                        made.append((len(args), self.names[tensor], make))
            args.append(self._value(a.value))
        run = self.target.kernel(s.kernel, self.programs)
        self.launches.append(Launched(run, args, options | self.config, tuple(given), tuple(made)))

    def _value(self, value: Value) -> Any:
        """What an argument is; None where a call gives it."""
        match value:
            case Stride():
                return self.tensors[value.tensor].stride(value.dim)
            case Extent():
                return self.sizes[value.name]
            case Param():
                return None if value.name in self.varying else self.params[value.name]
            case Length():
                return self._length(value)
            case Even():
                return self._is_even(value.length)
            case Step():
                return self.scheduled.step(*((self.tensors[t], dim) for t, dim in value.held))
            case Flag("index"):
                return self.scheduled.index(self.is_wide)
            case Flag("precision"):
                return self.scheduled.precision
            case Flag("fast"):
                return self.is_fast
        return None
