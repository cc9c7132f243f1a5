"""Guards: what no result needs is not read, in folds either.

A condition that does not vary with a fold's index leaves the fold and selects its result:
`where(c, sum[k](W[n,k] * X[k]), 0)`. Where c fails, n may be no row of W. So the reads at
computed places inside of the fold are made where c holds, as the language says that a read
which a false condition guards never happens.
"""

from __future__ import annotations

from collections.abc import Iterator

from monocomp import terms as T
from monocomp.equations import Equations
from monocomp.lowering.values import is_computed
from monocomp.terms import Term


def guard_reads(program: Equations) -> Equations:
    """Computed reads in folds, each under the conditions under which the program needs it."""
    if not any(map(is_computed, T.subterms(*(e.body for e in program.equations)))):
        return program
    guards = _Guards()
    for equation in program.equations:
        guards.look(equation.body, T.TRUE, T.TRUE, False)
    return program.map(lambda body: guards.guarded(body, False))


class _Guards:
    """When each computed read inside of a fold is needed, for all its occurrences."""

    def __init__(self) -> None:
        self.needed: dict[Term, Term] = {}
        self.seen: set[tuple[Term, Term, Term, bool]] = set()
        self.memo: dict[tuple[Term, bool], Term] = {}

    def look(self, t: Term, around: Term, here: Term, inside: bool) -> None:
        """Note the reads in t, which is needed where `around` and `here` hold; what holds
        `here`, in the same fold as t, guards a read anyway."""
        if (t, around, here, inside) in self.seen:
            return
        self.seen.add((t, around, here, inside))
        if inside and is_computed(t):
            known = (c for c in T.conjuncts(around) if c.free <= t.free and not c.folded)
            self.needed[t] = T.disjunction(self.needed.get(t, T.FALSE), T.conjunction(*known))
        if t.op in ("fold", "fold_at"):
            around, here, inside = T.conjunction(around, here), T.TRUE, True
        for part, condition in _parts(t):
            self.look(part, around, T.conjunction(here, condition), inside)

    def guarded(self, t: Term, inside: bool) -> Term:
        """t with guards around the reads."""
        found = self.memo.get((t, inside))
        if found is None:
            within = inside or t.op in ("fold", "fold_at")
            found = T.map_children(t, lambda part: self.guarded(part, within))
            condition = self.needed.get(t, T.TRUE) if inside else T.TRUE
            nothing = T.FALSE if t.kind == "bool" else T.const(0, t.kind)
            found = T.where(condition, found, nothing)
            self.memo[t, inside] = found
        return found


def _parts(t: Term) -> Iterator[tuple[Term, Term]]:
    """The operands, each with the condition under which it is needed."""
    if t.op == "where":
        condition, a, b = t.args
        yield from ((condition, T.TRUE), (a, condition), (b, T.negate(condition)))
        return
    brackets = [f for f in t.args if t.op == "mul" and T.is_bracket(f)]
    selected = T.conjunction(*(f.args[0] for f in brackets))
    for part in T.children(t):
        yield part, T.TRUE if part in brackets else selected
