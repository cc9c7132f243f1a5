"""Conjunctions and disjunctions, flat, each operand once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from monocomp.terms.constructors import CONSTRUCTORS
from monocomp.terms.leaves import FALSE, TRUE, is_computed
from monocomp.terms.nodes import Term, intern


def conjunction(*terms: Term) -> Term:
    """Return the conjunction."""
    return _logic("and", TRUE, FALSE, terms)


def disjunction(*terms: Term) -> Term:
    """Return the disjunction."""
    return _logic("or", FALSE, TRUE, terms)


def _logic(op: str, unit: Term, zero: Term, terms: Iterable[Term]) -> Term:
    parts: dict[Term, None] = {}
    for t in terms:
        for part in t.args if t.op == op else (t,):
            parts[part] = None
    if zero in parts:
        return zero
    parts.pop(unit, None)
    # Conditions are decided from left to right, and may guard a read further right.
    ordered = sorted(parts, key=lambda t: (_depth_of_reads(t), t.key))
    if not ordered:
        return unit
    return ordered[0] if len(ordered) == 1 else intern(op, tuple(ordered), None, "bool")


@lru_cache(maxsize=16384)
def _depth_of_reads(t: Term) -> int:
    """Count the computed subscripts that stand in one another; they may leave their tensor."""
    inside = max(map(_depth_of_reads, t.args), default=0)
    return inside + is_computed(t)


def conjuncts(t: Term) -> tuple[Term, ...]:
    """Return the parts of a condition that must all hold."""
    if t is TRUE:
        return ()
    return t.args if t.op == "and" else (t,)


def equal_ints(condition: Term) -> Iterator[tuple[Term, Term]]:
    """Yield the pairs of ints that a condition equates, either way round. Equal floats may be 0
    and -0."""
    for c in conjuncts(condition):
        if c.op == "compare" and c.attr == "==" and c.args[0].kind == "int":
            yield c.args[0], c.args[1]
            yield c.args[1], c.args[0]


CONSTRUCTORS.update(
    {
        "and": lambda args, attr, kind: conjunction(*args),
        "or": lambda args, attr, kind: disjunction(*args),
    }
)
