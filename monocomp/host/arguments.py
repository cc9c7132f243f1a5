"""Arguments of kernels as data: tensors, sizes, strides, and what is made of them.

Sizes go by the name of their extent, tensors by their own name, and what a schedule chooses by the
name of the kernel's parameter. `of` is the value of an argument in a call, and `source` its text in
the function that a writer writes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Literal, TypeAlias

from monocomp.declarations.record import record
from monocomp.errors import InternalError
from monocomp.extents.nominal import MIN_DOT, one_tile
from monocomp.host.evaluation import Evaluation
from monocomp.host.writer import Writer
from monocomp.terms import Term

PROGRAMS, DESCRIPTORS = "PROGRAMS", "DESCRIPTORS"  # what a schedule tells the host alone

# Names by what they name.
TensorName: TypeAlias = str
ExtentName: TypeAlias = str
ParamName: TypeAlias = str
SettingName: TypeAlias = str  # of a schedule
AxisName: TypeAlias = str  # with a length that is computed
FlagName: TypeAlias = Literal["index", "precision", "fast", "items"]


@record()
class Node:
    """A part of a host program; `text` shows its fields."""

    text: ClassVar[str]

    def __str__(self) -> str:
        return self.text.format(**{f.name: shown(getattr(self, f.name)) for f in fields(self)})


def shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join("1" if v is None else shown(v) for v in value) or "none"
    return str(value).lstrip(".")


class Statement(Node):
    """A statement: `run` evaluates it for a call, `write` writes it as Python."""

    def run(self, call: Evaluation) -> None:
        """Change the state of a call."""
        raise NotImplementedError

    def write(self, out: Writer) -> None:
        """Write the lines that do the same."""
        raise NotImplementedError


# The signs of numbers and their functions, of any number of operands where that is no matter.
_INFIX: dict[str, Callable[..., int]] = {
    "+": lambda *numbers: sum(numbers),
    "*": lambda *numbers: math.prod(numbers),
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "==": operator.eq,
    ">=": operator.ge,
}
FUNCTIONS: dict[str, Callable[..., int]] = _INFIX | {
    "max": max,
    "min": min,
    "cdiv": lambda size, length: -(-size // length),
    "tile": one_tile,
    "holds": lambda length, size: 0 < size <= length,
}
_COMPARED = ("==", ">=")
_OF_TERMS = {"add": "+", "mul": "*", "floordiv": "//", "mod": "%", "maximum": "max"}
_OF_TERMS |= {"minimum": "min"}


@record()
class Number(Node):
    """A number or truth value of a call: one of `FUNCTIONS` of others, or a leaf.

    Leaves are a `const`, the `size` of an extent, the value of a `param`, a `setting` that a
    schedule chooses, and the `length` of a tile that holds a part of an axis.
    """

    op: str
    args: tuple[Number, ...] = ()
    attr: Any = None

    def written(
        self, leaf: Callable[[Number], str], call: Callable[[str, Sequence[str]], str]
    ) -> str:
        """Return the text, with leaves and calls as functions write them."""
        if not self.args:
            return leaf(self)
        texts = [a.written(leaf, call) for a in self.args]
        if self.op not in _INFIX:
            return call(self.op, texts)
        if self.op not in _COMPARED:
            pairs = zip(self.args, texts, strict=True)
            texts = [f"({text})" if a.op in _INFIX else text for a, text in pairs]
        return f" {self.op} ".join(texts)

    def __str__(self) -> str:
        return self.written(lambda n: shown(n.attr), _called)

    def of(self, call: Evaluation, config: Mapping[str, int] | None = None) -> Any:
        """Return the value, under the schedule of the next kernel or under another one."""
        match self.op:
            case "const":
                return self.attr
            case "size":
                return call.sizes[self.attr]
            case "param":
                return call.params[self.attr]
            case "setting":
                return (call.config if config is None else config)[self.attr]
            case "length":
                return call.lengths[self.attr]
        return FUNCTIONS[self.op](*(a.of(call, config) for a in self.args))

    def source(self, out: Writer, kernel: int | None = None) -> str:
        """Return the text, under the schedule of the next kernel or under another one's."""

        def leaf(n: Number) -> str:
            match n.op:
                case "size":
                    return out.size(n.attr)
                case "param":
                    return out.param(n.attr)
                case "setting":
                    return out.setting(n.attr, kernel)
                case "length":
                    return out.name("length", n.attr, f"length_{n.attr}")
            return str(n.attr)

        return self.written(leaf, _called_in_python)


def _called(function: str, args: Sequence[str]) -> str:
    return f"{function}({', '.join(args)})"


def _called_in_python(function: str, args: Sequence[str]) -> str:
    match function:
        case "cdiv":
            return _called("triton.cdiv", args)
        case "tile":
            return f"max({MIN_DOT}, triton.next_power_of_2({args[0]}))"
        case "holds":
            return f"0 < {args[1]} <= {args[0]}"
    return _called(function, args)


def const(value: int) -> Number:
    return Number("const", (), value)


def size(extent: ExtentName) -> Number:
    return Number("size", (), extent)


