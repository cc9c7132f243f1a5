"""Equations: a program in index terms, the state that rewrites act on.

Equations own what they declare (`monocomp.declarations.records`) and mention no syntax.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, lru_cache, partial
from typing import TypeVar

from monocomp import terms as T
from monocomp.declarations.record import record
from monocomp.declarations.records import Declarations, Origin
from monocomp.display.formulas import Formula, listed
from monocomp.terms import Equation, Term
from monocomp.terms.abbreviation import Abbreviation, abbreviator
from monocomp.terms.printer import (
    Mark,
    Names,
    definition,
    definition_line,
    formula,
    show,
    show_monoid,
)

__all__ = ["Equation", "Equations", "Joined", "Slices", "Sorted", "in_order", "stored_in"]

V = TypeVar("V")


@record()
class Slices:
    """An index of which a part of a program sees a slice at a time.

    Attributes:
        whole: the extent that is sliced.
        part: the extent of a slice.
        start: the parameter for the position where a slice begins, if one is read.
        length: the length of a slice; the last may be shorter.
        read: inputs that are slices, with the tensor and the dimension of each.
        written: equations that are slices of outputs, with the output and the dimension of each.
        added: equations that each slice adds to.
        computed: the equations that are computed for each slice.
    """

    whole: str
    part: str
    start: str | None
    length: int
    read: Mapping[str, tuple[str, int]]
    written: Mapping[str, tuple[str, int]]
    added: frozenset[str]
    computed: frozenset[str]


@record()
class Joined:
    """An equation whose sum the kernel of another one adds up in memory, as it goes over indices
    of the equation: what each block of its rows comes to.

    Attributes:
        name: of the equation.
        beside: an equation of the kernel.
        streamed: the names of the indices, that of the outer loop first.
        rows: the name of that of the rows, over which the equation sums.
    """

    name: str
    beside: str
    streamed: tuple[str, ...]
    rows: str


@record()
class Sorted:
    """Equations for the positions of an input in the order of its elements, which a call sorts.

    Attributes:
        tensor: the input, of integers.
        kept: its dimensions of which each element has a list of its own.
        order: the equation of the positions, equal elements in their order.
        first, last: for each number where its elements begin in the list, and where they end.
    """

    tensor: str
    kept: tuple[int, ...]
    order: str
    first: str
    last: str

    @property
    def names(self) -> tuple[str, str, str]:
        """Return the names of the equations."""
        return self.order, self.first, self.last


@record()
class Equations:
    """A program in index terms: the state that rewrites act on.

    `declared` are its inputs, params, extents and outputs; `origin` is the text that it comes
    from, if it comes from one, for messages; `known` are names for readers: what inlined
    definitions were called; `sizes` are extents that are known, by representative, for choices
    that depend on them; `splits` are parameters that a backend sets to say into how many splits a
    stream is cut, by the extent of the splits; `views` are outputs that only lay out anew what
    another equation computes, in the same order: that one's name, by theirs; `slices` are what some
    are computed for, one after the other; `operands` are stored for products of matrices alone, in
    the dtype in which these take them; `joined` are sums that kernels of others add up; `sorted`
    are lists that a call sorts; `given` are the
    definitions of inputs that are given with one, each after those of them that it reads; `kept`
    are definitions that are not inlined, once that is decided; `as_written` gives what a text says,
    for sizes.
    """

    declared: Declarations[Term]
    equations: tuple[Equation, ...]
    origin: Origin = field(default=Origin(), compare=False)
    known: tuple[Abbreviation, ...] = field(default=(), compare=False)
    sizes: Mapping[str, int] = field(default_factory=dict, compare=False)
    splits: Mapping[str, str] = field(default_factory=dict, compare=False)
    views: Mapping[str, str] = field(default_factory=dict, compare=False)
    slices: Slices | None = None
    operands: frozenset[str] = frozenset()
    joined: tuple[Joined, ...] = ()
    sorted: tuple[Sorted, ...] = ()
    given: tuple[Equation, ...] = ()
    kept: frozenset[str] | None = field(default=None, compare=False)
    as_written: Callable[[Mapping[str, int]], Equations] | None = field(default=None, compare=False)

    def of_dtypes(self, dtypes: Mapping[str, str]) -> Equations:
        """Return the program for inputs of dtypes, as far as they are known."""
        return replace(self, declared=self.declared.of_dtypes(self.with_slices(dtypes)))

    def with_slices(self, known: Mapping[str, V]) -> dict[str, V]:
        """Return properties of inputs by name, together with those of their slices."""
        read = {} if self.slices is None else self.slices.read
        return {**known, **{s: known[t] for s, (t, _) in read.items() if t in known}}

    def read_by(self, e: Equation) -> set[str]:
        """Return the names of the equations whose values, or slices of them, another reads."""
        names = {s.name for s in stored_in(e.body)} - self.in_lists
        if self.slices is not None:
            inputs = {t.attr.name for t in T.subterms(e.body) if t.op == "read"}
            tensors = {t for s, (t, _) in self.slices.read.items() if s in inputs}
            names |= tensors & self.by_name.keys()
        return names

    def at(self, sizes: Mapping[str, int]) -> Equations:
        """Return the program as it is written, for sizes by representative.

        A fold over an extent of 0 admits nothing: simplification takes extents to be at least 1.
        """
        if self.as_written is not None:
            return replace(self.as_written(sizes), declared=self.declared, kept=self.kept)
        empty = frozenset(e for e, size in sizes.items() if size == 0)
        drop = T.transform(partial(_without_elements, empty=empty))
        return replace(self.map(drop), sizes=sizes)

    @cached_property
    def monoids(self) -> tuple[T.UserMonoid, ...]:
        """Return the monoids, other than the language's own, that the equations fold with."""
        terms = T.subterms(*(e.body for e in (*self.given, *self.equations)))
        monoids = {t.attr.monoid for t in terms if t.op in ("fold", "fold_at")}
        own = (m for m in monoids if isinstance(m, T.UserMonoid))
        return tuple(sorted(own, key=lambda m: m.name))

    @cached_property
    def by_name(self) -> dict[str, Equation]:
        """Return equations by the name on the left."""
        return {e.name: e for e in self.equations}

    @property
    def outputs(self) -> tuple[Equation, ...]:
        """Return the equations of the outputs, in order."""
        return tuple(self.by_name[o.name] for o in self.declared.outputs)

    @cached_property
    def computed(self) -> tuple[Equation, ...]:
        """Return the equations that kernels store, each after those that it reads."""
        sliced = self.slices.read.values() if self.slices is not None else ()
        late = {o.name for o in self.declared.outputs} - {tensor for tensor, _ in sliced}
        others = tuple(e for e in self.equations if e.name not in late | self.in_lists)
        return in_order(others + self.outputs)

    @property
    def in_lists(self) -> set[str]:
        """Return the names of the equations of sorted lists, which no kernel computes."""
        return {name for s in self.sorted for name in s.names}

    def map(self, f: Callable[[Term], Term]) -> Equations:
        """Apply f to the right-hand sides."""
        return replace(self, equations=tuple(replace(e, body=f(e.body)) for e in self.equations))

    def with_given(self, equation: Equation) -> Equations:
        """Replace the definition of an input that is given with one by another form of it."""
        changed: dict[Equation, Equation] = {}
        for e in self.given:  # each after those that it reads
            body = T.mapping_stored(changed)(e.body)
            changed[e] = equation if e.name == equation.name else replace(e, body=body)
        read = T.mapping_stored(changed)
        names = (replace(a, body=read(a.body)) for a in self.known)
        program = replace(self, given=tuple(changed.values()), known=tuple(names))
        return program.map(read)

    def map_refs(self, names: Iterable[str], f: Callable[[Term], Term]) -> Equations:
        """Apply f to the elements of definitions, also in those of given inputs."""
        mapped = T.mapping_refs(names, f)
        program = self
        for n in range(len(self.given)):
            given = program.given[n]
            if (body := mapped(given.body)) is not given.body:
                program = program.with_given(replace(given, body=body))
        return program.map(mapped)

    def changed(self, later: Equations) -> tuple[str, ...]:
        """Return the names of the equations whose right-hand sides a later form has changed."""
        pairs = zip(self.equations, later.equations, strict=True)
        return tuple(old.name for old, new in pairs if old.body is not new.body)

    @cached_property
    def _taken(self) -> frozenset[str]:
        return frozenset((*self.declared.inputs, *self.declared.params, *self.by_name))

    def names(self) -> Names:
        """Return the names that printing must not give to bound indices."""
        return Names(self._taken)

    def reader_names(self, whole: Term | None = None, of: str = "") -> Names:
        """Return names that abbreviate known subterms, except `whole` itself and, in the equation
        `of` a name, its own body."""
        names = self.names()
        names.abbreviate = abbreviator([a for a in self.known if a.name != of], whole)
        return names

    def shown(self, t: Term) -> Formula:
        """Return a term for readers, with the names that the program gives its parts."""
        return formula(t, self.reader_names(t))

    def shown_names(self, *stored: Equation) -> Formula:
        """Return the left-hand sides of equations, for readers."""
        names = self.reader_names()
        return listed((formula(T.stored(e, e.indices), names) for e in stored), ", ")

    def readable_lines(self) -> list[str]:
        """Print like `lines`, with known names, and their definitions before them."""
        return list(map(str, self.readable()))

    def readable(self, mark: Mark | None = None) -> list[Formula]:
        """Return the lines for readers as formulas, with marks around parts."""
        formulas = [self.readable_equation(e, mark) for e in (*self.given, *self.equations)]
        lines = list(map(str, formulas))
        shown = {*self.by_name}
        for a in self.known:  # those that came later stand for what has earlier ones in it
            used = any(f"{a.name}[" in line.split("=", 1)[1] for line in lines)
            if used and a.name not in shown:
                shown.add(a.name)
                names = self.reader_names(a.body)
                names.mark = mark
                formulas.insert(0, definition(a.name, names.of_all(a.indices), a.body, names))
                lines.insert(0, str(formulas[0]))
        return formulas

    def readable_equation(self, e: Equation, mark: Mark | None = None) -> Formula:
        """Return an equation for readers, with marks around parts."""
        names = self.reader_names(of=e.name)
        names.mark = mark
        shown = definition(e.name, (i.name for i in e.indices), e.body, names)
        return Formula("given", (shown,)) if e.given else shown

    def lines(self, names: Names | None = None) -> list[str]:
        """Print each equation as a line, without declarations."""
        names = names or self.names()
        return [_line(e, names) for e in self.equations]

    def text(self) -> str:
        """Print a complete program of the language; parsing it gives the same equations."""
        declared = self.declared
        names = self.names()
        names.extents_of = self._extents_of
        given = {e.name: e for e in self.given}
        out: list[str] = []
        after: dict[int, list[str]] = {-1: out}  # what reads a definition comes after it
        positions = {e.name: n for n, e in enumerate(self.equations)}
        for e in self.given:
            above = (positions[n] for n in _names_read(e.body) if n in positions)
            positions[e.name] = max(above, default=-1)
        for i in declared.inputs.values():
            # The name that comes first in a text stands for the extent, so it is said first.
            labels: list[str] = []
            for d in i.dims:
                name = declared.extent_of[d]
                labels.append(d if name in (*i.dims, *labels) else name)
            labels = [name.lstrip(".") for name in labels]
            if i.name in given:
                e = _called(given[i.name], labels)
                position = after.setdefault(positions[i.name], [])
                position.append(f"input {definition_line(e.name, labels, e.body, names)}")
                position += [f"index {n} < |{n}|" for n in labels if n not in e.body.free]
                continue
            dims = ",".join(labels)
            kind = "" if i.kind == "float" else f": {i.kind}"
            out.append(f"input {i.name}[{dims}]{kind}" if i.dims else f"input {i.name}{kind}")
        for p in declared.params.values():
            default = "" if p.default is None else f" = {p.default!r}"
            out.append(f"param {p.name}: {p.kind}{default}")
        for name, bound in declared.bounds.items():
            out.append(f"index {name.lstrip('.')} < {show(bound)}")
        lines = self.lines(names)
        indices = dict(i.attr for e in self.equations for i in e.indices) | names.bound
        for name, extent in indices.items():
            if name not in names.read and name != extent.lstrip("."):
                out.append(f"index {name} < |{extent.lstrip('.')}|")
        out += [show_monoid(m) for m in self.monoids]
        for n, line in enumerate(lines):
            out += [line, *after.get(n, ())]
        results = ", ".join(o.name + (f": {o.dtype}" if o.dtype else "") for o in declared.outputs)
        return "\n".join([*out, f"return {results}"]) + "\n"

    def _extents_of(self, t: Term) -> Sequence[str]:
        """Return the extents of the dimensions of a tensor that is read."""
        return (self.by_name[t.attr] if t.op == "ref" else t.attr).extents

    def written(self) -> str:
        """Return the text that the equations come from, with monoids that it does not declare, or
        else a text that gives them."""
        if self.as_written is None:
            return self.text()
        others = (m for m in self.monoids if m.name not in self.origin.spans)
        return "\n".join([*map(show_monoid, others), self.origin.text])

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _line(e: Equation, names: Names) -> str:
    return definition_line(e.name, (i.name for i in e.indices), e.body, names)


