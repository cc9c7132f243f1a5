"""From text to a list of statements, with the place of everything.

    statement  = "input" input, ...  |  "param" param, ...  |  "index" bound, ...
               | "return" output, ...
               | "def" NAME "(" [names] ")" "=" expression
               | "monoid" NAME "(" names ")" "=" "unit" parts "," "combine" parts
               | expression "=" expression
    input      = NAME ["[" names "]"] [":" NAME]
    param      = NAME [":" NAME] ["=" expression]
    bound      = NAME "<" expression                      (of + - * and what binds tighter)
    output     = NAME [":" NAME]
    parts      = expression | "(" expression "," expression, ... ")"

    expression = operators between operands, `OPERATORS` from the loosest on; `not` binds looser
                 than a comparison, `-` tighter than `*`, `**` tightest and to the right
    operand    = NUMBER | NAME | NAME' | "(" expression ")" | "|" NAME "|"
               | NAME "(" [expression, ...] ")"
               | NAME "[" places "]" ["(" [expression, ...] ")"]
               | operand "." NAME
    places     = [".."] expression, ... ["->" NAME] ["if" expression]

A parser by recursive descent, which notes what it looks for at each word, so that an error can
tell what could have stood there. Around it stand the limits that make the cost of any text small
and known (length, brackets, words, depth). Nothing is resolved here: `monocomp.language.checker`
says what the names mean.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, NoReturn, TypeVar

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
from monocomp.language.mistakes import check_size, explain, unknown_character
from monocomp.language.words import Word, statements, words
from monocomp.vocabulary import KEYWORDS

MAX_TOKENS = 4096
MAX_DEPTH = 100
MAX_NAME = 64
MAX_DIGITS = 40
MAX_EXPONENT = 400
_LARGEST = Fraction(sys.float_info.max)
_END = "the end of the line"

# Operators between operands, from the loosest on.
OPERATORS = (
    ("or",),
    ("and",),
    (),  # `not`
    ("<", "<=", ">", ">=", "==", "!="),
    ("+", "-"),
    ("*", "/", "//", "%"),
)
_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT = range(len(OPERATORS))
_LEVELS = {sign: level for level, signs in enumerate(OPERATORS) for sign in signs}
# What could stand after an operand, by the loosest operator that could.
_EXPECTED = [
    {
        "a comparison" if level == _COMPARISON else f"'{sign}'"
        for level in range(loosest, len(OPERATORS))
        for sign in OPERATORS[level]
    }
    for loosest in range(len(OPERATORS))
]

T = TypeVar("T")


class _Parser:
    """Reads words one by one; `word` is the next one, and `expected` what was looked for there."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = statements(words(text))
        self.count = 0
        self.word = self.last = Word("", "end", Span(0, 0))
        self.expected: set[str] = set()
        self.advance()

    def advance(self) -> Word:
        """Go on to the next word, and tell the one before it."""
        self.last, self.word = self.word, next(self.words)
        self.expected = set()
        if self.word.kind == "unknown":
            raise unknown_character(self.text, self.word.span.start)
        self.count += self.word.kind != "end"
        if self.count > MAX_TOKENS:
            message = f"a program has at most {MAX_TOKENS} words"
            raise LimitError(message, spans=self.word.span)
        return self.last

    def fail(self) -> NoReturn:
        """Nothing that was looked for stands here."""
        raise explain(self.text, self.word.span.start, self.expected)

    def sees(self, text: str) -> bool:
        """Is this the next word?"""
        self.expected.add(f"'{text}'")
        return self.word.text == text

    def takes(self, text: str) -> bool:
        """Is this the next word? Then go on."""
        seen = self.sees(text)
        if seen:
            self.advance()
        return seen

    def expect(self, text: str) -> Word:
        """Go on, if this is the next word."""
        if not self.sees(text):
            self.fail()
        return self.advance()

    def name(self) -> Word:
        """The next word, which must be a name."""
        self.expected.add("a name")
        if self.word.kind != "name":
            self.fail()
        if self.word.text.endswith("'"):
            raise unknown_character(self.text, self.word.span.stop - 1)
        return self.advance()

    def label(self) -> S.Label:
        """The next word, which must be a name that may be given to something."""
        return _label(self.name())

    def ends(self) -> bool:
        """Does a statement end here?"""
        self.expected.add(_END)
        return self.word.text in (";", "\n", "")

    def separated(self, item: Callable[[], T]) -> tuple[T, ...]:
        """One or more, with commas between them."""
        items = [item()]
        while self.takes(","):
            items.append(item())
        return tuple(items)

    def since(self, start: Span) -> Span:
        """From there to the word before this one."""
        return start.to(self.last.span)

    # Statements

    def program(self) -> list[S.Statement]:
        found: list[S.Statement] = []
        while not self.ends():
            found += self.statement()
            if not self.ends():
                self.fail()
            if self.word.text:
                self.advance()
        return found

    def statement(self) -> tuple[S.Statement, ...]:
        start = self.word.span
        for keyword, entry in _ENTRIES.items():
            if self.takes(keyword):
                return self.separated(partial(entry, self))
        if self.takes("def"):
            return (self.function(start),)
        if self.takes("monoid"):
            return (self.monoid(start),)
        return (self.definition(start),)

    def input(self) -> S.Statement:
        label = self.label()
        dims: tuple[S.Label, ...] = ()
        if self.takes("["):
            dims = self.separated(self.label)
            self.expect("]")
        kind = self.kind(("int", "float", "bool")) if self.takes(":") else None
        return S.DeclaredInput(label, dims, kind, span=self.since(label.span))

    def param(self) -> S.Statement:
        label = self.label()
        kind = self.kind(("int", "float")) if self.takes(":") else None
        default = self.expression() if self.takes("=") else None
        if kind is None:
            raise ParseError(
                f"parameter '{label}' needs a type, int or float",
                spans=label.span,
                help=f"write param {label}: float",
            )
        value = None if default is None else _literal(default)
        if kind == "int" and default and not isinstance(value, int):
            raise TypeMismatchError(
                f"parameter '{label}' is an int, and its default is not",
                spans=default.span,
                help=f"write param {label}: float = ..., or an integer",
            )
        if value is not None:
            value = int(value) if kind == "int" else float(value)
        return S.Param(label, kind, value, span=self.since(label.span))

    def kind(self, allowed: tuple[str, ...]) -> Any:
        word = self.name()
        if word.text not in allowed:
            raise ParseError(
                f"'{word.text}' is no type here",
                spans=word.span,
                notes=(f"accepted: {', '.join(allowed)}",),
            )
        return word.text

    def bound(self) -> S.Statement:
        label = self.label()
        self.expect("<")
        extent = self.expression(_SUM)
        return S.Bound(label, extent, span=self.since(label.span))

    def output(self) -> S.Statement:
        label = self.label()
        dtype = self.name() if self.takes(":") else None
        named = None if dtype is None else S.Label(dtype.text, dtype.span)
        return S.Output(label, named, span=self.since(label.span))

    def function(self, start: Span) -> S.Statement:
        name = self.label()
        self.expect("(")
        formals = () if self.sees(")") else self.separated(self.label)
        self.expect(")")
        self.expect("=")
        body = self.expression()
        return S.Function(name, formals, body, span=self.since(start))

    def monoid(self, start: Span) -> S.Statement:
        word = self.name()
        self.expect("(")
        fields = self.separated(self.label)
        self.expect(")")
        self.expect("=")
        self.expect("unit")
        unit = self.parts()
        self.expect(",")
        self.expect("combine")
        combine = self.parts()
        return S.Monoid(_label(word), fields, unit, combine, span=self.since(start))

    def parts(self) -> tuple[S.Expr, ...]:
        """One expression, or several in parentheses."""
        start = self.word.span
        if not self.takes("("):
            return (self.expression(),)
        items = self.separated(self.expression)
        self.expect(")")
        if len(items) > 1:
            return items
        return (self.expression(atom=replace(items[0], span=self.since(start))),)

    def definition(self, start: Span) -> S.Statement:
        target = self.expression()
        if not self.takes("="):
            if not self.ends():
                self.fail()
            help = "give it a name and its indices: O[...] = ..."
            if isinstance(target, S.Compare) and target.ops[0] == "==":
                help = "a definition has one =, a comparison =="
            raise ParseError(
                "an expression stands alone; a program is a list of definitions",
                spans=target.span,
                help=help,
            )
        body = self.expression()
        if not self.ends():
            self.fail()
        indices: tuple[S.Label, ...] = ()
        if isinstance(target, S.Name):
            name = S.Label(target.name, target.span)
        elif isinstance(target, S.Read):
            name = S.Label(
                target.name, Span(target.span.start, target.span.start + len(target.name))
            )
            indices = _index_names(target.subscripts, "the left side")
        else:
            raise ParseError(
                "the left side of '=' must be a name with indices",
                spans=target.span,
                help="a definition reads O[i,j] = ...; equality of values is ==",
            )
        name = S.Label(target.name, Span(start.start, start.start + len(target.name)))
        subscripts = target.subscripts if isinstance(target, S.Read) else ()
        indices = _index_names(subscripts, "the left side")
        return S.Definition(name, indices, body, span=self.since(start))

    # Expressions

    def expression(self, loosest: int = _OR, atom: S.Expr | None = None) -> S.Expr:
        """Operands with operators between them that bind no looser; the first may be known."""
        places = []
        while loosest <= _NOT and atom is None and self.sees("not"):
            places.append(self.advance().span)
        result = self.expression(_COMPARISON) if places else self.signed(atom)
        for place in reversed(places):
            result = S.Unary("not", result, span=place.to(result.span))
        while True:
            self.expected |= _EXPECTED[loosest]
            level = _LEVELS.get(self.word.text, -1)
            if level < loosest:
                return result
            if level >= _SUM:
                op: Any = self.advance().text
                right = self.expression(level + 1) if level < _PRODUCT else self.signed()
                result = S.Binary(op, result, right, span=result.span.to(right.span))
                continue
            ops: list[Any] = []
            operands = [result]
            while self.word.text in OPERATORS[level]:
                ops.append(self.advance().text)
                operands.append(self.expression(level + 1))
            span = result.span.to(operands[-1].span)
            if level == _COMPARISON:
                result = S.Compare(tuple(ops), tuple(operands), span=span)
            else:
                result = S.Logic(ops[0], tuple(operands), span=span)

    def signed(self, atom: S.Expr | None = None) -> S.Expr:
        """`-x` and `x ** y`, the last one first."""
        pending: list[S.Expr | Span] = []
        while True:
            if atom is None and self.sees("-"):
                pending.append(self.advance().span)
                continue
            result, atom = atom or self.atom(), None
            while self.takes("."):
                result = S.Field(result, self.label(), span=self.since(result.span))
            if not self.takes("**"):
                break
            pending.append(result)
        for at in reversed(pending):
            if isinstance(at, Span):
                result = S.Unary("-", result, span=at.to(result.span))
            else:
                result = S.Binary("**", at, result, span=at.span.to(result.span))
        return result

    def atom(self) -> S.Expr:
        word, start = self.word, self.word.span
        self.expected |= {"a number", "a name"}
        if word.kind == "number":
            self.advance()
            return S.Number(_number(word), span=start)
        if self.takes("("):
            inner = self.expression()
            self.expect(")")
            return replace(inner, span=self.since(start))
        if self.takes("|"):
            label = self.label()
            self.expect("|")
            return S.Extent(label, span=self.since(start))
        if word.kind != "name":
            self.fail()
        self.advance()
        if word.text.endswith("'"):
            if len(word.text) > MAX_NAME + 1:
                raise LimitError(f"a name has more than {MAX_NAME} characters", spans=start)
            return S.Name(word.text, span=start)
        if word.text == "inf" and not (self.sees("(") or self.sees("[")):
            return S.Number(math.inf, span=start)
        label = _label(word)
        if self.takes("("):
            return S.Call(label, self.arguments(), span=self.since(start))
        return self.brackets(label) if self.takes("[") else S.Name(label, span=start)

    def arguments(self) -> tuple[S.Expr, ...]:
        """What stands between parentheses that are open."""
        args = () if self.sees(")") else self.separated(self.expression)
        self.expect(")")
        return args

    def brackets(self, head: S.Label) -> S.Expr:
        """A read or a reduction, whose bracket is open."""
        prefix = self.takes("..")
        places = self.separated(self.expression)
        target = self.label() if self.takes("->") else None
        condition = self.expression() if self.takes("if") else None
        self.expect("]")
        if self.takes("("):
            args = self.arguments()
            indices = _index_names(places, f"'{head}[...](...)'")
            span = self.since(head.span)
            return S.Reduce(head, indices, condition, args, prefix, target, span=span)
        if prefix or target is not None or condition is not None:
            raise ParseError(
                f"'{head}[...]' is followed by no parenthesis, so it is a read, "
                "and its brackets hold subscripts only",
                spans=self.since(head.span),
                help=f"a reduction has its operand in parentheses: {head}[...](x)",
            )
        return S.Read(head, places, span=self.since(head.span))


