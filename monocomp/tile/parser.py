"""Reads the text that tile programs are printed as: `parse(str(program))` is that program.

A statement is a line of its own form; its expressions are those of Python, once every word in them
is numbered, as a tensor may be called `lambda`. Kinds and axes of expressions are not written: they
follow from the table of operations and from what names stand for. What is read is not checked
otherwise.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import Any, NoReturn, get_args

from monocomp import tile as P
from monocomp.declarations.vocabulary import Kind
from monocomp.display.formulas import words
from monocomp.errors import InternalError
from monocomp.tile.operations import JOIN, OPERATIONS, SIGNS, Sign

_WORD = re.compile(r"\|[^|]+\||(?<!\w)(?!(?:and|or|not)\b)[^\W\d]\w*")
_KERNEL = re.compile(r"kernel (\w+)\((.*)\) -> (.*)")
_TENSOR = re.compile(r"(\w+): (stored )?(\w+)(\[.*?\])?(?: as (\w+))?")
_AXIS = re.compile(r"(\S+?)(?: of (\S+?))?(?: after (\S+))?")
_COMBINE = re.compile(r"(commuting )?combine (.+?)\((.*); (.*)\):")
_LOOP = re.compile(r"for (\w+) in (.*):")
_RANGE = re.compile(r"(?:max\(0, (.*)\)|0) \.\. (?:min\(\|.*?\|, (.*)\)|\|.*?\|)( where kept)?")
_STATE = re.compile(r"state (\w+)(\[.*?\])? = (.*)")
_STORE = re.compile(r"store (\w+)\[(.*)\] (\+?=) (.*)")
_ASSIGN = re.compile(r"(\w+) <- (.*)")
_NAMES = re.compile(r"(\w+(?:, \w+)*)(?:\[.*?\])? = (.*?)(?: if (.*))?")
_MASK = re.compile(r"keep (.*)")

_CALLED = {"inside": "masked", "float": "cast", "int": "cast"} | dict.fromkeys(JOIN, "reduce")
_LITERALS = {"inf": float("inf"), "nan": float("nan"), "true": True, "false": False}
_KINDS: dict[type, Kind] = {bool: "bool", int: "int", float: "float"}


def _infix(tree: ast.expr) -> tuple[type[ast.AST], list[ast.expr]] | None:
    """Return what stands between two operands, and these; None if this is no such expression."""
    match tree:
        case ast.BinOp(left, sign, right) | ast.BoolOp(sign, [left, right]):
            return type(sign), [left, right]
        case ast.Compare(left, [sign], [right]):
            return type(sign), [left, right]
    return None


_SIGNS: dict[type[ast.AST], Sign] = {
    sign[0]: row
    for text, row in SIGNS.items()
    if (sign := _infix(ast.parse(f"a {text} b", mode="eval").body))
}


def parse(text: str) -> P.TileProgram:
    """Return the program that is printed as this text.

    Raises:
        InternalError: no program is printed so, with the line.
    """
    return _Parser(text).program()


class _Parser:
    def __init__(self, text: str) -> None:
        self.lines = [line for line in text.splitlines() if line.strip()]
        self.at = 0
        self.words: list[str] = []  # of the expression that is read, by number
        self.known: dict[str, P.Expr] = {}  # what names of values and states stand for
        self.loops: list[P.Loop] = []
        self.combines: dict[str, P.Combine] = {}
        self.kernel = self._signature()

    def program(self) -> P.TileProgram:
        while self._peek().split(" ")[0] in ("splits", *get_args(P.Role)):
            self._declaration()
        while combine := self._take(_COMBINE):
            self._combine(*combine)
        body = self._body(2)
        if self.at < len(self.lines):
            self._fail()
        return replace(self.kernel, body=body)

    # --- lines ------------------------------------------------------------------------

    def _peek(self) -> str:
        return self.lines[self.at].strip() if self.at < len(self.lines) else ""

    def _depth(self) -> int:
        line = self.lines[self.at] if self.at < len(self.lines) else ""
        return len(line) - len(line.lstrip())

    def _take(self, form: re.Pattern[str]) -> tuple[str, ...] | None:
        """Return the parts of the next line, if it is of a form."""
        match = form.fullmatch(self._peek())
        if match is None:
            return None
        self.at += 1
        return match.groups("")

    def _fail(self, back: int = 0) -> NoReturn:
        line = self.lines[min(self.at, len(self.lines)) - back].strip()
        raise InternalError(f"this is no line of a tile program: {line}")

    # --- declarations -----------------------------------------------------------------

    def _signature(self) -> P.TileProgram:
        parts = self._take(_KERNEL)
        if parts is None:
            self._fail()
        name, inputs, outputs = parts
        given = [t.groups("") for t in _TENSOR.finditer(inputs)]
        tensors = {t[0]: _tensor(*t) for t in given if t[3]}
        params = {n: _kind(kind) for n, _, kind, dims, _ in given if not dims}
        results = tuple(_tensor(*t.groups("")) for t in _TENSOR.finditer(outputs))
        return P.TileProgram(name, {}, tensors, params, results)

    def _declaration(self) -> None:
        role, _, names = self._peek().partition(" ")
        if role == "splits":
            self.kernel.splits = frozenset(_list(names))
        else:
            for text in _list(names):
                match = _AXIS.fullmatch(text)
                if match is None:
                    self._fail()
                name, extent, after = match.groups()
                which: Any = role
                self.kernel.axes[name] = P.Axis(name, extent or name, which, after)
        self.at += 1

    def _combine(self, commuting: str, name: str, left: str, right: str) -> None:
        fields = [(n, _kind(kind)) for n, kind in (f.split(": ") for f in _list(left))]
        second = zip(_list(right), (kind for _, kind in fields), strict=True)
        self.known = {n: P.local(n, frozenset(), kind) for n, kind in (*fields, *second)}
        body = self._body(4)
        given = self._peek()
        results = self._values(given.removeprefix("give "))
        self.at += 1
        lets = tuple(s for s in body if isinstance(s, P.Let))
        names = tuple(n for n, _ in fields)
        self.combines[name] = P.Combine(name, names, _list(right), lets, results, bool(commuting))
        self.known = {}

    # --- statements -------------------------------------------------------------------

    def _body(self, depth: int) -> list[P.Statement]:
        statements: list[P.Statement] = []
        while self._depth() >= depth and not self._peek().startswith("give "):
            statements.append(self._statement())
        return statements

    def _statement(self) -> P.Statement:
        if self._peek().startswith("#") or _STATE.fullmatch(self._peek()):
            return self._loop()
        if _LOOP.fullmatch(self._peek()):
            return self._loop()
        if parts := self._take(_STORE):
            output, axes, sign, value = parts
            mode: Any = "add" if sign == "+=" else "set"
            return P.Store(output, _list(axes), self._value(value), mode)
        if parts := self._take(_ASSIGN):
            return P.Assign(parts[0], self._value(parts[1]))
        if parts := self._take(_NAMES):
            return self._named(*parts)
        if parts := self._take(_MASK):
            mask = P.Mask(self._value(parts[0]))
            if self.loops:
                self.loops[-1].body.append(mask)  # for what is masked in it
            return mask
        self._fail()

    def _named(self, names: str, text: str, guard: str) -> P.Let | P.Fold:
        tree = self._tree(text)
        match tree:
            case ast.Call(ast.Subscript(ast.Attribute(state, name), axes), elements):
                monoid = self._word(name)
                return self._fold(_list(names), monoid, _items(state), _items(axes), elements)
        value = self._expression(tree)
        if guard:
            condition = self._value(guard)
            args, axes_ = (*value.args, condition), value.axes | condition.axes
            value = replace(value, args=args, axes=axes_, guarded=True)
        self._give(names, value.axes, value.kind)
        return P.Let(names, value)

    def _give(self, name: str, axes: frozenset[str], kind: Kind) -> None:
        self.known[name] = P.local(name, axes, kind)

    def _fold(
        self,
        names: tuple[str, ...],
        name: str,
        state: list[ast.expr],
        along: list[ast.expr],
        elements: list[ast.expr],
    ) -> P.Fold:
        states, values = (tuple(map(self._expression, x)) for x in (state, elements))
        axes = [self._word(a.id) for a in along if isinstance(a, ast.Name)]
        count = len(names) // 2 if len(axes) < len(along) else 0  # (state).monoid[..., axis]
        monoid = P.Selection(axes[1]) if len(axes) > 1 else self.combines[name]
        fold = P.Fold(names[count:], monoid, axes[0], states, values, names[:count])
        for n, (given, tile) in enumerate(P.given(fold).items()):
            self._give(given, tile, states[n % len(states)].kind)
        return fold

    def _loop(self) -> P.Loop:
        folds = []
        state = []
        while self._peek().startswith("# "):
            folds.append(words(self._peek().removeprefix("# ")))
            self.at += 1
        while parts := self._take(_STATE):
            name, axes, start = parts
            state.append(P.State(name, frozenset(_list(axes)), self._value(start)))
        depth = self._depth()
        parts = self._take(_LOOP)
        if parts is None:
            self._fail()
        axis = self.kernel.axes[parts[0]]
        text = parts[1].removeprefix("backwards ")
        segments = tuple(map(self._segment, text.split(", then ")))
        for s in state:
            self._give(s.name, s.axes, s.kind)
        loop = P.Loop(axis, segments, state, [], tuple(folds), text != parts[1])
        self.loops.append(loop)
        body = self._body(depth + 1)
        self.loops.pop()
        return replace(loop, body=body)

    def _segment(self, text: str) -> P.Segment:
        match = _RANGE.fullmatch(text)
        if match is None:
            self._fail(1)
        lower, upper, masked = match.groups("")
        return P.Segment(self._values(lower), self._values(upper), bool(masked))

    # --- expressions ------------------------------------------------------------------

    def _tree(self, text: str) -> ast.expr:
        self.words = []

        def numbered(word: re.Match[str]) -> str:
            self.words.append(word[0])
            return f"w{len(self.words) - 1}"

        try:
            plain = _WORD.sub(numbered, text.replace("[]", "[()]"))
            return ast.parse(plain, mode="eval").body
        except SyntaxError:
            self._fail(1)

    def _word(self, name: str) -> str:
        return self.words[int(name[1:])]

    def _value(self, text: str) -> P.Expr:
        return self._expression(self._tree(text))

    def _values(self, text: str) -> tuple[P.Expr, ...]:
        return tuple(map(self._expression, _items(self._tree(f"({text},)")))) if text else ()

    def _expression(self, tree: ast.expr) -> P.Expr:
        if sign := _infix(tree):
            row = _SIGNS[sign[0]]
            return P.apply(row.op, *map(self._expression, sign[1]), attr=row.attr)
        match tree:
            case ast.Constant(value):
                return _literal(value)
            case ast.UnaryOp(ast.USub(), operand):
                return _literal(-self._expression(operand).attr)
            case ast.UnaryOp(ast.Not(), operand):
                return P.apply("not", self._expression(operand))
            case ast.Name(name):
                return self._name(self._word(name))
            case ast.Subscript(ast.Name(name), positions):
                return self._load(self._word(name), _items(positions))
            case ast.Call(ast.Name(name), args):
                return self._call(self._word(name), [], args)
            case ast.Call(ast.Subscript(ast.Name(name), parts), args):
                return self._call(self._word(name), _items(parts), args)
        self._fail(1)

    def _name(self, name: str) -> P.Expr:
        if name.startswith("|"):
            return P.Expr("extent", (), name.strip("|"), frozenset(), "int")
        if name in self.known:
            return self.known[name]
        if name in self.kernel.axes:
            return self._coordinate(name)
        return _literal(_LITERALS[name]) if name in _LITERALS else self._param(name)

    def _coordinate(self, name: str) -> P.Expr:
        return P.coordinate(self.kernel.axes[name])

    def _param(self, name: str) -> P.Expr:
        if name not in self.kernel.params:
            self._fail(1)
        return P.Expr("param", (), name, frozenset(), self.kernel.params[name])

    def _load(self, name: str, positions: list[ast.expr]) -> P.Expr:
        if name not in self.kernel.inputs:
            self._fail(1)
        args: list[P.Expr] = []
        inside = set()
        for n, tree in enumerate(positions):
            match tree:
                case ast.Call(ast.Name(word), [position]) if self._word(word) == "within":
                    inside.add(n)
                    tree = position
            args.append(self._expression(tree))
        axes = frozenset().union(*(a.axes for a in args))
        kind = self.kernel.inputs[name].kind
        return P.Expr("load", tuple(args), name, axes, kind, inside=frozenset(inside))

    def _call(self, name: str, attr: list[ast.expr], args: list[ast.expr]) -> P.Expr:
        if name in ("coordinate", "param") and isinstance(args[0], ast.Name):
            word = self._word(args[0].id)
            return self._coordinate(word) if name == "coordinate" else self._param(word)
        op = _CALLED.get(name, name)
        if op not in OPERATIONS:
            self._fail(1)
        parts: list[Any] = [name] if op in ("reduce", "cast") else []
        for part in attr:
            word = self._word(part.id) if isinstance(part, ast.Name) else ""
            is_value = not word or word in _LITERALS
            parts.append(self._expression(part).attr if is_value else word)
        value: Any = parts[0] if len(parts) == 1 else tuple(parts) or None
        along = self._domain(parts[0]) if op == "masked" else ()
        return P.apply(op, *map(self._expression, args), attr=value, along=along)

    def _domain(self, name: str) -> frozenset[str]:
        domains = (x.domain for x in self.loops if x.axis.name == name)
        return next(domains, self.kernel.axes[name].tile)


def _literal(value: Any) -> P.Expr:
    return P.number(value, _KINDS[type(value)])


def _tensor(name: str, stored: str, kind: str, dims: str, dtype: str) -> P.Tensor:
    return P.Tensor(name, _list(dims), _kind(kind), bool(stored), dtype or None)


def _kind(name: str) -> Kind:
    kinds: dict[str, Kind] = {kind: kind for kind in get_args(Kind)}
    return kinds[name]


def _list(text: str) -> tuple[str, ...]:
    """Return what is written between commas, without the brackets around it, if any."""
    inner = text.strip("[]")
    return tuple(x.strip() for x in inner.split(",")) if inner else ()


def _items(tree: ast.expr) -> list[ast.expr]:
    return tree.elts if isinstance(tree, ast.Tuple) else [tree]
