"""The operations of one term, those that a fold does to join one element, and what it carries."""

from __future__ import annotations

from collections.abc import Sequence

from monocomp import terms as T
from monocomp.costs.cost import (
    ELEMENTWISE,
    LOGIC,
    NO_OPERATION,
    SPECIAL_FUNCTION,
    Operations,
    one_operation,
)
from monocomp.terms import Term
from monocomp.terms.algebra import SE_PAIR, is_selection

MULTIPLY_ADD = Operations(matrix=2)
WEIGHT = ELEMENTWISE + SPECIAL_FUNCTION  # exp(s - m) for each element; exp(m - m') is once a block
FREE = ("const", "index", "param", "extent", "read", "stored", "ref", "cast", "field")


def operations_to_join(fold: Term, elements: Sequence[Term]) -> Operations:
    """Count what joins one element."""
    monoid = fold.attr.monoid
    if monoid is SE_PAIR:  # weigh the value, add; the sum is moved once a block
        return ELEMENTWISE * (1 + (elements[0] is not T.ONE))
    if isinstance(monoid, T.UserMonoid):
        return sum(map(operations_of, T.subterms(*monoid.combine)), NO_OPERATION)
    return one_operation("add", fold.kind)


def operations_of(t: Term) -> Operations:
    """Count what a term does with its operands' values."""
    if t.op in FREE:
        return NO_OPERATION
    if t.kind != "float":
        return LOGIC * max(1, len(t.args) - 1)
    if t.op in ("add", "mul"):
        factors = [a for a in t.args if not (a.op == "const" and a.attr == -1)]
        return ELEMENTWISE * (len(factors) - 1)
    if t.op == "pow":
        size = abs(t.attr)
        if size.denominator == 1 and size <= 8:
            return ELEMENTWISE * (int(size) - 1)
    return one_operation(t.op, t.kind)


def fields(fold: Term) -> tuple[str, ...]:
    """Return the numbers that a fold carries; the exponent of SE is a fold of its own."""
    monoid = fold.attr.monoid
    if is_selection(fold) or monoid in ("argmax", "argmin"):
        return ("value", "position")
    return monoid.fields if isinstance(monoid, T.UserMonoid) and monoid is not SE_PAIR else ("",)
