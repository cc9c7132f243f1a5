"""Scaled numbers: a pair (v, m) stands for exp(m) v, so that no sum of exponentials overflows.

A term is plain, or scaled: its exponent m follows from its parts, one law an operator, and goes up
with it. It ends in quotients, where equal exponents cancel, in logarithms, of which it is an
addend, and where numbers of different exponents are added or compared, in the larger one. So no
equation holds a frame without need. All of this is done once, after the normal form: there rules
of the ring would take apart again what is scaled.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from monocomp import terms as T
from monocomp.rewrites.frames import (
    are_bounded,
    condition_of,
    has_small_exponents,
    in_frame_of_divisor,
    in_one_frame,
    is_bounded_by_form,
    is_joined,
    joint_frame,
    largest,
)
from monocomp.rewrites.results import factor_number
from monocomp.rewriting.rules import Choice, RuleSet
from monocomp.terms import Term
from monocomp.terms.algebra import is_mantissa, mantissa
from monocomp.terms.domain import MASKS_ARE_READ, domain
from monocomp.terms.equations import Equations
from monocomp.terms.monomials import (
    addends,
    exponent_of,
    factors,
    is_power_in,
    without_exponent,
)

lifting = RuleSet("lifting", "sums of exponentials become folds in SE(V)")


@lifting.choice
def lift(program: Equations) -> Choice | None:
    """Write sums of exponentials as folds in SE(V), whose exponents what is made of them has.

    Elements that are 0 are left out: were the largest exponent theirs, nothing would be left of
    the others. What only columns of the values have in common does not count.

    Law:     `sum[k](exp(s) * v) = exp(m) * SE[k](v, s).v`, `m = max[k if v != 0](s)`
    Claims:  scaled numbers, SE, units, scaling, common factors, increasing functions, arithmetic,
             distributivity
    Needs:   the laws of SE: associative, unit, tile form (proved); exponents that are not at
             most 0 by their form, nor because of what is given, unless they are divided by
    before:  O[i,e] = sum[k](exp(S[i,k]) * V[k,e]) / sum[k](exp(S[i,k]))
    after:   O[i,e] = SE[k](V[k,e], S[i,k]).v / SE[k](1, S[i,k]).v
    """
    for e in program.equations:
        number = scaled(e.body, Need.NONE, T.TRUE)
        if number.place is not None:
            return Choice.replacing(*number.place, program)
        if number.whole is not e.body:
            return Choice.replacing(e.body, number.whole, program)
    return None


class Need(IntEnum):
    """Say which numbers must keep their exponents: sums that may be large alone; all that may be
    large, beside what is scaled; also what may be small; and also small sums, of which a quotient,
    root or logarithm is taken."""

    NONE = 0
    LARGE = 1
    SMALL = 2
    SUMS = 3


class Scaled(NamedTuple):
    """exp(exponent) * value; the exponent of a plain number is 0.

    Attributes:
        whole: the number as a term.
        place: the innermost plain term within it that is written anew, and how.
    """

    whole: Term
    place: tuple[Term, Term] | None = None

    @property
    def exponent(self) -> Term:
        return exponent_of(self.whole)

    @property
    def value(self) -> Term:
        return without_exponent(self.whole)


def scaled(t: Term, need: Need, known: Term) -> Scaled:
    """Take a term for a scaled number.

    Args:
        need: which numbers must keep their exponents.
        known: a condition that holds.
    """
    if not T.holds_exponential(t):
        return Scaled(t)
    if known.folded:  # what is known of other folds says nothing of its parts
        known = T.conjunction(*(c for c in T.conjuncts(known) if _is_of_parts(c, t)))
    return _scaled(t, need, known)


def _is_of_parts(condition: Term, t: Term) -> bool:
    """True if a condition is about no folds that a term does not hold."""
    return all(T.holds(t, s) for s in T.subterms(condition) if s.op == "fold")


@lru_cache(maxsize=65536)
def _scaled(t: Term, need: Need, known: Term) -> Scaled:
    operator = _Operator(need, known)
    whole = operator.scaled(t)
    place = operator.place
    if place is None and whole is not t and exponent_of(whole) is T.ZERO:
        place = t, whole
    return Scaled(whole, place)


class _Operator:
    """Apply the laws of scaled numbers, one an operator.

    Attributes:
        place: the innermost plain term that an operand writes anew, and how.
    """

    def __init__(self, need: Need, known: Term) -> None:
        self.need = need
        self.known = known
        self.place: tuple[Term, Term] | None = None

    def scaled(self, t: Term) -> Term:
        """Apply the law of a term's operator; an integer has no exponent."""
        if t.kind == "int":
            return T.map_children(t, self.plain)
        match t.op:
            case "mul":
                return self.product(t)
            case "add" | "maximum" | "minimum":
                return self.joined(t)
            case "pow" | "power":
                return self.power(t)
            case "log":
                return self.logarithm(t)
            case "relu" | "abs":
                x = self.operand(t.args[0])
                return T.mul(T.function(t.op, x.value), T.exp(x.exponent))
            case "sigmoid" if self.need >= Need.SMALL and not T.is_nonnegative(t.args[0]):
                return self.sigmoid(t)
            case "compare":
                return self.compared(t)
            case "fold" if len(t.attr.indices) == 1 and t.attr.monoid == "sum":
                return self.sum(t)
            case "fold" if len(t.attr.indices) == 1 and t.attr.monoid in ("max", "min"):
                return self.extremum(t)
        return T.map_children(t, self.plain)

    def operand(self, t: Term, need: Need | None = None, known: Term | None = None) -> Scaled:
        """Take an operand for a scaled number."""
        need = self.need if need is None else need
        return self.use(scaled(t, need, self.known if known is None else known))

    def asked(self, t: Term) -> Scaled:
        """Take for a scaled number what a quotient, root or logarithm is taken of: none is of -inf,
        so addends are more than that."""
        conditions = (c for c in map(T.is_weight_there, addends(t)) if c is not None)
        return self.operand(t, Need.SUMS, T.conjunction(self.known, *conditions))

    def use(self, number: Scaled) -> Scaled:
        """Note what an operand writes anew."""
        self.place = self.place or number.place
        return number

    def plain(self, t: Term) -> Term:
        """Take an operand for a plain number."""
        return self.operand(t, Need.NONE).whole

    def product(self, t: Term) -> Term:
        """exp(m) v * exp(n) w = exp(m + n) (v * w): what is small counts beside what is large."""
        weight = exponent_of(t)

        def part(f: Term, need: Need) -> Scaled:
            return scaled(f, Need.NONE if self.is_value(f, weight) else need, self.known)

        parts = [part(f, self.need) for f in t.args]
        need = Need.LARGE if any(map(_is_scale, t.args)) else Need.NONE
        whole = T.mul(*(p.whole for p in parts))
        if any(map(_divides_by_mantissa, parts)) or not is_bounded_by_form(whole, self.known):
            need = Need.SUMS
        if need > self.need:
            parts = [part(f, need) for f in t.args]
        whole = T.rebuild(t, tuple(self.use(p).whole for p in parts))
        if whole is not t:  # numbers stand before products, in what is brought to normal form
            whole = factor_number(whole) or whole
        whole = _in_choice(whole)
        if self.need >= Need.SMALL:
            return whole
        return in_one_frame(in_frame_of_divisor(whole) or whole, self.known)

    def is_value(self, t: Term, weight: Term) -> bool:
        """True if a sum needs no frame beside a weight: its exponentials are numbers that the
        weight's exponent adds up, and beside another addend what is small is lost anyway."""
        if t.op != "add":
            return False
        exponents = {scaled(a, Need.LARGE, self.known).exponent for a in t.args}
        is_added = (e is T.ZERO or is_power_in(weight, e) for e in exponents)
        return T.ZERO in exponents and all(is_added)

    def power(self, t: Term) -> Term:
        """(exp(m) v) ** n = exp(n m) v ** n"""
        is_asked = t.op == "power" or t.attr < 0 or t.attr.denominator > 1
        x = self.asked(t.args[0]) if is_asked else self.operand(t.args[0])
        if t.op == "pow":
            return T.rebuild(t, (x.whole,))
        n = self.plain(t.args[1])
        if n.op != "const" or not T.is_nonnegative(x.value):
            return T.general_power(x.whole, n)
        return T.mul(T.exp(T.mul(n, x.exponent)), T.general_power(x.value, n))

    def logarithm(self, t: Term) -> Term:
        """log(exp(m) v) = m + log(v)"""
        x = self.asked(t.args[0])
        return T.add(x.exponent, T.log(x.value))

    def sigmoid(self, t: Term) -> Term:
        """1 / (1 + exp(-x)) = exp(min(x, 0)) / (1 + exp(-abs(x)))"""
        x = self.plain(t.args[0])
        value = T.function("sigmoid", T.function("abs", x))
        return T.mul(value, T.exp(T.function("minimum", x, T.ZERO)))

    def joined(self, t: Term) -> Term:
        """exp(a) x + exp(b) y = exp(m) (exp(a - m) x + exp(b - m) y) with m = max(a, b)"""
        parts = list(map(self.operand, t.args))
        if any(p.exponent is T.ZERO for p in parts):  # beside it what is small is lost anyway
            parts = [Scaled(in_frame_of_divisor(p.whole) or p.whole) for p in parts]
        whole = T.rebuild(t, tuple(p.whole for p in parts))
        is_plain = self.need is Need.NONE or whole.op != t.op or not is_joined(whole)
        if is_plain or are_bounded(whole.args):
            return whole
        joint = joint_frame([(p.value, p.exponent) for p in parts])
        moved = (T.mul(p.value, T.exp(T.sub(p.exponent, joint))) for p in parts)
        return T.mul(T.rebuild(t, tuple(moved)), T.exp(joint))

    def compared(self, t: Term) -> Term:
        """exp(m) v < exp(n) w = exp(m - p) v < exp(n - p) w with p = max(m, n), and 0 < exp(m) v
        where 0 < v and exp(m) is no 0, which it may be rounded to."""
        is_asked = t.attr == "!="  # as a frame asks of factors: what is small is no 0
        parts = [self.operand(x, Need.SMALL if is_asked else self.need) for x in t.args]
        if T.ZERO in t.args and t.attr in ("<", "!="):
            exponents = [(p.value, a) for p in parts for a in addends(p.exponent)]
            weights = [(x, c) for x, a in exponents if (c := T.is_weight_there(a)) is not None]
            conditions = (c for x, c in weights if not T.vanishes([x], c))
            return T.conjunction(T.rebuild(t, tuple(p.value for p in parts)), *conditions)
        wholes = tuple(p.whole for p in parts)
        if any(map(is_bounded_by_form, wholes)):
            return T.rebuild(t, wholes)
        joint = joint_frame([(p.value, p.exponent) for p in parts])
        return T.compare(t.attr, *(T.mul(x, T.exp(T.neg(joint))) for x in wholes))

    def sum(self, t: Term) -> Term:
        """sum_k exp(s_k) v_k = exp(m) * SE_k(v_k, s_k).v with m = max_k s_k"""
        (bound,), (condition, body) = T.open_fold(t)
        name = bound.name
        condition = self.plain(condition)
        known = T.conjunction(self.known, condition)
        element = scaled(body, Need.SMALL, known)
        value, exponent = element.value, element.exponent
        moving = T.add(T.ZERO, *(a for a in addends(exponent) if name in a.free))
        if moving is T.ZERO or (
            self.need < Need.SUMS and self.are_bounded(element.whole, known, name)
        ):
            return self.plain_sum(bound, condition, self.operand(body, Need.NONE, known))
        weight = self.masked_share(element.whole, known)
        if weight is not T.ONE:
            element = Scaled(T.mul(element.whole, T.power_of(weight, -1)), element.place)
            value, exponent = T.mul(weight, element.value), element.exponent
            moving = T.add(T.ZERO, *(a for a in addends(exponent) if name in a.free))
        self.use(element)
        fixed = [a for a in addends(exponent) if name not in a.free]
        conditions = (c for c in map(T.is_weight_there, fixed) if c is not None)
        weights = (T.compare("!=", w, T.ZERO) for w in _weights(value, exponent, name))
        condition = T.conjunction(condition, *weights)
        total = mantissa(bound, condition, value, moving)
        joint = T.exp(T.add(largest(bound, condition, moving), *fixed))
        return T.mul(T.bracket(T.conjunction(*conditions)), total, joint)

    def masked_share(self, element: Term, known: Term) -> Term:
        """Return the weights with masks in their exponents that are at most 1 by their form: beside
        them, numbers keep a frame of their own."""
        admitted = T.conjuncts(_admitted(element, known))
        masked = (f for f in factors(element) if f.op == "exp" and T.may_be_mask(f.args[0]))
        return T.mul(T.ONE, *(f for f in masked if T.shares(f, admitted)[0] is f))

    def are_bounded(self, element: Term, known: Term, name: str) -> bool:
        """True if the elements of a sum are at most 1 by their form, where a condition holds."""
        if not any(s.op == "exp" and name in s.free for s in T.subterms(element)):
            return True
        admitted = _admitted(element, known)
        _, unshared = T.shares(element, T.conjuncts(admitted))
        return has_small_exponents(unshared, element, admitted, may_be_far_below=True)

    def plain_sum(self, bound: Term, condition: Term, element: Scaled) -> Term:
        """sum_k exp(m) x_k = exp(m) * sum_k x_k"""
        value, exponent = element.value, element.exponent
        if exponent is T.ZERO or bound.name in exponent.free:
            return T.fold("sum", (bound,), condition, element.whole)
        return T.mul(T.exp(exponent), T.fold("sum", (bound,), condition, value))

    def extremum(self, t: Term) -> Term:
        """max_k exp(m_k) = exp(max_k m_k), and so for the minimum, where a number is asked for its
        exponent."""
        (bound,), (condition, body) = T.open_fold(t)
        condition = self.plain(condition)
        element = self.operand(body, Need.NONE, T.conjunction(self.known, condition))
        values = domain(t, MASKS_ARE_READ, frozenset(T.conjuncts(self.known)))
        is_asked = self.need is Need.SUMS and not values.masked
        if is_asked and element.value is T.ONE and element.exponent is not T.ZERO:
            return T.exp(T.fold(t.attr.monoid, (bound,), condition, element.exponent))
        body = element.whole  # as in exponents, whose largest it may be
        return T.fold(t.attr.monoid, (bound,), condition, T.multiply_out(body))


