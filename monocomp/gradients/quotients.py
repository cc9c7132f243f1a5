"""Quotients that are read: over nothing they are 0, and so is a product with one.

O[q,e] = A[q,e] / Z[q]                    is saved; A is read as O * Z, and then
[Z[q] != 0] * sum[e](O[q,e] * dO[q,e])    is sum[e](O[q,e] * dO[q,e])
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from monocomp import terms as T
from monocomp.terms import Term
from monocomp.terms.equations import Equation
from monocomp.terms.monomials import factors


@dataclass(frozen=True)
class Quotient:
    """A value that is read, and the conditions without which it is 0."""

    equation: Equation
    there: tuple[Term, ...]


def quotient(e: Equation, divisors: Iterable[Term]) -> Quotient:
    """Return an equation's value that is divided by some terms."""
    return Quotient(e, tuple(c for d in divisors for c in T.conjuncts(T.is_there(d))))


def unguarded(t: Term, quotients: Mapping[str, Quotient]) -> Term:
    """Return a term in which products with quotients do not ask whether their divisors are there.

    The other factors are finite, or divide by the same.
    """

    def is_read(t: Term) -> bool:
        return t.op in ("ref", *T.READS) and T.name_of(t) in quotients

    def vanishing(t: Term) -> Collection[Term]:
        """Return the conditions without which a term is 0, as a quotient is that it reads."""
        if is_read(t):
            e = quotients[T.name_of(t)].equation
            here = {i.attr[0]: a for i, a in zip(e.indices, t.args, strict=True)}
            return {T.substitute(c, here) for c in quotients[e.name].there}
        if t.op == "fold" and t.attr.monoid == "sum":
            opened, (_, body) = T.open_fold(t)
            bound = {i.attr[0] for i in opened}
            return {c for c in vanishing(body) if c.free.isdisjoint(bound)}
        if t.op == "add":
            return set.intersection(*(set(vanishing(a)) for a in t.args))
        if t.op == "mul":
            return set().union(*map(vanishing, t.args))
        return vanishing(t.args[0]) if t.op == "pow" and t.attr > 0 else ()

    without_values = T.transform(lambda t: T.const(1, "float") if is_read(t) else None)

    def is_safe(f: Term, known: Collection[Term]) -> bool:
        base, power = T.base_and_power(f)
        is_divisor = power < 0 and {*T.conjuncts(T.is_there(base))}.issubset(known)
        return is_divisor or T.is_finite_if_read(without_values(f))

    def visit(t: Term) -> Term:
        t = T.map_children(t, visit)
        known = vanishing(t) if t.op == "mul" and any(map(T.is_bracket, t.args)) else ()
        if not known or not all(is_safe(f, known) for f in t.args if not T.is_bracket(f)):
            return t
        parts = (_without(f, known) if T.is_bracket(f) else f for f in factors(t))
        return T.mul(T.ONE, *parts)

    return visit(t) if quotients else t


def _without(bracket: Term, known: Collection[Term]) -> Term:
    conditions = (c for c in T.conjuncts(bracket.args[0]) if c not in known)
    return T.bracket(T.conjunction(*conditions))
