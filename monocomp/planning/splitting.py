"""Splitting: a stream that too few rows share is cut into splits, folded side by side.

The fold over a disjoint union is the product of the folds. So what a filter leaves of a long
stream may be cut into splits; program instances of their own fold these, and store what they
carry; and one more kernel folds the partial results, with the same combine (Flash-Decoding: Dao
et al., 2023). For SE a partial result is a mantissa and its frame, which is an element like any
other. A sum about a centre, a mean or a maximum, is taken about the centre of each split, and
moved to the centre of all by the binomial theorem (Chan, Golub and LeVeque, 1983).

Rows that read the same stream are first packed (`planning.packing`).

Both are equations like those before, with one more index: `k_split`, which split, and `k_splits`,
a parameter that a backend sets to how many splits fill its device.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial, reduce

from monocomp import terms as T
from monocomp.costs.holding import saving_of, saving_of_splits
from monocomp.costs.roles import (
    choose_roles,
    fits_whole,
    kernel_groups,
    rows_of,
    scan_of,
    streamed_reads,
)
from monocomp.declarations.record import record
from monocomp.declarations.records import Param
from monocomp.errors import InternalError
from monocomp.extents.intervals import evaluated
from monocomp.extents.nominal import MIN_DOT
from monocomp.planning.naming import NewNames
from monocomp.planning.packing import FEW_ROWS, Rows, are_in_order, packed_rows
from monocomp.planning.storing import WORTHWHILE
from monocomp.planning.stretches import Stretch, can_be_split, stretch
from monocomp.planning.trials import keep_cheaper
from monocomp.rewrites.centred import Centred, centred, weighted_sum
from monocomp.rewrites.frames import largest
from monocomp.rewrites.products import largest_sides
from monocomp.rewrites.pullback import passes
from monocomp.rewrites.single_folds import is_fold
from monocomp.rewriting.driver import Step
from monocomp.rewriting.rules import stated
from monocomp.terms import Term
from monocomp.terms.algebra import SE_PAIR, is_selection, mantissa, settled, value_of
from monocomp.terms.equations import Equation, Equations, in_order
from monocomp.terms.monomials import factors
from monocomp.terms.printer import show
from monocomp.tile import Axis

SHORTEST_SPLIT = 256  # elements: less is not worth a program instance of its own
ALIGNMENT = 128  # splits begin where blocks do
ROWS = 64  # that a program instance takes, where there are enough
PRODUCT_ROWS = 128  # the same, for elements that are products too long to be held entirely
# Conversions take more of a warp than products do. Where rows fill one tile of a product, several
# warps would share its columns, and wait for each other at each block: so each is an instance.
_WARPS = 8  # of a processor


def split(
    program: Equations,
    sizes: Mapping[str, int],
    processors: int,
    *,
    divides: bool = True,
    narrow: Set[str] = frozenset(),
) -> tuple[Equations, list[Step]]:
    """Pack few rows that share a stream, and cut the streams of kernels that would not fill a
    device.

    Args:
        program: equations in kernels, as `cut` leaves them.
        sizes: a number for every extent.
        processors: how many program instances a device runs side by side, at least.
        divides: are groups of rows taken to have the same number of rows?
        narrow: the inputs that hold floats of 8 bits.

    Returns:
        The program with equations for partial results, and the steps to it.
    """

    def tried(program: Equations, group: Sequence[Equation]) -> list[Step]:
        if program.slices is not None and group[0].name in program.slices.computed:
            return []  # each slice fills the device
        stream = _long_stream(program, group, sizes, processors, divides, narrow)
        if stream is None:
            return []
        steps = list(_Splitting(program, group, sizes, stream).steps())
        if stream.is_for_products and not stream.is_cut:
            saving = saving_of(program, steps[-1].program, sizes)
            steps[-1] = replace(steps[-1], cost=saving)
        if stream.is_of_products and stream.is_cut:
            # Idle processors are no reason to leave tiles, and sum these products by element.
            saving = saving_of_splits(program, steps[-1].program, sizes, stream.share)
            steps[-1] = replace(steps[-1], cost=saving)
        return steps

    groups = kernel_groups(program, sizes)
    after, steps = keep_cheaper(program, groups, tried, WORTHWHILE)
    if not steps:
        return after, steps
    # What is left of a kernel of which a part was split.
    known = {**dict.fromkeys(after.declared.extent_of.values(), 1), **sizes}
    rest = [g for g in kernel_groups(after, known) if g not in groups]
    rest = [g for g in rest if all(e in program.equations for e in g)]
    after, more = keep_cheaper(after, rest, tried, WORTHWHILE)
    return after, steps + more


@record()
class _Stream:
    """A long stream: whether it is cut, or only the rows that share it are packed.

    Attributes:
        folds: those over the stream.
        rows: to be packed, if that is worth it.
        stretch: the interval of the stream that filters leave.
        is_cut: whether it is cut; if not, the rows fill the device once they are packed.
        is_in_order: do packed rows lie as the outputs do?
        is_for_products: has the kernel no rows but packed ones, and so no product of tiles?
        reason: why it is cut, if it is.
        share: the part of the processors that would have work if it were not cut.
        is_of_products: is each element a product of matrices for itself?
        shortest: elements of a split; fewer are not worth a program instance.
    """

    folds: tuple[Term, ...]
    rows: Rows | None
    stretch: Stretch
    is_cut: bool
    is_in_order: bool = False
    is_for_products: bool = False
    reason: str = ""
    share: float = 1.0
    is_of_products: bool = False
    shortest: int = SHORTEST_SPLIT


def _long_stream(
    program: Equations,
    group: Sequence[Equation],
    sizes: Mapping[str, int],
    processors: int,
    divides: bool,
    narrow: Set[str],
) -> _Stream | None:
    """Return the stream to cut: the longest one, if there is reason to and it can be."""
    loops = passes([e.body for e in group], partial(_is_loop, names=_names(group)), {})
    if not loops or scan_of(group) is not None:
        return None
    longest = max((p.extent for p in loops), key=sizes.__getitem__)
    folds = [f for p in loops if p.extent == longest for f in p.folds]
    if not can_be_split(folds):
        return None
    others = [f for p in loops if p.extent != longest for f in p.folds]
    if any(_holds_loop(f, longest) for f in others):
        return None  # it is streamed inside of another loop too
    roles = choose_roles(group, partial(fits_whole, sizes=sizes))
    if any(a.role == "stream" for a in roles.values()):
        return None  # an output along the stream takes all of it
    is_long = any(not fits_whole(e, sizes) for f in folds for e in f.folded - {longest})
    inside = set(T.subterms(*(e.body for e in group)))  # a frame may be in none
    folds = [f for f in folds if f in inside]
    rows = [T.index(a.name, a.extent) for a in roles.values() if a.role == "row"]
    packed = packed_rows(group, folds, sizes)
    inner = min(map(partial(_length_of_products, sizes=sizes), folds), default=0)
    shortest = max(1, SHORTEST_SPLIT // inner) if inner else SHORTEST_SPLIT
    if sizes[longest] < 2 * shortest and (rows or packed is None):
        return None
    varying = rows if packed is None else [*rows, *(i for i, _ in packed.parts)]
    value = partial(evaluated, extents=sizes, params=_defaults(program))
    found = stretch(folds, {i.name: _block(i, sizes) for i in varying}, value, shortest)
    few = max((sizes[i.extent] for i in rows), default=1) <= FEW_ROWS
    together = packed if few else None
    instances = _instances(roles.values(), together, sizes, PRODUCT_ROWS if is_long else ROWS)
    is_tile = together is not None and _length(together, sizes) <= MIN_DOT
    of_warps = is_tile and _are_converted(program, folds, narrow)
    places = processors * (_WARPS if of_warps else 1)
    is_idle = 2 * instances <= places and found.expected(value) >= 2 * shortest
    how = min(1.0, instances / places), inner > 0, shortest
    each = f"program instances{' of a warp' if of_warps else ''}"
    reason = f"as there would be {instances} {each} for {processors} processors"
    if packed is not None and few:
        is_in_order = divides and are_in_order(group, packed)
        if not is_idle:
            reason = "as its packed rows do not lie as the outputs do"
        is_cut = is_idle or not (is_in_order or not rows)
        order = is_in_order, not rows, reason
        return _Stream(tuple(folds), packed, found, is_cut, *order, *how)
    cut = _Stream(tuple(folds), packed, found, True, False, False, reason, *how)
    return cut if is_idle else None


def _holds_loop(f: Term, extent: str) -> bool:
    """True if the fold is over another extent, and holds a fold over this one."""
    inside = (s for s in T.subterms(f) if s.op in ("fold", "fold_at"))
    return f.attr.extents[0] != extent and any(extent in s.attr.extents for s in inside)


def _length_of_products(f: Term, sizes: Mapping[str, int]) -> int:
    """Return how long the product of matrices is that each element of a sum has for itself; 0 if
    none has. Such a sum goes over one element at a time."""
    (bound,), (_, element, *_) = T.open_fold(f)
    for g in factors(element):
        if is_fold(g, "sum") and g.kind == "float":
            (inner,), (_, body) = T.open_fold(g)
            parts = [p.free for p in factors(body) if bound.name in p.free]
            sides = largest_sides(parts, inner.name)
            if len(parts) == len(factors(body)) and sides is not None:
                return sizes[inner.extent]
    return 0


def _are_converted(program: Equations, folds: Iterable[Term], narrow: Set[str]) -> bool:
    """True if all that is read for each element of folds is integers, or floats of 8 bits, which
    products take converted."""
    inputs = program.declared.inputs
    converted = narrow | {i.name for i in inputs.values() if i.kind == "int"}
    reads = [r for f in folds for r in streamed_reads(f)]
    largest = max((len(r.args) for r in reads), default=0)
    large = {T.name_of(r) for r in reads if len(r.args) == largest}
    return bool(large) and large <= converted


def _length(packed: Rows, sizes: Mapping[str, int]) -> int:
    """Return how many rows are packed."""
    return math.prod(evaluated(n, extents=sizes) or 1 for _, n in packed.parts)


def _instances(
    axes: Iterable[Axis], packed: Rows | None, sizes: Mapping[str, int], block: int
) -> int:
    """Count the program instances, for blocks of `block` rows."""
    value = partial(evaluated, extents=sizes)
    parts = {} if packed is None else {i.name: value(n) or 1 for i, n in packed.parts}
    count = 1 if packed is None else math.ceil(_length(packed, sizes) / block)
    for a in axes:
        if a.role in ("grid", "row"):
            size = math.ceil(sizes[a.extent] / parts.get(a.name, 1))
            is_row = a.role == "row" and a.name not in parts
            count *= math.ceil(size / block) if is_row else size
    return count


def _defaults(program: Equations) -> dict[str, int]:
    """Return the integer parameters, by what they are where a call does not say."""
    params = program.declared.params.values()
    return {p.name: int(p.default) for p in params if p.kind == "int" and p.default is not None}


def _block(i: Term, sizes: Mapping[str, int]) -> tuple[Term, Term]:
    """Return the first and the last position of a row's block."""
    if sizes[i.extent] <= ROWS:
        return T.const(0), T.sub(T.extent_of(i.extent), T.const(1))
    first = T.mul(T.const(ROWS), T.floordiv(i, T.const(ROWS)))
    return first, T.add(first, T.const(ROWS - 1))


