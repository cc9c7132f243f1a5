"""Equalities: what a filter says is equal need not be computed, nor read at a computed position.

    sum[h if g == h // n](Q[h,d] * K[h // n,d]) = sum[h if g == h // n](Q[h,d] * K[g,d])

Applied to programs in normal form, when kernels are planned: what is known of a given sum
(`terms.shares`) is known of it as it was written.
"""

from __future__ import annotations

from monocomp import terms as T
from monocomp.rewriting.rules import RuleSet
from monocomp.terms import Term

equalities = RuleSet("equalities", "what filters say is equal is written once")


@equalities.procedure
def assume_equality(t: Term) -> Term | None:
    """Replace a term by one that does not vary with the index, where the filter equates them.

    Law:     [a = b] * f(a) = [a = b] * f(b)
    Claims:  brackets
    Needs:   ints, as floats that are equal may be 0 and -0
    before:  A[i] = sum[k if i == k // 2](X[i,k] * Y[k // 2])
    after:   A[i] = sum[k if i == k // 2](X[i,k] * Y[i + 0])
    """
    if t.op != "fold":
        return None
    opened, (condition, *bodies) = T.open_fold(t)
    names = {i.name for i in opened}
    for old, new in T.equal_ints(condition):
        varies = not names.isdisjoint(old.free)
        if old.op == "index" or not varies or not names.isdisjoint(new.free):
            continue
        found = [T.replace(b, old, new) for b in bodies]
        if found != bodies:
            return T.refold(t, condition, *found, opened=opened)
    return None
