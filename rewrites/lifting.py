"""Lifting into SE: every sum of exponentials gets its exponent split off.

SE is a number format, a value v and an exponent m for exp(m) v, with m the largest
exponent that was summed. Lifting is a change of representation: the exponent of a value
is inferred from its parts, goes back into the ring, and there cancels in quotients and
leaves through logarithms. No case for any function of several sums is needed.
"""

from __future__ import annotations

from monocomp import terms as T
from monocomp.algebra import SE_PAIR, frame, mantissa
from monocomp.rewriting import RuleSet
from monocomp.terms import Term

lifting = RuleSet("lifting", "sums of exponentials become folds in SE(V)")


@lifting.rule
def lift_weighted_sum(t: Term) -> Term | None:
    """A sum weighted by exponentials is a fold in SE(V), times the exponential of its frame.

    Law:     sum_k exp(s_k) v_k = exp(m) * SE_k(v_k, s_k).v  with  m = max_k s_k
    Claims:  scaled numbers, SE
    Needs:   the laws of SE: associative, unit, tile form (proved)
    before:  O[i,e] = sum[k](exp(S[i,k]) * V[k,e])
    after:   O[i,e] = exp(max[k](S[i,k])) * SE[k](V[k,e], S[i,k]).v
    """
    if t.op != "fold" or t.attr.monoid != "sum" or len(t.attr.indices) != 1:
        return None
    (bound,), (condition, body) = T.open_fold(t)
    factors = body.args if body.op == "mul" else (body,)
    weights = [f for f in factors if f.op == "exp" and bound.attr[0] in f.free]
    if not weights:
        return None
    (weight,) = weights
    value = T.mul(T.ONE, *(f for f in factors if f is not weight))
    exponent = weight.args[0]
    return T.mul(
        T.exp(frame(bound, condition, exponent)), mantissa(bound, condition, value, exponent)
    )


@lifting.rule
def name_frame(t: Term) -> Term | None:
    """The exponent of a fold in SE is the largest exponent of its elements.

    Law:     SE_k(v_k, s_k).m = max_k s_k
    Claims:  SE
    before:  M[i] = SE[k](V[k], S[i,k]).m
    after:   M[i] = max[k](S[i,k])
    """
    if t.op != "field" or t.attr != "m" or t.args[0].op != "fold":
        return None
    folded = t.args[0]
    if folded.attr.monoid is not SE_PAIR or len(folded.attr.indices) != 1:
        return None
    (bound,), (condition, _, exponent) = T.open_fold(folded)
    return frame(bound, condition, exponent)


@lifting.rule
def split_frame(t: Term) -> Term | None:
    """What leaves a frame leaves the exponents under it: only differences are formed.

    Law:     SE_k(v, a + s).v = SE_k(v, s).v, because exp((a + s) - (a + m)) = exp(s - m)
    Claims:  scaled numbers, translation
    before:  O[i] = SE[k](V[k], S[i,k] + A[i]).v
    after:   O[i] = SE[k](V[k], S[i,k]).v
    """
    if t.op != "fold" or t.attr.monoid is not SE_PAIR:
        return None
    (bound,), (condition, value, exponent) = T.open_fold(t)
    addends = exponent.args if exponent.op == "add" else (exponent,)
    moving = [a for a in addends if bound.attr[0] in a.free]
    if len(moving) == len(addends) or not moving:
        return None
    return T.fold(SE_PAIR, (bound,), condition, value, T.add(T.ZERO, *moving))


@lifting.rule
def join_frames(t: Term) -> Term | None:
    """Scaled numbers of different exponents are added in the larger one.

    Law:     exp(a) x + exp(b) y = exp(m) (exp(a - m) x + exp(b - m) y)  with  m = max(a, b)
    Claims:  scaled numbers
    Needs:   an exponent that holds a fold and is not at most 0 by its form, as s - max(s) is
    before:  Z[i] = exp(max[k](S[i,k])) * X[i] + exp(C[i])
    after:   Z[i] = exp(maximum(max[k](S[i,k]), C[i])) * (X[i] * exp(max[k](S[i,k]) - maximum(max[j](S[i,j]), C[i])) + exp(C[i] - maximum(max[k](S[i,k]), C[i])))
    """  # noqa: E501
    if t.op != "add":
        return None
    exponents = [_exponent(a) for a in t.args]
    if not any(e.folded for e in exponents) or all(map(_is_bounded, t.args)):
        return None
    # Where a bracket says that an addend is not there, its exponent does not count.
    counted = {T.where(_condition(a), e, T.NEG_INF) for a, e in zip(t.args, exponents, strict=True)}
    distinct = sorted(counted, key=lambda e: e.key)
    joint = distinct[0]
    if len(distinct) == 1:
        return T.mul(T.exp(joint), T.add(*map(_without_exponent, t.args)))
    for e in distinct[1:]:
        joint = T.function("maximum", joint, e)
    parts = [
        T.mul(_without_exponent(a), T.exp(T.sub(e, joint)))
        for a, e in zip(t.args, exponents, strict=True)
    ]
    return T.mul(T.exp(joint), T.add(*parts))


def _factors(t: Term) -> tuple[Term, ...]:
    return t.args if t.op == "mul" else (t,)


def _exponent(t: Term) -> Term:
    return next((f.args[0] for f in _factors(t) if f.op == "exp"), T.ZERO)


def _without_exponent(t: Term) -> Term:
    return T.mul(T.ONE, *(f for f in _factors(t) if f.op != "exp"))


def _condition(t: Term) -> Term:
    """Where an addend is there."""
    return T.conjunction(*(f.args[0] for f in _factors(t) if T.is_bracket(f)))


def _is_bounded(addend: Term) -> bool:
    """Is the exponent s - m, with an m that is at least s wherever the addend is there?"""
    exponent = _exponent(addend)
    known = frozenset(T.conjuncts(_condition(addend)))
    for a in exponent.args if exponent.op == "add" else (exponent,):
        number, m = T.split_coefficient(a)
        if m is None or not m.folded or isinstance(number, float):
            continue
        rest = T.sub(exponent, a)  # c (s - max(s)), or c (min(s) - s), for c > 0
        s = T.mul(T.const(-1 / number, "float"), rest)
        if _is_extremum(m, s, "max" if number < 0 else "min", known):
            return True
    return exponent is T.ZERO


def _is_extremum(m: Term, s: Term, monoid: str, known: frozenset[Term]) -> bool:
    """Is m the maximum (or minimum) of several terms, of which s is one? `known` are
    conditions that hold."""
    if m is s:
        return True
    if m.op == monoid + "imum":
        return any(_is_extremum(a, s, monoid, known) for a in m.args)
    if m.op == "where":
        return m.args[1] is s and known.issuperset(T.conjuncts(m.args[0]))
    if m.op != "fold" or m.attr.monoid != monoid or len(m.attr.indices) != 1:
        return False
    (bound,), (condition, body) = T.open_fold(m)
    for name in s.free:
        here = {bound.attr[0]: T.index(name, bound.attr[1])}
        if T.substitute(body, here) is s:
            return known.issuperset(T.conjuncts(T.substitute(condition, here)))
    return False
