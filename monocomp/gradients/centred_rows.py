"""Sums over rows of adjoints that sum to 0, as those of a softmax's logits do.

    G[q,k] = P[q,k] * (dP[q,k] - sum[e](O[q,e] * dO[q,e]))          sums to 0 over k
    D[q] = sum[k](G[q,k] * u[q,k]) - sum[k](G[q,k]) * sum[k](P[q,k] * u[q,k])

O is rounded to the dtype of results, and so G is off by a multiple of P. A distance u multiplies
that by its mean, which grows with the length of rows; about the mean nothing is left of it. What is
made of inputs stays as it is: it has about the same size everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import replace

from monocomp import terms as T
from monocomp.gradients.reverse import POSITIONS, Fresh, Node
from monocomp.rewrites.centred import Weights
from monocomp.terms import Term
from monocomp.terms.monomials import addends, factors


def about_means(
    adjoint: Term,
    node: Node,
    fresh: Fresh,
    named: Callable[[Term], Term],
    written_out: Callable[[Term], Term],
) -> tuple[Term, Node]:
    """Sum such rows, with what multiplies them about its mean, where a target lacks their index.

    Args:
        adjoint: the adjoint of an element of a tensor, or of a number, wherever it is read.
        node: that, and where it is looked at.
        fresh: names for the indices of sums.
        named: gives the sums of rows a name, as each is needed once.
        written_out: puts terms in place of the names of adjoints.
    """
    known = frozenset(T.conjuncts(node.condition))
    opened: list[tuple[tuple[Term, ...], Term]] = []
    row = adjoint
    while row.op == "fold" and row.attr.monoid == "sum":
        bound, (filtered, row) = T.open_as(row, fresh(row.attr.extents, row.free))
        opened.append((bound, filtered))
    centred = _about_mean(row, node.term, known, written_out)
    if centred is None:
        return adjoint, node
    name, row = centred
    total = named(row)
    for bound, filtered in reversed(opened):
        total = T.fold("sum", bound, filtered, total)
    conditions = (c for c in known if name not in c.free)
    indices = tuple(i for i in node.indices if i.name != name)
    return total, replace(node, condition=T.conjunction(*conditions), indices=indices)


def _about_mean(
    adjoint: Term, target: Term, known: Set[Term], written_out: Callable[[Term], Term]
) -> tuple[str, Term] | None:
    """Return the index of rows that an adjoint is the elements of, and the sum over it."""
    for weights in _weights(written_out(adjoint), known):
        name = weights.bound.name
        distances = [f for f in factors(adjoint) if name in f.free and _is_of_positions(f)]
        u = T.mul(T.ONE, *distances)
        row = T.mul(*(f for f in factors(adjoint) if f not in distances))
        is_row = name in u.free and name not in target.free and u.free <= weights.weight.free
        if is_row and _sums_to_zero(written_out(row), weights):
            bound, condition, *_ = weights
            products, rows = (T.fold("sum", (bound,), condition, t) for t in (T.mul(row, u), row))
            return name, T.sub(products, T.mul(rows, weights.mean(u)))
    return None


def _is_of_positions(t: Term) -> bool:
    return all(s.op in POSITIONS for s in T.subterms(t))


def _weights(adjoint: Term, known: Set[Term]) -> Iterator[Weights]:
    """Yield the exponentials of which an adjoint holds the sum over all elements that are looked
    at."""
    sums = [t for t in T.subterms(adjoint) if t.op == "fold" and t.attr.monoid == "sum"]
    for weight in factors(adjoint):
        for total in sums if weight.op == "exp" else ():
            for name in sorted(weight.free) if len(total.attr.indices) == 1 else ():
                (bound,), (filtered, body) = T.open_as(total, (name,))
                own = {c for c in known if name in c.free}
                if body is weight and own == {*T.conjuncts(filtered)} - {T.TRUE}:
                    yield Weights(bound, filtered, weight)


def _sums_to_zero(row: Term, weights: Weights) -> bool:
    """True if sum[k](w * (a - c)) is sum[k](w * a) - c * sum[k](w) = 0."""
    name, total = weights.bound.name, weights.sum(T.ONE)
    sums = [f for f in factors(row) if f.op == "add" and T.holds(f, total)]
    others = (f for f in factors(row) if f is not weights.weight and f not in sums)
    if len(sums) != 1 or any(name in f.free for f in others):
        return False
    parts = (weights.sum(a) if name in a.free else T.mul(total, a) for a in addends(sums[0]))
    return T.add(T.ZERO, *map(_flat, parts)) is T.ZERO


def _flat(t: Term) -> Term:
    """Write a product of sums as one sum over all their indices."""
    bounds: list[Term] = []
    conditions: list[Term] = []
    parts: list[Term] = []
    left = list(factors(t))
    while left:
        f = left.pop()
        if f.op == "fold" and f.attr.monoid == "sum":
            names = [f"@{len(bounds) + n}" for n in range(len(f.attr.indices))]
            opened, (condition, body) = T.open_as(f, names)
            bounds += opened
            conditions.append(condition)
            left += factors(body)
        else:
            parts.append(f)
    opened_names = {b.name for b in bounds}
    fixed = [f for f in parts if opened_names.isdisjoint(f.free)]
    moving = T.mul(T.ONE, *(f for f in parts if f not in fixed))
    bounds.sort(key=lambda b: b.extent)
    total = T.fold("sum", tuple(bounds), T.conjunction(*conditions), moving) if bounds else moving
    return T.mul(total, *fixed)
