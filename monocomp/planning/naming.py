"""Names for what is added to a program, and the programs to which that leads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from monocomp import terms as T
from monocomp.declarations.records import Param
from monocomp.language.parser import MAX_NAME
from monocomp.rewriting.driver import Step
from monocomp.terms import Term
from monocomp.terms.equations import Equation, Equations, in_order


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


class Change(NewNames):
    """A change of a program that may give it indices with extents of their own, and parameters.

    Attributes:
        start: the program.
        bounds: of new extents.
        extents: those of new indices.
        params: new ones.
    """

    def __init__(self, start: Equations, *others: str) -> None:
        super().__init__(start, *others)
        self.start = start
        self.bounds: dict[str, Term] = {}
        self.extents: dict[str, str] = {}
        self.params: dict[str, Param] = {}

    def bounded(self, base: str, bound: Term) -> Term:
        """Return a new index of an extent of its own, and declare both."""
        index = self.index(base)
        self.bounds[index.name], self.extents[index.name] = bound, index.extent
        return index

    def program(
        self,
        stored: Iterable[Equation],
        bodies: Mapping[str, Term] = MappingProxyType({}),
        **others: Any,
    ) -> Equations:
        """Return the program with more equations, other bodies, and other fields."""
        start, declared = self.start, self.start.declared
        declared = replace(
            declared,
            params={**declared.params, **self.params},
            extent_of={**declared.extent_of, **self.extents},
            bounds={**declared.bounds, **self.bounds},
        )
        changed = (replace(e, body=bodies.get(e.name, e.body)) for e in start.equations)
        equations = in_order([*stored, *changed])
        return replace(start, declared=declared, equations=equations, **others)

    def step(
        self,
        rule: str,
        e: Equation,
        old: Term,
        new: Term,
        *stored: Equation,
        check: Callable[[], bool] | None = None,
        reason: str = "",
        **others: Any,
    ) -> Step:
        """Return the step of a rule that replaces a term in an equation, by one that may read what
        is stored."""
        program = self.program(stored, {e.name: T.replace(e.body, old, new)}, **others)
        before = partial(self.start.shown, old)
        after = partial(program.shown_names, *stored) if stored else partial(program.shown, new)
        return Step.of(rule, (e.name,), before, after, self.start, program, check, reason)
