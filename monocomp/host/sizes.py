"""Statements of host programs about sizes: where they come from, and checks."""

from __future__ import annotations

import math

from monocomp.declarations.record import record
from monocomp.errors import InternalError
from monocomp.extents.nominal import split_lengths
from monocomp.host.arguments import (
    PROGRAMS,
    AxisName,
    ExtentName,
    Node,
    Number,
    ParamName,
    Statement,
    TensorName,
    length,
    shown,
)
from monocomp.host.evaluation import Evaluation
from monocomp.host.writer import Writer


@record()
class Sizes(Statement):
    """Sizes are read off an input's shape. Dimensions of a known size have None."""

    extents: tuple[ExtentName | None, ...]
    tensor: TensorName

    def __str__(self) -> str:
        names = ("_" if e is None else shown(e) for e in self.extents)
        return f"sizes {', '.join(names)} = {self.tensor}.shape"

    def run(self, call: Evaluation) -> None:
        shape = zip(self.extents, call.tensors[self.tensor].shape, strict=True)
        call.sizes |= {e: int(n) for e, n in shape if e is not None}

    def write(self, out: Writer) -> None:
        shape = f"{out.tensor(self.tensor)}.shape"
        match [(dim, e) for dim, e in enumerate(self.extents) if e is not None]:
            case [(dim, extent)] if len(self.extents) > 1:
                out.put(f"{out.size(extent)} = {shape}[{dim}]")
            case _:
                names = ["_" if e is None else out.size(e) for e in self.extents]
                out.put(f"{out.tuple(names) if len(names) == 1 else ', '.join(names)} = {shape}")


@record()
class Bound(Statement):
    """A size is computed from other sizes and parameters."""

    extent: ExtentName
    value: Number

    text = "size {extent} = {value}"

    def run(self, call: Evaluation) -> None:
        call.sizes[self.extent] = self.value.of(call)

    def write(self, out: Writer) -> None:
        if self.extent not in out.known:
            out.fit(f"{out.size(self.extent)} = ", self.value.source(out))


@record()
class Split(Statement):
    """Into how many splits a kernel's stream is cut: as many as make the number of program
    instances that its schedule wants, where each split has so many."""

    param: ParamName
    kernel: int
    others: Number

    text = "param {param} = splits of kernel {kernel}, each of {others}"

    def run(self, call: Evaluation) -> None:
        config = call.configs[self.kernel]
        others = max(1, self.others.of(call, config))
        call.params[self.param] = max(1, config[PROGRAMS] // others)

    def write(self, out: Writer) -> None:
        out.fit("programs = ", self.others.source(out, self.kernel))
        wanted = out.setting(PROGRAMS, self.kernel)
        out.put(f"{out.param(self.param)} = max(1, {wanted} // max(1, programs))")


@record()
class SplitPadding(Statement):
    """The lengths of the two tiles that hold an axis."""

    extent: ExtentName
    first: AxisName
    second: AxisName

    text = "length_{first}, length_{second} = split padding({extent})"

    def run(self, call: Evaluation) -> None:
        both = split_lengths(call.sizes[self.extent])
        call.lengths[self.first], call.lengths[self.second] = both

    def write(self, out: Writer) -> None:
        both = ", ".join(length(axis).source(out) for axis in (self.first, self.second))
        out.put(f"{both} = split_lengths({out.size(self.extent)})")


@record()
class Shape(Node):
    """The sizes that a tensor should have."""

    tensor: TensorName
    shape: tuple[ExtentName, ...]

    text = "{tensor}[{shape}]"


@record()
class CheckShapes(Statement):
    """Each input has the sizes of its extents."""

    tensors: tuple[Shape, ...]

    text = "check {tensors}"

    def run(self, call: Evaluation) -> None:
        for t in self.tensors:
            shape = call.shape(t.shape)
            if tuple(call.tensors[t.tensor].shape) != shape:
                raise InternalError(f"{t.tensor} has not the shape {shape}")

    def write(self, out: Writer) -> None:
        entries = [
            f'("{t.tensor}", {out.tensor(t.tensor)}, {out.tuple(map(out.size, t.shape))})'
            for t in self.tensors
        ]
        out.fit("for name, tensor, shape in ", out.tuple(entries), ":")
        out.put("if tensor.shape != shape:", 2)
        out.put('raise ValueError(f"{name} has shape {tuple(tensor.shape)}, not {shape}")', 3)


@record()
class CheckEmpty(Statement):
    """A size for which the program was derived is 0."""

    extent: ExtentName

    text = "check {extent} == 0"

    def run(self, call: Evaluation) -> None:
        if call.sizes[self.extent] != 0:
            raise InternalError(f"kernels are for {self.extent} of size 0")

    def write(self, out: Writer) -> None:
        size = out.size(self.extent)
        out.put(f"if {size} != 0:")
        message = f"{shown(self.extent)} has size {{{size}}}, and this file is for size 0"
        out.put(f'raise ValueError(f"{message}")', 2)


@record()
class CheckSome(Statement):
    """Along an axis without elements no instance runs, and what lacks the axis must be empty."""

    extent: ExtentName
    buffers: tuple[TensorName, ...]

    text = "check {extent} > 0, or nothing in {buffers}"

    def run(self, call: Evaluation) -> None:
        others = sum(math.prod(call.tensors[n].shape) for n in self.buffers)
        if call.sizes[self.extent] == 0 < others:
            raise InternalError(f"kernels are for {self.extent} of larger sizes than 0")

    def write(self, out: Writer) -> None:
        elements = " + ".join(f"{out.tensor(n)}.numel()" for n in self.buffers)
        out.fit(f"if {out.size(self.extent)} == 0 < ", elements, ":")
        what = f"{shown(self.extent)} has size 0, and this file is for larger ones"
        out.put(f'raise ValueError("{what}")', 2)
