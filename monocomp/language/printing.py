"""Expressions of a program as formulas: what a reading of an ambiguous line is written as.

Numbers are spelled as the program spells them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial, reduce

from monocomp.display import formulas
from monocomp.display.formulas import Formula
from monocomp.language import syntax as S


def show(node: S.Expr, text: str) -> str:
    """Return the text of an expression of a program."""
    return str(_formula(node, text))


def _formula(node: S.Expr, text: str) -> Formula:
    def all_of(parts: Iterable[S.Expr]) -> tuple[Formula, ...]:
        return tuple(_formula(part, text) for part in parts)

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
            return formulas.prefix(node.op, _formula(node.operand, text))
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
            head = Formula("head", tuple(map(formulas.name, names)), sign)
            if node.condition is not None:
                head = Formula("if", (head, _formula(node.condition, text)))
            return Formula("fold", (head, *all_of(node.args)), node.op)
        case S.Field():
            entry = Formula("read", all_of(node.subscripts), node.name)
            name = str(entry) if node.subscripts else node.name
            return Formula("field", (_formula(node.operand, text),), name)
