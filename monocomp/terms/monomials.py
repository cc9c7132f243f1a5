"""Monomials: a term as number, powers and exponential, and the common factors of a sum."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from monocomp import terms as T
from monocomp.terms import Number, Term
from monocomp.terms.parts import addends as addends
from monocomp.terms.parts import factors as factors


class Monomial(NamedTuple):
    """number * product of base ** power * exp(exponent)."""

    number: Number
    powers: dict[Term, Fraction]
    exponent: Term


def exponent_of(t: Term) -> Term:
    """Return s + r of a monomial exp(s) * exp(r) * rest."""
    return T.add(T.ZERO, *(f.args[0] for f in factors(t) if f.op == "exp"))


def is_multiple(t: Term) -> bool:
    """True if a term is an element of a tensor times what is the same for all elements."""
    varying = [f for f in factors(t) if f.free]
    return t.depth == 0 and [f.op for f in varying] in (["read"], ["stored"])


def without_exponent(t: Term) -> Term:
    """Return the rest of a monomial exp(s) * rest."""
    return T.mul(T.const(1, t.kind), *(f for f in factors(t) if f.op != "exp"))


def exponentials_of(t: Term, shared: Collection[Term]) -> list[Term]:
    """Return exp(a) * exp(b) of a monomial exp(a + s) * exp(b + r) * rest, for shared addends."""
    exponents = (
        [a for a in addends(f.args[0]) if a in shared] for f in factors(t) if f.op == "exp"
    )
    return [T.exp(T.add(*own)) for own in exponents if own]


def monomial(t: Term) -> Monomial:
    """Split a product into number, powers and exponential."""
    number: Number = Fraction(1)
    powers: dict[Term, Fraction] = {}
    exponent = T.ZERO
    for f in factors(t):
        if f.op == "const":
            number = number * f.attr
        elif f.op == "exp":
            exponent = T.add(exponent, f.args[0])
        else:
            base, power = T.base_and_power(f)
            powers[base] = power
    return Monomial(number, powers, exponent)


@lru_cache(maxsize=16384)
def content(t: Term) -> tuple[Term, Term]:
    """Split a float sum into (common factor, primitive part), which is the same for t and for any
    monomial times t."""
    if t.op != "add" or t.kind != "float":
        return T.ONE, t
    monomials = [monomial(a) for a in t.args]
    bases = dict.fromkeys(base for _, powers, _ in monomials for base in powers)
    leaving: dict[Term, Fraction] = {}
    for base in sorted(bases, key=lambda b: b.key):
        least = min(powers.get(base, Fraction(0)) for _, powers, _ in monomials)
        stays = T.is_bracket(base)
        if least < 0:  # a + b / x is (a x + b) / x for x != 0
            stays |= not all(base in powers for _, powers, _ in monomials)
        if least != 0 and not stays:
            leaving[base] = least
    first, *others = (addends(exponent) for _, _, exponent in monomials)
    shared = [a for a in first if all(a in e for e in others)]
    outside = exponentials_of(t.args[0], shared)
    outside.append(T.const(_common_number([n for n, _, _ in monomials]), "float"))
    common = T.mul(T.ONE, *(T.power_of(b, least) for b, least in leaving.items()), *outside)
    if common is T.ONE:
        return T.ONE, t
    # One by one, as a number times a sum is a sum, which would not meet that sum's inverse.
    inverses = [T.power_of(f, -1) for f in outside]
    return common, T.add(*(T.mul(without_powers(a, leaving), *inverses) for a in t.args))


def without_powers(t: Term, leaving: Mapping[Term, Fraction]) -> Term:
    """Lower the powers in a product; a base with the power 0 is gone, even if it may be 0."""
    kept = (f for f in factors(t) if T.base_and_power(f)[0] not in leaving)
    powers = monomial(t).powers
    lower = (T.power_of(b, powers.get(b, 0) - n) for b, n in leaving.items())
    return T.mul(T.const(1, t.kind), *kept, *lower)


def is_scale(factor: Term, moving: Sequence[Term], known: Iterable[Term]) -> bool:
    """True if a factor may be the scale of weights among moving ones: an aggregate or a term with
    exponentials.

    Without its scale an exponential may be too large for a float, except where it alone moves,
    beside conditions that are known to hold.
    """
    conditions = set(known)
    weights = [
        f for f in moving if not (T.is_bracket(f) and conditions >= {*T.conjuncts(f.args[0])})
    ]
    is_alone = len(weights) == 1 and weights[0].op == "exp"
    is_weighed = not is_alone and _holds_exponential(*weights)
    return is_weighed and (bool(factor.folded) or _holds_exponential(factor))


def _holds_exponential(*terms: Term) -> bool:
    return any(s.op == "exp" for s in T.subterms(*terms))


def _common_number(numbers: list[Number]) -> Fraction:
    """Return the largest number of which all are whole multiples; it is negative if all are."""
    exact = [n for n in numbers if isinstance(n, Fraction)]
    if len(exact) < len(numbers):
        return Fraction(1)
    common = Fraction(
        math.gcd(*(n.numerator for n in exact)), math.lcm(*(n.denominator for n in exact))
    )
    return -common if all(n < 0 for n in exact) else common


def common_number(t: Term) -> tuple[Fraction, Term]:
    """Split a float sum into (number, sum of coprime multiples)."""
    if t.op != "add" or t.kind != "float":
        return Fraction(1), t
    number = _common_number([T.split_coefficient(a)[0] for a in t.args])
    if number == 1:
        return number, t
    inverse = T.const(1 / number, "float")
    return number, T.add(*(T.mul(inverse, a) for a in t.args))


def primitive(t: Term, index: str) -> tuple[Fraction, Term]:
    """Split a factor in a float sum over an index into (number, primitive factor).

    The primitive factor is the same for t and for any number times t. If it is a sum, at most half
    of the addends that vary with the index are negative; if half are, the first is positive.
    """
    if index not in t.free:
        return Fraction(1), t
    if t.op == "mul":
        coefficient, product = T.split_coefficient(t)
        if product is not None and isinstance(coefficient, Fraction):
            return coefficient, product
        return Fraction(1), t
    if any(s is T.NEG_INF for s in T.subterms(t)):  # a mask has no opposite
        return Fraction(1), t
    number, rest = common_number(t)
    if rest.op != "add" or rest.kind != "float":
        return number, rest
    parts = [(n, r) for n, r in map(T.split_coefficient, rest.args) if r and index in r.free]
    excess = sum(1 if n < 0 else -1 for n, _ in parts)
    first, _ = min(parts, key=lambda p: (_inputs(p[1]), p[1].key))
    if excess > 0 or (excess == 0 and first < 0):
        return -number, T.neg(rest)
    return number, rest


def _inputs(t: Term) -> list[str]:
    """Return the names of the inputs that a term reads, which no rewriting changes."""
    return sorted({s.attr.name for s in T.subterms(t) if s.op == "read"})


def multiple_among(body: Term, parts: Sequence[Term]) -> tuple[list[Term], Term] | None:
    """Return c * body, written as one addend or as several, and c, if these are among addends."""
    for elements in ((body,), addends(body)):
        number, first = T.split_coefficient(elements[0])
        unit = factors(first) if first is not None else ()
        for part in parts if unit else ():
            ours, product = T.split_coefficient(part)
            ratio = ours / number
            if product is None or not isinstance(ratio, Fraction):  # infinities have none
                continue
            others = (f for f in factors(product) if f not in unit)
            scale = T.mul(T.const(ratio, "float"), *others)
            multiple = [T.mul(scale, x) for x in elements]
            if set(multiple) <= set(parts):
                return multiple, scale
    return None


def is_power_in(t: Term, exponent: Term) -> bool:
    """True if exp(exponent) is a power of an exponential that an addend of a term is a multiple
    of."""
    for own in map(exponent_of, addends(t)):
        _, power = multiple_among(own, addends(exponent)) or ([], T.ZERO)
        if power.op == "const" and power.attr > 0 and T.mul(power, own) is exponent:
            return True
    return False
