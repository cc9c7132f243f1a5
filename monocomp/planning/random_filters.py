"""Filters by random numbers choose elements, not blocks.

A loop asks a filter which blocks it may leave out. One that draws a random number for each element
leaves none out, and sums that have no such filter would need a loop of their own:

    dV[k,e] = sum[q if r <= uniform(seed, q, k)](P[q,k] * dO[q,e]) / (1 - r)
            = sum[q](dO[q,e] * where(r <= uniform(seed, q, k), P[q,k] / (1 - r), 0))

What stands before a sum comes in: where no element is admitted it may be infinite, and stays out.
But a factor that may be 0 stays where it is: 0 times a sum is 0 even if the filter is unspecified.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from monocomp import terms as T
from monocomp.planning.joined_sums import addends_of, rewritten, sum_of
from monocomp.rewriting.driver import Step
from monocomp.rewriting.rules import stated
from monocomp.terms import Term
from monocomp.terms.domain import domain
from monocomp.terms.equations import Equation, Equations


@stated
def choose_elements(program: Equations) -> Iterator[Step]:
    """Yield steps after which no sum over columns is filtered by random numbers of its elements.

    Law:     `c * sum[k if d](x * y) = sum[k](x * where(d, c * y, 0))`
    Claims:  distributivity, units
    Needs:   c is not 0 where it is specified, as then d may be unspecified;
             what stands before a sum is finite if what it reads is, where an element is admitted;
             columns are finite, as in any product of tiles that is filtered
    """
    yield from rewritten("choose_elements", program, _chosen)


def _chosen(e: Equation) -> Term | None:
    """Return the body with a sum whose elements are chosen one by one, if one has such a filter."""
    parts = addends_of(e.body)
    for a in parts:
        s = sum_of(a)
        random = [] if s is None else [c for c in T.conjuncts(s.condition) if _draws(c, s.bound)]
        if s is not None and random:
            others = T.conjunction(*(c for c in T.conjuncts(s.condition) if c not in random))
            columns = frozenset(f for f in s.columns if not f.free <= s.condition.free)
            outside = [f for f in s.parts if s.bound.name not in f.free and _may_be_zero(f)]
            inside = tuple(f for f in s.parts if f not in outside)
            chosen = replace(s, condition=T.conjunction(*random), parts=inside).rest(columns)
            total = T.fold("sum", (s.bound,), others, T.mul(T.ONE, *columns, chosen))
            return T.add(T.mul(*outside, total), *(other for other in parts if other is not a))
    return None


def _may_be_zero(factor: Term) -> bool:
    """True if a factor may be 0: an inverse is unspecified there."""
    return T.base_and_power(factor)[1] > 0 and domain(factor).zero


def _draws(condition: Term, bound: Term) -> bool:
    """True if a condition draws a random number for each element."""
    drawn = (t for t in T.subterms(condition) if t.op == "uniform")
    return any(bound.name in t.free for t in drawn)
