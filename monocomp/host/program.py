"""The host program: what happens around kernels, as data.

    program   = inputs, params, kernels, statement*
    statement = sizes:    Size | Bound | Split | TwoTiles
              | checks:   CheckShapes | CheckEmpty | CheckSome
              | dtypes:   Promote | Convert
              | tensors:  Buffer | Align | View
              | launches: Choose | Fast | Wide | Programs | Describe | Launch
              | Return

Statements run in their order. Sizes go by the name of their extent, tensors by their own name, and
what a schedule chooses by the name of the kernel's parameter. `building.host_program` makes host
programs, `verifier.verify` checks them, `evaluation.evaluate` turns one into the plan of a call;
the backend triton prints it as the host function of an emitted file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from monocomp.printer import show
from monocomp.terms import Term
from monocomp.vocabulary import Kind

PROGRAMS, DESCRIPTORS = "PROGRAMS", "DESCRIPTORS"  # what a schedule tells the host alone


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(n.lstrip(".") for n in names)


# --- what kernels are given -------------------------------------------------------------------


@dataclass(frozen=True)
class Count:
    """How many program instances there are along an axis of a grid: one for each element, or, if
    a parameter of the kernel is named, for each block of that length."""

    extent: str
    block: str | None = None

    def __str__(self) -> str:
        size = self.extent.lstrip(".")
        return size if self.block is None else f"{size} / {self.block}"


@dataclass(frozen=True)
class Length:
    """How long a kernel's blocks are along an axis.

    `tile` says why: "block", where a schedule chooses it; "one", where one tile holds the axis;
    "first" or "second", where it is the one or the other of two tiles that hold it together.
    """

    axis: str
    extent: str
    parameter: str
    tile: Literal["block", "one", "first", "second"] = "block"
    first: str | None = None  # the axis of the first tile, of a second one

    def __str__(self) -> str:
        return {
            "block": self.parameter,
            "one": f"tile({self.extent.lstrip('.')})",
        }.get(self.tile, f"length_{self.axis}")


@dataclass(frozen=True)
class Even:
    """Is no element of a block beyond the end of the axis?"""

    length: Length

    def __str__(self) -> str:
        return f"{self.length} fills {self.length.extent.lstrip('.')}"


@dataclass(frozen=True)
class Pointer:
    """A tensor."""

    tensor: str

    def __str__(self) -> str:
        return self.tensor


@dataclass(frozen=True)
class Descriptor:
    """What loads blocks of a tensor, or nothing: of a length, or one element, along each
    dimension."""

    parameter: str
    tensor: str
    lengths: tuple[Length | None, ...]

    @property
    def key(self) -> str:
        """The same for descriptors of the same blocks, of several kernels too."""
        return repr((self.tensor, tuple(n.axis if n else None for n in self.lengths)))

    def __str__(self) -> str:
        return f"{self.tensor}[{', '.join(str(n or 1) for n in self.lengths)}]"


@dataclass(frozen=True)
class Stride:
    """A stride of a tensor."""

    tensor: str
    dim: int

    def __str__(self) -> str:
        return f"{self.tensor}.stride({self.dim})"


@dataclass(frozen=True)
class Extent:
    """A size."""

    name: str

    def __str__(self) -> str:
        return self.name.lstrip(".")


@dataclass(frozen=True)
class Param:
    """A parameter of the program, or into how many parts a stream is cut."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Step:
    """What divides the strides of tensors but along one dimension each."""

    held: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return f"step of {', '.join(f'{t} but {dim}' for t, dim in self.held)}"


@dataclass(frozen=True)
class Flag:
    """The type of indices, the precision of products, or may functions be less accurate?"""

    name: Literal["index", "precision", "fast"]

    def __str__(self) -> str:
        return self.name


Value: TypeAlias = Pointer | Descriptor | Stride | Extent | Param | Length | Even | Step | Flag
POSITIONAL = (Pointer, Descriptor, Stride, Extent, Param)  # the others go by name


@dataclass(frozen=True)
class Argument:
    """What a kernel is given for one of its parameters."""

    parameter: str
    value: Value

    def __str__(self) -> str:
        return f"{self.parameter} = {self.value}"


@dataclass(frozen=True)
class Signature:
    """What a kernel takes: its parameters, those among them that the schedule gives, and the
    ranks of its tensors."""

    name: str
    parameters: tuple[str, ...]
    scheduled: tuple[str, ...]
    ranks: tuple[tuple[str, int], ...]


# --- statements ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Size:
    """A size is read off an input's shape."""

    extent: str
    tensor: str
    dim: int

    def __str__(self) -> str:
        return f"size {self.extent.lstrip('.')} = {self.tensor}.shape[{self.dim}]"


@dataclass(frozen=True)
class Bound:
    """A size is computed from other sizes and parameters."""

    extent: str
    value: Term

    def __str__(self) -> str:
        return f"size {self.extent.lstrip('.')} = {show(self.value)}"


@dataclass(frozen=True)
class Split:
    """Into how many parts a kernel's stream is cut: as many as make the number of program
    instances that its schedule wants, where the grid has so many without."""

    param: str
    kernel: int
    grid: tuple[Count, ...]

    def __str__(self) -> str:
        programs = " * ".join(map(str, self.grid)) or "1"
        return f"param {self.param} = max(1, {PROGRAMS} of kernel {self.kernel} // ({programs}))"


