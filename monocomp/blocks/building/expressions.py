"""Expressions of a tile program as those of a block program: tiles with named axes become tiles
whose dimensions are in an order, and conversions are written down.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from monocomp import tile as P
from monocomp.blocks import (
    FLOAT32,
    INT32,
    INT64,
    SMALL_INT,
    UINT32,
    Dtype,
    Expr,
)
from monocomp.blocks.building import periods, products
from monocomp.blocks.building.context import Context
from monocomp.blocks.choices.operands import has_float
from monocomp.blocks.masking import masks
from monocomp.blocks.operations import (
    broadcast_layout,
    cast,
    chained,
    extreme,
    full,
    function,
    helper,
    infix,
    negated,
    number,
    promoted,
    reduced,
    spread,
    to,
    where,
    whole,
)
from monocomp.declarations import counter_rng
from monocomp.tile.operations import OPERATIONS, sign_of

Layout = tuple[str, ...]

_TRUTHS = {"and": "&", "or": "|"}  # of tiles
_RANGE = 2.0**32  # of random bits
_SMALL_FACTOR = 1 << 6  # it takes no index past 32 bits
_COMBINE = {"prod": "multiply", "max": "larger", "min": "smaller"}


def tile(c: Context, e: P.Expr, want: Layout | None = None) -> Expr:
    """Return a value as a tile of the wanted dimensions: a loaded one in the dtype of its
    tensor. It is computed along the axes that it varies with, and spread then."""
    have = c.layout(e)
    want = have if want is None else want
    return spread(_bare(c, e, have), want)


def value(c: Context, e: P.Expr, want: Layout) -> Expr:
    """Return a value as a tile: a loaded one in float32, or as truth values."""
    if c.is_load(e) and e.kind == "float":
        return spread(to(tile(c, e), FLOAT32), want)
    built = tile(c, e, want)
    return infix("!=", built, number(0)) if c.is_load(e) and e.kind == "bool" else built


def whole_tile(c: Context, e: P.Expr, layout: Layout, dtype: Dtype) -> Expr:
    """Return a value in a dtype, with all axes of a layout."""
    have = c.order(e.axes)
    if not have:
        plain = number(e.attr, e.kind) if e.op == "number" else value(c, e, ())
        return full(plain, layout, dtype)
    built = value(c, e, have)
    if built.op == "number":
        return full(built, layout, dtype)
    return whole(spread(to(built, dtype), layout), layout)


def wide(c: Context, e: P.Expr, want: Layout) -> Expr:
    """Return an operand of integer arithmetic that may leave 32 bits, or those of its tensor."""
    if e.op == "number" or e.kind != "int":
        return value(c, e, want)
    if not c.order(e.axes):  # may be a plain number
        return cast(value(c, e, want), INT64)
    return spread(to(value(c, e, c.layout(e)), INT64), want)


def is_wide(c: Context, e: P.Expr) -> bool:
    """True if integer arithmetic may leave 32 bits, or the fewer bits of a small tensor's type."""
    if e.kind != "int":
        return False
    numbers = [abs(a.attr) for a in e.args if a.op == "number"]
    if any(n >= SMALL_INT for n in numbers) or any(map(c.is_load, e.args)):
        return True
    return e.op == "mul" and not any(n <= _SMALL_FACTOR for n in numbers)


