"""Formulas as trees, and as text of the language.

Terms, programs, laws and steps are shown as text (`text`) and typeset (`explorer.mathml`). Both
take the same tree, and put brackets where the strength of its operators needs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from weakref import WeakValueDictionary

LOOSEST, OR, AND, NOT, COMPARE, ADD, MUL, UNARY, POW, ATOM = range(10)
_STRENGTHS = {"or": OR, "and": AND, "+": ADD, "-": ADD, "**": POW}

_FORMULAS: WeakValueDictionary[tuple[object, ...], Formula] = WeakValueDictionary()


class Formula:
    """An operation on formulas. Interned like terms: equal means identical.

    op and attr are one of
        name(identifier), number(digits): themselves,
        infix(operator), chain(operators) of comparisons or of a definition, prefix(operator),
        call(name) of operands, read(name) of subscripts, field(name) of one,
        fold(name) of a head and operands; head(sign) of indices, if(-) of a head and a filter,
        extent(name), group of a formula in brackets that do not follow from its form,
        given of the definition of an input, mark(kind) around one,
        words(text) that are no formula, sentence of words and formulas,
        list(separator) of what is shown in rows.
    """

    __slots__ = ("__weakref__", "args", "attr", "op")
    op: str
    args: tuple[Formula, ...]
    attr: str

    def __new__(cls, op: str, args: tuple[Formula, ...] = (), attr: str = "") -> Formula:
        known = _FORMULAS.get((op, args, attr))
        if known is None:
            known = _FORMULAS[op, args, attr] = object.__new__(cls)
            known.op, known.args, known.attr = op, args, attr
        return known

    def __reduce__(self) -> tuple[type[Formula], tuple[Any, ...]]:
        return Formula, (self.op, self.args, self.attr)

    @property
    def strength(self) -> int:
        """Return how tightly the operator binds its operands."""
        match self.op:
            case "infix":
                return _STRENGTHS.get(self.attr, MUL)
            case "chain":
                return COMPARE
            case "prefix":
                return NOT if self.attr == "not" else UNARY
            case "mark":
                return self.args[0].strength
            case "given" | "sentence" | "list":
                return LOOSEST
        return ATOM

    def walk(self) -> Iterator[Formula]:
        """Yield the formula and all its parts."""
        yield self
        for a in self.args:
            yield from a.walk()

    def __str__(self) -> str:
        return text(self)

    def __repr__(self) -> str:
        return f"<Formula {self}>"

    def to_json(self) -> list[Any]:
        """Return the tree as lists."""
        return [self.op, self.attr, *(a.to_json() for a in self.args)]

    @classmethod
    def from_json(cls, tree: list[Any]) -> Formula:
        """Return the formula that a tree is."""
        op, attr, *args = tree
        return cls(op, tuple(map(cls.from_json, args)), attr)


def name(identifier: str) -> Formula:
    return Formula("name", attr=identifier)


def infix(operator: str, left: Formula, right: Formula) -> Formula:
    return Formula("infix", (left, right), operator)


def prefix(operator: str, operand: Formula) -> Formula:
    return Formula("prefix", (operand,), operator)


def chain(operators: str, *sides: Formula) -> Formula:
    return Formula("chain", sides, operators)


def call(function: str, *operands: Formula) -> Formula:
    return Formula("call", operands, function)


def fold(
    function: str,
    indices: Iterable[Formula],
    operands: Iterable[Formula],
    condition: Formula | None = None,
    sign: str = "",
) -> Formula:
    """Return `sum[k if c](x)`; the sign is `..` of a prefix, or `->` before the last index."""
    head = Formula("head", tuple(indices), sign)
    if condition is not None:
        head = Formula("if", (head, condition))
    return Formula("fold", (head, *operands), function)


def group(inner: Formula) -> Formula:
    """Return a formula in brackets that do not follow from its form."""
    return Formula("group", (inner,))


def words(said: str) -> Formula:
    """Return words that are no formula."""
    return Formula("words", attr=said)


def sentence(*parts: Formula | str) -> Formula:
    """Return words with formulas between them."""
    return Formula("sentence", tuple(words(p) if isinstance(p, str) else p for p in parts))


def listed(parts: Iterable[Formula], separator: str = "; ") -> Formula:
    """Return formulas for rows, with a separator between them as text."""
    return Formula("list", tuple(parts), separator)


def number(digits: str) -> Formula:
    """Return a number as it is written: with a sign, or as a quotient, too."""
    over, _, under = digits.partition(" / ")
    value = (
        name(over.lstrip("-")) if over.endswith("inf") else Formula("number", (), over.lstrip("-"))
    )
    value = prefix("-", value) if over.startswith("-") else value
    return infix("/", value, Formula("number", attr=under)) if under else value


def text(f: Formula, strength: int = LOOSEST) -> str:
    """Return a formula as text, in brackets if its place binds more tightly than it does."""
    shown = _text(f, strength)
    return f"({shown})" if f.strength < strength and f.op != "mark" else shown


def _text(f: Formula, strength: int) -> str:
    args, own = f.args, f.strength
    match f.op:
        case "name" | "number" | "words":
            return f.attr
        case "sentence" | "list":
            return f.attr.join(map(text, args))
        case "infix" if f.attr == "**":
            return f"{text(args[0], ATOM)} ** {text(args[1], UNARY)}"
        case "infix":  # long sums nest as deeply as they are long
            tail = ""
            while f.op == "infix" and f.strength == own:
                tail = f" {f.attr} {text(f.args[1], own + 1)}{tail}"
                f = f.args[0]
            return text(f, own) + tail
        case "chain" if f.attr == "=":
            return f"{text(args[0])} = {text(args[1])}"
        case "chain":
            signs = ("", *(f" {sign} " for sign in f.attr.split()))
            return "".join(s + text(a, ADD) for s, a in zip(signs, args, strict=True))
        case "prefix":
            return f"{f.attr}{' ' * f.attr.isalpha()}{text(args[0], own)}"
        case "mark":
            return text(args[0], strength)
        case "given":
            return f"input {text(args[0])}"
        case "extent":
            return f"|{f.attr}|"
        case "field":
            return f"{text(args[0], ATOM)}.{f.attr}"
        case "call":
            return f"{f.attr}({_listed(args)})"
        case "read":  # plain indices stand close together
            shown = [text(a) for a in args]
            return f"{f.attr}[{(',' if all(map(str.isidentifier, shown)) else ', ').join(shown)}]"
        case "fold":
            return f"{f.attr}[{text(args[0])}]({_listed(args[1:])})"
        case "head" if f.attr == "->":
            return f"{text(args[0])} -> {text(args[1])}"
        case "head":
            return f.attr + _listed(args)
        case "if":
            return f"{text(args[0])} if {text(args[1])}"
        case "group":
            return f"({text(args[0])})"
    raise AssertionError(f.op)


def _listed(args: tuple[Formula, ...]) -> str:
    return ", ".join(map(text, args))
