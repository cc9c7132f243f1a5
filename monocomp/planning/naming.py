"""Names for what is added to a program."""

from __future__ import annotations

from monocomp import terms as T
from monocomp.language.parser import MAX_NAME
from monocomp.terms import Term
from monocomp.terms.equations import Equations


class NewNames:
    """Gives out names, each once, that nothing of a program has.

    Args:
        program: whose inputs, params, indices, monoids, equations and known values have names.
        others: names that are taken, too.
    """

    def __init__(self, program: Equations, *others: str) -> None:
        declared = program.declared
        monoids = (m.name for m in program.monoids)
        known = (a.name for a in program.known)
        self.extent_of = declared.extent_of
        self.names = {*declared.inputs, *declared.params, *monoids, *program.by_name, *known}
        self.names |= {*others}

    def __call__(self, base: str, extent: str | None = None) -> str:
        """Return the base, or that with a number, no longer than a name in a text may be. An
        index of an extent may be called like others of it that the program has."""
        name, number = base[:MAX_NAME], 1
        while name in self.names or self.extent_of.get(name, extent) != extent:
            number += 1
            end = f"_{number}"
            name = base[: MAX_NAME - len(end)] + end
        self.names.add(name)
        return name

    def index(self, base: str) -> Term:
        """Return an index that has an extent of its own."""
        name = self(base)
        return T.index(name, name)

    def index_like(self, i: Term) -> Term:
        """Return an index of an equation, called as it is in a term, or else like its extent."""
        base, extent = i.attr
        return T.index(self(base if base.isidentifier() else extent.lstrip("."), extent), extent)