def _bare(c: Context, e: P.Expr, want: Layout) -> Expr:
    match e.op:
        case "number":
            literal = number(e.attr, e.kind)
            if e.kind == "int" and not -(1 << 31) <= e.attr < 1 << 31:
                return full(literal, (), INT64)
            return literal
        case "param":
            return c.names.param(e.attr)
        case "extent":
            return c.names.size(e.attr)
        case "coordinate":
            return c.axis(e.attr)
        case "local" if periods.is_moved(c, c.meaning(e)):
            return infix("+", c.local(e.attr), periods.moved(c, c.meaning(e)))
        case "local":
            return c.local(e.attr)
        case "contract":
            return _contraction(c, e)
        case "reduce":
            return _reduce(c, e)
        case "masked":
            return _masked(c, e, want)
        case "cast":
            return _cast(c, e, want)
        case "neg":
            return negated(value(c, e.args[0], want))
        case "not":
            return infix("==", value(c, e.args[0], want), number(0))
        case "compare":
            a, b = (value(c, x, want) for x in e.args)
            return infix(e.attr, a, b)
        case "where":
            test, a, b = (value(c, x, want) for x in e.args)
            return where(test, a, b)
        case "floordiv" | "mod":
            return _division(c, e, want)
        case "sign":
            return _sign(c, e, want)
        case "maximum" | "minimum":
            return _larger_or_smaller(c, e, want)
        case "stop":
            return value(c, e.args[0], want)
        case "uniform":
            return _uniform(c, e, want)
        case "tanh":
            x = value(c, e.args[0], want)
            return helper("tanh", x, c.fast, layout=x.layout, dtype=FLOAT32)
    if e.op == "div" and (product := _by_reciprocals(c, e, want)) is not None:
        return product
    if (sign := sign_of(e.op, e.attr)) is not None:
        return _infix(c, _TRUTHS.get(sign.text, sign.text), e, want)
    if e.op == "exp2" and (fused := _fused_exponential(c, e.args[0], want)) is not None:
        return fused
    assert OPERATIONS[e.op].device is not None, e.op
    return function(e.op, *(value(c, a, want) for a in e.args))


def _cast(c: Context, e: P.Expr, want: Layout) -> Expr:
    """Return a value of another kind; floats may be integers of any size."""
    (x,) = e.args
    dtype = FLOAT32 if e.kind == "float" else INT64 if x.kind == "float" else INT32
    is_tile = bool(c.order(x.axes))  # else it may be a plain number
    return to(value(c, x, want), dtype) if is_tile else cast(value(c, x, want), dtype)


def _masked(c: Context, e: P.Expr, want: Layout) -> Expr:
    """Return a value where its axis is in the domain, and a unit elsewhere."""
    condition = masks.inside(c, e.attr[0], want)
    value_of_case = masks.with_unit_bits(c, e, value(c, e.args[0], want))
    return masks.chosen(c, e, condition, value_of_case)


def _sign(c: Context, e: P.Expr, want: Layout) -> Expr:
    a, below, at, above = value(c, e.args[0], want), *(number(n, e.kind) for n in (-1, 0, 1))
    negative = where(infix("<", a, number(0)), below, at)
    return where(infix(">", a, number(0)), above, negative)


def _larger_or_smaller(c: Context, e: P.Expr, want: Layout) -> Expr:
    """Keep a NaN where it counts; the frame of a sum need not, the sum has it too."""
    a, b = e.args
    if e.kind == "float" and e.attr != "frame":
        return extreme(e.op, value(c, a, want), value(c, b, want), None)
    second = spread(_reduce(c, b, "frame"), want) if b.op == "reduce" else value(c, b, want)
    return extreme(e.op, value(c, a, want), second)


def _fused_exponential(c: Context, e: P.Expr, want: Layout) -> Expr | None:
    """Return exp2(scale * x - scale * y) for scale * (x - y) with a row y, in a kernel that
    multiplies matrices: one fused operation an element. None if x may be exact, where scale * y is
    rounded.

    A number that x is multiplied with is multiplied with the scale: then nobody waits for x.
    """
    if e.op != "mul" or e.args[1].op != "sub" or c.order(e.args[0].axes) or not c.choices.products:
        return None
    scale, (x, y) = e.args[0], e.args[1].args
    if len(c.order(y.axes)) >= len(c.order(x.axes)):
        return None
    if not _is_computed(c, x):  # and may be large, as a mask of -1e9 is
        return _weight(c, scale, x, y, want) if _is_rounded(c, x) else None
    factor = above = value(c, scale, want)
    if (product := _scaled(c, x)) is not None:
        n, x = product
        above = infix("*", factor, value(c, n, want))
    shift = infix("*", factor, value(c, y, want))
    return function("exp2", infix("-", infix("*", above, value(c, x, want)), shift))


