"""Statements of host programs about tensors: their dtypes, buffers, copies and views."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import methodcaller
from typing import Any

from monocomp.declarations.record import record
from monocomp.declarations.vocabulary import Kind
from monocomp.host.arguments import ExtentName, Number, Statement, TensorName
from monocomp.host.evaluation import Evaluation
from monocomp.host.plan import Launched
from monocomp.host.writer import Writer

FRAGMENT = (64, 64)  # rows and columns that lie together where results of products are added up
_DTYPES = {"promoted": "dtype", "accumulated": "torch.float32"}


def _promoted(tensors: Sequence[str]) -> str:
    """Return the dtype to which those of tensors are promoted."""
    dtype = f"{tensors[0]}.dtype" if tensors else ""
    for x in tensors[1:]:
        dtype = f"torch.promote_types({dtype}, {x}.dtype)"
    return dtype


@record()
class Promote(Statement):
    """The dtype of products: that to which those of some inputs are promoted, or a default."""

    tensors: tuple[TensorName, ...]
    default: str

    text = "dtype of {tensors}; else {default}"

    def run(self, call: Evaluation) -> None:
        call.dtype = call.target.promoted([call.tensors[n] for n in self.tensors], self.default)

    def write(self, out: Writer) -> None:
        floats = [out.tensor(n) for n in self.tensors]
        out.fit("dtype = ", _promoted(floats) or f"torch.{self.default}")
        if floats or self.default == "bfloat16":
            out.fit("dtypes = ", out.tuple([f"{x}.dtype" for x in floats] or ["dtype"]))
            out.put("if triton.knobs.runtime.interpret and torch.bfloat16 in dtypes:")
            what = "Triton interprets the bits of bfloat16: give float32"
            out.put(f'raise ValueError("{what}")', 2)


@record()
class Convert(Statement):
    """Tensors that products multiply with one another get one dtype, `Promote`'s, if theirs
    differ."""

    tensors: tuple[TensorName, ...]

    text = "convert {tensors}"

    def run(self, call: Evaluation) -> None:
        if len({call.tensors[n].dtype for n in self.tensors}) == 1:
            return
        for name in self.tensors:
            if call.tensors[name].dtype != call.dtype:
                _convert(call, name)

    def write(self, out: Writer) -> None:
        names = list(map(out.tensor, self.tensors))
        out.put(f"operands = {out.tuple(names)}")
        out.put("if len({t.dtype for t in operands}) > 1:  # one product takes both")
        out.put(f"{', '.join(names)} = (t.to(dtype) for t in operands)", 2)


@record()
class Widen(Statement):
    """Tensors of floats of 8 bits, which many program instances read, get the dtype of products."""

    tensors: tuple[TensorName, ...]

    text = "widen {tensors}"

    def run(self, call: Evaluation) -> None:
        for name in self.tensors:
            _convert(call, name)

    def write(self, out: Writer) -> None:
        for name in map(out.tensor, self.tensors):
            out.put(f"{name} = {name}.to(dtype)  # many instances read it")


def _convert(call: Evaluation, name: str) -> None:
    """Let a name stand for its tensor in the dtype of products."""
    call.make(name, methodcaller("to", call.dtype), name)
    call.tensors[name] = call.tensors[name].to("meta", call.dtype)


@record()
class Buffer(Statement):
    """A tensor that kernels write is allocated.

    `dtype` is a name, "accumulated" (that of sums), or "promoted" or "operand": that to which those
    of the tensors `beside` it are promoted, or that of products where there are none.
    """

    name: TensorName
    shape: tuple[ExtentName, ...]
    kind: Kind
    dtype: str
    beside: tuple[TensorName, ...] = ()
    is_padded: bool = False  # to whole fragments, of 64 rows and columns

    text = "{name} = empty[{shape}]: {dtype}"

    def __str__(self) -> str:
        beside = f" of {', '.join(self.beside)}" if self.beside else ""
        return super().__str__() + beside + (" in whole fragments" if self.is_padded else "")

    def run(self, call: Evaluation) -> None:
        beside = [call.tensors[n] for n in self.beside]
        beside_dtype = call.target.promoted(beside, "") if beside else call.dtype
        dtype = call.target.dtype(self.dtype, self.kind, beside_dtype)
        shape = [*call.shape(self.shape)]
        for n, length in zip((-2, -1), FRAGMENT if self.is_padded else (), strict=False):
            shape[n] = -(-shape[n] // length) * length
        call.allocate(self.name, tuple(shape), dtype)

    def write(self, out: Writer) -> None:
        sizes = [*map(out.size, self.shape)]
        for n, length in zip((-2, -1), FRAGMENT if self.is_padded else (), strict=False):
            sizes[n] = f"triton.cdiv({sizes[n]}, {length}) * {length}"
        shape = out.tuple(sizes)
        dtype = _promoted([out.tensor(n) for n in self.beside]) or _DTYPES.get(self.dtype)
        dtype = dtype or f"torch.{self.dtype}"
        text = f"{out.empty}({shape}, dtype={dtype}, device={out.device})"
        out.fit(f"{out.tensor(self.name)} = ", text)


@record()
class Clear(Statement):
    """A buffer that kernels add to starts as 0."""

    tensor: TensorName

    text = "{tensor} = 0"

    def run(self, call: Evaluation) -> None:
        call.launches.append(Launched(call.target.clear, call.gather(self.tensor), [], {}))

    def write(self, out: Writer) -> None:
        out.put(f"clear({out.tensor(self.tensor)}, launch)")


@record()
class Free(Statement):
    """Buffers that nothing reads any more are given back."""

    tensors: tuple[TensorName, ...]

    text = "free {tensors}"

    def run(self, call: Evaluation) -> None:
        call.end_stage(self.tensors)

    def write(self, out: Writer) -> None:
        held = {d: None for n in self.tensors for d in out.described.get(n, ())}
        out.fit("del ", ", ".join([*map(out.tensor, self.tensors), *held]))


@record()
class Sort(Statement):
    """The positions of a tensor's elements in the order of these, equal ones as they come,
    and where in that list those of each number begin and end. Each element of the dimensions that
    are kept has a list of its own."""

    tensor: TensorName
    kept: tuple[int, ...]
    order: TensorName
    first: TensorName
    last: TensorName

    text = "{order}, {first}, {last} = sort {tensor}, by {kept}"

    def run(self, call: Evaluation) -> None:
        tensors = call.gather(self.tensor, self.order, self.first, self.last)
        call.launches.append(Launched(call.target.sort, tensors, [], {"kept": self.kept}))

    def write(self, out: Writer) -> None:
        names = map(out.tensor, (self.tensor, self.order, self.first, self.last))
        kept = out.tuple(map(str, self.kept))
        out.fit("", f"sort_positions({', '.join([*names, kept])})")


@record()
class Align(Statement):
    """Tensors whose elements have at most so many bytes are copied if their rows are odd, where so
    many program instances read them that it pays."""

    tensors: tuple[TensorName, ...]
    programs: Number
    least: int
    widest: int = 2

    text = "align {tensors} of {widest} bytes if {programs} >= {least}"

    def run(self, call: Evaluation) -> None:
        if self.programs.of(call) < self.least:
            return
        for name in self.tensors:
            at = call.positions[name], call.next
            copied = call.scheduled.aligned(call.tensors[name], *at, self.widest)
            if copied is not None:
                copy, launched = copied
                call.tensors[name] = copy
                call.make(name, call.target.allocation(tuple(copy.shape), copy.dtype))
                call.launches.append(launched)

    def write(self, out: Writer) -> None:
        if self.least:
            out.fit("if ", self.programs.source(out), f" >= {self.least}:")
        for name in map(out.tensor, self.tensors):
            aligned = f"aligned({name}, empty, launch, {self.widest})"
            out.fit(f"{name} = ", aligned, indent=1 + bool(self.least))


@record()
class Transpose(Statement):
    """Tensors that kernels read by columns, each along a dimension, are copied with their columns
    as rows, where so many program instances read them that it pays."""

    tensors: tuple[TensorName, ...]
    dims: tuple[int, ...]
    programs: Number
    least: int

    text = "columns of {tensors} along {dims} as rows if {programs} >= {least}"

    def run(self, call: Evaluation) -> None:
        if self.programs.of(call) >= self.least:
            for name, dim in zip(self.tensors, self.dims, strict=True):
                call.view(name, partial(_with_rows, dim=dim), name)

    def write(self, out: Writer) -> None:
        out.fit("if ", self.programs.source(out), f" >= {self.least}:  # columns are read")
        for name, dim in zip(map(out.tensor, self.tensors), self.dims, strict=True):
            copied = f"{name}.transpose({dim}, -1).contiguous().transpose({dim}, -1)"
            out.fit(f"{name} = ", copied, indent=2)


def _with_rows(tensor: Any, dim: int) -> Any:
    """Return a tensor with no gaps along a dimension."""
    return tensor.transpose(dim, -1).contiguous().transpose(dim, -1)


@record()
class View(Statement):
    """A view of a tensor in another shape."""

    name: TensorName
    tensor: TensorName
    shape: tuple[ExtentName, ...]

    text = "{name} = {tensor}.view[{shape}]"

    def run(self, call: Evaluation) -> None:
        call.view(self.name, methodcaller("reshape", call.shape(self.shape)), self.tensor)

    def write(self, out: Writer) -> None:
        sizes = ", ".join(map(out.size, self.shape))
        out.fit(f"{out.tensor(self.name)} = ", f"{out.tensor(self.tensor)}.view({sizes})")
