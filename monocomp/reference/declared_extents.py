"""Declared extents, evaluated exactly: whole numbers of any length."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from monocomp.errors import InternalError
from monocomp.language.syntax import (
    Binary,
    Call,
    Expr,
    Extent,
    Name,
    Number,
    Unary,
    children,
)

_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    **{"+": operator.add, "-": operator.sub, "*": operator.mul},
    **{"//": operator.floordiv, "%": operator.mod},
}


def declared_extent(
    extent_of: Mapping[str, str],
    node: Expr,
    extents: Mapping[str, int],
    params: Mapping[str, int | float],
) -> int | None:
    """The number that a declared extent is, exactly; None if it divides by zero."""
    match node:
        case Number():
            return int(node.value)
        case Extent():
            return extents[extent_of[node.index]]
        case Name():
            return int(params[node.name])
    values = [declared_extent(extent_of, part, extents, params) for part in children(node)]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    match node:
        case Unary():
            return -known[0]
        case Call():
            return min(known) if node.function == "minimum" else max(known)
        case Binary(op="//" | "%") if known[1] == 0:
            return None
        case Binary() if node.op in _ARITHMETIC:
            return _ARITHMETIC[node.op](*known)
    raise InternalError("an extent holds an operation that the checker should have refused")
