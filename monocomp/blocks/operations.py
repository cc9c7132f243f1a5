"""The expressions of block programs, with their dimensions and dtypes.

Constructors fold what is known:

    x | True = True     x & True = x     x * 1 = x     1 + 2 = 3     where(True, x, y) = x

A number may stand where a tile of equal elements would, in operations element by element: nothing
but numbers and scalars changes dimensions, and `spread` and `whole` give a value those of a tile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from monocomp import blocks as B
from monocomp.declarations.vocabulary import Kind
from monocomp.errors import InternalError
from monocomp.tile.operations import SIGNS, Sign, sign_of

_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "log2": math.log2,
    "log": math.log,
}
_EXTREMES = ("max", "min", "larger", "smaller")
_EXACT = 1 << 24  # ints below it are floats of 32 bits
_PROMOTION = ("int1", "int", "int32", "INDEX", "int64", "uint32", "float", "float32")


def promoted(a: B.Dtype, b: B.Dtype) -> B.Dtype:
    """Return the dtype of arithmetic with both."""
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
    tiles = [x for x in layouts if x]
    if not tiles:
        return ()
    if len({len(x) for x in tiles}) > 1:
        raise InternalError(f"tiles of different ranks meet: {tiles}")
    out: list[str | None] = []
    for axes in zip(*tiles, strict=True):
        names = {a for a in axes if a is not None}
        if len(names) > 1:
            raise InternalError(f"tiles along different axes meet: {tiles}")
        out.append(names.pop() if names else None)
    return tuple(out)


def name(identifier: str, dtype: B.Dtype, layout: B.Layout = ()) -> B.Expr:
    return B.Expr("name", (), identifier, layout, dtype)


def number(value: float, kind: Kind = "int") -> B.Expr:
    """Return a literal; infinite ints are the largest of 64 bits."""
    if kind == "int":
        if math.isinf(value):
            value = (1 << 63) - 1 if value > 0 else -(1 << 63)
        return B.Expr("number", (), int(value), (), B.INT)
    if kind == "bool":
        return B.Expr("number", (), bool(value), (), B.BOOL)
    return B.Expr("number", (), float(value), (), B.FLOAT)


def none() -> B.Expr:
    return B.Expr("none")


def is_number(e: B.Expr, value: Any) -> bool:
    """True if this is a number of this type and value."""
    return e.op == "number" and type(e.attr) is type(value) and e.attr == value


def is_constant(e: B.Expr) -> bool:
    """True if this is an int or a truth value, which may stand for a tile."""
    return e.op == "number" and not isinstance(e.attr, float)


def are_same(a: B.Expr, b: B.Expr) -> bool:
    """True if both are one name, or the same number."""
    return a.op == b.op and a.op in ("name", "number") and a.attr == b.attr


def infix(sign: str, a: B.Expr, b: B.Expr) -> B.Expr:
    """a sign b."""
    row = SIGNS[sign]
    if a.op == b.op == "number" and (constant := _computed(row, a.attr, b.attr)) is not None:
        return constant
    if is_number(b, row.unit) or is_number(a, row.zero):
        return a
    if row.commutes and (is_number(a, row.unit) or is_number(b, row.zero)):
        return b
    if (sign == "%" and is_number(b, 1)) or (sign in ("%", "//") and is_number(a, 0)):
        return number(0)
    dtype = B.BOOL if row.is_truth else promoted(a.dtype, b.dtype)
    if sign == "/" and dtype.kind == "int":
        dtype = B.FLOAT32
    return B.Expr(row.op, (a, b), row.attr, broadcast_layout(a.layout, b.layout), dtype)


def _computed(row: Sign, a: Any, b: Any) -> B.Expr | None:
    """Return an operator of two numbers, if constructors compute it: not where floats are
    compared, which may be equal in fewer bits, and nothing infinite."""
    is_float = row.op == "div" or isinstance(a, float) or isinstance(b, float)
    if (b == 0 and row.op in ("div", "floordiv", "mod")) or (is_float and row.is_truth):
        return None
    value = row.value(a, b)
    if is_float:
        return number(value, "float") if math.isfinite(value) else None
    return number(value, "bool" if isinstance(value, bool) else "int")


def chained(sign: str, a: B.Expr, b: B.Expr) -> B.Expr:
    """a sign b, calculated from left to right: of b = c + d first a + c."""
    inner = sign_of(b.op, b.attr)
    if inner is not None and bind_alike(inner, SIGNS[sign]):
        return infix(inner.text, chained(sign, a, b.args[0]), b.args[1])
    return infix(sign, a, b)


def bind_alike(a: Sign, b: Sign) -> bool:
    """True if two signs bind alike: then the left one is done first, without brackets."""
    return a.binds is not None and a.binds == b.binds


def joined(sign: str, parts: Sequence[B.Expr]) -> B.Expr:
    """Return all parts with an operator between them."""
    result = parts[0]
    for x in parts[1:]:
        result = infix(sign, result, x)
    return result


def negated(a: B.Expr) -> B.Expr:
    return B.Expr("neg", (a,), None, a.layout, a.dtype)


def select(test: B.Expr, a: B.Expr, b: B.Expr) -> B.Expr:
    """a if test else b"""
    layout = broadcast_layout(a.layout, b.layout)
    return _choice("select", test, a, b, layout)


def where(test: B.Expr, a: B.Expr, b: B.Expr) -> B.Expr:
    layout = broadcast_layout(test.layout, a.layout, b.layout)
    return _choice("where", test, a, b, layout)


def _choice(op: str, test: B.Expr, a: B.Expr, b: B.Expr, layout: B.Layout) -> B.Expr:
    if is_constant(test):
        branch = a if test.attr else b
        return branch if is_constant(branch) or branch.op == "none" else whole(branch, layout)
    if is_number(a, True) and is_number(b, False):
        return test
    return B.Expr(op, (test, a, b), None, layout, promoted(a.dtype, b.dtype))


def extreme(op: str, a: B.Expr, b: B.Expr, attr: str | None = "frame") -> B.Expr:
    """Return the maximum or minimum of two values; a frame need not keep NaN."""
    if is_constant(a) and is_constant(b):
        return number((max if op == "maximum" else min)(a.attr, b.attr))
    layout = broadcast_layout(a.layout, b.layout)
    return B.Expr(op, (a, b), attr, layout, promoted(a.dtype, b.dtype))


def cdiv(a: B.Expr, b: B.Expr) -> B.Expr:
    """a / b, rounded up, of ints that are not negative."""
    if is_constant(a) and is_constant(b):
        return number(-(-a.attr // b.attr))
    return B.Expr("cdiv", (a, b), None, (), B.INT)


def cast(a: B.Expr, dtype: B.Dtype) -> B.Expr:
    """Return a value, which may be a plain number, in a dtype."""
    if is_constant(a) and dtype.kind == "int" and a.attr in (0, 1):
        return number(a.attr)
    if is_constant(a) and dtype == B.FLOAT32 and abs(a.attr) < _EXACT:
        return number(a.attr, "float")
    return B.Expr("cast", (a,), None, a.layout, dtype)


def to(a: B.Expr, dtype: B.Dtype) -> B.Expr:
    """Return a tile or another tensor in a dtype."""
    if is_constant(a):
        return cast(a, dtype)
    if a.op == "arange" and a.dtype == dtype:
        return a
    return B.Expr("to", (a,), None, a.layout, dtype)


def function(op: str, *args: B.Expr) -> B.Expr:
    """Return an element-wise function of floats."""
    if op in _FUNCTIONS and args[0].op == "number":
        with suppress(ArithmeticError, ValueError):
            return number(_FUNCTIONS[op](args[0].attr), "float")
    layout = broadcast_layout(*(a.layout for a in args))
    dtype = args[0].dtype if args[0].dtype.kind == "float" else B.FLOAT32
    return B.Expr(op, args, None, layout, dtype)


def helper(op: str, *args: B.Expr, layout: B.Layout, dtype: B.Dtype) -> B.Expr:
    """Make a call of a function that dialects bring along."""
    return B.Expr(op, args, None, layout, dtype)


def scalar(x: B.Expr, by: str) -> B.Expr:
    """Return a tile of ints combined along all dimensions."""
    while x.layout:
        x = reduced(x, by, 0)
    return x


def unknown(x: B.Expr) -> B.Expr:
    """Return a scalar that tiles come to, for loops to begin or end at."""
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


def whole(a: B.Expr, layout: B.Layout) -> B.Expr:
    """Return a value with all dimensions of a tile that it may stand for."""
    if a.layout == layout:
        return a
    if a.op == "number":
        return full(a, layout, B.OF_KIND[a.dtype.kind])  # type: ignore[index]
    return broadcast(a, layout)


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
    """Return a tile combined along a dimension."""
    if is_constant(x) and by in _EXTREMES:
        return x
    layout = (*x.layout[:dim], *x.layout[dim + 1 :])
    return B.Expr("reduce", (x,), B.Reduction(by, dim, kind), layout, x.dtype)


def over_blocks(
    axis: str, start: B.Expr, stop: B.Expr, stages: B.Expr | None, fused: B.Expr | None = None
) -> B.Blocks:
    """Return the blocks of an axis from start to stop."""
    if stages is not None and stages.op == "none":
        stages = None
    if fused is not None and is_number(fused, False):
        fused = None
    return B.Blocks(axis, start, stop, stages, fused)


def pointers(
    base: B.Expr, offsets: Sequence[B.Expr], mask: B.Expr | None = None, fill: B.Expr | None = None
) -> B.Pointers:
    """Return the access to elements, without what changes nothing: offsets of 0, and a mask that
    holds."""
    fewer = [x for x in offsets if not is_number(x, 0)]
    if mask is not None and mask.op == "broadcast":
        mask = mask.args[0]
    if mask is None or is_number(mask, True):
        mask = fill = None
    return B.Pointers(base, tuple(fewer), mask, fill)
