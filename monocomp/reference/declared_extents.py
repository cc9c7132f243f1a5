"""Declared extents, evaluated exactly: whole numbers of any length."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from monocomp.language import syntax as S

_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    **{"+": operator.add, "-": operator.sub, "*": operator.mul},
    **{"//": operator.floordiv, "%": operator.mod, "maximum": max, "minimum": min},
}
_QUOTIENTS = (operator.floordiv, operator.mod)


def declared_extent(
    extent_of: Mapping[str, str],
    node: S.Expr,
    extents: Mapping[str, int],
    params: Mapping[str, int | float],
) -> int | None:
    """Return the number that a declared extent is, exactly; None if it divides by zero."""
    match node:
        case S.Number(value):
            return int(value)
        case S.Extent(index):
            return extents[extent_of[index]]
        case S.Name(name):
            return int(params[name])
    first, *others = (declared_extent(extent_of, p, extents, params) for p in S.children(node))
    if isinstance(node, S.Unary):
        return None if first is None else -first
    operation = _ARITHMETIC[node.function if isinstance(node, S.Call) else node.op]
    for other in others:
        if first is None or other is None or (other == 0 and operation in _QUOTIENTS):
            return None
        first = operation(first, other)
    return first
