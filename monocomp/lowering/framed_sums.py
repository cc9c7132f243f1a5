"""Framed sums: sums of exponentials, carried as mantissas in the frame of the largest exponent.

A step joins the frame with the elements of a tile, moves what was summed from the old frame to the
new one, and adds the tile's elements in the new one (`terms.algebra`):

    v <- move(m, m') v + sum_k embed(m', value, exponent)        m' the joined frame
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from monocomp import terms as T
from monocomp.lowering.bodies import UNITS, Body
from monocomp.lowering.expressions import where_equal
from monocomp.rewrites.frames import largest
from monocomp.terms import Term
from monocomp.terms.algebra import embed, move, settled
from monocomp.terms.monomials import addends, exponent_of, factors, without_exponent
from monocomp.terms.transfer import REAL
from monocomp.tile import Expr, apply

_FOLDS = ("fold", "fold_at")


class Frame(NamedTuple):
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


class FramedSums:
    """The framed sums of a loop over `bound`, and the extrema that they are scaled by."""

    def __init__(self, body: Body, bound: Term) -> None:
        self.body = body
        self.bound = bound
        self.frames: dict[Term, Frame] = {}

    def add_frame(self, f: Term, element: Term, state: Expr, old: Expr | None = None) -> None:
        """Scale sums by an extremum, which the body has just folded; its old value is that of the
        state, unless it is moved."""
        at = self.body.at
        new = self.body.next_value(state.attr)
        # It is -inf or inf before the first element.
        before = replace(at.domain(f), lo=-math.inf, masked=True)
        new_symbol = at.symbol("frame", new, before)
        shift = at.value(settled(new_symbol), role="shift")
        masked = self.body.masked_symbol(element, UNITS[f.attr.monoid])
        self.frames[f] = Frame(
            at.symbol("old", state if old is None else old, before),
            new_symbol,
            at.symbol("shift", shift, REAL),
            masked,
        )

    def add(self, f: Term, parts: Sequence[Term], moved: Sequence[Term] = ()) -> Expr:
        """Carry the mantissa of a sum.

        Args:
            f: the sum.
            parts: its condition, value and exponent.
            moved: what is added to the mantissa in the old frame, as a centre moves.
        """
        at = self.body.at
        condition, value, exponent = parts
        if exponent_of(value) is not T.ZERO:  # an exponential beside the weight stays a number
            beside = T.exp(exponent_of(value))
            symbol = at.symbol("beside", at.value(beside), at.domain(beside))
            value = T.mul(without_exponent(value), symbol)
        whole = largest(self.bound, condition, exponent)
        inside = [g for g in self.frames if T.holds(whole, g)]
        outer = [g for g in inside if not any(T.holds(h, g) for h in inside if h is not g)]
        frames = {g: self.frames[g] for g in outer}
        old, new = self._moved(whole, frames)
        masked = self._masked(exponent, frames)
        base = "acc" if value is not T.ONE else "l_i"
        state = self.body.state(base, at.tile_axes(T.field(f, "v")), "float", 0.0)
        scaled = state
        if moved:
            carried = at.symbol("old", state, at.domain(T.field(f, "v")))
            scaled = at.summand(T.add(carried, *moved))
        if frames:
            scale = at.value(move(old, new), role="alpha")
            for extremum, frame in frames.items():
                if not self._is_missing_with(whole, extremum, extremum):
                    start = UNITS[extremum.attr.monoid]
                    scale = where_equal(at.value(frame.old), start, 0.0, scale)
            scaled = apply("mul", scaled, scale)
        element = embed(new, value, masked)
        safe = all(f.op == "exp" or _is_0_outside(f, condition) for f in factors(element))
        unbounded = [f for f in factors(value) if not at.domain(f).is_real]
        absorbed = _absorbed(embed(new, value, exponent), self.bound.name)
        if absorbed is not None and not at.domain(exponent).unspecified:
            element, safe = absorbed, False
        elif unbounded and at.domain(exponent).masked:
            # A weight of 0 beside what is -inf or unspecified.
            weight = at.value(embed(new, T.ONE, masked))
            weighted = apply("mul", weight, at.value(T.mul(*unbounded)))
            selected = where_equal(weight, 0.0, 0.0, weighted)
            bounded = [f for f in factors(value) if f not in unbounded]
            values = at.domain(T.mul(*unbounded))
            element = T.mul(at.symbol("weighted", selected, values), *bounded)
            safe = all(_is_0_outside(f, condition) for f in bounded)
        self.body.update(state, self.body.sum_tile(element, scaled, vanishing=safe))
        return state

    def _moved(self, whole: Term, frames: Mapping[Term, Frame]) -> tuple[Term, Term]:
        """Return the frame of a sum before this tile, and what is subtracted from its exponents."""
        is_linear = all(self._is_missing_with(whole, f, f) for f in frames)
        old = new = whole
        for extremum, frame in frames.items():
            old = T.replace(old, extremum, frame.old)
            new = T.replace(new, extremum, frame.shift if is_linear else frame.new)
        is_known = not frames and any(f.op == "fold" for a in addends(whole) for f in factors(a))
        is_settled = whole.op == "fold" and not self.body.at.domain(whole).unspecified
        if not is_linear or (is_known and not is_settled):
            # An increasing function of an infinite extremum may be finite, and the other way round;
            # what is known from an earlier pass may be of nothing.
            new = settled(new)
        return old, new

    def _masked(self, exponent: Term, frames: Mapping[Term, Frame]) -> Term:
        """Return the exponent, -inf outside the domain: in terms of what a frame is folded of,
        if that makes it so."""
        weight_exponent = exponent
        is_missing = False
        for extremum, frame in frames.items():
            _, (_, element) = T.open_as(extremum, (self.bound.name,))
            weight_exponent = _in_terms_of(weight_exponent, element, frame.masked)
            is_missing |= self._is_missing_with(weight_exponent, frame.masked, extremum)
        if is_missing and self.bound.name not in weight_exponent.free:
            return weight_exponent
        # The frame is known from an earlier pass and moves no more, or is of other terms, or is an
        # increasing function of one: where an element is missing, exp(-inf) = 0 is not.
        return self.body.masked_symbol(weight_exponent, UNITS["max"])

    def _is_missing_with(self, t: Term, part: Term, extremum: Term) -> bool:
        """True if t is -inf where a part is what an extremum is over nothing."""
        nothing = T.const(UNITS[extremum.attr.monoid], "float")
        return self.body.at.domain(T.replace(t, part, nothing)).is_missing


def _absorbed(body: Term, name: str) -> Term | None:
    """Return an exponential multiplied into sums of exponentials, where that leaves fewer of
    them: exp(c) * relu(exp(a - c) - exp(-c)) = relu(exp(a) - 1)."""
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


def _in_terms_of(t: Term, part: Term, symbol: Term) -> Term:
    """t with a symbol for a part of it, or for some of its factors. Folds stay: a symbol is known
    in its own loop alone."""
    replaced = T.transform(lambda s: symbol if s is part else s if s.op in _FOLDS else None)(t)
    if replaced is not t or t.op != part.op:
        return replaced
    if t.op == "mul":
        number, rest = T.split_coefficient(part)
        ours, theirs = list(factors(t)), list(factors(rest)) if rest is not None else []
        if number == 1 and all(f in ours for f in theirs):
            return T.mul(symbol, *(f for f in ours if f not in theirs))
    return t


def _is_0_outside(f: Term, condition: Term) -> bool:
    """True if f is read, and is 0 where the filter fails. What the filter asks about is read for
    all elements, and may be NaN there, unless the filter is just [f != 0]."""
    reads = (s for s in T.subterms(f) if s.op in T.READS)
    is_asked = not {*T.subterms(condition)}.isdisjoint(reads)
    is_nonzero = all(c is T.compare("!=", T.ZERO, f) for c in T.conjuncts(condition))
    return T.is_read(f) and (is_nonzero or not is_asked)
