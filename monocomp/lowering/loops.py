"""Loops: folds become loops with a carried state, or products and reductions of tiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from monocomp import terms as T
from monocomp.domain import Domain, split
from monocomp.equations import Equations
from monocomp.errors import InternalError, UnsupportedError
from monocomp.lowering.monoids import combine_of, prefix_monoid, tuple_monoid
from monocomp.lowering.nests import Nests
from monocomp.lowering.scopes import Scope
from monocomp.lowering.values import EXTREMA, infinite_with, is_infinite_with, same, settle
from monocomp.moving import Centred, Unit, centred, coefficient
from monocomp.planning.roles import is_read, prefix_of
from monocomp.proving.proofs import commutes
from monocomp.rewrites.lifting import largest
from monocomp.rewrites.products import apart
from monocomp.rewrites.pullback import Pass, passes
from monocomp.sizes import nominal_sizes
from monocomp.terms import Term
from monocomp.terms.algebra import LARGEST_INT, SE, SE_PAIR, carried_places, carrier, is_selection
from monocomp.terms.monomials import addends, factors
from monocomp.terms.printer import show
from monocomp.tile import (
    Assign,
    Axis,
    Combine,
    Expr,
    Fold,
    Let,
    Loop,
    Mask,
    Segment,
    Selection,
    State,
    apply,
    local,
    number,
)
from monocomp.tile.operations import JOIN
from monocomp.vocabulary import Kind

_UNITS = {"sum": 0.0, "max": -math.inf, "min": math.inf, "prod": 1.0}
_PLACES = ("argmax", "argmin")
_NO_WEIGHT = T.const(-4096.0, "float")  # its exponential is 0 in every dtype
_STATE_NAMES = {"max": "m_i", "min": "m_i", "sum": "acc", "prod": "prod"}


class Loops(Nests):
    """Builds the loops of a kernel."""

    def __init__(self, program: Equations, axes: dict[str, Axis], sizes: Mapping[str, int]) -> None:
        super().__init__(axes, sizes)
        self.program = program
        self.nominal = nominal_sizes(program.declared, sizes)
        self.exponents: dict[tuple[Term, float], Term] = {}  # of the loop at hand, masked
        self.rank_axes: dict[Term, str] = {}
        self.scan: Term | None = None  # the index along which aggregates are prefixes

    def _prepare(self, terms: list[Term]) -> None:
        """Emit the loops of this scope that the terms need, shallow ones first."""
        for group in passes(terms, self._is_streamed):
            self._loop(group)

    def _prepare_at_home(self, t: Term) -> None:
        """Emit the loops that a fold needs in the scope in which it is known, which may be
        outside of the loop that is being built: a frame that an inner sum refers to."""
        depth = self.scopes.index(self._home(t.free))
        inner = self.scopes[depth + 1 :]
        del self.scopes[depth + 1 :]
        self._prepare([t])
        self.scopes += inner

    def _is_streamed(self, t: Term) -> bool:
        """Is this fold a loop of the current scope, not yet emitted?

        In the kernel's scope folds are streamed, but for axes that are held whole; inside
        a loop they are whole tiles, but for long axes and for bodies that are no products
        of two factors.
        """
        if not (t.op == "fold" or is_selection(t)) or self._lookup(t) is not None:
            return False
        if self._is_scan(t):
            return False
        if T.is_open(t):  # inside a fold that is not open yet
            return False
        if len(t.attr.indices) != 1:
            self._refuse(t)
        scope = self.scopes[-1]
        if scope.axis is None:
            return self._late().isdisjoint(t.free)
        if self._home(t.free) is not scope:
            return False
        if t.attr.monoid != "sum":
            return True
        return not self._is_short(t.attr.extents[0]) or not self._is_contraction(t)

    def _late(self) -> set[str]:
        """Indices of outputs that a loop of its own walks along, to store them."""
        return {n for n in self.output_indices if self.axes[n].role == "stream"}

    def _is_contraction(self, t: Term) -> bool:
        """Is the body a product of two groups of factors with different axes, or else no
        larger than a tile of two axes that is there without a loop?"""
        (bound,), (_, body) = T.open_fold(t)
        sides = self._sides(body, bound.attr[0])
        return len(sides) == 2 or len(self._tile_axes(sides[0])) <= (1 if body.folded else 2)

    def _refuse(self, t: Term) -> None:
        raise UnsupportedError(
            f"no kernel is generated for {t.attr.name}",
            notes=[f"in {show(t, self.program.names())}"],
            help="mc.evaluate runs the whole language",
        )

    def _loop(self, group: Pass) -> None:
        first = group.folds[0]
        parent = self.scopes[-1]
        avoid = frozenset().union(*(f.free for f in group.folds))
        name = self._new_axis(group.extent, self._loop_role(group), avoid)
        axis = self.axes[name]
        opened = {f: T.open_as(f, (name,)) for f in group.folds}
        bound = opened[first][0][0]
        condition = opened[first][1][0]
        domain = split(bound, condition)
        segments = self._segments(domain)
        scope = Scope(name, len(self.scopes), condition=condition)
        self.scopes.append(scope)
        self._mask(domain.mask)
        self._prepare([p for _, parts in opened.values() for p in parts])
        folds = tuple(show(_visible(f), self.program.reader_names()) for f in group.folds)
        loop = Loop(axis, segments, [], scope.body, folds)
        outside, self.exponents = self.exponents, {}
        moving = {f: taken for f in opened if (taken := self._moving(f, group)) is not None}
        fixed = {f: opened[f][1] for f in opened if f not in moving}
        frames = {f: parts for f, parts in fixed.items() if f.attr.monoid in _UNITS}
        # Sums of weights before products with them: a product takes weights that are rounded.
        scaled = [f for f in fixed if f.attr.monoid is SE_PAIR]
        mantissas = {f: fixed[f] for f in sorted(scaled, key=lambda f: fixed[f][1] is not T.ONE)}
        results: dict[Term, Expr] = {}
        updates: list[Assign] = []
        joined: dict[Term, _Frame] = {}
        for f, parts in frames.items():
            is_frame = f.attr.monoid in EXTREMA and f.kind == "float" and bool(mantissas)
            hidden = is_frame and self._is_only_a_frame(f, mantissas)
            state, new = self._fold_tile(loop, f, parts[1], hidden)
            results[f] = state
            updates.append(Assign(state.attr, new))
            if is_frame:
                joined[f] = self._frame_symbols(loop, f, parts[1], state, updates)
        for f, (_, parts) in opened.items():
            if tuple_monoid(f) is not None:
                results |= self._tuple_fold(loop, f, parts[1:], updates)
            elif is_selection(f):
                results |= self._selection(loop, f, parts[1], updates)
        for f, parts in mantissas.items():
            state = self._mantissa(loop, f, parts, bound, joined, updates)
            results[T.field(f, "v")] = state
        if moving:
            self._move_centres(loop, moving, bound, joined, results, updates)
        frame_states = {results[f].attr for f in joined}
        scope.body += [u for u in updates if u.name not in frame_states]
        scope.body += [u for u in updates if u.name in frame_states]  # sums are moved first
        self.scopes.pop()
        self.exponents = outside
        parent.body.append(loop)
        for f, result in results.items():
            named = result.op == "local"
            parent.memo[f] = result if named else self._let(parent, "place", result)

    def _is_only_a_frame(self, f: Term, mantissas: Iterable[Term]) -> bool:
        """Does every output with this fold have one of the sums too? Then a NaN need not
        reach the frame."""
        inside = [set(T.subterms(e.body)) for e in self.program.outputs]
        return all(any(m in terms for m in mantissas) for terms in inside if f in terms)

    def _segments(self, domain: Domain) -> tuple[Segment, ...]:
        """The intervals of a domain, their bounds computed in the current scope."""
        self._prepare([t for i in domain.intervals for t in (*i.lower, *i.upper)])
        return tuple(
            Segment(
                tuple(self._value(t) for t in i.lower),
                tuple(self._value(t) for t in i.upper),
                i.masked,
            )
            for i in domain.intervals
        )

    def _mask(self, mask: Term) -> None:
        """Begin a loop's body with the mask of its domain, before anything is read that a
        block without a member does not need."""
        if mask is not T.TRUE:
            self._prepare([mask])
            self.scopes[-1].body.append(Mask(self._value(mask)))

    def _tuple_fold(
        self, loop: Loop, f: Term, elements: Sequence[Term], updates: list[Assign]
    ) -> dict[Term, Expr]:
        """A monoid of tuples: combine the state with the tile's elements, in their order."""
        monoid = tuple_monoid(f)
        assert monoid is not None
        is_place = f.attr.monoid in _PLACES
        if is_place:
            place = T.index(loop.axis.name, loop.axis.extent)
            elements = _with_place(elements[0], f.attr.monoid, place)
        axes = self._tile_axes(f)
        states = self._states(loop, f, monoid, axes)
        values = [
            self._masked(loop, self._value(element), state.start.attr)
            for element, state in zip(elements, loop.state[-len(states) :], strict=True)
        ]
        combine = combine_of(monoid, is_place or self._commutes(monoid))
        folded = self._fold_statement(loop, combine, states, values, updates)
        if is_place:
            return {f: self._place(monoid, folded)}
        fields = (T.field(f, name) for name in monoid.fields)
        return dict(zip(fields, folded, strict=True))

    def _states(
        self, loop: Loop, f: Term, monoid: T.UserMonoid, axes: frozenset[str]
    ) -> list[Expr]:
        """What a loop carries for a monoid of tuples."""
        states = []
        for name, unit in zip(monoid.fields, monoid.unit, strict=True):
            start, symbolic = T.split_coefficient(unit)
            if symbolic is not None:
                self._refuse(f)
            first = int(start) if unit.kind == "int" else float(start)
            states.append(self._state(loop, name, axes, unit.kind, first))
        return states

    def _place(self, monoid: T.UserMonoid, folded: list[Expr]) -> Expr:
        """The place of an extreme value; where all elements are the worst, none counts."""
        worst = self._value(monoid.unit[0])
        nothing = apply("compare", folded[0], worst, attr="==")
        return apply("where", nothing, number(0, "int"), folded[1])

    def _is_scan(self, t: Term) -> bool:
        """Is this a prefix that the loop along its index carries? One that varies within another
        fold, too, is a fold of its own for each of that one's elements."""
        is_prefix = self.scan is not None and prefix_of(t) is self.scan
        return is_prefix and t.free <= self.output_indices

    def _scans(self, loop: Loop, terms: Iterable[Term]) -> list[Assign]:
        """Carry the prefixes that the terms need in a loop along their index."""
        updates: list[Assign] = []
        for t in T.subterms(*terms):
            if t.op == "fold" and self._is_scan(t) and t not in self.scopes[-1].memo:
                updates += self._prefix(loop, t)
        return updates

    def _prefix(self, loop: Loop, f: Term) -> list[Assign]:
        _, (condition, *elements) = T.open_as(f, (loop.axis.name,))
        updates = self._scans(loop, [condition, *elements])  # prefixes of prefixes
        monoid = prefix_monoid(f)
        is_place = f.attr.monoid in _PLACES
        if is_place:
            place = T.index(loop.axis.name, loop.axis.extent)
            elements = list(_with_place(elements[0], f.attr.monoid, place))
        if monoid is SE_PAIR and infinite_with(list(factors(elements[0])), elements[1]):
            condition = T.conjunction(condition, T.compare("<", T.NEG_INF, elements[1]))
        elements = [T.where(condition, *x) for x in zip(elements, monoid.unit, strict=True)]
        self._prepare([*elements])
        axes = self._tile_axes(f) - {loop.axis.name}
        states, values = self._states(loop, f, monoid, axes), list(map(self._value, elements))
        combine = combine_of(monoid, commutes=False)  # the order is that of the index
        folded = self._fold_statement(loop, combine, states, values, updates, keep=True)
        memo = self.scopes[-1].memo
        memo[f] = folded[0]
        if is_place:
            memo[f] = self._let(self.scopes[-1], "place", self._place(monoid, folded))
        elif isinstance(f.attr.monoid, T.UserMonoid):
            memo |= {T.field(f, n): x for n, x in zip(monoid.fields, folded, strict=True)}
        return updates

    def _selection(
        self, loop: Loop, f: Term, body: Term, updates: list[Assign]
    ) -> dict[Term, Expr]:
        """The largest elements so far and their places, in order."""
        rank = self._rank_axis(f)
        axes = self._tile_axes(f) | {rank}
        states = [
            self._state(loop, "largest", axes, "float", -math.inf),
            self._state(loop, "places", axes, "int", -1),
        ]
        place = self._value(T.index(loop.axis.name, loop.axis.extent))
        values = [self._masked(loop, self._value(body), -math.inf), place]
        self._fold_statement(loop, Selection(rank), states, values, updates)
        return {f: states[0], carried_places(f): states[1]}

    def _fold_statement(
        self,
        loop: Loop,
        monoid: Combine | Selection,
        states: list[Expr],
        values: list[Expr],
        updates: list[Assign],
        keep: bool = False,
    ) -> list[Expr]:
        """Combine the states with a tile's values; the states are the result, or all
        prefixes if they are to be kept."""
        names = tuple(self._fresh(s.attr + "_new") for s in states)
        prefixes = tuple(self._fresh(s.attr + "_prefix") for s in states) if keep else ()
        axis = loop.axis.name
        fold = Fold(names, monoid, axis, tuple(states), tuple(values), prefixes)
        self.scopes[-1].body.append(fold)
        for name, state in zip(names, states, strict=True):
            updates.append(Assign(state.attr, local(name, state.axes, state.kind)))
        kept = zip(prefixes, states, strict=False)
        return [local(n, s.axes | {axis}, s.kind) for n, s in kept] if keep else states

    def _commutes(self, monoid: T.UserMonoid) -> bool:
        """Is it proved that the order of elements does not matter?"""
        return commutes(self.program, monoid)

    def _rank_axis(self, f: Term) -> str:
        """The axis of a selection's list: that of the output's index, if it is held whole."""
        found = self.rank_axes.get(f)
        if found is None:
            for axis in self.axes.values():
                is_free = axis.role == "whole" and axis.name not in f.free
                if axis.extent == f.attr.target and is_free:
                    found = axis.name
            found = found or self._new_axis(f.attr.target, "whole", f.free)
            self.rank_axes[f] = found
        return found

    def _entry(self, t: Term) -> Expr:
        """An entry of `top` or `argtop`, read from the list that its loop has left."""
        whole = carrier(t)
        self._prepare_at_home(whole)
        rank = T.index(self._rank_axis(whole), t.attr.target)
        found = self._lookup(whole if t.attr.monoid == "top" else carried_places(whole))
        if found is None:
            raise InternalError(f"no loop for {t!r}")
        if t.args[0] is rank:
            return found
        here = apply("compare", self._value(rank), self._value(t.args[0]), attr="==")
        unit = number(-math.inf) if t.kind == "float" else number(-1, "int")
        chosen = apply("where", here, found, unit)
        return _reduce("max", self.axes[rank.attr[0]], chosen)

    def _fold_tile(
        self, loop: Loop, f: Term, body: Term, is_frame: bool = False
    ) -> tuple[Expr, Expr]:
        """A plain fold: the state, and its value after this tile."""
        monoid = f.attr.monoid
        if monoid not in _UNITS:
            self._refuse(f)
        axis = loop.axis
        tile_axes = self._tile_axes(f)
        kind = f.kind
        unit = _UNITS[monoid]
        if kind == "int" and math.isinf(unit):
            unit = LARGEST_INT if unit > 0 else -LARGEST_INT - 1
        state = self._state(loop, _STATE_NAMES.get(monoid, monoid), tile_axes, kind, unit)
        if monoid == "sum":
            return state, self._sum_tile(loop, body, state)
        value = self._masked(loop, self._value(body), unit)
        if monoid in EXTREMA:
            self.exponents[body, unit] = self._symbol("masked", value)
        folded = _reduce(monoid, axis, value)
        attr = "frame" if is_frame else None
        return state, apply(JOIN[monoid], state, folded, attr=attr)

    def _state(self, loop: Loop, base: str, axes: frozenset[str], kind: Kind, unit: float) -> Expr:
        name = self._fresh(base)
        loop.state.append(State(name, axes, number(unit, kind)))
        return local(name, axes, kind)

    def _masked(self, loop: Loop, value: Expr, unit: float) -> Expr:
        if loop.axis.role == "serial" and loop.is_whole:
            return value
        masked = _masked(value, loop.axis.name, unit, loop.domain)
        for s in self.scopes[-1].body:
            if isinstance(s, Let) and same(s.value, masked):
                return local(s.name, masked.axes, value.kind)
        base = f"{value.attr}_in" if value.op == "local" else "x"
        return self._let(self.scopes[-1], base, masked)

    def _sum_tile(self, loop: Loop, body: Term, state: Expr, vanishing: bool = False) -> Expr:
        """state + the sum of body over the loop's tile, as a product of tiles if it is one.

        `vanishing` says that a factor is already 0 outside the domain.
        """
        axis = loop.axis
        parts = apart(body, axis.name, self._tile_axes) if axis.role != "serial" else (body,)
        if len(parts) > 1:
            for part in parts:
                state = self._sum_tile(loop, part, state, vanishing)
            return state
        sides = self._sides(body, axis.name)
        if axis.role == "serial":
            value = self._value(body)
            value = value if vanishing else self._masked(loop, value, 0.0)
            return apply("add", state, value)
        if len(sides) != 2:
            value = self._value(body)
            if not vanishing:
                value = self._masked(loop, value, 0.0)
            return apply("add", state, _reduce("sum", axis, value))
        left, right = (self._value(s) for s in sides)
        if not vanishing:
            # What is loaded is 0 outside, and 0 times what a computed factor is masked to. Of two
            # that are loaded, one is masked where the domain may differ from row to row.
            loaded = self._is_load(left), self._is_load(right)
            if not loaded[0] or (loaded[1] and not loop.is_whole):
                left = self._masked(loop, left, 0.0)
            if not loaded[1]:
                right = self._masked(loop, right, 0.0)
        return _contract(axis, left, right, state)

    def _moving(self, f: Term, group: Pass) -> Centred | None:
        """A sum about a centre that this very loop computes."""
        taken = centred(f)
        if taken is None or taken.results().isdisjoint(group.folds):
            return None
        return taken

    def _move_centres(
        self,
        loop: Loop,
        moving: Mapping[Term, Centred],
        bound: Term,
        joined: Mapping[Term, _Frame],
        results: dict[Term, Expr],
        updates: list[Assign],
    ) -> None:
        """Sums about a moving centre: what was summed is moved from the old centre to the new
        one, by the binomial theorem, and the tile is summed about the new one."""
        scope = self.scopes[-1]
        for n, u in enumerate(updates):  # the old values are still needed
            if u.value.op != "local":
                updates[n] = Assign(u.name, self._let(scope, u.name + "_new", u.value))
        new_values = {u.name: u.value for u in updates}
        old, new = {}, {}
        for t, state in results.items():
            if t in joined:
                old[t], new[t] = settle(joined[t].old), joined[t].shift
                continue
            old[t] = self._symbol("old", state)
            new[t] = self._symbol("new", _with_locals(state, new_values))
            if t.op == "fold" and t.attr.monoid in EXTREMA:
                old[t], new[t] = settle(old[t]), settle(new[t])
        for f in sorted(moving, key=lambda f: sum(u.power for u in moving[f].units)):
            taken = moving[f]
            centres = [(_in_terms(u.centre, old), _in_terms(u.centre, new)) for u in taken.units]
            moves = [T.sub(before, after) for before, after in centres]
            companions = [(degrees, _multiple(c, old)) for degrees, c in taken.companions()]
            moved = [T.mul(coefficient(taken, degrees, moves), c) for degrees, c in companions]
            units = []
            for unit, (_, after) in zip(taken.units, centres, strict=True):
                distance = T.substitute(unit.distance, {taken.bound.attr[0]: bound})
                # One difference of two values, whatever they are sums of: it is exact.
                x, c = (self._symbol("x", self._value(t)) for t in (distance, after))
                if _is_below_frame(unit.distance, after, taken, joined):
                    # -inf weighs 0, as does whatever is that far below the largest.
                    x, c = T.function("maximum", T.sub(x, c), _NO_WEIGHT), T.ZERO
                units.append(Unit(x, c, unit.power))
            here = T.substitute(taken.element(units), {taken.bound.attr[0]: bound})
            if taken.exponent is None:
                state = self._state(loop, "acc", self._tile_axes(f), f.kind, 0.0)
                start = self._value(T.add(self._symbol("old", state), *moved))
                updates.append(Assign(state.attr, self._sum_tile(loop, here, start)))
            else:
                condition, exponent = (
                    T.substitute(t, {taken.bound.attr[0]: bound})
                    for t in (taken.condition, taken.exponent)
                )
                parts = (condition, here, exponent)
                settled = [
                    T.power_of(T.sub(own.distance, own.centre), own.power)
                    for own, unit in zip(units, taken.units, strict=True)
                    if own.centre is not T.ZERO and is_infinite_with(unit.distance, taken.exponent)
                ]
                state = self._mantissa(loop, f, parts, bound, joined, updates, moved, settled)
            value = self._let(scope, state.attr + "_new", updates[-1].value)
            updates[-1] = Assign(state.attr, value)
            visible = _visible(f)
            results[visible] = state
            old[visible], new[visible] = self._symbol("old", state), self._symbol("new", value)

    def _padded(self, value: Expr, axis: str) -> Expr:
        """A computed operand is not 0 where its axis is padded; a loaded one is."""
        if self._is_load(value) or axis not in value.axes:
            return value
        return self._let(self.scopes[-1], "x", _masked(value, axis, 0.0, ()))

    def _is_load(self, e: Expr) -> bool:
        """Is this a tile as it is read, or converted? It is 0 outside."""
        value = next((v for n, v in self._lets() if e.op == "local" and n == e.attr), e)
        return value.op == "load" or (value.op == "cast" and self._is_load(value.args[0]))

    def _lets(self) -> Iterator[tuple[str, Expr]]:
        return (
            (s.name, s.value) for scope in self.scopes for s in scope.body if isinstance(s, Let)
        )

    def _frame_symbols(
        self, loop: Loop, f: Term, body: Term, state: Expr, updates: list[Assign]
    ) -> _Frame:
        """The extremum before and after this tile, what sums are moved by, and its elements."""
        scope = self.scopes[-1]
        new = self._let(scope, state.attr + "_new", updates[-1].value)
        updates[-1] = Assign(state.attr, new)
        new_symbol = self._symbol("frame", new)
        shift = self._value(settle(new_symbol))
        masked = self.exponents[body, _UNITS[f.attr.monoid]]
        return _Frame(self._symbol("old", state), new_symbol, self._symbol("shift", shift), masked)

    def _mantissa(
        self,
        loop: Loop,
        f: Term,
        parts: tuple[Term, ...],
        bound: Term,
        joined: Mapping[Term, _Frame],
        updates: list[Assign],
        moved: Sequence[Term] = (),
        settled: Iterable[Term] = (),
    ) -> Expr:
        """v <- move(m, m') v + sum_k embed(m', value, exponent), with m' the joined frame.

        `moved` is what v gains in frame m as a centre moves; `settled` are factors of the value
        that are infinite where the exponent is.
        """
        condition, value, exponent = parts
        whole = largest(bound, condition, exponent)
        old, new, masked = whole, whole, exponent
        inside = set(T.subterms(whole))
        is_missing = False
        begins: tuple[Expr, float] | None = None  # an old frame that a scale of 0 does not move
        is_linear = all(any(f in factors(a) for a in addends(whole)) for f in joined if f in inside)
        for fold_, frame_ in joined.items():
            if fold_ not in inside:
                continue
            if not _is_scaled_positively(whole, fold_):
                begins = self._value(frame_.old), _UNITS[fold_.attr.monoid]
            (_,), (_, body) = T.open_as(fold_, (loop.axis.name,))
            old = T.replace(old, fold_, frame_.old)
            new = T.replace(new, fold_, frame_.shift if is_linear else frame_.new)
            masked = _in_terms_of(masked, body, frame_.masked)
            unit = T.NEG_INF if fold_.attr.monoid == "max" else T.INF
            is_missing |= _is_missing_with(masked, frame_.masked, unit)
        is_known = old is whole and any(f.op == "fold" for a in addends(whole) for f in factors(a))
        if not is_linear or (is_known and whole.op != "fold"):
            # An increasing function of an infinite extremum may be finite; what is known from an
            # earlier pass may be of nothing.
            new = settle(new)
        if old is whole or loop.axis.name in masked.free or not is_missing:
            # The frame is known from an earlier pass and moves no more, or is of other terms, or is
            # an increasing function of one: where an element is missing, exp(-inf) = 0 is not.
            if (exponent, -math.inf) not in self.exponents:
                outside = self._masked(loop, self._value(exponent), -math.inf)
                self.exponents[exponent, -math.inf] = self._symbol("x", outside)
            masked = self.exponents[exponent, -math.inf]
        base = "acc" if value is not T.ONE else "l_i"
        state = self._state(loop, base, self._tile_axes(T.field(f, "v")), "float", 0.0)
        scaled = state
        if moved:
            scaled = self._value(T.add(self._symbol("old", state), *moved))
        if old is not whole:
            scale = self._value(SE.move(old, new))
            if begins is not None:
                scale = self._where_equal(*begins, 0.0, scale)
            scaled = apply("mul", scaled, scale)
        self.bounded |= {SE.embed(new, T.ONE, masked)}
        body = SE.embed(new, value, masked)
        safe = all(fac.op == "exp" or is_read(fac) for fac in factors(body))
        absorbed = _absorbed(SE.embed(new, value, exponent), loop.axis.name)
        ours = list(factors(value))
        too_large = infinite_with(ours, exponent)
        infinite = [f for f in ours if f in settled or f in too_large]
        if absorbed is not None:
            body, safe = absorbed, False
        elif infinite:
            # A weight of 0 beside what is infinite because the weight's exponent is.
            weight = self._value(SE.embed(new, T.ONE, masked))
            weighted = apply("mul", weight, self._value(T.mul(*infinite)))
            there = self._where_equal(weight, 0.0, 0.0, weighted)
            rest = [f for f in ours if f not in infinite]
            body, safe = T.mul(self._symbol("weighted", there), *rest), all(map(is_read, rest))
        updates.append(Assign(state.attr, self._sum_tile(loop, body, scaled, vanishing=safe)))
        return state

    def _sum(self, t: Term) -> Expr:
        """Products of tiles that have their other factors in common are added up by the matrix
        units: each product begins with what those before it have come to."""
        chains: dict[tuple[Term, frozenset[str]], dict[Term, Term]] = {}
        for addend in t.args:
            products = [f for f in factors(addend) if self._is_product_of_tiles(f)]
            if len(products) == 1:
                rest = T.mul(T.ONE, *(f for f in factors(addend) if f is not products[0]))
                key = rest, self._tile_axes(products[0])
                chains.setdefault(key, {})[addend] = products[0]
        sums = {key: chain for key, chain in chains.items() if len(chain) > 1}
        if not sums:
            return super()._sum(t)
        addends = [a for a in t.args if not any(a in chain for chain in sums.values())]
        for (rest, _), chain in sums.items():
            total: Expr | None = None
            for f in chain.values():
                value = self._fold(f, total)
                total = self._let(self._home_of(value, f), "s", value)
            assert total is not None
            addends.append(T.mul(rest, self._symbol("sum", total)))
        found = self._value(T.add(*addends))
        self._home_of(found, t).memo[t] = found
        return found

    def _is_product_of_tiles(self, t: Term) -> bool:
        """Is this a sum that is no loop, and a product of two matrices?"""
        is_sum = t.op == "fold" and t.attr.monoid == "sum" and t.kind == "float"
        if not is_sum or T.is_open(t) or self._lookup(t) is not None or self._is_scan(t):
            return False
        if self._is_streamed(t) or self._home(t.free) is not self.scopes[-1]:
            return False
        (bound,), (condition, body) = T.open_fold(t)
        sides = self._sides(body, bound.attr[0])
        return (
            condition is T.TRUE
            and len(sides) == 2
            and all(len(self._tile_axes(s)) == 2 for s in sides)
        )

    def _fold(self, t: Term, initial: Expr | None = None) -> Expr:
        """A fold that is no loop: a product of tiles, or a reduction of one."""
        self._prepare_at_home(t)
        found = self._lookup(t)
        if found is not None:
            return found
        if t.attr.monoid != "sum":
            raise InternalError(f"no loop for {t!r}")
        extent = t.attr.extents[0]
        name = self._new_axis(extent, "whole", t.free | self._tile_axes(t))
        _, (condition, body) = T.open_as(t, (name,))
        axis = self.axes[name]
        if condition is not T.TRUE:
            is_float = t.kind == "float"
            body = T.mul(T.bracket(condition), body) if is_float else _where(condition, body)
        sides = self._sides(body, name)
        # Where the filter is a factor, 0 times what it leaves out must be 0.
        if len(sides) == 2 and (condition is T.TRUE or all(map(T.is_finite_if_read, sides))):
            left, right = (self._padded(self._value(s), name) for s in sides)
            return _contract(axis, left, right, initial)
        value = self._value(body)
        inside = _masked(value, name, 0.0, {name})
        return _reduce("sum", axis, inside)


