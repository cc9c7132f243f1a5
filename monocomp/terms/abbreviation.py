"""Names of definitions in printed terms.

Rewrites see through definitions, so a logit that a program calls S stands in the terms as
the sum that it is. For readers a subterm that equals a definition's body, for some values
of its indices, is printed by the name that the user gave it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import product

from monocomp.declarations.record import record
from monocomp.display.formulas import Formula, name
from monocomp.terms import Term, ref, transform
from monocomp.terms.binders import free_indices, rename
from monocomp.terms.printer import Names, formula


@record()
class Abbreviation:
    """`name[indices]` for a term in which the indices are free."""

    name: str
    indices: tuple[Term, ...]
    body: Term

    def subscripts(self, t: Term) -> list[Term] | None:
        """Return the indices for which t equals the body, or None; None also if the body does not
        tell one of them."""
        if _shape(self.body) != _shape(t):
            return None
        candidates = [[f for f in free_indices(t) if f.extent == i.extent] for i in self.indices]
        for indices in product(*candidates) if self.body.free.issuperset(self._names) else ():
            if rename(self.body, dict(zip(self._names, indices, strict=True))) is t:
                return list(indices)
        return None

    @property
    def _names(self) -> list[str]:
        return [i.name for i in self.indices]


def _shape(t: Term) -> tuple[object, ...]:
    """Return a key that is the same for terms that differ by indices alone."""
    return t.op, t.attr, t.kind, len(t.args), t.height, t.weight


def definition_of(known: Iterable[Abbreviation], t: Term) -> Term | None:
    """Return the element of the first definition that a term equals."""
    for a in known if t.args else ():
        subscripts = a.subscripts(t)
        if subscripts is not None:
            return ref(a.name, subscripts, t.kind)
    return None


def abbreviating(known: Sequence[Abbreviation]) -> Callable[[Term], Term]:
    """Return the function that puts names for the terms that they abbreviate."""
    return transform(partial(definition_of, known))


def abbreviator(
    known: Sequence[Abbreviation], whole: Term | None
) -> Callable[[Term, Names], Formula | None]:
    """Return the function that abbreviates the subterms of `whole`, never all of it, in print."""
    by_shape: dict[tuple[object, ...], list[Abbreviation]] = {}
    for a in known:
        by_shape.setdefault(_shape(a.body), []).append(a)

    def abbreviate(t: Term, names: Names) -> Formula | None:
        definition = None if t is whole else definition_of(by_shape.get(_shape(t), ()), t)
        if definition is None:
            return None
        inside = tuple(formula(s, names) for s in definition.args)
        return Formula("read", inside, definition.attr) if inside else name(definition.attr)

    return abbreviate
