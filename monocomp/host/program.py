"""The host program: what happens around kernels, as data.

    program   = inputs, params, kernels, statement*
    statement = sizes:    Sizes | Bound | Split | SplitPadding
              | checks:   CheckShapes | CheckEmpty | CheckSome
              | dtypes:   Promote | Convert
              | tensors:  Buffer | Clear | Free | Sort | Align | View
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
from functools import cached_property
from typing import TypeAlias

from monocomp.declarations.record import record
from monocomp.declarations.vocabulary import Kind
from monocomp.host.arguments import (
    Argument,
    AxisName,
    Descriptor,
    ExtentName,
    Node,
    Number,
    ParamName,
    Signature,
    TensorName,
    shown,
)

# --- statements ---------------------------------------------------------------------------------


@record()
class Sizes(Node):
    """Sizes are read off an input's shape. Dimensions of a known size have None."""

    extents: tuple[ExtentName | None, ...]
    tensor: TensorName

    defines = ("extents",)

    def __str__(self) -> str:
        names = ("_" if e is None else shown(e) for e in self.extents)
        return f"sizes {', '.join(names)} = {self.tensor}.shape"


@record()
class Bound(Node):
    """A size is computed from other sizes and parameters."""

    extent: ExtentName
    value: Number

    text, defines = "size {extent} = {value}", ("extent",)


@record()
class Split(Node):
    """Into how many splits a kernel's stream is cut: as many as make the number of program
    instances that its schedule wants, where each split has so many."""

    param: ParamName
    kernel: int
    others: Number

    text, defines = "param {param} = splits of kernel {kernel}, each of {others}", ("param",)


@record()
class SplitPadding(Node):
    """The lengths of the two tiles that hold an axis."""

    extent: ExtentName
    first: AxisName
    second: AxisName

    text = "length_{first}, length_{second} = split padding({extent})"
    defines = ("first", "second")


@record()
class Shape(Node):
    """The sizes that a tensor should have."""

    tensor: TensorName
    shape: tuple[ExtentName, ...]

    text = "{tensor}[{shape}]"


@record()
class CheckShapes(Node):
    """Each input has the sizes of its extents."""

    tensors: tuple[Shape, ...]

    text = "check {tensors}"


@record()
class CheckEmpty(Node):
    """A size for which the program was derived is 0."""

    extent: ExtentName

    text = "check {extent} == 0"


@record()
class CheckSome(Node):
    """Along an axis without elements no instance runs, and what lacks the axis must be empty."""

    extent: ExtentName
    buffers: tuple[TensorName, ...]

    text = "check {extent} > 0, or nothing in {buffers}"


@record()
class Promote(Node):
    """The dtype of products: that to which those of some inputs are promoted, or a default."""

    tensors: tuple[TensorName, ...]
    default: str

    text = "dtype of {tensors}; else {default}"


@record()
class Convert(Node):
    """Tensors that products multiply with one another get one dtype, `Promote`'s, if theirs
    differ."""

    tensors: tuple[TensorName, ...]

    text = "convert {tensors}"


@record()
class Buffer(Node):
    """A tensor that kernels write is allocated.

    `dtype` is a name, "accumulated" (that of sums), or "promoted" or "operand": that to which those
    of the tensors `beside` it are promoted, or that of products where there are none.
    """

    name: TensorName
    shape: tuple[ExtentName, ...]
    kind: Kind
    dtype: str
    beside: tuple[TensorName, ...] = ()

    text, defines = "{name} = empty[{shape}]: {dtype}", ("name",)

    def __str__(self) -> str:
        beside = f" of {', '.join(self.beside)}" if self.beside else ""
        return super().__str__() + beside


@record()
class Clear(Node):
    """A buffer that kernels add to starts as 0."""

    tensor: TensorName

    text = "{tensor} = 0"


@record()
class Free(Node):
    """Buffers that nothing reads any more are given back."""

    tensors: tuple[TensorName, ...]

    text = "free {tensors}"