def _visible(f: Term) -> Term:
    """The fold as programs write it: an SE fold by its value, a list by its entries."""
    if is_selection(f):
        return T.rebuild(f, (T.index(f.attr.target.lstrip("."), f.attr.target), *f.args[1:]))
    return T.field(f, "v") if f.attr.monoid is SE_PAIR else f


def _absorbed(body: Term, name: str) -> Term | None:
    """An exponential multiplied into sums of exponentials, where that leaves fewer of them:
    exp(c) * relu(exp(a - c) - exp(-c)) = relu(exp(a) - 1)."""
    weight = next((f for f in factors(body) if f.op == "exp"), None)
    sums = [f for f in factors(body) if f.op in ("relu", "abs", "add")]
    if weight is None or not sums:
        return None

    def scaled(f: Term) -> Term:
        if f.op == "add":
            return T.add(*(T.mul(a, weight) for a in f.args))
        return T.function(f.op, scaled(f.args[0])) if f.args[0].op == "add" else f

    def count(t: Term) -> int:
        return sum(s.op == "exp" and name in s.free for s in T.subterms(t))

    for f in sums:
        others = [g for g in factors(body) if g is not f and g is not weight]
        absorbed = T.mul(*others, scaled(f))
        if scaled(f) is not f and count(absorbed) < count(body):
            return absorbed
    return None


