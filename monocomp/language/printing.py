"""Expressions as text: what a reading of an ambiguous line is written as.

Numbers are spelled as the program spells them. Brackets are those that the grammar needs.
"""

from __future__ import annotations

from collections.abc import Sequence

from monocomp.language import syntax as S

# How tightly the grammar binds: the parts of an operator bind at least as tightly as it asks.
_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(9)
_LEVELS = {"+": _SUM, "-": _SUM, "**": _POWER, "and": _AND, "or": _OR}


def show(node: S.Expr, text: str) -> str:
    """Return the text of an expression of a program."""
    return _Printer(text).at(node, _OR)


class _Printer:
    def __init__(self, text: str) -> None:
        self.text = text

    def at(self, node: S.Expr, level: int) -> str:
        """Return the text where the grammar wants something that binds as tightly as `level`."""
        shown = self.show(node)
        return shown if _level(node) >= level else f"({shown})"

    def show(self, node: S.Expr) -> str:
        match node:
            case S.Number():
                return self.text[node.span.start : node.span.stop]
            case S.Name():
                return node.name
            case S.Extent():
                return f"|{node.index}|"
            case S.Read():
                return f"{node.name}[{self.subscripts(node.subscripts)}]"
            case S.Unary():
                sign = "-" if node.op == "-" else "not "
                return sign + self.at(node.operand, _level(node))
            case S.Binary():
                level = _level(node)
                left, right = (_ATOM, _SIGN) if node.op == "**" else (level, level + 1)
                return f"{self.at(node.left, left)} {node.op} {self.at(node.right, right)}"
            case S.Compare():
                first, *others = (self.at(x, _SUM) for x in node.operands)
                pairs = zip(node.ops, others, strict=True)
                return first + "".join(f" {op} {x}" for op, x in pairs)
            case S.Logic():
                return f" {node.op} ".join(self.at(x, _level(node) + 1) for x in node.operands)
            case S.Call():
                return f"{node.function}({self.arguments(node.args)})"
            case S.Reduce():
                return f"{node.op}[{self.bound(node)}]({self.arguments(node.args)})"
            case S.Field():
                entry = f"[{self.subscripts(node.subscripts)}]" if node.subscripts else ""
                return f"{self.at(node.operand, _ATOM)}.{node.name}{entry}"

    def subscripts(self, parts: Sequence[S.Expr]) -> str:
        is_plain = all(_level(part) == _ATOM for part in parts)
        return ("," if is_plain else ", ").join(map(self.show, parts))

    def arguments(self, parts: Sequence[S.Expr]) -> str:
        return ", ".join(map(self.show, parts))

    def bound(self, node: S.Reduce) -> str:
        target = "" if node.target is None else f" -> {node.target}"
        condition = "" if node.condition is None else f" if {self.show(node.condition)}"
        return f"{'..' * node.prefix}{', '.join(node.indices)}{target}{condition}"


def _level(node: S.Expr) -> int:
    match node:
        case S.Unary():
            return _SIGN if node.op == "-" else _NOT
        case S.Binary() | S.Logic():
            return _LEVELS.get(node.op, _PRODUCT)
        case S.Compare():
            return _COMPARISON
    return _ATOM
