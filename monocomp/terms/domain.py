"""Domains: the values that a term may have, under explicit assumptions.

A float is a real number, or -inf, which stands for no element, or it is unspecified. Its domain
bounds it where it is specified, and tells whether it may be 0, -inf or unspecified. Each operator
has one transfer function, from the domains of its operands to its own. Names hide nothing: a read
of a stored value has the domain of what it is computed from.

Domains are those of real arithmetic: that exp(1000) is infinite in a float is rounding. An extent
is at least 1: where one is 0, folds over it are made as folds over nothing
(`Equations.at`). A condition holds or fails, whatever it compares.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import cast

from monocomp.declarations.record import record
from monocomp.terms.absence import Place, follows, is_equation
from monocomp.terms.binders import open_fold, rename
from monocomp.terms.constructors import construct
from monocomp.terms.leaves import FALSE, INF, NEG_INF, TRUE, const, extent_of, index
from monocomp.terms.logic import conjuncts
from monocomp.terms.nodes import Term, UserMonoid, intern
from monocomp.terms.parts import addends, is_bracket, split_coefficient
from monocomp.terms.transfer import (
    ANYTHING,
    LARGEST_EXTENT,
    MASKED,
    MISSING,
    POSITION,
    REAL,
    SHARE,
    TRANSFER,
    Dom,
    exponential,
    hull,
    multiply,
    power_of,
    sum_of,
)
from monocomp.terms.transfer import ZERO as ALWAYS_0

_INF = math.inf


@record(eq=False)
class Assumptions:
    """Assumptions on what a term reads. Each object is its own key of what is remembered.

    Attributes:
        elements: the domain of floats that are read, and of parameters.
        contracted: True if what a contraction multiplies is never -inf.
        filled: True if every aggregate has an element, and no weight is 0 for want of one.
        names: domains of inputs, definitions and parameters, by name.
        in_kernels: True for values as kernels have them: the inverse of 0 is 0, and a number stands
            for the -inf of which a negative multiple is taken.
    """

    elements: Dom
    contracted: bool = False
    filled: bool = False
    names: tuple[tuple[str, Dom], ...] = ()
    in_kernels: bool = False

    def of_name(self, name: str, otherwise: Dom) -> Dom:
        """Return the domain of what has a name."""
        return next((values for n, values in self.names if n == name), otherwise)


MASKS_ARE_READ = Assumptions(MASKED)
MASKS_ARE_ADDED = Assumptions(MASKED, contracted=True)
REALS_ARE_READ = Assumptions(REAL)
ELEMENTS_ARE_THERE = Assumptions(REAL, filled=True)
_NOTHING: frozenset[Term] = frozenset()


@lru_cache(maxsize=1 << 17)
def domain(
    t: Term, assumed: Assumptions = MASKS_ARE_ADDED, conditions: frozenset[Term] = _NOTHING
) -> Dom:
    """Return the domain of a term.

    Args:
        t: the term.
        assumed: what is known of elements that are read.
        conditions: conditions that hold, such as filters and those of branches.
    """
    if t.kind == "bool":
        return SHARE
    of = _Evaluation(assumed, conditions)
    transfer = TRANSFER.get(t.op)
    values = transfer(*map(of, t.args)) if transfer is not None else _domain_of_form(t, of)
    if t.kind == "int" and not values.is_real:
        values = replace(values, masked=False, unspecified=False)
    for c in conditions:
        values = _refine(values, t, c, of)
    return values


@record()
class _Evaluation:
    """The domains of operands, under assumptions."""

    assumed: Assumptions
    conditions: frozenset[Term]

    def __call__(self, t: Term, *known: Term) -> Dom:
        """Return the domain of an operand where some conditions are known to hold as well."""
        conditions = self.conditions
        if conditions or known:
            conditions = frozenset(c for c in (*conditions, *known) if _may_refine(c, t))
        return domain(t, self.assumed, conditions)

    def inside(self, fold: Term) -> _Evaluation:
        """Return the evaluation of a fold's elements, where its filter admits them. FALSE is among
        its conditions where it admits none. Of what is 0 or -inf only elements stay that: a sum
        of products with another 0 is no number where an input is none."""
        bound = fold.attr.indices
        outer = [c for c in self.conditions if c.free.isdisjoint(bound)]
        held = frozenset(c for c in outer if not is_equation(c))
        held = held.union(conjuncts(fold.args[fold.op == "fold_at"]))
        place = Place(domain, list(map(index, bound, fold.attr.extents)), held, fold)
        new = (e for c in outer if is_equation(c) for e in place.equations_of_elements(c))
        return _Evaluation(self.assumed, held.union(new))


def _may_refine(condition: Term, t: Term) -> bool:
    """True if a condition may compare a part of t with what has a domain worth knowing."""
    if condition.op != "compare":
        return False
    a, b = condition.args
    is_telling = a.kind == "float" or "const" in (a.op, b.op)
    return is_telling and any(
        side.op != "const" and side.weight <= t.weight + 1 and side.free <= t.free
        for side in (a, b)
    )


def _refine(values: Dom, t: Term, condition: Term, of: _Evaluation) -> Dom:
    """Return the values that a condition admits, which may compare t itself; all of them if it
    admits none, as what is computed there is never looked at."""
    if condition.op != "compare" or condition.args[0].kind == "bool":
        return values
    op, sides = condition.attr, condition.args
    if is_equation(condition) and follows(t, condition, domain):
        return MISSING if condition.args[1] is NEG_INF else ALWAYS_0
    if op == "!=":
        other = next((b for a, b in (sides, sides[::-1]) if a is t), None)
        infinite = INF in sides and any(a.op == "abs" and a.args[0] is t for a in sides)
        if other is NEG_INF or infinite:
            return replace(values, masked=False)
        is_zero = other is not None and other.op == "const" and other.attr == 0
        return replace(values, zero=False) if is_zero else values
    for side, other in (sides, sides[::-1]):
        if side is not t:
            continue
        bound, before = domain(other, of.assumed), values
        if (side is sides[1] or op == "==") and bound.lo >= values.lo:
            strict = op == "<"
            values = replace(
                values,
                lo=bound.lo,
                zero=values.zero and bound.lo <= 0 and not (strict and bound.lo >= 0),
                masked=values.masked and bound.lo == -_INF and not strict,
            )
        if (side is sides[0] or op == "==") and bound.hi <= values.hi:
            strict = op == "<"
            below = bound.hi < 0 or (strict and bound.hi <= 0)
            values = replace(values, hi=bound.hi, zero=values.zero and not below)
        if values.lo > values.hi:
            values = before
    return values


def _domain_of_form(t: Term, of: _Evaluation) -> Dom:
    """Return the domain of a term whose operator needs more than the domains of its operands."""
    match t.op:
        case "const":
            is_number, masked = not isinstance(t.attr, float), t.attr == -_INF
            return Dom(t.attr, t.attr, t.attr == 0, masked, not (is_number or masked))
        case "read":
            known = of.assumed.of_name(t.attr.name, of.assumed.elements)
            return known if t.kind == "float" else REAL
        case "param" | "ref":
            unknown = of.assumed.elements if t.op == "param" else ANYTHING
            return of.assumed.of_name(t.attr, unknown)
        case "symbol":
            return cast(Dom, t.attr[1])
        case "stored":
            return _domain_of_stored(t.attr.body, of.assumed)
        case "cast" if t.args[0].kind == "bool":
            return replace(SHARE, zero=not of.assumed.filled)
        case "cast" | "stop" | "int":
            return of(t.args[0])
        case "pow":
            return power_of(of(t.args[0]), t.attr, of.assumed.in_kernels)
        case "mul":
            return _product(t, of)
        case "exp":
            return exponential(of(t.args[0]), of.assumed.filled)
        case "where":
            condition, a, b = t.args
            fails = construct("not", condition)
            return hull(of(a, *conjuncts(condition)), of(b, *conjuncts(fails)))
        case "fold" | "fold_at" if isinstance(t.attr.monoid, str):
            return _aggregate(t, of)
        case "field" if t.args[0].op in ("fold", "fold_at"):
            return _field(t, of)
    return ANYTHING


@lru_cache(maxsize=4096)
def _stored_bodies(t: Term) -> tuple[Term, ...]:
    """Return what the stored values that a term reads are computed from."""
    parts, waiting = {t}, [t]
    while waiting:
        new = set(waiting.pop().args) - parts
        parts |= new
        waiting += new
    return tuple(dict.fromkeys(s.attr.body for s in parts if s.op == "stored"))


@lru_cache(maxsize=4096)
def _domain_of_stored(body: Term, assumed: Assumptions) -> Dom:
    """Return the domain of what a stored value is computed from, after those of the stored values
    that it reads: a chain of kernels may be longer than calls can be nested."""
    values: dict[Term, Dom] = {}
    waiting = [body]
    while body not in values:
        last = waiting[-1]
        missing = [b for b in _stored_bodies(last) if b not in values]
        waiting += missing
        if not missing:
            values[waiting.pop()] = domain(last, assumed)
    return values[body]


def _product(t: Term, of: _Evaluation) -> Dom:
    """Return the domain of a product: it is 0 where a factor is, whatever the others are, so these
    count where conditions hold and exponents are more than -inf."""
    is_negative = of.assumed.in_kernels and split_coefficient(t)[0] < 0

    def values_of(f: Term, *conditions: Term) -> Dom:
        values = of(f, *conditions)
        is_settled = is_negative and is_settled_where_negative(f)
        return replace(values, masked=False) if is_settled else values

    parts = [values_of(f) for f in t.args]
    conditions = [c for f in t.args for c in _conditions_of(f)]
    if not conditions or all(p.is_real for p in parts):
        return multiply(*parts)
    values = multiply(*(values_of(f, *conditions) for f in t.args))
    return hull(values, ALWAYS_0) if any(p.zero for p in parts) else values


def is_settled_where_negative(factor: Term) -> bool:
    """True for what a kernel settles before it takes a negative multiple of it: not an element as
    it is read, which varies most, and differences from which are exact."""
    return factor.op not in ("const", "read", "symbol")


def _conditions_of(factor: Term) -> Iterable[Term]:
    """Return conditions without which a factor is 0."""
    if is_bracket(factor):
        return conjuncts(factor.args[0])
    return _exceeding(factor.args[0]) if factor.op == "exp" else ()


def _exceeding(exponent: Term) -> Iterator[Term]:
    """Yield -inf < x for the addends x of an exponent, without positive numbers before them."""
    for a in addends(exponent):
        number, x = split_coefficient(a)
        if x is not None:
            bound = x if number > 0 else a
            yield intern("compare", (NEG_INF, bound), "<", "bool")


def _bodies(fold: Term) -> tuple[Term, ...]:
    """Return what a fold adds up, after its position and filter."""
    return fold.args[1:] if fold.op == "fold" else fold.args[2:]


def _aggregate(t: Term, of: _Evaluation) -> Dom:
    """Return the domain of an aggregate in a monoid that is built in."""
    (body,) = _bodies(t)
    is_there = of.assumed.filled or _has_element_here(t)
    monoid = t.attr.monoid
    inside = of.inside(t)
    if FALSE in inside.conditions and not of.assumed.filled:
        x = MISSING if monoid in ("max", "top", "logsumexp", "log_softmax") else ALWAYS_0
    else:
        x = inside(body)
    if monoid == "sum" and of.assumed.contracted and is_contraction(t):
        x = replace(x, masked=False, unspecified=False)
    match monoid:
        case "sum" | "mean":
            return sum_of(x, is_there, 1 if monoid == "mean" else _count(t))
        case "prod":
            ends = (1 if x.lo >= 1 else 0), (1 if x.hi <= 1 else _INF)
            lo, hi = ends if x.lo >= 0 else (-_INF, _INF)
            return Dom(lo, hi, x.zero, x.masked, x.unspecified or x.masked)
        case "max" | "top":
            is_there &= monoid == "max" or of.assumed.filled
            return Dom(
                x.lo if is_there else -_INF, x.hi, x.zero, x.masked or not is_there, x.unspecified
            )
        case "min":  # inf over nothing
            largest = x.hi if is_there else _INF
            return Dom(x.lo, largest, x.zero, x.masked, x.unspecified or not is_there)
        case "var":
            return Dom(0, _INF, True, False, x.unspecified or x.masked)
        case "softmax":
            return Dom(0, 1, x.masked or not is_there, False, x.unspecified)
        case "log_softmax":
            return Dom(-_INF, 0, True, x.masked or not is_there, x.unspecified)
        case "logsumexp":
            return Dom(-_INF, _INF, True, x.masked or not is_there, x.unspecified)
        case "argmax" | "argmin":
            return POSITION
        case "argtop":
            return replace(POSITION, lo=-1)
    return ANYTHING


def _count(fold: Term) -> int:
    """Return the largest number of elements."""
    return int(LARGEST_EXTENT ** len(fold.attr.indices))


def _has_element_here(t: Term) -> bool:
    """True if an aggregate has an element; a prefix has that of its own position."""
    return t.args[1] is TRUE if t.op == "fold_at" else has_element(t)


@lru_cache(maxsize=1 << 16)
def has_element(fold: Term) -> bool:
    """True if the filter of a fold admits an element, whatever its free indices are. Tried are the
    first position, the last one, and that of each free index of the same extent."""
    if fold.args[0] is TRUE:
        return True
    if len(fold.attr.indices) != 1:
        return False
    (bound,), (condition, *_) = open_fold(fold)
    name, extent = bound.attr
    last = construct("add", extent_of(extent), const(-1), kind="int")
    positions = [const(0), last, *(index(n, extent) for n in sorted(condition.free) if n != name)]
    return any(rename(condition, {name: position}) is TRUE for position in positions)


def is_contraction(t: Term) -> bool:
    """True if t is a sum of what is real if the elements that it reads are, and none of these is
    added by itself: so none is the -inf of a mask. A sum of elements as they are read may be one of
    masks."""
    is_sum = t.op == "fold" and t.attr.monoid == "sum"
    return is_sum and domain(t.args[1], REALS_ARE_READ).is_real and not _may_be_mask(t.args[1])


def _may_be_mask(t: Term) -> bool:
    """True if t is -inf where an element that it reads is, as that times a number or beside
    others."""
    match t.op:
        case "add" | "where":
            return any(map(_may_be_mask, t.args[t.op == "where" :]))
        case "mul":
            factors = [f for f in t.args if f.op not in ("const", "extent", "cast", "pow")]
            return len(factors) == 1 and _may_be_mask(factors[0])
        case "fold":
            return not is_contraction(t)
    return t.op in ("read", "stored", "param")


def _field(t: Term, of: _Evaluation) -> Dom:
    """Return the domain of a field of an aggregate in a user's monoid."""
    (fold,) = t.args
    monoid: UserMonoid = fold.attr.monoid
    inside = of.inside(fold)
    if FALSE in inside.conditions and fold.op == "fold" and fold.attr.is_scaled:
        return ALWAYS_0 if t.attr == "v" else MISSING
    elements = list(map(inside, _bodies(fold)))
    if fold.op == "fold" and fold.attr.is_scaled:
        value, exponent = elements
        is_there = of.assumed.filled or has_element(fold)
        if t.attr == "v":
            weight = exponential(exponent, of.assumed.filled)
            number, x = split_coefficient(fold.args[2])
            if number < 0 and x is not None and inside(x).masked:
                weight = replace(weight, unspecified=True)  # what a frame is of is not settled
            value = inside(fold.args[1], *_exceeding(fold.args[2]))
            return sum_of(multiply(value, weight), is_there, _count(fold))
        lo = exponent.lo if is_there else -_INF
        return replace(exponent, lo=lo, masked=exponent.masked or not is_there)
    values = of_fields(monoid, tuple(elements))[monoid.fields.index(t.attr)]
    if of.assumed.in_kernels:
        return values
    # Rewriting leaves a recurrence whole: of a state nothing is multiplied out.
    return replace(values, masked=values.lo < 0, unspecified=True)


@lru_cache(maxsize=1024)
def of_fields(monoid: UserMonoid, elements: tuple[Dom, ...]) -> tuple[Dom, ...]:
    """Return the domains of a monoid's fields, in which every combination stays, from those of the
    fields of its elements. The inf of a minimum of nothing is none of its values."""
    pairs = zip(monoid.unit, elements, strict=True)
    known = tuple(_widened(e if unit is INF else hull(e, domain(unit))) for unit, e in pairs)
    while True:
        fields = zip(monoid.fields, known, strict=True)
        names = tuple((name, values) for f, values in fields for name in (f, f"{f}'"))
        assumed = Assumptions(ANYTHING, names=names)
        combined = (domain(c, assumed) for c in monoid.combine)
        wider = tuple(_widened(hull(*x)) for x in zip(known, combined, strict=True))
        if wider == known:
            return known
        known = wider


def _widened(x: Dom) -> Dom:
    """Return a domain whose ends are 0 or infinite."""
    return replace(x, lo=0 if x.lo >= 0 else -_INF, hi=0 if x.hi <= 0 else _INF)
