"""Packing: rows that a stream does not tell apart become one index.

The query heads that share a head of keys, and the few queries of each, are packed, so a block of
rows is full also when a decoder asks for one row a head, and the stream is read once for all of
them. Heads or queries that share what a list says to read are packed, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from monocomp import terms as T
from monocomp.costs.roles import rows_of, streamed_reads
from monocomp.declarations.record import record
from monocomp.machine.gpus import HOPPER
from monocomp.terms import Term
from monocomp.terms.equations import Equation

FEW_ROWS = HOPPER.direct_rows // 2  # fewer leave a block of rows mostly empty


@record()
class Rows:
    """Output indices that become one, `p`.

    Attributes:
        parts: the indices that p stands for, outermost first, with their extents as terms.
        groups: `h // c`, the index that it is, and c, for an index h = c * g + r.
    """

    parts: tuple[tuple[Term, Term], ...]
    groups: tuple[tuple[Term, Term, Term], ...]


def packed_rows(
    group: Sequence[Equation], folds: Sequence[Term], sizes: Mapping[str, int]
) -> Rows | None:
    """Return the rows that a stream does not tell apart, if packing them fills a block."""
    reads = list(dict.fromkeys(r for f in folds for r in streamed_reads(f)))
    largest = max((len(r.args) for r in reads), default=0)
    large = [r for r in reads if len(r.args) == largest]
    indices = dict.fromkeys(i for e in group for i in e.indices if i in rows_of(group))
    parts: list[tuple[Term, Term]] = []
    groups: list[tuple[Term, Term, Term]] = []
    for i in indices:
        quotient = _quotient(i, large)
        if quotient is not None:
            parts.append((i, quotient.args[1]))
            groups.append((quotient, i, quotient.args[1]))
        elif all(i.name not in r.free for r in large):
            parts.append((i, T.extent_of(i.extent)))
    few = [i for i, _ in parts if sizes[i.extent] <= FEW_ROWS]
    is_shared = len(parts) > 1 or bool(groups)
    if not is_shared or len(groups) > 1 or not (few or groups):
        return None
    return Rows(tuple(parts), tuple(groups))


def _quotient(i: Term, reads: Sequence[Term]) -> Term | None:
    """`i // c`, if that is how all reads depend on i: as a subscript, of lists of what to read,
    too."""
    divided: set[Term] = set()
    waiting = list(reads)
    while waiting:
        t = waiting.pop()
        for a in (a for a in t.args if i.name in a.free):
            is_quotient = a.op == "floordiv" and a.args[0] is i and not a.args[1].free
            if is_quotient and t.op in T.READS:
                divided.add(a)
            elif a is i:
                return None
            else:
                waiting.append(a)
    return divided.pop() if len(divided) == 1 else None


def are_in_order(group: Sequence[Equation], packed: Rows) -> bool:
    """True if packed rows lie as the outputs do: other rows, the packed indices, columns."""
    parts = [i.name for i, _ in packed.parts]
    grouped = [h.name for _, h, _ in packed.groups]
    rows = {i.name for i in rows_of(group)}
    for e in group:
        names = [i.name for i in e.indices]
        other_rows = [n for n in names if n in rows and n not in parts]
        columns = [n for n in names if n not in rows]
        if names != [*other_rows, *parts, *columns] or not e.body.free.issuperset(names):
            return False
    return grouped in ([], parts[:1])
