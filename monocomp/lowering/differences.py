"""Differences from maxima: max(x) is taken from x before anything is added or multiplied.

So what all elements have in common, a mask of -1e9, takes no digits along, and the least finite
number does not overflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from monocomp import terms as T
from monocomp.lowering.selects import clamp
from monocomp.rewrites.exchange import LARGEST_POWER
from monocomp.terms import Term
from monocomp.terms.masks import EXTREMA
from monocomp.terms.monomials import factors
from monocomp.terms.shares import places


def differences(addends: list[Term]) -> tuple[list[tuple[Term, Term]], list[Term]]:
    """([(x, -c * m)], rest), for the c * x and -c * m among the addends of a sum, m being max(x) or
    min(x); none if one such pair is all of it, and one is taken from the other anyway."""
    pairs: list[tuple[Term, Term]] = []
    while len(addends) > 2 or (pairs and len(addends) == 2):
        pair = _difference(addends)
        if pair is None:
            break
        x, largest, addends = pair
        pairs.append((x, largest))
    return pairs, addends


def is_difference(addends: list[Term]) -> bool:
    """True if a computed element less its maximum or minimum is all of a sum.

    Such addends may be large and cancel, so that no factor is multiplied with each of them.
    """
    return len(addends) == 2 and not any(map(_is_given, addends)) and bool(_difference(addends))


def times_of_extremum(t: Term) -> tuple[int, Term]:
    """Return how often what a term is a multiple of is added. Twice a maximum may overflow where
    the same, taken from another one by one, does not."""
    times, x = T.split_coefficient(t)
    extremum = unclamped(t)
    is_extremum = extremum.op == "fold" and extremum.attr.monoid in EXTREMA
    is_few = times in range(2, LARGEST_POWER + 1) and t.kind == "float"
    return (int(times), x) if x is not None and is_extremum and is_few else (1, t)


def may_be_large(t: Term) -> bool:
    """True if t is a multiple of what is read or chosen: digits of others may be lost beside it."""
    return unclamped(t).op in ("where", "read")


def _difference(addends: list[Term]) -> tuple[Term, Term, list[Term]] | None:
    if all(a.kind != "float" for a in addends):
        return None  # integers lose no digits
    extrema = {a: m for a in addends if (m := _extremum_in(_definition(a))) is not None}
    for a, m in extrema.items():
        number_, _ = T.split_coefficient(a)
        for x in _elements(m, addends):
            x = T.replace(_definition(a), m, x)
            parts = T.addends(T.mul(T.const(-number_, "float"), x))
            if all(p in addends for p in parts):
                return x, a, [b for b in addends if b is not a and b not in parts]
    # An element may have another name than the given maximum knows: all that is computed is one.
    given = [a for a in addends if _is_given(a)]
    computed = [a for a in addends if a not in given]
    for a in given if computed else ():
        number_, _ = T.split_coefficient(a)
        # -(-x - m) for x + m, which is a difference if m is the largest -x: -(-inf) is no -inf.
        if a in extrema and (number_ < 0 or all(map(T.is_unmasked_if_read, computed))):
            x = T.mul(T.const(-1 / number_, "float"), T.add(*computed))
            return x, a, [b for b in given if b is not a]
    return None


def _is_given(addend: Term) -> bool:
    return unclamped(addend).op == "stored"


def unclamped(addend: Term) -> Term:
    """Return what an addend is a multiple of, without a clamp that puts 0 for -inf."""
    t = T.split_coefficient(addend)[1] or addend
    return t.args[2] if t.op == "where" and t is clamp(t.args[2]) else t


def _definition(addend: Term) -> Term:
    """Return what an addend is a multiple of, or its definition if it is stored."""
    t = unclamped(addend)
    return T.element(t.attr, t.args) if t.op == "stored" else t


def _extremum_in(t: Term) -> Term | None:
    """Return the maximum or minimum that a term is, scaled and shifted."""
    if t.op in ("maximum", "minimum") or (t.op == "fold" and t.attr.monoid in EXTREMA):
        return t
    inner = [_extremum_in(a) for a in t.args] if t.op in ("add", "mul") else []
    extrema = [m for m in inner if m is not None]
    return extrema[0] if len(extrema) == 1 else None


def _elements(m: Term, addends: Sequence[Term]) -> Iterable[Term]:
    """Yield the terms, at positions of the addends, of which m is the maximum or minimum."""
    if m.op == "fold" and m.attr.monoid in EXTREMA:
        _, (_, body) = T.open_fold(m)
        for at in places(m, addends, None):  # in the body as it is: a place may open it again
            yield from (T.substitute(x, at) for x in _elements(body, addends))
    elif m.op in ("maximum", "minimum"):
        for x in m.args:
            yield from _elements(x, addends)
    else:
        yield m


def common_scale(addends: list[Term]) -> tuple[Term | None, list[Term]]:
    """Return (c, rest) with addends = c * rest: the factors that all addends have, or the number
    of two that are taken away from one another. None if there is none."""
    parts, numbers = [], []
    for a in addends:
        n, rest = T.split_coefficient(a)
        if rest is None or isinstance(n, float):
            return None, addends
        numbers.append(n)
        parts.append(list(factors(rest)))
    # A condition selects: it is no number to multiply with.
    common = [f for f in parts[0] if not T.is_bracket(f)]
    common = [f for f in common if all(f in p and len(p) > 1 for p in parts)]
    is_difference = len(addends) == 2 and sum(numbers) == 0
    if len(addends) < 2 or not (common or is_difference):
        return None, addends
    size = abs(numbers[0]) if len({abs(n) for n in numbers}) == 1 else Fraction(1)
    left = [
        T.mul(T.const(n / size, "float"), *(f for f in p if f not in common))
        for n, p in zip(numbers, parts, strict=True)
    ]
    return T.mul(T.const(size, "float"), *common), left
