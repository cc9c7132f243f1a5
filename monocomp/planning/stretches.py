"""Pieces: what filters leave of a stream, cut into pieces of about one length.

A window is short beside its stream, and lengths differ from request to request. So not the axis
is cut, but the interval that a filter leaves of it: piece p of n is
`start + p * length <= k < start + (p + 1) * length`, where length is that of the interval over n,
rounded up. Bounds are computed where they are used, for each row: from parameters, from tensors.
An interval may be taken larger than the set is: its pieces are disjoint, and cover it.

So within a block of rows all have the interval that any of them needs, as far as it is known how
bounds vary from row to row. A filter that leaves several intervals has the longest cut, where the
others are short: the first piece takes what is before it, and the last what is behind it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import product

from monocomp import terms as T
from monocomp.declarations.record import record
from monocomp.extents.domain import Interval, split
from monocomp.extents.intervals import Ranges, extremes
from monocomp.rewrites.centred import centred
from monocomp.terms import Term

Expected = Callable[[Term], int | None]
_JOINED = ("sum", "max", "min", "prod")  # folds whose elements are their partial results
_COMPUTED = ("const", "param", "extent", "index", "add", "mul", "floordiv", "maximum", "minimum")


@record()
class Stretch:
    """An interval of a stream: {k : l <= k < u for all l in lower, u in upper}, cut to the axis.

    Attributes:
        extent: of the stream.
        lower, upper: its bounds.
        is_all: does the filter leave nothing outside of it?
    """

    extent: Term
    lower: tuple[Term, ...] = ()
    upper: tuple[Term, ...] = ()
    is_all: bool = True

    def units(self, alignment: int) -> Term:
        """Return how many blocks of `alignment` elements it has: one at least, if what is outside
        has to be in one."""
        unit = T.const(alignment)
        length = _maximum(T.sub(self._end, self._start(unit)), T.const(int(not self.is_all)))
        return T.floordiv(T.add(length, unit, T.const(-1)), unit)

    def piece(self, bound: Term, number: Term, count: Term, alignment: int) -> tuple[Term, Term]:
        """Return the two conditions for an element to be in a piece, of a number of them. Pieces
        begin at multiples of `alignment`."""
        unit = T.const(alignment)
        start = self._start(unit)
        length = T.sub(self._end, start)
        if not self.is_all:  # what is outside has to be in one piece also where this is empty
            length = _maximum(length, T.const(0))
        all_ = T.mul(unit, count)
        length = T.mul(unit, T.floordiv(T.add(length, all_, T.const(-1)), all_))
        begin = T.add(start, T.mul(number, length))
        end = T.add(begin, length)
        if not self.is_all:
            last = T.sub(count, T.const(1))
            begin = T.where(T.compare("==", number, T.const(0)), T.const(0), begin)
            end = T.where(T.compare("==", number, last), self.extent, end)
        return T.compare("<=", begin, bound), T.compare("<", bound, end)

    def _start(self, unit: Term) -> Term:
        start = reduce(_maximum, self.lower, T.const(0))
        return T.mul(unit, T.floordiv(start, unit))

    @property
    def _end(self) -> Term:
        return reduce(_minimum, self.upper, self.extent)

    @property
    def limits(self) -> Iterator[Term]:
        """Yield the numbers that its length does not exceed."""
        yield from (self.extent, *self.upper)
        yield from (T.sub(u, low) for u, low in product(self.upper, self.lower))

    def expected(self, value: Expected) -> float:
        """Estimate how long it is; `value` is that of a term, where it can be told."""
        known = [n for n in map(value, self.limits) if n is not None]
        return max(0, min(known, default=math.inf))


def stretch(folds: Sequence[Term], ranges: Ranges, value: Expected, short: int) -> Stretch:
    """Return the interval that the filters of all folds leave of their index.

    Args:
        folds: over one index of the same extent.
        ranges: of the rows in a block.
        value: what a term is expected to be.
        short: intervals of fewer elements together are not cut.
    """
    domains = []
    for f in folds:
        (bound,), (condition, *_) = T.open_fold(f)
        domains.append(tuple(split(bound, condition).intervals))
    extent = T.extent_of(folds[0].attr.extents[0])
    if any(d != domains[0] for d in domains):
        return Stretch(extent)
    is_all = len(domains[0]) == 1
    intervals = [_widened(i, ranges, extent, is_all) for i in domains[0]]
    longest, *others = sorted(intervals, key=lambda s: -s.expected(value))
    return longest if sum(s.expected(value) for s in others) < short else Stretch(extent)


def _widened(i: Interval, ranges: Ranges, extent: Term, is_all: bool) -> Stretch:
    """Return the interval of a block of rows; bounds that do not follow from rows stay theirs."""
    lower = (extremes(t, ranges) for t in i.lower if _is_plain(t))
    upper = (extremes(t, ranges) for t in i.upper if _is_plain(t))
    return Stretch(extent, tuple(a for a, _ in lower), tuple(b for _, b in upper), is_all)


def _is_plain(t: Term) -> bool:
    """True if a term is computed from numbers, indices, and elements that are read at indices."""
    for s in T.subterms(t):
        if s.op == "floordiv" and not (s.args[1].op == "const" and s.args[1].attr > 0):
            return False  # a call may divide by 0
        is_element = s.op == "read" and all(a.op == "index" for a in s.args)
        if s.op not in _COMPUTED and not is_element:
            return False
    return True


def _maximum(a: Term, b: Term) -> Term:
    return T.function("maximum", a, b)


def _minimum(a: Term, b: Term) -> Term:
    return T.function("minimum", a, b)


def _needs(f: Term, others: Sequence[Term]) -> bool:
    """True if a fold takes results of the others, except its frame and centres that it moves
    with."""
    centred_sum = centred(f)
    own = set() if centred_sum is None else centred_sum.results()
    return any(t in others and t not in own for part in T.open_fold(f)[1] for t in T.subterms(part))


def can_be_split(folds: Sequence[Term]) -> bool:
    """True if all folds over a stream can be split, in one pass."""
    return all(map(_has_parts, folds)) and not any(_needs(f, folds) for f in folds)


def _has_parts(f: Term) -> bool:
    """True if partial results of a fold can be folded like any other elements."""
    if f.op != "fold" or len(f.attr.indices) != 1:
        return False
    return f.attr.monoid in _JOINED or isinstance(f.attr.monoid, T.UserMonoid)
