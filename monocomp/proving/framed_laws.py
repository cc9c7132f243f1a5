"""The laws of framed monoids (`algebra`) as claims: moving is an action that agrees with embedding.

So a tile may be folded straight into the joined frame. A frame that is the join's unit is
subtracted as 0 (`settled`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from itertools import pairwise
from typing import TypeAlias

from monocomp import terms as T
from monocomp.proving.claims import Claim, Operands, Sides, shown_values
from monocomp.proving.extended_reals import Cases
from monocomp.proving.laws import BUILT_IN, carrier_of
from monocomp.terms import Term
from monocomp.terms.algebra import FramedMonoid, settled
from monocomp.terms.printer import show

_param = partial(T.param, kind="float")
_add, _mul = partial(T.inert, "add"), partial(T.inert, "mul")
_Pair: TypeAlias = tuple[Term, Term]  # a frame and a value
_FRAMES = "erst"  # names of frames and exponents, which may be the join's unit


class _Operations:
    """The operations of a framed monoid on terms, with what makes a frame one to subtract."""

    def __init__(self, f: FramedMonoid, settle: Callable[[Term], Term] = settled) -> None:
        self.f, self.settle = f, settle

    def move(self, old: Term, new: Term) -> Term:
        """Return the factor from one frame to another."""
        return self.f.move(old, self.settle(new))

    def embed(self, frame: Term, value: Term, exponent: Term) -> Term:
        """Return an element's contribution in a frame."""
        return self.f.embed(self.settle(frame), value, exponent)

    def join(self, *frames: Term) -> Term:
        """Return the frame of several numbers."""
        return reduce(partial(T.function, f"{self.f.join}imum"), frames)

    def dot(self, x: _Pair, y: _Pair) -> _Pair:
        """(r1, a1) . (r2, a2)"""
        r = self.join(x[0], y[0])
        return r, _add(*(_mul(self.move(s, r), a) for s, a in (x, y)))


def framed_claims(f: FramedMonoid) -> Iterator[Claim]:
    """Yield the laws of `algebra`, and that the same as pairs agrees."""
    m, plain = _Operations(f), _Operations(f, lambda frame: frame)
    claim = partial(_claim, f)
    e, r, s, t, v, w, a, b, c = map(_param, "erstvwabc")

    def law(name: str, sides: Callable[[_Operations], tuple[Term, Term]], chain: str) -> Claim:
        left, right = sides(m)
        shown, other = map(show, sides(plain))
        return claim(name, shown, other, f", for {' <= '.join(chain)}", [left], [right], chain)

    yield law(
        "equivariance",
        lambda m: (_mul(m.move(r, s), m.embed(r, v, e)), m.embed(s, v, e)),
        "ers",
    )
    yield law("cocycle", lambda m: (_mul(m.move(s, t), m.move(r, s)), m.move(r, t)), "rst")
    yield law(
        "linear move",
        lambda m: (
            _mul(m.move(r, s), _add(a, b)),
            _add(_mul(m.move(r, s), a), _mul(m.move(r, s), b)),
        ),
        "rs",
    )
    yield law(
        "linear embed",
        lambda m: (
            m.embed(r, _add(_mul(c, v), w), e),
            _add(_mul(c, m.embed(r, v, e)), m.embed(r, w, e)),
        ),
        "er",
    )
    (unit,) = BUILT_IN[f.join].unit
    nothing = shown_values(carrier_of(BUILT_IN[f.join]).unit)
    yield claim(
        "unit",
        f"(move from r = {nothing}) * a",
        "0",
        f", and an element with e = {nothing} contributes 0",
        [_mul(m.move(unit, r), a), m.embed(r, a, unit)],
        [T.ZERO, T.ZERO],
    )
    joined = m.join(r, e)
    straight = _add(_mul(m.move(r, joined), a), m.embed(joined, v, e))
    shown = show(_add(_mul(plain.move(r, s), a), plain.embed(s, v, e)))
    one = m.dot((r, a), (e, m.embed(e, v, e)))
    yield claim(
        "tile step", "(r, a) . (e, v)", f"(s, {shown})", ", with s = r . e", one, [joined, straight]
    )
    for size in (2, 3):
        elements = [(_param(f"e{n}"), _param(f"v{n}")) for n in range(size)]
        embedded = [(e, m.embed(e, v, e)) for e, v in elements]
        whole = m.join(*(e for e, _ in elements))
        tile = _add(*(m.embed(whole, v, e) for e, v in elements))
        folded = reduce(m.dot, embedded, (unit, T.ZERO))
        about = f" for {size} elements"
        yield claim(f"tile of {size}", "fold", "tile", about, folded, [whole, tile])
    if f.pair is not None:
        value, frame = f.pair.fields
        pairs = [(_param(frame + x), _param(value + x)) for x in ("", "'")]
        agree = f"{f.pair.name} combine"
        combined = m.dot(*pairs)[::-1]
        yield claim("pair form", agree, "framed combine", "", f.pair.combine, combined)


def _claim(
    f: FramedMonoid,
    name: str,
    left_text: str,
    right_text: str,
    condition: str,
    left: Sequence[Term],
    right: Sequence[Term],
    chain: str = "",
) -> Claim:
    """Return the claim that terms are equal, for frames of which each is at least the one before in
    a chain, as a frame only grows."""
    join = _Operations(f).join
    frames = carrier_of(BUILT_IN[f.join])
    params = sorted({t.attr for t in T.subterms(*left, *right) if t.op == "param"})
    framed = () if f.pair is None else f.pair.fields[1]

    def check(cases: Cases, shown: Operands) -> Sides:
        values = {}
        for n in params:
            if n[0] in (*_FRAMES, *framed):
                (values[n],) = frames.element(cases, n, shown)
            else:
                values[n] = cases.real(n)
                shown[n] = (values[n],)
        for x, y in pairwise(chain):
            larger = cases.evaluate(join(_param(x), _param(y)), values)
            cases.assume(cases.equal(larger, values[y]))
        memo: dict[Term, object] = {}
        one, other = ([cases.evaluate(t, values, memo) for t in ts] for ts in (left, right))
        return Sides(one, other)

    return Claim(name, left_text, right_text, check, condition)
