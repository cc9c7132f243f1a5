"""Expressions of the language as formulas: readings of an ambiguous line, and laws.

Numbers are spelled as they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial, reduce

from monocomp.display import formulas
from monocomp.display.formulas import Formula
from monocomp.language import syntax as S
from monocomp.language.parser import parse


def show(node: S.Expr, text: str) -> str:
    """Return the text of an expression of a program."""
    return str(_without_brackets(node, text))


def statement(text: str) -> Formula:
    """Return a sentence as a formula. What stands between backquotes in it is an expression of the
    language, or an equation of two."""
    parts = text.split("`")
    shown = [equation(p) if n % 2 else p for n, p in enumerate(parts) if p]
    return formulas.sentence(*shown)


def equation(text: str) -> Formula:
    """Return an expression of the language, or an equation of two, with the brackets as written."""
    sides = tuple(map(_side, text.split(" = ")))
    return Formula("chain", sides, "=") if len(sides) == 2 else sides[0]


def _side(text: str) -> Formula:
    program = f"O = {text}"
    (definition,) = parse(program)
    assert isinstance(definition, S.Definition)
    return _with_brackets(definition.body, program)


def _with_brackets(node: S.Expr, text: str) -> Formula:
    """Return a formula with the brackets that are written."""
    shown = _formula(node, text, _with_brackets)
    is_leaf = isinstance(node, S.Name | S.Number | S.Extent)
    inside = [part.span.start for part in S.children(node)]
    in_brackets = text[node.span.start] == "(" and node.span.start not in inside
    return formulas.group(shown) if in_brackets and not is_leaf else shown


def _without_brackets(node: S.Expr, text: str) -> Formula:
    """Return a formula with the brackets that it needs."""
    return _formula(node, text, _without_brackets)


def _formula(node: S.Expr, text: str, part_of: Callable[[S.Expr, str], Formula]) -> Formula:
    def one(part: S.Expr) -> Formula:
        return part_of(part, text)

    def all_of(parts: Iterable[S.Expr]) -> tuple[Formula, ...]:
        return tuple(map(one, parts))

    match node:
        case S.Number():
            return formulas.number(text[node.span.start : node.span.stop])
        case S.Name():
            return formulas.name(node.name)
        case S.Extent():
            return Formula("extent", attr=node.index)
        case S.Read():
            return Formula("read", all_of(node.subscripts), node.name)
        case S.Unary():
            return formulas.prefix(node.op, one(node.operand))
        case S.Binary():
            return formulas.infix(node.op, *all_of((node.left, node.right)))
        case S.Compare():
            return formulas.chain(" ".join(node.ops), *all_of(node.operands))
        case S.Logic():
            return reduce(partial(formulas.infix, node.op), all_of(node.operands))
        case S.Call():
            return formulas.call(node.function, *all_of(node.args))
        case S.Reduce():
            names = node.indices if node.target is None else (*node.indices, node.target)
            sign = ".." * node.prefix if node.target is None else "->"
            condition = None if node.condition is None else one(node.condition)
            indices = map(formulas.name, names)
            return formulas.fold(node.op, indices, all_of(node.args), condition, sign)
        case S.Field():
            entry = Formula("read", all_of(node.subscripts), node.name)
            name = str(entry) if node.subscripts else node.name
            return Formula("field", (one(node.operand),), name)
