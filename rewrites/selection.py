"""Selection: what keeps the order of elements leaves a choice of their positions."""

from __future__ import annotations

from monocomp import terms as T
from monocomp.rewriting.rules import RuleSet
from monocomp.terms import Term
from monocomp.terms.algebra import is_selection
from monocomp.terms.monomials import factors

selection = RuleSet("selection", "increasing functions leave a choice among elements")


@selection.rule
def list_positions_by_order(t: Term) -> Term | None:
    """A factor that does not vary with the index leaves a list of the largest elements' positions.

    Law:     argtop(a * x) = argtop(x)
    Claims:  increasing functions
    Needs:   a is positive and finite
    before:  index e < 2
             A[i,e] = argtop[k -> e](3 * S[i,k])
    after:   index e < 2
             A[i,e] = argtop[k -> e](S[i,k])
    """
    if not is_selection(t) or t.attr.monoid != "argtop":
        return None
    (bound,), (condition, element) = T.open_fold(t)
    moving = [f for f in factors(element) if bound.attr[0] in f.free or not _keeps_order(f)]
    if len(moving) == len(factors(element)):
        return None
    element = T.mul(T.const(1, element.kind), *moving)
    return T.fold_at("argtop", t.args[0], bound, condition, element, target=t.attr.target)


def _keeps_order(factor: Term) -> bool:
    return T.is_positive(factor) and T.is_finite(factor)
