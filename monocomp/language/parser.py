"""Parse a text to a list of statements, with the place of everything.

The grammar is `grammar.lark`, read by lark's LALR parser with a contextual lexer. Around it
stand the limits that make the cost of any text small and known (length, brackets, tokens,
depth), the layout rule that lets a line continue, and the builder that turns each rule into
a node of `monocomp.language.syntax` as it is recognised, so that no pass recurses over raw input.
Nothing is resolved here: `monocomp.language.checker` says what the names mean.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

from monocomp.declarations.vocabulary import KEYWORDS
from monocomp.errors import (
    LimitError,
    ParseError,
    ReservedNameError,
    Span,
    TypeMismatchError,
    UsageError,
    in_text,
)
from monocomp.language import syntax as S
from monocomp.language.mistakes import CONTINUING, check_size, explain, unknown_character
from monocomp.machine.cache import JsonStore

if TYPE_CHECKING:
    from lark import Lark, Token

MAX_TOKENS = 4096
MAX_DEPTH = 100
MAX_NAME = 64
MAX_DIGITS = 40
MAX_EXPONENT = 400
_LARGEST = Fraction(sys.float_info.max)


@dataclass(frozen=True)
class _Group:
    """A group of parts that a rule without a node in the tree collects for the rule above it."""

    items: tuple[Any, ...]
    span: Span
    condition: S.Expr | None = None
    target: S.Label | None = None
    prefix: bool = False


def _span(child: Any) -> Span:
    return child.span if hasattr(child, "span") else Span(child.start_pos, child.end_pos)


def _over(parts: list[Any]) -> Span:
    return _span(parts[0]).to(_span(parts[-1]))


def _is_token(child: Any) -> bool:
    return hasattr(child, "start_pos")


def _nodes(parts: Iterable[Any]) -> tuple[Any, ...]:
    """Return the children without punctuation."""
    return tuple(part for part in parts if not _is_token(part))


def _label(token: Token) -> S.Label:
    place = _span(token)
    text = str(token)
    if len(text) > MAX_NAME:
        raise LimitError(f"a name has {len(text)} characters; at most {MAX_NAME}", spans=place)
    if text in KEYWORDS:
        raise ReservedNameError(
            f"'{text}' is a word of the language and cannot be a name",
            spans=place,
            help=f"choose another name, such as '{text}_'",
        )
    return S.Label(text, place)


def _labels(parts: Iterable[Any]) -> tuple[S.Label, ...]:
    return tuple(_label(part) for part in parts if _is_token(part) and part.type == "NAME")


def _after(parts: list[Any], mark: str) -> Any | None:
    """Return the child that follows a mark such as ':' or 'if', or None."""
    for before, part in pairwise(parts):
        if _is_token(before) and before == mark:
            return part
    return None


def _number(token: Token) -> int | Fraction:
    """Return the exact value of a literal; no float on the way."""
    text, place = str(token), _span(token)
    mantissa, _, exponent = text.lower().partition("e")
    whole, point, decimals = mantissa.partition(".")
    if len(whole) + len(decimals) > MAX_DIGITS:
        raise LimitError(f"a number has more than {MAX_DIGITS} digits", spans=place)
    if len(exponent) > 8 or abs(int(exponent or 0)) > MAX_EXPONENT:
        raise LimitError(f"an exponent lies outside -{MAX_EXPONENT} to {MAX_EXPONENT}", spans=place)
    if not point and not exponent:
        return int(whole)
    value = int(whole + decimals or "0") * Fraction(10) ** (int(exponent or 0) - len(decimals))
    if value > _LARGEST:
        raise LimitError("a number is larger than a float can be", spans=place, help="write inf")
    return value


def _index_names(group: _Group, what: str) -> tuple[S.Label, ...]:
    """Return the entries of a bracket that may hold names only."""
    labels = []
    for item in group.items:
        if not isinstance(item, S.Name):
            raise ParseError(
                f"{what} takes names of indices, and this is an expression",
                spans=item.span,
                help="an index is a name, and a filter follows if: sum[k if k <= q](A[q,k])",
            )
        labels.append(S.Label(item.name, item.span))
    return tuple(labels)


def _subscripts(label: S.Label, group: _Group, place: Span) -> tuple[S.Expr, ...]:
    """Return the subscripts of a read."""
    if group.prefix or group.target is not None or group.condition is not None:
        raise ParseError(
            f"'{label}[...]' is followed by no parenthesis, so it is a read, "
            "and its brackets hold subscripts only",
            spans=place,
            help=f"a reduction has its operand in parentheses: {label}[...](x)",
        )
    return group.items


class _Builder:
    """One method per rule of the grammar: its children, punctuation included, to a node."""

    def number(self, parts: list[Any]) -> S.Expr:
        return S.Number(_number(parts[0]), span=_over(parts))

    def name(self, parts: list[Any]) -> S.Expr:
        if parts[0] == "inf":
            return S.Number(math.inf, span=_over(parts))
        if parts[0].type == "PRIMED":
            _label_primed(parts[0])
            return S.Name(str(parts[0]), span=_over(parts))
        return S.Name(_label(parts[0]), span=_over(parts))

    def parenthesised(self, parts: list[Any]) -> S.Expr:
        inner: S.Expr = replace(parts[1], span=_over(parts))
        return inner

    def extent(self, parts: list[Any]) -> S.Expr:
        return S.Extent(_label(parts[1]), span=_over(parts))

    def call(self, parts: list[Any]) -> S.Expr:
        args = _nodes(parts)
        return S.Call(_label(parts[0]), args[0].items if args else (), span=_over(parts))

    def places(self, parts: list[Any]) -> _Group:
        condition, target = _after(parts, "if"), _after(parts, "->")
        return _Group(
            tuple(part for part in _nodes(parts) if part is not condition),
            _over(parts),
            condition,
            None if target is None else _label(target),
            parts[0] == "..",
        )

    def read(self, parts: list[Any]) -> S.Expr:
        if parts[0].type == "PRIMED":
            _label_primed(parts[0])
            label = S.Label(str(parts[0]), _span(parts[0]))
        else:
            label = _label(parts[0])
        return S.Read(label, _subscripts(label, parts[2], _over(parts)), span=_over(parts))

    def reduce(self, parts: list[Any]) -> S.Expr:
        group = parts[2]
        label = _label(parts[0])
        args = _nodes(parts[3:])
        return S.Reduce(
            label,
            _index_names(group, f"'{label}[...](...)'"),
            group.condition,
            args[0].items if args else (),
            group.prefix,
            group.target,
            span=_over(parts),
        )

    def arguments(self, parts: list[Any]) -> _Group:
        return _Group(_nodes(parts), _over(parts))

    parts = arguments

    def names(self, parts: list[Any]) -> _Group:
        return _Group(_labels(parts), _over(parts))

    def member(self, parts: list[Any]) -> _Group:
        indices = _nodes(parts)
        return _Group((_label(parts[0]), indices[0].items if indices else ()), _over(parts))

    members = arguments

    def field(self, parts: list[Any]) -> S.Expr:
        label, place = _label(parts[2]), _over(parts)
        subscripts = _subscripts(label, parts[4], place) if len(parts) > 3 else ()
        return S.Field(parts[0], label, subscripts, span=place)

    def unary(self, parts: list[Any]) -> S.Expr:
        op: Any = str(parts[0])
        match parts[1]:
            case S.Number(value=int(value)) if op == "-" and value == 2**63:
                return S.Number(-value, span=_over(parts))  # -value alone is an integer of 64 bits
        return S.Unary(op, parts[1], span=_over(parts))

    def binary(self, parts: list[Any]) -> S.Expr:
        op: Any = str(parts[1])
        return S.Binary(op, parts[0], parts[2], span=_over(parts))

    def compare(self, parts: list[Any]) -> S.Expr:
        ops: Any = tuple(str(op) for op in parts[1::2])
        return S.Compare(ops, tuple(parts[::2]), span=_over(parts))

    def logic(self, parts: list[Any]) -> S.Expr:
        op: Any = str(parts[1])
        return S.Logic(op, tuple(parts[::2]), span=_over(parts))

    def definition(self, parts: list[Any]) -> list[S.Statement]:
        target, body = parts[0], parts[2]
        indices: tuple[S.Label, ...] = ()
        if isinstance(target, S.Name):
            name = S.Label(target.name, target.span)
        elif isinstance(target, S.Read):
            name = S.Label(
                target.name, Span(target.span.start, target.span.start + len(target.name))
            )
            indices = _index_names(_Group(target.subscripts, target.span), "the left side")
        else:
            raise ParseError(
                "the left side of '=' must be a name with indices",
                spans=target.span,
                help="a definition reads O[i,j] = ...; equality of values is ==",
            )
        return [S.Definition(name, indices, body, span=_over(parts))]

    def bare_expression(self, parts: list[Any]) -> list[S.Statement]:
        expr, help = parts[0], "give it a name and its indices: O[...] = ..."
        if isinstance(expr, S.Compare) and expr.ops[0] == "==":
            help = "a definition has one =, a comparison =="
        raise ParseError(
            "an expression stands alone; a program is a list of definitions",
            spans=expr.span,
            help=help,
        )

    def input(self, parts: list[Any]) -> S.Statement:
        groups = (part for part in _nodes(parts) if isinstance(part, _Group))
        indices = next((group.items for group in groups), ())
        kind, body = _after(parts, ":"), _after(parts, "=")
        label = _label(parts[0])
        if body is not None and kind is None:
            return S.Definition(label, indices, body, given=True, span=_over(parts))
        if kind is not None and body is not None:
            raise ParseError(
                f"input '{label}' has a type and a definition",
                spans=_span(kind),
                notes=("its type is that of its definition",),
                help=f"leave out ': {kind}'",
            )
        return S.DeclaredInput(
            label,
            indices,
            None if kind is None else _kind(kind, ("int", "float", "bool")),
            span=_over(parts),
        )

    def param(self, parts: list[Any]) -> S.Statement:
        label, kind, default = _label(parts[0]), _after(parts, ":"), _after(parts, "=")
        value = None if default is None else _literal(default)
        if kind is None:
            number = "int" if isinstance(value, int) else "float"
            given = "" if value is None else f" = {value if number == 'int' else float(value)}"
            raise ParseError(
                f"parameter '{label}' needs a type, int or float",
                spans=label.span,
                help=f"write param {label}: {number}{given}",
            )
        if kind == "int" and value is not None and not isinstance(value, int):
            raise TypeMismatchError(
                f"parameter '{label}' is an int, and its default is not",
                spans=_span(default),
                help=f"write param {label}: float = ..., or an integer",
            )
        kind = _kind(kind, ("int", "float"))
        if value is not None:
            value = int(value) if kind == "int" else float(value)
        return S.Param(label, kind, value, span=_over(parts))

    def bound(self, parts: list[Any]) -> S.Statement:
        return S.Bound(_label(parts[0]), parts[2], span=_over(parts))

    def output(self, parts: list[Any]) -> S.Statement:
        dtype = _after(parts, ":")
        named = None if dtype is None else S.Label(str(dtype), _span(dtype))
        return S.Output(_label(parts[0]), named, span=_over(parts))

    def inputs(self, parts: list[Any]) -> list[S.Statement]:
        return list(_nodes(parts))

    params = bounds = outputs = inputs

    def function(self, parts: list[Any]) -> list[S.Statement]:
        *formals, body = _nodes(parts)
        labels = formals[0].items if formals else ()
        return [S.Function(_label(parts[1]), labels, body, span=_over(parts))]

    def monoid(self, parts: list[Any]) -> list[S.Statement]:
        members, unit, combine = (group.items for group in _nodes(parts))
        fields, indices = zip(*(member.items for member in members), strict=True)
        name = _label(parts[1])
        return [S.Monoid(name, fields, unit, combine, indices, span=_over(parts))]

    def start(self, parts: list[Any]) -> list[S.Statement]:
        return [statement for part in parts if not _is_token(part) for statement in part]


def _label_primed(token: Token) -> None:
    if len(token) > MAX_NAME + 1:
        raise LimitError(f"a name has more than {MAX_NAME} characters", spans=_span(token))


def _kind(token: Token, allowed: tuple[str, ...]) -> Any:
    if str(token) not in allowed:
        accepted = ", ".join(allowed)
        raise ParseError(
            f"'{token}' is no type here",
            spans=_span(token),
            notes=(f"accepted: {accepted}",),
        )
    return str(token)


def _literal(expr: S.Expr) -> int | Fraction | float:
    """Return the value of a default: a number, or minus a number."""
    if isinstance(expr, S.Number):
        _require_64_bits(expr)
        return expr.value
    if isinstance(expr, S.Unary) and expr.op == "-" and isinstance(expr.operand, S.Number):
        _require_64_bits(expr.operand)
        return -expr.operand.value
    raise ParseError("a default must be a number", spans=expr.span, help="write = 1024 or = -0.5")


class Layout:
    """Finds the line ends that end a statement: none inside brackets or after an operator."""

    always_accept = ("_END",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        depth, last, count = 0, ";", 0
        for token in stream:
            word = str(token)
            empty = word in ";\n" and last in ";\n"
            if empty or (word == "\n" and (depth or last in CONTINUING)):
                continue
            count += 1
            if count > MAX_TOKENS:
                raise LimitError(f"a program has at most {MAX_TOKENS} words", spans=_span(token))
            depth += (word in "([") - (word in ")]")
            last = word
            yield token


_TABLES = JsonStore("grammars")


@cache
def _lark() -> Lark:
    """Return the parser, whose tables are remembered: to make them takes longer than most
    programs do."""
    import lark
    from lark.grammar import Rule
    from lark.lexer import TerminalDef

    grammar = resources.files("monocomp.language").joinpath("grammar.lark").read_text("utf-8")
    key = f"{lark.__version__}\n{grammar}"
    own: dict[str, Any] = {"postlex": Layout(), "transformer": _Builder()}
    if (tables := _TABLES.get(key)) is not None:
        load: Any = lark.Lark._load_from_dict
        loaded: Lark = load(**_with_numbers(tables), **own)
        return loaded
    options: Any = {"lexer": "contextual", "keep_all_tokens": True, "maybe_placeholders": False}
    made = lark.Lark(grammar, parser="lalr", **options, **own)
    data, memo = made.memo_serialize([TerminalDef, Rule])
    for name in own:
        del data["options"][name]
    _TABLES.put(key, {"data": data, "memo": memo})
    return made


def _with_numbers(tables: dict[str, Any]) -> dict[Any, Any]:
    """Turn the keys of tables back into numbers where JSON has made text of them."""
    key: Any = int if next(iter(tables), "").isdigit() else str
    return {key(k): _with_numbers(v) if isinstance(v, dict) else v for k, v in tables.items()}


def _accepted(text: str) -> dict[str, str]:
    """Return the tokens that could stand where the parser stops, with what to call them."""
    from lark.exceptions import UnexpectedInput

    words = {"NAME": "a name", "NUMBER": "a number", "COMPARISON": "a comparison"}
    words |= {"_END": "the end of the line", "$END": "the end of the line"}
    marks = {token.name: f"'{token.pattern.value}'" for token in _lark().terminals}
    parser = _lark().parse_interactive(text)
    with suppress(UnexpectedInput):
        parser.exhaust_lexer()
    accepted: set[str] = parser.accepts()  # type: ignore[no-untyped-call]
    return {name: words.get(name) or marks[name] for name in sorted(accepted - {"PRIMED"})}


def _require_64_bits(node: S.Expr) -> None:
    match node:
        case S.Number(value=int(value)) if value >= 2**63:
            raise LimitError(
                f"{value} is larger than an integer of 64 bits can be, 2**63 - 1",
                spans=node.span,
                help=f"write a float: {value}.0",
            )


def _check_expressions(statements: list[S.Statement]) -> None:
    """Limit the integers in expressions, and their depth, as later passes recurse over them."""
    stack: list[tuple[S.Expr, int]] = []
    for statement in statements:
        match statement:
            case S.Definition() | S.Function():
                stack.append((statement.body, 1))
            case S.Bound():
                stack.append((statement.extent, 1))
            case S.Monoid():
                stack += [(part, 1) for part in statement.unit + statement.combine]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise LimitError(
                f"an expression is nested more than {MAX_DEPTH} deep",
                spans=node.span,
                help="split it into several definitions",
            )
        _require_64_bits(node)
        stack += [(child, depth + 1) for child in S.children(node)]


class HasText(Protocol):
    """A derived program, such as a gradient."""

    def text(self) -> str:
        """Return the program in the language."""


def text_of(program: str | HasText, wanted: str) -> str:
    """Return the text of a program that may be a derived one; `wanted` says what else may be
    given."""
    if isinstance(program, str):
        return program
    if callable(text := getattr(program, "text", None)) and isinstance(result := text(), str):
        return result
    raise UsageError(f"a program is a text, not {type(program).__name__}", help=f"give {wanted}")


def parse(text: str) -> list[S.Statement]:
    """Return the statements of a program, in order."""
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    if not isinstance(text, str):
        raise UsageError(f"a program is a text, not {type(text).__name__}")
    with in_text(text):
        check_size(text)
        try:
            statements: Any = _lark().parse(text)
        except UnexpectedCharacters as error:
            raise unknown_character(text, error.pos_in_stream or 0) from None
        except UnexpectedToken as error:
            ended = error.token.type == "$END"
            offset = len(text) if ended else error.token.start_pos
            raise explain(text, offset, _accepted(text)) from None
        _check_expressions(statements)
    return list(statements)
