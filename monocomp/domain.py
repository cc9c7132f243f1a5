"""The domain of a fold: a filter split into bounds on the index and what is left.

A fold over a set of indices that lie in an interval streams just that interval. So every
conjunct that bounds the index, `k < f` or `k >= g` with f and g free of k, becomes a
bound; the rest stays a mask.
"""

from __future__ import annotations

from dataclasses import dataclass

from monocomp import terms as T
from monocomp.terms import Term


@dataclass(frozen=True)
class Domain:
    """{k : lower <= k < upper for all bounds, and mask}. All are terms; k is free in mask only."""

    lower: tuple[Term, ...]
    upper: tuple[Term, ...]
    mask: Term


def split(bound: Term, condition: Term) -> Domain:
    """The domain of `fold[bound if condition]`."""
    lower: list[Term] = []
    upper: list[Term] = []
    rest: list[Term] = []
    for c in T.conjuncts(condition):
        if bound.attr[0] not in c.free:  # all or nothing
            upper.append(T.where(c, T.extent_of(bound.attr[1]), T.const(0)))
        elif not _bounds(bound, c, lower, upper):
            rest.append(c)
    return Domain(tuple(lower), tuple(upper), T.conjunction(*rest))


def _bounds(bound: Term, c: Term, lower: list[Term], upper: list[Term]) -> bool:
    """Add the bound that the comparison c puts on the index, if it puts one."""
    if c.op != "compare" or c.args[0].kind != "int" or c.attr == "!=":
        return False
    difference = T.sub(c.args[1], c.args[0])  # 0 < d, 0 <= d or 0 == d
    name = bound.attr[0]
    addends = difference.args if difference.op == "add" else (difference,)
    sign, rest = 0, []
    for a in addends:
        if name not in a.free:
            rest.append(a)
            continue
        number, base = T.split_coefficient(a)
        if base is not bound or number not in (1, -1):
            return False
        sign = int(number)
    others = T.add(T.const(0), *rest)
    if c.attr == "==":
        place = T.neg(others) if sign > 0 else others
        lower.append(place)
        upper.append(T.add(place, T.const(1)))
    elif sign > 0:  # k + others > 0, or >= 0
        lower.append(T.add(T.neg(others), T.const(1 if c.attr == "<" else 0)))
    else:  # others - k > 0, or >= 0
        upper.append(T.add(others, T.const(0 if c.attr == "<" else 1)))
    return True
