"""Declared extents, evaluated exactly: whole numbers of any length."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from monocomp.errors import InternalError
from monocomp.language import syntax as S

_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    **{"+": operator.add, "-": operator.sub, "*": operator.mul},
    **{"//": operator.floordiv, "%": operator.mod, "maximum": max, "minimum": min},
}


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
    total, *others = (declared_extent(extent_of, p, extents, params) for p in S.children(node))
    match node:
        case S.Unary("-"):
            return None if total is None else -total
        case S.Binary(op) | S.Call(op) if op in _ARITHMETIC:
            for x in others:
                if total is None or x is None or (x == 0 and op in ("//", "%")):
                    return None
                total = _ARITHMETIC[op](total, x)
            return total
    raise InternalError("an extent holds an operation that the checker should have refused")
