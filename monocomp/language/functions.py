"""Functions made by `def` stand for their text: calls of them are written out.

An argument takes the place of its formal as it stands, so that what a body binds is bound in the
arguments, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from monocomp.language.syntax import Call, Expr, Function, Name, children, with_children


def expanded(node: Call, function: Function) -> Expr:
    """Return the text that one call stands for."""
    return _substituted(function.body, dict(zip(function.formals, node.args, strict=True)))


def written_out(expr: Expr, functions: Mapping[str, Function]) -> Expr:
    """Return the expression without calls of these functions."""
    if isinstance(expr, Call) and expr.function in functions:
        return written_out(expanded(expr, functions[expr.function]), functions)
    return with_children(expr, (written_out(part, functions) for part in children(expr)))


def _substituted(expr: Expr, arguments: Mapping[str, Expr]) -> Expr:
    if isinstance(expr, Name):
        return arguments.get(expr.name, expr) if expr.kind == "formal" else expr
    return with_children(expr, (_substituted(part, arguments) for part in children(expr)))
