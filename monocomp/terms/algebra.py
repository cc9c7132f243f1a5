"""SE, the number format of exponentials: a monoid with a moving frame.

The pair (v, m) stands for exp(m) v, a number with its exponent split off. m is a frame that only
grows, a maximum, and v a sum of elements written in it: `embed` writes one so, and `move` takes a
sum from one frame to another.

    (v, m) . (w, n) = (move(m, r) v + move(n, r) w, r),   r = max(m, n)

So tiles are folded straight into the joined frame, and partial results merged in any bracketing.
(Semidirect products of monoids; for softmax: Milakov and Gimelshein 2018, arXiv:1805.02867.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from monocomp import terms as T
from monocomp.declarations.vocabulary import Kind
from monocomp.terms import Term
from monocomp.terms.nodes import SCALED, intern


def settled(frame: Term) -> Term:
    """Return the frame to subtract: 0 where it is infinite, so that inf - inf never occurs.

    Without an element it is -inf, and an element at -inf contributes exp(-inf - 0) = 0, as does an
    empty sum. An element at inf contributes exp(inf - 0) = inf.
    """
    return T.where(T.compare("==", T.INF, T.function("abs", frame)), T.ZERO, frame)


def move(old: Term, new: Term) -> Term:
    """Return the factor that takes a sum from one frame to another."""
    return T.exp(T.sub(old, new))


def embed(frame: Term, value: Term, exponent: Term) -> Term:
    """Write an element in a frame."""
    return T.mul(value, move(exponent, frame))


_v, _w, _m, _n = (T.param(name, "float") for name in ("v", "v'", "m", "m'"))
_top = T.function("maximum", _m, _n)

# The same as a user would declare it; programs print their lifted folds with it, so that
# the oracle and a reader can follow. It is proved like any user's monoid.
SE_PAIR = T.UserMonoid(
    "SE",
    ("v", "m"),
    (T.ZERO, T.NEG_INF),
    (T.add(embed(settled(_top), _v, _m), embed(settled(_top), _w, _n)), _top),
)
SCALED.add(SE_PAIR)


def mantissa(bound: Term, condition: Term, value: Term, exponent: Term) -> Term:
    """`SE[k if condition](value, exponent).v`: the sum with its exponent split off."""
    return T.field(T.fold(SE_PAIR, (bound,), condition, value, exponent), "v")


def frame(bound: Term, condition: Term, exponent: Term) -> Term:
    """`max[k if condition](exponent)`: what `SE[k](value, exponent).m` equals."""
    return T.fold("max", (bound,), condition, exponent)


def value_of(f: Term) -> Term:
    """Return the fold f as programs write it: a fold in SE by its value."""
    return T.field(f, "v") if f.attr.monoid is SE_PAIR else f


LEAST_INT, LARGEST_INT = -(2**63), 2**63 - 1


def lowest(kind: Kind) -> Term:
    """Return the maximum of nothing."""
    return T.NEG_INF if kind == "float" else T.const(LEAST_INT)


def highest(kind: Kind) -> Term:
    """Return the minimum of nothing."""
    return T.INF if kind == "float" else T.const(LARGEST_INT)


def of_one_field(name: str, kind: Kind = "float") -> T.UserMonoid:
    """Return a built-in monoid of numbers or conditions, with tuples of one field."""
    operations: dict[str, tuple[Term, Callable[[Term, Term], Term]]] = {
        "sum": (T.const(0, kind), T.add),
        "prod": (T.const(1, kind), T.mul),
        "max": (lowest(kind), partial(T.function, "maximum")),
        "min": (highest(kind), partial(T.function, "minimum")),
        "any": (T.FALSE, T.disjunction),
        "all": (T.TRUE, T.conjunction),
    }
    unit, operation = operations[name]
    combined = operation(T.param("x", kind), T.param("x'", kind))
    return T.UserMonoid(_name_for(name, kind), ("x",), (unit,), (combined,))


def first_position(name: str, value: Kind = "float", position: Kind = "float") -> T.UserMonoid:
    """Return the monoid of argmax or argmin: pairs of a value and its position.

    The first of equal values wins, whatever the order of the operands; the position of nothing
    comes after all others.
    """
    x, y = T.param("x", value), T.param("x'", value)
    i, j = T.param("i", position), T.param("i'", position)
    best = T.function("maximum" if name == "argmax" else "minimum", x, y)
    y_is_better = T.compare("<", x, y) if name == "argmax" else T.compare("<", y, x)
    tie = T.where(T.compare("==", x, y), T.function("minimum", i, j), i)
    worst = lowest(value) if name == "argmax" else highest(value)
    combine = (best, T.where(y_is_better, j, tie))
    unit = (worst, highest(position))
    return T.UserMonoid(_name_for(name, value), ("x", "i"), unit, combine)


def _name_for(name: str, kind: Kind) -> str:
    return name if kind == "float" or name in ("any", "all") else f"{name}_of_{kind}s"


def is_selection(t: Term) -> bool:
    """True if t is an entry of `top` or `argtop`."""
    return t.op == "fold_at" and t.attr.target is not None


def carrier(t: Term) -> Term:
    """Return the fold that a loop carries for a fold: for an entry of `top` or `argtop` the list of
    the largest values and their positions, represented by its first entry."""
    if not is_selection(t) or (t.attr.monoid == "top" and t.args[0] is _FIRST):
        return t
    return _entry(t, "top")


def carried_positions(top: Term) -> Term:
    """Return the term that represents the positions in the list that `top` represents."""
    return _entry(top, "argtop")


def _entry(t: Term, monoid: str) -> Term:
    binder = replace(t.attr, monoid=monoid)
    return intern("fold_at", (_FIRST, *t.args[1:]), binder, "float" if monoid == "top" else "int")


_FIRST = T.const(0)


def is_mantissa(t: Term) -> bool:
    """True if t is the value field of an SE fold."""
    return t.op == "field" and t.attr == "v" and t.args[0].attr.monoid is SE_PAIR