def _admitted(element: Term, known: Term) -> Term:
    return T.conjunction(known, condition_of(element, exponent_of(element)))


def lift_exponents(t: Term) -> Term:
    """Write the exponents of what is given as they are in what is lifted, but not its sums."""
    if t.op == "exp" or (t.op == "fold" and t.attr.monoid == "logsumexp"):
        return T.map_children(t, lambda x: scaled(x, Need.NONE, T.TRUE).whole)
    if t.op in ("add", "mul", "pow", "log") or (t.op == "fold" and t.attr.monoid == "sum"):
        return T.map_children(t, lift_exponents)
    return scaled(t, Need.NONE, T.TRUE).whole


def _in_choice(t: Term) -> Term:
    """where(c, exp(s) x, -inf) * exp(-m) = where(c, exp(s - m) x, -inf) for a maximum m, so that
    exp(-m) is not 0 for elements that are numbers or -inf."""
    scale = T.exp(T.neg(T.add(T.ZERO, *filter(_is_less_a_maximum, addends(exponent_of(t))))))
    for f in factors(t) if scale is not T.ONE else ():
        if f.op == "where" and f.args[2] is T.NEG_INF and exponent_of(f.args[1]) is not T.ZERO:
            others = (g for g in factors(t) if g is not f)
            chosen = T.where(f.args[0], T.mul(f.args[1], T.power_of(scale, -1)), T.NEG_INF)
            return T.mul(*others, scale, chosen)
    return t