def param(name: ParamName) -> Number:
    """Return a parameter of the program, or into how many splits a stream is cut."""
    return Number("param", (), name)


def setting(name: SettingName) -> Number:
    return Number("setting", (), name)


def length(axis: AxisName) -> Number:
    return Number("length", (), axis)


def product(numbers: Iterable[Number]) -> Number:
    """Return the product of numbers, of none 1."""
    factors = tuple(numbers)
    if len(factors) == 1:
        return factors[0]
    return Number("*", factors) if factors else const(1)


def of_term(t: Term) -> Number:
    """Return a size that an equation gives as a number.

    Raises:
        InternalError: it is made of something else than sizes and parameters.
    """
    match t.op:
        case "const":
            return const(int(t.attr))
        case "extent":
            return size(t.attr)
        case "param":
            return param(t.attr)
        case "pow":
            return Number("**", (of_term(t.args[0]), const(t.attr.numerator)))
    if t.op not in _OF_TERMS:
        raise InternalError(f"an extent cannot be {t.op}")
    return Number(_OF_TERMS[t.op], tuple(map(of_term, t.args)))


@record()
class Pointer(Node):
    """A tensor."""

    tensor: TensorName

    text = "{tensor}"

    def of(self, call: Evaluation) -> None:
        """None: each call gives it."""

    def source(self, out: Writer) -> str:
        """Return the tensor's name."""
        return out.tensor(self.tensor)


@record()
class Counter(Pointer):
    """A number in memory that is 0 when a kernel begins."""


@record()
class Descriptor(Node):
    """A descriptor that loads blocks of a tensor, or nothing where none can be made: a block has a
    length, or one element (None), along each dimension, and an axis."""

    parameter: str
    tensor: TensorName
    lengths: tuple[Number | None, ...]
    axes: tuple[str | None, ...]

    text = "blocks of {tensor}: {lengths}"

    @property
    def key(self) -> str:
        """Return the same for descriptors of the same blocks, of several kernels too."""
        return repr((self.tensor, self.axes))

    def of(self, call: Evaluation) -> None:
        """None: each call makes it anew."""

    def source(self, out: Writer) -> str:
        """Return the descriptor's name."""
        descriptor = out.name("descriptor", self.key, self.parameter)
        out.described.setdefault(self.tensor, {})[descriptor] = None
        return descriptor

    def block(self, out: Writer) -> str:
        """Return the lengths of its blocks."""
        return ", ".join("1" if n is None else n.source(out) for n in self.lengths)


@record()
class Adding(Descriptor):
    """A descriptor that adds tiles of a product's result to a tensor: so many rows and columns."""

    text = "tiles that are added to {tensor}: {lengths}"


@record()
class Stride(Node):
    """A stride of a tensor."""

    tensor: TensorName
    dim: int

    text = "{tensor}.stride({dim})"

    def of(self, call: Evaluation) -> int:
        """Return its value for the tensor of a call."""
        return int(call.tensors[self.tensor].stride(self.dim))

    def source(self, out: Writer) -> str:
        """Write a method of the tensor."""
        return f"{out.tensor(self.tensor)}.stride({self.dim})"


@record()
class Step(Node):
    """A common divisor of the strides of tensors, except those in `held`."""

    held: tuple[Stride, ...]

    text = "step of strides but {held}"

    def of(self, call: Evaluation) -> int:
        """Return its value for the tensors of a call."""
        return call.scheduled.step(*((call.tensors[x.tensor], x.dim) for x in self.held))

    def source(self, out: Writer) -> str:
        """Write a function of the tensors."""
        return f"step({', '.join(f'({out.tensor(x.tensor)}, {x.dim})' for x in self.held)})"


@record()
class Flag(Node):
    """The type of indices, the precision of products, may functions be less accurate, or the number
    of items: of program instances, if each had one. A kernel that is told that number runs in at
    most one instance for each multiprocessor."""

    name: FlagName

    text = "{name}"

    def of(self, call: Evaluation) -> Any:
        """Return its value for a call."""
        match self.name:
            case "index":
                return call.scheduled.index(call.is_wide)
            case "precision":
                return call.scheduled.precision
            case "items":
                return call.programs
        return call.is_fast

    def source(self, out: Writer) -> str:
        """Return the name of the variable that has it."""
        named = {"index": "tl.int64 if wide else tl.int32", "items": "programs"}
        return named.get(self.name, self.name)


Value: TypeAlias = Pointer | Descriptor | Stride | Number | Step | Flag


@record()
class Argument(Node):
    """A value that a kernel is given for one of its parameters."""

    parameter: str
    value: Value

    text = "{parameter} = {value}"

    @property
    def is_positional(self) -> bool:
        """True for tensors, sizes and parameters; other arguments go by name."""
        if isinstance(self.value, Number):
            return self.value.op in ("size", "param")
        return isinstance(self.value, Pointer | Descriptor | Stride)

    def source(self, out: Writer) -> str:
        """Write it as a call takes it."""
        return ("" if self.is_positional else f"{self.parameter}=") + self.value.source(out)


@record()
class Signature:
    """A kernel's name, and those of its parameters that the schedule gives."""

    name: str
    scheduled: tuple[str, ...]
