"""Values of block programs: expressions of tiles whose dimensions have an order, and their text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

from monocomp.declarations.record import record
from monocomp.declarations.vocabulary import Kind
from monocomp.tile.operations import sign_of

Layout: TypeAlias = tuple[str | None, ...]
DtypeKind: TypeAlias = Kind | Literal["pointer", "descriptor", "none"]

# Numbers and parameters below it take no sum of indices, nor a small multiple, past 32 bits.
SMALL_INT = 1 << 24


@record()
class Dtype:
    """A dtype by its name; or that of the elements of a tensor, or of a named value.

    `int` and `float` are those of literals and arguments, whose width their values decide; INDEX
    is the width of offsets, which an argument of the kernel tells.
    """

    name: str
    kind: DtypeKind
    of: Literal["", "tensor", "value"] = ""

    def __str__(self) -> str:
        of = {"tensor": "elements of ", "value": "dtype of "}.get(self.of, "")
        return f"pointer to {self.name}" if self.kind == "pointer" else f"{of}{self.name}"


FLOAT, INT, BOOL = Dtype("float", "float"), Dtype("int", "int"), Dtype("int1", "bool")
FLOAT32, FLOAT16 = Dtype("float32", "float"), Dtype("float16", "float")
BFLOAT16 = Dtype("bfloat16", "float")
INT32, INT64, UINT32 = Dtype("int32", "int"), Dtype("int64", "int"), Dtype("uint32", "int")
INDEX = Dtype("INDEX", "int")
NONE = Dtype("none", "none")
OF_KIND: dict[Kind, Dtype] = {"float": FLOAT32, "int": INT64, "bool": BOOL}


@record(eq=False)
class Expr:
    """A value: an operation on values, a row of `tile.operations`; many stand for the same in tile
    programs. Those of block programs alone, with their attr in brackets:

        name(identifier), text(value), none, program_id,
        arange: the positions in a block; full of a value, zeros: tiles of one number,
        expand, trans, broadcast of a value, to the layout of the result,
        select of a test that is known as the kernel is compiled, or a scalar, and two values,
        cast of a value to its dtype, which may be a plain number; to of a tile or tensor,
        given of a descriptor: is there one?
        reduce(Reduction) of a tile or several; scan(Reduction) for all prefixes,
        dot of left, right [, initial]; dot_in_limbs(dtype) of left, right, initial or none,
        combine(name): a function of the program; others are those that dialects bring along,
        convert(Registers) of a tile that lies in others; operand(Registers) of one for a product;
        fetch(Registers) of a block in shared memory.
    Where tiles have been placed in registers the attr of arange, full and zeros tells in which.
    """

    op: str
    args: tuple[Expr, ...] = ()
    attr: Any = None
    layout: Layout = ()
    dtype: Dtype = NONE

    @cached_property
    def read_names(self) -> frozenset[str]:
        """Return the names whose values or dtypes the expression reads."""
        own: set[str] = set()
        match self.op:
            case "name":
                own = {self.attr}
            case "cast" | "to" | "full" | "zeros" | "dot_in_limbs":
                dtype = self.attr if self.op == "dot_in_limbs" else self.dtype
                own = {dtype.name} if dtype.of or dtype == INDEX else own
        return frozenset(own).union(*(a.read_names for a in self.args))


@record()
class Reduction:
    """Combining a tile's elements along a dimension: by a built-in operation, a helper, or a
    function of the program; from the last to the first if it `is_backwards`."""

    by: str
    dim: int
    kind: Literal["built-in", "helper", "combine"] = "built-in"
    is_backwards: bool = False


@record()
class Registers:
    """The layout of a tile: as the result of a product along two axes does, or as memory has it, so
    that a thread has neighbours in a row; a vector as that would without one of its dimensions, or
    of one axis alone."""

    tile: tuple[str, ...]
    dim: int | None = None
    in_rows: bool = False


def subexpressions(e: Expr) -> Iterator[Expr]:
    """e and its operands, operands first."""
    for a in e.args:
        yield from subexpressions(a)
    yield e


def renamed(e: Expr, names: Mapping[str, Expr]) -> Expr:
    """Return an expression that reads other values for names, or itself if it reads none."""
    if e.op == "name":
        return names.get(e.attr, e)
    if e.read_names.isdisjoint(names):
        return e
    return replace(e, args=tuple(renamed(a, names) for a in e.args))


def typed(target: Expr) -> str:
    """x[i,j]: dtype"""
    layout = f"[{','.join(a or '1' for a in target.layout)}]" if target.layout else ""
    return f"{target.attr}{layout}: {target.dtype}"


def show(e: Expr, nested: bool = False) -> str:
    """Return an expression as text."""
    sign = sign_of(e.op, e.attr)
    if sign is not None or e.op == "select":
        parts = [show(a, True) for a in e.args]
        text = f" {sign.text} ".join(parts) if sign else f"{parts[1]} if {parts[0]} else {parts[2]}"
        return f"({text})" if nested else text
    args = ", ".join(map(show, e.args))
    match e.op:
        case "name":
            return str(e.attr)
        case "number":
            return str(e.attr) if math.isfinite(e.attr) else f"{e.attr:+}"
        case "neg":
            return f"-{show(e.args[0], True)}"
        case "expand":
            return f"{show(e.args[0], True)}[{','.join(a or '1' for a in e.layout)}]"
        case "convert" | "operand" | "fetch":
            at = e.attr.tile if e.attr.dim is None else f"{e.attr.tile} but {e.attr.dim}"
            at = f"rows of {at}" if e.attr.in_rows else at
            return f"{e.op}[{at}]({args})"
        case "arange" | "full" | "zeros" | "broadcast":
            axes = "".join(f"[{','.join(a or '1' for a in e.layout)}]" if e.layout else "")
            return f"{e.op}{axes}({args})"
        case "cast" | "to":
            return f"{e.dtype}({args})"
        case "reduce" | "scan":
            axis = e.args[0].layout[e.attr.dim]
            order = " backwards" if e.attr.is_backwards else ""
            return f"{e.op}{order} {e.attr.by}[{axis}]({args})"
        case "dot_in_limbs":
            return f"dot[limbs of {e.attr}]({args})"
        case "combine":
            return f"{e.attr}({args})"
    return f"{e.op}({args})"
