"""The normal form: what does not vary with a fold's index leaves the fold.

An earlier result then meets its inverse outside and cancels in the ring: the naive, the
safe and the lazy softmax become one object, a quotient of two plain sums, and no maximum
is left. Every rule is exact wherever the source is finite.
"""

from __future__ import annotations

from functools import cache

from monocomp import terms as T
from monocomp.rewrites.equalities import fixed_elements
from monocomp.rewrites.hoisting import extrema, hoisting
from monocomp.rewrites.results import quotients, results
from monocomp.rewriting.rules import RuleSet
from monocomp.terms import Term

_PARTS = (results, hoisting, fixed_elements, quotients)

ring = RuleSet(
    "ring",
    "what does not vary with a sum's index leaves the sum",
    [rule for part in _PARTS for rule in part.rules],
)
normal_form = RuleSet(
    "normal_form",
    "what does not vary with a fold's index leaves the fold",
    [*ring.rules, *extrema.rules],
)


def normalise(t: Term, rules: RuleSet = normal_form) -> Term:
    """Bring one term to normal form, or to that of other rules."""

    @cache
    def visit(s: Term) -> Term:
        new = T.map_children(s, visit)
        step = rules.first(new)
        return new if step is None else visit(step[1])

    return visit(t)
