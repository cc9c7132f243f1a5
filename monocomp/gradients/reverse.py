"""Reverse mode: the adjoints of what equations read, as terms.

The adjoint of a term is the derivative of sum(cotangent * output) with respect to it, for each
value of its free indices. Every term hands its own on to its operands, times the partial
derivative; what an operand does not vary with is summed there, which is what an index is for that
stands on one side alone. The conditions under which a term is looked at stay with it: they become
filters of these sums, so that no guard is escaped. Linear maps have their transposes: a sum's
elements all have the sum's adjoint, and an element that is read at f(i) adds up at the positions i
with f(i) = j. (Griewank and Walther, Evaluating Derivatives, 2008, chapter 3.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from monocomp import terms as T
from monocomp.gradients.folds import Fresh as Fresh
from monocomp.gradients.folds import fold_partials
from monocomp.gradients.partials import Partial, partials
from monocomp.terms import Equation, Term
from monocomp.terms.monomials import factors

LEAVES = ("read", "ref", "stored", "param")
# Of what numbers made of positions are.
POSITIONS = ("const", "index", "extent", "add", "mul", "cast")


@dataclass(frozen=True)
class Node:
    """A term where a condition holds; its adjoint has an element for each value of its indices.

    These are the term's own; of what is read they are all of the position where that is done.
    """

    term: Term
    condition: Term
    indices: tuple[Term, ...]


@dataclass(frozen=True)
class Edge:
    """A term's share in an operand's adjoint: `sum[summed if where](adjoint * factor)`."""

    operand: Node
    factor: Term
    summed: tuple[Term, ...]
    where: Term


class Visit(NamedTuple):
    """A term that is differentiated, and how its adjoint goes on."""

    node: Node
    edges: tuple[Edge, ...]


class IndexNames:
    """Names bound indices: as the program names others of their extents, if that is not taken.
    Folds of one loop get the same, so that what they share is one term.

    Args:
        extent_of: extents by index, in the order in which bound indices get their names.
    """

    def __init__(self, extent_of: Mapping[str, str]) -> None:
        self._names: dict[str, list[str]] = {}
        for index, extent in extent_of.items():
            if index.isidentifier():
                self._names.setdefault(extent, []).append(index)

    def __call__(self, extents: Iterable[str], taken: Iterable[str]) -> tuple[str, ...]:
        used = set(taken)
        free = []
        for extent in extents:
            names = self._names.get(extent) or (extent.lstrip("."),)
            number, name = 1, next((n for n in names if n not in used), names[0])
            while name in used:
                number += 1
                name = f"{names[0]}_{number}"
            used.add(name)
            free.append(name)
        return tuple(free)


@dataclass
class Adjoints:
    """The adjoints of the leaves that equations read: elements of tensors, params.

    Attributes:
        fresh: names bound indices.
        named: gives the adjoint of a term a name where that is worth it; its operands get that.
        visited: what was differentiated, in order, each with an equation that it is part of.
    """

    fresh: Fresh
    named: Callable[[Node, int, Term], Term]
    leaves: dict[Node, list[Term]] = field(default_factory=dict)
    visited: list[tuple[str, Visit]] = field(default_factory=list)

    def add(self, equations: Iterable[tuple[Equation, Term]]) -> None:
        """Go backwards through equations, of whose elements the adjoints are given. What they
        have in common has one adjoint."""
        cotangents: dict[Node, list[Term]] = {}
        ordered: dict[Node, Visit] = {}
        equation_of: dict[Node, str] = {}
        for e, cotangent in equations:
            start = _edge(Partial(e.body, T.ONE), e.indices, T.TRUE)
            cotangents.setdefault(start.operand, []).append(handed_on(start, cotangent))
            self._order(start.operand, ordered)
            equation_of |= {node: e.name for node in ordered if node not in equation_of}
        for node, visit in reversed(ordered.items()):
            adjoint = T.add(T.ZERO, *cotangents.pop(node))
            self.visited.append((equation_of[node], visit))
            if node.term.op in LEAVES:
                self.leaves.setdefault(node, []).append(adjoint)
            else:
                adjoint = self.named(node, len(visit.edges), adjoint)
            for edge in visit.edges:
                cotangents.setdefault(edge.operand, []).append(handed_on(edge, adjoint))

    def _order(self, start: Node, ordered: dict[Node, Visit]) -> None:
        """Add every node that is differentiated, operands before what is made of them."""
        known: dict[Node, tuple[Edge, ...]] = {}
        stack = [(start, False)]
        while stack:
            node, done = stack.pop()
            if done:
                ordered[node] = Visit(node, known[node])
            elif node not in known and node not in ordered:
                known[node] = edges = tuple(self._edges(node))
                stack.append((node, True))
                stack += [(e.operand, False) for e in edges]

    def _edges(self, node: Node) -> Iterator[Edge]:
        t = node.term
        is_fold = t.op in ("fold", "fold_at", "field")
        derivatives = fold_partials(t, self.fresh) if is_fold else (((), p) for p in partials(t))
        for bound, p in derivatives:
            if _varies(p.operand):
                yield _edge(p, (*node.indices, *bound), node.condition)


def _varies(t: Term) -> bool:
    """True if a term is made of anything that may have a gradient."""
    return any(s.op in LEAVES and s.kind == "float" for s in T.subterms(t))


def _edge(p: Partial, scope: Iterable[Term], condition: Term) -> Edge:
    """Return the edge from a term with the indices of `scope` to an operand that may lack some."""
    parts = T.conjuncts(T.conjunction(condition, p.condition))
    indices = tuple(sorted(scope, key=lambda i: i.name))
    if p.operand.op in LEAVES:
        return Edge(Node(p.operand, T.conjunction(*parts), indices), p.factor, (), T.TRUE)
    summed = tuple(i for i in indices if i.name not in p.operand.free)
    gone = {i.name for i in summed}
    inside = [c for c in parts if not gone.isdisjoint(c.free)]
    stays = T.conjunction(*(c for c in parts if c not in inside))
    own = tuple(i for i in indices if i not in summed)
    return Edge(Node(p.operand, stays, own), p.factor, summed, T.conjunction(*inside))


def handed_on(edge: Edge, adjoint: Term) -> Term:
    """Return what the adjoint of a term adds to that of an operand."""
    return _summed(edge.summed, edge.where, T.mul(adjoint, edge.factor))


def _summed(indices: tuple[Term, ...], condition: Term, value: Term) -> Term:
    """Return the sum of a value. It takes in a sum beside which stand only numbers made of
    positions, and exponentials: the elements keep their filter and all of their exponent, by
    which more may be known of them. What does not vary leaves the sum again, if nothing is. A
    product of what is read has no exponent, and would be computed for each exponential."""
    sums = [f for f in factors(value) if f.op == "fold" and f.attr.monoid == "sum"]
    others = [f for f in factors(value) if f not in sums]
    if len(sums) == 1 and all(_is_taken_in(f, sums[0]) for f in others):
        inner, (own, element) = T.open_fold(sums[0])
        condition, indices = T.conjunction(condition, own), (*inner, *indices)
        value = T.mul(element, *others)
    return T.fold("sum", indices, condition, value) if indices else value


def _is_taken_in(f: Term, total: Term) -> bool:
    if f.op == "exp":
        return not all(map(T.is_read, factors(total.args[1])))
    return all(s.op in POSITIONS for s in T.subterms(f))


# --- what is read ---------------------------------------------------------------------------


def transposed(node: Node, adjoint: Term, indices: Sequence[Term]) -> Term:
    """Return what a read hands on to the element of its tensor at `indices`: the sum of its
    adjoint over all positions that read this element.

    Where a subscript is an index, or a sum that has one, that position is known; otherwise the
    sum goes over all positions, with the condition that they read the element.
    """
    # The tensor's indices are free from here on; those of the positions get names of their own.
    apart = {i.name: T.index(f"~{i.name}", i.extent) for i in node.indices}
    pairs = [(T.substitute(s, apart), at) for s, at in zip(node.term.args, indices, strict=True)]
    value, condition = T.substitute(adjoint, apart), T.substitute(node.condition, apart)
    positions = list(apart.values())
    while (solved := _solved(pairs, positions)) is not None:
        pair, index, position = solved
        pairs.remove(pair)
        positions.remove(index)
        substitution = {index.name: position}
        pairs = [(T.substitute(s, substitution), at) for s, at in pairs]
        value, condition = T.substitute(value, substitution), T.substitute(condition, substitution)
        if position.op != "index" or position.extent != index.extent:
            condition = T.conjunction(condition, T.in_range(position, index.extent))
    condition = T.conjunction(condition, *(T.compare("==", s, at) for s, at in pairs))
    if positions:
        return _summed(tuple(positions), condition, value)
    return T.where(condition, value, T.ZERO)


def _solved(
    pairs: Sequence[tuple[Term, Term]], positions: Sequence[Term]
) -> tuple[tuple[Term, Term], Term, Term] | None:
    """Return a subscript and where it is, with an index of the positions and what that must be."""
    solutions = []
    for pair in pairs:
        parts, number = T.split_addends(pair[0])
        for sign, index in parts:
            others = [(n, t) for n, t in parts if t is not index]
            if index not in positions or abs(sign) != 1:
                continue
            if all(index.name not in t.free for _, t in others):
                rest = (T.mul(T.const(int(n)), t) for n, t in others)
                distance = T.sub(pair[1], T.add(T.const(number), *rest))
                position = T.mul(T.const(int(sign)), distance)
                solutions.append((len(others) + (number != 0), (pair, index, position)))
    return min(solutions, key=lambda f: f[0])[1] if solutions else None
