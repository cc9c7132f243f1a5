"""Declared extents, evaluated exactly: whole numbers of any length."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from monocomp.errors import InternalError
from monocomp.language import syntax as S

_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    **{"+": operator.add, "-": operator.sub, "*": operator.mul},
    **{"//": operator.floordiv, "%": operator.mod},
}


def declared_extent(
    extent_of: Mapping[str, str],
    node: S.Expr,
    extents: Mapping[str, int],
    params: Mapping[str, int | float],
) -> int | None:
    """The number that a declared extent is, exactly; None if it divides by zero."""
    match node:
        case S.Number():
            return int(node.value)
        case S.Extent():
            return extents[extent_of[node.index]]
        case S.Name():
            return int(params[node.name])
    values = [declared_extent(extent_of, part, extents, params) for part in S.children(node)]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    match node:
        case S.Unary():
            return -known[0]
        case S.Call():
            return min(known) if node.function == "minimum" else max(known)
        case S.Binary(op="//" | "%") if known[1] == 0:
            return None
        case S.Binary() if node.op in _ARITHMETIC:
            return _ARITHMETIC[node.op](*known)
    raise InternalError("an extent holds an operation that the checker should have refused")
