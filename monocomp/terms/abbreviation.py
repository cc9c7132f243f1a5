"""Names of definitions in printed terms.

Rewrites see through definitions, so a logit that a program calls S stands in the terms as
the sum that it is. For readers a subterm that equals a definition's body, for some values
of its indices, is printed by the name that the user gave it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from monocomp.declarations.record import record
from monocomp.display.formulas import Formula, name
from monocomp.terms import Term, ref, transform
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
        positions: dict[Term, Term] = {}
        if not _match(self.body, t, frozenset(self.indices), positions, set()):
            return None
        return [positions[i] for i in self.indices] if len(positions) == len(self.indices) else None


def _shape(t: Term) -> tuple[object, ...]:
    """Return a key that is the same for terms that differ by indices alone."""
    return t.op, t.attr, t.kind, len(t.args), t.height, t.weight


def _match(
    pattern: Term,
    t: Term,
    variables: frozenset[Term],
    bindings: dict[Term, Term],
    matched: set[tuple[Term, Term]],
) -> bool:
    if pattern in variables:
        return t.op == "index" and bindings.setdefault(pattern, t) is t
    if pattern is t:
        return all(bindings.setdefault(v, v) is v for v in variables if v.name in t.free)
    if (pattern, t) in matched:
        return True
    if not pattern.args or _shape(pattern) != _shape(t):
        return False
    pairs = zip(pattern.args, t.args, strict=True)
    if not all(_match(p, a, variables, bindings, matched) for p, a in pairs):
        return False
    matched.add((pattern, t))
    return True


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