def _by_reciprocals(c: Context, e: P.Expr, want: Layout) -> Expr | None:
    """Return x * (1 / y) for x / y with a row y, in a kernel that multiplies matrices: a division
    takes several operations, and there is one a row instead of one an element."""
    x, y = e.args
    rows = c.order(y.axes)
    if not rows or len(rows) >= len(c.order(x.axes)) or not c.choices.products:
        return None
    reciprocal = infix("/", number(1.0, "float"), value(c, y, rows))
    return infix("*", value(c, x, want), spread(reciprocal, want))


def _weight(c: Context, scale: P.Expr, x: P.Expr, y: P.Expr, want: Layout) -> Expr | None:
    """Return exp2(scale * (x - y)) of a y that may be large: fused if results have 16 bits, which
    x is rounded for. None for a scale that is no positive number, or if the kernel stores y: then
    sums of these weights have to agree with it."""
    if scale.op != "number" or scale.attr <= 0 or not _stored(c).isdisjoint(_states(c, y)):
        return None
    power = 2.0 ** (math.frexp(scale.attr)[1] - 1)
    numbers = number(scale.attr, "float"), number(power, "float")
    args = value(c, x, want), value(c, y, want), *numbers, c.fast
    return helper("weight", *args, layout=want, dtype=FLOAT32)


def _stored(c: Context) -> set[str]:
    """Return the states that a kernel stores, or adds to what it stores."""
    stores = (s for s in c.program.statements if isinstance(s, P.Store))
    return {name for s in stores for name in _states(c, s.value, ("exp2",))}


def _states(c: Context, e: P.Expr, apart: Collection[str] = ()) -> set[str]:
    """Return the states that a value is made of, unless operations are apart."""
    parts = c.program.made_of(e, apart=apart)
    return {x.attr for x in parts if c.is_state(x)}


def _is_rounded(c: Context, e: P.Expr) -> bool:
    """True if arithmetic made all that is chosen from, unless it is a number."""
    e = c.meaning(e)
    if e.op in ("where", "maximum", "minimum", "masked", "neg", "stop"):
        choices = e.args[e.op == "where" :]
        return all(a.op == "number" or _is_rounded(c, a) for a in choices)
    return e.op not in ("load", "number") and e.kind == "float"


def _is_computed(c: Context, e: P.Expr, states: frozenset[str] = frozenset()) -> bool:
    """True if all that is added, or chosen from, is made of positions or products of matrices;
    what a loop adds to one of these states, or chooses beside it, is."""
    e = c.meaning(e)
    if e in c.choices.products or e.op == "coordinate":
        return True
    if e.op == "load" or e.kind == "bool":
        return False
    if e.op == "local":
        new = [
            s.value for s in c.program.statements if isinstance(s, P.Assign) and s.name == e.attr
        ]
        within = states | {e.attr}
        return e.attr not in states and all(_is_computed(c, value, within) for value in new)
    if e.op in ("add", "sub", "where", "maximum", "minimum"):
        choices = e.args[e.op == "where" :]
        parts = [a for a in choices if not (a.op == "number" and a.attr == -math.inf)]
        parts = [a for a in parts if not (a.op == "local" and a.attr in states)]
        return all(_is_computed(c, a, states) for a in parts)
    return any(_is_computed(c, a, states) for a in e.args)


def _scaled(c: Context, e: P.Expr) -> tuple[P.Expr, P.Expr] | None:
    """(n, x) with e = n * x, where a size decides n: then it is neither huge nor tiny."""
    e = c.meaning(e)
    if e.op != "mul" or not _is_of_a_size(c, e.args[0]):
        return None
    n, x = e.args
    return n, x


def _is_of_a_size(c: Context, e: P.Expr) -> bool:
    e = c.meaning(e)
    is_function = e.op in ("cast", "sqrt", "rsqrt")
    return e.op == "extent" or (is_function and _is_of_a_size(c, e.args[0]))


