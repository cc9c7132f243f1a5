"""Extrema of exponentials and of single elements are told by what they are extrema of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from monocomp import terms as T
from monocomp.rewrites.single_folds import is_fold, opened_fold
from monocomp.rewriting.rules import Choice, RuleSet
from monocomp.terms import Term
from monocomp.terms.equations import Equations
from monocomp.terms.monomials import (
    addends,
    exponent_of,
    factors,
    without_exponent,
)

extrema = RuleSet("extrema", "extrema are those of exponents, and of picked elements these")


@extrema.choice
def pick_point(program: Equations) -> Choice | None:
    """A sum over the one index that equals a given position is the element there.

    Law:     sum[k if k = a](f(k)) = f(a) for a position a in the range of k, else 0
    Claims:  one point
    Needs:   the sum stands in no quotient by what may be 0 nor beside an exponential of an
             aggregate or, in a root, beside what may be no number, where a 0 would be no sum
             over nothing, and in no logarithm
    before:  A[i] = max[k](X[i,k]) + sum[k if k == i - 1](X[i,k])
    after:   A[i] = max[k](X[i,k]) + where(0 <= i - 1 and i - 1 < |k|, X[i,i - 1], 0)
    """
    terms = list(T.subterms(*(e.body for e in program.equations)))
    in_quotients = set(T.subterms(*filter(_is_scaled, terms)))
    products = [t for t in terms if t.op == "mul"]
    for t in (*products, *terms):  # a factor that is infinite must not meet the 0
        for f in factors(t):
            picked = _picked(f) if f not in in_quotients else None
            if picked is not None:
                others = [g for g in factors(t) if g is not f]
                return Choice.replacing(t, _within(picked, others), program)
    return None


def _within(picked: Term, others: Sequence[Term]) -> Term:
    """A product with an element, or 0 where that is not there."""
    if picked.op != "where":
        return T.mul(*others, picked)
    condition, value, unit = picked.args
    return T.where(condition, T.mul(T.const(1, value.kind), *others, value), unit)


def _is_scaled(t: Term) -> bool:
    """Is t divided by what may be 0, or multiplied with an exponential of an aggregate or, in a
    power, with what may be no number, or a logarithm?"""
    if t.op == "log":
        return True
    has_root = t.op == "mul" and any(f.op == "pow" and f.attr.denominator > 1 for f in t.args)
    if has_root and not all(map(T.is_number_if_read, t.args)):
        return True
    divisors = (f.args[0] for f in factors(t) if f.op == "pow" and f.attr < 0)
    scales = (f.args[0] for f in factors(t) if f.op == "exp")
    return not all(map(T.is_positive, divisors)) or any(bool(e.folded) for e in scales)


def _picked(t: Term) -> Term | None:
    if not is_fold(t, "sum"):
        return None
    bound, name, condition, body = opened_fold(t)
    for c in T.conjuncts(condition):
        position = _solved(c, bound)
        if position is None:
            continue
        here = {name: position}
        others = (T.substitute(o, here) for o in T.conjuncts(condition) if o is not c)
        inside = T.TRUE
        if position.op == "index" and position.attr[1] != bound.attr[1]:
            return None  # a read with a plain index is never out of range
        if position.op != "index":
            inside = T.in_range(position, bound.attr[1])
        unit = T.const(0, body.kind)
        return T.where(T.conjunction(inside, *others), T.substitute(body, here), unit)
    return None


def _solved(c: Term, bound: Term) -> Term | None:
    """a in a condition that says bound = a."""
    if c.op != "compare" or c.attr != "==" or c.args[0].kind != "int":
        return None
    difference = T.sub(c.args[1], c.args[0])
    for sign in (1, -1):
        rest = T.sub(difference, T.mul(T.const(sign), bound))
        if bound.attr[0] not in rest.free:
            return T.mul(T.const(-sign), rest)
    return None


@extrema.choice
def extremum_of_exponentials(program: Equations) -> Choice | None:
    """The largest exponential is the exponential of the largest exponent.

    Over nothing it is -inf, and not exp(-inf) = 0. What a condition leaves out is exp(-inf). Of
    exponentials that are exponents themselves the largest stays as it is, for what is subtracted
    from them must be one of them to the last digit.

    Law:     max(exp(x)) = exp(max(x)), because exp is monotone
    Claims:  increasing functions, brackets
    Needs:   an element, of a maximum, where a condition leaves some out; exp(x) is in no exponent
    before:  M[i] = max[k](exp(S[i,k]))
    after:   M[i] = exp(max[k](S[i,k]))
    """
    terms = list(T.subterms(*(e.body for e in program.equations)))
    parts = (f for e in _exponents(terms) for a in addends(e) for f in factors(a))
    nested = {f for f in parts if f.op == "exp"}
    for t in terms:
        found = _exponential_of_extremum(t, nested)
        if found is not None:
            return Choice.replacing(t, found, program)
    return None


def _exponents(terms: Iterable[Term]) -> Iterator[Term]:
    """The exponents of exponentials and of folds in SE."""
    for t in terms:
        if t.op == "exp":
            yield t.args[0]
        elif t.op == "fold" and t.attr.is_scaled:
            yield t.args[2]


def _exponential_of_extremum(t: Term, nested: Iterable[Term]) -> Term | None:
    """The exponential that an extremum is, unless its elements are `nested`, at any position."""
    if not is_fold(t, "max", "min"):
        return None
    bound, name, condition, body = opened_fold(t)
    brackets = [f.args[0] for f in factors(body) if T.is_bracket(f)]
    x = exponent_of(body)
    if without_exponent(body) is not T.bracket(T.conjunction(*brackets)) or x is T.ZERO:
        return None
    if brackets and (t.attr.monoid == "min" or not T.has_element(t)):
        return None
    positions = ((e, T.index(position, bound.attr[1])) for e in nested for position in e.free)
    if any(T.substitute(T.exp(x), {name: position}) is e for e, position in positions):
        return None
    found = T.exp(T.fold(t.attr.monoid, (bound,), T.conjunction(condition, *brackets), x))
    if t.attr.monoid == "min":
        return found
    count = T.fold("sum", (bound,), condition, T.const(1))
    return T.where(T.compare("<", T.const(0), count), found, T.NEG_INF)
