"""Expressions of emitted code on lines of at most 88 columns, broken as ruff and black do.

Parentheses are those that the expression needs. What does not fit breaks between the first
brackets that reach too far, if there is one loosest operator at most; else before its
loosest operators, in parentheses of their own. A call breaks between its arguments.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from monocomp.errors import InternalError

WIDTH = 88
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


def fit(before: str, text: str, after: str, indent: int) -> list[str]:
    """A statement `before text after` that is indented by so many steps, where text is an
    expression."""
    return _lines(_parse(text), indent, before, after, False)


def plain(text: str) -> str:
    """An expression on one line."""
    return _flat(_parse(text))


def tuple_text(items: Sequence[str]) -> str:
    """A tuple of expressions."""
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
    """An expression on one line, in parentheses where it binds less tightly."""
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


def _fits(indent: int, *parts: str) -> bool:
    return 4 * indent + sum(map(len, parts)) <= WIDTH


def _lines(e: ast.expr, indent: int, before: str, after: str, bracketed: bool) -> list[str]:
    """`before e after`; between brackets an expression may break at any operator."""
    text = before + _flat(e) + after
    if _fits(indent, text):
        return ["    " * indent + text]
    if _level(e) < _UNARY:
        if bracketed:
            return _split(e, indent, before, after)
        if not _can_flow(e):
            return _in_parentheses(e, indent, before, after)
    return _flow(e, indent, before, after)


def _in_parentheses(e: ast.expr, indent: int, before: str, after: str) -> list[str]:
    pad = "    " * indent
    return [f"{pad}{before}(", *_lines(e, indent + 1, "", "", True), f"{pad}){after}"]


def _split(e: ast.expr, indent: int, before: str, after: str) -> list[str]:
    """A line for each operand."""
    operands = _operands(e)
    out: list[str] = []
    for n, (sign, x, level) in enumerate(operands):
        start, end = before if n == 0 else sign, after if n == len(operands) - 1 else ""
        if _level(x) >= level:
            out += _lines(x, indent, start, end, True)
        elif _fits(indent, start, _flat(x, level), end):
            out.append("    " * indent + start + _flat(x, level) + end)
        else:
            out += _in_parentheses(x, indent, start, end)
    return out


# --- between brackets ---------------------------------------------------------------------


@dataclass
class _Brackets:
    """A pair of brackets and what stands between them: arguments, or one expression."""

    open: str
    items: tuple[tuple[str, ast.expr], ...]
    close: str
    is_list: bool = True
    comma: str = ""  # that ends a tuple of one

    @property
    def flat(self) -> str:
        inner = ", ".join(start + _flat(x) for start, x in self.items)
        return self.open + inner + self.comma + self.close

    def inner(self, indent: int) -> list[str]:
        """The lines between the brackets."""
        if not self.is_list:
            return _lines(self.items[0][1], indent, "", "", True)
        joined = self.flat[1:-1]
        if _fits(indent, joined) and not self.comma:
            return ["    " * indent + joined]
        return [line for start, x in self.items for line in _lines(x, indent, start, ",", True)]


def _pieces(e: ast.expr, level: int = 0) -> Iterator[str | _Brackets]:
    """Text and outermost brackets, in order."""
    if _level(e) < level:
        yield _Brackets("(", (("", e),), ")", is_list=False)
        return
    match e:
        case ast.Name(id=name):
            yield name
        case ast.Call(func=function):
            yield from _pieces(function, _ATOM)
            keywords = [(f"{k.arg}=", k.value) for k in e.keywords]
            yield _Brackets("(", (*(("", a) for a in e.args), *keywords), ")")
        case ast.Subscript(value=value, slice=position):
            yield from _pieces(value, _ATOM)
            items = position.elts if isinstance(position, ast.Tuple) else [position]
            yield _Brackets("[", tuple(("", x) for x in items), "]")
        case ast.Attribute(value=value, attr=attr):
            yield from _pieces(value, _ATOM)
            yield f".{attr}"
        case ast.List(elts=elements):
            yield _Brackets("[", tuple(("", x) for x in elements), "]")
        case ast.Tuple(elts=elements):
            comma = "," if len(elements) == 1 else ""
            yield _Brackets("(", tuple(("", x) for x in elements), ")", comma=comma)
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


def _can_flow(e: ast.expr) -> bool:
    """True if the loosest operator has two operands, and brackets at an end to break at."""
    if isinstance(e, ast.IfExp) or len(_operands(e)) > 2:
        return False
    pieces = [p for p in _pieces(e) if p]
    first, last = pieces[0], pieces[-1]
    return isinstance(first, _Brackets) or (
        isinstance(last, _Brackets) and last.close == ")" and bool(last.items)
    )


def _flow(e: ast.expr, indent: int, before: str, after: str) -> list[str]:
    """Break between the first brackets that reach too far, and then go on behind them."""
    pad = "    " * indent
    pieces = list(_pieces(e))
    lines, line = [], pad + before
    for n, piece in enumerate(pieces):
        if isinstance(piece, str):
            line += piece
            continue
        ahead = ""
        for p in pieces[n + 1 :]:
            if isinstance(p, _Brackets):
                ahead += p.open
                break
            ahead += p
        else:
            ahead += after
        if not piece.items or len(line + piece.flat + ahead) <= WIDTH:
            line += piece.flat
        else:
            lines += [line + piece.open, *piece.inner(indent + 1)]
            line = pad + piece.close
    return [*lines, line + after]
