"""Names for what planning adds to a program."""

from __future__ import annotations

from collections.abc import Collection

from monocomp import terms as T
from monocomp.terms import Term
from monocomp.terms.equations import Equations


def taken_names(program: Equations) -> set[str]:
    """The names of a program's inputs, params, monoids and equations."""
    monoids = (m.name for m in program.monoids)
    return {*program.declared.inputs, *program.declared.params, *monoids, *program.by_name}


def new_name(base: str, taken: Collection[str]) -> str:
    """A name that is not taken: the base, or that with a number."""
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    return name


def new_index(i: Term, program: Equations, taken: Collection[str]) -> Term:
    """An index of an equation, called as it is in a term, or else like its extent."""
    base, extent = i.attr
    if not base.isidentifier():
        base = extent.lstrip(".")
    others = {n for n, e in program.declared.extent_of.items() if e != extent}
    return T.index(new_name(base, {*taken, *others}), extent)