_ENTRIES: dict[str, Callable[[_Parser], S.Statement]] = {
    "input": _Parser.input,
    "param": _Parser.param,
    "index": _Parser.bound,
    "return": _Parser.output,
}


def _label(word: Word) -> S.Label:
    if len(word.text) > MAX_NAME:
        message = f"a name has {len(word.text)} characters; at most {MAX_NAME}"
        raise LimitError(message, spans=word.span)
    if word.text in KEYWORDS:
        raise ReservedNameError(
            f"'{word.text}' is a word of the language and cannot be a name",
            spans=word.span,
            help=f"choose another name, such as '{word.text}_'",
        )
    return S.Label(word.text, word.span)


def _number(word: Word) -> int | Fraction:
    """The exact value of a literal; no float on the way."""
    mantissa, _, exponent = word.text.lower().partition("e")
    whole, point, decimals = mantissa.partition(".")
    if len(whole) + len(decimals) > MAX_DIGITS:
        raise LimitError(f"a number has more than {MAX_DIGITS} digits", spans=word.span)
    if len(exponent) > 8 or abs(int(exponent or 0)) > MAX_EXPONENT:
        message = f"an exponent lies outside -{MAX_EXPONENT} to {MAX_EXPONENT}"
        raise LimitError(message, spans=word.span)
    if not point and not exponent:
        return int(whole)
    value = int(whole + decimals or "0") * Fraction(10) ** (int(exponent or 0) - len(decimals))
    if value > _LARGEST:
        message = "a number is larger than a float can be"
        raise LimitError(message, spans=word.span, help="write inf")
    return value


