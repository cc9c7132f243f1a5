"""Lifting into SE: every sum of exponentials gets its exponent split off.

SE is a number format, a value v and an exponent m for exp(m) v, with m the largest
exponent that was summed. Lifting is a change of representation: the exponent of a value
is inferred from its parts, goes back into the ring, and there cancels in quotients and
leaves through logarithms. No case for any function of several sums is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

from monocomp import terms as T
from monocomp.rewrites.frames import (
    are_bounded,
    condition_of,
    in_one_frame,
    is_at_most_zero,
    is_bounded_by_form,
    is_joined,
    joint_frame,
    largest,
    maxima,
    scaled,
)
from monocomp.rewrites.hoisting import may_divide_by_nothing
from monocomp.rewrites.normal_form import normalise
from monocomp.rewriting.rules import RuleSet
from monocomp.terms import Term
from monocomp.terms.algebra import SE_PAIR, frame, is_mantissa, mantissa
from monocomp.terms.monomials import addends, exponent_of, factors, without_exponent

lifting = RuleSet("lifting", "sums of exponentials become folds in SE(V)")
shared_frames = RuleSet("shared frames", "a sum over part of a domain takes the frame of all of it")


@lifting.rule
def scale_sigmoid(t: Term) -> Term | None:
    """A sigmoid that a large exponential multiplies is a scaled number, too.

    Law:     sigmoid(x) = exp(min(x, 0)) * sigmoid(abs(x))
    Claims:  sigmoids
    Needs:   an exponential that is not at most 0 by its form
    before:  Y[i] = exp(X[i]) * sigmoid(Z[i])
    after:   Y[i] = exp(X[i] + minimum(Z[i], 0)) * sigmoid(abs(Z[i]))
    """
    return _beside_large(t, _with_scaled_sigmoid)


def _with_scaled_sigmoid(t: Term) -> Term | None:
    for f in t.args:
        base, power = T.base_and_power(f)
        if base.op == "sigmoid" and not T.is_nonnegative(base.args[0]):
            value, exponent = scaled(base)
            scale = T.exp(T.mul(T.const(power, "float"), exponent))
            return T.mul(*(g for g in t.args if g is not f), T.power_of(value, power), scale)
    return None


def _beside_large(t: Term, change: Callable[[Term], Term | None]) -> Term | None:
    """What a change makes of a product that has an exponential which is not at most 1 by its form.

    Where it is over a given sum, as exp(S[q,k] - L[q]) is, the fold around says for which elements
    that is asked.
    """
    if t.op == "mul":
        return None if _is_asked_by_fold(t) or is_bounded_by_form(t) else change(t)
    if t.op != "fold" or len(t.attr.indices) != 1 or t.attr.monoid not in ("sum", "max", "min"):
        return None
    (bound,), (condition, body) = T.open_fold(t)
    parts = [
        (change(a) if _is_asked_by_fold(a) and not is_bounded_by_form(a, condition) else None) or a
        for a in addends(body)
    ]
    if parts == [*addends(body)]:
        return None
    return T.fold(t.attr.monoid, (bound,), condition, T.add(*parts))


def _is_asked_by_fold(t: Term) -> bool:
    """Has a product an exponential over a given sum, at the position of a fold's element?"""
    exponent = exponent_of(t) if t.op == "mul" else T.ZERO
    return T.is_beside_given(exponent) and any(not n.isidentifier() for n in exponent.free)


@lifting.rule
def scale_power(t: Term) -> Term | None:
    """A small power of what is scaled is a scaled number, too: it may be far from 0 where that
    is not.

    Law:     (exp(m) * x) ** n = exp(n * m) * x ** n
    Claims:  arithmetic
    Needs:   n is a number, and x is not less than 0
    before:  Y[i] = (exp(X[i]) * Z[i] ** 2) ** 0.01
    after:   Y[i] = exp(0.01 * X[i]) * (Z[i] ** 2) ** 0.01
    """
    if t.op != "power" or t.args[1].op != "const":
        return None
    x, n = t.args
    exponent, rest = exponent_of(x), without_exponent(x)
    if exponent is T.ZERO or not T.is_nonnegative(rest):
        return None
    return T.mul(T.exp(T.mul(n, exponent)), T.general_power(rest, n))


