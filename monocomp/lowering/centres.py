"""Centres: sums about a mean or a maximum that their own loop computes (`moving`).

A step moves what was summed from the old centre to the new one, by the binomial theorem, and sums
the tile about the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from monocomp import terms as T
from monocomp.errors import UnsupportedError
from monocomp.lowering.framed_sums import FramedSums
from monocomp.rewrites.frames import largest
from monocomp.rewrites.moving_centres import Centred, Unit, coefficient
from monocomp.terms import Term
from monocomp.terms.algebra import settled, value_of
from monocomp.terms.monomials import addends, factors
from monocomp.terms.transfer import hull
from monocomp.tile import Expr

_NO_WEIGHT = T.const(-4096.0, "float")  # its exponential is 0 in every dtype


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
    new_values = {u.name: body.next_value(u.name) for u in body.updates}
    old: dict[Term, Term] = {}
    new: dict[Term, Term] = {}
    old_finite: dict[Term, Term] = {}
    new_finite: dict[Term, Term] = {}
    for t, state in results.items():
        if t.op == "fold" and isinstance(t.attr.monoid, T.UserMonoid):
            continue  # what is read of it are its fields
        if t in sums.frames:
            old[t], new[t], new_finite[t], _ = sums.frames[t]
        else:
            begun = hull(at.domain(t), at.domain(_unit_of(t)))
            old[t] = at.symbol("old", state, begun)
            new[t] = at.symbol("new", _with_locals(state, new_values), begun)
        if _unit_of(t) in (T.INF, T.NEG_INF):
            old_finite[t] = settled(old[t])
            new_finite.setdefault(t, settled(new[t]))
    found: dict[Term, Expr] = {}

    def order(f: Term) -> tuple[int, int]:
        """After the sums that its centres are made of, and those of lower powers."""
        units = moving[f].units
        inside = set(T.subterms(*(u.centre for u in units)))
        return sum(value_of(g) in inside for g in moving), sum(u.power for u in units)

    for f in sorted(moving, key=order):
        with at.computing(f):
            taken = moving[f]

            def here(t: Term, name: str = taken.bound.attr[0]) -> Term:
                return T.substitute(t, {name: sums.bound})

            centres = [
                (_in_terms(u.centre, old, old_finite), _in_terms(u.centre, new, new_finite))
                for u in taken.units
            ]
            moves = [T.sub(before, after) for before, after in centres]
            companions = [(degrees, _multiple(c, old)) for degrees, c in taken.companions]
            moved = [T.mul(coefficient(taken, degrees, moves), c) for degrees, c in companions]
            units = []
            far = []
            for unit, (_, after) in zip(taken.units, centres, strict=True):
                # One difference of two values, whatever they are sums of: it is exact.
                x, c = (
                    at.symbol("x", at.value(t), at.domain(t)) for t in (here(unit.distance), after)
                )
                if _is_below_frame(unit.distance, after, taken, sums):
                    # -inf weighs 0, as does whatever is that far below the largest.
                    x, c = T.function("maximum", T.sub(x, c), _NO_WEIGHT), T.ZERO
                elif taken.exponent is not None and not at.domain(unit.distance).is_real:
                    far.append(T.power_of(T.sub(x, c), unit.power))
                units.append(Unit(x, c, unit.power))
            element = here(taken.element(units))
            if taken.exponent is None:
                state = body.state("acc", at.tile_axes(f), f.kind, 0.0)
                start = at.value(T.add(at.symbol("old", state, at.domain(f)), *moved))
                body.update(state, body.sum_tile(element, start))
            else:
                parts = (here(taken.condition), element, here(taken.exponent))
                state = sums.add(f, parts, moved, far)
            result = value_of(f)
            found[result] = state
            values = at.domain(result)
            old[result] = at.symbol("old", state, values)
            new[result] = at.symbol("new", body.next_value(state.attr), values)
    return found


def _is_below_frame(distance: Term, centre: Term, moving: Centred, sums: FramedSums) -> bool:
    """Is this the exponent of a weight, that may be -inf, less the largest one?"""
    if moving.exponent is None or distance is not moving.exponent:
        return False
    if not sums.body.at.domain(distance).masked:
        return False
    whole = largest(moving.bound, moving.condition, moving.exponent)
    return whole in sums.frames and centre is sums.frames[whole].shift


def _unit_of(t: Term) -> Term:
    """Return the value of an aggregate, or of a field of one, over nothing."""
    if t.op == "fold":
        units = {"max": T.NEG_INF, "min": T.INF, "prod": T.ONE}
        return units.get(t.attr.monoid, T.ZERO)
    unit: Term = t.args[0].attr.monoid.unit_of(t.attr)
    return unit


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


def _in_terms(t: Term, symbols: Mapping[Term, Term], finite: Mapping[Term, Term]) -> Term:
    """A centre in terms of symbols for its folds: any finite number while nothing is there. Folds
    that were found later may hold those before them."""
    parts = [f for a in addends(t) for f in factors(a)]
    if any(f not in parts for f in finite if f in T.subterms(t)):  # a function of one
        for fold_, symbol in reversed([*symbols.items()]):
            t = T.replace(t, fold_, symbol)
        return _finite(t)
    for fold_, symbol in reversed([*{**symbols, **finite}.items()]):
        t = T.replace(t, fold_, symbol)
    of_folds = {*symbols.values(), *finite.values()}

    def guarded(s: Term) -> Term:
        if s.op == "pow" and s.attr < 0:
            base = guarded(s.args[0])
            empty = T.compare("==", base, T.ZERO)
            return T.where(empty, T.ZERO, T.power_of(base, s.attr))
        if s.op == "log":
            return T.where(T.compare("==", s.args[0], T.ZERO), T.ZERO, s)
        if s.op in ("add", "mul"):
            return T.rebuild(s, tuple(map(guarded, s.args)))
        inside = T.subterms(s)
        return _finite(s) if any(map(_is_partial, inside)) and of_folds & {*inside} else s

    return guarded(t)


def _finite(t: Term) -> Term:
    return T.where(T.compare("<", T.function("abs", t), T.INF), t, T.ZERO)


def _is_partial(t: Term) -> bool:
    """Is it no finite number of some that are?"""
    return t.op in ("log", "power") or (t.op == "pow" and t.attr < 0)
