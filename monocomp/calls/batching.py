"""A program for a batch of calls: the same equations, with one more index.

    O[q,e] = softmax[k](Q[q,d] * K[k,d]) * V[k,e]            one call
    O[n,q,e] = softmax[k](Q[n,q,d] * K[k,d]) * V[k,e]        for each Q[n]

What a batch has of its own is read at the new index, and so is all that is computed of it; the rest
is shared. Law: an equation holds for every value of an index that nothing in it binds.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from monocomp import terms as T
from monocomp.declarations.records import Input
from monocomp.gradients.reverse import LEAVES
from monocomp.planning.naming import NewNames
from monocomp.terms import Term
from monocomp.terms.equations import Equation, Equations, in_order


def batched(program: Equations, names: Collection[str]) -> Equations:
    """Return the program for a batch, whose first dimension is that of the batch: of the inputs
    that have one, and of the results that depend on them.

    Args:
        program: for one call.
        names: the inputs, and parameters of kind float, of which each call has its own; inputs that
            are given with what depends on these, too.
    """
    declared = program.declared
    index = NewNames(program).index("n")
    name = index.name
    batching = _Batching(index, set(names))
    made = {e.name: batching.of(e) for e in in_order((*program.given, *program.equations))}
    inputs = {
        i.name: replace(i, dims=(name, *i.dims)) if i.name in batching.names else i
        for i in declared.inputs.values()
    }
    own = (p for p in declared.params.values() if p.name in names)
    inputs |= {p.name: Input(p.name, (name,), p.kind) for p in own}
    return replace(
        program,
        declared=replace(
            declared,
            inputs=inputs,
            params={n: p for n, p in declared.params.items() if n not in names},
            extent_of={**declared.extent_of, name: name},
        ),
        equations=tuple(made[e.name] for e in program.equations),
        given=tuple(made[e.name] for e in program.given),
        known=(),
        kept=None,
        as_written=None,
    )


@dataclass
class _Batching:
    """Gives equations an index.

    Attributes:
        index: the new one.
        names: what each call of the batch has of its own.
    """

    index: Term
    names: set[str]
    _given: dict[Equation, Equation] = field(default_factory=dict)
    _known: dict[Term, Term] = field(default_factory=dict)

    def of(self, e: Equation) -> Equation:
        """Return an equation for all calls, after those that it reads."""
        body = self._term(e.body)
        equation = replace(e, body=body)
        if self.index.name in body.free or (e.given and e.name in self.names):
            self.names.add(e.name)
            equation = replace(equation, indices=(self.index, *e.indices))
        if e.given:
            self._given[e] = equation
        return equation

    def _term(self, t: Term) -> Term:
        known = self._known.get(t)
        if known is None:
            known = self._known[t] = self._read(T.map_children(t, self._term))
        return known

    def _read(self, t: Term) -> Term:
        if t.op not in LEAVES:
            return t
        is_given = t.op == "stored"
        if T.name_of(t) in self.names:
            subscripts = (self.index, *t.args)
            if is_given:
                return T.stored(self._given[t.attr], subscripts)
            if t.op == "ref":
                return T.ref(t.attr, subscripts, t.kind)
            extents = () if t.op == "param" else t.attr.extents
            tensor = T.Tensor(T.name_of(t), (self.index.extent, *extents))
            return T.read(tensor, subscripts, t.kind)
        return T.stored(self._given[t.attr], t.args) if is_given else t
