"""The ring: sums, products, powers and exponentials in canonical form.

Sums are flat with like terms collected, products flat with powers of equal bases collected
and exponentials joined, those of masks apart from those of numbers; numbers stand in front.

`add`, `mul` and `power_of` are the operations on real numbers, for rules, which know where terms
are finite. Terms of programs, and terms around the place of a rewrite, are built by the
constructors (`construct`, `rebuild`): there a term cancels only if it is finite, or leaves a
condition.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from itertools import chain

from monocomp.declarations.vocabulary import Kind
from monocomp.terms.constructors import CONSTRUCTORS, construct
from monocomp.terms.domain import MASKS_ARE_READ, domain
from monocomp.terms.facts import (
    conditions_of_weights,
    exponential_of,
    holds_masked_weight,
    is_finite_if_there,
    is_nonnegative,
    is_there,
    masks_inside,
    masks_of,
    may_be_less_a_mask,
    may_be_mask,
    may_be_missing,
    vanishes,
)
from monocomp.terms.leaves import NEG_INF, ONE, TRUE, ZERO, as_int, const
from monocomp.terms.logic import conjunction, conjuncts
from monocomp.terms.nodes import Number, Term, inert, intern
from monocomp.terms.parts import (
    addends,
    base_and_power,
    exact_power,
    factors,
    is_bracket,
    split_coefficient,
)

_NONE, _ONCE = Fraction(0), Fraction(1)
# 1e9 * (x - 1) is 0 where x is 1: 1e9 * x - 1e9 + y has lost the digits of y on the way.
_LARGE = 100


def as_float(t: Term) -> Term:
    """Convert a term to a float. An int expression stays whole behind its cast, except for a
    number in front: large indices are subtracted exactly before they are rounded."""
    if t.kind == "float":
        return t
    if t.op == "const":
        return const(t.attr if t.kind == "int" else int(t.attr), "float")
    if t.op == "cast":  # a truth value as an int
        t = t.args[0]
    if t.op == "fold" and t.attr.monoid == "sum" and t.args[1].op == "const":  # a count
        return intern("fold", (t.args[0], as_float(t.args[1])), t.attr, "float")
    number, rest = split_coefficient(t)
    if number != 1 and rest is not None:
        return mul(const(number, "float"), as_float(rest))
    return intern("cast", (t,), "float", "float")


def bracket(condition: Term) -> Term:
    """Return 1 where the condition holds, else 0, as a float."""
    return as_float(condition)


def promote(terms: Iterable[Term]) -> tuple[list[Term], Kind]:
    """Convert terms to numbers of one kind: floats if one is a float."""
    terms = [as_int(t) for t in terms]
    if any(t.kind == "float" for t in terms):
        return [as_float(t) for t in terms], "float"
    return terms, "int"


def add(*terms: Term) -> Term:
    """Return the sum, with like terms collected."""
    return _sum(terms, False)


@lru_cache(maxsize=65536)
def _sum(terms: tuple[Term, ...], as_written: bool) -> Term:
    """Return the sum. As written, -inf less itself is -inf: it is a missing element less the
    maximum or the logarithm of nothing."""
    operands, kind = promote(terms)
    total: Number = _NONE
    coefficients: dict[Term, Number] = {}
    cancelled: dict[Term, bool] = {}
    for t in chain.from_iterable(map(addends, operands)):
        number, rest = split_coefficient(t)
        if rest is None:
            total = total + number
        else:
            before = coefficients.get(rest, _NONE)
            if before * number < 0:
                cancelled[rest] = True
            coefficients[rest] = before + number
    for rest in cancelled:
        if as_written and coefficients[rest] <= 0 and kind == "float":
            is_unmasked = construct("compare", NEG_INF, rest, attr="<")
            # Where a logarithm is -inf, so is the sum, or what scales both is 0.
            scales = factors(rest)
            logarithms = [
                f.args[0]
                for parts in (factors(t) for t, n in coefficients.items() if n > 0)
                for f in parts
                if f.op == "log" and all(g is f or g in scales for g in parts)
            ]
            if is_unmasked is not TRUE and may_be_missing(rest, logarithms):
                mask = construct("where", is_unmasked, ZERO, NEG_INF)
                coefficients[mask] = _ONCE  # a multiple of a mask is the mask
    if total != total:  # inf - inf
        total = -math.inf
    parts = [
        rest if number == 1 else mul(const(number, kind), rest)
        for rest, number in coefficients.items()
        if number != 0 and number == number  # inf * x - inf * x has no finite value
    ]
    parts.sort(key=lambda t: t.key)
    if total != 0:
        parts.append(const(total, kind))
    if not parts:
        return const(0, kind)
    return parts[0] if len(parts) == 1 else intern("add", tuple(parts), None, kind)


def _is_whole(number: Number) -> bool:
    return isinstance(number, Fraction) and number.denominator == 1


def neg(t: Term) -> Term:
    """-t"""
    return mul(const(-1), t)


def sub(a: Term, b: Term) -> Term:
    """a - b"""
    return add(a, neg(b))


def mul(*terms: Term) -> Term:
    """Return the product, with powers of equal bases collected and exponentials joined.

    A factor [c] is 0 where the condition fails, whatever the other factors are. Conditions without
    which the product is 0 anyway are dropped.
    """
    return _product(terms, False)


@lru_cache(maxsize=65536)
def _product(terms: tuple[Term, ...], as_written: bool) -> Term:
    operands, kind = promote(terms)
    number: Number = _ONCE
    powers: dict[Term, Fraction] = {}
    exponents: list[Term] = []
    conditions: list[Term] = []
    for t in chain.from_iterable(map(factors, operands)):
        if t.op == "const":
            number = number * t.attr
        elif is_bracket(t):
            conditions.append(t.args[0])
        elif t.op == "exp":
            exponents.append(t.args[0])
        else:
            base, power = base_and_power(t)
            if base in powers:
                before = powers.pop(base)
                cancels = max(before, power) > 0 >= before + power
                if cancels and domain(base, MASKS_ARE_READ).zero and _is_of_elements(base):
                    conditions.append(is_there(base))
                has_root = max(before.denominator, power.denominator) > 1
                power += before
                base, power = _of_root(base, power) if has_root else (base, power)
            powers[base] = powers.get(base, _NONE) + power
    if number == 0 or number != number:  # 0 * inf is 0: equal wherever the source is finite
        return const(0, kind)
    parts = [power_of(base, power) for base, power in powers.items() if power != 0]
    if as_written:
        conditions += conditions_of_weights(exponents)
    joined = _joined(exponents)
    if conditions:
        weights = [inert("exp", exponent) for exponent in joined]
        over = [*(base for base in powers if powers[base] > 0), *weights]
        holds = conjunction(*_conditions_left(over, conjunction(*conditions)))
        if holds is not TRUE:
            parts.append(as_float(holds) if kind == "float" else as_int(holds))
    is_joined = len(exponents) > len(joined)
    weights = [exp(e) if is_joined else _exp(e) for e in joined if e is not ZERO]
    parts += weights
    left = [t.args[0] for t in parts if t.op == "exp"]
    if any(t.op in ("const", "mul") for t in parts) or len(_joined(left)) < len(left):
        return _product((const(number, kind), *parts), as_written)
    if not parts:
        return const(number, kind)
    if len(parts) == 1 and number != 1:  # numbers distribute
        (only,) = parts
        if only.op == "add" and (kind == "int" or abs(float(number)) <= _LARGE):
            return add(*(mul(const(number, kind), t) for t in only.args))
        if only.op == "cast" and only.args[0].op == "add" and _is_whole(number):
            return as_float(mul(const(int(number)), only.args[0]))
    parts.sort(key=lambda t: t.key)
    if number != 1:
        parts.insert(0, const(number, kind))
    return parts[0] if len(parts) == 1 else intern("mul", tuple(parts), None, kind)


def _joined(exponents: list[Term]) -> list[Term]:
    """Add up the exponents of a product, those of masks apart from those of numbers: a mask, a
    large number, would leave nothing of what is added. What stands in the exponents of another is a
    number beside it. Frames are taken away from what they are the largest of, or from masks, and
    what cancels is added all the same."""
    masks = [e for e in exponents if may_be_mask(e) and not _is_inside(e, exponents)]
    if len(exponents) < 2 or not masks:
        return [add(*exponents)] if len(exponents) > 1 else exponents
    frames = [e for e in exponents if may_be_less_a_mask(e) and not _is_in_frame(e)]
    number = add(ZERO, *(e for e in exponents if e not in masks and e not in frames))
    mask = add(*masks)
    for e in frames:
        if _is_in_frame(add(number, e)):
            number = add(number, e)
        else:
            mask = add(mask, e)
    if {*map(neg, addends(number))} <= {*addends(mask)}:
        return [add(mask, number)]
    return [mask] if number is ZERO else [mask, number]


def _is_inside(exponent: Term, exponents: list[Term]) -> bool:
    """True if another exponent has the masks of an exponent in its own exponents."""
    names = masks_of(exponent)
    return bool(names) and any(names <= masks_inside(e) for e in exponents if e is not exponent)


def _is_in_frame(exponent: Term) -> bool:
    """True if a maximum is taken away from one of the numbers, other than frames, that it is of."""
    parts = {*addends(exponent)}
    maxima = (m for m in map(neg, parts) if m.op == "maximum")
    numbers = (x for m in maxima for x in _operands(m) if not may_be_less_a_mask(x))
    return any(parts.issuperset(addends(x)) for x in numbers)


def _operands(t: Term) -> Iterable[Term]:
    """Yield the numbers that a maximum is of."""
    return chain.from_iterable(map(_operands, t.args)) if t.op == "maximum" else (t,)


@lru_cache(maxsize=65536)
def _is_of_elements(t: Term) -> bool:
    """True if t reads an element or holds an index or a fold. Parameters and extents that divide
    are not 0."""
    is_element = t.op in ("read", "ref", "stored", "index", "fold", "fold_at")
    return is_element or any(map(_is_of_elements, t.args))


def _conditions_left(over: Iterable[Term], condition: Term) -> Iterable[Term]:
    """Return the conditions without which a product is not 0 anyway."""
    left = dict.fromkeys(conjuncts(condition))
    for c in tuple(left):
        if vanishes(over, c, frozenset(left) - {c}):
            del left[c]
    return left


def _of_root(base: Term, power: Fraction) -> tuple[Term, Fraction]:
    """Return the base and the power of a product of powers, one of them a root.

    A base with a root is at least 0, and the root of -0 has no sign that a divisor could show.
    """
    is_signed = power < 0 and power % 2 == 1 and not is_nonnegative(base)
    return (construct("abs", base) if is_signed else base), power


def divide(a: Term, b: Term) -> Term:
    """a / b, as floats"""
    return _product((as_float(a), power_of(as_float(b), -1)), True)


def power_of(base: Term, power: Fraction | int) -> Term:
    """base ** power, for a rational power

    A whole power of a product is the product of powers. A bracket is its own power; what it divides
    is 0 or unspecified where it is 0.
    """
    power = power if isinstance(power, Fraction) else Fraction(power)
    if power == 0:
        return const(1, base.kind)
    if power == 1 or (power > 0 and is_bracket(base)):
        return base
    if base.kind != "float" and (power.denominator != 1 or power < 0):
        base = as_float(base)
    if base.op == "const":
        if base.attr == 0:  # 0, or infinite whatever the power
            return base if power > 0 else intern("pow", (base,), Fraction(-1), base.kind)
        exact = exact_power(base.attr, power)
        if exact is not None:
            return const(exact, base.kind)
    if is_bracket(base):
        return ONE
    if base.op == "abs" and power % 2 == 0:
        return power_of(base.args[0], power)
    if base.op == "exp":
        return exp(mul(const(power, "float"), base.args[0]))
    if base.op == "pow":
        inner, first = base.args[0], base.attr
        if first % 2 == 0 and (first * power) % 2 != 0:  # (x ** 2) ** (1 / 2) is abs(x)
            inner = construct("abs", inner)
        if first.denominator > 1:
            return power_of(*_of_root(inner, first * power))
        return power_of(inner, first * power)
    if base.op == "mul" and power.denominator == 1:
        return mul(*(power_of(t, power) for t in base.args))
    if base.op == "add" and power % 2 == 0:
        base = leading_positive(base)
    return intern("pow", (base,), power, base.kind)


def leading_positive(t: Term) -> Term:
    """Return t or -t, so that the first addend, in the order of addends without coefficients, has
    a positive coefficient."""
    parts = [(number, rest) for number, rest in map(split_coefficient, t.args) if rest is not None]
    number, _ = min(parts, key=lambda part: part[1].key)
    return neg(t) if number < 0 else t


def exp(exponent: Term) -> Term:
    """e ** exponent

    Results of folds are multiplied out of products in the exponent, so that they can cancel;
    logarithms leave as powers, and -inf as a bracket. Beside a mask a logarithm stays, unless it is
    of numbers with masks in their exponents: rounded, a mask of a large number keeps little of what
    is added, and a factor would be kept whole.
    """
    return _exp(multiply_out(as_float(exponent)))


def _exp(exponent: Term) -> Term:
    parts = addends(exponent)
    leaving: list[Term] = []
    kept: list[Term] = []
    numbers = [t for t in parts if exponential_of(split_coefficient(t)[1]) is None]
    is_masked = any(t.names or may_be_mask(t) for t in numbers)
    for t in parts:
        number, rest = split_coefficient(t)
        if rest is None and number == -math.inf:
            return ZERO
        x = exponential_of(rest)
        is_kept = x is None or (is_masked and (number > 0 or not holds_masked_weight(x)))
        if not is_kept and x is not None and isinstance(number, Fraction):
            leaving.append(power_of(*_of_root(x, number)))
        elif rest is not None and rest.op == "where" and number > 0 and NEG_INF in rest.args[1:]:
            condition, a, b = rest.args
            if a is NEG_INF:
                condition, a, b = construct("not", condition), b, a
            leaving.append(bracket(condition))
            kept.append(mul(const(number, "float"), a))
        else:
            kept.append(t)
    if leaving:
        if len(parts) == 1 and kept:  # like `where`, a bracket ignores what it leaves out
            return mul(*leaving, exp(kept[0]))
        return mul(*leaving, exp(add(ZERO, *kept)))
    if exponent is ZERO:
        return ONE
    return intern("exp", (exponent,), None, "float")


def multiply_out(t: Term) -> Term:
    """Distribute products over sums that hold a fold's result."""
    if t.op == "add":
        return _sum(tuple(map(multiply_out, t.args)), True)
    if t.op == "mul":
        for n, factor in enumerate(t.args):
            if factor.op == "add" and factor.folded:
                others = t.args[:n] + t.args[n + 1 :]
                parts = [a for o in others for a in addends(o)]
                is_masked = any(a.op == "fold" and a.attr.monoid in ("max", "min") for a in parts)
                if is_masked or not all(map(is_finite_if_there, others)):
                    return t  # inf * (a - b) is a number, inf * a - inf * b is none
                return add(*(multiply_out(mul(*others, part)) for part in factor.args))
    return t


CONSTRUCTORS.update(
    add=lambda args, attr, kind: _sum(args, True),
    mul=lambda args, attr, kind: _product(args, True),
    pow=lambda args, attr, kind: power_of(args[0], attr),
    cast=lambda args, attr, kind: as_float(args[0]) if kind == "float" else as_int(args[0]),
)
