"""Bounding: where a loop begins and ends that a filter by data leaves little of.

The keys of packed documents are weighed by the queries of their own document:

    dV[k,e] = sum[q if start[q] <= k and k < end[q]](P[q,k] * dO[q,e])

No bound on q follows from that for a given k, as nothing is known of `start` and `end`, so the
loop would look at every q. But the filter is cheap to ask, beside what it guards. A kernel of its
own stores the first and the last position that each row admits, and how many it admits:

    A[k] = min[q if start[q] <= k and k < end[q]](q)
    Z[k] = max[q if start[q] <= k and k < end[q]](q)
    C[k] = sum[q if start[q] <= k and k < end[q]](1)

Loops run from the first to the last, whatever the data are. Where as many are admitted as lie
between the two, these are all of them, and the filter need not be asked again:

    q is admitted  =  A[k] <= q <= Z[k] and (Z[k] < A[k] + C[k] or start[q] <= k and k < end[q])

Of a row that admits nothing the bounds are the units of min and max, between which nothing lies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from monocomp import terms as T
from monocomp.costs.holding import estimate, total_time
from monocomp.costs.roles import scan_of
from monocomp.declarations.record import record
from monocomp.extents.domain import split
from monocomp.planning.naming import NewNames
from monocomp.planning.trials import keep_cheaper
from monocomp.rewriting.driver import Saving, Step
from monocomp.rewriting.rules import stated
from monocomp.terms import Term
from monocomp.terms.equations import Equation, Equations, in_order

ADMITTED = 0.5  # what a filter by data is taken to leave of the work of loops that it guards


def bound(program: Equations, sizes: Mapping[str, int]) -> tuple[Equations, list[Step]]:
    """Store the bounds of filters by data, where finding them costs little.

    Args:
        program: equations in kernels, as `cut` leaves them.
        sizes: a number for every extent.

    Returns:
        The program with equations for bounds, and the steps to it.
    """

    def tried(program: Equations, f: _Filter) -> list[Step]:
        step = bound_filter(program, f)
        kernels = estimate(program, sizes)
        before, after = total_time(kernels), total_time(estimate(step.program, sizes))
        guarded = (k for k in kernels if any(e.name in step.place for e in k.equations))
        after -= (1 - ADMITTED) * sum(k.cost.work for k in guarded)
        return [replace(step, cost=Saving(before, after))]

    return keep_cheaper(program, _filters(program), tried)


@record()
class _Filter:
    """A filter of one index by data.

    Attributes:
        domain: of the folds that it guards (`terms.domain_of`).
        rows: the indices with which it varies.
    """

    domain: tuple[tuple[str, ...], Term]
    rows: tuple[Term, ...]

    def guards(self, t: Term) -> bool:
        """True if this is a fold of what passes."""
        return t.op in ("fold", "fold_at") and T.domain_of(t) == self.domain


def _filters(program: Equations) -> list[_Filter]:
    """Return the filters that no bounds follow from, each once; not beside folds that look at all
    elements of the same extent anyway, nor of weighted sums: these stay one pass, which leaves out
    the blocks where nothing passes."""
    found: dict[_Filter, None] = {}
    for e in program.computed:
        folds = [t for t in T.subterms(e.body) if t.op in ("fold", "fold_at")]
        own = {i.name: i for i in e.indices}
        for t in folds if scan_of([e]) is None else ():
            extents, condition = T.domain_of(t)
            rows = tuple(i for n, i in own.items() if n in condition.free)
            f = _Filter((extents, condition), rows)
            others = (s for s in folds if s.op == "fold_at" or not f.guards(s))
            is_alone = not t.attr.is_scaled and all(extents != s.attr.extents for s in others)
            if len(extents) == 1 and _varies_with_rows(f) and is_alone and _is_by_data(f):
                found[f] = None
    return list(found)


def _is_by_data(f: _Filter) -> bool:
    """True if the filter varies with rows, and data that are read along the index decide what
    passes. A condition that holds a fold, such as whether a sum is 0, lets most pass."""
    (extent,), condition = f.domain
    if condition.folded:
        return False
    passing = T.index("@0", extent)
    parts = T.conjuncts(split(passing, condition).mask)
    read = (s for c in parts for s in T.subterms(c) if s.op in T.READS)
    return bool(f.rows) and any("@0" in s.free for s in read)


@stated
def bound_filter(program: Equations, f: _Filter) -> Step:
    """Return the step that stores the bounds of what passes.

    Law:     a filter admits nothing before the first position that it admits, or after the last,
             and all between them if it admits as many
    Claims:  positions
    Needs:   the filter varies with its index and the rows alone
    """
    (extent,), condition = f.domain
    passing = T.index("@0", extent)
    named = NewNames(program)
    first, last, count = (
        Equation(named(letter), f.rows, T.fold(monoid, (passing,), condition, body))
        for letter, monoid, body in (
            ("A", "min", passing),
            ("Z", "max", passing),
            ("C", "sum", T.const(1)),
        )
    )
    stored = (first, last, count)
    lower, upper, number = (T.stored(e, f.rows) for e in stored)
    end = T.add(lower, number)

    def bounded(t: Term) -> Term | None:
        if not f.guards(t):
            return None
        (here,), (holds, *bodies) = T.open_fold(t)
        within = T.compare("<=", lower, here), T.compare("<=", here, upper)
        asked = T.disjunction(T.compare("<", upper, end), holds)
        return T.refold(t, T.conjunction(*within, asked), *bodies, opened=(here,))

    changed = [replace(e, body=T.transform(bounded)(e.body)) for e in program.equations]
    position = [e.name for e, old in zip(changed, program.equations, strict=True) if e != old]
    after = replace(program, equations=in_order([*stored, *changed]))
    left = partial(program.shown, condition)
    right = partial(after.shown_names, *stored)
    reason = "as no bounds follow from what is read"
    check = partial(_varies_with_rows, f)
    return Step.of("bound_filter", position, left, right, program, after, check, reason)


def _varies_with_rows(f: _Filter) -> bool:
    return f.domain[1].free <= {"@0", *(i.name for i in f.rows)}
