"""Folds without elements: where they are 0, quotients by them are 0, and a product says so.

An aggregate over nothing is its unit, and so is one whose every weight is exp(-inf). What such a
0 is multiplied with does not count, whatever it is; and 0 divided by it is 0
(`monocomp/reference/semantics.md`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from monocomp.declarations.vocabulary import KEEPING_REDUCTIONS
from monocomp.terms.asking import remembered
from monocomp.terms.binders import open_as, open_fold, rename
from monocomp.terms.constructors import construct
from monocomp.terms.facts import has_element, is_finite, is_nonnegative, is_positive, is_weight
from monocomp.terms.leaves import INF, NEG_INF, TRUE, ZERO, const, index
from monocomp.terms.logic import conjuncts
from monocomp.terms.nodes import Term
from monocomp.terms.parts import (
    addends,
    factors,
    is_bracket,
    is_mask,
    is_over_nothing,
    split_coefficient,
)

# Functions that are 0 at 0.
_ZERO_AT_ZERO = ("abs", "relu", "tanh", "sin", "erf", "silu", "gelu", "elu", "sign", "floor")


@remembered
def may_be_empty(t: Term) -> bool:
    """Is t 0 where a fold has no element, so that t / t is 0 there and not 1?

    A filter leaves rows without elements, and so do weights that are all exp(-inf).
    """
    match t.op:
        case "exp":
            return is_over_nothing(t)
        case "stored":
            return may_be_empty(t.attr.body)
        case "cast" if t.args[0].kind == "bool":  # [0 < x] for such an x
            compared = (c.args for c in conjuncts(t.args[0]) if c.op == "compare")
            return any(may_be_empty(x) for sides in compared for x in sides)
        case "field" if t.args[0].op == "fold" and not t.args[0].attr.is_scaled:
            fold, unit = t.args[0], t.args[0].attr.monoid.unit_of(t.attr)
            is_masked = not all(map(is_finite, fold.args[1:]))
            return unit is const(0, unit.kind) and (is_masked or not has_element(fold))
        case "cast" | "field":
            return may_be_empty(t.args[0])
        case "where":
            return any(map(may_be_empty, t.args[1:]))
        case "relu" | "sigmoid" | "softplus" if any(map(_may_be_missing, addends(t.args[0]))):
            return True  # they are 0 at -inf
        case _ if t.op in _ZERO_AT_ZERO:
            return may_be_empty(t.args[0])
        case "fold" | "fold_at" if t.attr.monoid in ("max", "min"):
            return any(map(_may_vanish, factors(t.args[-1:])))  # 0 of weights of nothing
        case "fold" if t.attr.monoid in ("argmax", "argmin"):
            return not has_element(t)
        case "fold_at" if t.attr.monoid in ("sum", "mean", "var"):
            return t.args[1] is not TRUE or any(map(_may_vanish, factors(t.args[2:3])))
        case "fold_at" if t.attr.monoid in KEEPING_REDUCTIONS:
            return t.args[1] is not TRUE or not is_finite(t.args[2])
        case "fold":
            if not (t.attr.monoid in ("sum", "mean", "var") or t.attr.is_scaled):
                return False
            weighted = any(map(_may_vanish, factors(t.args[1:2])))
            scaled = t.attr.is_scaled and not is_finite(t.args[2])
            return weighted or scaled or not has_element(t)
        case "add":
            return all(any(map(_may_be_left_out, factors((a,)))) for a in t.args)
        case "mul":
            return any(is_bracket(f) or _may_vanish(f) for f in t.args)
        case "pow":
            return t.attr > 0 and may_be_empty(t.args[0])
        case "power":  # of a weight, which cancels nothing any more
            return any(map(_may_vanish, factors(t.args[:1])))
    return False


def _may_be_missing(addend: Term) -> bool:
    """Is it infinite where nothing is there: a mask, a maximum, or the logarithm of a sum? What it
    is taken from is -inf then."""
    _, rest = split_coefficient(addend)
    if is_mask(addend) or rest is None:
        return is_mask(addend)
    if rest.op == "fold" and rest.attr.monoid == "max":
        return not is_finite(rest)
    return rest.op == "log" and may_be_empty(rest.args[0])


def _may_be_left_out(factor: Term) -> bool:
    """Is it 0 over nothing or beside a logit of -inf, as an addend may be that is not there?"""
    if factor.op == "exp":  # what is taken away is a maximum mostly, and not infinite
        (x,) = factor.args
        parts = map(split_coefficient, addends(x))
        return any(n > 0 and rest is not None and not is_finite(rest) for n, rest in parts)
    return may_be_empty(factor)


def _may_vanish(factor: Term) -> bool:
    if factor.op == "pow" and factor.attr > 0:
        return any(map(_may_vanish, factors(factor.args)))
    return may_be_empty(factor) or (factor.op == "exp" and not is_finite(factor))


def is_there(t: Term) -> Term:
    """t != 0, for a t that may be empty: the bracket [t != 0] is what t / t is."""
    return construct("compare", const(0, t.kind), t, attr="<" if is_nonnegative(t) else "!=")


def _elements(fold: Term, t: Term, known: Container[Term]) -> Iterable[Sequence[Term]]:
    """The elements of a fold at the positions that t varies with, where they are admitted, and
    their exponents."""
    if len(fold.attr.indices) != 1:
        return
    (bound,), (condition, *parts) = open_fold(fold)
    for name in sorted(t.free):
        here = {bound.attr[0]: index(name, bound.attr[1])}
        if all(c in known for c in conjuncts(rename(condition, here, {}))):
            yield [rename(part, here, {}) for part in parts]


def is_element(t: Term, fold: Term, known: Container[Term] = ()) -> bool:
    """Is t an element of this maximum, minimum or sum, one that its filter admits?"""
    return fold.op == "fold" and any(e == [t] for e in _elements(fold, t, known))


def left_out_of_frame(weight: Term) -> Iterable[Term]:
    """The weights w without which exp(s - m) may be infinite: m is the maximum of s for w != 0."""
    (x,) = weight.args
    for a in addends(x):
        _, m = split_coefficient(a)
        for condition in _conditions_of_frame(m, sorted(weight.free)) if m is not None else ():
            tests = (c for c in conjuncts(condition) if c.op == "compare" and ZERO in c.args)
            yield from (t for c in tests for t in c.args)


def _conditions_of_frame(m: Term, names: Iterable[str]) -> Iterable[Term]:
    """Where exponents count in a maximum, at the positions with these names."""
    if m.op == "fold" and m.attr.monoid in ("max", "min") and len(m.attr.indices) == 1:
        (bound,), (condition, _) = open_fold(m)
        for name in names:
            yield rename(condition, {bound.attr[0]: index(name, bound.attr[1])}, {})
    elif m.op in ("maximum", "where"):
        if NEG_INF in m.args:
            yield m.args[0]
        for t in m.args[m.op == "where" :]:
            yield from _conditions_of_frame(t, names)


@dataclass(frozen=True)
class Product:
    """What is known of a product: its factors, those it is divided by, and what holds in it."""

    factors: Sequence[Term]
    divisors: Sequence[Term] = ()
    known: frozenset[Term] = frozenset()

    def says(self, condition: Term) -> bool:
        """Is the product 0 without the condition, or no number?

        0 < z is said by a sum that is 0 where z is; -inf < m, for the largest exponent m of a sum,
        by that sum. Where m is inf, the sum is infinite, and its scale exp(-m) is 0.
        """
        if condition.op != "compare":
            return False
        left, right = condition.args
        if condition.attr == "!=" and const(0, left.kind) in (left, right):
            return any(x in self.factors for x in (left, right))
        if left is const(0, right.kind):
            return any(self.vanishes_with(t, right) for t in self.factors)
        if condition.attr != "<" or (left is not NEG_INF and right is not INF):
            return False
        m, unit = (right, "max") if left is NEG_INF else (left, "min")
        return self._bounds(m, unit)

    def vanishes_with(self, t: Term, z: Term) -> bool:
        """Is the factor t 0 wherever z is: z may be a sum that t is an element of."""
        t, z = _computed(t), _computed(z)
        if t.op == "exp":
            is_mantissa = z.op == "field" and z.attr == "v"
            (z,) = z.args if is_mantissa else (z,)
            is_sum = z.op == "fold" and (z.attr.monoid == "sum" or z.attr.is_scaled)
            return is_sum and self._is_element(t, z)
        return vanishes_with(t, z)

    def _is_element(self, weight: Term, z: Term) -> bool:
        """Is exp(e), times more, an element of the sum z of weights, at one of its positions?"""
        scaled = z.attr.is_scaled
        return any(
            (not scaled or _holds(weight.args[0], exponent[0]))
            and all(
                _holds(weight.args[0], f.args[0]) if f.op == "exp" else is_positive(f)
                for f in factors([element])
            )
            for element, *exponent in _elements(z, weight, self.known)
        )

    def _bounds(self, m: Term, unit: str) -> bool:
        """Is m not infinite, or is that said? It is -inf as a maximum over nothing, and inf as a
        minimum; otherwise it is infinite because one of the exponents is."""
        if is_finite(m):
            return True
        match m.op:
            case "fold" if m.attr.monoid in ("max", "min"):
                parts = self.factors if m.attr.monoid == unit else self._addends()
                return any(self._is_frame(m, f) for t in parts for f in factors([t]))
            case "maximum" | "minimum":
                said = [self._bounds(a, unit) for a in m.args]
                return any(said) if m.op.startswith(unit) else all(said)
            case "mul" if without_scale(m) is not m:
                return self._bounds(without_scale(m), unit)
        # A weight is 0 where m is -inf: as a factor, not as an addend.
        parts = self.factors if unit == "max" else self._addends()
        return any(f.op == "exp" and _holds(f.args[0], m) for t in parts for f in factors([t]))

    def _addends(self) -> Iterable[Term]:
        """What is infinite, and makes the product so, or no number, where it is."""
        stack = [*self.factors, *self.divisors]
        while stack:
            t = stack.pop()
            if t.op in ("add", "relu", "abs"):
                stack += t.args
            else:
                yield t

    def _is_frame(self, m: Term, t: Term) -> bool:
        """Is m the largest exponent of a sum t, or is t a weight with one of those exponents?"""
        sign = const(1 if m.attr.monoid == "max" else -1, "float")
        if t.op == "exp":
            elements = (construct("mul", sign, x) for x, *_ in _elements(m, t, self.known))
            return any(_holds(t.args[0], x) for x in elements) or _holds_selected(t.args[0], m)
        (t,) = t.args if t.op == "field" else (t,)
        if t.op != "fold" or m.attr.extents != t.attr.extents:
            return False
        if not (t.attr.monoid == "sum" or t.attr.is_scaled):
            return False
        names = [f"@{n}" for n in range(len(t.attr.indices))]
        _, (within, body, *exponent) = open_as(t, names)
        _, (domain, element) = open_as(m, names)
        found = exponent or [f.args[0] for f in factors([body]) if f.op == "exp"]
        if within is not domain or len(found) != 1:
            return False
        return _holds(found[0], construct("mul", sign, element))


def _holds_selected(exponent: Term, m: Term) -> bool:
    """Is one of the largest elements, of which m is the maximum, among the addends?"""
    if m.attr.monoid != "max" or len(m.attr.indices) != 1:
        return False
    parts = open_as(m, ("@0",))[1]
    return any(
        a.op == "fold_at"
        and a.attr.monoid == "top"
        and a.attr.extents == m.attr.extents
        and open_as(a, ("@0",))[1] == parts
        for a in addends(exponent)
    )


def _holds(total: Term, part: Term) -> bool:
    """Are the addends of c * part among those of a total, for a positive and finite c?"""
    there = addends(total)
    parts = addends(part)
    for a in there:
        scale = _quotient(a, parts[0])
        if scale is not None and all(construct("mul", scale, p) in there for p in parts):
            return True
    return False


def _quotient(a: Term, b: Term) -> Term | None:
    """c with a = c * b, if it is seen to be positive and finite."""
    (number, x), (divisor, y) = split_coefficient(a), split_coefficient(b)
    if x is None or y is None or number * divisor <= 0 or not divisor:
        return None
    if isinstance(number, float) and isinstance(divisor, float):  # inf / inf
        return None
    ours, theirs = list(factors([x])), list(factors([y]))
    if any(f not in ours for f in theirs):
        return None
    rest = [f for f in ours if f not in theirs]
    is_scale = all(is_positive(f) and is_finite(f) for f in rest)
    return construct("mul", const(number / divisor, "float"), *rest) if is_scale else None


def without_scale(t: Term) -> Term:
    """t without its positive and finite factors: what is infinite where t is, and as it."""
    number, rest = split_coefficient(t)
    if rest is None or number < 0:
        return t
    found = list(factors([rest]))
    kept = [f for f in found if not (is_positive(f) and is_finite(f))]
    return construct("mul", *kept) if 0 < len(kept) < len(found) else rest


def _computed(t: Term) -> Term:
    """A value that another kernel stores, as it is computed there."""
    while t.op == "stored":
        names = [i.attr[0] for i in t.attr.indices]
        t = rename(t.attr.body, dict(zip(names, t.args, strict=True)), {})
    return t


def vanishes_with(t: Term, z: Term) -> bool:
    """Is t 0 wherever z is: a sum over the domain of z or part of it, of multiples of z's
    weights?"""
    (fold,) = z.args if z.op == "field" else (z,)
    return empties_with(t, z) and is_weight(fold.args[1])


def empties_with(t: Term, z: Term) -> bool:
    """Is the sum t over nothing wherever z is: over the domain of z or part of it, of elements that
    are missing where those of z are?"""
    (t, *v), (z, *w) = ((*x.args, x.attr) if x.op == "field" else (x,) for x in (t, z))
    if not (t.op == z.op == "fold") or v != w or t.attr.extents != z.attr.extents:
        return False
    is_sum = t.attr.monoid == "sum" or (t.attr.is_scaled and v == ["v"])
    if t.attr.monoid != z.attr.monoid or not is_sum:
        return False
    names = [f"@{n}" for n in range(len(t.attr.indices))]
    _, (within, x, *exponent) = open_as(t, names)
    _, (domain, y, *other) = open_as(z, names)
    if exponent != other or not set(conjuncts(domain)) <= set(conjuncts(within)):
        return False
    return _vanishing(y) <= _vanishing(x) | set(conjuncts(within))


def _vanishing(t: Term) -> set[Term]:
    """What makes a product 0: sums that may be empty, conditions that fail, and addends of an
    exponent that are -inf."""
    found = {f for f in factors([t]) if may_be_empty(f)}
    for f in factors([t]):
        if is_bracket(f):
            found |= set(conjuncts(f.args[0]))
        if f.op == "exp":
            found |= set(addends(f.args[0]))
    return found
