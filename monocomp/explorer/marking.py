"""Equations with marks around parts: what a step changed, what a kernel's lines compute.

The printer of terms hands over the formula of each part (`Names.mark`); a mark is a formula around
it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from monocomp import terms as T
from monocomp.display.formulas import Formula
from monocomp.rewriting.driver import Step
from monocomp.terms import Term
from monocomp.terms.equations import Equation, Equations
from monocomp.terms.printer import Mark

WAS, NOW = "was", "now"


@dataclass(frozen=True)
class Pair:
    """An equation before a step and after it, with marks; None where there is none."""

    before: Formula | None
    after: Formula | None


Kind: TypeAlias = Callable[[Term], "str | None"]  # of the mark around a part


def marking(kind: Kind) -> Mark:
    """Return the function that puts marks around parts."""

    def mark(t: Term, f: Formula) -> Formula:
        mark = kind(t)
        return f if mark is None else Formula("mark", (f,), mark)

    return mark


def _printed(program: Equations, e: Equation | None) -> set[Term]:
    """Return the parts of an equation that are printed."""
    terms: set[Term] = set()

    def note(t: Term) -> None:
        terms.add(t)

    if e is not None:
        program.readable_equation(e, marking(note))
    return terms


def pairs(step: Step) -> tuple[Pair, ...]:
    """Return the equations that a step changes, with what it changes marked."""
    changed = []
    for name in step.changed:
        old, new = step.start.by_name.get(name), step.program.by_name.get(name)
        shown = _printed(step.start, old), _printed(step.program, new)
        before = after = None
        if old is not None:
            parts = _changed(old, step.redex, *shown)
            before = _marked(step.start, old, parts, WAS)
        if new is not None:
            parts = _changed(new, step.contractum, *shown[::-1])
            after = _marked(step.program, new, parts, NOW)
        changed.append(Pair(before, after))
    return tuple(changed)


def _marked(program: Equations, e: Equation, parts: set[Term], kind: str) -> Formula:
    return program.readable_equation(e, marking(dict.fromkeys(parts, kind).get))


def _changed(e: Equation, target: Term | None, ours: set[Term], theirs: set[Term]) -> set[Term]:
    """Return the parts to mark, of those that are printed: what was rewritten; if it was taken
    into a sum or product around it, what of it is new; else the least part that holds all else
    that is new."""
    if target is not None and target in ours:
        return {target}
    parts = () if target is None else target.args
    bases = (t.args[0] for t in parts if t.op == "pow")  # of what is divided by
    fresh = {t for t in (*parts, *bases) if t in ours and t not in theirs}
    if fresh:
        return fresh
    part = e.body
    while len(new := {t for t in T.children(part) if t in ours and t not in theirs}) == 1:
        (part,) = new
    return {part}
