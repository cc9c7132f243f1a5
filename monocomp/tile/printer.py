"""A tile program as a dozen readable lines."""

from __future__ import annotations

import math

from monocomp.tile.program import (
    Assign,
    Expr,
    Fold,
    Let,
    Loop,
    Mask,
    Segment,
    Selection,
    State,
    Statement,
    Store,
    TileProgram,
)

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%"}
_INFIX |= {"and": "and", "or": "or"}


def show_program(p: TileProgram) -> str:
    """The kernel as text."""
    outputs = ", ".join(o.name for o in p.outputs)
    lines = [f"kernel {p.name}({', '.join([*p.inputs, *p.params])}) -> {outputs}"]
    for role in ("grid", "row", "stream", "serial", "whole"):
        axes = [p.axes[name] for name in p.axis_names(role)]
        if axes:
            names = (f"{a.name} after {a.after}" if a.after else a.name for a in axes)
            lines.append(f"  {role} " + ", ".join(names))
    _body(p.body, "  ", lines)
    return "\n".join(lines)


def _body(body: list[Statement], indent: str, lines: list[str]) -> None:
    for s in body:
        match s:
            case Let():
                axes = ",".join(sorted(s.value.axes))
                lines.append(f"{indent}{s.name}{f'[{axes}]' if axes else ''} = {show(s.value)}")
            case Fold():
                lines.append(f"{indent}{', '.join((*s.prefixes, *s.names))} = {_fold(s)}")
            case Mask():
                lines.append(f"{indent}keep {show(s.value)}")
            case Assign():
                lines.append(f"{indent}{s.name} <- {show(s.value)}")
            case Store():
                lines.append(f"{indent}store {s.output} = {show(s.value)}")
            case Loop():
                _loop(s, indent, lines)


def _loop(s: Loop, indent: str, lines: list[str]) -> None:
    for state in s.state:
        lines.append(f"{indent}state {show_state(state)} = {_number(state.unit)}")
    lines.append(f"{indent}{loop_header(s)}:")
    _body(s.body, indent + "  ", lines)


def _fold(s: Fold) -> str:
    """state . monoid[axis](elements)"""
    name = "top" if isinstance(s.monoid, Selection) else s.monoid.name
    state, elements = (", ".join(map(show, x)) for x in (s.state, s.elements))
    axes = f"..{s.axis}" if s.prefixes else s.axis
    if isinstance(s.monoid, Selection):
        axes = f"{s.axis} -> {s.monoid.axis}"
    return f"({state}) . {name}[{axes}]({elements})"


def show_state(state: State) -> str:
    """A carried field with its axes."""
    axes = ",".join(sorted(state.axes))
    return f"{state.name}[{axes}]" if axes else state.name


def loop_header(s: Loop) -> str:
    """The loop's axis and segments."""
    ranges = [
        _range(segment, s.axis.extent) + (" where kept" if segment.masked else "")
        for segment in s.segments
    ]
    return f"for {s.axis.name} in {', then '.join(ranges)}"


def _range(s: Segment, extent: str) -> str:
    low = ", ".join(["0", *map(show, s.lower)])
    high = ", ".join([f"|{extent}|", *map(show, s.upper)])
    return f"{f'max({low})' if s.lower else low} .. {f'min({high})' if s.upper else high}"


def _number(value: float) -> str:
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def show(e: Expr, nested: bool = False) -> str:
    """An expression as text."""
    match e.op:
        case "number":
            return _number(e.attr)
        case "param" | "local" | "coordinate":
            return str(e.attr)
        case "extent":
            return f"|{e.attr}|"
        case "load":
            return f"{e.attr}[{', '.join(map(show, e.args[: len(e.args) - e.guarded]))}]"
        case "contract":
            initial = f"{show(e.args[2], True)} + " if len(e.args) > 2 else ""
            return f"{initial}contract[{e.attr}]({show(e.args[0])}, {show(e.args[1])})"
        case "reduce":
            return f"{e.attr[0]}[{e.attr[1]}]({show(e.args[0])})"
        case "masked":
            return f"inside({show(e.args[0])}, else {_number(e.attr[1])})"
        case "compare":
            text = f"{show(e.args[0], True)} {e.attr} {show(e.args[1], True)}"
            return f"({text})" if nested else text
    if e.op in _INFIX:
        text = f" {_INFIX[e.op]} ".join(show(a, True) for a in e.args)
        return f"({text})" if nested else text
    return f"{e.op}({', '.join(map(show, e.args))})"