@dataclass(frozen=True)
class TwoTiles:
    """The lengths of the two tiles that hold an axis."""

    extent: str
    first: str
    second: str

    def __str__(self) -> str:
        lengths = f"length_{self.first}, length_{self.second}"
        return f"{lengths} = two tiles of {self.extent.lstrip('.')}"


@dataclass(frozen=True)
class CheckShapes:
    """Each input has the sizes of its extents."""

    tensors: tuple[tuple[str, tuple[str, ...]], ...]

    def __str__(self) -> str:
        return f"check {', '.join(f'{name}[{_listed(dims)}]' for name, dims in self.tensors)}"


@dataclass(frozen=True)
class CheckEmpty:
    """A size for which the program was derived is 0."""

    extent: str

    def __str__(self) -> str:
        return f"check {self.extent.lstrip('.')} == 0"


@dataclass(frozen=True)
class CheckSome:
    """Along an axis without elements no instance runs, and what lacks the axis must be empty."""

    extent: str
    buffers: tuple[str, ...]

    def __str__(self) -> str:
        return f"check {self.extent.lstrip('.')} > 0, or {', '.join(self.buffers)} empty"


@dataclass(frozen=True)
class Promote:
    """The dtype of results: that to which those of some inputs are promoted, or a default."""

    tensors: tuple[str, ...]
    default: str

    def __str__(self) -> str:
        return f"dtype = {' + '.join(self.tensors) or self.default}"


@dataclass(frozen=True)
class Convert:
    """Two tensors that one product takes get the dtype of results, if theirs differ."""

    left: str
    right: str

    def __str__(self) -> str:
        return f"convert {self.left}, {self.right}"


@dataclass(frozen=True)
class Buffer:
    """A tensor that kernels write is allocated.

    `dtype` is a name, or "promoted" (that of results) or "accumulated" (that of sums).
    """

    name: str
    shape: tuple[str, ...]
    kind: Kind
    dtype: str

    def __str__(self) -> str:
        return f"{self.name} = empty[{_listed(self.shape)}]: {self.dtype}"


@dataclass(frozen=True)
class Align:
    """Tensors are copied if their rows are odd, where so many program instances read them that
    it pays."""

    tensors: tuple[str, ...]
    rows: tuple[Count, ...]
    least: int

    def __str__(self) -> str:
        rows = " * ".join(map(str, self.rows))
        return f"align {', '.join(self.tensors)} if {rows} >= {self.least}"


@dataclass(frozen=True)
class View:
    """What a tensor holds in another shape."""

    name: str
    tensor: str
    shape: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name} = {self.tensor}.view[{_listed(self.shape)}]"


@dataclass(frozen=True)
class Choose:
    """A kernel's schedule, up to its launch; `host` are those of its choices that are the host's
    alone."""

    kernel: int
    host: tuple[str, ...]

    def __str__(self) -> str:
        return f"schedule {self.kernel}"


@dataclass(frozen=True)
class Fast:
    """May functions be as accurate as results of 16 bits, on the device of a tensor?"""

    tensor: str

    def __str__(self) -> str:
        return f"fast = dtype of 16 bits, {self.tensor} on CUDA"


@dataclass(frozen=True)
class Wide:
    """Do offsets, or sums with parameters, leave 32 bits?"""

    tensors: tuple[str, ...]
    params: tuple[str, ...]

    def __str__(self) -> str:
        return f"index = int of {', '.join((*self.tensors, *self.params))}"


@dataclass(frozen=True)
class Programs:
    """How many program instances there are."""

    grid: tuple[Count, ...]

    def __str__(self) -> str:
        return f"programs = {' * '.join(map(str, self.grid)) or '1'}"


@dataclass(frozen=True)
class Describe:
    """Descriptors, where the schedule wants them and the tensors' layouts can have them."""

    descriptors: tuple[Descriptor, ...]

    def __str__(self) -> str:
        return "; ".join(f"{d.parameter} = descriptor {d}" for d in self.descriptors)


@dataclass(frozen=True)
class Launch:
    """A kernel runs."""

    kernel: int
    name: str
    arguments: tuple[Argument, ...]

    def __str__(self) -> str:
        return "\n    ".join([f"launch {self.name}", *map(str, self.arguments)])


@dataclass(frozen=True)
class Return:
    """The results."""

    tensors: tuple[str, ...]

    def __str__(self) -> str:
        return f"return {', '.join(self.tensors)}"


Statement: TypeAlias = (
    Size
    | Bound
    | Split
    | TwoTiles
    | CheckShapes
    | CheckEmpty
    | CheckSome
    | Promote
    | Convert
    | Buffer
    | Align
    | View
    | Choose
    | Fast
    | Wide
    | Programs
    | Describe
    | Launch
    | Return
)


@dataclass(frozen=True)
class HostProgram:
    """What a call of a program does, from its inputs to its results."""

    inputs: tuple[tuple[str, int], ...]  # with their ranks
    params: tuple[str, ...]
    kernels: tuple[Signature, ...]
    body: tuple[Statement, ...]

    def __str__(self) -> str:
        """A line a statement, and one an argument."""
        given = ", ".join((*(name for name, _ in self.inputs), *self.params))
        lines = [line for s in self.body for line in str(s).splitlines()]
        return "\n".join([f"host({given})", *(f"    {line}" for line in lines)]) + "\n"