class _Frame(NamedTuple):
    """A maximum or minimum that sums of a loop are scaled by, as terms.

    Attributes:
        old: its value before this tile.
        new: its value after it.
        shift: what is subtracted from exponents: `new`, or 0 where that is infinite.
        masked: its elements, infinite outside the loop's domain.
    """

    old: Term
    new: Term
    shift: Term
    masked: Term


def _is_scaled_positively(frame: Term, extremum: Term) -> bool:
    """Is 0 times the -inf that an extremum begins with nowhere in a frame?"""
    scales = (
        [f for f in factors(a) if f is not extremum]
        for a in addends(frame)
        if extremum in factors(a)
    )
    return all(
        f.op == "const" or (T.is_positive(f) and T.is_finite_if_read(T.power_of(f, -1)))
        for scale in scales
        for f in scale
    )


def _is_below_frame(
    distance: Term, centre: Term, moving: Centred, joined: Mapping[Term, _Frame]
) -> bool:
    """Is this the exponent of a weight, that may be -inf, less the largest one?"""
    if moving.exponent is None or distance is not moving.exponent:
        return False
    if not is_infinite_with(distance, moving.exponent):
        return False
    whole = largest(moving.bound, moving.condition, moving.exponent)
    return whole in joined and centre is joined[whole].shift


