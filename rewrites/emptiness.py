"""Extents of 0: where a program declares one, folds over it have no element.

All that is known of terms (`terms.facts`) supposes that an extent is at least 1: a maximum of
exponentials is more than 0. So this comes before any other rule. Where the sizes of a call are
known, `translation` makes such folds empty before terms are simplified.
"""

from __future__ import annotations

from monocomp import terms as T
from monocomp.extents.nominal import without_elements
from monocomp.rewriting.rules import Choice, RuleSet
from monocomp.terms import Term
from monocomp.terms.equations import Equations

emptiness = RuleSet("emptiness", "folds over nothing are their units")


@emptiness.choice
def fold_nothing(program: Equations) -> Choice | None:
    """A fold over an extent of 0 is the unit of its monoid.

    Law:     a fold without elements is the unit
    Claims:  units
    Needs:   the extent is known to be 0
    before:  index k < 0
             A[i] = maximum(X[i], max[k](S[i,k]))
    after:   index k < 0
             A[i] = maximum(X[i], -inf)
    """
    empty = without_elements(program)
    if not empty:
        return None
    for t in T.subterms(*(e.body for e in program.equations)):
        new = _without_elements(t, empty)
        if new is not t:
            return Choice.replacing(t, new, program)
    return None


def _without_elements(t: Term, empty: frozenset[str]) -> Term:
    if t.op not in ("fold", "fold_at") or empty.isdisjoint(t.attr.extents):
        return t
    opened, (condition, *bodies) = T.open_fold(t)
    if condition is T.FALSE:
        return t
    if t.op == "fold_at":
        return T.fold_at(
            t.attr.monoid, t.args[0], opened[0], T.FALSE, *bodies, target=t.attr.target
        )
    return T.refold(t, T.FALSE, *bodies, opened=opened)
