"""The elements that the folds of a program join, by which the order of its sums is chosen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias

from monocomp import terms as T
from monocomp.costs.closing import open_subscripts
from monocomp.extents.nominal import nominal_sizes
from monocomp.terms import Term
from monocomp.terms.equations import Equations

Determined: TypeAlias = Mapping[Term, frozenset[Term]]  # indices, by those that determine them


def elements_of_folds(program: Equations) -> int:
    """Elements of all distinct folds, at a program's sizes or nominal ones: each counts once for
    all values of its free indices, or of its computed subscripts if these are fewer, wherever loops
    will compute it. In a sum over k of which the filter asks for `p == table[k]` there are as many
    values of p as of k."""
    sizes = nominal_sizes(program.declared, program.sizes)

    def combinations(indices: Iterable[Term]) -> int:
        return math.prod(max(1, sizes[i.extent]) for i in indices)

    def plain(t: Term) -> int:
        return combinations(T.free_indices(t))

    counts: dict[Term, int] = {}
    for t, determined in _folds_of([e.body for e in program.equations]):
        fewest = min(T.unnamed(t), _with_subscripts_opened(t), key=plain)
        values = min(plain(fewest), combinations(_independent(T.free_indices(t), determined)))
        counts[fewest] = max(counts.get(fewest, 0), values * combinations(T.open_fold(t)[0]))
    return sum(counts.values())


@lru_cache(maxsize=8192)  # programs that are compared have most folds in common
def _with_subscripts_opened(t: Term) -> Term:
    return T.unnamed(open_subscripts(t)[0])


def _folds_of(bodies: Iterable[Term]) -> Iterator[tuple[Term, Determined]]:
    """Yield each fold with the indices that filters around it determine. Its own is no reason to
    compute less, as its elements are tested in blocks."""
    waiting: list[tuple[Term, Determined]] = [(t, {}) for t in bodies]
    seen = set()
    while waiting:
        t, around = waiting.pop()
        determined: Determined = {i: by for i, by in around.items() if i.name in t.free}
        key = t, frozenset(determined.items())
        if not t.args or key in seen:
            continue
        seen.add(key)
        if t.op in ("fold", "fold_at"):
            yield t, determined
            determined = _determined_by(T.open_fold(t)[1][0], determined)
        waiting += ((a, determined) for a in T.children(t))


def _determined_by(condition: Term, around: Determined) -> Determined:
    """Add the indices that a filter equates with what is computed of others."""
    determined = dict(around)
    for c in T.conjuncts(condition):
        if c.op != "compare" or c.attr != "==":
            continue
        for i, value in (c.args, c.args[::-1]):
            by = _independent(T.free_indices(value), determined)
            if i.op == "index" and i not in determined and i not in by:
                determined[i] = by
                break
    return determined


def _independent(indices: Iterable[Term], determined: Determined) -> frozenset[Term]:
    """Return indices that others determine as these."""
    free = frozenset(i for i in indices if i not in determined)
    return free.union(*(determined[i] for i in indices if i in determined))