def _names(group: Sequence[Equation]) -> frozenset[str]:
    return frozenset(i.name for e in group for i in e.indices)


def _is_loop(t: Term, names: frozenset[str]) -> bool:
    """True if this is a fold or a selection that varies with indices of outputs alone."""
    return (t.op == "fold" or is_selection(t)) and t.free <= names


# --- the program in splits ---------------------------------------------------------------------


class _Splitting:
    def __init__(
        self,
        program: Equations,
        group: Sequence[Equation],
        sizes: Mapping[str, int],
        stream: _Stream,
    ) -> None:
        self.program, self.group = program, group
        self.folds, self.packed, self.stretch = stream.folds, stream.rows, stream.stretch
        self.extent: str = self.stretch.extent.attr
        self.rows = rows_of(group)
        declared = program.declared
        self._named = NewNames(program)
        self.extent_of, self.bounds = dict(declared.extent_of), dict(declared.bounds)
        self.params = dict(declared.params)
        self.p: Term | None = None
        self.is_cut, self.is_in_order = stream.is_cut, stream.is_in_order
        # One that goes over its elements one by one has no blocks.
        self.alignment = 1 if stream.is_of_products else ALIGNMENT
        self.shortest = stream.shortest
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
        program = self._with(bodies, stored)
        if self.is_in_order:
            views = {name: body.attr.name for name, body in bodies.items()}
            program = replace(program, views={**self.program.views, **views})
        yield self.pack_rows(program)

    @stated
    def split_stream(self) -> Iterator[Step]:
        """Fold the splits of a stream side by side, and then what they come to.

        Law:     the fold over a disjoint union is the product of the folds
        Claims:  the monoids of its folds, division with remainder
        Needs:   no fold takes what others come to, but for centres that move with it
        """
        base = self.extent.lstrip(".")
        count = self._named(f"{base}_splits")
        self.params[count] = Param(count, "int", 8)
        most = T.function("minimum", T.param(count, "int"), self._most_splits())
        self.split = self._index(f"{base}_split", most)
        if self.packed is not None:
            self._pack(self.packed)
        start = self.program
        stored: list[Equation] = []
        bodies = {e.name: e.body for e in self.group}
        before = "; ".join(show(value_of(f), start.reader_names()) for f in self.folds)
        for f in _outermost_first(self.folds):
            old, new = self._merged(f, stored)
            bodies = {n: T.replace(body, old, new) for n, body in bodies.items()}
        program = self._with(bodies, stored)
        program = replace(program, splits={**start.splits, self.split.extent: count})
        names = program.reader_names()
        after = "; ".join(show(T.stored(e, e.indices), names) for e in stored)
        if self.p is not None:
            yield self.pack_rows(start)
        after = f"{after}, folded over {self.split.name}"
        check = partial(can_be_split, self.folds)
        texts = before, after
        yield Step.of("split_stream", self._position, *texts, start, program, check, self.reason)

    @property
    def _position(self) -> tuple[str, ...]:
        return tuple(e.name for e in self.group)

    @stated
    def pack_rows(self, program: Equations) -> Step:
        """Return the step that packs the rows, to a program.

        Law:     indices i and j are one index p with i = p // |j| and j = p % |j|
        Claims:  division with remainder
        """
        assert self.packed is not None and self.p is not None
        rows = ", ".join(i.name for i, _ in self.packed.parts)
        after = show(self.p, program.reader_names())
        return Step.of("pack_rows", self._position, rows, after, self.program, program)

    def _with(self, bodies: Mapping[str, Term], stored: Sequence[Equation]) -> Equations:
        """Return the program with other bodies, and with equations for what these read."""
        start = self.program
        changed = [replace(e, body=bodies.get(e.name, e.body)) for e in start.equations]
        declared = replace(
            start.declared, params=self.params, extent_of=self.extent_of, bounds=self.bounds
        )
        return replace(
            start,
            declared=declared,
            equations=in_order([*stored, *changed]),
            known=tuple(a for a in start.known if a.name not in {e.name for e in stored}),
        )

    def _most_splits(self) -> Term:
        """Return how many splits are worth an instance, by what is known before a call."""
        unknown = {"index", "read"}  # to the host
        limits = [t for t in self.stretch.limits if not unknown & {s.op for s in T.subterms(t)}]
        length = reduce(partial(T.function, "minimum"), limits)
        if len(limits) > 1 or not self.stretch.is_all:
            length = T.function("maximum", length, T.const(int(not self.stretch.is_all)))
        rounded = T.add(length, T.const(self.shortest - 1))
        return T.floordiv(rounded, T.const(self.shortest))

    # --- new names --------------------------------------------------------------------

    def _index(self, base: str, bound: Term) -> Term:
        """Return a new index of a declared extent."""
        found = self._named.index(base)
        name = found.name
        self.extent_of[name] = name
        self.bounds[name] = bound
        return found

    # --- rows -------------------------------------------------------------------------

    def _pack(self, rows: Rows) -> None:
        """Give p a name and an extent, and find what the packed indices are in it."""
        total = T.mul(*(extent for _, extent in rows.parts))
        self.p = self._index("_".join(i.name for i, _ in rows.parts), total)
        self.values: dict[str, Term] = {}
        self.place: Term = T.const(0)
        inner: Term = T.const(1)
        for n, (i, extent) in reversed(list(enumerate(rows.parts))):
            value = T.floordiv(self.p, inner)
            self.values[i.name] = value if n == 0 else T.modulo(value, extent)
            own = i if extent is T.extent_of(i.extent) else T.modulo(i, extent)
            self.place = T.add(self.place, T.mul(own, inner))
            inner = T.mul(inner, extent)
        self.group_of: dict[Term, Term] = {}
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

    def _in_packed_rows(self, t: Term) -> Term:
        if self.p is None:
            return t
        for quotient, g in self.group_of.items():
            t = T.replace(t, quotient, g)
        return T.substitute(t, {n: v for n, v in self.values.items() if n in t.free})

    # --- folds ------------------------------------------------------------------------

    def _merged(self, f: Term, stored: list[Equation]) -> tuple[Term, Term]:
        """(a fold, the fold of its partial results), which are stored."""
        taken = centred(f)
        if taken is not None:
            return self._merged_about_centres(f, taken, stored)
        (bound,), (condition, *elements) = T.open_fold(f)
        here = T.conjunction(condition, *self._piece(bound))
        monoid = f.attr.monoid
        if monoid is SE_PAIR:
            value, exponent = elements
            v = self._stored("L", mantissa(bound, here, value, exponent), stored)
            m = self._stored("M", largest(bound, here, exponent), stored)
            return T.field(f, "v"), mantissa(self.split, T.TRUE, v, m)
        partial_ = T.fold(monoid, (bound,), here, *elements)
        if isinstance(monoid, T.UserMonoid):
            fields = [self._stored(n, T.field(partial_, n), stored) for n in monoid.fields]
            return f, T.fold(monoid, (self.split,), T.TRUE, *fields)
        letter = "M" if monoid in ("max", "min") else "F"
        value = self._stored(letter, partial_, stored)
        return f, T.fold(monoid, (self.split,), T.TRUE, value)

    def _merged_about_centres(
        self, f: Term, taken: Centred, stored: list[Equation]
    ) -> tuple[Term, Term]:
        """A split is summed about its own centre, and moved to the centre of all: sums over a
        split weigh powers of the distance between the two. A split of nothing weighs 0, wherever
        its centre is."""
        split = centred(self._in_split(f))
        if split is None:
            raise InternalError(f"the centre of a split is lost in {show(value_of(f))}")
        frame_of_split = None
        bound, condition, _, frame, *_ = split.weights
        if frame is not None:
            exponent = largest(bound, condition, frame)
            frame_of_split = self._stored("M", exponent, stored)
        moves = [
            T.sub(settled(self._stored("C", own.centre, stored)), unit.centre)
            for own, unit in zip(split.units, taken.units, strict=True)
        ]
        total = T.ZERO
        for degrees, sum_ in split.degrees:
            weight = self._stored("L", sum_, stored)
            value = T.mul(weight, taken.coefficient(degrees, moves))
            total = T.add(total, weighted_sum(self.split, T.TRUE, value, frame_of_split))
        return value_of(f), total

    def _in_split(self, f: Term) -> Term:
        """Return a fold over a split, with centres of this split."""
        (bound,), (condition, *elements) = T.open_fold(f)
        taken = centred(f)
        results = set() if taken is None else taken.results()
        for g in _outermost_first(sorted(results, key=lambda g: g.key)):
            own = self._in_split(g)
            elements = [T.replace(e, g, own) for e in elements]
        here = T.conjunction(condition, *self._piece(bound))
        return T.fold(f.attr.monoid, (bound,), here, *elements)

    def _piece(self, bound: Term) -> tuple[Term, Term]:
        """Return the two conditions for an element to be in the split."""
        return self.stretch.piece(bound, self.split, self.alignment)

    def _stored(self, letter: str, body: Term, stored: list[Equation]) -> Term:
        """Read a partial result; it is an equation of its own."""
        body = self._in_packed_rows(body)
        equation = next((e for e in stored if e.body is body), None)
        if equation is None:
            name = self._named(f"{letter}_{self.split.name if self.is_cut else 'rows'}")
            equation = Equation(name, self._indices(body), body)
            stored.append(equation)
        return T.stored(equation, (self._subscript(i) for i in equation.indices))

    def _indices(self, body: Term) -> tuple[Term, ...]:
        """Return rows, splits, columns."""
        outer = list(dict.fromkeys(i for e in self.group for i in e.indices))
        rows = [i for i in outer if i in self.rows and i.name in body.free]
        columns = [i for i in outer if i not in self.rows and i.name in body.free]
        if self.p is not None:
            rows += [g for g in self.group_of.values() if g not in rows]
            rows.append(self.p)
        return (*rows, *([self.split] if self.is_cut else []), *columns)

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
