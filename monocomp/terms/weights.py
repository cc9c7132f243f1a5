"""Weights of nothing in products: exponentials and quotients that are 0, or divide by what is.

exp(-inf) is the weight of nothing, and what a sum over nothing divides is 0, too. Products ask here
which conditions say so once exponentials have cancelled, and which quotients may not be taken
apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from monocomp.declarations.vocabulary import LOGARITHM_OF
from monocomp.terms.binders import rename
from monocomp.terms.constructors import construct
from monocomp.terms.emptiness import Product, without_scale
from monocomp.terms.facts import (
    is_finite,
    is_nonnegative,
    is_unmasked,
    is_weight,
)
from monocomp.terms.leaves import INF, NEG_INF, TRUE, const
from monocomp.terms.nodes import Number, Term, intern
from monocomp.terms.parts import addends, base_and_power, factors, split_coefficient


def is_weight_there(exponent: Term) -> Term | None:
    """exp(exponent) != 0, if that is no matter of course."""
    number, rest = split_coefficient(exponent)
    if rest is None or is_unmasked(exponent):
        return None
    if isinstance(number, float):  # it is infinite, and what is multiplied with it has a sign
        sides = NEG_INF, exponent
    else:
        rest = without_scale(rest)
        sides = (NEG_INF, rest) if number > 0 else (rest, INF)
    there = construct("compare", *sides, attr="<")
    return None if there is TRUE else there


def is_masked_with(factor: Term, exponent: Term) -> bool:
    """Has a factor beside exp(exponent) an addend of the exponent that may be the -inf of a mask?
    Together they are nothing there, as is p * log(p)."""
    return not _masks(base_and_power(factor)[0]).isdisjoint(_masks(exponent))


def _masks(t: Term) -> set[Term]:
    """The elements that are added, also in the sums in products."""
    found = {rest for a in addends(t) if (rest := split_coefficient(a)[1]) is not None}
    sums = (f for a in found if a.op == "mul" for f in a.args if f.op == "add")
    bodies = (_of_given(a) for a in found if a.op == "stored" and a.attr.given)
    return {a for a in found if a.op == "read"}.union(*map(_masks, (*sums, *bodies)))


def _of_given(t: Term) -> Term:
    """What an element is given as, where that is more than -inf."""
    here = {i.attr[0]: a for i, a in zip(t.attr.indices, t.args, strict=True)}
    body = rename(t.attr.body, here, {})
    return body.args[1] if body.op == "where" and body.args[2] is NEG_INF else body


def that_cancel(exponents: list[Term], as_written: bool) -> Iterable[Term]:
    """The conditions without which a product of exponentials is 0.

    exp(a) * exp(-a) is 1 where a is finite. Where a is infinite one of them is 0: a weight of
    nothing, which has left its sum, or is divided by one that is 0, too. The maximum of exponents
    is in both because what was scaled by it is not any more.
    """
    numbers: dict[Term, list[Number]] = {}
    for e in exponents:
        for a in addends(e):
            number, rest = _finite_coefficient(a)
            if rest is not None and not is_finite(rest):
                numbers.setdefault(rest, []).append(number)
    for rest, found in numbers.items():
        for sign in (1, -1):
            there = is_weight_there(construct("mul", const(sign, "float"), rest))
            if there is None or not any(sign * n > 0 for n in found):
                continue
            is_joint = rest.op == ("maximum" if sign < 0 else "minimum")
            cancels = sign * sum(found) <= 0 and min(found) < 0 < max(found)
            if as_written and cancels and not is_joint:
                yield there


def _finite_coefficient(addend: Term) -> tuple[Number, Term | None]:
    """(number, rest) of number * rest, where inf is one of the rest."""
    number, rest = split_coefficient(addend)
    if rest is None or not isinstance(number, float):
        return number, rest
    sign = 1 if number > 0 else -1
    return Fraction(sign), construct("mul", INF, rest)


def may_be_no_number(t: Term) -> bool:
    """Is t a logarithm, root or power of what may be below 0, or computed with one?"""
    match t.op:
        case "log":
            return not is_nonnegative(t.args[0])
        case "pow" if t.attr.denominator != 1:
            return not is_nonnegative(t.args[0])
        case "power":
            return not is_nonnegative(t.args[0])
        case "where":
            return any(map(may_be_no_number, t.args[1:]))
        case "exp" | "fold" | "fold_at" | "field":
            return False  # exponentials cancel, lest they overflow
    return any(map(may_be_no_number, t.args))


def is_scale(t: Term, product: Iterable[Term]) -> bool:
    """Is this an exponential that is 0 only where the others are, as that of a mantissa's frame?"""
    if t.op != "exp":
        return False
    rest = [f for f in product if f is not t]
    others = Product(rest, [f.args[0] for f in rest if f.op == "pow" and f.attr < 0])
    (x,) = t.args
    there = map(is_weight_there, addends(x))
    return all(c is None or others.says(c) for c in there)


def weight_of_logarithm(t: Term | None) -> Term | None:
    """x for a t = log(x) that, where it is -inf, says that x = exp(t) is a weight of nothing.
    exp(-inf) is, and a plain 0 is not: x / x has no value then, while
    exp(log(x)) / exp(log(x)) is 0."""
    if t is None:
        return None
    if t.op == "log" and all(map(_is_scaled_weight, factors(t.args))):
        return t.args[0]
    if t.op == "fold_at" and isinstance(t.attr.monoid, str) and t.attr.monoid in LOGARITHM_OF:
        return intern(
            "fold_at", t.args, replace(t.attr, monoid=LOGARITHM_OF[t.attr.monoid]), t.kind
        )
    return None


def _is_scaled_weight(t: Term) -> bool:
    """A weight, or what divides one."""
    return is_weight(t) or (t.op == "pow" and is_weight(t.args[0]))


@lru_cache(maxsize=65536)
def holds_read(t: Term) -> bool:
    """True if t reads a tensor or stands for a definition: it is made of more than parameters."""
    return t.op in ("read", "ref", "stored") or any(map(holds_read, t.args))
