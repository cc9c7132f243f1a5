"""The laws of framed monoids (`algebra`) as claims: moving is an action that agrees with embedding.

So a tile may be folded straight into the joined frame. A frame that is the join's unit is
subtracted as 0 (`settled`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial

from monocomp import terms as T
from monocomp.proving.claims import Claim, Operands, Sides, Values, shown_values
from monocomp.proving.extended_reals import Cases, Value
from monocomp.proving.laws import BUILT_IN, Carrier, carrier_of
from monocomp.terms.algebra import FramedMonoid, settled
from monocomp.terms.printer import show

_param = partial(T.param, kind="float")


class _Framed:
    """The operations of a framed monoid on the values of a case."""

    def __init__(self, f: FramedMonoid, cases: Cases, shown: Operands) -> None:
        self.f, self.cases, self.shown = f, cases, shown
        self.frames = carrier_of(BUILT_IN[f.join])

    def real(self, name: str) -> Value:
        """An arbitrary value."""
        x = self.cases.real(name)
        self.shown[name] = (x,)
        return x

    def frame(self, name: str) -> Value:
        """An arbitrary frame or exponent, the join's unit included."""
        (x,) = self.frames.element(self.cases, name, self.shown)
        return x

    def chain(self, *names: str) -> list[Value]:
        """Frames of which each is at least the one before, as a frame only grows."""
        frames = [self.frame(name) for name in names]
        for a, b in itertools.pairwise(frames):
            self.cases.assume(self.cases.equal(self.join(a, b), b))
        return frames

    def join(self, a: Value, b: Value) -> Value:
        """a v b"""
        return self.frames.combine(self.cases, (a,), (b,))[0]

    def move(self, old: Value, new: Value) -> Value:
        """The factor from one frame to another."""
        factor = self.f.move(_param("old"), settled(_param("new")))
        return self.cases.evaluate(factor, {"old": old, "new": new})

    def embed(self, frame: Value, value: Value, exponent: Value) -> Value:
        """An element's contribution in a frame."""
        term = self.f.embed(settled(_param("frame")), _param("value"), _param("exponent"))
        given = {"frame": frame, "value": value, "exponent": exponent}
        return self.cases.evaluate(term, given)

    def dot(self, a: Values, b: Values) -> Values:
        """(r1, a1) . (r2, a2)"""
        r = self.join(a[0], b[0])
        moved = [self.cases.mul(self.move(x[0], r), x[1]) for x in (a, b)]
        return r, self.cases.add(*moved)

    def tile(self, elements: Sequence[Values]) -> Values:
        """Elements (exponent, value) embedded in the join of their exponents."""
        r = elements[0][0]
        for exponent, _ in elements[1:]:
            r = self.join(r, exponent)
        return r, self.cases.add(*(self.embed(r, v, e) for e, v in elements))


