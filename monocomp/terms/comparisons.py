"""Comparisons in one form each, their negation, and the choice by a condition."""

from __future__ import annotations

import math
from collections.abc import Iterable

from monocomp.terms.constructors import CONSTRUCTORS
from monocomp.terms.facts import (
    exceeds_minus_infinity,
    is_nonnegative,
    is_positive,
    is_small,
    vanishes,
)
from monocomp.terms.leaves import FALSE, INF, NEG_INF, TRUE, ZERO, as_int, const, extent_of
from monocomp.terms.logic import conjunction, disjunction
from monocomp.terms.nodes import Term, intern
from monocomp.terms.parts import addends, split_addends, split_coefficient
from monocomp.terms.ring import add, as_float, mul, neg, promote, sub


def compare(op: str, a: Term, b: Term) -> Term:
    """a op b; > and >= are turned round. Ints are compared in one form, as `_compare_ints` says."""
    if op in (">", ">="):
        return compare("<" if op == ">" else "<=", b, a)
    if a.kind == b.kind == "bool":
        a, b = as_int(a), as_int(b)
    (a, b), kind = promote((a, b))
    if kind == "int":
        return _compare_ints(op, a, b)
    if a.op == "const" and b.op == "const":
        table = {"<": a.attr < b.attr, "<=": a.attr <= b.attr, "==": a.attr == b.attr}
        return const(table.get(op, a.attr != b.attr))
    if a.op == b.op == "exp":  # which is monotone
        return compare(op, a.args[0], b.args[0])
    settled = _settle_less(a, b) if op == "<" else None
    if settled is not None:
        return settled
    if a is ZERO:
        b = _without_scale(b)
    elif b is ZERO:
        a = _without_scale(a)
    return _comparison(op, a, b)


def _settle_less(a: Term, b: Term) -> Term | None:
    """Return a < b for the infinities, and for 0 beside an exponential; None for other floats."""
    if a is NEG_INF and exceeds_minus_infinity(b):
        return TRUE
    if b is INF and exceeds_minus_infinity(neg(a)):
        return TRUE
    if a is ZERO:  # 0 < exp(x) is -inf < x: an exponential may underflow
        condition, x = (b.args[0], b.args[1]) if _is_guarded_exponential(b) else (TRUE, b)
        if x.op == "exp":
            return conjunction(condition, compare("<", NEG_INF, x.args[0]))
    return None


def in_range(position: Term, extent: str) -> Term:
    """Return the condition that a position is one of an extent."""
    return conjunction(compare("<=", const(0), position), compare("<", position, extent_of(extent)))


def _is_guarded_exponential(t: Term) -> bool:
    """True if t is an exponential where a condition holds, and 0 elsewhere."""
    return t.op == "where" and t.args[1].op == "exp" and t.args[2] is ZERO


def _without_scale(t: Term) -> Term:
    """Return a term with the sign of t: a product loses its exponentials, if they are 0 only where
    the product of its other factors is 0 or unspecified. It loses all of them, as one that stays
    might underflow alone."""
    scale = [f for f in t.args if f.op == "exp"] if t.op == "mul" else []
    if not scale:
        return t
    rest = [f for f in t.args if f not in scale]
    is_weighed = intern("compare", (NEG_INF, scale[0].args[0]), "<", "bool")
    return mul(*rest) if vanishes(rest, is_weighed) else t


def _compare_ints(op: str, a: Term, b: Term) -> Term:
    """Return one term for `q - k >= 0`, `k <= q`, `not (k > q)`, `k < q + 1` and `2 * k <= 2 * q +
    1`.

    What is subtracted on one side is added on the other, common factors leave, and a
    number that is left over stands where it is positive, with `<` in front of it. Of two numbers
    that are read the difference might be no int any more: they are compared as they are.
    """
    if sum(not is_small(t) for x in (a, b) for t in addends(x)) > 1:
        return const(op in ("==", "<=")) if a is b else _comparison(op, a, b)
    parts, rest = split_addends(sub(b, a))  # 0 op parts + rest
    rest -= op == "<"
    divisor = math.gcd(*(int(number) for number, _ in parts))
    if not parts:
        return const({"==": rest == 0, "!=": rest != 0}.get(op, rest >= 0))
    if op in ("==", "!=") and rest % divisor != 0:
        return const(op == "!=")
    rest //= divisor  # rounded down: of whole numbers that is the same bound
    scaled = [(int(n) // divisor, t) for n, t in parts]
    left = [_times(-n, t) for n, t in scaled if n < 0]
    right = [_times(n, t) for n, t in scaled if n > 0]
    if op in ("<", "<="):
        if not left and rest + _least(right) >= 0 and all(map(is_nonnegative, right)):
            return TRUE
        if not right and rest - _least(left) < 0 and all(map(is_nonnegative, left)):
            return FALSE
        op, rest = ("<=", 0) if rest == 0 else ("<", rest + 1)
    left.append(const(max(0, -rest)))
    right.append(const(max(0, rest)))
    return _comparison(op, add(*left), add(*right))


def _least(terms: Iterable[Term]) -> int:
    """Return a lower bound of the sum of int terms, none of which is less than 0."""
    return sum(int(split_coefficient(t)[0]) for t in terms if is_positive(t))


def _comparison(op: str, a: Term, b: Term) -> Term:
    """Return a comparison as it is, with the sides of == and != in order."""
    if op in ("==", "!=") and b.key < a.key:
        a, b = b, a
    return intern("compare", (a, b), op, "bool")


def _times(number: int, t: Term) -> Term:
    return t if number == 1 else mul(const(number), t)


def negate(t: Term) -> Term:
    """not t; comparisons turn round."""
    if t.op == "const":
        return const(not t.attr)
    if t.op == "not":
        return t.args[0]
    if t.op == "compare":
        a, b = t.args
        flipped = {
            "<": ("<=", b, a),
            "<=": ("<", b, a),
            "==": ("!=", a, b),
            "!=": ("==", a, b),
        }
        return compare(*flipped[t.attr])
    if t.op in ("and", "or"):
        dual = disjunction if t.op == "and" else conjunction
        return dual(*map(negate, t.args))
    return intern("not", (t,), None, "bool")


def where(condition: Term, a: Term, b: Term) -> Term:
    """a where the condition holds, else b."""
    if a.kind == b.kind == "bool":
        return disjunction(conjunction(condition, a), conjunction(negate(condition), b))
    (a, b), kind = promote((a, b))
    if condition.op == "const":
        return a if condition.attr else b
    if a is b:
        return a
    if b.op == "const" and b.attr == 0 and a.op == "const" and a.attr == 1:
        return as_float(condition) if kind == "float" else as_int(condition)
    return intern("where", (condition, a, b), None, kind)


CONSTRUCTORS.update(
    {
        "compare": lambda args, attr, kind: compare(attr, *args),
        "not": lambda args, attr, kind: negate(*args),
    }
)
