"""Lists: where lengths are data, rows have splits by their lengths, and a list of all splits.

How much a filter such as `k < length[b]` leaves of a stream only a call says, for each b anew.
As many splits for each would be long for one and short for another, and what waits for the longest
is idle. So splits are about as long for all. Where u[b] is how many units a row has, and there are
to be n splits in all, a row is cut into equal ones, one for each share of units or part of it:

    share    = cdiv(sum[b](u[b]), n)
    count[b] = cdiv(u[b], share)

They stand in one list, those of one row after those of another, the longest first: processors take
the shortest last, and end together (Graham, Bounds on multiprocessing timing anomalies, 1969). A
row begins where those before it end:

    key[b]   = |b| * cdiv(u[b], count[b]) - b
    first[b] = sum[c if key[b] < key[c]](count[c])
    last[b]  = first[b] + count[b]

Which row a split w is of follows, and so does where a row finds its partial results:

    row[w]    = sum[b if first[b] <= w and w < last[b]](b)
    result[b] = fold[w if first[b] <= w and w < last[b]](partial[w])

The list has n + |b| places, which is enough, as cdiv(u, t) <= u / t + 1. Those that are left at its
end count as further splits of row 0, behind its stream: they hold nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from monocomp import terms as T
from monocomp.declarations.record import record
from monocomp.machine.gpus import HOPPER
from monocomp.planning.naming import Change
from monocomp.planning.stretches import Stretch
from monocomp.terms import Term
from monocomp.terms.equations import Equation

TURNS = HOPPER.turns
# So many rows a processor end as evenly as splits do, as half of their length is expected.
MANY_ROWS = 2 * TURNS


@record()
class Numbering:
    """Number the splits of a stream.

    Attributes:
        split: the index of all splits.
        number, count: which of its row's splits one is, and how many that row has.
        is_of_row: the condition that it is of a row.
        lists: equations that are computed before.
        rows: by the index of the rows that a list tells, that of a split's row.
    """

    split: Term
    number: Term
    count: Term
    is_of_row: Term
    lists: tuple[Equation, ...] = ()
    rows: Mapping[str, Term] = field(default_factory=dict)


def uneven_row(stretch: Stretch, rows: Iterable[Term], length: float, shortest: int) -> Term | None:
    """Return the row with which the length of an interval varies by data, if with no other.

    Args:
        stretch: the interval.
        rows: indices that may be the row.
        length: how long the interval may be: half of it is expected.
        shortest: elements of a split; fewer are not worth a program instance.
    """
    bounds = (*stretch.lower, *stretch.upper)
    is_by_data = any(s.op in T.READS for s in T.subterms(*bounds))
    if not is_by_data or length < 4 * TURNS * shortest:
        return None
    names = {n for b in bounds for n in b.free}
    return next((i for i in rows if names == {i.name}), None)


def equal_splits(change: Change, base: str, wanted: Term) -> Numbering:
    """Number splits of which each row has as many as are wanted."""
    split = change.bounded(f"{base}_split", wanted)
    return Numbering(split, split, T.extent_of(split.extent), T.TRUE)


def listed_splits(
    change: Change, base: str, count: Term, most: Term, row: Term, units: Term
) -> Numbering:
    """Number splits of which processors take some in turn, and one more for each row.

    Args:
        change: declares indices.
        base: what the stream is called.
        count: how many splits fill the device.
        most: how many of a row are worth it.
        row: the index of rows, which have some each.
        units: how long a row is.
    """
    number = T.mul(T.const(TURNS), count)
    wanted = T.function("minimum", number, T.mul(T.extent_of(row.extent), most))
    split = change.bounded(f"{base}_split", T.add(wanted, T.extent_of(row.extent)))
    place = change.bounded(f"{base}_place", T.extent_of(split.extent))
    other = T.index("@0", row.extent)

    def of_other(t: Term) -> Term:
        return T.substitute(t, {row.name: other})

    total = T.fold("sum", (other,), T.TRUE, of_other(units))
    share = Equation(change(f"{base}_share"), (), _cdiv(total, wanted))
    own = _cdiv(units, T.stored(share, ()))
    key = T.sub(T.mul(T.extent_of(row.extent), _cdiv(units, own)), row)
    before = T.fold("sum", (other,), T.compare("<", key, of_other(key)), of_other(own))
    first = Equation(change(f"{base}_first"), (row,), before)
    last = Equation(change(f"{base}_last"), (row,), T.add(before, own))

    def interval(of: Term) -> tuple[Term, Term]:
        return T.stored(first, (of,)), T.stored(last, (of,))

    rows = T.fold("sum", (other,), _is_within(place, *interval(other)), other)
    list_ = Equation(change(f"{base}_row"), (place,), rows)
    begin, end = interval(row)
    of_row = T.sub(split, begin), T.sub(end, begin), _is_within(split, begin, end)
    read = {row.name: T.stored(list_, (split,))}
    return Numbering(split, *of_row, (share, first, last, list_), read)


def _is_within(i: Term, begin: Term, end: Term) -> Term:
    return T.conjunction(T.compare("<=", begin, i), T.compare("<", i, end))


def _cdiv(a: Term, b: Term) -> Term:
    return T.floordiv(T.add(a, b, T.const(-1)), b)
