"""Reads the text that tile programs are printed as: `parse(str(program))` is that program.

Kinds and axes of expressions are not written; they follow from the table of operations and from
what names stand for. What is read is not checked otherwise: that is the verifier's affair.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn, TypeVar, get_args

from monocomp.errors import InternalError
from monocomp.tile.operations import JOIN, OPERATIONS, SIGNS
from monocomp.tile.printer import INFIX, MARKED
from monocomp.tile.program import (
    Assign,
    Axis,
    Combine,
    Expr,
    Fold,
    Let,
    Loop,
    Mask,
    OutputTensor,
    Role,
    Segment,
    Selection,
    State,
    Statement,
    Store,
    Tensor,
    TileProgram,
    apply,
    local,
    number,
)
from monocomp.vocabulary import Kind

_TOKEN = re.compile(
    r"\s*(?:(?P<number>-?(?:\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+|\d+|inf\b|nan\b)|true\b|false\b)"
    r"|(?P<name>[^\W\d][\w']*)|(?P<extent>\|[^|]+\|)"
    r"|(?P<sign>\.\.|<-|->|<=|==|!=|\+=|//|[-+*/%<=.,:;()\[\]]))"
)
_SIGNS = {sign: op for op, sign in INFIX.items()} | dict.fromkeys(SIGNS, "compare")
_NAMED = {"inside": "masked", "float": "cast", "int": "cast"} | dict.fromkeys(JOIN, "reduce")
_KINDS: dict[type, Kind] = {int: "int", float: "float"}
_T = TypeVar("_T")


def parse(text: str) -> TileProgram:
    """The program that is printed as this text.

    Raises:
        InternalError: no program is printed so, with the line.
    """
    return _Parser(text).program()


class _Line:
    """A line's tokens, read from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        self.depth = len(text) - len(text.lstrip())
        self.tokens: list[tuple[str, str]] = []
        place = 0
        while not self.is_comment and place < len(self.text):
            found = _TOKEN.match(self.text, place)
            if found is None:
                self.fail()
            place = found.end()
            self.tokens.append((str(found.lastgroup), found[str(found.lastgroup)]))
        self.place = 0

    @property
    def is_comment(self) -> bool:
        return self.text.startswith("#")

    def fail(self) -> NoReturn:
        raise InternalError(f"this is no line of a tile program: {self.text}")

    def peek(self, ahead: int = 0) -> str:
        at = self.place + ahead
        return self.tokens[at][1] if at < len(self.tokens) else ""

    def take(self, *wanted: str) -> bool:
        """Go past these tokens, if they come next."""
        if any(self.peek(n) != w for n, w in enumerate(wanted)):
            return False
        self.place += len(wanted)
        return True

    def expect(self, *wanted: str) -> None:
        if not self.take(*wanted):
            self.fail()

    def name(self) -> str:
        if self.place >= len(self.tokens):
            self.fail()
        self.place += 1
        return self.tokens[self.place - 1][1]

    def extent(self) -> str:
        """A name that may begin with a dot."""
        return f".{self.name()}" if self.take(".") else self.name()

    def list(self, item: Callable[[], _T], end: str) -> list[_T]:
        """Items between commas, and what ends them."""
        found: list[_T] = []
        while not self.take(end):
            if found:
                self.expect(",")
            found.append(item())
        return found

    def is_at_end(self) -> bool:
        return self.place == len(self.tokens)


