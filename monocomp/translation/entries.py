"""Monoids whose fields have indices, as monoids of numbers.

    monoid Mat(A[r,s]) = unit (where(r == s, 1, 0)), combine (sum[t](A[r,t] * A'[t,s]))

stands for the monoid of A_0_0, A_0_1, ..., the entries of A, with the sums over t written out. So
proofs, rewrites and kernels know fields that are numbers only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import product
from typing import Literal

from monocomp.declarations.record import record
from monocomp.errors import InternalError
from monocomp.language import syntax as S

_LONGEST = 48  # characters of a field that the names of its entries have


@record()
class Entry:
    """One number of a field: where it stands, and its name."""

    field: int
    position: tuple[int, ...]
    name: str


def entries_of(monoid: S.Monoid) -> list[Entry]:
    """Return the numbers that the elements of a monoid are made of, in row-major order; a field
    without indices is one."""
    fields = list(zip(monoid.fields, monoid.indices, strict=True))
    taken = {str(name) for name, indices in fields if not indices}
    entries = []
    for number, (name, indices) in enumerate(fields):
        for position in product(*(range(monoid.extents[i]) for i in indices)):
            entry = str(name)
            if indices:
                entry = "_".join((name[:_LONGEST], *map(str, position)))
                while entry in taken:
                    entry += "_"
                taken.add(entry)
            entries.append(Entry(number, position, entry))
    return entries


def of_numbers(monoid: S.Monoid) -> S.Monoid:
    """Return the monoid with its entries as fields."""
    if not monoid.extents:
        return monoid
    entries = entries_of(monoid)
    writer = _Writer(monoid, entries)

    def parts(of: Sequence[S.Expr]) -> tuple[S.Expr, ...]:
        return tuple(
            writer.at(dict(zip(monoid.indices[e.field], e.position, strict=True)), of[e.field])
            for e in entries
        )

    return S.Monoid(
        monoid.name,
        fields=tuple(S.Label(e.name, monoid.fields[e.field].span) for e in entries),
        unit=parts(monoid.unit),
        combine=parts(monoid.combine),
        indices=((),) * len(entries),
        span=monoid.span,
    )


class _Writer:
    """Writes parts of a declaration out, for values of its indices."""

    def __init__(self, monoid: S.Monoid, entries: Sequence[Entry]) -> None:
        self.extents = monoid.extents
        self.names = {(str(monoid.fields[e.field]), e.position): e.name for e in entries}

    def at(self, values: Mapping[str, int], node: S.Expr) -> S.Expr:
        match node:
            case S.Name(kind="index"):
                return S.Number(values[node.name], span=node.span)
            case S.Read():
                position = tuple(self._value(values, part) for part in node.subscripts)
                name = self.names[node.name.rstrip("'"), position]
                prime = "'" if node.name.endswith("'") else ""
                return S.Name(name + prime, "formal", span=node.span)
            case S.Reduce():
                ranges = (range(self.extents[i]) for i in node.indices)
                terms = (
                    self.at({**values, **dict(zip(node.indices, position, strict=True))}, term)
                    for position in product(*ranges)
                    for term in node.args
                )
                return reduce(_JOINED[node.op], terms)
        return S.with_children(node, (self.at(values, part) for part in S.children(node)))

    @staticmethod
    def _value(values: Mapping[str, int], subscript: S.Expr) -> int:
        match subscript:
            case S.Name():
                return values[subscript.name]
            case S.Number(value=int(number)):
                return number
        raise InternalError("a subscript that the checker should have refused")


def _binary(op: Literal["+", "*"]) -> Callable[[S.Expr, S.Expr], S.Expr]:
    return lambda a, b: S.Binary(op, a, b, span=a.span)


def _call(name: str) -> Callable[[S.Expr, S.Expr], S.Expr]:
    return lambda a, b: S.Call(name, (a, b), span=a.span)


_JOINED = {
    "sum": _binary("+"),
    "prod": _binary("*"),
    "max": _call("maximum"),
    "min": _call("minimum"),
}
