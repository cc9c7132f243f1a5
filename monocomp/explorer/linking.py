"""Every stage of a kernel line by line, each line with the term that it computes.

A statement of a tile program has an origin, a term of an equation; block statements and lines of
source come from tile statements. Terms are numbered in the order in which the kernels compute
them; what has the same number belongs together, wherever it is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from monocomp import blocks as B
from monocomp import terms as T
from monocomp.display.formulas import Formula
from monocomp.explorer.marking import Kind, marking
from monocomp.stages import Line, Stages
from monocomp.terms import Term
from monocomp.terms.binders import rename
from monocomp.terms.equations import Equations
from monocomp.terms.printer import formula
from monocomp.tile import Axis, Origin, TileProgram

LinkedLine: TypeAlias = tuple[str, int | None]  # with the number of the term, if it's known


@dataclass(frozen=True)
class Linked:
    """The stages of a kernel.

    Attributes:
        terms: what lines compute, as text, by number.
        equations: formulas with marks `o:number` around terms.
        others: terms that stand in no equation as they are, such as the frame of numbers in SE,
            marked.
        tile, blocks, source: the lines; of the source those of the kernels, from the first to
            the last that computes; none of both where the tile program is what runs.
        first: the number of the first of these lines of the source in the file.
    """

    terms: tuple[str, ...]
    equations: tuple[Formula, ...]
    others: tuple[Formula, ...]
    tile: tuple[LinkedLine, ...]
    blocks: tuple[LinkedLine, ...]
    source: tuple[LinkedLine, ...]
    first: int


def linked(stages: Stages) -> Linked:
    """Return the stages of a kernel, linked by what their lines compute."""
    plan = stages.plan
    numbers = Numbers()
    tile: list[LinkedLine] = []
    for kernel in plan.kernels:
        tile += [("", None)] if tile else []
        tile += [(text, numbers.of(s)) for text, s in kernel.lines()]
    blocks: list[LinkedLine] = []
    source: list[LinkedLine] = []
    first = 1
    if not stages.is_interpreted:
        for program in stages.blocks:
            blocks += [("", None)] if blocks else []
            blocks += [(text, numbers.of(s)) for text, s in program.lines()]
        first, source = _source(stages.lines, numbers)
    readable = plan.program.readable(marking(numbers.kinds(plan.program)))
    equations = tuple(f for f in readable if f.op != "given")
    marked = {part.attr for f in equations for part in f.walk() if part.op == "mark"}
    names = plan.program.reader_names()
    others = (
        Formula("mark", (formula(origin.term, names),), f"o:{n}")
        for origin, n in numbers.origins.items()
        if f"o:{n}" not in marked
    )
    return Linked(
        tuple(map(str, numbers.origins)),
        equations,
        tuple(others),
        tuple(tile),
        tuple(blocks),
        tuple(source),
        first,
    )


def _source(lines: Sequence[Line], numbers: Numbers) -> tuple[int, list[LinkedLine]]:
    """Return the lines of the kernels, and the number of the first."""
    ours = [n for n, at in enumerate(lines) if at.origin is not None]
    first = ours[0]
    while first and not lines[first].text.startswith("@"):  # what makes a function a kernel
        first -= 1
    return first + 1, [(at.text, numbers.of(at.block)) for at in lines[first : ours[-1] + 1]]


class Numbers:
    """Terms by number. A term within a fold is known whatever the fold's index is called."""

    def __init__(self) -> None:
        self.origins: dict[Origin, int] = {}

    def of(self, s: object) -> int | None:
        """Return the number of what a statement computes."""
        while isinstance(s, B.Statement):
            s = s.origin
        if s is None or isinstance(s, Axis | TileProgram):
            return None
        origin = getattr(s, "origin", None)
        return None if origin is None else self.origins.setdefault(origin, len(self.origins))

    def kinds(self, program: Equations) -> Kind:
        """Return the marks around numbered terms."""
        known: dict[Term, int] = {}
        for origin, number in self.origins.items():
            e = program.by_name.get(origin.equation)
            free = {i.name for i in e.indices} if e is not None else set()
            known.setdefault(_without_names(origin.term, free), number)
        outputs = {i.name for e in program.equations for i in e.indices}

        def found(t: Term) -> str | None:
            number = known.get(_without_names(t, outputs)) if t.args else None
            return None if number is None else f"o:{number}"

        return found


def _without_names(t: Term, free: Iterable[str]) -> Term:
    """Return the term with bound indices called by their extents."""
    others = {i.name: i for i in _indices(t) if i.name not in free}
    named = {name: T.index(f"@{i.extent}", i.extent) for name, i in others.items()}
    return rename(t, named)


def _indices(t: Term) -> Iterator[Term]:
    if t.op == "index":
        yield t
    for a in t.args:
        if a.free:
            yield from _indices(a)
