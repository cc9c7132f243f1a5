"""Sizes for a program that fit together.

Extents that are not given become small distinct primes, so that no two dimensions can be mistaken
for one another. The program is respected: declared extents, and subscripts that must stay inside
their tensor, found by interval arithmetic over the subscripts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from itertools import product
from typing import Any, NamedTuple

from monocomp import terms as T
from monocomp.declarations.records import by_representative, free_extents
from monocomp.extents.intervals import Interval, interval
from monocomp.terms import Term
from monocomp.terms.equations import Equations

PRIMES = (2, 3, 5, 7, 11, 13, 17)
_SEARCHED = range(2, 13)  # extents tried where primes do not fit together
_ANY_INT = 7
_READS = ("read", "ref", "stored")


def complete_extents(
    program: Equations, given: Mapping[str, int], params: Mapping[str, Any] | None = None
) -> dict[str, int]:
    """Return the extent of every index: as given, as declared, or else small.

    Args:
        program: the program as it is written.
        given: extents by the name of an index.
        params: parameters that are not at their defaults.
    """
    return Sizes(program, given, params or {}).extents


def fits(program: Equations, extents: Mapping[str, int], params: Mapping[str, Any]) -> bool:
    """True if all computed subscripts stay inside their tensors at these sizes, filters or not."""
    return Sizes(program, extents, params).fit


class _Subscript(NamedTuple):
    """A computed subscript of a tensor's dimension, which has this extent. A plain index is inside
    its tensor by itself."""

    extent: str
    term: Term

    @property
    def is_element(self) -> bool:
        """True if it is a plain element of a tensor."""
        return self.term.op in _READS


class Sizes:
    """Extents that fit together, by index and representative, and ranges of integer inputs."""

    def __init__(
        self, program: Equations, given: Mapping[str, int], params: Mapping[str, Any]
    ) -> None:
        self.program, self.declared = program, program.declared
        defaults = {name: at.default for name, at in self.declared.params.items()}
        self.params: dict[str, Any] = {**defaults, **params}
        self.terms = list(T.subterms(*(e.body for e in (*program.given, *program.equations))))
        self.subscripts = [
            _Subscript(extent, subscript)
            for t in self.terms
            if t.op in _READS
            for _, subscript, extent in T.computed(t.args, self._declared_at(t).extents)
        ]
        self._choose(given)

    def at(self, given: Mapping[str, int]) -> Sizes:
        """Return the sizes of the same program for other given extents."""
        other = copy(self)
        other._choose(given)
        return other

    @property
    def fit(self) -> bool:
        """True if all computed subscripts stay inside their tensors, filters or not."""
        return all(map(self.is_inside, self.subscripts))

    def is_inside(self, at: _Subscript) -> bool:
        """True if all values of a subscript are positions in its tensor, as far as is known."""
        values = self._range(at.term)
        return values is not None and values[0] >= 0 and values[1] < self.known[at.extent]

    def values(self, name: str) -> Interval:
        """Return the values that an integer input takes: positions, lengths, or any."""
        sizes = [
            self.known[at.extent]
            for at in self.subscripts
            if at.is_element and T.name_of(at.term) == name and at.extent in self.known
        ]
        if sizes:
            return 0, max(0, min(sizes) - 1)
        return 0, min(map(self.known.__getitem__, self._compared_with(name)), default=_ANY_INT)

    def _compared_with(self, name: str) -> Iterator[str]:
        """Yield the known extents of indices that an input is compared with: k < len[b]."""
        for t in self.terms:
            indices = [a.extent for a in t.args if a.op == "index" and t.op == "compare"]
            if indices and any(a.op == "read" and a.attr.name == name for a in t.args):
                yield from (e for e in indices[:1] if e in self.known)

    # Extents

    def _choose(self, given: Mapping[str, int]) -> None:
        """Choose primes, or small extents by search where a subscript would leave its tensor."""
        fixed, free = by_representative(self.declared, given), free_extents(self.declared)
        primes = {name: PRIMES[n % len(PRIMES)] for n, name in enumerate(free)}
        self._settle({**primes, **fixed})
        broken = [at for at in self.subscripts if not self.is_inside(at)]
        if broken:
            names = {name for at in broken for name in (at.extent, *self._mentioned(at.term))}
            movable = [name for name in free if name in names and name not in fixed][:3]
            for choice in sorted(product(_SEARCHED, repeat=len(movable)), key=_simplicity):
                self._settle({**primes, **fixed, **dict(zip(movable, choice, strict=True))})
                if all(map(self.is_inside, broken)):
                    break
            else:  # perhaps a filter guards the read
                self._settle({**primes, **fixed})
        roots = self.declared.extent_of
        self.extents = {
            name: self.known[roots.get(name, name)] for p in roots.items() for name in p
        }

    def _settle(self, known: Mapping[str, int]) -> None:
        """Set extents that follow from others: declared ones, and dimensions that only computed
        subscripts have. Each may depend on another, so they are set until none is left."""
        self.known = dict(known)
        made_up = [root for root in self.declared.extent_of.values() if root[0] == "."]
        waiting = [n for n in dict.fromkeys((*self.declared.bounds, *made_up)) if n not in known]
        while waiting:
            for name in waiting:
                if (size := self._following(name)) is not None:
                    self.known[name] = size
            if all(name not in self.known for name in waiting):
                self.known[waiting[0]] = PRIMES[0]  # nothing decides it
            waiting = [name for name in waiting if name not in self.known]

    def _following(self, name: str) -> int | None:
        if name in self.declared.bounds:
            bound = self._range(self.declared.bounds[name])
            return None if bound is None else max(0, bound[0])
        ranges = [
            self._range(at.term)
            for at in self.subscripts
            if at.extent == name and not at.is_element
        ]
        if not ranges:
            return PRIMES[-1]  # a gather: any size will do
        tops = [values[1] for values in ranges if values is not None]
        return max(0, *tops) + 1 if len(tops) == len(ranges) else None

    # Terms

    def _declared_at(self, read: Term) -> Any:
        """Return the equation, or else the tensor, that a term reads."""
        return self.program.by_name[read.attr] if read.op == "ref" else read.attr

    def _mentioned(self, term: Term) -> Iterator[str]:
        """Yield extents that a subscript depends on, definitions seen through."""
        for t in T.subterms(term):
            if t.op in ("extent", "index"):
                yield t.attr if t.op == "extent" else t.extent
            elif t.op in ("ref", "stored"):
                yield from self._mentioned(self._declared_at(t).body)

    def _range(self, t: Term) -> Interval | None:
        return interval(t, self._range_of_leaf)

    def _range_of_leaf(self, t: Term) -> Interval | None:
        match t.op:
            case "index":
                size = self.known.get(t.extent)
                return None if size is None else (0, max(0, size - 1))
            case "read":
                return self.values(t.attr.name) if t.kind == "int" else None
            case "ref" | "stored":
                return self._range(self._declared_at(t).body)
        number = {"extent": self.known, "param": self.params}.get(t.op, {}).get(t.attr)
        return (number, number) if isinstance(number, int) else None


def _simplicity(choice: Iterable[int]) -> tuple[int, int]:
    sizes = list(choice)
    return len(sizes) - len(set(sizes)), sum(sizes)
