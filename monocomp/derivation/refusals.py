"""Refusals: where a program keeps a further pass, and the dependence that forces it.

A fold that needs the result of another fold over the same extent comes a pass later, unless
a rule takes the two apart. An equation that would match, but for a need that the result does not
meet, gives the reason. It is asked about the finished program, so the reason does not depend on
which rules were tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from monocomp import terms as T
from monocomp.costs.counting import is_at_the_top
from monocomp.costs.reading import kernels
from monocomp.costs.roles import choose_roles
from monocomp.declarations.record import record
from monocomp.derivation.tiling import fuse_folds
from monocomp.display.formulas import Formula, name
from monocomp.rewrites.pullback import Pass, passes
from monocomp.rewriting.equations import Equation
from monocomp.rewriting.rules import STATED, RuleSet
from monocomp.terms import Term
from monocomp.terms.algebra import SE_PAIR, frame, value_of
from monocomp.terms.equations import Equation as Definition
from monocomp.terms.equations import Equations, stored_in
from monocomp.terms.printer import Names, show


@record()
class Refusal:
    """A rewrite that was not made.

    Attributes:
        rule: the rule that would have been needed.
        law: the law that does not reach this place.
        place: the outputs in which it stands.
        term: where the dependence sits, as text of the language.
        reason: why it stays.
        kept: what it costs: "a further pass over k stays"; "" where it costs no pass.
    """

    rule: str
    law: str
    place: tuple[str, ...]
    term: str
    reason: str
    kept: str = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.kept}" if self.kept else self.reason


def refusals(program: Equations, rule_sets: Iterable[RuleSet] = ()) -> tuple[Refusal, ...]:
    """Return why a program needs the passes that it has.

    Args:
        program: after its derivation.
        rule_sets: rules of which one may lack a need.
    """
    rules = [r for at in rule_sets for r in at.rules if isinstance(r, Equation)]
    reasons: list[Refusal] = []
    for group in kernels(program):
        reasons += _Finder(program, group, dict.fromkeys(rules)).all()
    return tuple(dict.fromkeys(reasons))


_LONG = 60  # characters of a formula in a reason


class _Finder:
    """Looks up what a kernel's later loops depend on."""

    def __init__(
        self, program: Equations, group: list[Definition], rules: Iterable[Equation]
    ) -> None:
        self.program = program
        self.group = group
        self.rules = rules

    def all(self) -> Iterator[Refusal]:
        """Yield one refusal for each dependence of a later loop, and for each output that is
        written late."""
        bodies = [e.body for e in self.group]
        written = set(T.subterms(*bodies))
        loops = passes(bodies, is_at_the_top, {})
        for at in loops:
            earlier = {f for p in loops if p.level < at.level for f in p.folds}
            frames = {_frame(f) for f in at.folds if f.attr.monoid is SE_PAIR}
            for fold in at.folds:
                if fold in written and fold not in frames:
                    yield from self._fold(fold, earlier)
        yield from self._filters(loops)
        yield from self._stored()
        yield from self._late(loops)

    def _fold(self, fold: Term, earlier: set[Term]) -> Iterator[Refusal]:
        """Yield the results that the elements of a fold need."""
        _, parts = T.open_fold(fold)
        needed = [t for t in T.subterms(*parts) if t in earlier]
        # What another needed result is made of is that one's affair.
        inner = {s for t in needed for s in T.subterms(*T.children(t))}
        for result in (t for t in needed if t not in inner):
            ours, theirs = (f.attr.extents[0].lstrip(".") for f in (fold, result))
            kept = f"a further pass over {ours} stays"
            if ours != theirs:
                kept = f"the pass over {ours} comes after one over {theirs}"
            yield self._unmet(fold, result, kept)

    def _unmet(self, fold: Term, term: Term, kept: str) -> Refusal:
        """Return the refusal of the equation that lacks least: a need of the smallest term that
        holds the result."""
        start = _plain(fold)
        lacking = (
            (rule, need, t)
            for rule in self.rules
            for need, t in rule.lacking(start)
            if T.holds(t, term)
        )
        least = min(lacking, key=lambda lack: lack[2].weight, default=None)
        if least is None:
            part = next(t for t in T.open_fold(fold)[1] if T.holds(t, term))
            why = f"{self._show(part)} depends on {self._show(value_of(term))}"
            return self._unfused(fold, part, why, kept)
        rule, need, t = least
        extent = fold.attr.extents[0].lstrip(".")
        lacks = f"free of {extent}" if need.free_of is not None else need.words
        why = f"{rule.name} needs {self._show(t)} {lacks}"
        return Refusal(rule.name, rule.law, self._place(fold), self._show(t), why, kept)

    def _filters(self, loops: list[Pass]) -> Iterator[Refusal]:
        """Yield the loops that need one another's results no more than they share a domain."""
        for first, second in itertools.pairwise(loops):
            if (first.extent, first.level) == (second.extent, second.level):
                one, other = (value_of(p.folds[-1]) for p in (first, second))
                why = f"{self._show(other)} has another filter than {self._show(one)}"
                kept = f"a further pass over {second.extent.lstrip('.')} stays"
                yield self._unfused(second.folds[-1], other, why, kept)

    def _stored(self) -> Iterator[Refusal]:
        """Yield refusals for what an earlier kernel computes because every element needs it."""
        for e in self.group:
            for read in sorted(stored_in(e.body), key=lambda at: at.name):
                value = T.stored(read, read.indices)
                why = f"{self._show(value)} must be known before the first element of {e.name} is"
                yield self._unfused(e.body, value, why, "an earlier kernel computes and stores it")

    def _late(self, loops: list[Pass]) -> Iterator[Refusal]:
        """Yield the outputs that keep an index over which a result in them is folded."""
        for axis in choose_roles(self.group, lambda extent: True).values():
            folds = [f for p in loops if p.extent == axis.extent for f in p.folds]
            for e in self.group if axis.role == "stream" else ():
                inside = [value_of(f) for f in folds if T.holds(e.body, f)]
                if axis.name in (i.name for i in e.indices) and inside:
                    left = f"{e.name}[{','.join(i.name for i in e.indices)}]"
                    why = f"{left} keeps {axis.name}, over which {self._show(inside[-1])} is taken"
                    kept = f"a further pass over {axis.name} stays"
                    yield self._unfused(e.body, inside[-1], why, kept)

    def _unfused(self, where: Term, t: Term, why: str, kept: str) -> Refusal:
        """Return the refusal of one loop for what stands in a term."""
        law = STATED[fuse_folds.__name__].law
        return Refusal(fuse_folds.__name__, law, self._place(where), self._show(t), why, kept)

    def _place(self, t: Term) -> tuple[str, ...]:
        return tuple(e.name for e in self.group if T.holds(e.body, t))

    def _show(self, t: Term) -> str:
        """Return the term as text; where that is long, results inside it by their folds alone."""
        names = self.program.reader_names()
        text = show(t, names)
        if len(text) <= _LONG:
            return text
        known = names.abbreviate

        def abbreviate(part: Term, inner: Names) -> Formula | None:
            short = known(part, inner) if known is not None else None
            if short is None and part is not t and is_at_the_top(part):
                index = part.attr.extents[0].lstrip(".")
                short = name(f"{part.attr.name}[{index}](..)")
            return short

        names.abbreviate = abbreviate
        return show(t, names)


def _frame(fold: Term) -> Term:
    """Return the maximum that an SE fold carries: what it depends on its sum does, too."""
    (bound,), (condition, _, exponent) = T.open_fold(fold)
    return frame(bound, condition, exponent)


def _plain(fold: Term) -> Term:
    """Return a fold as rules know it: one in SE as the sum that it was."""
    if fold.attr.monoid is not SE_PAIR:
        return fold
    bound, (condition, value, exponent) = T.open_fold(fold)
    return T.fold("sum", bound, condition, T.mul(value, T.exp(exponent)))
