"""The host program: what happens around kernels, as data.

    program   = inputs, params, kernels, statement*
    statement = sizes:    Size | Bound | Split | TwoTiles
              | checks:   CheckShapes | CheckEmpty | CheckSome
              | dtypes:   Promote | Convert
              | tensors:  Buffer | Clear | Align | View
              | launches: Choose | Fast | Wide | Programs | Describe | Launch
              | slices:   Slices
              | Return

Statements run in their order. Sizes go by the name of their extent, tensors by their own name, and
what a schedule chooses by the name of the kernel's parameter. `building.host_program` makes host
programs, `verifier.verify` checks them, `evaluation.Evaluation` turns one into the plan of a call;
the backend triton prints it as the host function of an emitted file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, TypeAlias

from monocomp.terms import Term
from monocomp.terms.printer import show
from monocomp.vocabulary import Kind

PROGRAMS, DESCRIPTORS = "PROGRAMS", "DESCRIPTORS"  # what a schedule tells the host alone

# Names by what they name; `verifier` looks for each where it is used.
TensorName: TypeAlias = str
ExtentName: TypeAlias = str
ParamName: TypeAlias = str
SettingName: TypeAlias = str  # of a schedule
AxisName: TypeAlias = str  # with a length that is computed
FlagName: TypeAlias = Literal["index", "precision", "fast"]


@dataclass(frozen=True)
class Node:
    """A part of a host program; `text` shows its fields, and it defines those in `defines`."""

    text: ClassVar[str]
    defines: ClassVar[tuple[str, ...]] = ()

    def __str__(self) -> str:
        return self.text.format(**{f.name: _shown(getattr(self, f.name)) for f in fields(self)})


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join("1" if v is None else _shown(v) for v in value) or "none"
    return show(value) if isinstance(value, Term) else str(value).lstrip(".")


# --- what kernels are given -------------------------------------------------------------------


@dataclass(frozen=True)
class Count(Node):
    """How many program instances there are along an axis of a grid: one for each element, or, if
    a parameter of the kernel is named, for each block of that length."""

    extent: ExtentName
    block: SettingName | None = None

    def __str__(self) -> str:
        size = _shown(self.extent)
        return size if self.block is None else f"{size} / {self.block}"


@dataclass(frozen=True)
class AnyLength(Node):
    """How long a kernel's blocks are along an axis."""

    axis: str
    extent: ExtentName


@dataclass(frozen=True)
class Length(AnyLength):
    """As a schedule says."""

    parameter: SettingName

    text = "{parameter}"


@dataclass(frozen=True)
class HeldLength(AnyLength):
    """One tile holds the axis."""

    text = "tile({extent})"


@dataclass(frozen=True)
class HalfLength(AnyLength):
    """One of two tiles that hold it together; `first` is the axis of the first, of a second one."""

    axis: AxisName
    first: AxisName | None

    text = "length_{axis}"


@dataclass(frozen=True)
class FixedLength(AnyLength):
    """As the size that is known wants it."""

    length: int

    text = "{length}"


@dataclass(frozen=True)
class Even(Node):
    """Is no element of a block beyond the end of the axis?"""

    length: AnyLength

    text = "{length} divides"


@dataclass(frozen=True)
class Pointer(Node):
    """A tensor."""

    tensor: TensorName

    text = "{tensor}"


@dataclass(frozen=True)
class Descriptor(Node):
    """What loads blocks of a tensor, or nothing: of a length, or one element (None), along each
    dimension."""

    parameter: str
    tensor: TensorName
    lengths: tuple[AnyLength | None, ...]

    text = "blocks of {tensor}: {lengths}"

    @property
    def key(self) -> str:
        """The same for descriptors of the same blocks, of several kernels too."""
        return repr((self.tensor, tuple(n.axis if n else None for n in self.lengths)))


@dataclass(frozen=True)
class Stride(Node):
    """A stride of a tensor."""

    tensor: TensorName
    dim: int

    text = "{tensor}.stride({dim})"