def _is_less_a_maximum(addend: Term) -> bool:
    number, m = T.split_coefficient(addend)
    return m is not None and number < 0 and m.op == "fold" and m.attr.monoid == "max"


def _is_scale(factor: Term) -> bool:
    """True if it may be large or small, so that a sum beside it should have its exponent split
    off."""
    base, power = T.base_and_power(factor)
    return base.op in ("exp", "sigmoid") or power < 0


def _divides_by_mantissa(number: Scaled) -> bool:
    return any(f.op == "pow" and f.attr < 0 and _holds_mantissa(f) for f in factors(number.value))


def _holds_mantissa(t: Term) -> bool:
    return is_mantissa(t) or (t.op in ("add", "mul", "pow") and any(map(_holds_mantissa, t.args)))


def _weights(value: Term, exponent: Term, name: str) -> Iterable[Term]:
    """Yield the factors that may be 0 at a position, whatever the exponent is there.

    A mantissa is 0 only where its own exponent is -inf. What is divided by a weight of nothing,
    whose exponent here is inf, may be of nothing as well.
    """
    taken_away = [a for a in addends(exponent) if T.split_coefficient(a)[0] < 0]
    conditions = [c for a in addends(exponent) if (c := T.is_weight_there(a)) is not None]

    def holds_exponential(w: Term) -> bool:
        return any(s.op == "exp" and name in s.free for s in T.subterms(w))

    for f in factors(value):
        w, power = T.base_and_power(f)
        varies = name in w.free and w.free <= exponent.free
        is_scaled = w.op not in ("relu", "maximum", "minimum") and (
            (holds_exponential(w) and all(map(T.is_unmasked, taken_away)))
            or (T.is_nonnegative(w) and any(T.vanishes([w], c) for c in conditions))
        )
        if power > 0 and varies and not (is_scaled or T.is_bracket(w) or T.is_positive(w)):
            yield w
