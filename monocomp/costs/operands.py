"""Operands of products of matrices that are computed, and those that are stored.

    dX[t,d] = sum[v](W[v,d] * (exp(S[t,v] - L[t]) - where(v == label[t], 1, 0)))

Where what stands beside W is stored, this is a plain product of matrices. Nothing but products
reads it then, which take it in the dtype of what they multiply it with, as eager torch does between
two products: so it is stored in that dtype, in half the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from monocomp import terms as T
from monocomp.rewrites.products import apart, is_product, largest_sides
from monocomp.rewrites.single_folds import is_fold, opened_sum
from monocomp.terms import Term
from monocomp.terms.equations import Equation, Equations
from monocomp.terms.monomials import factors


class Operand(NamedTuple):
    """A computed operand of a product of matrices, and the number that it is scaled by."""

    value: Term
    number: Term


def computed_operands(bound: Term, condition: Term, element: Term) -> dict[Term, Operand]:
    """Return the operands of products of matrices that are computed, by what is summed of each.

    P[q,k] * (dO[q,e] + Q[q,e] * D[q,k]) is two products, and both P and P * D are computed. What a
    filter leaves out is read by none: it is 0.

    Args:
        bound: the index that is summed over.
        condition: which elements are summed.
        element: what is summed.
    """
    operands = {}
    for product in apart(element, bound.name):
        if own := _computed_side(bound, product):
            value = T.mul(*(f for f in own if not is_number(f)))
            if condition.free <= value.free:  # its own indices tell what is left out
                value = T.where(condition, value, T.ZERO)
            operands[product] = Operand(value, T.mul(T.ONE, *filter(is_number, own)))
    return operands


def with_operand(fold: Term, stored: Operand, read: Term) -> Term:
    """Return a sum that reads an operand, which is stored as this multiple."""
    (bound,), (condition, element) = T.open_fold(fold)
    operands = computed_operands(bound, condition, element)
    parts, outside = [], T.ONE
    for product in apart(element, bound.name):
        operand = operands.get(product)
        if operand is not None and operand.value is stored.value:
            own = _computed_side(bound, product)
            others = [f for f in factors(product) if f not in own]
            number = T.mul(operand.number, T.power_of(stored.number, -1))
            if product is element:
                number, outside = T.ONE, number
            product = T.mul(number, *others, read)
        parts.append(product)
    return T.mul(outside, T.fold("sum", (bound,), condition, T.add(T.ZERO, *parts)))


def is_number(t: Term) -> bool:
    """True if a term is a number, such as a root of one. Constants go with the other side."""
    return all(s.op in ("const", "pow") for s in T.subterms(t))


def _computed_side(bound: Term, element: Term) -> tuple[Term, ...]:
    """Return the factors of one side of a product of matrices that hold sums, or go with such;
    none if the other side is computed too, or if a sum alone is one side."""
    name = bound.name
    parts = [f for f in factors(element) if f.op != "const"]
    sides = largest_sides([f.free for f in parts], name)
    if sides is None:
        return ()
    for side in sides:
        own = tuple(f for f in parts if f.free - {name} <= side)
        others = [f for f in parts if f not in own]
        is_plain = all(map(T.is_read, others)) and not (len(own) == 1 and own[0].op == "fold")
        if is_plain and any(map(_holds_sum, own)):
            return own
    return ()


def _holds_sum(t: Term) -> bool:
    """True if a term holds a fold, or a stored value that is given with a definition that does."""
    return T.holds_fold(t) or any(T.holds_fold(g.body) for g in _given_in(t))


def _given_in(t: Term) -> Iterator[Equation]:
    return (s.attr for s in T.subterms(t) if s.op == "stored" and s.attr.given)


def stored_operands(program: Equations) -> frozenset[str]:
    """Return the names of values that are stored for products of matrices alone, and are
    computed from one, and of definitions that are kept for products. What a product itself has
    summed up stays as it is: it may be all there is of a sequence."""
    outputs = {o.name for o in program.outputs}
    added = frozenset() if program.slices is None else program.slices.added
    floats = [e for e in program.computed if e.body.kind == "float"]
    stored = {e.name: e for e in floats if e.name not in outputs | added}
    names = {n for n, e in stored.items() if _is_from_product(e.body)}
    for e in program.computed:
        names -= _read_elsewhere(e.body)
    names &= {n for e in program.computed for n in program.read_by(e)}
    kept = (program.kept or frozenset()) & stored.keys()
    return frozenset(names.union(*(_sides_stored(e.body) & kept for e in program.computed)))


@lru_cache(maxsize=4096)
def _sides_stored(body: Term) -> frozenset[str]:
    """Return the stored values that products of matrices in a body multiply."""
    sides = (f for t in T.subterms(body) if _is_product(t) for f in factors(T.open_fold(t)[1][1]))
    return frozenset(f.attr.name for f in sides if f.op == "stored")


@lru_cache(maxsize=4096)  # programs that are compared have most equations in common
def _read_elsewhere(body: Term) -> frozenset[str]:
    """Return the stored values that a body reads other than as a side of a product."""
    names = set[str]()
    waiting, seen = [body], set[Term]()
    while waiting:
        t = waiting.pop()
        if t in seen:
            continue
        seen.add(t)
        if t.op == "stored":
            names.add(t.attr.name)
        elif is_fold(t, "sum"):
            (bound,), parts = T.open_fold(t)
            waiting.append(parts[0])
            for product in apart(parts[1], bound.name):
                sides = _plain_sides(bound, product)
                waiting += (f for f in factors(product) if f not in sides)
        else:
            waiting += t.args
    return frozenset(names)


def _plain_sides(bound: Term, element: Term) -> tuple[Term, ...]:
    """Return the factors of a product of matrices, if there are two, and both are read."""
    parts = [f for f in factors(element) if f.op != "const"]
    is_plain = is_product(element, bound.name) and len(parts) == 2 and all(map(T.is_read, parts))
    return tuple(parts) if is_plain else ()


@lru_cache(maxsize=4096)
def _is_from_product(t: Term) -> bool:
    """True if a term is computed from elements of a product of matrices, or from what is given for
    one, and no factor of it is such a product."""
    bodies = (t, *(g.body for g in _given_in(t)))
    has_product = any(map(_is_product, factors(t)))
    return not has_product and any(_is_product(s) for body in bodies for s in T.subterms(body))


def _is_product(t: Term) -> bool:
    opened = opened_sum(t)
    return opened is not None and is_product(opened[2], opened[0].name)