@dataclass(frozen=True)
class Extent(Node):
    """A size."""

    name: ExtentName

    text = "{name}"


@dataclass(frozen=True)
class Param(Node):
    """A parameter of the program, or into how many parts a stream is cut."""

    name: ParamName

    text = "{name}"


@dataclass(frozen=True)
class Step(Node):
    """What divides the strides of tensors but these."""

    held: tuple[Stride, ...]

    text = "step of strides but {held}"


@dataclass(frozen=True)
class Flag(Node):
    """The type of indices, the precision of products, or may functions be less accurate?"""

    name: FlagName

    text = "{name}"


Value: TypeAlias = Pointer | Descriptor | Stride | Extent | Param | AnyLength | Even | Step | Flag
POSITIONAL = (Pointer, Descriptor, Stride, Extent, Param)  # the others go by name


@dataclass(frozen=True)
class Argument(Node):
    """What a kernel is given for one of its parameters."""

    parameter: str
    value: Value

    text = "{parameter} = {value}"


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
class Size(Node):
    """A size is read off an input's shape."""

    extent: ExtentName
    tensor: TensorName
    dim: int

    text, defines = "size {extent} = {tensor}.shape[{dim}]", ("extent",)


@dataclass(frozen=True)
class Bound(Node):
    """A size is computed from other sizes and parameters."""

    extent: ExtentName
    value: Term

    text, defines = "size {extent} = {value}", ("extent",)


@dataclass(frozen=True)
class Split(Node):
    """Into how many parts a kernel's stream is cut: as many as make the number of program
    instances that its schedule wants, where the grid has so many without."""

    param: ParamName
    kernel: int
    grid: tuple[Count, ...]

    text, defines = "param {param} = parts of kernel {kernel}, over {grid}", ("param",)


@dataclass(frozen=True)
class TwoTiles(Node):
    """The lengths of the two tiles that hold an axis."""

    extent: ExtentName
    first: AxisName
    second: AxisName

    text = "length_{first}, length_{second} = two tiles({extent})"
    defines = ("first", "second")


@dataclass(frozen=True)
class Shape(Node):
    """The sizes that a tensor should have."""

    tensor: TensorName
    shape: tuple[ExtentName, ...]

    text = "{tensor}[{shape}]"


@dataclass(frozen=True)
class CheckShapes(Node):
    """Each input has the sizes of its extents."""

    tensors: tuple[Shape, ...]

    text = "check {tensors}"


@dataclass(frozen=True)
class CheckEmpty(Node):
    """A size for which the program was derived is 0."""

    extent: ExtentName

    text = "check {extent} == 0"


@dataclass(frozen=True)
class CheckSome(Node):
    """Along an axis without elements no instance runs, and what lacks the axis must be empty."""

    extent: ExtentName
    buffers: tuple[TensorName, ...]

    text = "check {extent} > 0, or nothing in {buffers}"


@dataclass(frozen=True)
class Promote(Node):
    """The dtype of results: that to which those of some inputs are promoted, or a default."""

    tensors: tuple[TensorName, ...]
    default: str

    text = "dtype of {tensors}; else {default}"


@dataclass(frozen=True)
class Convert(Node):
    """Two tensors that one product takes get the dtype of results, if theirs differ."""

    left: TensorName
    right: TensorName

    text = "convert {left}, {right}"


@dataclass(frozen=True)
class Buffer(Node):
    """A tensor that kernels write is allocated.

    `dtype` is a name, or "promoted" (that of results) or "accumulated" (that of sums).
    """

    name: TensorName
    shape: tuple[ExtentName, ...]
    kind: Kind
    dtype: str

    text, defines = "{name} = empty[{shape}]: {dtype}", ("name",)


@dataclass(frozen=True)
class Clear(Node):
    """A buffer that kernels add to starts as 0."""

    tensor: TensorName

    text = "{tensor} = 0"


@dataclass(frozen=True)
class Align(Node):
    """Tensors are copied if their rows are odd, where so many program instances read them that
    it pays."""

    tensors: tuple[TensorName, ...]
    rows: tuple[Count, ...]
    least: int

    text = "align {tensors} if over {rows} there are {least} programs"


