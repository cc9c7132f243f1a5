"""Sizes for a program that fit together.

Extents that are not given become small distinct primes, so that no two dimensions can be mistaken
for one another; what the program says of them is respected: declared extents, and subscripts that
must stay inside their tensor, found by interval arithmetic over the subscripts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from itertools import product
from typing import Any

from monocomp import terms as T
from monocomp.declarations.records import by_representative, free_extents
from monocomp.extents.intervals import Interval, interval
from monocomp.terms import Term
from monocomp.terms.equations import Equation, Equations

PRIMES = (2, 3, 5, 7, 11, 13, 17)
_SEARCHED = range(2, 13)  # extents tried where primes do not fit together
_ANY_INT = 7
_READS = ("read", "ref", "stored")


def complete_extents(
    program: Equations, given: Mapping[str, int], params: Mapping[str, Any] | None = None
) -> dict[str, int]:
    """The extent of every index: as given, as declared, or else small.

    Args:
        program: the program as it is written.
        given: extents by the name of an index.
        params: parameters that are not at their defaults.
    """
    return Sizes(program, given, params or {}).extents


def fits(program: Equations, extents: Mapping[str, int], params: Mapping[str, Any]) -> bool:
    """Do all computed subscripts stay inside their tensors at these sizes, filters or not?"""
    return Sizes(program, extents, params).fit


@dataclass(frozen=True)
class _Subscript:
    """A term where a tensor's dimension, with this extent, is subscripted."""

    extent: str
    term: Term


