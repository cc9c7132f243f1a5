"""Prefixes: folds up to a position along their own index, and which loops carry them.

    sum[j if j <= t](x[j])    a prefix; of `j < t` it has not the element at t itself
    sum[j if j >= t](x[j])    a suffix: the prefix of a loop from the last element to the first

A loop along t has each of them at hand, where it passes every element between the end at which it
begins and t. What comes before that, or after, it starts with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from monocomp import terms as T
from monocomp.declarations.record import record
from monocomp.extents.domain import split
from monocomp.terms import Term


@record()
class Prefix:
    """The elements that a fold goes over: those up to t, or those from t on.

    Attributes:
        index: t, with which nothing else in the fold varies.
        is_suffix: True if they go from t to the last element, not from the first to t.
        is_strict: True if the element at t is not one of them.
    """

    index: Term
    is_suffix: bool = False
    is_strict: bool = False

    def holds(self, bound: Term) -> Term:
        """Return the condition that an element is one of the prefix's."""
        first, last = (self.index, bound) if self.is_suffix else (bound, self.index)
        return T.compare("<" if self.is_strict else "<=", first, last)


@lru_cache(maxsize=16384)
def as_prefix(f: Term) -> Prefix | None:
    """Return how far a fold goes, if it is a prefix."""
    if f.op != "fold" or len(f.attr.indices) != 1 or f.args[0] is T.TRUE:
        return None
    (bound,), (condition, *bodies) = T.open_fold(f)
    conditions = T.conjuncts(condition)
    for name in sorted(condition.free - bound.free):
        t = T.index(name, bound.extent)
        for is_suffix in (False, True):
            for is_strict in (False, True):
                prefix = Prefix(t, is_suffix, is_strict)
                until = prefix.holds(bound)
                others = [c for c in conditions if c is not until]
                is_prefix = len(others) < len(conditions)
                if is_prefix and all(name not in part.free for part in (*others, *bodies)):
                    return prefix
    return None


def prefix_of(f: Term) -> Term | None:
    """Return the index of a prefix."""
    prefix = as_prefix(f)
    return None if prefix is None else prefix.index


def elements_of(f: Term, bound: Term) -> tuple[Term, ...]:
    """Return which elements count in a prefix, however far it goes, and the elements."""
    prefix = as_prefix(f)
    assert prefix is not None
    (own,), (condition, *bodies) = T.open_fold(f)
    until = prefix.holds(own)
    admitted = T.conjunction(*(c for c in T.conjuncts(condition) if c is not until))
    return tuple(T.substitute(t, {own.name: bound}) for t in (admitted, *bodies))


@record()
class Walk:
    """A loop along an index, over the elements that a condition admits."""

    bound: Term
    condition: Term
    is_backwards: bool

    def reaches(self, f: Term) -> bool:
        """True if a fold is a prefix along the loop, in its order."""
        prefix = as_prefix(f)
        return prefix is not None and (prefix.index, prefix.is_suffix) == (
            self.bound,
            self.is_backwards,
        )


def walk_along(bound: Term, condition: Term, terms: Iterable[Term]) -> Walk:
    """Return the loop over some elements, which are terms.

    It goes from the last to the first if they need suffixes along it, and no prefixes.
    """
    prefixes = filter(None, map(as_prefix, T.subterms(*terms)))
    return Walk(bound, condition, {p.is_suffix for p in prefixes if p.index is bound} == {True})


@record()
class Start:
    """Start of a carried prefix: its fold over elements that the loop does not pass, or none."""

    earlier: Term | None


def start_of(f: Term, loop: Walk, roles: Mapping[str, str]) -> Start | None:
    """Return what a prefix starts with in a loop; None if the loop does not carry it.

    One with gaps, or that skips blocks, does not. Each block of rows has the loop: a prefix that
    lacks one of the rows is the same for all of their blocks; it is computed once and stored.
    One whose elements are more than numbers, such as positions, starts with nothing. The elements
    that the loop passes vary along indices of the prefix, and of the grid: for others the prefix
    would be carried for each of their elements apart.

    Args:
        f: the prefix.
        loop: the loop.
        roles: those of the outputs' indices: row, grid, ...
    """
    bound, prefix = loop.bound, as_prefix(f)
    if prefix is None or not loop.reaches(f):
        return None
    rows = {name for name, role in roles.items() if role == "row"}
    grid = {name for name, role in roles.items() if role == "grid"}
    if not rows <= f.free or not loop.condition.free <= f.free | bound.free | grid:
        return None
    domain = split(bound, loop.condition)
    if domain.mask is not T.TRUE or len(domain.intervals) != 1:
        return None
    own = T.index("@", f.attr.extents[0])
    admitted, *bodies = elements_of(f, own)
    (interval,) = domain.intervals
    intervals = split(own, admitted).intervals
    if prefix.is_suffix:
        edge = interval.end(bound.extent)
        is_nothing = intervals[-1].end(own.extent) is edge
        is_outside = T.compare("<=", edge, own)
    else:
        edge = interval.start
        is_nothing = intervals[0].start is edge
        is_outside = T.compare("<", own, edge)
    outside = T.FALSE if is_nothing else T.conjunction(admitted, is_outside)
    if outside is T.FALSE:
        return Start(None)
    is_number = isinstance(f.attr.monoid, str) and f.attr.monoid not in T.INT_REDUCTIONS
    if not is_number:
        return None
    return Start(T.refold(f, outside, *bodies, opened=(own,)))