@dataclass(frozen=True)
class View(Node):
    """What a tensor holds in another shape."""

    name: TensorName
    tensor: TensorName
    shape: tuple[ExtentName, ...]

    text, defines = "{name} = {tensor}.view[{shape}]", ("name",)


@dataclass(frozen=True)
class Choose(Node):
    """A kernel's schedule, up to its launch; `host` are those of its choices that are the host's
    alone."""

    kernel: int
    host: tuple[str, ...]

    text = "schedule of kernel {kernel}"


@dataclass(frozen=True)
class Fast(Node):
    """May functions be as accurate as results of 16 bits, on the device of a tensor?"""

    tensor: TensorName

    text = "fast = results of 16 bits, {tensor} on CUDA"


@dataclass(frozen=True)
class Wide(Node):
    """Do offsets, or sums with parameters, leave 32 bits?"""

    tensors: tuple[TensorName, ...]
    params: tuple[ParamName, ...]

    text = "index = int that holds offsets of {tensors}; params {params}"


@dataclass(frozen=True)
class Programs(Node):
    """How many program instances there are."""

    grid: tuple[Count, ...]

    text = "programs over {grid}"


@dataclass(frozen=True)
class Describe(Node):
    """Descriptors: of all these, or where the schedule wants them and tensors' layouts can have
    them."""

    descriptors: tuple[Descriptor, ...]
    is_required: bool = False

    text = "describe {descriptors}"


@dataclass(frozen=True)
class Launch(Node):
    """A kernel runs."""

    kernel: int
    name: str
    arguments: tuple[Argument, ...]

    def __str__(self) -> str:
        return "\n    ".join([f"launch {self.name}", *map(str, self.arguments)])


@dataclass(frozen=True)
class Slice(Node):
    """The elements of a slice of a tensor, along one dimension."""

    name: TensorName
    tensor: TensorName
    dim: int

    text = "{name} = {tensor} along {dim}"


@dataclass(frozen=True)
class Slices(Node):
    """The statements run for each slice of an extent; `part` is that of the slice."""

    part: ExtentName
    whole: ExtentName
    length: int
    views: tuple[Slice, ...]
    body: tuple[Statement, ...]

    def __str__(self) -> str:
        head = f"for each {self.length} of {_shown(self.whole)} as {_shown(self.part)}"
        inside = [line for s in (*self.views, *self.body) for line in str(s).splitlines()]
        return "\n".join([head, *(f"    {line}" for line in inside)])


@dataclass(frozen=True)
class Return(Node):
    """The results."""

    tensors: tuple[TensorName, ...]

    text = "return {tensors}"


Statement: TypeAlias = (
    Size | Bound | Split | TwoTiles | CheckShapes | CheckEmpty | CheckSome | Promote | Convert
) | (
    Buffer
    | Clear
    | Align
    | View
    | Choose
    | Fast
    | Wide
    | Programs
    | Describe
    | Launch
    | Slices
    | Return
)


@dataclass(frozen=True)
class HostProgram:
    """What a call of a program does, from its inputs to its results."""

    inputs: tuple[tuple[str, int], ...]  # with their ranks
    params: tuple[str, ...]
    kernels: tuple[Signature, ...]
    body: tuple[Statement, ...]

    def statements(self) -> Iterator[Statement]:
        """All statements, those of slices among them."""
        for s in self.body:
            yield s
            if isinstance(s, Slices):
                yield from s.body

    @property
    def known(self) -> dict[str, int]:
        """The sizes that are numbers."""
        bounds = (s for s in self.body if isinstance(s, Bound) and s.value.op == "const")
        return {s.extent: int(s.value.attr) for s in bounds}

    def __str__(self) -> str:
        """A line a statement, and one an argument."""
        given = ", ".join((*(name for name, _ in self.inputs), *self.params))
        lines = [line for s in self.body for line in str(s).splitlines()]
        return "\n".join([f"host({given})", *(f"    {line}" for line in lines)]) + "\n"
