"""Expressions of emitted code on lines of at most 100 columns.

Parentheses are those that the expression needs. A statement that does not fit one line is filled:
lines break between brackets, after a comma or before an operator, and go on below the first thing
between the brackets, as in Triton's tutorials. What follows an
argument or operand of several lines begins a new one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Literal

from monocomp.declarations.record import record
from monocomp.errors import InternalError

WIDTH = 100
_IF, _COMPARE, _OR, _AND, _SHIFT, _ADD, _MUL, _UNARY, _POW, _ATOM = range(10)
_BINARY: dict[type[ast.operator], tuple[str, int]] = {
    ast.BitOr: ("|", _OR),
    ast.BitAnd: ("&", _AND),
    ast.Add: ("+", _ADD),
    ast.Sub: ("-", _ADD),
    ast.RShift: (">>", _SHIFT),
    ast.Mult: ("*", _MUL),
    ast.Div: ("/", _MUL),
    ast.FloorDiv: ("//", _MUL),
    ast.Mod: ("%", _MUL),
    ast.Pow: ("**", _POW),
}
_LEVELS: dict[type[ast.expr], int] = {
    ast.IfExp: _IF,
    ast.BoolOp: _IF,
    ast.Compare: _COMPARE,
    ast.UnaryOp: _UNARY,
}
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.IsNot: "is not",
}
_SIGNS: dict[type[ast.unaryop], str] = {ast.USub: "-", ast.Invert: "~"}
_SIMPLE = re.compile(r"-?[\w.]+")  # what ** has no spaces beside


def plain(text: str) -> str:
    """Return an expression on one line."""
    return _flat(_parse(text))


def tuple_text(items: Sequence[str]) -> str:
    """Return a tuple of expressions."""
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


@lru_cache(maxsize=4096)  # kernels have many lines in common
def _parse(text: str) -> ast.expr:
    parsed = parse(text, "eval")
    assert isinstance(parsed, ast.Expression)
    return parsed.body


def parse(text: str, mode: Literal["eval", "exec"] = "exec") -> ast.AST:
    """ast.parse; CPython 3.11 may fail when another thread parses at the same time."""
    for _ in range(8):
        with suppress(SystemError):
            return ast.parse(text, mode=mode)
    return ast.parse(text, mode=mode)


# --- on one line --------------------------------------------------------------------------


def _level(e: ast.expr) -> int:
    """Return how tightly the outermost operator binds."""
    return _BINARY[type(e.op)][1] if isinstance(e, ast.BinOp) else _LEVELS.get(type(e), _ATOM)


def _flat(e: ast.expr, level: int = 0) -> str:
    """Return an expression on one line, in parentheses where it binds less tightly."""
    known = vars(e)  # each level of brackets asks for what stands inside of it
    text = known.get("flat")
    if text is None:
        pieces = [p if isinstance(p, str) else p.flat for p in _pieces(e)]
        text = known["flat"] = "".join(pieces)
    return f"({text})" if level and _level(e) < level else text


def _operands(e: ast.expr) -> list[tuple[str, ast.expr, int]]:
    """(sign, operand, level) of an operator and of those to its left that bind as it does."""
    match e:
        case ast.Compare(ops=[op]):
            sign = _COMPARISONS[type(op)]
            return [("", e.left, _OR), (f"{sign} ", e.comparators[0], _OR)]
        case ast.BoolOp():
            sign = "and " if isinstance(e.op, ast.And) else "or "
            return [(sign * (n > 0), x, _COMPARE) for n, x in enumerate(e.values)]
        case ast.IfExp():
            return [("", e.body, _COMPARE), ("if ", e.test, _COMPARE), ("else ", e.orelse, _IF)]
        case ast.BinOp(op=ast.Pow()):
            return [("", e.left, _ATOM), ("** ", e.right, _UNARY)]
        case ast.BinOp():
            sign, level = _BINARY[type(e.op)]
            left = [("", e.left, level)]
            if isinstance(e.left, ast.BinOp) and _level(e.left) == _level(e):
                left = _operands(e.left)
            return [*left, (f"{sign} ", e.right, level + 1)]
    raise InternalError(f"no operator in {ast.dump(e)}")


# --- on several lines ---------------------------------------------------------------------


@record()
class _Item:
    """A part of a line that no line break divides, if it can be helped: an argument or an operand.

    Attributes:
        start: the text before the expression, or all of it.
        value: the expression.
        level: the parentheses that it needs.
        end: the comma behind it.
    """

    start: str
    value: ast.expr | None = None
    level: int = 0
    end: str = ""

    @property
    def flat(self) -> str:
        return self.start + ("" if self.value is None else _flat(self.value, self.level)) + self.end


@record()
class _Brackets:
    """A pair of brackets and what stands between them."""

    open: str
    items: tuple[_Item, ...]
    close: str

    @property
    def flat(self) -> str:
        return self.open + " ".join(item.flat for item in self.items) + self.close


def _listed(items: Sequence[tuple[str, ast.expr]], always: bool = False) -> tuple[_Item, ...]:
    """Arguments; a comma stands between them, or behind each."""
    last = len(items) - 1
    commas = ("," if always or n < last else "" for n in range(len(items)))
    return tuple(_Item(start, x, 0, end) for (start, x), end in zip(items, commas, strict=True))


def _operated(e: ast.expr) -> tuple[_Item, ...]:
    """Return the operands of an operator, or the expression where there is none."""
    if _level(e) >= _UNARY:
        return (_Item("", e),)
    return tuple(_Item(sign, x, level) for sign, x, level in _operands(e))


def _pieces(e: ast.expr, level: int = 0) -> Iterator[str | _Brackets]:
    """Yield text and outermost brackets, in order."""
    if _level(e) < level:
        yield _Brackets("(", _operated(e), ")")
        return
    match e:
        case ast.Name(id=name):
            yield name
        case ast.Call(func=function):
            yield from _pieces(function, _ATOM)
            keywords = [(f"{k.arg}=", k.value) for k in e.keywords]
            yield _Brackets("(", _listed([*(("", a) for a in e.args), *keywords]), ")")
        case ast.Subscript(value=value, slice=position):
            yield from _pieces(value, _ATOM)
            elements = position.elts if isinstance(position, ast.Tuple) else []
            items = elements if len(elements) > 1 else [position]
            yield _Brackets("[", _listed([("", x) for x in items]), "]")
        case ast.Attribute(value=value, attr=attr):
            yield from _pieces(value, _ATOM)
            yield f".{attr}"
        case ast.List(elts=elements):
            yield _Brackets("[", _listed([("", x) for x in elements]), "]")
        case ast.Tuple(elts=elements):
            yield _Brackets("(", _listed([("", x) for x in elements], len(elements) == 1), ")")
        case ast.UnaryOp(op=op, operand=operand):
            yield _SIGNS[type(op)]
            yield from _pieces(operand, _UNARY)
        case ast.BinOp(op=ast.Pow()) if all(map(_SIMPLE.fullmatch, map(_flat, (e.left, e.right)))):
            yield f"{_flat(e.left)}**{_flat(e.right)}"
        case ast.BinOp() | ast.Compare() | ast.BoolOp() | ast.IfExp():
            for n, (sign, x, inner) in enumerate(_operands(e)):
                yield " " * (n > 0) + sign
                yield from _pieces(x, inner)
        case ast.Constant(value=value):
            yield f'"{value}"' if isinstance(value, str) else repr(value).replace("e+", "e")
        case ast.Slice():
            yield ":" if e.lower is e.upper is e.step is None else ast.unparse(e)
        case _:
            raise InternalError(f"no layout for {ast.dump(e)}")


class _Lines:
    """The lines of a statement. `behind` columns stay free behind what is written last."""

    def __init__(self, line: str) -> None:
        self.above: list[str] = []
        self.line = line

    def fits(self, text: str, behind: int) -> bool:
        return len(self.line) + len(text) + behind <= WIDTH

    def new_line(self, column: int) -> None:
        self.above.append(self.line.rstrip())
        self.line = " " * column

    def write(self, e: ast.expr, level: int, behind: int, bracketed: bool) -> None:
        """Write an expression; between brackets it may break before its operators."""
        if self.fits(_flat(e, level), behind):
            self.line += _flat(e, level)
        elif _level(e) >= max(level, _UNARY):
            self._within(list(_pieces(e)), behind)
        elif bracketed and _level(e) >= level:
            self.fill(_operated(e), len(self.line), behind)
        else:
            self.between(_Brackets("(", _operated(e), ")"), behind)

    def _within(self, pieces: list[str | _Brackets], behind: int) -> None:
        """Break between the longest brackets."""
        texts = [p if isinstance(p, str) else p.flat for p in pieces]
        lengths = [0 if isinstance(p, str) else len(p.flat) for p in pieces]
        longest = lengths.index(max(lengths))
        piece, after = pieces[longest], "".join(texts[longest + 1 :])
        self.line += "".join(texts[:longest])
        if isinstance(piece, str):
            self.line += piece
        else:
            self.between(piece, len(after) + behind)
        self.line += after

    def between(self, brackets: _Brackets, behind: int) -> None:
        """Write brackets. What begins in the right half of the line goes to a new one."""
        indent = len(self.line) - len(self.line.lstrip())
        self.line += brackets.open
        column = len(self.line)
        if column > WIDTH // 2:
            column = indent + 4
            self.new_line(column)
        self.fill(brackets.items, column, behind + len(brackets.close))
        self.line += brackets.close

    def fill(self, items: Sequence[_Item], column: int, behind: int) -> None:
        """Write as many items on each line as fit."""
        is_broken = False
        for n, item in enumerate(items):
            after = behind if n == len(items) - 1 else 0
            if n > 0 and (is_broken or not self.fits(f" {item.flat}", after)):
                self.new_line(column)
            elif n > 0:
                self.line += " "
            is_broken = item.value is not None and not self.fits(item.flat, after)
            if item.value is None or not is_broken:
                self.line += item.flat
            else:
                self.line += item.start
                self.write(item.value, item.level, len(item.end) + after, True)
                self.line += item.end


def fit(before: str, text: str, after: str, indent: int) -> list[str]:
    """Return a statement `before text after` that is indented by so many steps, where text is an
    expression."""
    lines = _Lines("    " * indent + before)
    lines.write(_parse(text), 0, len(after), False)
    return [*lines.above, lines.line + after]


def fill(before: str, items: Sequence[str], after: str, indent: int) -> list[str]:
    """Return a statement with a list of any texts, such as parameters, between the brackets that
    `before` ends with and `after` begins with."""
    lines, last = _Lines("    " * indent + before[:-1]), len(items) - 1
    listed = tuple(_Item(x, end="," * (n < last)) for n, x in enumerate(items))
    lines.between(_Brackets(before[-1], listed, after[0]), len(after) - 1)
    return [*lines.above, lines.line + after[1:]]