def _index_names(places: tuple[S.Expr, ...], what: str) -> tuple[S.Label, ...]:
    """The entries of a bracket that may hold names only."""
    for item in places:
        if not isinstance(item, S.Name):
            raise ParseError(
                f"{what} takes names of indices, and this is an expression",
                spans=item.span,
                help="an index is a name, such as k in A[q,k]",
            )
    return tuple(S.Label(item.name, item.span) for item in places if isinstance(item, S.Name))


def _literal(expr: S.Expr) -> int | Fraction | float:
    """The value of a default: a number, or minus a number."""
    if isinstance(expr, S.Number):
        return expr.value
    if isinstance(expr, S.Unary) and expr.op == "-" and isinstance(expr.operand, S.Number):
        return -expr.operand.value
    raise ParseError("a default must be a number", spans=expr.span, help="write = 1024 or = -0.5")


def _check_depth(found: list[S.Statement]) -> None:
    """Later passes recurse over expressions, so their depth has a limit."""
    stack: list[tuple[S.Expr, int]] = []
    for statement in found:
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
        stack += [(child, depth + 1) for child in S.children(node)]


def parse(text: str) -> list[S.Statement]:
    """The statements of a program, in order."""
    if not isinstance(text, str):
        raise UsageError(f"a program is a text, not {type(text).__name__}")
    with in_text(text):
        check_size(text)
        found = _Parser(text).program()
        _check_depth(found)
    return found
