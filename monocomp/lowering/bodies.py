"""Bodies: the states that a loop carries, and what the tile of one step adds to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from monocomp import terms as T
from monocomp.declarations.vocabulary import Kind
from monocomp.lowering.expressions import contract, masked, reduce, where_equal
from monocomp.lowering.nests import sides_of
from monocomp.lowering.values import Values
from monocomp.rewrites.products import apart
from monocomp.terms import Term
from monocomp.terms.algebra import LARGEST_INT
from monocomp.tile import Assign, Combine, Expr, Fold, Loop, Selection, State, apply, local, number
from monocomp.tile.operations import JOIN

UNITS = {"sum": 0.0, "max": -math.inf, "min": math.inf, "prod": 1.0}
_STATE_NAMES = {"max": "m_i", "min": "m_i", "sum": "acc", "prod": "prod"}


def unit_of(monoid: str, kind: Kind) -> float:
    """Return the number that changes nothing that it is joined to."""
    unit = UNITS[monoid]
    if kind == "int" and math.isinf(unit):
        return LARGEST_INT if unit > 0 else -LARGEST_INT - 1
    return unit


class Body:
    """The body of a loop under construction.

    Attributes:
        at: what builds values in it.
        updates: what its states become at its end.
    """

    def __init__(self, at: Values, loop: Loop) -> None:
        self.at = at
        self.loop = loop
        self.scope = at.scopes[-1]
        self.updates: list[Assign] = []
        self._symbols: dict[tuple[Term, float], Term] = {}

    def state(self, base: str, axes: frozenset[str], kind: Kind, start: float | Expr) -> Expr:
        """Add a state to the loop, which starts as a number or as a value known before it."""
        name = self.at.fresh(base)
        first = start if isinstance(start, Expr) else number(start, kind)
        self.loop.state.append(State(name, axes, first))
        return local(name, axes, kind)

    def update(self, state: Expr, value: Expr) -> None:
        """Say what a state becomes."""
        self.updates.append(Assign(state.attr, value, self.at.origin))

    def next_value(self, state: str) -> Expr:
        """Return what a state becomes, under a name of its own, as the old value is still there."""
        for n, u in enumerate(self.updates):
            if u.name == state and u.value.op != "local":
                value = self.at.let(self.scope, state + "_new", u.value)
                self.updates[n] = replace(u, value=value)
        return next(u.value for u in self.updates if u.name == state)

    def masked(self, value: Expr, unit: float) -> Expr:
        """Return the value, and the unit outside of the loop's domain."""
        if self.loop.is_exact:
            return value
        base = f"{value.attr}_in" if value.op == "local" else "x"
        inside = masked(value, self.loop.axis.name, unit, self.loop.domain)
        return self.at.let_once(self.scope, base, inside)

    def masked_symbol(self, element: Term, unit: float) -> Term:
        """Return a symbol for a masked element, the same one for all that need it."""
        symbol = self._symbols.get((element, unit))
        if symbol is None:
            symbol = self.at.symbol(
                "masked", self.masked(self.at.value(element), unit), self.at.domain(element)
            )
            self._symbols[element, unit] = symbol
        return symbol

    def fold(self, f: Term, element: Term, is_frame: bool = False) -> Expr:
        """Return a fold of numbers. One that `is_frame` need not pass on a NaN."""
        monoid = f.attr.monoid
        unit = unit_of(monoid, f.kind)
        name = self.at.accumulators.get(f, _STATE_NAMES[monoid])
        state = self.state(name, self.at.tile_axes(f), f.kind, unit)
        if monoid == "sum":
            self.update(state, self.sum_tile(element, state))
            return state
        value = self.masked_symbol(element, unit)
        folded = reduce(monoid, self.loop.axis, self.at.locals[value])
        attr = "frame" if is_frame else None
        self.update(state, apply(JOIN[monoid], state, folded, attr=attr))
        values = self.at.domain(element)
        if monoid == "prod" and values.zero and not values.is_real:
            return where_equal(self._is_nonzero(value, state), 0.0, 0.0, state)
        return state

    def _is_nonzero(self, element: Term, product: Expr) -> Expr:
        """Carry 1, or 0 if a factor of a product is 0: so is the product then, whatever the others
        are."""
        state = self.state("is_nonzero", product.axes, "float", 1.0)
        is_nonzero = apply("compare", number(0.0), self.at.locals[element], attr="!=")
        signs = apply("cast", is_nonzero, attr="float")
        self.update(state, apply("minimum", state, reduce("min", self.loop.axis, signs)))
        return state

    def sum_tile(self, body: Term, state: Expr, vanishing: bool = False) -> Expr:
        """state + the sum of body over the loop's tile, as a product of tiles if it is one.

        `vanishing` says that a factor is already 0 outside the domain.
        """
        axis = self.loop.axis
        parts = apart(body, axis.name, self.at.tile_axes) if axis.role != "serial" else (body,)
        if len(parts) > 1:
            for part in parts:
                state = self.sum_tile(part, state, vanishing)
            return state
        sides = [body] if axis.role == "serial" else sides_of(self.at, body, axis.name)
        if len(sides) == 1:
            value = self.at.summand(body)
            value = value if vanishing else self.masked(value, 0.0)
            return apply("add", state, reduce("sum", axis, value))
        left, right = map(self.at.value, sides)
        if not vanishing:
            # What is loaded is 0 outside, and 0 times what a computed factor is masked to. Of two
            # that are loaded, one is masked where the domain may differ from row to row: that
            # which does so, too, if one does, as it may be infinite where it is left out. A finite
            # factor that lacks these rows is as good as loaded: masked, it would be a tile of
            # another axis, and the sum no product of matrices.
            domain = self.loop.domain
            loaded = self.at.is_load(left), self.at.is_load(right)
            if not any(loaded):
                has_rows = domain <= left.axes, domain <= right.axes
                loaded = (
                    has_rows == (False, True) and T.is_finite_if_read(sides[0]),
                    has_rows == (True, False) and T.is_finite_if_read(sides[1]),
                )
            is_either = all(loaded) and not self.loop.is_whole
            is_right = is_either and domain <= right.axes and not domain <= left.axes
            if not loaded[0] or (is_either and not is_right):
                left = self.masked(left, 0.0)
            if not loaded[1] or is_right:
                right = self.masked(right, 0.0)
        return contract(axis, left, right, state)

    def combine(
        self,
        monoid: Combine | Selection,
        states: Sequence[Expr],
        values: Sequence[Expr],
        keep: bool = False,
    ) -> list[Expr]:
        """Combine states with a tile's elements, in their order; the states are the result, or
        all prefixes if they are to be kept. Elements may have more fields than there are states:
        these begin with the same states, and are not carried on."""
        fields = [*states] * (len(values) // len(states))
        names = tuple(self.at.fresh(s.attr + "_new") for s in fields)
        prefixes = tuple(self.at.fresh(s.attr + "_prefix") for s in fields) if keep else ()
        axis = self.loop.axis.name
        elements, origin = tuple(values), self.at.origin
        fold = Fold(names, monoid, axis, tuple(fields), elements, prefixes, origin)
        self.scope.body.append(fold)
        for name in (*names, *prefixes):
            self.at.depths[name] = self.scope.depth
        for name, state in zip(names, states, strict=False):
            self.update(state, local(name, state.axes, state.kind))
        kept = zip(prefixes, fields, strict=False)
        return [local(n, s.axes | {axis}, s.kind) for n, s in kept] if keep else list(states)