@record()
class Sort(Node):
    """The positions of a tensor's elements in the order of these, equal ones as they come,
    and where in that list those of each number begin and end. Each element of the dimensions that
    are kept has a list of its own."""

    tensor: TensorName
    kept: tuple[int, ...]
    order: TensorName
    first: TensorName
    last: TensorName

    text = "{order}, {first}, {last} = sort {tensor}, by {kept}"


@record()
class Align(Node):
    """Tensors are copied if their rows are odd, where so many program instances read them that
    it pays."""

    tensors: tuple[TensorName, ...]
    programs: Number
    least: int

    text = "align {tensors} if {programs} >= {least}"


@record()
class View(Node):
    """A view of a tensor in another shape."""

    name: TensorName
    tensor: TensorName
    shape: tuple[ExtentName, ...]

    text, defines = "{name} = {tensor}.view[{shape}]", ("name",)


@record()
class Choose(Node):
    """A kernel's schedule, up to its launch; `host` are those of its choices that are the host's
    alone."""

    kernel: int
    host: tuple[str, ...]

    text = "schedule of kernel {kernel}"


@record()
class Fast(Node):
    """A flag: true if functions need only be as accurate as results of 16 bits, on a tensor's
    device."""

    tensor: TensorName

    text = "fast = results of 16 bits, {tensor} on CUDA"


@record()
class Wide(Node):
    """The type of indices: wider than 32 bits if offsets, or sums with parameters, may not fit."""

    tensors: tuple[TensorName, ...]
    params: tuple[ParamName, ...]

    text = "index = int that holds offsets of {tensors}; params {params}"


@record()
class Programs(Node):
    """The number of program instances."""

    value: Number

    text = "programs = {value}"


@record()
class Describe(Node):
    """Descriptors: of all these, or where the schedule wants them and tensors' layouts can have
    them."""

    descriptors: tuple[Descriptor, ...]
    is_required: bool = False

    text = "describe {descriptors}"


@record()
class Launch(Node):
    """A kernel runs."""

    kernel: int
    name: str
    arguments: tuple[Argument, ...]

    def __str__(self) -> str:
        return "\n    ".join([f"launch {self.name}", *map(str, self.arguments)])


@record()
class Slice(Node):
    """The elements of a slice of a tensor, along one dimension."""

    name: TensorName
    tensor: TensorName
    dim: int

    text = "{name} = {tensor} along {dim}"


@record()
class Slices(Node):
    """The statements run for each slice of an extent; `part` is that of the slice, and `start`
    where it begins."""

    part: ExtentName
    whole: ExtentName
    start: ParamName | None
    length: int
    views: tuple[Slice, ...]
    body: tuple[Statement, ...]

    def __str__(self) -> str:
        head = f"for each {self.length} of {shown(self.whole)} as {shown(self.part)}"
        head += f" from {self.start}" if self.start else ""
        inside = [line for s in (*self.views, *self.body) for line in str(s).splitlines()]
        return "\n".join([head, *(f"    {line}" for line in inside)])


@record()
class Return(Node):
    """The results."""

    tensors: tuple[TensorName, ...]

    text = "return {tensors}"


Statement: TypeAlias = (
    Sizes | Bound | Split | SplitPadding | CheckShapes | CheckEmpty | CheckSome | Promote | Convert
) | (
    Buffer
    | Clear
    | Free
    | Sort
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


@record()
class HostProgram:
    """The statements of a call of a program, from its inputs to its results."""

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

    @cached_property
    def known(self) -> dict[str, int]:
        """The sizes that are numbers."""
        bounds = (s for s in self.body if isinstance(s, Bound) and s.value.op == "const")
        return {s.extent: s.value.attr for s in bounds}

    def __str__(self) -> str:
        """A line a statement, and one an argument."""
        given = ", ".join((*(name for name, _ in self.inputs), *self.params))
        lines = [line for s in self.body for line in str(s).splitlines()]
        return "\n".join([f"host({given})", *(f"    {line}" for line in lines)]) + "\n"
