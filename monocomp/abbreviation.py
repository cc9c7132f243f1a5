"""Names of definitions in printed terms.

Rewrites see through definitions, so a logit that a program calls S stands in the terms as
the sum that it is. For readers a subterm that equals a definition's body, for some values
of its indices, is printed by the name that the user gave it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from monocomp.printer import Names, show
from monocomp.terms import Term


@dataclass(frozen=True)
class Abbreviation:
    """`name[indices]` for a term in which the indices are free."""

    name: str
    indices: tuple[Term, ...]
    body: Term

    def subscripts(self, t: Term) -> list[Term] | None:
        """The indices for which t equals the body, or None."""
        found: dict[Term, Term] = {}
        if not _match(self.body, t, frozenset(self.indices), found):
            return None
        return [found.get(i, i) for i in self.indices]


def _match(pattern: Term, t: Term, variables: frozenset[Term], found: dict[Term, Term]) -> bool:
    if pattern in variables:
        return t.op == "index" and found.setdefault(pattern, t) is t
    if pattern is t:
        return all(found.setdefault(v, v) is v for v in variables if v.attr[0] in t.free)
    if (pattern.op, pattern.attr, pattern.kind) != (t.op, t.attr, t.kind):
        return False
    if len(pattern.args) != len(t.args) or not pattern.args:
        return False
    return all(_match(p, a, variables, found) for p, a in zip(pattern.args, t.args, strict=True))


def abbreviator(
    known: Sequence[Abbreviation], whole: Term | None
) -> Callable[[Term, Names], str | None]:
    """What `printer.Names` asks for each subterm of `whole`; never for all of it."""

    def abbreviate(t: Term, names: Names) -> str | None:
        if t is whole or not t.args:
            return None
        for a in known:
            subscripts = a.subscripts(t)
            if subscripts is not None:
                inside = ",".join(show(s, names) for s in subscripts)
                return f"{a.name}[{inside}]" if subscripts else a.name
        return None

    return abbreviate
