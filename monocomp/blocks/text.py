"""A block program as text for people: every value with its dimensions and dtype."""

from __future__ import annotations

import math

from monocomp.blocks import program as B


def show_program(p: B.BlockProgram) -> str:
    """The kernel, with the functions that it calls before it."""
    lines: list[str] = []
    for f in p.functions.values():
        _function(f, lines)
    lines += [f"kernel {p.name}({', '.join(a.name.attr for a in p.arguments)})"]
    if p.producer:
        lines.append("  producer:")
        _body(p.producer.body, "    ", lines)
        lines.append("  consumers:")
    _body(p.body, "    " if p.producer else "  ", lines)
    return "\n".join(lines)


def _function(f: B.Function, lines: list[str]) -> None:
    lines.append(f"function {f.name}({', '.join(map(show, f.operands))})")
    _body(f.body, "  ", lines)
    lines.append(f"  return {', '.join(map(show, f.results))}")


def _body(body: B.Body, indent: str, lines: list[str]) -> None:
    inner = indent + "  "
    for s in body:
        match s:
            case B.Assign():
                lines.append(f"{indent}{', '.join(map(_typed, s.targets))} = {show(s.value)}")
            case B.Load():
                lines.append(f"{indent}{_typed(s.target)} = load {s.tensor} {_access(s.access)}")
            case B.Store():
                sign = "+=" if s.mode == "add" else "="
                lines.append(f"{indent}store {s.output} {_access(s.access)} {sign} {show(s.value)}")
            case B.For():
                lines.append(f"{indent}for {s.variable.attr} in {_range(s.range)}:")
                _body(s.body, inner, lines)
            case B.While():
                lines.append(f"{indent}while {show(s.test)}:")
                _body(s.body, inner, lines)
            case B.If():
                lines.append(f"{indent}if {show(s.test)}:")
                _body(s.body, inner, lines)
                if s.orelse:
                    lines.append(f"{indent}else:")
                    _body(s.orelse, inner, lines)
            case B.Give():
                lines.append(f"{indent}give {s.ring.name} {_access(s.access)}")
            case B.Take():
                lines.append(f"{indent}{_typed(s.target)} = take {s.ring.name}")
            case B.Release():
                lines.append(f"{indent}release {s.ring.name}")
            case B.Issue():
                lines.append(f"{indent}{_typed(s.target)} = issue {show(s.product)}")
            case B.Wait():
                behind = f", {s.behind} behind it" if s.behind else ""
                lines.append(f"{indent}wait for {s.target.attr}{behind}")
            case B.Comment():
                lines.append(f"{indent}# {s.text}")


def _typed(target: B.Expr) -> str:
    """x[i,j]: dtype"""
    layout = f"[{','.join(a or '1' for a in target.layout)}]" if target.layout else ""
    return f"{target.attr}{layout}: {_dtype(target.dtype)}"


def _dtype(dtype: B.Dtype) -> str:
    of = {"tensor": "elements of ", "value": "dtype of "}.get(dtype.of, "")
    return f"pointer to {dtype.name}" if dtype.kind == "pointer" else f"{of}{dtype.name}"


def _access(access: B.Pointers | B.Descriptor) -> str:
    if isinstance(access, B.Descriptor):
        return f"by {show(access.descriptor)} at [{', '.join(map(show, access.places))}]"
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
    if e.op in B.INFIX or e.op == "select":
        parts = [show(a, True) for a in e.args]
        text = f" {e.op} ".join(parts)
        if e.op == "select":
            text = f"{parts[1]} if {parts[0]} else {parts[2]}"
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
            return f"{e.op} {e.attr.by}[{axis}]({args})"
        case "dot_in_limbs":
            return f"dot[limbs of {_dtype(e.attr)}]({args})"
        case "function" | "helper" | "combine":
            return f"{e.attr}({args})"
    return f"{e.op}({args})"
