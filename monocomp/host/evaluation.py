"""A host program evaluated for a call: all but its tensors becomes numbers, once for all calls of
the same signature. Each statement runs on this state of the call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

from monocomp.declarations.vocabulary import Kind
from monocomp.host.plan import Gather, Launched, Made, Plan, Stage, gather


class Target(Protocol):
    """A backend's operations for host programs. Tensors are those of the call, or stand-ins."""

    device: Any

    def promoted(self, tensors: Sequence[Any], default: str) -> Any:
        """Return the dtype of results."""

    def dtype(self, name: str, kind: Kind, promoted: Any) -> Any:
        """Return the dtype of a buffer, from the name that `host.program.Buffer` gives it."""

    def allocation(self, shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
        """Return a function that allocates a tensor."""

    def stand_in(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return a tensor that need not have elements."""

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
    def multiprocessors(self) -> int: ...
    def step(self, *held: tuple[Any, int]) -> int: ...
    def describe(
        self, function: str, tensor: Any, block: list[int]
    ) -> Callable[[Any], Any] | None: ...
    def aligned(
        self, tensor: Any, position: int, copy: int, widest: int
    ) -> tuple[Any, Launched] | None: ...
    def lists(self, kernel: str, shape: tuple[int, int], tensors: int) -> Callable[..., Any]:
        """Return a function that has a kernel fill a tensor, in so many instances as it has rows,
        from so many tensors and other arguments, or returns what it has filled from the same."""


class Run(Protocol):
    """A statement of a host program."""

    def run(self, call: Evaluation) -> None: ...


class Program(Protocol):
    """A host program."""

    @property
    def body(self) -> Sequence[Run]: ...


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
        program: Program,
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
        self.given = self.next = len(self.positions)
        self.dtype: Any = None
        self.config: dict[str, int] = {}
        self.is_described = self.is_fast = self.is_wide = False
        self.programs = 1
        self.descriptors: dict[str, Callable[[Any], Any] | None] = {}
        self.made: list[Made | Launched] = []
        self.launches: list[Launched] = []
        self.origins: dict[int, int | None] = {}  # of what is made, the value that it is made of
        self.stages: list[Stage] = []
        self.results = gather()

    def plan(self) -> Plan:
        """Evaluate the program, and return the plan of the call."""
        for s in self.program.body:
            s.run(self)
        self.end_stage()
        return Plan(self.target.device, tuple(self.stages), self.results)

    @property
    def scheduled(self) -> Scheduled:
        """Return the target, where kernels have schedules."""
        return cast(Scheduled, self.target)

    def shape(self, extents: Iterable[str]) -> tuple[int, ...]:
        """Return the sizes of extents."""
        return tuple(self.sizes[e] for e in extents)

    # --- tensors ----------------------------------------------------------------------

    def make(self, name: str, make: Callable[..., Any], of: str | None = None) -> None:
        """Let a name stand for something new: what is made of another's value or of none, or what a
        function returns that launches a kernel."""
        origin = None if of is None else self.positions[of]
        self.made.append(make if isinstance(make, Launched) else (make, origin))
        self.origins[self.next] = origin
        self.positions[name] = self.next
        self.next += 1

    def is_given(self, name: str) -> bool:
        """True if a name stands for what the call gives, as it is."""
        return self.positions[name] < self.given

    def view(self, name: str, view: Callable[[Any], Any], of: str) -> None:
        """Let a name stand for a view of another's value, which kernels may read."""
        self.make(name, view, of)
        self.tensors[name] = view(self.tensors[of])

    def end_stage(self, freed: tuple[str, ...] = ()) -> None:
        """Go on with another stage, without these tensors and what was made of them."""
        gone = {self.positions[n] for n in freed}
        for made, origin in self.origins.items():
            gone |= {made} if origin in gone else set()
        self.stages.append(Stage(tuple(self.made), tuple(self.launches), tuple(sorted(gone))))
        self.made, self.launches = [], []

    def gather(self, *names: str) -> Gather:
        """Return what takes the values of names."""
        return gather(*(self.positions[n] for n in names))

    def allocate(self, name: str, shape: tuple[int, ...], dtype: Any) -> None:
        """Let a name stand for a new tensor."""
        self.make(name, self.target.allocation(shape, dtype))
        self.tensors[name] = self.target.stand_in(shape, dtype)
