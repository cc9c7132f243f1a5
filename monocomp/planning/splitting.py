"""Splitting: a stream that too few rows share is cut into splits, folded side by side.

The fold over a disjoint union is the product of the folds. So what a filter leaves of a long
stream may be cut into splits; program instances of their own fold these, and store what they
carry; and one more kernel folds the partial results, with the same combine (Flash-Decoding: Dao
et al., 2023). Where rows differ in length, each has as many as it needs (`planning.lists`). For SE
a partial result is a mantissa and its frame, which is an element like any other. A sum about a
centre, a mean or a maximum, is taken about the centre of each split, and moved to the centre of all
by the binomial theorem (Chan, Golub and LeVeque, 1983).

Rows that read the same stream are first packed (`planning.packing`).

Both are equations like those before, with one more index: `k_split`, which split, and `k_splits`,
a parameter that a backend sets to how many splits fill its device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial, reduce
from typing import Any

from monocomp import terms as T
from monocomp.costs.holding import WORTHWHILE, saving_of
from monocomp.costs.roles import kernel_groups, rows_of, streamed_reads
from monocomp.declarations.records import Param
from monocomp.display.formulas import listed, name, sentence
from monocomp.errors import InternalError
from monocomp.extents.nominal import ROW_BLOCK
from monocomp.planning.lists import equal_splits, listed_splits
from monocomp.planning.naming import Change
from monocomp.planning.packing import Rows
from monocomp.planning.streams import Stream, long_stream
from monocomp.planning.stretches import can_be_split
from monocomp.rewrites.centred import Centred, Weights, centred
from monocomp.rewrites.frames import largest
from monocomp.rewriting.driver import Step
from monocomp.rewriting.rules import stated
from monocomp.terms import Term
from monocomp.terms.algebra import SE_PAIR, mantissa, settled, value_of
from monocomp.terms.equations import Equation, Equations
from monocomp.terms.printer import formula, show


def split(
    program: Equations,
    sizes: Mapping[str, int],
    processors: int,
    divides: bool = True,
    narrow: Set[str] = frozenset(),
) -> Iterator[Step]:
    """Yield the steps that pack few rows that share a stream, and cut the streams of kernels that
    would not fill a device.

    Args:
        program: equations in kernels.
        sizes: a number for every extent.
        processors: how many program instances a device runs side by side, at least.
        divides: are groups of rows taken to have the same number of rows?
        narrow: the inputs that hold floats of 8 bits.
    """
    start, seen = program, list[Sequence[Equation]]()
    while True:
        known = {**dict.fromkeys(program.declared.extent_of.values(), 1), **sizes}
        groups = (g for g in kernel_groups(program, known) if g not in seen)
        group = next((g for g in groups if all(e in start.equations for e in g)), None)
        if group is None:
            return
        seen.append(group)
        if program.slices is not None and group[0].name in program.slices.computed:
            continue  # each slice fills the device
        stream = long_stream(program, group, sizes, processors, divides, narrow)
        if stream is None:
            continue
        steps = list(_Splitting(program, group, stream).steps())
        if stream.is_weighed:
            saving = saving_of(program, steps[-1].program, sizes, stream.share)
            if saving.after >= WORTHWHILE * saving.before:
                continue
            steps[-1] = replace(steps[-1], cost=saving)
        yield from steps
        program = steps[-1].program


class _Splitting:
    def __init__(
        self,
        program: Equations,
        group: Sequence[Equation],
        stream: Stream,
    ) -> None:
        self.program, self.group = program, group
        self.folds, self.packed, self.stretch = stream.folds, stream.rows, stream.stretch
        self.extent: str = self.stretch.extent.attr
        self.rows = rows_of(group)
        self.change = Change(program)
        self.p: Term | None = None
        self.values: dict[str, Term] = {}
        self.group_of: dict[Term, Term] = {}
        self.is_cut, self.is_in_order = stream.is_cut, stream.is_in_order
        # One that goes over its elements one by one has no blocks.
        self.alignment = 1 if stream.is_of_products else ROW_BLOCK
        self.shortest, self.uneven = stream.shortest, stream.uneven
        self.reason = stream.reason

    def steps(self) -> Iterator[Step]:
        """Pack the rows, if that is worth it, and cut the stream, if that is."""
        return self.split_stream() if self.is_cut else self._only_packed()

    def _only_packed(self) -> Iterator[Step]:
        """Compute packed rows; the outputs are the same elements, where they can in the same
        order."""
        assert self.packed is not None
        self._pack(self.packed)
        stored: list[Equation] = []
        bodies = {e.name: self._stored("R", e.body, stored) for e in self.group}
        in_order = bodies.items() if self.is_in_order else ()
        laid_out = {name: body.attr.name for name, body in in_order}
        views = {**self.program.views, **laid_out}
        yield self.pack_rows(self._with(bodies, stored, views=views))

    @stated
    def split_stream(self) -> Iterator[Step]:
        """Fold the splits of a stream side by side, and then what they come to.

        Law:     the fold over a disjoint union is the product of the folds
        Claims:  the monoids of its folds, division with remainder, segments
        Needs:   no fold takes what others come to, but for centres that move with it
        """
        base = self.extent.lstrip(".")
        count = self.change(f"{base}_splits")
        self.change.params[count] = Param(count, "int", 8)
        self._number_splits(base, T.param(count, "int"))
        if self.packed is not None:
            self._pack(self.packed)
        start = self.program
        stored = list(self.splits.lists)
        bodies = {e.name: e.body for e in self.group}
        before = listed(formula(value_of(f), start.reader_names()) for f in self.folds)
        for f in _outermost_first(self.folds):
            old, new = self._merged(f, stored)
            bodies = {n: T.replace(body, old, new) for n, body in bodies.items()}
        splits = {**start.splits, self.split.extent: count}
        program = self._with(bodies, stored, splits=splits)
        names = program.reader_names()
        after = listed(formula(T.stored(e, e.indices), names) for e in stored)
        if self.p is not None:
            yield self.pack_rows(start)
        check = partial(can_be_split, self.folds)
        ends = before, sentence(after, f", folded over {self.split.name}")
        yield Step.of("split_stream", self._position, *ends, start, program, check, self.reason)

    def _number_splits(self, base: str, count: Term) -> None:
        """Give splits an index: so many of them for each row, or as many for all rows together."""
        most = self._most_splits()
        if self.uneven is None:
            self.splits = equal_splits(self.change, base, T.function("minimum", count, most))
        else:
            units = self.stretch.units(self.alignment)
            self.splits = listed_splits(self.change, base, count, most, self.uneven, units)
        self.split = self.splits.split
        self.values |= self.splits.rows

    @property
    def _position(self) -> tuple[str, ...]:
        return tuple(e.name for e in self.group)

    @stated
    def pack_rows(self, program: Equations) -> Step:
        """Return the step that packs the rows, to a program.

        Law:     indices i and j are one index p with `i = p // |j|` and `j = p % |j|`
        Claims:  division with remainder
        """
        assert self.packed is not None and self.p is not None
        rows = listed((name(i.name) for i, _ in self.packed.parts), ", ")
        after = formula(self.p, program.reader_names())
        return Step.of("pack_rows", self._position, rows, after, self.program, program)

    def _with(
        self, bodies: Mapping[str, Term], stored: Sequence[Equation], **others: Any
    ) -> Equations:
        """Return the program with other bodies, and with equations for what these read."""
        names = {e.name for e in stored}
        known = tuple(a for a in self.program.known if a.name not in names)
        return self.change.program(stored, bodies, known=known, **others)

    def _most_splits(self) -> Term:
        """Return how many splits are worth an instance, by what is known before a call."""
        unknown = {"index", "read"}  # to the host
        limits = [t for t in self.stretch.limits if not unknown & {s.op for s in T.subterms(t)}]
        length = reduce(partial(T.function, "minimum"), limits)
        if len(limits) > 1 or not self.stretch.is_all:
            length = T.function("maximum", length, T.const(int(not self.stretch.is_all)))
        rounded = T.add(length, T.const(self.shortest - 1))
        return T.floordiv(rounded, T.const(self.shortest))

    # --- rows -------------------------------------------------------------------------

    def _pack(self, rows: Rows) -> None:
        """Give p a name and an extent, and find what the packed indices are in it."""
        total = T.mul(*(extent for _, extent in rows.parts))
        self.p = self.change.bounded("_".join(i.name for i, _ in rows.parts), total)
        self.place: Term = T.const(0)
        inner: Term = T.const(1)
        for n, (i, extent) in reversed(list(enumerate(rows.parts))):
            value = T.floordiv(self.p, inner)
            self.values[i.name] = value if n == 0 else T.modulo(value, extent)
            own = i if extent is T.extent_of(i.extent) else T.modulo(i, extent)
            self.place = T.add(self.place, T.mul(own, inner))
            inner = T.mul(inner, extent)
        for quotient, h, size in rows.groups:
            dim = self._dimension(quotient)
            g = T.index(dim.lstrip("."), dim)
            self.group_of[quotient] = g
            self.values[h.name] = T.add(T.mul(size, g), self.values[h.name])

    def _dimension(self, subscript: Term) -> str:
        """Return the extent of the dimension that a subscript is of."""
        for r in T.subterms(*(r for f in self.folds for r in streamed_reads(f))):
            if r.op in T.READS and subscript in r.args:
                extent: str = r.attr.extents[r.args.index(subscript)]
                return extent
        raise AssertionError(f"no read has {subscript!r}")

    def _in_stored_rows(self, t: Term) -> Term:
        """Return a term of the program's rows in those of partial results."""
        for quotient, g in self.group_of.items():
            t = T.replace(t, quotient, g)
        return T.substitute(t, {n: v for n, v in self.values.items() if n in t.free})

    # --- folds ------------------------------------------------------------------------

    def _merged(self, f: Term, stored: list[Equation]) -> tuple[Term, Term]:
        """(a fold, the fold of its partial results), which are stored."""
        centred_sum = centred(f)
        if centred_sum is not None:
            return self._merged_about_centres(f, centred_sum, stored)
        (bound,), (condition, *elements) = T.open_fold(f)
        admitted = T.conjunction(condition, *self._piece(bound))
        monoid = f.attr.monoid
        if monoid is SE_PAIR:
            value, exponent = elements
            v = self._stored("L", mantissa(bound, admitted, value, exponent), stored)
            m = self._stored("M", largest(bound, admitted, exponent), stored)
            return T.field(f, "v"), mantissa(self.split, self.splits.is_of_row, v, m)
        partial_ = T.fold(monoid, (bound,), admitted, *elements)
        if isinstance(monoid, T.UserMonoid):
            fields = [self._stored(n, T.field(partial_, n), stored) for n in monoid.fields]
            return f, T.fold(monoid, (self.split,), self.splits.is_of_row, *fields)
        letter = "M" if monoid in ("max", "min") else "F"
        value = self._stored(letter, partial_, stored)
        return f, T.fold(monoid, (self.split,), self.splits.is_of_row, value)

    def _merged_about_centres(
        self, f: Term, centred_sum: Centred, stored: list[Equation]
    ) -> tuple[Term, Term]:
        """A split is summed about its own centre, and moved to the centre of all: sums over a
        split weigh powers of the distance between the two. A split of nothing weighs 0, wherever
        its centre is."""
        split = centred(self._in_split(f))
        if split is None:
            raise InternalError(f"the centre of a split is lost in {show(value_of(f))}")
        frame_of_split = None
        bound, condition, _, exponent = split.weights
        if exponent is not None:
            frame_of_split = self._stored("M", largest(bound, condition, exponent), stored)
            own, whole = split.exponent, centred_sum.exponent
            if own is not None and whole is not None:
                moved = T.sub(self._stored("C", own.centre, stored), whole.centre)
                frame_of_split = T.add(frame_of_split, moved)
            if f.attr.monoid == "max":
                return f, T.fold("max", (self.split,), self.splits.is_of_row, frame_of_split)
        moves = [
            T.sub(settled(self._stored("C", own.centre, stored)), unit.centre)
            for own, unit in zip(split.units, centred_sum.units, strict=True)
        ]
        total = T.ZERO
        for degrees, sum_ in split.degrees:
            weight = self._stored("L", sum_, stored)
            value = T.mul(weight, centred_sum.coefficient(degrees, moves))
            part = Weights(self.split, self.splits.is_of_row, value, frame_of_split)
            total = T.add(total, part.sum(T.ONE))
        return value_of(f), total

    def _in_split(self, f: Term) -> Term:
        """Return a fold over a split, with centres of this split."""
        (bound,), (condition, *elements) = T.open_fold(f)
        centred_sum = centred(f)
        results = set() if centred_sum is None else centred_sum.results()
        for g in _outermost_first(sorted(results, key=lambda g: g.key)):
            own = self._in_split(g)
            elements = [T.replace(e, g, own) for e in elements]
        admitted = T.conjunction(condition, *self._piece(bound))
        return T.fold(f.attr.monoid, (bound,), admitted, *elements)

    def _piece(self, bound: Term) -> tuple[Term, Term]:
        """Return the two conditions for an element to be in the split."""
        splits = self.splits
        return self.stretch.piece(bound, splits.number, splits.count, self.alignment)

    def _stored(self, letter: str, body: Term, stored: list[Equation]) -> Term:
        """Read a partial result; it is an equation of its own."""
        body = self._in_stored_rows(body)
        equation = next((e for e in stored if e.body is body), None)
        if equation is None:
            name = self.change(f"{letter}_{self.split.name if self.is_cut else 'rows'}")
            equation = Equation(name, self._indices(body), body)
            stored.append(equation)
        return T.stored(equation, (self._subscript(i) for i in equation.indices))

    def _indices(self, body: Term) -> tuple[Term, ...]:
        """Return rows, splits, columns. Splits that a list tells come first."""
        outer = list(dict.fromkeys(i for e in self.group for i in e.indices))
        rows = [i for i in outer if i in self.rows and i.name in body.free]
        columns = [i for i in outer if i not in self.rows and i.name in body.free]
        if self.p is not None:
            rows += [g for g in self.group_of.values() if g not in rows]
            rows.append(self.p)
        splits = [self.split] if self.is_cut else []
        parts = (rows, splits) if self.uneven is None else (splits, rows)
        return (*parts[0], *parts[1], *columns)

    def _subscript(self, i: Term) -> Term:
        """Return the subscript for an index of a partial result where that is read."""
        if self.p is None:
            return i
        if i is self.p:
            return self.place
        return next((q for q, g in self.group_of.items() if g is i), i)


def _outermost_first(folds: Iterable[Term]) -> list[Term]:
    """Return sums about centres before what their centres are made of."""
    return sorted(folds, key=lambda f: -sum(t.op == "fold" for t in T.subterms(f)))
