"""The expressions of block programs, with their dimensions and dtypes."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from monocomp.blocks import program as B
from monocomp.declarations.vocabulary import Kind
from monocomp.errors import InternalError

_PROMOTION = ("int1", "int", "int32", "INDEX", "int64", "uint32", "float", "float32")


def promoted(a: B.Dtype, b: B.Dtype) -> B.Dtype:
    """The dtype of arithmetic with both."""
    return max(a, b, key=_rank)


def _rank(dtype: B.Dtype) -> int:
    if dtype.kind not in ("bool", "int", "float"):
        return len(_PROMOTION)
    if dtype.name in _PROMOTION and not dtype.of:
        return _PROMOTION.index(dtype.name)
    return _PROMOTION.index("float" if dtype.kind == "float" else "int32")


@lru_cache(maxsize=4096)
def broadcast_layout(*layouts: B.Layout) -> B.Layout:
    """Return the layout of element-wise operations: scalars go with everything, and dimensions of
    length 1 with those of any."""
    found = [x for x in layouts if x]
    if not found:
        return ()
    if len({len(x) for x in found}) > 1:
        raise InternalError(f"tiles of different ranks meet: {found}")
    out: list[str | None] = []
    for axes in zip(*found, strict=True):
        names = {a for a in axes if a is not None}
        if len(names) > 1:
            raise InternalError(f"tiles along different axes meet: {found}")
        out.append(names.pop() if names else None)
    return tuple(out)


def name(identifier: str, dtype: B.Dtype, layout: B.Layout = ()) -> B.Expr:
    return B.Expr("name", (), identifier, layout, dtype)


def number(value: float, kind: Kind = "int") -> B.Expr:
    """A literal; infinite ints are the largest of 64 bits."""
    if kind == "int":
        if math.isinf(value):
            value = (1 << 63) - 1 if value > 0 else -(1 << 63)
        return B.Expr("number", (), int(value), (), B.INT)
    if kind == "bool":
        return B.Expr("number", (), bool(value), (), B.BOOL)
    return B.Expr("number", (), float(value), (), B.FLOAT)


def none() -> B.Expr:
    return B.Expr("none")


def infix(sign: str, a: B.Expr, b: B.Expr) -> B.Expr:
    """a sign b."""
    logical = sign in B.COMPARISONS or sign in ("and", "or")
    dtype = B.BOOL if logical else promoted(a.dtype, b.dtype)
    if sign == "/" and dtype.kind == "int":
        dtype = B.FLOAT32
    return B.Expr(sign, (a, b), None, broadcast_layout(a.layout, b.layout), dtype)


_LEVELS = {"+": 1, "-": 1, "*": 2, "/": 2, "//": 2, "%": 2}


def chained(sign: str, a: B.Expr, b: B.Expr) -> B.Expr:
    """a sign b, calculated from left to right: of b = c + d first a + c."""
    if b.op in _LEVELS and _LEVELS[b.op] == _LEVELS[sign]:
        return infix(b.op, chained(sign, a, b.args[0]), b.args[1])
    return infix(sign, a, b)


def joined(sign: str, parts: list[B.Expr]) -> B.Expr:
    """All parts with an operator between them."""
    found = parts[0]
    for x in parts[1:]:
        found = infix(sign, found, x)
    return found


def negated(a: B.Expr) -> B.Expr:
    return B.Expr("neg", (a,), None, a.layout, a.dtype)


def select(test: B.Expr, a: B.Expr, b: B.Expr) -> B.Expr:
    """a if test else b"""
    layout = broadcast_layout(a.layout, b.layout)
    return B.Expr("select", (test, a, b), None, layout, promoted(a.dtype, b.dtype))


def where(test: B.Expr, a: B.Expr, b: B.Expr) -> B.Expr:
    layout = broadcast_layout(test.layout, a.layout, b.layout)
    return B.Expr("where", (test, a, b), None, layout, promoted(a.dtype, b.dtype))


def extreme(op: str, a: B.Expr, b: B.Expr, keeps_nan: bool = False) -> B.Expr:
    """The maximum or minimum of two values."""
    layout = broadcast_layout(a.layout, b.layout)
    return B.Expr(op, (a, b), keeps_nan, layout, promoted(a.dtype, b.dtype))


def cast(a: B.Expr, dtype: B.Dtype) -> B.Expr:
    """A value, which may be a plain number, in a dtype."""
    return B.Expr("cast", (a,), None, a.layout, dtype)


def to(a: B.Expr, dtype: B.Dtype) -> B.Expr:
    """A tile or another tensor in a dtype."""
    return B.Expr("to", (a,), None, a.layout, dtype)


def function(op: str, *args: B.Expr) -> B.Expr:
    """An element-wise function of floats."""
    layout = broadcast_layout(*(a.layout for a in args))
    dtype = args[0].dtype if args[0].dtype.kind == "float" else B.FLOAT32
    return B.Expr("function", args, op, layout, dtype)


def helper(called: str, *args: B.Expr, layout: B.Layout, dtype: B.Dtype) -> B.Expr:
    return B.Expr("helper", args, called, layout, dtype)


def scalar(x: B.Expr, by: str) -> B.Expr:
    """A tile of ints combined along all dimensions."""
    while x.layout:
        x = reduced(x, by, 0)
    return x


def unknown(x: B.Expr) -> B.Expr:
    """A scalar that tiles come to, for loops to begin or end at."""
    return helper("unknown", x, layout=(), dtype=x.dtype)


def arange(axis: str) -> B.Expr:
    """0, 1, ... in a block of an axis."""
    return B.Expr("arange", (), None, (axis,), B.INT32)


def full(value: B.Expr, layout: B.Layout, dtype: B.Dtype) -> B.Expr:
    return B.Expr("full", (value,), None, layout, dtype)


def trans(a: B.Expr) -> B.Expr:
    return B.Expr("trans", (a,), None, a.layout[::-1], a.dtype)


def broadcast(a: B.Expr, layout: B.Layout) -> B.Expr:
    return B.Expr("broadcast", (a,), None, layout, a.dtype)


def spread(x: B.Expr, want: B.Layout) -> B.Expr:
    """Give a tile of some axes the axes of another: offs_q[:, None]."""
    have = x.layout
    if have == want or not have:
        return x
    if len(have) == len(want) and all(a in (None, b) for a, b in zip(have, want, strict=True)):
        return x  # of length 1 where it does not vary
    missing = [a for a in have if a not in want]
    if missing:
        raise InternalError(f"a tile along {missing} does not fit {want}")
    if tuple(a for a in want if a in have) != have:
        x, have = trans(x), have[::-1]
    if have == want:
        return x
    return B.Expr("expand", (x,), None, tuple(a if a in have else None for a in want), x.dtype)


def reduced(x: B.Expr, by: str, dim: int, kind: Any = "built-in") -> B.Expr:
    """A tile combined along a dimension."""
    layout = (*x.layout[:dim], *x.layout[dim + 1 :])
    return B.Expr("reduce", (x,), B.Reduction(by, dim, kind), layout, x.dtype)