class Sizes:
    """Extents that fit together, by index and representative, and ranges of integer inputs."""

    def __init__(
        self, program: Equations, given: Mapping[str, int], params: Mapping[str, Any]
    ) -> None:
        self.program, self.declared = program, program.declared
        defaults = {name: at.default for name, at in self.declared.params.items()}
        self.params: dict[str, Any] = {**defaults, **params}
        self.terms = list(T.subterms(*(e.body for e in (*program.given, *program.equations))))
        self.subscripts = list(self._all_subscripts())
        self.compared = list(self._all_compared())
        self._choose(given)

    def at(self, given: Mapping[str, int]) -> Sizes:
        """Those of the same program for other given extents."""
        other = copy(self)
        other._choose(given)
        return other

    @property
    def fit(self) -> bool:
        """Do all computed subscripts stay inside their tensors, filters or not?"""
        return all(map(self.is_inside, self.subscripts))

    def _choose(self, given: Mapping[str, int]) -> None:
        self.known = by_representative(self.declared, given)
        fixed = frozenset(self.known)
        for number, name in enumerate(free_extents(self.declared)):
            self.known.setdefault(name, PRIMES[number % len(PRIMES)])
        self._settle()
        self._fit(fixed)
        self.extents = {
            name: self.known[root]
            for index, root in self.declared.extent_of.items()
            for name in (index, root)
        }

    def values(self, name: str) -> Interval:
        """The values that an integer input takes."""
        sizes = [
            self.known[at.extent]
            for at in self.subscripts
            if _is_element(at.term) and T.name_of(at.term) == name and at.extent in self.known
        ]
        if sizes:
            return 0, max(0, min(sizes) - 1)
        lengths = [self.known.get(e, _ANY_INT) for n, e in self.compared if n == name]
        return 0, min(lengths, default=_ANY_INT)

    def _settle(self) -> None:
        """Extents that follow from others: declared ones, and dimensions only computed reads use.

        Each may depend on another, so they are filled in until nothing changes.
        """
        roots = dict.fromkeys(self.declared.extent_of.values())
        made_up = [root for root in roots if root[0] == "."]
        waiting = [n for n in (*self.declared.bounds, *made_up) if n not in self.known]
        while waiting:
            left = [name for name in waiting if not self._follow(name)]
            if len(left) == len(waiting):  # what nothing decides
                self.known[left.pop(0)] = PRIMES[0]
            waiting = left

    def _follow(self, name: str) -> bool:
        if name in self.declared.bounds:
            found = self._range(self.declared.bounds[name])
            if found is None:
                return False
            self.known[name] = max(0, found[0])
            return True
        uses = [at.term for at in self.subscripts if at.extent == name]
        if all(map(_is_element, uses)):
            self.known[name] = PRIMES[-1]  # a gather: any size will do
            return True
        ranges = [self._range(t) for t in uses if not _is_element(t)]
        tops = [found[1] for found in ranges if found is not None]
        if len(tops) < len(ranges):
            return False
        self.known[name] = max(0, *tops) + 1
        return True

    # Fitting extents of named indices to computed subscripts

    def _fit(self, fixed: frozenset[str]) -> None:
        """Choose other small extents where a computed subscript would leave its tensor."""
        broken = [at for at in self.subscripts if not self.is_inside(at)]
        if not broken:
            return
        names = {name for at in broken for name in (at.extent, *self._mentioned(at.term))}
        movable = [name for name in free_extents(self.declared) if name in names - fixed][:3]
        before = dict(self.known)
        chosen = {name: before[name] for name in (*free_extents(self.declared), *fixed)}
        for choice in sorted(product(_SEARCHED, repeat=len(movable)), key=_simplicity):
            self.known = {**chosen, **dict(zip(movable, choice, strict=True))}
            self._settle()
            if all(map(self.is_inside, broken)):
                return
        self.known = before  # perhaps a filter guards the read

    def is_inside(self, at: _Subscript) -> bool:
        """Are all values of a subscript positions in its tensor, as far as can be told?"""
        found = self._range(at.term)
        return found is not None and found[0] >= 0 and found[1] < self.known[at.extent]

    def _mentioned(self, term: Term) -> set[str]:
        """Extents that a subscript depends on, definitions seen through."""
        found: set[str] = set()
        for t in T.subterms(term):
            if t.op == "extent":
                found.add(t.attr)
            elif t.op == "index":
                found.add(t.attr[1])
            elif t.op in ("ref", "stored"):
                found |= self._mentioned(self._equation(t).body)
        return found

    # What the program says

    def _equation(self, read: Term) -> Equation:
        return self.program.by_name[read.attr] if read.op == "ref" else read.attr

    def _all_subscripts(self) -> Iterator[_Subscript]:
        """Computed subscripts; a plain index is inside its tensor by itself."""
        for t in self.terms:
            if t.op in _READS:
                extents = (self._equation(t) if t.op == "ref" else t.attr).extents
                for _, subscript, extent in T.computed(t.args, extents):
                    yield _Subscript(extent, subscript)

    def _all_compared(self) -> Iterator[tuple[str, str]]:
        """Integer inputs that an index is compared with, such as len in k < len[b], and its
        extent."""
        for t in self.terms:
            if t.op == "compare":
                indices = [a.attr[1] for a in t.args if a.op == "index"]
                for a in filter(_is_element, t.args):
                    if indices and a.op == "read":
                        yield a.attr.name, indices[0]

    def _range(self, t: Term) -> Interval | None:
        return interval(t, self._range_of_leaf)

    def _range_of_leaf(self, t: Term) -> Interval | None:
        found = None
        match t.op:
            case "extent":
                found = self.known.get(t.attr)
            case "param":
                found = self.params[t.attr]
            case "index":
                size = self.known.get(t.attr[1])
                return None if size is None else (0, max(0, size - 1))
            case "read":
                return self.values(t.attr.name) if t.kind == "int" else None
            case "ref" | "stored":
                return self._range(self._equation(t).body)
        return (found, found) if isinstance(found, int) else None


def _is_element(t: Term) -> bool:
    """Is t a plain element of a tensor?"""
    return t.op in _READS


def _simplicity(choice: Iterable[int]) -> tuple[int, int]:
    sizes = list(choice)
    return len(sizes) - len(set(sizes)), sum(sizes)
