"""Elaboration: derived reductions become sums, maxima and exponentials.

Each rule is the definition of a word of the language. What has no better form stays:
tanh, for one, loses small arguments when written with exponentials.
"""

from __future__ import annotations

from monocomp import terms as T
from monocomp.rewriting.equations import equations
from monocomp.rewriting.rules import RuleSet
from monocomp.terms import Term
from monocomp.terms.masks import needed_operands

elaboration = RuleSet("elaboration", "derived reductions become sums of exponentials")


elaboration.add(
    *equations(
        """
    # The logarithm of a sum of exponentials.
    expand_logsumexp: logsumexp[k if c](x) = log(sum[k if c](exp(x)))

    # A softmax is a weight over the sum of the weights; outside its filter it is 0.
    expand_softmax: softmax[k if c](x) = c * exp(x) / sum[k if c](exp(x))

    # The logarithm of a softmax; outside its filter it is -inf.
    expand_log_softmax: log_softmax[k if c](x) = where(c, x - logsumexp[k if c](x), -inf)

    # A mean is a sum over a count; over nothing it is 0.
    expand_mean: mean[k if c](x) = sum[k if c](x) / sum[k if c](1)

    # A variance is the mean squared distance from the mean.
    expand_var: var[k if c](x) = mean[k if c]((x - mean[k if c](x)) ** 2)

    # Some condition holds if a count is not 0.
    expand_any: any[k if c](p) = 0 < sum[k if c and p](1)

    # All conditions hold if none fails.
    expand_all: all[k if c](p) = not 0 < sum[k if c and not p](1)
    """,
        is_definition=True,
    )
)


@elaboration.procedure
def expand_prefix(t: Term) -> Term | None:
    """A prefix aggregate at k is the aggregate over what comes no later than k.

    Law:     definition of the inclusive prefix
    before:  C[i,k] = X[i,k] - sum[..k](X[i,k])
    after:   C[i,k] = X[i,k] - sum[j if j <= k](X[i,j])
    """
    if t.op != "fold_at" or t.attr.monoid in ("softmax", "log_softmax", "top", "argtop"):
        return None
    return T.by_definition(t)


def _in_tensors(t: Term) -> Term:
    """Return the condition that what is read at computed positions is in its tensors where it is
    needed, but for reads of folds, which are left to these."""
    positions = T.computed(t.args, t.attr.extents) if t.op in T.READS else []
    within = [T.in_range(position, extent) for _, position, extent in positions]
    parts = needed_operands(t) if t.op not in ("fold", "fold_at") else ()
    for part, needed in parts:
        if (inside := _in_tensors(part)) is not T.TRUE:
            within.append(T.disjunction(T.negate(needed), inside))
    return T.conjunction(*within)


@elaboration.procedure
def nest_indices(t: Term) -> Term | None:
    """A fold over several indices is a fold of folds, row by row; what its filter asks of rows is
    asked of them, where they read it inside its tensors.

    Law:     fold over (j, k) = fold over j of the fold over k: associative, in the same order
    Claims:  interchange
    before:  A[i] = max[j, k](X[i,j,k])
    after:   A[i] = max[j](max[k](X[i,j,k]))
    """
    if t.op != "fold" or len(t.attr.indices) < 2:
        return None
    monoid = t.attr.monoid
    if isinstance(monoid, str) and monoid not in ("sum", "max", "min", "prod"):
        return None
    (outer, *inner), (condition, *elements) = T.open_fold(t)
    names = {i.name for i in inner}
    parts = T.conjuncts(condition)
    rows = [c for c in parts if names.isdisjoint(c.free)]
    inside = T.conjunction(*(c for c in parts if c not in rows))
    row = T.fold(monoid, tuple(inner), inside, *elements)
    rows = [*map(_in_tensors, rows), *rows]
    if isinstance(monoid, str):
        return T.fold(monoid, (outer,), T.conjunction(*rows), row)
    fields = (T.field(row, f) for f in monoid.fields)
    return T.fold(monoid, (outer,), T.conjunction(*rows), *fields)
