"""Sums that multiply the same columns become one.

The gradient of a layer's weights is one product of matrices, though its parts have filters and
factors of their own:

    dW[v,d] = sum[t](X[t,d] * P[t,v]) * c - sum[t if v == label[t]](X[t,d] * g[t])
            = sum[t](X[t,d] * (P[t,v] * c - where(v == label[t], g[t], 0)))

Each sum is a product of its own else, and an accumulator. An element that no filter admits stays
out, and what stands before a sum is finite where what is read is and an element is admitted. One
row of what a sum multiplies is a sum of one element:

    dX[t,d] = sum[v](W[v,d] * P[t,v]) * g[t] - W[label[t],d] * g[t]
            = sum[v](W[v,d] * (P[t,v] * g[t] - where(v == label[t], g[t], 0)))

A loop asks a filter which blocks it may leave out. One that draws a random number for each element
leaves none out, and sums that have no such filter would need a loop of their own. So such a filter
chooses elements:

    dV[k,e] = sum[q if r <= uniform(seed, q, k)](P[q,k] * dO[q,e]) / (1 - r)
            = sum[q](dO[q,e] * where(r <= uniform(seed, q, k), P[q,k] / (1 - r), 0))

What stands before that sum comes in: where no element is admitted it may be infinite, and stays
out. But a factor that may be 0 stays where it is: 0 times a sum is 0 even if the filter is
unspecified.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from monocomp import terms as T
from monocomp.declarations.record import record
from monocomp.planning.naming import Change
from monocomp.rewrites.single_folds import is_fold
from monocomp.rewriting.driver import Step
from monocomp.rewriting.rules import stated
from monocomp.terms import Term
from monocomp.terms.domain import REALS_ARE_READ, domain
from monocomp.terms.equations import Equation, Equations
from monocomp.terms.monomials import addends, content, factors


@stated
def join_sums(program: Equations) -> Iterator[Step]:
    """Yield steps after which the sums of an equation that multiply the same columns are one, and
    none is filtered by random numbers of its elements.

    Law:     `c * sum[k if d](x * y) + sum[k](x * z) = sum[k](x * (where(d, c * y, 0) + z))`
    Claims:  distributivity, interchange, units, one point
    Needs:   what stands before a sum is finite if what it reads is, where an element is admitted;
             columns are finite, as in any product of tiles that is filtered
    """
    for name in [e.name for e in program.computed]:
        while (new := _joined(program.by_name[name])) is not None:
            e = program.by_name[name]
            check = partial(_gives, e, new)
            step = Change(program).step("join_sums", e, e.body, new, check=check)
            yield step
            program = step.program


def _gives(e: Equation, body: Term) -> bool:
    return _joined(e) is body


@record()
class _Sum:
    """An addend that is a sum: its condition, and the factors of its elements, among them those
    that stand before it."""

    addend: Term
    bound: Term
    condition: Term
    parts: tuple[Term, ...]

    @property
    def is_product(self) -> bool:
        """True if several factors vary with the index."""
        return sum(self.bound.name in f.free for f in self.parts) > 1

    @property
    def columns(self) -> frozenset[Term]:
        """Return the factors that are read, with an index that nothing else of the elements has."""
        return frozenset(
            f
            for f in self.parts
            if T.is_read(f)
            and self.bound.name in f.free
            and not f.free <= frozenset().union(*(g.free for g in self.parts if g is not f))
        )

    @property
    def random(self) -> list[Term]:
        """Return the conditions that draw a random number for each element."""
        name = self.bound.name

        def is_drawn(t: Term) -> bool:
            return t.op == "uniform" and name in t.free

        return [c for c in T.conjuncts(self.condition) if any(map(is_drawn, T.subterms(c)))]

    def rest(self, common: frozenset[Term], known: Term = T.TRUE) -> Term:
        """Return the elements without some factors, and 0 where the condition does not hold, of
        which some is known to."""
        left = list(self.parts)
        for f in common:
            left.remove(f)
        asked = (c for c in T.conjuncts(self.condition) if c not in T.conjuncts(known))
        return T.where(T.conjunction(*asked), T.mul(T.ONE, *left), T.ZERO)


def _joined(e: Equation) -> Term | None:
    """Return the body with sums joined, if two can be."""
    parts = _addends_of(e.body)
    filtered = [s for a in parts if (s := _sum_of(a)) is not None]  # with columns
    others = [a for a in parts if a not in [s.addend for s in filtered]]
    sums = [*filtered, *(row for a in others if (row := _row(a, filtered)) is not None)]
    for n, one in enumerate(sums):
        for common in dict.fromkeys(s.columns & one.columns for s in sums[n + 1 :]):
            joined = [s for s in sums if common <= s.columns]
            if common:
                others = [a for a in parts if a not in [s.addend for s in joined]]
                return T.add(_total(joined, common), *others)
    chosen = next((s for s in filtered if s.random), None)
    if chosen is None:
        return None
    return T.add(_with_chosen_elements(chosen), *(a for a in parts if a is not chosen.addend))


def _with_chosen_elements(s: _Sum) -> Term:
    """Return a sum that chooses its elements where its filter draws random numbers."""
    columns = frozenset(f for f in s.columns if not f.free <= s.condition.free)
    outside = [f for f in s.parts if s.bound.name not in f.free and _may_be_zero(f)]
    inside = tuple(f for f in s.parts if f not in outside)
    others = T.conjunction(*(c for c in T.conjuncts(s.condition) if c not in s.random))
    chosen = replace(s, condition=T.conjunction(*s.random), parts=inside).rest(columns)
    return T.mul(*outside, T.fold("sum", (s.bound,), others, T.mul(T.ONE, *columns, chosen)))


def _may_be_zero(factor: Term) -> bool:
    """True if a factor may be 0: an inverse is unspecified there."""
    return T.base_and_power(factor)[1] > 0 and domain(factor).zero


def _addends_of(t: Term) -> Sequence[Term]:
    """Return the addends of a sum, or of one that is multiplied by what is finite."""
    sums = [f for f in factors(t) if f.op == "add"]
    others = [f for f in factors(t) if f not in sums]
    if len(sums) == 1 and all(map(T.is_finite_if_read, others)):
        return [T.mul(a, *others) for a in addends(sums[0])]
    return addends(t)


def _total(sums: Sequence[_Sum], common: frozenset[Term]) -> Term:
    condition = T.disjunction(*(s.condition for s in sums))
    element = T.mul(*common, T.add(*(s.rest(common, condition) for s in sums)))
    return T.fold("sum", (sums[0].bound,), condition, element)


def _sum_of(addend: Term) -> _Sum | None:
    """Return an addend as a sum, if it is one with columns, times what is finite and known before:
    a sum waits for what is aggregated along its own index."""
    for f in factors(addend):
        if is_fold(f, "sum") and f.kind == "float":
            others = [g for g in factors(addend) if g is not f]
            # The same name for all: equal columns are one term.
            (bound,), (condition, element) = T.open_as(f, (f"${f.attr.extents[0]}",))
            split_sum = _Sum(addend, bound, condition, (*others, *_separated(element)))
            is_known = all(g.folded.isdisjoint(f.attr.extents) for g in others)
            is_finite = all(_is_finite(g, T.conjuncts(condition)) for g in others)
            if split_sum.columns and is_known and is_finite:
                return split_sum
    return None


def _is_finite(f: Term, conditions: Iterable[Term]) -> bool:
    """True if a factor is finite where conditions hold, if what it reads is."""
    return domain(f, REALS_ARE_READ, frozenset(conditions)).is_real


def _row(addend: Term, sums: Sequence[_Sum]) -> _Sum | None:
    """Take an addend for a sum of one element, where it has a row of what one of the sums
    multiplies by something else."""
    conditions: list[Term] = []
    parts: list[Term] = []
    for f in factors(addend):
        condition, value = _split_condition(f)
        conditions += T.conjuncts(condition)
        parts += factors(value)
    for column, bound in ((c, s.bound) for s in sums for c in s.columns if s.is_product):
        for f in parts:
            position = _position_of_row(f, column, bound)
            others = [g for g in parts if g is not f]
            if position is not None and all(map(T.is_finite_if_read, others)):
                in_range = T.conjuncts(T.in_range(position, bound.extent))
                asked = (c for c in conditions if c not in in_range)
                admitted = T.conjunction(T.compare("==", bound, position), *asked)
                return _Sum(addend, bound, admitted, (*others, column))
    return None


def _split_condition(f: Term) -> tuple[Term, Term]:
    """Return a condition without which a factor is 0, and the factor where it holds."""
    if T.is_bracket(f):
        return f.args[0], T.ONE
    is_choice = f.op == "where" and f.args[2] is T.ZERO
    return (f.args[0], f.args[1]) if is_choice else (T.TRUE, f)


def _position_of_row(f: Term, column: Term, bound: Term) -> Term | None:
    """Return the position of an index in a read that is like another except for it."""
    if f.op != column.op or f.op not in T.READS or f.attr != column.attr:
        return None
    position = f.args[column.args.index(bound)] if bound in column.args else None
    if position is None or T.substitute(column, {bound.name: position}) is not f:
        return None
    return position


def _separated(element: Term) -> Iterator[Term]:
    """Yield the factors of an element, with those that all addends of one have."""
    for f in factors(element):
        common, rest = content(f)
        yield from (c for c in (*factors(common), rest) if c is not T.ONE)