def _is_missing_with(t: Term, x: Term, unit: Term) -> bool:
    """Is t -inf where x is the unit: a multiple of it, and what does not depend on it?"""
    (only, *others) = [a for a in addends(t) if x in T.subterms(a)] or [t]
    number_, rest = T.split_coefficient(only)
    if others or rest is None or (number_ < 0) is not (unit is T.INF):
        return False
    left = [f for f in factors(rest) if f is not x]
    is_there = len(left) < len(list(factors(rest)))
    return is_there and all(T.is_positive(f) and x not in T.subterms(f) for f in left)


def _multiple(t: Term, symbols: Mapping[Term, Term]) -> Term:
    """A number times a fold, with the symbol for the fold."""
    number, fold_ = T.split_coefficient(t)
    symbol = symbols.get(fold_ or t)
    if symbol is None:
        raise UnsupportedError(
            f"a sum about a moving centre needs {t!r} at every step, which another loop computes",
            help="return what the variance is taken of, and take it in a second program",
        )
    return T.mul(T.const(number, t.kind), symbol)


def _with_locals(e: Expr, values: Mapping[str, Expr]) -> Expr:
    """An expression of states with other values of these."""
    if e.op == "local":
        return values.get(e.attr, e)
    return replace(e, args=tuple(_with_locals(a, values) for a in e.args)) if e.args else e