@lifting.rule
def scale_choice(t: Term) -> Term | None:
    """What is chosen, or 0, is a scaled number where that is one.

    Law:     where(c, exp(m) * x, 0) = exp(where(c, m, 0)) * where(c, x, 0)
    Claims:  arithmetic
    Needs:   an exponent of elements that is not at most 0 by its form
    before:  Y[i] = where(X[i] > 0, Z[i] * exp(A[i]), 0)
    after:   Y[i] = exp(where(X[i] > 0, A[i], 0)) * where(X[i] > 0, Z[i], 0)
    """
    if t.op != "where" or t.args[2] is not T.ZERO or is_bounded_by_form(t.args[1]):
        return None
    condition, x, _ = t.args
    if exponent_of(x).folded:  # the scale of a sum, which may be over nothing
        return None
    exponent = T.where(condition, exponent_of(x), T.ZERO)
    return T.mul(T.exp(exponent), T.where(condition, without_exponent(x), T.ZERO))


@lifting.rule
def join_chosen_exponential(t: Term) -> Term | None:
    """A scale is divided by where an exponential is chosen, as both may overflow. What is of
    nothing stays infinite.

    Law:     where(c, exp(s) * x, -inf) * exp(-m) = where(c, exp(s - m) * x, -inf)
    Claims:  arithmetic
    Needs:   m is a maximum, so that exp(-m) is not 0 for elements that are numbers or -inf
    before:  Y[i] = where(X[i] > 0, exp(A[i]), -inf) * exp(-max[k](S[i,k]))
    after:   Y[i] = where(X[i] > 0, exp(A[i] - max[k](S[i,k])), -inf)
    """
    if t.op != "mul":
        return None
    scale = [a for a in addends(exponent_of(t)) if _is_less_a_maximum(a)]
    for f in t.args:
        if f.op == "where" and f.args[2] is T.NEG_INF and exponent_of(f.args[1]) is not T.ZERO:
            condition, x, unit = f.args
            n = T.add(T.ZERO, *scale)
            rest = T.mul(*(g for g in t.args if g is not f), T.exp(T.neg(n)))
            return T.mul(rest, T.where(condition, T.mul(x, T.exp(n)), unit))
    return None


def _is_less_a_maximum(addend: Term) -> bool:
    number, m = T.split_coefficient(addend)
    return m is not None and number < 0 and m.op == "fold" and m.attr.monoid == "max"


@lifting.rule
def lift_weighted_sum(t: Term) -> Term | None:
    """A sum weighted by exponentials is a fold in SE(V), times the exponential of its frame.

    Elements that are 0 are left out: were the largest exponent theirs, nothing would be left of
    the others. What only columns of the values have in common does not count.

    Law:     sum_k exp(s_k) v_k = exp(m) * SE_k(v_k, s_k).v, m = max_k s_k for v_k != 0
    Claims:  scaled numbers, SE, units
    Needs:   the laws of SE: associative, unit, tile form (proved); exponents that are not at
             most 0 by their form, nor because of what is given
    before:  O[i,e] = sum[k](exp(S[i,k]) * V[k,e])
    after:   O[i,e] = exp(max[k](S[i,k])) * SE[k](V[k,e], S[i,k]).v
    """
    if t.op != "fold" or t.attr.monoid != "sum" or len(t.attr.indices) != 1:
        return None
    (bound,), (condition, body) = T.open_fold(t)
    if not any(s.op == "exp" and bound.attr[0] in s.free for s in T.subterms(body)):
        return None
    _, exponent = scaled(body)
    there = T.conjunction(condition, condition_of(body, exponent))
    _, rest = T.shares(body, T.conjuncts(there))
    if is_at_most_zero(scaled(rest)[1], there):
        return None  # no element is large, and nobody divides by their sum
    return _lifted(t)


@lifting.rule
def lift_extremum(t: Term) -> Term | None:
    """Scaled numbers are compared in the largest of their exponents.

    Law:     max_k exp(m_k) v_k = exp(m) * max_k exp(m_k - m) v_k  with  m = max_k m_k
    Claims:  scaled numbers, scaling
    Needs:   an exponent that holds a fold and is not at most 0 by its form, and whose maximum is
             not 0, nor inf; an element, as nothing is -inf in any frame
    before:  M[i] = max[k](exp(max[j](S[i,j,k])) * V[k])
    after:   M[i] = exp(max[k if V[k] != 0](max[j](S[i,j,k]))) * max[k](exp(max[j](S[i,j,k]) - max[k if V[k] != 0](max[j](S[i,j,k]))) * V[k])
    """  # noqa: E501
    if t.op != "fold" or t.attr.monoid not in ("max", "min") or len(t.attr.indices) != 1:
        return None
    (bound,), (condition, body) = T.open_fold(t)
    exponent = exponent_of(body)
    if bound.attr[0] not in exponent.free or not exponent.folded or not T.has_element(t):
        return None
    there = T.conjunction(condition, condition_of(body, exponent))
    _, rest = T.shares(body, T.conjuncts(there))
    if body.op == "exp" or is_at_most_zero(exponent_of(rest), there):
        return None
    if normalise(frame(bound, condition, exponent)) is T.ZERO:  # nothing leaves: no end
        return None
    # What all elements have may be infinite, and leaves them before their maximum is taken.
    moving = T.add(T.ZERO, *(a for a in addends(exponent) if bound.attr[0] in a.free))
    if not T.is_below_infinity(moving):  # less a maximum over nothing, which what leaves may be
        return None
    scale = frame(bound, there, moving)
    moved = T.mul(without_exponent(body), T.exp(T.sub(moving, scale)))
    return T.mul(
        T.exp(T.add(T.sub(exponent, moving), scale)),
        T.fold(t.attr.monoid, (bound,), condition, moved),
    )


