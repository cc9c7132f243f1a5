"""A block program as text for people: every value with its dimensions and dtype."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

from monocomp.blocks import program as B
from monocomp.tile.operations import sign_of

Line: TypeAlias = tuple[str, B.Statement | None]  # None: what is declared


def show_program(p: B.BlockProgram) -> str:
    """The kernel, with the functions that it calls before it."""
    return "\n".join(text for text, _ in program_lines(p))


def program_lines(p: B.BlockProgram) -> Iterator[Line]:
    """The lines of the kernel's text, each with its statement."""
    for f in p.functions.values():
        yield f"function {f.name}({', '.join(map(show, f.operands))})", None
        yield from _body(f.body, "  ")
        yield f"  return {', '.join(map(show, f.results))}", None
    yield f"kernel {p.name}({', '.join(a.name.attr for a in p.arguments)})", None
    if p.producer:
        yield "  producer:", None
        yield from _body(p.producer.body, "    ")
        yield "  consumers:", None
    yield from _body(p.body, "    " if p.producer else "  ")


def _body(body: B.Body, indent: str) -> Iterator[Line]:
    for s in body:
        yield f"{indent}{_statement(s)}", s
        match s:
            case B.For() | B.While():
                yield from _body(s.body, indent + "  ")
            case B.If():
                yield from _body(s.body, indent + "  ")
                if s.orelse:
                    yield f"{indent}else:", s
                    yield from _body(s.orelse, indent + "  ")


def _statement(s: B.Statement) -> str:
    """A statement, of a compound one the line above what it holds."""
    match s:
        case B.Assign():
            static = ", static" if s.is_static else ""
            return f"{', '.join(map(_typed, s.targets))}{static} = {show(s.value)}"
        case B.Load():
            return f"{_typed(s.target)} = load {s.tensor} {_access(s.access)}"
        case B.Store():
            sign = "+=" if s.mode == "add" else "="
            return f"store {s.output} {_access(s.access)} {sign} {show(s.value)}"
        case B.For():
            return f"for {s.variable.attr} in {_range(s.range)}:"
        case B.While():
            return f"while {show(s.test)}:"
        case B.If():
            return f"if {show(s.test)}:"
        case B.Give():
            return f"give {s.ring.name} {_access(s.access)}"
        case B.Take():
            return f"{_typed(s.target)} = take {s.ring.name}"
        case B.Release():
            return f"release {s.ring.name}"
        case B.Issue():
            return f"{_typed(s.target)} = issue {show(s.product)}"
        case B.Wait():
            behind = f", {s.behind} behind it" if s.behind else ""
            return f"wait for {s.target.attr}{behind}"
        case B.Comment():
            return f"# {s.text}"


def _typed(target: B.Expr) -> str:
    """x[i,j]: dtype"""
    layout = f"[{','.join(a or '1' for a in target.layout)}]" if target.layout else ""
    return f"{target.attr}{layout}: {_dtype(target.dtype)}"


def _dtype(dtype: B.Dtype) -> str:
    of = {"tensor": "elements of ", "value": "dtype of "}.get(dtype.of, "")
    return f"pointer to {dtype.name}" if dtype.kind == "pointer" else f"{of}{dtype.name}"


def _access(access: B.Pointers | B.Descriptor) -> str:
    if isinstance(access, B.Descriptor):
        return f"by {show(access.descriptor)} at [{', '.join(map(show, access.positions))}]"
    text = "at " + " + ".join(map(show, (access.base, *access.offsets)))
    text += "" if access.mask is None else f" where {show(access.mask)}"
    return text + ("" if access.fill is None else f" else {show(access.fill)}")


def _range(r: B.Static | B.Serial | B.Blocks) -> str:
    start = "0" if r.start is None else show(r.start)
    text = f"{start} .. {show(r.stop)}"
    match r:
        case B.Static():
            return f"{text}, unrolled"
        case B.Blocks():
            text += f", a block of {r.axis} at a time"
            text += "" if r.stages is None else f", {show(r.stages)} stages"
            return text + ("" if r.fused is None else f", fused if {show(r.fused)}")
    return text


def show(e: B.Expr, nested: bool = False) -> str:
    """An expression as text."""
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
        case "convert" | "operand":
            at = e.attr.tile if e.attr.dim is None else f"{e.attr.tile} but {e.attr.dim}"
            return f"{e.op}[{at}]({args})"
        case "arange" | "full" | "zeros" | "broadcast":
            axes = "".join(f"[{','.join(a or '1' for a in e.layout)}]" if e.layout else "")
            return f"{e.op}{axes}({args})"
        case "cast" | "to":
            return f"{_dtype(e.dtype)}({args})"
        case "reduce" | "scan":
            axis = e.args[0].layout[e.attr.dim]
            order = " backwards" if e.attr.is_backwards else ""
            return f"{e.op}{order} {e.attr.by}[{axis}]({args})"
        case "dot_in_limbs":
            return f"dot[limbs of {_dtype(e.attr)}]({args})"
        case "combine":
            return f"{e.attr}({args})"
    return f"{e.op}({args})"
