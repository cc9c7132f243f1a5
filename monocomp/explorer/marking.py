"""Equations as text with marks around parts: what a step changed, what a kernel's lines compute.

The printer of terms hands over the text of each part that it prints (`Names.mark`); a mark is the
part's text between two signs that no program has, which `formulas` reads again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from monocomp import terms as T
from monocomp.explorer.formulas import marked
from monocomp.rewriting.changes import operands
from monocomp.rewriting.driver import Step
from monocomp.terms import Term
from monocomp.terms.binders import rename
from monocomp.terms.equations import Equation, Equations
from monocomp.terms.printer import Names, definition_line

WAS, NOW = "was", "now"


@dataclass(frozen=True)
class Pair:
    """An equation before a step and after it, with marks; "" where there is none."""

    before: str
    after: str


Mark: TypeAlias = Callable[[Term], "str | None"]  # the kind of the mark around a part


def line(program: Equations, e: Equation, mark: Mark, seen: set[Term] | None = None) -> str:
    """Return an equation as text.

    Args:
        program: in which it stands.
        e: the equation.
        mark: tells the marks.
        seen: gets the parts that are printed.
    """
    names = _marking(program.reader_names(of=e.name), mark, set() if seen is None else seen)
    return definition_line(e.name, (i.name for i in e.indices), e.body, names)


def lines(program: Equations, mark: Mark) -> list[str]:
    """Return all equations for readers (`Equations.readable_lines`), those of inputs that are
    given with what they are apart."""
    found = [line(program, e, mark) for e in program.equations]
    used = []
    for a in reversed(program.known):
        is_read = any(f"{a.name}[" in at.split("=", 1)[1] for at in found)
        if is_read and a.name not in program.by_name:
            names = _marking(program.reader_names(a.body), mark, set())
            indices = names.of_all(a.indices)
            used.append(definition_line(a.name, indices, a.body, names))
    return used + found


def _marking(names: Names, mark: Mark, seen: set[Term]) -> Names:
    """Names that put marks around parts."""

    def put(t: Term, text: str) -> str:
        seen.add(t)
        kind = mark(t)
        return text if kind is None else marked(kind, text)

    names.mark = put
    return names


def _nothing(t: Term) -> str | None:
    return None


def pairs(step: Step) -> tuple[Pair, ...]:
    """Return the equations that a step changes, with what it changes marked."""
    found = []
    for name in dict.fromkeys(c.name for c in step.changes):
        old, new = step.start.by_name.get(name), step.program.by_name.get(name)
        shown: tuple[set[Term], set[Term]] = (set(), set())
        for program, e, seen in zip((step.start, step.program), (old, new), shown, strict=True):
            if e is not None:
                line(program, e, _nothing, seen)
        changes = [c for c in step.changes if c.name == name]
        before, after = "", ""
        if old is not None:
            parts = _changed(old, step.redex, [c.path for c in changes], *shown)
            before = line(step.start, old, dict.fromkeys(parts, WAS).get)
        if new is not None:
            parts = _changed(new, step.contractum, [c.new_path for c in changes], *shown[::-1])
            after = line(step.program, new, dict.fromkeys(parts, NOW).get)
        found.append(Pair(before, after))
    return tuple(found)


def _changed(
    e: Equation,
    target: Term | None,
    paths: Iterable[tuple[int, ...] | None],
    ours: set[Term],
    theirs: set[Term],
) -> set[Term]:
    """Return the parts to mark, of those that are printed: what was rewritten; if it was taken
    into a sum or product around it, what of it is new; else what stands at the end of the paths."""
    if target is not None and target in ours:
        return {target}
    parts = () if target is None else target.args
    bases = (t.args[0] for t in parts if t.op == "pow")  # of what is divided by
    fresh = {t for t in (*parts, *bases) if t in ours and t not in theirs}
    if fresh:
        return fresh
    found = set()
    for path in paths:
        nodes = [t for t in _along(e.body, path or ()) if t in ours]
        found.update(nodes[-1:])
    return found or {e.body}


def _along(root: Term, path: Iterable[int]) -> Iterator[Term]:
    """Yield the terms on a path, with bound indices called as the printer calls them."""
    printed: dict[str, Term] = {}
    yield root
    t = root
    for depth, n in enumerate(path):
        if t.op in ("fold", "fold_at"):
            opened, _ = T.open_fold(rename(t, printed))
            printed |= {f"@{depth}.{m}": i for m, i in enumerate(opened)}
        t = operands(t, depth)[n]
        yield rename(t, printed)
