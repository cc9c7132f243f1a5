"""Loops: folds become loops with a carried state, or products and reductions of tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NoReturn

from monocomp import terms as T
from monocomp.errors import InternalError, UnsupportedError
from monocomp.extents.domain import Interval, split
from monocomp.extents.intervals import is_inside
from monocomp.extents.prefixes import Walk, elements_of, prefix_of, walk_along
from monocomp.lowering.bodies import UNITS, Body, unit_of
from monocomp.lowering.centres import add_centred
from monocomp.lowering.expressions import contract, masked, reduce
from monocomp.lowering.framed_sums import FramedSums
from monocomp.lowering.monoids import add_prefix, add_selection, add_tuples, tuple_monoid
from monocomp.lowering.naming import definition_name
from monocomp.lowering.nests import loop_role, sides_of
from monocomp.lowering.scopes import Scope
from monocomp.lowering.selects import assume_masks
from monocomp.lowering.values import Values
from monocomp.proving.proofs import commutes
from monocomp.rewrites.centred import Centred, centred
from monocomp.rewrites.frames import largest
from monocomp.rewrites.pullback import Pass, passes
from monocomp.terms import Term
from monocomp.terms.algebra import (
    SE_PAIR,
    carried_positions,
    carrier,
    is_selection,
    settled,
    value_of,
)
from monocomp.terms.equations import Equations, Joined
from monocomp.terms.masks import EXTREMA
from monocomp.terms.monomials import factors
from monocomp.terms.nodes import Binder
from monocomp.terms.printer import formula, show
from monocomp.tile import Axis, Expr, Loop, Mask, Segment, Store, apply, number
from monocomp.tile.order import order_updates


class Loops(Values):
    """Builds the loops of a kernel.

    Args:
        program: equations in kernels.
        axes: of the indices of the kernel's outputs.
        fits: can an axis of this extent be held entirely? One of unknown length is taken to.
        is_short: is it also likely to be, where its length is unknown?
        scan: the loop along which aggregates are prefixes.
        in_memory: are tiles held in memory, and may have any number of axes?
    """

    def __init__(
        self,
        program: Equations,
        axes: Mapping[str, Axis],
        fits: Callable[[str], bool],
        is_short: Callable[[str], bool],
        scan: Walk | None,
        in_memory: bool,
    ) -> None:
        super().__init__(axes, fits, is_short)
        self.program = program
        self.in_memory = in_memory
        self.assumed = assume_masks(program)
        self.scan = scan
        self.held: dict[Term, str] = {}
        self.rank_axes: dict[Term, str] = {}
        self.joined: list[Joined] = []

    # --- which folds are loops

    def prepare(self, terms: Iterable[Term]) -> None:
        """Emit the loops of this scope that the terms need, shallow ones first."""
        for group in passes(terms, self._is_streamed, self.held):
            with self._folding(group.folds[0]):
                self._loop(group)

    def _prepare_at_home(self, t: Term) -> None:
        """Emit the loops that a fold needs in the scope in which it is known, which may be
        outside of the loop that is being built: a frame that an inner sum refers to."""
        depth = self.depth_of(t.free)
        inner = self.scopes[depth + 1 :]
        del self.scopes[depth + 1 :]
        self.prepare([t])
        self.scopes += inner

    def _is_streamed(self, t: Term) -> bool:
        """True if this fold is a loop of the current scope by itself, not yet emitted."""
        return self._is_fold_here(t) and not self._is_tile(t)

    def _is_tile(self, t: Term) -> bool:
        """True if a fold of the current scope is a whole tile.

        In the kernel's scope folds are streamed, but for axes that are held whole; inside
        a loop they are whole tiles, but for long axes and for bodies that are no products
        of two factors. In a loop that has no blocks, sums over products of matrices are streamed
        as well.
        """
        axis = self.scopes[-1].axis
        if axis is None or t.attr.monoid != "sum" or not self.is_short(t.attr.extents[0]):
            return False
        inner = (g for g in T.subterms(*T.open_fold(t)[1]) if g.op == "fold")
        if self.axes[axis].role == "serial" and any(map(self._is_product, inner)):
            return False
        return self._is_contraction(t)

    def _is_fold_here(self, t: Term) -> bool:
        """True if this is a fold or selection of the current scope, not yet emitted."""
        if not (t.op == "fold" or is_selection(t)) or self.lookup(t) is not None:
            return False
        if t in self.held or self._is_scan(t):
            return False
        if T.is_open(t):  # inside a fold that is not open yet
            return False
        if len(t.attr.indices) != 1:
            self.refuse(t)
        scope = self.scopes[-1]
        if scope.axis is None:
            return self._late().isdisjoint(t.free)
        return self.home(t.free) is scope

    def _late(self) -> set[str]:
        """Return the indices of outputs that a loop of its own walks along, to store them."""
        return {n for n in self.output_indices if self.axes[n].role == "stream"}

    def _is_contraction(self, t: Term) -> bool:
        """True if the body is a product of two groups of factors with different axes, or has at
        most two axes, or at most one if a fold in it is a loop."""
        (bound,), (condition, body) = T.open_fold(t)
        sides = sides_of(self, body, bound.name)
        if len(sides) == 2 and _can_be_filtered(condition, sides):
            return True
        inner = (g for g in T.subterms(body) if g.op == "fold")
        return len(self.tile_axes(body)) <= (2 if all(map(self._is_product, inner)) else 1)

    def _is_product(self, t: Term) -> bool:
        """True if this is a product of matrices that needs no loop."""
        if t.attr.monoid != "sum" or len(t.attr.indices) != 1:
            return False
        (bound,), (condition, body) = T.open_fold(t)
        sides = sides_of(self, body, bound.name)
        if not self.is_short(t.attr.extents[0]) or T.holds_fold(body):
            return False
        return len(sides) == 2 and _can_be_filtered(condition, sides)

    def definition(self, t: Term) -> str | None:
        """Return the program's name for a term, if it has one."""
        return definition_name(self.program, t)

    def inside(self, t: Term) -> frozenset[int]:
        """Return the dimensions along which a read leaves its tensor for no values of its
        indices."""
        declared = self.program.declared
        computed = T.computed(t.args, t.attr.extents)
        return frozenset(n for n, a, e in computed if is_inside(a, e, declared.bounds))

    def refuse(self, t: Term) -> NoReturn:
        """Raise the error for a fold, or another term, that no kernel is generated for."""
        text = show(t, self.program.names())
        raise UnsupportedError(
            f"no kernel is generated for {t.attr.name if isinstance(t.attr, Binder) else text}",
            notes=[f"in {text}"],
            help="mc.evaluate runs the whole language",
        )

    # --- one loop

    def _folding(self, f: Term) -> AbstractContextManager[None]:
        """Run what is inside as the computation of a fold, for the first equation that has it."""
        names = (e.name for e in self.program.equations if T.holds(e.body, f))
        return self.computing(f, next(names, None))

    def _loop(self, group: Pass) -> None:
        folds = group.folds
        parent = self.scopes[-1]
        avoid = frozenset().union(*(f.free for f in folds))
        role = "stream" if self.in_memory else loop_role(self, group)
        name = self.new_axis(group.extent, role, avoid)
        parts = {f: T.open_as(f, (name,))[1] for f in folds}
        bound, condition = T.index(name, group.extent), parts[folds[0]][0]
        domain = split(bound, condition).of_rows(bound.extent, self.tile_axes)
        self.prepare([t for i in domain.intervals for t in (*i.lower, *i.upper)])
        elements = [p for elements in parts.values() for p in elements]
        # A list keeps the first of equal values.
        backwards = walk_along(bound, condition, elements).is_backwards and not any(
            map(is_selection, folds)
        )
        intervals = reversed(domain.intervals) if backwards else domain.intervals
        segments = tuple(map(self._segment, intervals))
        scope = Scope(name, len(self.scopes), folds, condition=condition, is_backwards=backwards)
        self.scopes.append(scope)
        shown = tuple(formula(_visible(f), self.program.reader_names()) for f in folds)
        loop = Loop(self.axes[name], segments, [], scope.body, shown, backwards, self.origin)
        body = Body(self, loop)
        if domain.mask is not T.TRUE:  # before anything is read that a block may not need
            self.prepare([domain.mask])
            scope.body.append(Mask(self.value(domain.mask), self.origin))
        self.add_prefixes(body, elements)
        self.prepare(elements)
        self._draw(scope, elements)
        results = self._carried(body, bound, parts)
        for joined in self.joined:
            if len(joined.streamed) == scope.depth and self._is_in_loops_of(joined.beside):
                self._add(body, joined)
        self.scopes.pop()
        parent.body.append(loop)
        for state in loop.state:
            self.depths[state.name] = parent.depth
        for f, result in results.items():
            parent.memo[f] = (
                result if result.op == "local" else self.let(parent, "position", result)
            )

    def _is_in_loops_of(self, name: str) -> bool:
        """True if the open loops are those of an equation, one in the other."""
        parts = [self.program.by_name[name].body]
        for scope in self.scopes[1:]:
            folds = (f for f in scope.folds if any(_stands_alone(f, part) for part in parts))
            parts = [part for f in folds for part in T.open_as(f, (str(scope.axis),))[1]]
        return bool(parts)

    def _add(self, body: Body, joined: Joined) -> None:
        """Add to the sum of another equation what the kernel's rows come to for a block of the
        loop."""
        e, loops = self.program.by_name[joined.name], self.scopes[1:]
        axes = [self.axes[str(scope.axis)] for scope in loops]
        pairs = zip(joined.streamed, axes, strict=True)
        here = {name: T.index(axis.name, axis.extent) for name, axis in pairs}
        _, (_, element) = T.open_as(T.substitute(e.body, here), (joined.rows,))
        own = self.output_indices - {joined.rows, *(i.name for i in e.indices)}
        for scope in loops[:-1]:
            indices = {T.index(n, self.axes[n].extent) for n in own}
            element = T.with_equal(element, scope.condition, indices)
        with self.computing(e.body, e.name):
            sides = [self.value(s) for s in sides_of(self, element, joined.rows)]
            sides = [s if self.is_load(s) else body.masked(s, 0.0) for s in sides]
            axis, tiles = self.axes[joined.rows], [self._padded(s, joined.rows) for s in sides]
            value = contract(axis, *tiles) if len(tiles) == 2 else reduce("sum", axis, *tiles)
            own_axes = tuple(T.substitute(i, here).name for i in e.indices)
            body.scope.body.append(Store(e.name, own_axes, value, "add", self.origin))

    def _draw(self, scope: Scope, terms: Iterable[Term]) -> None:
        """Draw the random numbers of a step. They wait for nothing, and are many operations: before
        the first product they are done while its operands are loaded."""
        for t in T.subterms(*terms):
            is_here = scope.axis in t.free and t.free <= self.axes.keys()
            if t.op == "uniform" and is_here and not any(s.op in T.READS for s in T.subterms(t)):
                scope.memo[t] = self.let(scope, "random", self.value(t))

    def _segment(self, i: Interval) -> Segment:
        """Return an interval, its bounds computed in the current scope."""
        lower, upper = (
            tuple(self.value(bound, role=role) for bound in bounds)
            for role, bounds in (("lower", i.lower), ("upper", i.upper))
        )
        return Segment(lower, upper, i.masked)

    def _carried(
        self, body: Body, bound: Term, parts: Mapping[Term, tuple[Term, ...]]
    ) -> dict[Term, Expr]:
        """Carry folds: the states that are their results, and how a step changes them."""
        sums = FramedSums(body, bound)
        moving = {f: taken for f in parts if (taken := _moving(f, parts)) is not None}
        scaled = [f for f in parts if f.attr.monoid is SE_PAIR and f not in moving]
        scaled.sort(key=lambda f: parts[f][1] is not T.ONE)  # weights before what they weigh
        results: dict[Term, Expr] = {}
        for f, (_, *elements) in parts.items():
            if f.attr.monoid in UNITS and f not in moving:
                is_frame = f.attr.monoid in EXTREMA and f.kind == "float" and bool(scaled)
                hidden = is_frame and self._is_only_a_frame(f, scaled)
                with self._folding(f):
                    results[f] = body.fold(f, elements[0], hidden)
                    if is_frame:
                        sums.add_frame(f, elements[0], results[f])
        for f, (_, *elements) in parts.items():
            monoid = tuple_monoid(f)
            if monoid is not None:
                is_free = not isinstance(f.attr.monoid, T.UserMonoid) or commutes(
                    self.program, monoid
                )
                with self._folding(f):
                    results |= add_tuples(body, f, elements, is_free)
            elif is_selection(f):
                with self._folding(f):
                    results |= add_selection(body, f, elements[0], self._rank_axis(f))
            elif f.attr.monoid not in UNITS and f.attr.monoid is not SE_PAIR:
                self.refuse(f)
        for f in scaled:
            with self._folding(f):
                results[T.field(f, "v")] = sums.add(f, parts[f])
        if moving:
            results |= add_centred(sums, moving, results)
        frames = {results[f].attr for f in sums.frames}
        updates = sorted(body.updates, key=lambda u: u.name in frames)  # sums are moved first
        body.scope.body += order_updates(updates)
        return results

    def _is_only_a_frame(self, f: Term, mantissas: Iterable[Term]) -> bool:
        """True if every output with this fold also has one of the sums. Then a NaN need not
        reach the frame."""
        inside = [set(T.subterms(e.body)) for e in self.program.outputs]
        return all(any(m in terms for m in mantissas) for terms in inside if f in terms)

    # --- prefixes

    def _is_scan(self, t: Term) -> bool:
        """True if the loop along its index carries this prefix.

        A prefix that also varies with the index of a fold further inside is a fold of its own for
        each element of that fold.
        """
        index = prefix_of(t)
        known = set(self.output_indices)
        if index is None:
            return False
        if self.scan is not None and self.scan.bound is index:
            return self.scan.reaches(t) and t.free <= known
        for scope in self.scopes[1:]:
            assert scope.axis is not None
            known.add(scope.axis)
            if scope.axis == index.name:
                return self.start_of(t, scope) is not None and t.free <= known
        return False

    def add_prefixes(self, body: Body, terms: Iterable[Term]) -> None:
        """Carry the prefixes that the terms need and whose index is that of the loop.

        Loops inside of it read those that it carries.
        """
        axis = body.loop.axis
        bound = T.index(axis.name, axis.extent)
        for t in T.subterms(*terms):  # prefixes of prefixes come before these
            if t in body.scope.memo or axis.name not in t.free:
                continue
            if prefix_of(t) is bound and self._is_scan(t):
                self.add_prefixes(body, elements_of(t, bound))
                body.scope.memo |= add_prefix(body, t)
            elif t.op == "fold" and t.attr.is_scaled:  # a loop inside sums it, in such a frame
                (own,), (condition, _, exponent) = T.open_fold(t)
                self.add_prefixes(body, [largest(own, condition, exponent)])

    # --- lists of largest values

    def _rank_axis(self, f: Term) -> str:
        """Return the axis of a selection's list: that of the output's index, if it is held
        whole."""
        rank = self.rank_axes.get(f)
        if rank is None:
            for axis in self.axes.values():
                is_free = axis.role == "whole" and axis.name not in f.free
                if axis.extent == f.attr.target and is_free:
                    rank = axis.name
            rank = rank or self.new_axis(f.attr.target, "whole", f.free)
            self.rank_axes[f] = rank
        return rank

    def entry(self, t: Term) -> Expr:
        """Return an entry of `top` or `argtop`, read from the list that its loop has left."""
        whole = carrier(t)
        self._prepare_at_home(whole)
        rank = T.index(self._rank_axis(whole), t.attr.target)
        entry = self.lookup(whole if t.attr.monoid == "top" else carried_positions(whole))
        if entry is None:
            raise InternalError(f"no loop for {t!r}")
        if t.args[0] is rank:
            return entry
        is_entry = apply("compare", self.value(rank), self.value(t.args[0]), attr="==")
        nothing = number(UNITS["max"] if t.kind == "float" else -1, t.kind)
        chosen = apply("where", is_entry, entry, nothing)
        return reduce("max", self.axes[rank.name], chosen)

    # --- products and reductions of tiles

    def _sum(self, t: Term) -> Expr:
        """Products of tiles that have their other factors in common are added up by the matrix
        units: each product begins with what those before it have come to."""
        chains: dict[tuple[Term, frozenset[str]], dict[Term, Term]] = {}
        for addend in t.args:
            products = [f for f in factors(addend) if self._is_product_of_tiles(f)]
            if len(products) == 1:
                rest = T.mul(T.ONE, *(f for f in factors(addend) if f is not products[0]))
                key = rest, self.tile_axes(products[0])
                chains.setdefault(key, {})[addend] = products[0]
        sums = {key: chain for key, chain in chains.items() if len(chain) > 1}
        if not sums:
            return super()._sum(t)
        addends = [a for a in t.args if not any(a in chain for chain in sums.values())]
        for (rest, _), chain in sums.items():
            total: tuple[Expr, ...] = ()
            values = self.domain(T.add(*chain.values()))
            for f in chain.values():
                value = self.fold(f, *total)
                total = (self.let(self.home_of(value, f), "s", value),)
            addends.append(T.mul(rest, self.symbol("sum", total[0], values)))
        added = self.value(T.add(*addends))
        self.home_of(added, t).memo[t] = added
        return added

    def _is_product_of_tiles(self, t: Term) -> bool:
        """True if this is a product of two matrices, summed without a loop."""
        is_sum = t.op == "fold" and t.attr.monoid == "sum" and t.kind == "float"
        if not is_sum or T.is_open(t) or self.lookup(t) is not None or self._is_scan(t):
            return False
        if self._is_streamed(t) or self.home(t.free) is not self.scopes[-1]:
            return False
        (bound,), (condition, body) = T.open_fold(t)
        sides = sides_of(self, body, bound.name)
        return (
            condition is T.TRUE
            and len(sides) == 2
            and all(len(self.tile_axes(s)) == 2 for s in sides)
        )

    def field(self, t: Term) -> Expr:
        """Return a field of an aggregate, computed by a loop outside of the one being built."""
        if t.args[0] in self.held:
            return self.fold(t.args[0])
        self._prepare_at_home(t)
        value = self.lookup(t)
        if value is None:
            self.refuse(t.args[0])
        return value

    def fold(self, t: Term, *initial: Expr) -> Expr:
        """Return a fold that is no loop: a product of tiles, or a reduction of one."""
        if t in self.held:
            return self.lookup(t) or self._of_tile(t, self.held[t])
        self._prepare_at_home(t)
        value = self.lookup(t)
        if value is not None:
            return value
        if t.attr.monoid != "sum":
            raise InternalError(f"no loop for {t!r}")
        name = self.new_axis(t.attr.extents[0], "whole", t.free | self.tile_axes(t))
        _, (condition, body) = T.open_as(t, (name,))
        self.prepare([condition, body])
        axis = self.axes[name]
        if condition is not T.TRUE:  # brackets are floats
            is_float = t.kind == "float"
            nothing = T.const(0, t.kind)
            body = (
                T.mul(T.bracket(condition), body) if is_float else T.where(condition, body, nothing)
            )
        sides = sides_of(self, body, name)
        if len(sides) == 2 and _can_be_filtered(condition, sides):
            left, right = (self._padded(self.value(s), name) for s in sides)
            return contract(axis, left, right, *initial)
        return reduce("sum", axis, masked(self.value(body), name, 0.0, {name}))

    def _of_tile(self, t: Term, name: str) -> Expr:
        """Reduce what loops have left along an axis that is held whole."""
        (bound,), (condition, body, *exponent) = T.open_as(t, (name,))
        monoid = t.attr.monoid
        if monoid is SE_PAIR:
            monoid, frame = "sum", largest(bound, condition, exponent[0])
            body = T.mul(body, T.exp(T.sub(exponent[0], settled(frame))))
        unit = unit_of(monoid, t.kind)
        if condition is not T.TRUE:
            body = T.where(condition, body, T.const(unit, t.kind))
        value = reduce(monoid, self.axes[name], masked(self.value(body), name, unit, {name}))
        home = self.home_of(value, t)
        home.memo[t] = self.let(home, "s", value)
        return home.memo[t]

    def _padded(self, value: Expr, axis: str) -> Expr:
        """A computed operand is not 0 where its axis is padded; a loaded one is."""
        if self.is_load(value) or axis not in value.axes:
            return value
        return self.let(self.scopes[-1], "x", masked(value, axis, 0.0, ()))


def _stands_alone(f: Term, t: Term) -> bool:
    """True if a term has a fold outside of all folds."""
    return f is t or (t.op != "fold" and any(_stands_alone(f, a) for a in t.args))


def _can_be_filtered(condition: Term, sides: Sequence[Term]) -> bool:
    """True if a filter may be a factor of a product: 0 times what it leaves out is 0."""
    return condition is T.TRUE or all(map(T.is_finite_if_read, sides))


def _visible(f: Term) -> Term:
    """Return the fold as programs write it: an SE fold by its value, a list by its entries."""
    if is_selection(f):
        return T.rebuild(f, (T.index(f.attr.target.lstrip("."), f.attr.target), *f.args[1:]))
    return value_of(f)


def _moving(f: Term, folds: Iterable[Term]) -> Centred | None:
    """Return a sum about a centre that this very loop computes."""
    taken = centred(f)
    return None if taken is None or taken.results().isdisjoint(folds) else taken
