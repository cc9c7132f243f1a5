"""Folds without elements: where they are 0, quotients by them are 0, and a product says so."""

from __future__ import annotations

from collections.abc import Iterable

from monocomp.terms.binding import open_as
from monocomp.terms.constructors import construct
from monocomp.terms.facts import is_positive
from monocomp.terms.leaves import TRUE, const
from monocomp.terms.logic import conjuncts
from monocomp.terms.nodes import Term
from monocomp.terms.parts import factors


def may_be_empty(t: Term) -> bool:
    """Is t 0 where a fold has no element, so that t / t is 0 there and not 1?

    A filter leaves rows without elements, and so do weights that are all exp(-inf).
    """
    match t.op:
        case "stored":
            return may_be_empty(t.attr.body)
        case "cast" | "field":
            return may_be_empty(t.args[0])
        case "fold":
            if t.attr.name not in ("sum", "SE"):
                return False
            weighted = any(f.op == "exp" or may_be_empty(f) for f in factors(t.args[1:2]))
            return t.args[0] is not TRUE or weighted or t.attr.name == "SE"
        case "add":
            return all(map(may_be_empty, t.args))
        case "mul":
            return any(map(may_be_empty, t.args))
        case "pow":
            return t.attr > 0 and may_be_empty(t.args[0])
    return False


def is_there(t: Term) -> Term:
    """t != 0, for a t that may be empty: the bracket [t != 0] is what t / t is."""
    return construct("compare", const(0, t.kind), t, attr="<" if is_positive(t) else "!=")


def is_said(condition: Term, sums: Iterable[Term]) -> bool:
    """Is the condition 0 < z for a sum z without which one of the sums is 0, too?"""
    if condition.op != "compare" or condition.args[0] is not const(0, condition.args[1].kind):
        return False
    return any(_vanishes_with(t, condition.args[1]) for t in sums)


def _vanishes_with(t: Term, z: Term) -> bool:
    """Is t 0 wherever z is: a sum over the domain of z or part of it, of multiples of z's
    positive elements?"""
    (t, *v), (z, *w) = ((*x.args, x.attr) if x.op == "field" else (x,) for x in (t, z))
    if not (t.op == z.op == "fold") or v != w or t.attr.extents != z.attr.extents:
        return False
    if t.attr.monoid != z.attr.monoid or t.attr.name not in ("sum", "SE") or v == ["m"]:
        return False
    names = [f"@{n}" for n in range(len(t.attr.indices))]
    _, (within, x, *exponent) = open_as(t, names)
    _, (domain, y, *other) = open_as(z, names)
    if exponent != other or not set(conjuncts(domain)) <= set(conjuncts(within)):
        return False
    return is_positive(y) and _vanishing(y) <= _vanishing(x)


def _vanishing(t: Term) -> set[Term]:
    """What makes a product 0 where it is 0: sums that may be empty, and addends of an exponent
    that are -inf."""
    found = {f for f in factors([t]) if may_be_empty(f)}
    for f in factors([t]):
        if f.op == "exp":
            found |= set(f.args[0].args if f.args[0].op == "add" else f.args)
    return found
