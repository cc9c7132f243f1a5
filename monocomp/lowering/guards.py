"""Guards: what no result needs is not read, in folds either.

A condition that does not vary with a fold's index leaves the fold and selects its result:
`where(c, sum[k](W[n,k] * X[k]), 0)`. Where c fails, n may be no row of W. So the reads at
computed positions inside of the fold are made where c holds, as the language says that a read
which a false condition guards never happens.
"""

from __future__ import annotations

from monocomp import terms as T
from monocomp.terms import Term
from monocomp.terms.equations import Equations
from monocomp.terms.masks import needed_operands


def guard_reads(program: Equations) -> Equations:
    """Computed reads in folds, each under the conditions under which the program needs it."""
    if not any(map(T.is_computed, T.subterms(*(e.body for e in program.equations)))):
        return program
    guards = _Guards()
    for equation in program.equations:
        guards.look(equation.body, T.TRUE, T.TRUE, False)
    return program.map(lambda body: guards.guarded(body, False))


class _Guards:
    """The conditions under which each computed read in a fold is needed, wherever it occurs."""

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
        if inside and T.is_computed(t):
            known = (c for c in T.conjuncts(around) if c.free <= t.free and not c.folded)
            self.needed[t] = T.disjunction(self.needed.get(t, T.FALSE), T.conjunction(*known))
        if t.op in ("fold", "fold_at"):
            around, here, inside = T.conjunction(around, here), T.TRUE, True
        for part, condition in needed_operands(t):
            self.look(part, around, T.conjunction(here, condition), inside)

    def guarded(self, t: Term, inside: bool) -> Term:
        """t with guards around the reads."""
        guarded = self.memo.get((t, inside))
        if guarded is None:
            within = inside or t.op in ("fold", "fold_at")
            guarded = T.map_children(t, lambda part: self.guarded(part, within))
            condition = self.needed.get(t, T.TRUE) if inside else T.TRUE
            nothing = T.FALSE if t.kind == "bool" else T.const(0, t.kind)
            guarded = T.where(condition, guarded, nothing)
            self.memo[t, inside] = guarded
        return guarded


def reads_computed(t: Term) -> bool:
    """True if a read in t may leave its tensor. Reads inside a fold are left to the fold."""
    return T.is_computed(t) or (t.op not in ("fold", "field") and any(map(reads_computed, t.args)))


def guarded_by(t: Term, condition: Term) -> Term:
    """t where the condition holds: elsewhere its computed reads are not made. Those on a
    branch of `where` are guarded by its own condition when it is built."""
    if not reads_computed(t):
        return t
    if T.is_computed(t):
        return T.where(condition, t, T.const(False) if t.kind == "bool" else T.const(0, t.kind))
    if t.op == "where":
        c, a, b = t.args
        for holds, one, other in ((c, a, b), (T.negate(c), b, a)):
            if not reads_computed(other):  # it may as well stand where nobody looks
                return T.where(T.conjunction(condition, holds), one, other)
    return T.rebuild(t, tuple(guarded_by(a, condition) for a in t.args))


def in_order(t: Term, guard: Term | None) -> list[tuple[Term, Term | None]]:
    """Operands with what guards them; of `and` and `or` those that read computed positions come
    last, and read where the others leave it open. A truth value that is read is guarded as
    it is: `guarded_by` would write it as the same `and` or `or` again."""
    if t.op == "not":
        return [(t.args[0], guard)]
    first = [a for a in t.args if not reads_computed(a)]
    if t.op not in ("and", "or") or not first:
        return [(a, None) for a in t.args]
    rest = [a for a in t.args if a not in first]
    holds = T.conjunction(*(a if t.op == "and" else T.negate(a) for a in first))
    guarded: list[tuple[Term, Term | None]] = [(a, None) for a in first]
    for a in rest:
        is_plain = T.is_computed(a) or (a.op == "not" and T.is_computed(a.args[0]))
        guarded.append((a, holds) if is_plain else (guarded_by(a, holds), None))
    return guarded
