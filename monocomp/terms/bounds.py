"""Bounds of values: the least and the largest number that a term may be, from its structure.

Each operator has a transfer function, from the bounds of its operands to its own. Bounds are those
of real arithmetic, and of a value wherever it is a number: `sigmoid(x)` is at least 0 and at most
1, a sum of squares at least 0. What is read may be any number. An aggregate over nothing has its
own value, so the mean of numbers between 1 and 2 is at least 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache, partial
from typing import TypeAlias

from monocomp.terms.asking import fact
from monocomp.terms.binders import open_fold, rename
from monocomp.terms.constructors import construct
from monocomp.terms.leaves import TRUE, const, extent_of, index
from monocomp.terms.nodes import Number, Term, UserMonoid

Bounds: TypeAlias = tuple[Number, Number]
Known: TypeAlias = frozenset[tuple[str, Bounds]]
ANY: Bounds = (-math.inf, math.inf)
_FROM_0: Bounds = (0, math.inf)
_SHARE: Bounds = (0, 1)


@lru_cache(maxsize=65536)
def bounds(t: Term, known: Known = frozenset()) -> Bounds:
    """Return the least and the largest number that t may be.

    Args:
        t: an int or a float; a condition has no bounds.
        known: bounds by the name of a definition or a parameter.
    """
    of = partial(bounds, known=known)
    transfer = _TRANSFER.get(t.op)
    if transfer is not None:
        return transfer(*map(of, t.args))
    match t.op:
        case "const" if t.kind != "bool":
            return t.attr, t.attr
        case "param" | "ref":
            return dict(known).get(t.attr, ANY)
        case "stored":
            return of(t.attr.body)
        case "cast":
            return _SHARE if t.args[0].kind == "bool" else of(t.args[0])
        case "where":
            return _hull(map(of, t.args[1:]))
        case "pow":
            return _power(of(t.args[0]), t.attr)
        case "fold" | "fold_at" if isinstance(t.attr.monoid, str):
            return _aggregate(t, of(t.args[-1]))
        case "field" if t.args[0].op in ("fold", "fold_at"):
            return _field(t, known)
    return ANY


def _hull(parts: Iterable[Bounds]) -> Bounds:
    least, largest = zip(*parts, strict=True)
    return min(least), max(largest)


def _add(*parts: Bounds) -> Bounds:
    least, largest = zip(*parts, strict=True)
    low = min(least) if _is_infinite(min(least)) else sum(least)
    high = max(largest) if _is_infinite(max(largest)) else sum(largest)
    return low, high


def _is_infinite(x: Number) -> bool:
    """True for an end that is no number; an exact one may be too large for a float."""
    return x in (math.inf, -math.inf)


def _times(x: Number, y: Number) -> Number:
    """x * y, and 0 for 0 * inf."""
    if not x or not y:
        return 0
    if _is_infinite(x) or _is_infinite(y):
        return math.inf if (x > 0) == (y > 0) else -math.inf
    return x * y


def _mul(*parts: Bounds) -> Bounds:
    low, high = parts[0]
    for part in parts[1:]:
        corners = [_times(x, y) for x in (low, high) for y in part]
        low, high = min(corners), max(corners)
    return low, high


def _power(base: Bounds, power: Fraction) -> Bounds:
    """Roots and inverses are bounded by 0 and 1 alone: other ends are no exact numbers."""
    low, high = base
    is_even = power.denominator == 1 and power.numerator % 2 == 0
    if is_even and low < 0:
        low, high = (0 if high > 0 else -high), max(-low, high)
    if low < 0 and power.denominator == 1:
        return -math.inf, (0 if high <= 0 else math.inf)
    if power < 0:
        return (0 if high > 1 else 1), (1 if low >= 1 else math.inf)
    return (1 if low >= 1 else 0), (1 if high <= 1 else math.inf)


def _quotient_of_ints(x: Bounds, y: Bounds) -> Bounds:
    return (0, x[1]) if x[0] >= 0 and y[0] >= 0 else ANY


def _extremum(pick: Callable[..., Number]) -> Callable[[Bounds, Bounds], Bounds]:
    return lambda a, b: (pick(a[0], b[0]), pick(a[1], b[1]))


def _odd(x: Bounds) -> Bounds:
    """Bounds of a function with the sign of its argument, whose values are between -1 and 1."""
    return (0 if x[0] >= 0 else -1), (0 if x[1] <= 0 else 1)


def _gate(x: Bounds) -> Bounds:
    """Bounds of x times a share that depends on it, whose negative values exceed -1."""
    return (0 if x[0] >= 0 else -1), max(0, x[1])


_TRANSFER: dict[str, Callable[..., Bounds]] = {
    "index": lambda *_: _FROM_0,
    "extent": lambda: (1, math.inf),
    "uniform": lambda *_: _SHARE,
    "add": _add,
    "mul": _mul,
    "mod": lambda x, y: (0, y[1]) if y[0] >= 0 else ANY,
    "floordiv": _quotient_of_ints,
    "maximum": _extremum(max),
    "minimum": _extremum(min),
    "abs": lambda x: (max(0, x[0], -x[1]), max(-x[0], x[1])),
    "relu": lambda x: (max(0, x[0]), max(0, x[1])),
    "sign": _odd,
    "tanh": _odd,
    "erf": _odd,
    "sin": lambda x: (-1, 1),
    "cos": lambda x: (-1, 1),
    "sigmoid": lambda x: _SHARE,
    "softplus": lambda x: _FROM_0,
    "exp": lambda x: ((1 if x[0] >= 0 else 0), (1 if x[1] <= 0 else math.inf)),
    "log": lambda x: ((0 if x[0] >= 1 else -math.inf), (0 if x[1] <= 1 else math.inf)),
    "silu": _gate,
    "gelu": _gate,
    "elu": _gate,
    "floor": lambda x: (x[0] if _is_infinite(x[0]) else math.floor(x[0]), x[1]),
    "power": lambda x, y: _FROM_0 if x[0] >= 0 else ANY,
}


def _aggregate(t: Term, x: Bounds) -> Bounds:
    """Bounds of an aggregate in a monoid that is built in, whose elements have bounds x."""
    match t.attr.monoid:
        case "sum":
            return (0 if x[0] >= 0 else -math.inf), (0 if x[1] <= 0 else math.inf)
        case "prod" if x[0] >= 0:
            return (1 if x[0] >= 1 else 0), (1 if x[1] <= 1 else math.inf)
        case "mean":
            return min(0, x[0]), max(0, x[1])
        case "max" | "min" | "top":
            return _of_an_element(t, x)
        case "var" | "argmax" | "argmin":
            return _FROM_0
        case "argtop":
            return -1, math.inf
        case "softmax":
            return _SHARE
        case "log_softmax":
            return -math.inf, 0
    return ANY


def _of_an_element(t: Term, x: Bounds) -> Bounds:
    """Bounds of one of the elements, or of the infinite number that stands for none."""
    if t.op == "fold" and has_element(t):
        return x
    return (x[0], math.inf) if t.attr.monoid == "min" else (-math.inf, x[1])


@fact("has an element")
def has_element(fold: Term) -> bool:
    """Does the filter of a fold admit an element, whatever its free indices are? Tried are the
    first position, the last one, and that of each free index of the same extent."""
    if fold.args[0] is TRUE:
        return True
    if len(fold.attr.indices) != 1:
        return False
    (bound,), (condition, *_) = open_fold(fold)
    name, extent = bound.attr
    last = construct("add", extent_of(extent), const(-1), kind="int")
    positions = [const(0), last, *(index(n, extent) for n in sorted(condition.free) if n != name)]
    return any(rename(condition, {name: position}, {}) is TRUE for position in positions)


def _field(t: Term, known: Known) -> Bounds:
    """Bounds of a field of an aggregate in a user's monoid."""
    (folded,) = t.args
    monoid: UserMonoid = folded.attr.monoid
    elements = folded.args[-len(monoid.fields) :]
    nonnegative = frozenset(
        f
        for f, unit, x in zip(monoid.fields, monoid.unit, elements, strict=True)
        if min(bounds(unit)[0], bounds(x, known)[0]) >= 0
    )
    return _FROM_0 if t.attr in _kept_nonnegative(monoid, nonnegative) else ANY


@lru_cache(maxsize=1024)
def _kept_nonnegative(monoid: UserMonoid, fields: frozenset[str]) -> frozenset[str]:
    """Return those of the fields that no combination of two values makes negative."""
    known = frozenset((name, _FROM_0) for f in fields for name in (f, f"{f}'"))
    combined = dict(zip(monoid.fields, monoid.combine, strict=True))
    stay = frozenset(f for f in fields if bounds(combined[f], known)[0] >= 0)
    return stay if stay == fields else _kept_nonnegative(monoid, stay)