class _Parser:
    def __init__(self, text: str) -> None:
        self.lines = [_Line(line) for line in text.splitlines() if line.strip()]
        self.at = 0
        self.known: dict[str, Expr] = {}  # what names of values and states stand for
        self.loops: list[Loop] = []
        self.combines: dict[str, Combine] = {}
        self.kernel = TileProgram("", {}, {}, {}, ())

    @property
    def line(self) -> _Line:
        return self.lines[self.at]

    def program(self) -> TileProgram:
        self._signature()
        while self.at < len(self.lines) and self.line.peek() in ("parts", *get_args(Role)):
            self._declaration()
        while self.at < len(self.lines) and "combine" in (self.line.peek(), self.line.peek(1)):
            self._combine()
        return replace(self.kernel, body=self._body(2))

    def _next(self) -> None:
        if not self.line.is_at_end():
            self.line.fail()
        self.at += 1

    # --- declarations -----------------------------------------------------------------

    def _signature(self) -> None:
        line = self.line
        line.expect("kernel")
        name = line.name()
        line.expect("(")
        given = line.list(self._tensor, ")")
        line.expect("->")
        outputs = [self._tensor()]
        while line.take(","):
            outputs.append(self._tensor())
        self.kernel = TileProgram(
            name,
            {},
            {t[0]: Tensor(t[0], t[1], t[2], t[4]) for t in given if t[1] is not None},
            {t[0]: t[2] for t in given if t[1] is None},
            tuple(OutputTensor(t[0], t[1] or (), t[2], t[3], t[4]) for t in outputs),
        )
        self._next()

    def _tensor(self) -> tuple[str, tuple[str, ...] | None, Kind, str | None, bool]:
        """Name, dimensions if it is no parameter, kind, dtype, is it stored?"""
        line = self.line
        name = line.name()
        line.expect(":")
        is_stored = line.take("stored")
        kind: Any = line.name()
        dims = tuple(line.list(line.extent, "]")) if line.take("[") else None
        dtype = line.name() if line.take("as") else None
        return name, dims, kind, dtype, is_stored

    def _declaration(self) -> None:
        line = self.line
        role: Any = line.name()
        while True:
            name = line.extent()
            if role == "parts":
                self.kernel.parts |= {name}
            else:
                extent = line.extent() if line.take("of") else name
                after = line.name() if line.take("after") else None
                self.kernel.axes[name] = Axis(name, extent, role, after)
            if not line.take(","):
                break
        self._next()

    def _combine(self) -> None:
        line = self.line
        commutes = line.take("commuting")
        line.expect("combine")
        name = line.name()
        line.expect("(")
        left = [(t[0], t[2]) for t in line.list(self._tensor, ";")]
        right = line.list(line.name, ")")
        line.expect(":")
        fields = zip((*(n for n, _ in left), *right), [kind for _, kind in left] * 2, strict=True)
        outer = self.known
        self.known = {n: local(n, frozenset(), kind) for n, kind in fields}
        self._next()
        body = self._body(4)
        self.line.expect("give")
        results = self._rest()
        lets = tuple(s for s in body if isinstance(s, Let))
        names = tuple(n for n, _ in left)
        self.combines[name] = Combine(name, names, tuple(right), lets, results, commutes)
        self.known = outer
        self._next()

    # --- statements -------------------------------------------------------------------

    def _body(self, depth: int) -> list[Statement]:
        found: list[Statement] = []
        while self.at < len(self.lines) and self.line.depth >= depth:
            if self.line.peek() == "give":
                break
            found.append(self._statement())
        return found

    def _statement(self) -> Statement:
        line = self.line
        if line.is_comment or line.peek() == "for" or (line.peek() == "state" and line.peek(1)):
            return self._loop()
        s: Statement
        if line.take("keep"):
            s = Mask(self._expression())
        elif line.peek() == "store" and line.peek(2) == "[":
            s = self._store()
        elif line.peek(1) == "<-":
            name = line.name()
            line.expect("<-")
            s = Assign(name, self._expression())
        elif ") . " in line.text:
            s = self._fold()
        else:
            name, _ = self._target()
            s = Let(name, self._expression())
            self._give(name, s.value.axes, s.value.kind)
        self._next()
        if isinstance(s, Mask) and self.loops:
            self.loops[-1].body.append(s)  # for what is masked in it
        return s

    def _give(self, name: str, axes: frozenset[str], kind: Kind) -> None:
        self.known[name] = local(name, axes, kind)

    def _target(self) -> tuple[str, frozenset[str]]:
        """A name with axes, and the sign after it."""
        line = self.line
        name = line.name()
        axes = frozenset(line.list(line.name, "]")) if line.take("[") else frozenset()
        line.expect("=")
        return name, axes

    def _store(self) -> Store:
        line = self.line
        line.expect("store")
        output = line.name()
        line.expect("[")
        places = tuple(line.list(self._expression, "]"))
        adds = line.take("+=") or not line.take("=")
        value = self._infix(self._operand())
        guard = self._operand() if line.take("if") else None
        return Store(output, places, value, guard, "add" if adds else "set")

    def _fold(self) -> Fold:
        line = self.line
        names = line.list(line.name, "=")
        line.expect("(")
        state = tuple(line.list(self._expression, ")"))
        line.expect(".")
        name = line.name()
        line.expect("[")
        is_scan = line.take("..")
        axis = line.name()
        monoid: Combine | Selection
        monoid = Selection(line.name()) if line.take("->") else self.combines[name]
        line.expect("]", "(")
        elements = tuple(line.list(self._expression, ")"))
        axes = frozenset().union(*(e.axes for e in (*state, *elements))) - {axis}
        for n, name in enumerate(names):
            kept = is_scan and n < len(state)
            self._give(name, axes | {axis} if kept else axes, state[n % len(state)].kind)
        count = len(state) if is_scan else 0
        return Fold(tuple(names[count:]), monoid, axis, state, elements, tuple(names[:count]))

    def _loop(self) -> Loop:
        folds: list[str] = []
        state: list[State] = []
        while self.line.is_comment:
            folds.append(self.line.text.removeprefix("# "))
            self.at += 1
        while self.line.take("state"):
            name, axes = self._target()
            state.append(State(name, axes, self._expression()))
            self._next()
        line = self.line
        line.expect("for")
        name = line.name()
        line.expect("in")
        segments = [self._segment()]
        while line.take(",", "then"):
            segments.append(self._segment())
        line.expect(":")
        for s in state:
            self._give(s.name, s.axes, s.kind)
        loop = Loop(self.kernel.axes[name], tuple(segments), state, [], tuple(folds))
        depth = line.depth
        self._next()
        self.loops.append(loop)
        body = self._body(depth + 1)
        self.loops.pop()
        return replace(loop, body=body)

    def _segment(self) -> Segment:
        line = self.line
        lower: tuple[Expr, ...] = ()
        upper: tuple[Expr, ...] = ()
        if line.take("max", "(", "0", ","):
            lower = tuple(line.list(self._expression, ")"))
        else:
            line.expect("0")
        line.expect("..")
        if line.take("min", "("):
            line.name()
            line.expect(",")
            upper = tuple(line.list(self._expression, ")"))
        else:
            line.name()
        return Segment(lower, upper, line.take("where", "kept"))

    # --- expressions ------------------------------------------------------------------

    def _rest(self) -> tuple[Expr, ...]:
        """Expressions to the end of the line."""
        found = [self._expression()]
        while self.line.take(","):
            found.append(self._expression())
        return tuple(found)

    def _expression(self) -> Expr:
        """Operands with a sign between them; a load may be guarded."""
        first = self._operand()
        if self.line.take("if"):
            guard = self._operand()
            args, axes = (*first.args, guard), first.axes | guard.axes
            return replace(first, args=args, axes=axes, guarded=True)
        return self._infix(first)

    def _infix(self, first: Expr) -> Expr:
        op = _SIGNS.get(self.line.peek())
        if op is None:
            return first
        sign = self.line.name()
        attr = sign if op == "compare" else MARKED.get(op)
        return apply(op, first, self._operand(), attr=attr)

    def _operand(self) -> Expr:
        line = self.line
        if line.take("("):
            e = self._expression()
            line.expect(")")
            return e
        sort, text = line.tokens[line.place] if not line.is_at_end() else ("", "")
        if sort == "number":
            return self._number()
        if sort == "extent":
            return Expr("extent", (), line.name().strip("|"), frozenset(), "int")
        if sort != "name":
            line.fail()
        if text in ("coordinate", "param") and line.take(text, "("):
            name = line.name()
            line.expect(")")
            return self._coordinate(name) if text == "coordinate" else self._param(name)
        if line.peek(1) == "[" and text in self.kernel.inputs:
            name = line.name()
            line.expect("[")
            args = line.list(self._expression, "]")
            axes = frozenset().union(*(a.axes for a in args))
            return Expr("load", tuple(args), name, axes, self.kernel.inputs[name].kind)
        if line.peek(1) in ("[", "("):
            return self._call()
        name = line.name()
        if name in self.known:
            return self.known[name]
        return self._coordinate(name) if name in self.kernel.axes else self._param(name)

    def _number(self) -> Expr:
        value = self._value()
        return number(value, "bool" if isinstance(value, bool) else _KINDS[type(value)])

    def _value(self) -> float:
        text = self.line.name()
        if text in ("true", "false"):
            return text == "true"
        return int(text) if text.lstrip("-").isdigit() else float(text)

    def _coordinate(self, name: str) -> Expr:
        return Expr("coordinate", (), name, self.kernel.axes[name].tile, "int")

    def _param(self, name: str) -> Expr:
        if name not in self.kernel.params:
            self.line.fail()
        return Expr("param", (), name, frozenset(), self.kernel.params[name])

    def _call(self) -> Expr:
        """An operation with its attribute and operands."""
        line = self.line
        name = line.name()
        op = _NAMED.get(name, name)
        if op not in OPERATIONS:
            line.fail()
        parts: list[Any] = [name] if op in ("reduce", "cast") else []
        if line.take("["):
            parts += line.list(self._part, "]")
        line.expect("(")
        args = line.list(self._expression, ")")
        attr: Any = parts[0] if len(parts) == 1 else tuple(parts) or None
        along = self._domain(attr[0]) if op == "masked" else frozenset()
        return apply(op, *args, attr=attr, along=along)

    def _part(self) -> Any:
        sort = self.line.tokens[self.line.place][0]
        return self._value() if sort == "number" else self.line.name()

    def _domain(self, name: str) -> frozenset[str]:
        found = (x.domain for x in self.loops if x.axis.name == name)
        return next(found, self.kernel.axes[name].tile)
