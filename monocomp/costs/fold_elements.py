"""The elements that the folds of a program join, by which the order of its sums is chosen."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

from monocomp import terms as T
from monocomp.costs.closing import open_subscripts
from monocomp.extents.nominal import nominal_sizes
from monocomp.terms import Term
from monocomp.terms.equations import Equations


def elements_of_folds(program: Equations) -> int:
    """Elements of all distinct folds, at a program's sizes or nominal ones: each counts once for
    all values of its free indices, or of its computed subscripts if these are fewer, wherever loops
    will compute it."""
    sizes = nominal_sizes(program.declared, program.sizes)

    def combinations(indices: Iterable[Term]) -> int:
        return math.prod(max(1, sizes[i.extent]) for i in indices)

    def plain(t: Term) -> int:
        return combinations(T.free_indices(t))

    counts: dict[Term, int] = {}
    for t in T.subterms(*(e.body for e in program.equations)):
        if t.op in ("fold", "fold_at"):
            fewest = min(T.unnamed(t), _with_subscripts_opened(t), key=plain)
            elements = plain(fewest) * combinations(T.open_fold(t)[0])
            counts[fewest] = max(counts.get(fewest, 0), elements)
    return sum(counts.values())


@lru_cache(maxsize=8192)  # programs that are compared have most folds in common
def _with_subscripts_opened(t: Term) -> Term:
    return T.unnamed(open_subscripts(t)[0])
