"""Names of adjoints: what a program calls S has the adjoint dS.

    P[q,k]   = exp(S[q,k] - L[q])                 a weight, which has a name of its own
    dP[q,k]  = sum[e](V[k,e] * dO[q,e])           what its products hand on to it
    delta[q] = sum[e](O[q,e] * dO[q,e])           what its sum does
    dS[q,k]  = P[q,k] * (dP[q,k] - delta[q])      the adjoint of a term that the program names
    dQ[q,d]  = sum[k](dS[q,k] * K[k,d])

An adjoint that several operands get, and that takes a sum to compute, has a name as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from monocomp import terms as T
from monocomp.gradients.reading import Reading
from monocomp.gradients.reverse import LEAVES, Node
from monocomp.gradients.saving import has_exponential
from monocomp.terms import Term
from monocomp.terms.abbreviation import Abbreviation, abbreviating, definition_of
from monocomp.terms.equations import Equation, Equations
from monocomp.terms.monomials import factors

PLAIN = ("const", "read", "ref", "stored", "param", "extent", "index", "cast")


class AdjointNames:
    """Names adjoints while a program is differentiated.

    Args:
        program: in normal form.
        reading: reads values of the forward.
        weights: definitions of the weights that it names.
        adjoints: the names of the adjoints of results.
        new: gives names that nothing has.
        order: that of indices.

    Attributes:
        equations: the definitions, each by what is read.
        rows: those of sums that a row of weights has in common.
    """

    def __init__(
        self,
        program: Equations,
        reading: Reading,
        weights: Sequence[Equation],
        adjoints: Iterable[str],
        new: Callable[[str], str],
        order: Callable[[Term], Any],
    ) -> None:
        self.program, self.reading, self.new, self.order = program, reading, new, order
        self.weights, self.adjoints = {e.name for e in weights}, {*adjoints}
        self.equations: list[Equation] = []
        self.rows: list[Equation] = []
        self._whole: dict[str, Equation] = {}  # as they were handed on
        self._sums: list[Abbreviation] = []

    def name(self, node: Node, operands: int, adjoint: Term) -> Term:
        """Return a name for an adjoint that takes a sum to compute, if the program names the term
        or several operands get it. What weights are divided by stays with them, as both may be
        too large for a float."""
        called = definition_of(self.program.known, node.term)
        if called is None and operands < 2:
            return adjoint
        value = self.read(adjoint, node.condition)
        is_computed = any(f.op not in PLAIN and f.folded for f in factors(value))
        if not is_computed or (has_exponential(node.term) and has_exponential(value)):
            return adjoint
        e = self._define("G" if called is None else f"d{called.attr}", self._with_sums(value))
        self._whole[e.name] = replace(e, body=self.written_out(adjoint))
        return T.ref(e.name, e.indices, "float")

    def read(self, t: Term, condition: Term = T.TRUE) -> Term:
        """Return a term, looked at where a condition holds, by what is read and has names."""
        return abbreviating(self._sums)(self.reading(t, condition))

    def written_out(self, t: Term) -> Term:
        """Return a term with adjoints in place of their names, as they were handed on."""
        return T.mapping_refs(self._whole, lambda r: T.element(self._whole[r.attr], r.args))(t)

    def _with_sums(self, value: Term) -> Term:
        """Return the adjoint of a logit, with names for the sums that a weight is multiplied with:
        those that vary as it does are its own adjoint."""
        weight = next((f for f in factors(value) if f.op == "ref" and f.attr in self.weights), None)
        if weight is None:
            return value

        def name(t: Term) -> Term | None:
            if t.op in ("add", "mul"):
                return None
            if t.op != "fold" or t.attr.monoid != "sum" or not self._is_adjoint(t):
                return t
            is_row = not weight.free <= t.free
            e = self._define("delta" if is_row else f"d{weight.attr}", t)
            self.rows += [e] if is_row else []
            self._sums.append(Abbreviation(e.name, e.indices, t))
            return T.ref(e.name, e.indices, "float")

        return T.transform(name)(value)

    def _is_adjoint(self, t: Term) -> bool:
        return any(s.op in LEAVES and T.name_of(s) in self.adjoints for s in T.subterms(t))

    def _define(self, letter: str, value: Term) -> Equation:
        indices = tuple(sorted(T.free_indices(value), key=self.order))
        self.equations.append(e := Equation(self.new(letter), indices, value))
        self.adjoints.add(e.name)
        return e


def with_names(
    equations: Sequence[Equation], known: Iterable[Abbreviation]
) -> tuple[list[Equation], list[Equation]]:
    """Return the equations with the names that the program has for parts of them, and the
    definitions of these that they need."""
    named_equations = list(equations)
    needed: list[Equation] = []
    for a in known:
        positions = (
            a.subscripts(t) for t in T.subterms(*(e.body for e in named_equations)) if a.body.folded
        )
        named = (p for p in positions if p is not None and all(map(_is_named, p)))
        if (indices := next(named, None)) is not None:
            substitution = {i.name: at for i, at in zip(a.indices, indices, strict=True)}
            named_in = abbreviating([a])
            named_equations = [replace(e, body=named_in(e.body)) for e in named_equations]
            needed.insert(0, Equation(a.name, tuple(indices), T.substitute(a.body, substitution)))
    return named_equations, needed


def _is_named(i: Term) -> bool:
    return i.op == "index" and i.name.isidentifier()


def names_needed(
    equations: Iterable[Equation], given: Mapping[str, Equation], defined: Mapping[str, Equation]
) -> tuple[set[str], set[str]]:
    """Return the names of the inputs and of the definitions that equations need."""
    read: set[str] = set()
    names: set[str] = set()
    waiting = list(equations)
    while waiting:
        for t in T.subterms(waiting.pop().body):
            if t.op in LEAVES and (name := T.name_of(t)) not in read | names:
                known = given if t.op == "stored" else defined if t.op == "ref" else {}
                (names if t.op == "ref" else read).add(name)
                waiting += [known[name]] if name in known else []
    return read, names


def extents_of(equations: Iterable[Equation]) -> dict[str, str]:
    """Return the extents of the indices that equations name."""
    bodies = (s for e in equations for s in T.subterms(e.body) if s.op == "index")
    own = (i for e in equations for i in e.indices)
    return {i.name: i.extent for i in (*own, *bodies) if i.name.isidentifier()}
