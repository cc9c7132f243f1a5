"""The operators between two values of block programs, in one table: how they bind, what they are of
numbers, and what constructors fold of them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Operator:
    """A row of the table.

    Attributes:
        sign: its text, and the `op` of an expression.
        value: the function of two numbers.
        binds: operators that bind alike are done from left to right; None if they are not chained.
        unit: x sign unit = x.
        zero: x sign zero = zero.
        commutes: x sign y = y sign x.
        gives: "truth" if the result is a truth value; otherwise it has the dtype of both operands.
    """

    sign: str
    value: Callable[[Any, Any], Any]
    binds: int | None = None
    unit: int | bool | None = None
    zero: int | bool | None = None
    commutes: bool = False
    gives: Literal["truth", "same"] = "same"


def divided(a: int, b: int) -> int:
    """a / b rounded towards 0, as on GPUs."""
    return a // b if (a >= 0) == (b > 0) else -(-a // b)


OPERATORS: dict[str, Operator] = {
    row.sign: row
    for row in (
        Operator("+", operator.add, 1, 0, commutes=True),
        Operator("-", operator.sub, 1, 0),
        Operator("*", operator.mul, 2, 1, 0, commutes=True),
        Operator("/", operator.truediv, 2),
        Operator("//", divided, 2, 1),
        Operator("%", lambda a, b: a - divided(a, b) * b, 2),
        Operator("&", operator.and_, 3, True, False, commutes=True),
        Operator("|", operator.or_, 4, False, True, commutes=True),
        Operator("and", lambda a, b: a and b, 5, True, False, True, "truth"),
        Operator("or", lambda a, b: a or b, 6, False, True, True, "truth"),
        Operator("==", operator.eq, gives="truth"),
        Operator("!=", operator.ne, gives="truth"),
        Operator("<", operator.lt, gives="truth"),
        Operator("<=", operator.le, gives="truth"),
        Operator(">", operator.gt, gives="truth"),
        Operator(">=", operator.ge, gives="truth"),
    )
}


def bind_alike(a: str, b: str) -> bool:
    """True if two operators bind alike: then the left one is done first, without brackets."""
    if a not in OPERATORS or b not in OPERATORS or OPERATORS[a].binds is None:
        return False
    return OPERATORS[a].binds == OPERATORS[b].binds