def _lifted(t: Term) -> Term | None:
    """The sum in SE, if its elements vary in exponent."""
    (bound,), (condition, body) = T.open_fold(t)
    value, exponent = scaled(body)
    if bound.attr[0] not in exponent.free:
        return None
    there = (T.compare("!=", w, T.ZERO) for w in _weights(value, exponent, bound.attr[0]))
    condition = T.conjunction(condition, *there)
    return T.mul(
        T.exp(frame(bound, condition, exponent)), mantissa(bound, condition, value, exponent)
    )


def _weights(value: Term, exponent: Term, name: str) -> Iterable[Term]:
    """The factors that may be 0 at a position, whatever the exponent is there. A mantissa is 0 only
    where its own exponent is -inf; what is divided by a weight of nothing, whose exponent here is
    inf, may be of nothing, too."""
    taken_away = [a for a in addends(exponent) if T.split_coefficient(a)[0] < 0]
    conditions = [c for a in addends(exponent) if (c := T.is_weight_there(a)) is not None]

    def holds_exponential(w: Term) -> bool:
        return any(s.op == "exp" and name in s.free for s in T.subterms(w))

    for f in factors(value):
        w, power = T.base_and_power(f)
        varies = name in w.free and w.free <= exponent.free
        is_scaled = w.op not in ("relu", "maximum", "minimum") and (
            (holds_exponential(w) and all(map(T.is_unmasked, taken_away)))
            or (T.is_weight(w) and any(map(T.Product([w]).says, conditions)))
        )
        if power > 0 and varies and not (is_scaled or T.is_bracket(w) or T.is_positive(w)):
            yield w


@lifting.rule
def lift_divisor(t: Term) -> Term | None:
    """A sum of small numbers stays scaled where a quotient, root or logarithm is taken.

    So it does where an exponential multiplies it that is not at most 1 by its form.

    Law:     sigmoid(x) = exp(min(x, 0)) * sigmoid(abs(x)), and that of lift_weighted_sum
    Claims:  sigmoids, scaled numbers, SE
    before:  O[i] = log(sum[k](sigmoid(S[i,k])))
    after:   O[i] = log(SE[k](sigmoid(abs(S[i,k])), minimum(S[i,k], 0)).v) + max[k](minimum(S[i,k], 0))
    """  # noqa: E501
    if t.op == "log" or (t.op == "pow" and (t.attr < 0 or t.attr.denominator > 1)):
        return T.rebuild(t, (_lift_parts(t.args[0]),))
    if t.op == "mul" and any(map(_divides_by_mantissa, t.args)):
        return _lift_parts(t)
    return _beside_large(t, _lift_parts)


def _lift_parts(t: Term) -> Term:
    if t.op in ("add", "mul", "pow"):
        return T.map_children(t, _lift_parts)
    if t.op == "fold" and t.attr.monoid == "sum" and len(t.attr.indices) == 1:
        return _lifted(t) or t
    return t


def _divides_by_mantissa(t: Term) -> bool:
    return t.op == "pow" and t.attr < 0 and _holds_mantissa(t)


