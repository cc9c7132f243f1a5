"""Frames: the exponents that numbers are scaled by, and which numbers need none."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from monocomp import terms as T
from monocomp.rewrites.centred import centred
from monocomp.rewrites.hoisting import extrema
from monocomp.rewrites.normal_form import normal_form, normalise
from monocomp.rewriting.equations import equations
from monocomp.rewriting.rules import RuleSet
from monocomp.terms import Term
from monocomp.terms.algebra import frame, is_mantissa, mantissa
from monocomp.terms.monomials import (
    addends,
    common_number,
    exponent_of,
    factors,
    without_exponent,
)
from monocomp.terms.shares import elements_at


def is_joined(t: Term) -> bool:
    """True if the operand with the largest exponent counts. It need not in a minimum, nor in a
    maximum where it is less than 0: the operand that counts may be too small for that exponent."""
    exponents = {exponent_of(a) for a in t.args if a is not T.ZERO}
    if t.op in ("maximum", "minimum") and len(exponents) == 1:
        return True
    return t.op == "add" or (t.op == "maximum" and all(map(T.is_nonnegative, t.args)))


def joint_frame(parts: list[tuple[Term, Term]]) -> Term:
    """Return the largest exponent of scaled numbers, pairs of mantissa and exponent.

    That of 0 does not count, nor one whose mantissa is not there.
    """
    nonzero = [(v, e) for v, e in parts if v is not T.ZERO]
    exponents = {e for _, e in nonzero}
    if len(exponents) != 1:  # else they cancel, whichever mantissas are there
        exponents = {T.where(condition_of(v, e), e, T.NEG_INF) for v, e in nonzero}
    return _largest_of(exponents)


def _largest_of(exponents: Iterable[Term]) -> Term:
    joint, *others = sorted(exponents, key=lambda e: e.key)
    for e in others:
        joint = T.function("maximum", joint, e)
    return joint


def condition_of(t: Term, exponent: Term) -> Term:
    """Return the condition that an addend t * exp(exponent) is there: its brackets hold, folds in
    it and those that divide it have an element, as have mantissas beside an exponent that may be
    inf, and no factor is 0 that may be 0 with any exponent."""
    folds = [f for f in factors(t) if f.op == "fold"]
    divisors = (f.args[0] for f in factors(t) if f.op == "pow" and f.attr < 0)
    folds += [z for z in divisors if T.vanishes(factors(t), T.is_there(z))]
    said = [c for f in factors(t) if T.is_bracket(f) for c in T.conjuncts(f.args[0])]
    return T.conjunction(
        *said,
        *(T.is_there(base) for base in folds if T.may_be_empty(base)),
        *(T.is_there(base) for base, n in map(T.base_and_power, factors(t)) if base.op == "relu"),
        *_nonzero(t, exponent),
    )


def _nonzero(t: Term, exponent: Term) -> Iterable[Term]:
    for base, power in map(T.base_and_power, factors(t)):
        if base.op in ("read", "add", "abs") and power > 0 and base.free <= exponent.free:
            _, primitive = common_number(base)  # whatever number stands before it
            yield T.compare("!=", primitive, T.ZERO)


def are_bounded(terms: tuple[Term, ...]) -> bool:
    """True if the exponents are at most 0 by their form, and not all of them far below it."""
    if all(map(is_bounded_by_form, terms)):
        return True
    exponents = list(map(exponent_of, terms))
    return T.ZERO in exponents and all(T.is_nonnegative(T.neg(e)) for e in exponents)


def is_bounded_by_form(addend: Term, condition: Term = T.TRUE) -> bool:
    """True if the exponents are at most 0 by their form, where the addend is there and a condition
    holds."""
    condition = T.conjunction(condition, condition_of(addend, exponent_of(addend)))
    _, unshared = T.shares(addend, T.conjuncts(condition))
    return any(has_small_exponents(t, addend, condition) for t in (addend, unshared))


def has_small_exponents(
    t: Term, whole: Term, condition: Term, may_be_far_below: bool = False
) -> bool:
    """True if the exponents of part of a product are at most 0 by their form, or their sum is,
    where a condition holds; `may_be_far_below` if addends that are at most 0 do not matter."""
    exponents = [f.args[0] for f in factors(t) if f.op == "exp"]

    def is_small(exponent: Term) -> bool:
        exponent = _without_numbers(exponent, whole)
        if may_be_far_below and not is_at_most_zero(exponent, condition):
            above = (a for a in addends(exponent) if not T.is_nonnegative(T.neg(a)))
            exponent = T.add(T.ZERO, *above)
        return is_at_most_zero(exponent, condition)

    return is_small(T.add(T.ZERO, *exponents)) or all(map(is_small, exponents))


_EXTREMA = ("fold", "maximum", "minimum", "where")


def is_at_most_zero(exponent: Term, condition: Term) -> bool:
    """True if the exponent is 0, or c * (s - m) with c >= 0, and m >= s where the condition
    holds."""
    unsigned = [f for f in factors(exponent) if not T.is_nonnegative(f)]
    if len(unsigned) == 1 and unsigned[0].op == "add":
        exponent = unsigned[0]
    known = frozenset(T.conjuncts(condition))
    return exponent is T.ZERO or any(_bounds(a, exponent, known) for a in addends(exponent))


def in_one_frame(t: Term, condition: Term) -> Term:
    """exp(a) * exp(b) = exp(a + b), unless each is at most 1 by its form, or a number anyway."""
    weights = [f for f in factors(t) if f.op == "exp"]
    if len(weights) < 2:
        return t
    condition = T.conjunction(condition, condition_of(t, exponent_of(t)))
    known = T.conjuncts(condition)
    unshared = [(f, T.shares(f, known)[1]) for f in weights]
    if all(any(has_small_exponents(e, t, condition) for e in pair) for pair in unshared):
        return t
    return T.mul(without_exponent(t), T.inert("exp", exponent_of(t)))


def _without_numbers(exponent: Term, whole: Term) -> Term:
    """Return the exponent of a factor of exp(y) * z without the addends x where exp(x) is in a sum
    or product that y is: if y is a number, exp(x) is one, and needs no frame."""
    parts = addends(exponent)
    for t in _operands(exponent_of(whole)):
        if t.op == "exp" and set(own := addends(t.args[0])) <= set(parts):
            parts = tuple(a for a in parts if a not in own)
    return T.add(T.ZERO, *parts)


def _operands(t: Term) -> Iterable[Term]:
    """Yield what is added up and multiplied to a term, also where that is stored."""
    t = T.unfolded(t)
    if t.op in ("add", "mul"):
        for operand in t.args:
            yield from _operands(operand)
    else:
        yield t


def _bounds(addend: Term, exponent: Term, known: frozenset[Term]) -> bool:
    """True if an addend of an exponent is -c * max(s), or c * min(s), and the others are c * s, or
    -c * s, for a c >= 0."""
    number, _ = T.split_coefficient(addend)
    extrema = [f for f in factors(addend) if T.unfolded(f).op in _EXTREMA]
    scale = [f for f in factors(addend) if f not in extrema and f.op != "const"]
    if len(extrema) != 1 or isinstance(number, float) or not all(map(T.is_nonnegative, scale)):
        return False
    inverse = T.const(-1 / number, "float")
    others = addends(T.sub(exponent, addend))
    s = T.add(*(T.mul(inverse, _without(a, scale)) for a in others))
    return _is_extremum(extrema[0], s, "max" if number < 0 else "min", known)


def _without(t: Term, scale: Iterable[Term]) -> Term:
    """t over its scale, of which the factors leave it, those too that may be 0."""
    parts = factors(t)
    missing = (T.power_of(f, -1) for f in scale if f not in parts)
    return T.mul(T.ONE, *(f for f in parts if f not in scale), *missing)


def _is_extremum(m: Term, s: Term, monoid: str, known: frozenset[Term]) -> bool:
    """True if m is the maximum (or minimum) of several terms, of which s is one. `known` are
    conditions that hold."""
    m = T.unfolded(m)
    if m is s:
        return True
    if m.op == monoid + "imum":
        return any(_is_extremum(a, s, monoid, known) for a in m.args)
    if m.op == "where":
        return m.args[1] is s and known.issuperset(T.conjuncts(m.args[0]))
    if m.op != "fold" or m.attr.monoid != monoid:
        return False
    # In an exponent nothing is joined: exp multiplies it out.
    return any(s in (x, exponent_of(T.exp(x))) for x in elements_at(m, (s,), known))


# Lifting brings new maxima and products, which are normalised like the user's own.
_OF_PARTS = ("assume_filter", "factor_number")
maxima = RuleSet(
    "maxima",
    extrema.purpose,
    [
        # The largest weight is 1: no float has to hold the largest exponential, nor its inverse.
        *equations("""
        largest_weight: y * exp(-max[k if c](x)) * max[k if c](exp(x))
            = y * exp(-max[k if c](x)) * exp(max[k if c](x))  needs k has an element
        """),
        *(r for r in normal_form.rules if r in extrema.rules or r.name in _OF_PARTS),
    ],
)


@lru_cache(maxsize=65536)
def largest(bound: Term, condition: Term, exponent: Term) -> Term:
    """Return the frame of a sum in SE, as it stands in a lifted program. The normal form would take
    apart again what is joined in the exponent, and exponentials that are left alone may overflow.
    A centre stays.
    """
    whole = frame(bound, condition, exponent)
    return whole if centred(whole) is not None else normalise(whole, maxima)


def in_frame_of_divisor(t: Term) -> Term | None:
    """Take a sum over part of a domain, divided by the sum over all of it, in its frame.

    exp(m') * SE[k if a and b](v, s).v = exp(m) * SE[k if a]([b] * v, s).v, m the maximum of s where
    a, m' where a and b. The exponential that is left is at most 1 by its form: in a larger frame
    small numbers are 0, as they are without one, but not beside a large number.
    """
    divisors = [u for f in factors(t) if f.op == "pow" and f.attr < 0 for u in addends(f.args[0])]
    wholes = list(filter(is_mantissa, divisors))
    for f in factors(t) if wholes else ():
        first, *more = (factors(a) for a in addends(f))
        for over in filter(is_mantissa, first):
            if not all(over in other for other in more):
                continue
            for under in wholes:
                shared = _in_frame_of(over.args[0], under.args[0])
                if shared is None:
                    continue
                part, change = shared
                exponent = exponent_of(t)
                if not is_at_most_zero(T.add(exponent, change), condition_of(t, exponent)):
                    continue
                rest = [T.mul(T.ONE, *(g for g in fs if g is not over)) for fs in (first, *more)]
                others = [g for g in factors(t) if g is not f]
                return T.mul(*others, T.add(*rest), T.exp(change), part)
    return None


def _in_frame_of(part: Term, whole: Term) -> tuple[Term, Term] | None:
    """(mantissa in the frame of `whole`, exponent by which the scale changes)."""
    if len(part.attr.indices) != 1 or part.attr.extents != whole.attr.extents:
        return None
    (bound,), (condition, value, exponent) = T.open_fold(part)
    _, (outer, _, other) = T.open_as(whole, (bound.name,))
    known, wanted = set(T.conjuncts(outer)), set(T.conjuncts(condition))
    if exponent is not other or not known < wanted:
        return None
    extra = [c for c in T.conjuncts(condition) if c not in known]
    name = bound.name
    moving, fixed = (
        T.bracket(T.conjunction(*(c for c in extra if (name in c.free) is varies)))
        for varies in (True, False)
    )
    change = T.sub(largest(bound, outer, other), largest(bound, condition, exponent))
    return T.mul(fixed, mantissa(bound, outer, T.mul(moving, value), other)), change