def _infix(c: Context, sign: str, e: P.Expr, want: Layout) -> Expr:
    scalars = [a for a in e.args if not (c.order(a.axes) or _compares_numbers(a))]
    if e.op in ("and", "or") and want and scalars:
        # Triton's interpreter takes a truth value that it makes a tile of for a float.
        (other,) = (a for a in e.args if a is not scalars[0])
        scalar, other_side = value(c, scalars[0], ()), value(c, other, want)
        if e.op == "and":
            return where(scalar, other_side, number(False, "bool"))
        return where(scalar, number(True, "bool"), other_side)
    operand = wide if is_wide(c, e) else value
    a, b = (operand(c, x, want) for x in e.args)
    return infix(sign, a, b)


def _division(c: Context, e: P.Expr, want: Layout) -> Expr:
    if periods.is_moved(c, e):
        return infix("+", periods.position(c, e), periods.moved(c, e))
    if periods.is_in_period(c, e):
        return periods.position(c, e)
    if e.attr == "nonnegative" and e.kind == "int" and _is_never_zero(e.args[1]):
        a, b = (value(c, x, want) for x in e.args)
        return infix("//" if e.op == "floordiv" else "%", a, b)
    operand = wide if any(map(c.is_load, e.args)) else value
    a, b = (operand(c, x, want) for x in e.args)
    layout, dtype = broadcast_layout(a.layout, b.layout), promoted(a.dtype, b.dtype)
    called = e.op if e.kind == "int" else f"float_{e.op}"
    quotient = helper(called, a, b, layout=layout, dtype=dtype)
    is_position = e.op == "mod" and e.args[1].op == "extent" and c.order(e.axes)
    return to(quotient, c.names.offset) if is_position else quotient


def _uniform(c: Context, e: P.Expr, want: Layout) -> Expr:
    bits = full(number(counter_rng.START), (), UINT32)
    for a in e.args:
        x = value(c, a, want)
        x = x if c.order(a.axes) else cast(x, INT32)
        layout = broadcast_layout(bits.layout, x.layout)
        bits = helper("next_bits", bits, x, layout=layout, dtype=UINT32)
    # The first bits stay where they are: float32 holds them exactly.
    first = to(infix("&", bits, number(counter_rng.TOP)), FLOAT32)
    return infix("*", first, number(1 / _RANGE, "float"))


def _reduce(c: Context, e: P.Expr, purpose: str = "") -> Expr:
    monoid, axis = e.attr
    operand = e.args[0]
    layout = c.layout(operand)
    x, dim = whole(value(c, operand, layout), layout), layout.index(axis)
    combine = _COMBINE.get(monoid)
    if c.meaning(operand) in c.choices.short:
        return masks.folded(c, operand.attr, reduced(x, monoid, dim))
    if combine is None or (combine != "multiply" and (e.kind != "float" or purpose)):
        return reduced(x, monoid, dim)
    return reduced(x, combine, dim, "helper")


def _contraction(c: Context, e: P.Expr) -> Expr:
    """Return a product of two tiles on the matrix units, or by broadcasting where it is none."""
    product = c.choices.products.get(e)
    if product is not None:
        left, right = (
            products.side(c, product, n, whole(tile(c, x, want), want))
            for n, (x, want) in enumerate(products.sides(c, e, product))
        )
        initial = tile(c, e.args[2]) if len(e.args) > 2 else None
        return products.dot(c, product, left, right, initial)
    layout = c.order(e.args[0].axes | e.args[1].axes)
    operand = value if has_float(e) else wide
    a, b = (operand(c, x, layout) for x in e.args[:2])
    total = reduced(whole(chained("*", a, b), layout), "sum", layout.index(e.attr))
    return infix("+", tile(c, e.args[2]), total) if len(e.args) > 2 else total


def _compares_numbers(e: P.Expr) -> bool:
    return e.op == "compare" and all(a.op == "number" for a in e.args)


def _is_never_zero(e: P.Expr) -> bool:
    """True if a divisor is a sum or product of positive numbers and extents. Nothing is computed
    for an extent 0."""
    if e.op == "number":
        return bool(e.attr > 0)
    positive = ("add", "mul", "maximum", "minimum")
    return e.op == "extent" or (e.op in positive and all(map(_is_never_zero, e.args)))