def framed_claims(f: FramedMonoid) -> Iterator[Claim]:
    """The laws of `algebra`, and that the same as pairs agrees."""

    def claim(
        name: str, left: str, right: str, condition: str, check: Callable[[_Framed], Sides]
    ) -> Claim:
        def on_cases(cases: Cases, shown: Operands) -> Sides:
            return check(_Framed(f, cases, shown))

        return Claim(name, left, right, on_cases, condition)

    e, r, s, t, v = (_param(x) for x in "erstv")
    move = {(a.attr, b.attr): show(f.move(a, b)) for a in (e, r, s) for b in (r, s, t)}
    embed = {frame.attr: show(f.embed(frame, v, e)) for frame in (r, s)}

    def equivariance(m: _Framed) -> Sides:
        exponent, old, new = m.chain("e", "r", "s")
        value = m.real("v")
        moved = m.cases.mul(m.move(old, new), m.embed(old, value, exponent))
        return Sides((moved,), (m.embed(new, value, exponent),))

    left = f"{move['r', 's']} * ({embed['r']})"
    yield claim("equivariance", left, embed["s"], ", for e <= r <= s", equivariance)

    def cocycle(m: _Framed) -> Sides:
        a, b, c = m.chain("r", "s", "t")
        return Sides((m.cases.mul(m.move(b, c), m.move(a, b)),), (m.move(a, c),))

    left = f"{move['s', 't']} * {move['r', 's']}"
    yield claim("cocycle", left, move["r", "t"], ", for r <= s <= t", cocycle)

    def linear_move(m: _Framed) -> Sides:
        old, new = m.chain("r", "s")
        a, b, add, mul = m.real("a"), m.real("b"), m.cases.add, m.cases.mul
        factor = m.move(old, new)
        return Sides((mul(factor, add(a, b)),), (add(mul(factor, a), mul(factor, b)),))

    factor = move["r", "s"]
    both = f"{factor} * a + {factor} * b"
    yield claim("linear move", f"{factor} * (a + b)", both, ", for r <= s", linear_move)

    def linear_embed(m: _Framed) -> Sides:
        exponent, old = m.chain("e", "r")
        a, b, c = m.real("v"), m.real("w"), m.real("c")
        left = m.embed(old, m.cases.add(m.cases.mul(c, a), b), exponent)
        parts = m.cases.mul(c, m.embed(old, a, exponent)), m.embed(old, b, exponent)
        return Sides((left,), (m.cases.add(*parts),))

    w, c = _param("w"), _param("c")
    left = show(f.embed(r, T.add(T.mul(c, v), w), e))
    right = f"c * ({embed['r']}) + {show(f.embed(r, w, e))}"
    yield claim("linear embed", left, right, ", for e <= r", linear_embed)

    nothing = shown_values(carrier_of(BUILT_IN[f.join]).unit)

    def empty(m: _Framed) -> Sides:
        (none,), new, a = m.frames.unit_of(m.cases), m.frame("r"), m.real("a")
        zero = m.cases.number(Fraction(0))
        contributions = m.cases.mul(m.move(none, new), a), m.embed(new, a, none)
        return Sides(contributions, (zero, zero))

    left = f"(move from r = {nothing}) * a"
    yield claim("unit", left, "0", f", and an element with e = {nothing} contributes 0", empty)

    def induction(m: _Framed) -> Sides:
        old, exponent, a, value = m.frame("r"), m.frame("e"), m.real("a"), m.real("v")
        one = exponent, m.embed(exponent, value, exponent)
        new = m.join(old, exponent)
        straight = m.cases.add(m.cases.mul(m.move(old, new), a), m.embed(new, value, exponent))
        return Sides(m.dot((old, a), one), (new, straight))

    straight = f"(s, {move['r', 's']} * a + {embed['s']})"
    yield claim("tile step", "(r, a) . (e, v)", straight, ", with s = r . e", induction)

    for size in (2, 3):
        yield claim(f"tile of {size}", "fold", "tile", f" for {size} elements", _tile_check(size))

    if (pair := f.pair) is not None:

        def pairs(m: _Framed) -> Sides:
            frames, values = (m.frame("r"), m.frame("s")), (m.real("a"), m.real("b"))
            left, right = zip(values, frames, strict=True)
            combined = Carrier(pair, ()).combine(m.cases, left, right)
            r, a = m.dot((frames[0], values[0]), (frames[1], values[1]))
            return Sides(combined, (a, r))

        yield claim("pair form", f"{pair.name} combine", "framed combine", "", pairs)


def _tile_check(size: int) -> Callable[[_Framed], Sides]:
    def check(m: _Framed) -> Sides:
        exponents = [m.frame(f"e{n}") for n in range(size)]
        values = [m.real(f"v{n}") for n in range(size)]
        elements = list(zip(exponents, values, strict=True))
        folded: Values = m.frames.unit_of(m.cases)[0], m.cases.number(Fraction(0))
        for e, v in elements:
            folded = m.dot(folded, (e, m.embed(e, v, e)))
        return Sides(folded, m.tile(elements))

    return check
