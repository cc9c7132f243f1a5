"""Expressions: what is built of tiles, whatever terms they are the values of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from monocomp.terms.algebra import LEAST_INT
from monocomp.tile import Axis, Expr, apply, number

_LONG = 32  # operands of a condition that stand in one row


def same(a: Expr, b: Expr) -> bool:
    """True if the expressions are equal, part by part."""
    if a is b:
        return True
    return (
        a.op == b.op
        and a.attr == b.attr
        and a.kind == b.kind
        and len(a.args) == len(b.args)
        and all(map(same, a.args, b.args))
    )


def where_equal(value: Expr, special: float, result: float, otherwise: Expr) -> Expr:
    """Return the result where the value is a special one."""
    is_special = apply("compare", value, number(special, value.kind), attr="==")
    return choose(is_special, number(result, otherwise.kind), otherwise)


def choose(condition: Expr, value: Expr, otherwise: Expr) -> Expr:
    """Return the value where the condition holds. Of choices that vary along fewer axes than what
    is left one is made for all of them: elements of a row choose once.

    where(a, x, where(b, y, z)) = where(a or b, where(a, x, y), z)
    """
    if otherwise.op == "where":
        second, other, rest = otherwise.args
        if same(condition, second):
            return apply("where", condition, value, rest)
        if (condition.axes | value.axes | second.axes | other.axes) < rest.axes:
            is_one = same(value, other)
            one_of_both = value if is_one else apply("where", condition, value, other)
            return apply("where", apply("or", condition, second), one_of_both, rest)
    return apply("where", condition, value, otherwise)


def whole(value: Expr) -> Expr:
    """Return a float as an int, rounded towards 0; what is no int64 is the least one."""
    bound = -float(LEAST_INT)
    fits = apply("compare", apply("abs", value), number(bound), attr="<")
    return apply("cast", apply("where", fits, value, number(-bound)), attr="int")


def divide(over: Expr, divisor: Expr) -> Expr:
    """Return a quotient; that of a number by 0 is done here, as compilers of kernels refuse it."""
    if divisor.op == over.op == "number" and divisor.attr == 0 and over.attr != 0:
        return number(math.copysign(math.inf, over.attr))
    return apply("div", over, divisor)


def plus(total: Expr | None, value: Expr, negative: bool) -> Expr:
    """total + value or total - value."""
    if total is None:
        return apply("neg", value) if negative else value
    if total.op == "neg" and not negative:
        return apply("sub", value, total.args[0])
    return apply("sub" if negative else "add", total, value)


def chain(op: str, operands: Sequence[Expr]) -> Expr:
    """op(op(a, b), c) and so on; of one operand op(a)."""
    if len(operands) == 1:
        return apply(op, operands[0])
    if len(operands) > _LONG:  # nobody recurses as deep as a condition may be long
        middle = len(operands) // 2
        halves = (chain(op, part) for part in (operands[:middle], operands[middle:]))
        return apply(op, *halves)
    total = operands[0]
    for o in operands[1:]:
        total = apply(op, total, o)
    return total


def contract(axis: Axis, left: Expr, right: Expr, *initial: Expr) -> Expr:
    """Return the sum over an axis of left * right, added to what there is."""
    return apply("contract", left, right, *initial, attr=axis.name)


def masked(value: Expr, axis: str, unit: float, along: Iterable[str]) -> Expr:
    """Return the value, and the unit outside of the domain, which varies along some axes."""
    return apply("masked", value, attr=(axis, number(unit, value.kind).attr), along=along)


def reduce(monoid: str, axis: Axis, value: Expr) -> Expr:
    """Return the fold of a tile along an axis; a value that lacks it is one element."""
    if axis.name not in value.axes:
        return value
    return apply("reduce", value, attr=(monoid, axis.name))


def general_power(b: Expr, e: Expr) -> Expr:
    """b ** e by logarithms, with the special values of C and IEEE 754: anything to the power 0 and
    1 to any power are 1; a base less than 0, also -0.0, may be taken to whole powers. Those that
    are not whole are roots: that of -inf is no number."""
    one, zero = number(1.0), number(0.0)

    def is_(x: Expr, sign: str, y: Expr) -> Expr:
        return apply("compare", x, y, attr=sign)

    size = apply("abs", b)
    if e.op == "number" and math.isfinite(e.attr) and e.attr % 1:
        return apply("exp2", apply("mul", e, apply("log2", b)))
    half = apply("floor", apply("mul", number(0.5), e))
    is_odd = is_(apply("mul", number(2.0), half), "!=", e)
    is_whole = is_(apply("floor", e), "==", e)
    is_below = is_(apply("where", is_(b, "==", zero), apply("div", one, b), b), "<", zero)
    logarithm = apply("log2", apply("where", is_whole, size, b))
    power = apply("exp2", apply("mul", e, logarithm))
    is_one = apply("and", is_(size, "==", one), is_whole)
    power = apply("where", is_one, one, power)
    is_turned = apply("and", apply("and", is_below, is_odd), is_whole)
    power = apply("where", is_turned, apply("neg", power), power)
    is_one = apply("or", is_(e, "==", zero), is_(b, "==", one))
    return apply("where", is_one, one, power)
