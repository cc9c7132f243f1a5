"""Arguments of kernels as data: tensors, sizes, strides, and what is made of them.

Sizes go by the name of their extent, tensors by their own name, and what a schedule chooses by the
name of the kernel's parameter.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar, Literal, TypeAlias

from monocomp.declarations.record import record
from monocomp.terms import Term
from monocomp.terms.printer import show

PROGRAMS, DESCRIPTORS = "PROGRAMS", "DESCRIPTORS"  # what a schedule tells the host alone

# Names by what they name; `verifier` looks for each where it is used.
TensorName: TypeAlias = str
ExtentName: TypeAlias = str
ParamName: TypeAlias = str
SettingName: TypeAlias = str  # of a schedule
AxisName: TypeAlias = str  # with a length that is computed
FlagName: TypeAlias = Literal["index", "precision", "fast"]


@record()
class Node:
    """A part of a host program; `text` shows its fields, and it defines those in `defines`."""

    text: ClassVar[str]
    defines: ClassVar[tuple[str, ...]] = ()

    def __str__(self) -> str:
        return self.text.format(**{f.name: shown(getattr(self, f.name)) for f in fields(self)})


def shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join("1" if v is None else shown(v) for v in value) or "none"
    return show(value) if isinstance(value, Term) else str(value).lstrip(".")


@record()
class Count(Node):
    """The number of program instances along an axis of a grid: one for each element, or, if
    `block` names a parameter of the kernel, one for each block of that length."""

    extent: ExtentName
    block: SettingName | None = None

    def __str__(self) -> str:
        size = shown(self.extent)
        return size if self.block is None else f"{size} / {self.block}"


@record()
class AnyLength(Node):
    """The length of a kernel's blocks along an axis."""

    axis: str
    extent: ExtentName


@record()
class Length(AnyLength):
    """A length that a schedule gives."""

    parameter: SettingName

    text = "{parameter}"


@record()
class HeldLength(AnyLength):
    """One tile holds the axis."""

    text = "tile({extent})"


@record()
class HalfLength(AnyLength):
    """One of two tiles that hold it together; `first` is the axis of the first, of a second one."""

    axis: AxisName
    first: AxisName | None

    text = "length_{axis}"


@record()
class FixedLength(AnyLength):
    """A length that follows from a known size."""

    length: int

    text = "{length}"


@record()
class Even(Node):
    """True if no element of a block is beyond the end of the axis."""

    length: AnyLength

    text = "{length} divides"


@record()
class Single(Node):
    """True if one block holds all elements of the axis, and there is at least one."""

    length: AnyLength

    text = "{length} holds all"


@record()
class Pointer(Node):
    """A tensor."""

    tensor: TensorName

    text = "{tensor}"


@record()
class Descriptor(Node):
    """A descriptor that loads blocks of a tensor, or nothing where none can be made: a block has a
    length, or one element (None), along each dimension."""

    parameter: str
    tensor: TensorName
    lengths: tuple[AnyLength | None, ...]

    text = "blocks of {tensor}: {lengths}"

    @property
    def key(self) -> str:
        """The same for descriptors of the same blocks, of several kernels too."""
        return repr((self.tensor, tuple(n.axis if n else None for n in self.lengths)))


@record()
class Stride(Node):
    """A stride of a tensor."""

    tensor: TensorName
    dim: int

    text = "{tensor}.stride({dim})"


@record()
class Extent(Node):
    """A size."""

    name: ExtentName

    text = "{name}"


@record()
class Param(Node):
    """A parameter of the program, or into how many splits a stream is cut."""

    name: ParamName

    text = "{name}"


@record()
class Step(Node):
    """A common divisor of the strides of tensors, except those in `held`."""

    held: tuple[Stride, ...]

    text = "step of strides but {held}"


@record()
class Flag(Node):
    """The type of indices, the precision of products, or may functions be less accurate?"""

    name: FlagName

    text = "{name}"


Value: TypeAlias = (
    Pointer | Descriptor | Stride | Extent | Param | AnyLength | Even | Single | Step | Flag
)
POSITIONAL = (Pointer, Descriptor, Stride, Extent, Param)  # the others go by name


@record()
class Argument(Node):
    """A value that a kernel is given for one of its parameters."""

    parameter: str
    value: Value

    text = "{parameter} = {value}"


@record()
class Signature:
    """A kernel's signature: its parameters, those among them that the schedule gives, and the
    ranks of its tensors."""

    name: str
    parameters: tuple[str, ...]
    scheduled: tuple[str, ...]
    ranks: tuple[tuple[str, int], ...]