def _in_terms(t: Term, symbols: Mapping[Term, Term]) -> Term:
    """t with symbols for the folds in it; a quotient by nothing is 0, and its logarithm."""
    for fold_, symbol in symbols.items():
        t = T.replace(t, fold_, symbol)

    def guarded(s: Term) -> Term:
        if s.op == "pow" and s.attr < 0:
            base = guarded(s.args[0])
            empty = T.compare("==", base, T.ZERO)
            return T.where(empty, T.ZERO, T.power_of(base, s.attr))
        if s.op == "log":
            return T.where(T.compare("==", s.args[0], T.ZERO), T.ZERO, s)
        return T.rebuild(s, tuple(map(guarded, s.args))) if s.op in ("add", "mul") else s

    return guarded(t)


def _with_place(x: Term, name: str, place: Term) -> tuple[Term, Term]:
    """The elements of argmax and argmin; NaN counts as extreme."""
    if x.kind == "float":
        extreme = T.INF if name == "argmax" else T.NEG_INF
        x = T.where(T.compare("!=", x, x), extreme, x)
    return x, place


def _in_terms_of(t: Term, part: Term, symbol: Term) -> Term:
    """t with a symbol for a part of it; of a product or sum some factors or addends do."""
    found = T.replace(t, part, symbol)
    if found is not t or t.op != part.op:
        return found
    if t.op == "mul":
        number, rest = T.split_coefficient(part)
        ours, theirs = list(factors(t)), list(factors(rest)) if rest is not None else []
        if number == 1 and all(f in ours for f in theirs):
            return T.mul(symbol, *(f for f in ours if f not in theirs))
    if t.op == "add":
        split = [T.split_coefficient(a) for a in t.args]
        wanted = {rest: number for number, rest in map(T.split_coefficient, part.args)}
        ratios = {number / wanted[rest] for number, rest in split if rest in wanted}
        if len(ratios) == 1 and sum(rest in wanted for _, rest in split) == len(wanted):
            others = [a for a, (_, rest) in zip(t.args, split, strict=True) if rest not in wanted]
            return T.add(T.mul(T.const(ratios.pop()), symbol), *others)
    return t


def _where(condition: Term, body: Term) -> Term:
    """An integer where a condition holds, else 0: brackets are floats."""
    return T.where(condition, body, T.const(0, body.kind))


def _contract(axis: Axis, left: Expr, right: Expr, initial: Expr | None = None) -> Expr:
    args = (left, right) if initial is None else (left, right, initial)
    return apply("contract", *args, attr=axis.name)


def _masked(value: Expr, axis: str, unit: float, along: Iterable[str]) -> Expr:
    """The value, and the unit outside of the domain, which varies along some axes."""
    return apply("masked", value, attr=(axis, number(unit, value.kind).attr), along=along)


def _reduce(monoid: str, axis: Axis, value: Expr) -> Expr:
    if axis.name not in value.axes:
        return value
    return apply("reduce", value, attr=(monoid, axis.name))