def _holds_mantissa(t: Term) -> bool:
    return is_mantissa(t) or (t.op in ("add", "mul", "pow") and any(map(_holds_mantissa, t.args)))


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

    Where it is -inf there is nothing.

    Law:     SE_k(v, a + s).v = [-inf < a] * SE_k(v, s).v, as exp((a + s) - (a + m)) = exp(s - m)
    Claims:  scaled numbers, translation
    before:  O[i] = SE[k](V[k], S[i,k] + A[i]).v
    after:   O[i] = SE[k](V[k], S[i,k]).v * (-inf < A[i])
    """
    if not is_mantissa(t) or t.args[0].op != "fold":
        return None
    (bound,), (condition, value, exponent) = T.open_fold(t.args[0])
    moving = [a for a in addends(exponent) if bound.attr[0] in a.free]
    if not moving or len(moving) == len(addends(exponent)):
        return None
    fixed = (T.is_weight_there(a) for a in addends(exponent) if a not in moving)
    there = T.conjunction(*(c for c in fixed if c is not None))
    return T.mul(T.bracket(there), mantissa(bound, condition, value, T.add(T.ZERO, *moving)))


@lifting.rule
def join_frames(t: Term) -> Term | None:
    """Scaled numbers of different exponents are added in the larger one.

    Law:     exp(a) x + exp(b) y = exp(m) (exp(a - m) x + exp(b - m) y)  with  m = max(a, b)
    Claims:  scaled numbers
    Needs:   an exponent that holds a fold and is not at most 0 by its form, as s - max(s) is
    before:  Z[i] = exp(max[k](S[i,k])) + exp(C[i])
    after:   Z[i] = exp(maximum(max[k](S[i,k]), C[i])) * (exp(max[k](S[i,k]) - maximum(max[j](S[i,j]), C[i])) + exp(C[i] - maximum(max[k](S[i,k]), C[i])))
    """  # noqa: E501
    if not is_joined(t):
        return None
    if not any(exponent_of(a).folded for a in t.args) or are_bounded(t.args):
        return None
    if t.op == "add" and is_at_most_zero(t, T.TRUE):
        return None  # an exponent less the one that it is joined in
    value, exponent = _join(t)
    return T.mul(T.exp(exponent), value)


def _join(t: Term) -> tuple[Term, Term]:
    return in_one_frame(t, [(without_exponent(a), exponent_of(a)) for a in t.args])


@lifting.rule
def hoist_frame(t: Term) -> Term | None:
    """A frame that does not vary with the index leaves the sum.

    Law:     sum(exp(m) * x) = exp(m) * sum(x)
    Claims:  distributivity
    Needs:   elements that are not divided by what may be of nothing: see hoist_factor
    before:  A[i] = sum[k](exp(M[i]) * X[i,k])
    after:   A[i] = exp(M[i]) * sum[k](X[i,k])
    """
    if t.op != "fold" or t.attr.monoid != "sum" or len(t.attr.indices) != 1:
        return None
    (bound,), (condition, body) = T.open_fold(t)
    exponent = exponent_of(body)
    if exponent is T.ZERO or bound.attr[0] in exponent.free:
        return None
    if any(map(may_divide_by_nothing, factors(body))):
        return None
    return T.mul(T.exp(exponent), T.fold("sum", (bound,), condition, without_exponent(body)))


@lifting.rule
def join_exponentials(t: Term) -> Term | None:
    """Under a logarithm, a root or a divisor exponentials are added in the largest.

    So they are, or compared, in a factor, or power of one, beside something large or small.

    Law:     that of join_frames; log(exp(m) x) = m + log(x); f(exp(m) x) = exp(m) f(x)
    Claims:  scaled numbers, common factors, arithmetic
    Needs:   an exponent that is not at most 0 by its form
    before:  Y[i] = log(exp(relu(A[i])) + exp(B[i]))
    after:   Y[i] = log(exp(relu(A[i]) - maximum(relu(A[i]), B[i])) + exp(B[i] - maximum(relu(A[i]), B[i]))) + maximum(relu(A[i]), B[i])
    """  # noqa: E501
    if t.op == "mul" and any(map(_is_scale, t.args)):
        for f in t.args:
            base, power = T.base_and_power(f)
            if is_joined(base) and not are_bounded(base.args):
                return T.mul(_joined_power(base, power), *(g for g in t.args if g is not f))
    under = t.op in ("log", "relu", "abs") or (
        t.op == "pow" and (t.attr < 0 or t.attr.denominator > 1)
    )
    if not under or not is_joined(t.args[0]) or are_bounded(t.args[0].args):
        return None
    if t.op == "pow":
        return _joined_power(t.args[0], t.attr)
    value, exponent = _join(t.args[0])
    if t.op == "log":
        return T.add(exponent, T.log(value))
    return T.mul(T.exp(exponent), T.function(t.op, value))


def _is_scale(factor: Term) -> bool:
    """May it be large or small, so that a sum it multiplies should have its exponent split off?"""
    base, power = T.base_and_power(factor)
    return base.op in ("exp", "sigmoid") or power < 0


def _joined_power(base: Term, power: Fraction) -> Term:
    """A power of a sum of exponentials, which are added in the largest."""
    value, exponent = _join(base)
    return T.mul(T.exp(T.mul(T.const(power, "float"), exponent)), T.power_of(value, power))


@lifting.rule
def compare_scaled(t: Term) -> Term | None:
    """Scaled numbers are compared in the larger of their exponents.

    Law:     a < b if and only if a * exp(-m) < b * exp(-m)
    Claims:  increasing functions
    before:  Y[i] = exp(relu(A[i])) * |i| < exp(B[i]) * |i| ** 2
    after:   Y[i] = exp(relu(A[i]) - maximum(relu(A[i]), B[i])) * |i| < exp(B[i] - maximum(relu(A[i]), B[i])) * |i| ** 2
    """  # noqa: E501
    if t.op != "compare" or any(map(is_bounded_by_form, t.args)):
        return None
    joint = joint_frame([(without_exponent(x), exponent_of(x)) for x in t.args], exact=True)
    return T.compare(t.attr, *(T.mul(x, T.exp(T.neg(joint))) for x in t.args))


@shared_frames.rule
def share_frame(t: Term) -> Term | None:
    """A sum over part of a domain, divided by the sum over all of it, takes its frame.

    Law:     exp(m') * SE[k if a and b](v, s).v = exp(m) * SE[k if a]([b] * v, s).v
    Claims:  scaled numbers, units
    Needs:   m is the maximum of s where a, m' where a and b; the exponential that is left is at most
             1 by its form: in a larger frame small numbers are 0, as they are without one, but not
             beside a large number, nor when a logarithm or root has taken their frame from them;
             s is a number also where b fails, which may guard it; the smaller sum is no divisor, and is a factor or one of all addends of a factor; its
             values and what else multiplies it are finite if what they read is, as over nothing
             it is 0 with any factor
    before:  O[i] = exp(max[k if k < i](S[i,k]) - max[k](S[i,k])) * SE[k if k < i](V[k], S[i,k]).v / SE[k](1, S[i,k]).v
    after:   O[i] = SE[k]((k < i) * V[k], S[i,k]).v / SE[k](1, S[i,k]).v
    """  # noqa: E501
    divisors = [u for f in factors(t) if f.op == "pow" and f.attr < 0 for u in addends(f.args[0])]
    for f in factors(t):
        first, *more = (factors(a) for a in addends(f))
        for over in first:
            if not is_mantissa(over) or not all(over in other for other in more):
                continue
            for under in filter(is_mantissa, divisors):
                shared = _in_frame_of(over.args[0], under.args[0])
                if shared is not None:
                    value, change = shared
                    exponent = exponent_of(t)
                    if not is_at_most_zero(T.add(exponent, change), condition_of(t, exponent)):
                        continue
                    rest = [
                        T.mul(T.ONE, *(g for g in fs if g is not over)) for fs in (first, *more)
                    ]
                    others = [g for g in factors(t) if g is not f]
                    scales = (g for g in others if g.op == "exp" or (g.op == "pow" and g.attr < 0))
                    if not all(map(T.is_finite_if_read, {*rest, *others} - {*scales})):
                        return None
                    return T.mul(*others, T.add(*rest), T.exp(change), value)
    return None


def _in_frame_of(part: Term, whole: Term) -> tuple[Term, Term] | None:
    """(mantissa in the frame of `whole`, exponent by which the scale changes)."""
    if len(part.attr.indices) != 1 or part.attr.extents != whole.attr.extents:
        return None
    (bound,), (condition, value, exponent) = T.open_fold(part)
    _, (outer, _, other) = T.open_as(whole, (bound.attr[0],))
    known, wanted = set(T.conjuncts(outer)), set(T.conjuncts(condition))
    if exponent is not other or not known < wanted:
        return None
    if not (T.is_finite_if_there(value) and T.is_number_if_read(exponent)):  # 0 times infinity
        return None
    extra = [c for c in T.conjuncts(condition) if c not in known]
    name = bound.attr[0]
    moving, fixed = (
        T.bracket(T.conjunction(*(c for c in extra if (name in c.free) is varies)))
        for varies in (True, False)
    )
    frames = (largest(bound, c, exponent) for c in (condition, outer))
    change = T.sub(*frames)
    part = T.mul(fixed, mantissa(bound, outer, T.mul(moving, value), exponent))
    return part, T.neg(change)


lifted_normal_form = RuleSet(lifting.name, lifting.purpose, [*maxima.rules, *lifting.rules])
