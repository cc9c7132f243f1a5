"""A sum of which one element is admitted is that element."""

from __future__ import annotations

from monocomp import terms as T
from monocomp.rewrites.single_folds import is_fold, opened_fold
from monocomp.rewriting.rules import RuleSet
from monocomp.terms import Term

single_elements = RuleSet("single elements", "a sum of one element is that")


@single_elements.procedure
def pick_point(t: Term) -> Term | None:
    """A sum over the one index that equals a given position is the element there.

    Law:     sum[k if k = a](f(k)) = f(a) for a position a in the range of k, else 0
    Claims:  one point
    before:  A[i] = max[k](X[i,k]) + sum[k if k == i - 1](X[i,k])
    after:   A[i] = max[k](X[i,k]) + (0 <= i - 1 and i - 1 < |k|) * X[i,i - 1]
    """
    if not is_fold(t, "sum"):
        return None
    bound, name, condition, body = opened_fold(t)
    for c in T.conjuncts(condition):
        position = _solve(c, bound)
        if position is None:
            continue
        if position.op == "index" and position.extent != bound.extent:
            return None  # a read with a plain index is never out of range
        here = {name: position}
        others = (T.substitute(o, here) for o in T.conjuncts(condition) if o is not c)
        inside = T.TRUE if position.op == "index" else T.in_range(position, bound.extent)
        return T.mul(T.conjunction(inside, *others), T.substitute(body, here))
    return None


def _solve(c: Term, bound: Term) -> Term | None:
    """Return a of a condition that says bound = a."""
    if c.op != "compare" or c.attr != "==" or c.args[0].kind != "int":
        return None
    difference = T.sub(c.args[1], c.args[0])
    for sign in (1, -1):
        rest = T.sub(difference, T.mul(T.const(sign), bound))
        if bound.name not in rest.free:
            return T.mul(T.const(-sign), rest)
    return None
