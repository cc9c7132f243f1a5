"""Centres: sums about a mean or a maximum that their own loop computes (`moving`).

A step moves what was summed from the old centre to the new one, by the binomial theorem, and sums
the tile about the new one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import field, replace

from monocomp import terms as T
from monocomp.declarations.record import record
from monocomp.errors import UnsupportedError
from monocomp.lowering.bodies import UNITS, Body
from monocomp.lowering.differences import differences
from monocomp.lowering.expressions import reduce
from monocomp.lowering.framed_sums import FramedSums
from monocomp.lowering.values import Values
from monocomp.rewrites.centred import Centred, Unit
from monocomp.terms import Term
from monocomp.terms.algebra import settled, value_of
from monocomp.terms.monomials import addends
from monocomp.terms.nodes import Number
from monocomp.terms.transfer import hull
from monocomp.tile import Expr, apply


def add_centred(
    sums: FramedSums, moving: Mapping[Term, Centred], results: Mapping[Term, Expr]
) -> dict[Term, Expr]:
    """Carry sums about moving centres.

    Args:
        sums: the framed sums of the loop so far.
        moving: the sums, taken apart.
        results: what the loop carries for the folds that the centres are made of.
    """
    body = sums.body
    at = body.at
    old, new = _Symbols(at), _Symbols(at)
    companions = frozenset[Term]().union(*(taken.companions() for taken in moving.values()))
    for t in results:
        if t in sums.frames:
            frame = sums.frames[t]
            old.known[t], new.known[t] = settled(frame.old), frame.shift
        elif (t.args[0] if t.op == "field" else t) in companions:
            _add_result(body, t, results[t], old, new)
    carried: dict[Term, Expr] = {}

    def order(f: Term) -> tuple[int, bool, int]:
        """After the sums that its centres are made of, and frames and those of lower powers."""
        inside = set(T.subterms(*(u.centre for u in moving[f].every_unit)))
        degree = sum(u.power for u in moving[f].units)
        return sum(value_of(g) in inside for g in moving), f.attr.monoid != "max", degree

    for f in sorted(moving, key=order):
        with at.computing(f):
            taken, result = moving[f], value_of(f)
            if f.attr.monoid == "max":
                carried[f] = _add_frame(sums, f, taken, old, new)
                _add_result(body, f, carried[f], old, new)
                continue
            *lower, _ = taken.degrees
            moves = [_move(u.centre, old, new) for u in taken.units]
            moved = [T.mul(taken.coefficient(n, moves), old.multiple(s)) for n, s in lower]
            element = _element(taken, new, sums)
            if taken.weights.exponent is None:
                state = body.state("acc", at.tile_axes(f), f.kind, 0.0)
                start = at.summand(T.add(at.symbol("old", state, at.domain(f)), *moved))
                body.update(state, body.sum_tile(element[1], start))
            else:
                state = sums.add(f, element, moved)
            carried[result] = state
            _add_result(body, result, state, old, new)
    return carried


def _add_frame(sums: FramedSums, f: Term, taken: Centred, old: _Symbols, new: _Symbols) -> Expr:
    """Carry the largest distance from a centre, and scale sums by it."""
    body, at, exponent = sums.body, sums.body.at, taken.exponent
    assert exponent is not None
    state = body.state("m_i", at.tile_axes(f), "float", UNITS["max"])
    start = at.symbol("old", state, replace(at.domain(f), lo=-math.inf, masked=True))
    moved = at.let(body.scope, "moved", at.value(T.add(start, _move(exponent.centre, old, new))))
    here = {taken.weights.bound.name: sums.bound}
    distance = _distance(exponent, lambda t: T.substitute(t, here), new)
    element = at.locals[body.masked_symbol(distance, UNITS["max"])]
    largest = reduce("max", body.loop.axis, element)
    body.update(state, apply("maximum", moved, largest, attr="frame"))
    sums.add_frame(f, distance, state, moved)
    return state


def _add_result(body: Body, t: Term, state: Expr, old: _Symbols, new: _Symbols) -> None:
    """Add the symbols for a result before and after a tile."""
    at, monoid = body.at, t.args[0].attr.monoid if t.op == "field" else t.attr.monoid
    unit = monoid.unit_of(t.attr) if t.op == "field" else T.const(UNITS.get(monoid, 0.0), "float")
    values = hull(at.domain(t), at.domain(unit))
    next_value = _with_locals(state, {u.name: body.next_value(u.name) for u in body.updates})
    for base, symbols, value in (("old", old, state), ("new", new, next_value)):
        symbol = at.symbol(base, value, values)
        symbols.known[t] = settled(symbol) if unit in (T.INF, T.NEG_INF) else symbol


def _element(taken: Centred, new: _Symbols, sums: FramedSums) -> tuple[Term, Term, Term]:
    """Return the condition, value and exponent of an element of the tile."""
    weights = taken.weights

    def here(t: Term) -> Term:
        return T.substitute(t, {weights.bound.name: sums.bound})

    powers = (T.power_of(_distance(u, here, new), u.power) for u in taken.units)
    value = T.mul(here(weights.weight), *powers)
    return here(weights.condition), value, here(weights.exponent or T.ZERO)


def _move(centre: Term, old: _Symbols, new: _Symbols) -> Term:
    """Return the old centre minus the new one, addend by addend: these may be large and cancel."""
    total = []
    for count, t in map(T.split_coefficient, addends(centre)):
        assert t is not None
        total.append(_times(count, _difference(new.at, old.centre(t), new.centre(t))))
    return T.add(T.ZERO, *total)


def _distance(unit: Unit, here: Callable[[Term], Term], new: _Symbols) -> Term:
    """Return the distance of an element from the new centre: from each maximum, that of what it is
    of."""
    pairs, rest = differences([*addends(unit.distance), *addends(T.neg(unit.centre))])
    elements = T.add(T.ZERO, *(a for a in addends(unit.distance) if a in rest))
    centre = T.add(T.ZERO, *(a for a in addends(unit.centre) if T.neg(a) in rest))
    total = [here(elements)] if rest else []
    if centre is not T.ZERO:
        total = [_difference(new.at, here(elements), new.centre(centre))]
    for x, extremum in pairs:
        count, m = T.split_coefficient(extremum)
        assert m is not None
        total.append(_times(-count, _difference(new.at, here(x), new.centre(here(m)))))
    return T.add(T.ZERO, *total)


def _times(count: Number, t: Term) -> Term:
    return T.mul(T.const(count, "float"), t)


def _difference(at: Values, a: Term, b: Term) -> Term:
    """One difference of two values, whatever they are sums of: of what is alike it is exact."""
    x, y = (at.symbol("x", at.value(t), at.domain(t)) for t in (a, b))
    difference = T.sub(x, y)
    return at.symbol("difference", at.value(difference), at.domain(difference))


@record()
class _Symbols:
    """Results of a loop, before or after a tile: symbols by their folds. Those of extrema are 0
    while nothing is there."""

    at: Values
    known: dict[Term, Term] = field(default_factory=dict)

    def centre(self, t: Term) -> Term:
        """Write a centre in symbols: any finite number while nothing is there."""
        # Folds of other loops are known, with those inside of them.
        t = T.transform(lambda a: self.known.get(a, a if a.op == "fold" else None))(t)
        if self.at.domain(t).is_real:
            return t
        return T.where(T.compare("<", T.function("abs", t), T.INF), t, T.ZERO)

    def multiple(self, t: Term) -> Term:
        """Write a number times a fold with the symbol for the fold."""
        number, fold = T.split_coefficient(t)
        symbol = self.known.get(fold or t)
        if symbol is None:
            raise UnsupportedError(
                f"a sum about a moving centre needs {t!r} at every step, and another loop has it",
                help="return what the variance is taken of, and take it in a second program",
            )
        return T.mul(T.const(number, t.kind), symbol)


def _with_locals(e: Expr, values: Mapping[str, Expr]) -> Expr:
    """Return an expression of states with other values of these."""
    if e.op == "local":
        return values.get(e.attr, e)
    return replace(e, args=tuple(_with_locals(a, values) for a in e.args)) if e.args else e
