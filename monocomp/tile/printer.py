"""Tile programs as text: a dozen readable lines that hold all of it, and that `parse` reads.

    kernel mean(X: float[i, k], w: float[k], scale: float) -> O: float[i]
      row i
      stream k
      # sum[k](X[i,k] * w[k])
      state acc[i] = 0.0
      for k in 0 .. |k|:
        X_tile[i,k] = X[i, k]
        w_tile[k] = w[k]
        acc <- acc + sum[k](inside[k, 0.0](X_tile * w_tile))
      store O[i] = (acc * scale) / float(|k|)

`X[within(i + 1), k]` says that i + 1 is a position of X.

A name is a local's, or else an axis's, whose coordinate it stands for, or else a parameter's; one
that another one hides is written `coordinate(k)` or `param(scale)`. Kinds and axes of expressions
follow from what they are made of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TypeAlias

from monocomp.tile.operations import OPERATIONS, sign_of
from monocomp.tile.statements import (
    Assign,
    Combine,
    Fold,
    Let,
    Loop,
    Mask,
    Segment,
    Selection,
    State,
    Statement,
    Store,
    Tensor,
    names,
    walk,
)
from monocomp.tile.values import (
    Axis,
    Expr,
)

Line: TypeAlias = tuple[str, Statement | None]  # None: what is declared


def body_lines(body: list[Statement], coordinates: Collection[str]) -> Iterator[Line]:
    """Yield the lines of a kernel's body, each with its statement; first how its folds combine."""
    hidden = set(names(body))
    folds = (s.monoid for s in walk(body) if isinstance(s, Fold))
    combines = dict.fromkeys(tuple(_combine(m)) for m in folds if isinstance(m, Combine))
    yield from ((line, None) for combine in combines for line in combine)
    yield from _Printer(hidden, hidden.union(coordinates)).body(body, "  ")


def show_tensor(t: Tensor) -> str:
    """Return a tensor, its dtype or kind, and its dimensions."""
    stored = "stored " if t.is_stored else ""
    dtype = f" as {t.dtype}" if t.dtype else ""
    return f"{t.name}: {stored}{t.kind}[{', '.join(t.dims)}]{dtype}"


def show_axis(a: Axis) -> str:
    """Return an axis, and its extent where that is called otherwise."""
    extent = f" of {a.extent}" if a.extent != a.name else ""
    return f"{a.name}{extent}{f' after {a.after}' if a.after else ''}"


def _combine(m: Combine) -> Iterator[str]:
    kinds = (e.kind for e in m.results)
    left = ", ".join(f"{n}: {kind}" for n, kind in zip(m.left, kinds, strict=False))
    commuting = "commuting " if m.commutes else ""
    yield f"  {commuting}combine {m.name}({left}; {', '.join(m.right)}):"
    printer = _Printer()
    yield from (line for line, _ in printer.body(m.body, "    "))
    yield f"    give {printer.list(m.results)}"


class _Printer:
    """Prints what is inside of a kernel.

    Args:
        locals: names that are no coordinate's.
        others: names that are no parameter's.
    """

    def __init__(self, locals: Collection[str] = (), others: Collection[str] = ()) -> None:
        self.locals = locals
        self.others = others

    def body(self, body: Iterable[Statement], indent: str) -> Iterator[Line]:
        for s in body:
            if isinstance(s, Loop):
                yield from ((f"{indent}# {fold}", s) for fold in s.folds)
                for state in s.state:
                    yield f"{indent}state {show_state(state)} = {self.show(state.start)}", s
                yield f"{indent}{self.header(s)}:", s
                yield from self.body(s.body, indent + "  ")
            else:
                yield indent + self.statement(s), s

    def statement(self, s: Let | Fold | Mask | Assign | Store) -> str:
        match s:
            case Let():
                return f"{s.name}{_axes(s.value.axes)} = {self.show(s.value)}"
            case Fold():
                return f"{', '.join((*s.prefixes, *s.names))} = {self.fold(s)}"
            case Mask():
                return f"keep {self.show(s.value)}"
            case Assign():
                return f"{s.name} <- {self.show(s.value)}"
        sign = "=" if s.mode == "set" else "+="
        return f"store {s.output}[{', '.join(s.axes)}] {sign} {self.show(s.value)}"

    def fold(self, s: Fold) -> str:
        """(state).monoid[axis](elements)"""
        if isinstance(s.monoid, Selection):
            how = f"top[{s.axis}, {s.monoid.axis}]"
        else:
            how = f"{s.monoid.name}[{'..., ' if s.prefixes else ''}{s.axis}]"
        return f"({self.list(s.state)}).{how}({self.list(s.elements)})"

    def header(self, s: Loop) -> str:
        ranges = [
            self.range(segment, s.axis.extent) + (" where kept" if segment.masked else "")
            for segment in s.segments
        ]
        order = "backwards " if s.is_backwards else ""
        return f"for {s.axis.name} in {order}{', then '.join(ranges)}"

    def range(self, s: Segment, extent: str) -> str:
        low = f"max(0, {self.list(s.lower)})" if s.lower else "0"
        high = f"min(|{extent}|, {self.list(s.upper)})" if s.upper else f"|{extent}|"
        return f"{low} .. {high}"

    def list(self, values: Iterable[Expr]) -> str:
        return ", ".join(map(self.show, values))

    def show(self, e: Expr, nested: bool = False) -> str:
        match e.op:
            case "number":
                return _number(e.attr)
            case "local":
                return str(e.attr)
            case "coordinate":
                return f"coordinate({e.attr})" if e.attr in self.locals else str(e.attr)
            case "param":
                return f"param({e.attr})" if e.attr in self.others else str(e.attr)
            case "extent":
                return f"|{e.attr}|"
            case "cast":
                return f"{e.attr}({self.list(e.args)})"
            case "load":
                condition = "" if e.guard is None else f" if {self.show(e.guard)}"
                positions = [
                    f"within({x})" if n in e.inside else x
                    for n, x in enumerate(map(self.show, e.positions))
                ]
                return f"{e.attr}[{', '.join(positions)}]{condition}"
        sign = sign_of(e.op, e.attr)
        if sign is None:
            return self.call(e)
        text = f" {sign.text} ".join(self.show(a, nested=True) for a in e.args)
        return f"({text})" if nested else text

    def call(self, e: Expr) -> str:
        """operation[attribute](operands); a reduction goes by its monoid."""
        row = OPERATIONS.get(e.op)
        name = "inside" if e.op == "masked" else e.op
        parts = [p for p in (row.parts(e.attr) if row else ()) if p is not None]
        if e.op == "reduce":
            name, *parts = parts
        shown = (_number(p) if isinstance(p, float | int) else str(p) for p in parts)
        attr = f"[{', '.join(shown)}]" if parts else ""
        return f"{name}{attr}({self.list(e.args)})"


def _axes(axes: Iterable[str]) -> str:
    names = ",".join(sorted(axes))
    return f"[{names}]" if names else ""


def _number(value: float) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def show(e: Expr) -> str:
    """Return an expression as text."""
    return _Printer().show(e)


def show_state(state: State) -> str:
    """Return a carried field with its axes."""
    return state.name + _axes(state.axes)


def loop_header(s: Loop) -> str:
    """Return the loop's axis and segments."""
    return _Printer().header(s)
