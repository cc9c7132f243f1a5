"""What is known of a term's value from its structure alone: its sign, and that it is finite.

Facts are about real arithmetic: that exp(1000) is infinite in a float is rounding. What is read
may be any number, infinite or NaN. An extent is at least 1: where one is 0, folds over it are
their units before anything else is done (`rewrites/emptiness.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from monocomp.terms.asking import fact
from monocomp.terms.bounds import bounds, has_element
from monocomp.terms.constructors import construct
from monocomp.terms.leaves import NEG_INF, const
from monocomp.terms.nodes import Term


@fact("is finite")
def is_finite(t: Term) -> bool:
    """Neither infinite nor NaN, whatever is read."""
    return _is_finite(t, is_finite)


@fact("is finite if all that it reads is", "is_finite")
def is_finite_if_read(t: Term) -> bool:
    """Neither infinite nor NaN, if all that is read is."""
    return t.op in ("read", "param") or _is_finite(t, is_finite_if_read)


@fact("is finite if what its contractions read is", "is_finite")
def is_unmasked(t: Term) -> bool:
    """Neither infinite nor NaN, if no element is that is no mask: the -inf of a mask is added to
    logits, but is no factor in a contraction of queries and keys."""
    return is_contraction(t) or _is_finite(t, is_unmasked)


def is_contraction(t: Term) -> bool:
    """Is this a sum that is infinite only where what it reads is, which is no mask's -inf then? A
    sum of elements as they are read may be one of masks."""
    is_sum = t.op == "fold" and t.attr.monoid == "sum" and is_finite_if_read(t.args[1])
    return is_sum and not _may_be_mask(t.args[1])


def _may_be_mask(t: Term) -> bool:
    """Is t -inf where an element that it reads is, as that times a number or beside others?"""
    match t.op:
        case "add" | "where":
            return any(map(_may_be_mask, t.args[t.op == "where" :]))
        case "mul":
            factors = [f for f in t.args if f.op not in ("const", "extent", "cast", "pow")]
            return len(factors) == 1 and _may_be_mask(factors[0])
        case "fold":
            return not is_contraction(t)
    return t.op in ("read", "stored", "param")


@fact(
    "is finite if all that it reads is and its aggregates have elements",
    "is_finite_if_read",
    "is_finite",
)
def is_finite_if_there(t: Term) -> bool:
    """Neither infinite nor NaN, if all that is read is and every aggregate has an element."""
    match t.op:
        case "read" | "param":
            return True
        case "pow" if t.attr < 0 and t.args[0].op != "cast" and is_weight(t.args[0]):
            return is_finite_if_there(t.args[0])
        case "log" if is_weight(t.args[0]):
            return is_finite_if_there(t.args[0])
        case "fold" if t.attr.monoid in ("max", "min"):
            return is_finite_if_there(t.args[1])
    return _is_finite(t, is_finite_if_there)


@fact("is a number or -inf if all that it reads is", "is_finite_if_read", "is_finite")
def is_number_if_read(t: Term) -> bool:
    """Not NaN, if what is read is a number or the -inf of a mask: an exponent with masks."""
    if t.op == "add":
        return all(map(is_number_if_read, t.args))
    return is_finite_if_there(_unmasked(t))


@fact("is not infinite", "is_finite")
def is_not_infinite(t: Term) -> bool:
    """Finite wherever it is a number, such as what stands in for x where x is infinite."""
    if _stands_in(t) and is_not_infinite(t.args[1]):
        return True
    return _is_finite(t, is_not_infinite)


def _stands_in(t: Term) -> bool:
    """Is this x, or something else where x is infinite?"""
    if t.op != "where" or t.args[0].op != "compare" or t.args[0].attr != "==":
        return False
    test, _, x = t.args
    sides = {a.attr if a.op == "const" else a for a in test.args}
    return math.inf in sides and any(a.op == "abs" and a.args[0] is x for a in test.args)


def _largest_of(t: Term) -> list[Term]:
    """The operands of nested maxima."""
    return [x for a in t.args for x in _largest_of(a)] if t.op == "maximum" else [t]


def _unmasked(t: Term) -> Term:
    return t.args[1] if t.op == "where" and t.args[2] is NEG_INF else t


def _is_finite(t: Term, is_finite: Callable[[Term], bool]) -> bool:
    if t.kind != "float":
        return True
    match t.op:
        case "const":
            return not isinstance(t.attr, float)
        case "cast" | "uniform":
            return True
        case "field" if t.attr == "v" and t.args[0].op == "fold" and t.args[0].attr.is_scaled:
            _, value, x = t.args[0].args  # a sum of values times at most 1, or 0 at -inf
            return is_finite(value) and is_finite(_unmasked(x))
        case "read" | "ref" | "param" | "fold_at" | "field" | "exactly":
            return False
        case "stored":
            return is_finite(t.attr.body)
        case "pow":
            base = t.args[0]
            has_root = t.attr.denominator == 1 or is_nonnegative(base)
            return is_finite(base) and has_root and (t.attr > 0 or is_positive(base))
        case "log":
            return is_finite(t.args[0]) and is_positive(t.args[0])
        case "fold":
            is_sum = t.attr.monoid in ("sum", "prod", "mean", "var")
            is_there = is_sum or (t.attr.monoid in ("max", "min") and has_element(t))
            return is_there and is_finite(t.args[1])
        case "maximum":  # of what may be -inf, and one that is not
            parts = _largest_of(t)
            return all(is_finite(_unmasked(x)) for x in parts) and any(map(is_finite, parts))
        case "where" if _stands_in(t):
            parts = _largest_of(t.args[2])
            return is_finite(t.args[1]) and all(is_finite(_unmasked(x)) for x in parts)
        case "where":
            return all(map(is_finite, t.args[1:]))
        case "power" | "floordiv" | "mod":
            return False
    return all(map(is_finite, t.args))


@fact("< inf if all that it reads is")
def is_below_infinity(t: Term) -> bool:
    """Less than inf wherever it is a number, if all that is read is, though that may be -inf."""
    match t.op:
        case "read" | "param":
            return True
        case "const":
            return bool(t.attr < math.inf)
        case "stored":
            return is_below_infinity(t.attr.body)
        case "log" | "exp" | "maximum" | "relu" | "add":
            return all(map(is_below_infinity, t.args))
        case "where":
            return all(map(is_below_infinity, t.args[1:]))
        case "minimum":
            return any(map(is_below_infinity, t.args))
        case "mul":
            signed = [f for f in t.args if not is_nonnegative(f)]
            return len(signed) <= 1 and all(map(is_below_infinity, t.args))
        case "fold" if t.attr.monoid in ("max", "sum"):
            return is_contraction(t) or is_below_infinity(t.args[1])
        case "fold" if t.attr.monoid == "min":
            return has_element(t) and is_below_infinity(t.args[1])
        case "field" if t.args[0].op == "fold" and t.args[0].attr.is_scaled:
            return is_below_infinity(t.args[0].args[1 if t.attr == "v" else 2])
    return is_finite(t)


@fact("> -inf")
def exceeds_minus_infinity(t: Term) -> bool:
    """More than -inf wherever it is a number."""
    match t.op:
        case "maximum":
            return any(map(exceeds_minus_infinity, t.args))
        case "minimum" | "add":
            return all(map(exceeds_minus_infinity, t.args))
    return is_not_infinite(t) or is_nonnegative(t)


@fact("> 0")
def is_positive(t: Term) -> bool:
    """More than 0 wherever it is a number. Of a divisor that is infinite, and the quotient 0,
    nothing is promised (`monocomp/reference/semantics.md`)."""
    match t.op:
        case "exp" | "sigmoid" | "softplus":
            return exceeds_minus_infinity(t.args[0])
        case "log":
            return t.args[0].op == "const" and bool(t.args[0].attr > 1)
        case "stored":
            return is_positive(t.attr.body)
        case "cast" | "pow":
            return is_positive(t.args[0])
        case "mul" | "minimum":
            return all(map(is_positive, t.args))
        case "maximum":
            return any(map(is_positive, t.args))
        case "where":
            return all(map(is_positive, t.args[1:]))
        case "add":
            return all(map(is_nonnegative, t.args)) and any(map(is_positive, t.args))
        case "fold":
            if t.attr.monoid == "prod":
                return is_positive(t.args[1])
            is_known = t.attr.monoid in ("sum", "max", "min", "mean")
            return is_known and is_positive(t.args[1]) and has_element(t)
        case "field":  # the mantissa of such a sum
            (fold,) = t.args
            if t.attr != "v" or fold.op != "fold" or not fold.attr.is_scaled:
                return False
            _, value, exponent = fold.args
            return is_positive(value) and is_unmasked(exponent) and has_element(fold)
    return bounds(t)[0] > 0


@fact(">= 0, and 0 only where nothing is there", "is_positive")
def is_weight(t: Term) -> bool:
    """At least 0, and 0 only where nothing is there: a sum has no element, an exponent is -inf, a
    condition fails."""
    match t.op:
        case "exp":
            return True
        case "stored":
            return is_weight(t.attr.body)
        case "cast":
            return t.args[0].kind == "bool" or is_weight(t.args[0])
        case "pow":
            return t.attr > 0 and is_weight(t.args[0])
        case "mul":
            return all(map(is_weight, t.args))
        case "add":
            return all(map(is_nonnegative, t.args)) and any(map(is_weight, t.args))
        case "fold" if t.attr.monoid == "max":
            return is_weight(t.args[1]) and has_element(t)
        case "fold":
            return t.attr.monoid == "sum" and is_weight(t.args[1])
        case "field":
            (fold,) = t.args
            is_mantissa = t.attr == "v" and fold.op == "fold" and fold.attr.is_scaled
            return is_mantissa and is_weight(fold.args[1])
    return is_positive(t)


@fact(">= 0", "is_weight", "is_positive")
def is_nonnegative(t: Term) -> bool:
    """True if t is at least 0 wherever it is a number."""
    return bounds(t)[0] >= 0


def is_positive_where(t: Term, conditions: Iterable[Term]) -> bool:
    """Is t more than 0 where conditions hold, or NaN? So is 1 - rate where a random number, which
    is below 1, is not less than the rate."""
    return is_positive(t) or any(t is _left_of_one(c) for c in conditions)


def _left_of_one(condition: Term) -> Term | None:
    """1 - x, where a random number has been found to be no less than x."""
    is_negated = condition.op == "not"
    compared = condition.args[0] if is_negated else condition
    if compared.op != "compare" or compared.attr not in ("<", "<="):
        return None
    random, x = compared.args if is_negated else reversed(compared.args)
    if random.op != "uniform":
        return None
    return construct("add", const(1, "float"), construct("mul", const(-1, "float"), x))


def is_small(t: Term) -> bool:
    """Is this an int of indices and extents, whose sums and small multiples are far from 2**63?"""
    match t.op:
        case "index" | "extent":
            return True
        case "const":
            return bool(abs(t.attr) < 2**40)
        case "add" | "floordiv" | "mod" | "maximum" | "minimum" | "abs" | "where":
            return all(map(is_small, t.args[t.op == "where" :]))
        case "mul":
            small = [a for a in t.args if a.op != "const"]
            return len(small) < 3 and all(map(is_small, t.args))
        case "fold":
            if t.attr.monoid in ("max", "min"):
                return is_small(t.args[1]) and has_element(t)
            is_count = t.attr.monoid == "sum" and t.args[1].op == "const"
            return is_count or t.attr.monoid in ("argmax", "argmin")
    return t.kind == "bool" or (t.op == "cast" and t.args[0].kind == "bool")
