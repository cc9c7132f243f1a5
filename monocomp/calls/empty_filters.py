"""Filters that parameters leave nothing of: a window of 0, a length of -1.

An aggregate over nothing has a value, its unit, and for some rows that is meant. A filter
that admits no element for any row, whatever the tensors hold, is a mistake of the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import product

from monocomp import terms as T
from monocomp.declarations.record import record
from monocomp.errors import InputError
from monocomp.extents.domain import split
from monocomp.terms import Term
from monocomp.terms.equations import Equations
from monocomp.terms.printer import show

_EXTREMES = (-(1 << 39), 1 << 39)  # beyond all extents; sums of them are ints


@record()
class Filter:
    """The condition of a fold over these indices, and the parameters in it."""

    indices: tuple[Term, ...]
    condition: Term
    params: tuple[Term, ...]

    def admits_nothing(self, values: Mapping[str, int | float]) -> bool:
        """True if the filter is empty with these parameters, whatever else it depends on.

        A condition that mentions none of the indices switches the whole fold, and does not
        count. A range that is the same for all rows may be empty, as an axis may be, but must
        not end before it begins: such a range is still empty when it is moved up by one.
        """
        given = {p: T.const(int(values[p.attr])) for p in self.params}
        return any(self._is_empty(index, given) for index in self.indices)

    def _is_empty(self, index: Term, given: Mapping[Term, Term]) -> bool:
        name, bound = index.name, {i.name for i in self.indices}
        conditions = [c for c in T.conjuncts(self.condition) if name in c.free]
        if all(c.free <= bound for c in conditions):
            before = {name: T.sub(index, T.const(1))}
            conditions = [T.substitute(c, before) for c in conditions]
        else:
            conditions = [T.conjunction(*conditions)]
        for param, value in given.items():
            conditions = [T.replace(c, param, value) for c in conditions]
        nothing = (T.const(0),)
        return any(all(i.upper == nothing for i in split(index, c).intervals) for c in conditions)


class Filters:
    """The filters of a program that values of its integer parameters can empty."""

    def __init__(self, program: Equations) -> None:
        self.program = program
        self._passed: tuple[int | float, ...] | None = None

    @cached_property
    def filters(self) -> tuple[Filter, ...]:
        """Return each once."""
        found = (_with_deciding_params(f) for f in dict.fromkeys(self._all()))
        return tuple(f for f in found if f.params)

    def _all(self) -> Iterator[Filter]:
        for t in T.subterms(*(e.body for e in self.program.equations)):
            if t.op in ("fold", "fold_at"):
                can_be_named = t.free.isdisjoint(t.attr.extents)
                named = T.open_as(t, t.attr.extents) if can_be_named else T.open_fold(t)
                indices, (condition, *_) = named
                params = (p for p in T.subterms(condition) if p.op == "param" and p.kind == "int")
                yield Filter(indices, condition, tuple(params))

    @cached_property
    def params(self) -> tuple[str, ...]:
        """Return the parameters that decide whether they are empty."""
        return tuple(dict.fromkeys(p.attr for f in self.filters for p in f.params))

    def have_admitted(self, params: Mapping[str, int | float]) -> bool:
        """True if these values were the last to pass `check`."""
        return self._passed is not None and self._passed == self._values(params)

    def _values(self, params: Mapping[str, int | float]) -> tuple[int | float, ...]:
        return tuple(params[n] for n in self.params)

    def check(self, params: Mapping[str, int | float]) -> None:
        """Refuse values with which a filter is empty.

        Raises:
            InputError: nothing passes a filter in any row, or it ends before the first element.
        """
        for f in self.filters:
            if f.admits_nothing(params):
                names = [p.attr for p in f.params]
                listed = " and ".join(f"{n} = {params[n]}" for n in names)
                raise InputError(
                    f"with {listed} nothing passes the filter {show(f.condition)}",
                    help=f"give another value of {' or '.join(names)}",
                )
        self._passed = self._values(params)


def _with_deciding_params(f: Filter) -> Filter:
    """Return the filter with those of its parameters whose extremes empty it, or do not."""
    found = {}
    for values in product(_EXTREMES, repeat=len(f.params)):
        given = {p.attr: n for p, n in zip(f.params, values, strict=True)}
        found[values] = f.admits_nothing(given)
    low, high = _EXTREMES
    deciding = [
        p
        for n, p in enumerate(f.params)
        if any(v[n] == low and e != found[*v[:n], high, *v[n + 1 :]] for v, e in found.items())
    ]
    return replace(f, params=tuple(deciding))
