"""Parts of sums and products: coefficients, addends, factors, powers."""

from __future__ import annotations

import math
from fractions import Fraction

from monocomp.terms.leaves import READS
from monocomp.terms.nodes import Number, Term, intern

_ONCE = Fraction(1)


def split_coefficient(t: Term) -> tuple[Number, Term | None]:
    """Split t into (number, rest); rest is None for a number."""
    if t.op == "const":
        return t.attr, None
    if t.op == "mul" and t.args[0].op == "const":
        rest = t.args[1:]
        return t.args[0].attr, rest[0] if len(rest) == 1 else intern("mul", rest, None, t.kind)
    return _ONCE, t


def split_addends(t: Term) -> tuple[list[tuple[Fraction, Term]], int]:
    """Split the int t into the pairs (coefficient, term) of a sum and a number."""
    pairs, constant = [], 0
    for part in addends(t):
        coefficient, term = split_coefficient(part)
        assert isinstance(coefficient, Fraction)  # no int is infinite
        if term is None:
            constant = int(coefficient)
        else:
            pairs.append((coefficient, term))
    return pairs, constant


def addends(t: Term) -> tuple[Term, ...]:
    """Return the addends of a sum; any other term is its own."""
    return t.args if t.op == "add" else (t,)


def factors(t: Term) -> tuple[Term, ...]:
    """Return the factors of a product; any other term is its own."""
    return t.args if t.op == "mul" else (t,)


def base_and_power(t: Term) -> tuple[Term, Fraction]:
    """t = base ** power, with a rational power"""
    return (t.args[0], t.attr) if t.op == "pow" else (t, _ONCE)


def is_bracket(t: Term) -> bool:
    """True if t is [condition], a truth value as a number."""
    return t.op == "cast" and t.args[0].kind == "bool"


def is_read(t: Term) -> bool:
    """True if t is an element as it is read, or converted to a float."""
    return t.op in READS or (t.op == "cast" and is_read(t.args[0]))


def exact_power(number: Number, power: Fraction) -> Number | None:
    """Return number ** power if it is a rational number of moderate size, or None."""
    if number == 1:
        return number
    if isinstance(number, float) or abs(power.numerator) > 64 or (number == 0 and power < 0):
        return None
    if power.denominator == 1:
        size = max(number.numerator.bit_length(), number.denominator.bit_length())
        if size > 64 and abs(power) != 1:
            return None
        return number ** int(power)
    if power.denominator == 2 and number > 0:
        roots = math.isqrt(number.numerator), math.isqrt(number.denominator)
        if roots[0] ** 2 == number.numerator and roots[1] ** 2 == number.denominator:
            return exact_power(Fraction(*roots), Fraction(power.numerator))
    return None
