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
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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
    """Yield steps after which the sums of an equation that multiply the same columns are one.

    Law:     `c * sum[k](x * y) + sum[k](x * z) = sum[k](x * (c * y + z))`
    Claims:  distributivity, interchange, units, one point
    Needs:   what stands before a sum is finite if what it reads is, where an element is admitted;
             columns are finite, as in any product of tiles that is filtered
    """
    yield from rewritten("join_sums", program, _joined)


def rewritten(
    rule: str, program: Equations, change: Callable[[Equation], Term | None]
) -> Iterator[Step]:
    """Yield the steps of a rule that gives equations other bodies, until it changes none."""
    for name in [e.name for e in program.computed]:
        while (new := change(program.by_name[name])) is not None:
            e = program.by_name[name]
            check = partial(_gives, change, e, new)
            step = Change(program).step(rule, e, e.body, new, check=check)
            yield step
            program = step.program


def _gives(change: Callable[[Equation], Term | None], e: Equation, body: Term) -> bool:
    return change(e) is body


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
    parts = addends_of(e.body)
    sums = [s for a in parts if (s := sum_of(a)) is not None]  # with columns
    others = [a for a in parts if a not in [s.addend for s in sums]]
    sums += [row for a in others if (row := _row(a, sums)) is not None]
    for n, one in enumerate(sums):
        for common in dict.fromkeys(s.columns & one.columns for s in sums[n + 1 :]):
            chosen = [s for s in sums if s.bound is one.bound and common <= s.columns]
            if common and len(chosen) > 1:
                others = [a for a in parts if a not in [s.addend for s in chosen]]
                return T.add(_total(chosen, common), *others)
    return None


def addends_of(t: Term) -> Sequence[Term]:
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


def sum_of(addend: Term) -> _Sum | None:
    """Return an addend as a sum, if it is one with columns, times what is finite and known before:
    a sum waits for what is aggregated along its own index."""
    for f in factors(addend):
        if is_fold(f, "sum") and f.kind == "float" and len(f.attr.indices) == 1:
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