def _called(e: Equation, labels: Sequence[str]) -> Equation:
    """Rename the indices of an equation."""
    indices = tuple(T.index(label, i.extent) for label, i in zip(labels, e.indices, strict=True))
    return replace(e, indices=indices, body=T.element(e, indices))


def _without_elements(t: Term, empty: frozenset[str]) -> Term | None:
    """Return a fold over an empty extent as one that admits nothing; None for other terms."""
    if t.op not in ("fold", "fold_at") or empty.isdisjoint(t.attr.extents):
        return None
    opened, (_, *bodies) = T.open_fold(t)
    return T.refold(t, T.FALSE, *bodies, opened=opened)


@lru_cache(maxsize=4096)
def stored_in(t: Term) -> frozenset[Equation]:
    """Return the equations whose values a term reads where a kernel has stored them."""
    return frozenset(s.attr for s in T.subterms(t) if s.op == "stored" and not s.attr.given)


@lru_cache(maxsize=4096)
def _names_read(t: Term) -> frozenset[str]:
    """Return the names of the definitions whose values a term reads, stored or not."""
    return t.names | {s.attr.name for s in T.subterms(t) if s.op == "stored"}


def in_order(equations: Sequence[Equation]) -> tuple[Equation, ...]:
    """Sort equations, each after those of them that it reads."""
    by_name = {e.name: e for e in equations}
    ordered: dict[str, Equation] = {}

    def put(e: Equation) -> None:
        if e.name in ordered:
            return
        for name in sorted(_names_read(e.body)):
            if name in by_name:
                put(by_name[name])
        ordered[e.name] = e

    for e in equations:
        put(e)
    return tuple(ordered.values())
