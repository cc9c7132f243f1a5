"""Expressions of emitted code on lines of at most 88 columns, broken as ruff and black do.

Parentheses are those that the expression needs. What does not fit breaks inside its last
brackets if one operator stands before them, else before its loosest operators, in
parentheses of their own; a call breaks between its arguments.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import suppress

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
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


def fit(before: str, text: str, after: str, indent: int) -> list[str]:
    """A statement `before text after` that is indented by so many steps, where text is an
    expression."""
    return _lines(_parse(text), indent, before, after, False)


def _parse(text: str) -> ast.expr:
    """ast.parse; CPython 3.11 may fail when another thread parses at the same time."""
    for _ in range(3):
        with suppress(SystemError):
            return ast.parse(text, mode="eval").body
    return ast.parse(text, mode="eval").body


# --- on one line --------------------------------------------------------------------------


def _level(e: ast.expr) -> int:
    """How tightly the outermost operator binds."""
    match e:
        case ast.BinOp():
            return _BINARY[type(e.op)][1]
        case ast.Compare():
            return _COMPARE
        case ast.IfExp():
            return _IF
        case ast.UnaryOp():
            return _UNARY
    return _ATOM


def _flat(e: ast.expr, level: int = 0) -> str:
    text = _bare(e)
    return f"({text})" if _level(e) < level else text


def _bare(e: ast.expr) -> str:
    match e:
        case ast.Constant():
            return _constant(e.value)
        case ast.Name():
            return e.id
        case ast.Attribute():
            return f"{_flat(e.value, _ATOM)}.{e.attr}"
        case ast.Call():
            return f"{_flat(e.func, _ATOM)}({', '.join(_arguments(e, _argument))})"
        case ast.Subscript():
            inner = e.slice.elts if isinstance(e.slice, ast.Tuple) else [e.slice]
            return f"{_flat(e.value, _ATOM)}[{', '.join(map(_flat, inner))}]"
        case ast.Slice(lower=None, upper=None, step=None):
            return ":"
        case ast.List():
            return f"[{', '.join(map(_flat, e.elts))}]"
        case ast.Tuple():
            return f"({', '.join(map(_flat, e.elts))}{',' if len(e.elts) == 1 else ''})"
        case ast.UnaryOp(op=ast.USub()):
            return f"-{_flat(e.operand, _UNARY)}"
        case ast.BinOp(op=ast.Pow()):
            base, exponent = _flat(e.left, _ATOM), _flat(e.right, _UNARY)
            return f"{base}**{exponent}" if exponent.isdigit() else f"{base} ** {exponent}"
        case ast.BinOp() | ast.Compare() | ast.IfExp():
            return " ".join(sign + _flat(x, level) for sign, x, level in _operands(e))
    raise InternalError(f"no layout for {ast.dump(e)}")


def _constant(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return repr(value).replace("e+", "e")


def _argument(before: str, e: ast.expr) -> str:
    return before + _flat(e)


def _arguments(e: ast.Call, write: Callable[[str, ast.expr], str]) -> Iterator[str]:
    for a in e.args:
        yield write("", a)
    for k in e.keywords:
        yield write(f"{k.arg}=", k.value)


def _operands(e: ast.expr) -> list[tuple[str, ast.expr, int]]:
    """(sign, operand, level) of an operator and of those to its left that bind as it does."""
    match e:
        case ast.Compare(ops=[op]):
            sign = _COMPARISONS[type(op)]
            return [("", e.left, _OR), (f"{sign} ", e.comparators[0], _OR)]
        case ast.IfExp():
            return [("", e.body, _COMPARE), ("if ", e.test, _COMPARE), ("else ", e.orelse, _IF)]
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
    pad = "    " * indent
    if _fits(indent, before, _flat(e), after):
        return [pad + before + _flat(e) + after]
    if isinstance(e, ast.UnaryOp):
        return _enclosed(e.operand, _UNARY, indent, before + "-", after, bracketed)
    if _level(e) >= _POW:
        return _trailer(e, indent, before, after)
    if bracketed:
        return _split(e, indent, before, after)
    if _ends_in_brackets(e):
        found = _last_brackets(e, indent, before, after)
        if found is not None:
            return found
    return _in_parentheses(e, indent, before, after)


def _in_parentheses(e: ast.expr, indent: int, before: str, after: str) -> list[str]:
    pad = "    " * indent
    return [f"{pad}{before}(", *_lines(e, indent + 1, "", "", True), f"{pad}){after}"]


def _enclosed(
    e: ast.expr, level: int, indent: int, before: str, after: str, bracketed: bool
) -> list[str]:
    """The same, with parentheses where an operator of this level would tear e apart."""
    if _level(e) >= level:
        return _lines(e, indent, before, after, bracketed)
    if _fits(indent, before, _flat(e, level), after):
        return ["    " * indent + before + _flat(e, level) + after]
    return _in_parentheses(e, indent, before, after)


def _split(e: ast.expr, indent: int, before: str, after: str) -> list[str]:
    """A line for each operand."""
    operands = _operands(e)
    out: list[str] = []
    for n, (sign, x, level) in enumerate(operands):
        first, last = n == 0, n == len(operands) - 1
        start = before if first else sign
        out += _enclosed(x, level, indent, start, after if last else "", True)
    return out


def _trailer(e: ast.expr, indent: int, before: str, after: str) -> list[str]:
    """A call, subscript or attribute: break between the last brackets that can be reached."""
    pad = "    " * indent
    match e:
        case ast.Call(func=ast.Attribute() as f) if not _reaches(f.value, indent, before, f.attr):
            tail = f".{f.attr}({', '.join(_arguments(e, _argument))}){after}"
            return _enclosed(f.value, _ATOM, indent, before, tail, True)
        case ast.Call():
            joined = ", ".join(_arguments(e, _argument))
            inner = [f"{pad}    {joined}"]
            if not _fits(indent + 1, joined):
                pairs = [("", a) for a in e.args] + [(f"{k.arg}=", k.value) for k in e.keywords]
                inner = [x for b, a in pairs for x in _lines(a, indent + 1, b, ",", True)]
            return [f"{pad}{before}{_flat(e.func, _ATOM)}(", *inner, f"{pad}){after}"]
        case ast.Subscript(value=value):
            tail = _flat(e).removeprefix(_flat(value, _ATOM))
            return _enclosed(value, _ATOM, indent, before, tail + after, True)
        case ast.Attribute(value=value, attr=attr):
            return _enclosed(value, _ATOM, indent, before, f".{attr}{after}", True)
    return [pad + before + _flat(e) + after]


def _reaches(value: ast.expr, indent: int, before: str, attr: str) -> bool:
    return _fits(indent, before, _flat(value, _ATOM), f".{attr}(")


def _ends_in_brackets(e: ast.expr) -> bool:
    """Is there one operator of the loosest kind, and a bracket at either end?"""
    operands = _operands(e)
    if len(operands) - isinstance(e, ast.IfExp) > 2:
        return False
    return _is_bracketed(e, 0) or _is_bracketed(e, -1)


def _is_bracketed(e: ast.expr, end: int) -> bool:
    """Does the expression start (end 0) or end (end -1) with brackets of its own?"""
    while _level(e) < _POW and not isinstance(e, ast.UnaryOp):
        _, x, level = _operands(e)[end]
        if _level(x) < level:
            return True
        e = x
    return isinstance(e, ast.Call | ast.Subscript | ast.List | ast.Tuple)


def _last_brackets(e: ast.expr, indent: int, before: str, after: str) -> list[str] | None:
    """Break between the last brackets, if the line up to them fits."""
    if _level(e) >= _POW or isinstance(e, ast.UnaryOp):
        lines = _trailer(e, indent, before, after)
        return lines if len(lines) > 1 and len(lines[0]) <= WIDTH else None
    operands = _operands(e)
    for n in reversed(range(len(operands))):
        sign, x, level = operands[n]
        if not _has_brackets(x, level):
            continue
        ahead = " ".join(s + _flat(y, m) for s, y, m in operands[:n])
        behind = "".join(" " + s + _flat(y, m) for s, y, m in operands[n + 1 :])
        start = before + (f"{ahead} " if ahead else "") + sign
        if _level(x) < level:
            lines = _in_parentheses(x, indent, start, behind + after)
            return lines if len(lines[0]) <= WIDTH else None
        return _last_brackets(x, indent, start, behind + after)
    return None


def _has_brackets(e: ast.expr, level: int) -> bool:
    return _level(e) < level or "(" in _flat(e) or "[" in _flat(e)
