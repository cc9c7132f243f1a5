"""Special values: where a term is infinite, or 0 because nothing is there.

An aggregate over nothing is its unit: a sum is 0, and settles the product that it is a factor of;
a maximum is -inf, and its weight exp(-inf) is 0 (`monocomp/reference/semantics.md`). What follows
says of which terms that has to be asked while a kernel runs; `facts` tell of all others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache

from monocomp import terms as T
from monocomp.terms import Number, Term
from monocomp.terms.monomials import factors

_CHOICES = ("where", "minimum", "maximum")
# A frame is a maximum, or minus a minimum.
EXTREMA = ("max", "min")


def times(number_: Number, parts: list[Term]) -> Term:
    """A product as it stands: where it was written so that nothing cancels, nothing does."""
    if not parts:
        return T.const(number_, "float")
    numbers = [] if number_ == 1 else [T.const(number_, parts[0].kind)]
    if len(parts) + len(numbers) == 1 or parts[0].kind != "float":
        return T.mul(*numbers, *parts)
    return T.inert("mul", *numbers, *parts)


def may_cancel(addend: Term, addends: list[Term]) -> bool:
    """May an addend be infinite beside one that is infinite, too, so that they cancel?"""
    return any(a is not addend and not T.is_not_infinite(a) for a in addends)


def clamped(addend: Term) -> Term:
    """An addend of an exponent, finite where it would be inf: a maximum or logarithm of nothing
    that is subtracted, a minimum that is added. So -inf - -inf never occurs: an element at -inf,
    and a sum over nothing, still contribute exp(-inf) = 0, and any other element is infinitely
    larger."""
    number_, rest = T.split_coefficient(addend)
    parts = () if rest is None or T.is_finite(rest) else factors(rest)
    for f in parts:
        scale = [g for g in parts if g is not f]
        unit = None
        if number_ < 0 and _may_sink(f):
            unit = T.NEG_INF
        elif number_ > 0 and _may_rise(f):
            unit = T.INF
        if unit is not None and all(map(T.is_nonnegative, scale)):
            return T.mul(T.const(number_, "float"), clamp(f, unit), *scale)
    return addend


def _may_sink(f: Term) -> bool:
    """May f be -inf of nothing: a maximum, a logarithm, or the least of these?"""
    if f.op == "stored":
        return any(map(_may_sink, T.addends(f.attr.body)))
    if f.op == "fold" and f.attr.monoid == "min":
        parts = map(T.split_coefficient, T.addends(f.args[1]))
        return any(n > 0 and rest is not None and _may_sink(rest) for n, rest in parts)
    is_greatest = _is_greatest(f) or (f.op == "log" and T.may_be_empty(f.args[0]))
    return is_greatest and not T.exceeds_minus_infinity(f)


def _may_rise(f: Term) -> bool:
    """May f be inf of nothing: a minimum, or the largest less what may be -inf of it?"""
    if f.op == "fold" and f.attr.monoid == "max":
        return any(clamped(a) is not a for a in T.addends(f.args[1]))
    return _is_least(f) and not T.is_below_infinity(f)


def subtracted(addend: Term) -> Term:
    """-c * x, finite where x is -inf."""
    number_, x = T.split_coefficient(addend)
    assert x is not None
    return T.mul(T.const(number_, "float"), clamp(x, T.NEG_INF))


def is_divisor(f: Term) -> bool:
    return f.op == "pow" and f.attr < 0 and T.may_be_empty(f.args[0])


def is_share(f: Term, z: Term) -> bool:
    """Is f one of the numbers, none of them negative, that are added up to z?"""
    is_sum = z.op == "fold" and z.attr.monoid == "sum" and len(z.attr.indices) == 1
    if not is_sum or not T.is_nonnegative(z.args[-1]) or T.is_bracket(f):
        return False
    (extent,) = z.attr.extents
    names = {i.attr[0] for i in T.subterms(f) if i.op == "index" and i.attr[1] == extent}
    return any(T.open_as(z, (name,))[1] == (T.TRUE, f) for name in (names & f.free) - z.free)


class Factors:
    """The factors of a product, and which of them settle it where they are 0."""

    def __init__(
        self,
        parts: list[Term],
        known: Term,
        bounded: frozenset[Term],
        logits: frozenset[str] = frozenset(),
    ) -> None:
        self.parts = parts
        self.bounded = bounded
        self.logits = logits
        over = [f for f in parts if f.op != "pow" or f.attr > 0]
        self.sums = [f for f in over if T.may_be_empty(f)]
        self.weights = [f for f in over if f.op == "exp"]
        self.product = T.Product([*self.sums, *self.weights], known=frozenset(T.conjuncts(known)))
        self.divisors = [f for f in parts if is_divisor(f)]
        # Divisors that are 0 only where a sum or weight is: 0 over any number is 0, too.
        self.settled = frozenset(
            d
            for d in self.divisors
            if self._vanishes_with(d.args[0]) and not self._may_be_left_alone(d.args[0])
        )

    def _vanishes_with(self, z: Term) -> bool:
        """Is a sum or a weight 0 wherever z is?"""
        match z.op:
            case "add" if all(map(T.is_nonnegative, z.args)):
                return any(map(self._vanishes_with, z.args))
            case "mul":
                return all(T.is_positive(f) or self._vanishes_with(f) for f in factors(z))
            case "pow":
                return z.attr > 0 and self._vanishes_with(z.args[0])
        return (
            z in self.weights
            or any(self.product.vanishes_with(f, z) for f in self.product.factors)
            or any(is_share(f, z) for f in self.sums)
        )

    def _may_be_left_alone(self, z: Term) -> bool:
        """May a sum z be no number of numbers, where a guard leaves nothing of what it divides?"""
        if not _is_scaled_sum(z):
            return False
        condition, *parts = z.args[0].args
        folds = [f.args[0] for f in self.sums if f.op == "field" and f.args[0].op == "fold"]
        is_part = any(
            f.args[0] is not condition or any(map(T.is_bracket, factors(f.args[1]))) for f in folds
        )
        return is_part and not all(map(T.is_number_if_read, parts))

    def _is_over_sum_of(self, weight: Term, t: Term) -> bool:
        """Does an addend of t divide by a sum of such weights? That is infinite over nothing."""
        divisors = (d.args[0] for a in T.addends(t) for d in factors(a) if is_divisor(d))
        return t.op == "add" and any(self.product.vanishes_with(weight, z) for z in divisors)

    def with_frames(self) -> list[Term]:
        """The factors, their scale finite where the sum over nothing that has it divides them.

        A scale is the reciprocal of that sum's. What is exp(-inf) there is 0, and stays it."""
        unsettled = [d.args[0] for d in self.divisors if d not in self.settled]
        if not unsettled:
            return self.parts
        divisors = T.Product(unsettled)
        found = []
        for f in self.parts:
            for a in T.addends(f.args[0]) if f.op == "exp" else ():
                number_, m = T.split_coefficient(a)
                if m is None or not (_is_least(m) if number_ > 0 else _is_greatest(m)):
                    continue
                if divisors.says(_is_there(m)):
                    there = T.mul(T.const(number_, "float"), _if_there(m))
                    f = T.exp(T.add(T.sub(f.args[0], a), there))
            found.append(f)
        return found

    def _may_hold_infinite(self, t: Term) -> bool:
        """Is t infinite of nothing, or a sum of scaled values that are, whatever it sums over, or
        of exponentials that are, beside a weight with a logit of its own?"""
        if (
            t.op == "field"
            and t.attr == "v"
            and t.args[0].op == "fold"
            and t.args[0].attr.is_scaled
        ):
            _, value, exponent = t.args[0].args
            logits = (_unscaled(a) for w in self.weights for a in T.addends(w.args[0]))
            rises = any(clamped(a) is not a for a in T.addends(exponent))
            is_masked = any(not (x.folded or T.exceeds_minus_infinity(x)) for x in logits)
            return (rises and is_masked) or any(map(may_be_infinite_by_itself, factors(value)))
        return may_be_infinite_by_itself(t)

    def zeros(self) -> Iterable[list[Term]]:
        """The factors whose product makes all of it 0 where it is 0."""
        unsettled = [d for d in self.divisors if d not in self.settled]
        if unsettled:
            # Where there is nothing, the scale that divides it is infinite, and 0 times that none.
            rest = [f for f in self.with_frames() if f.op != "pow" or f.attr > 0]
            yield rest or [T.ONE]
        elif infinite := [f for f in self.parts if self._may_hold_infinite(f)]:
            rest = [f for f in self.parts if f not in infinite and f not in self.divisors]
            if rest and not all(map(T.is_positive, rest)):
                yield rest
            if len(infinite) > 1:
                yield from ([f] for f in infinite)
        beside = (f for f in self.parts if not (unsettled and f in self.divisors))
        others = [f for f in beside if f not in self.settled | self.bounded]
        for f in self.sums:
            if not all(g is f or _is_bounded(g) or T.empties_with(g, f) for g in others):
                # Not where another factor is 0: what is asked exactly may be divided by 0 then.
                empty = [g for g in factors(f) if T.is_bracket(g) or T.may_be_empty(g)]
                yield empty or [f]
        for f in self.weights:
            rest = [g for g in self.parts if g is not f]
            is_infinite = infinite_with(rest, f.args[0], self.logits)
            if is_infinite or any(self._is_over_sum_of(f, g) for g in rest):
                yield [f]
            without = set(T.left_out_of_frame(f))
            for g in self.parts:
                base, _ = T.base_and_power(g)
                if base in without or (base.op == "relu" and not _is_bounded(f)):
                    yield [g]


def _is_scaled_fold(t: Term) -> bool:
    return t.op == "fold" and bool(t.attr.is_scaled)


def _is_scaled_sum(t: Term) -> bool:
    return t.op == "field" and _is_scaled_fold(t.args[0])


def _is_bounded(t: Term) -> bool:
    """Is t finite, whatever is finite or missing, such as exp(x - maximum(x, y))?"""
    if t.op != "exp":
        return T.is_finite(t)
    for a in T.addends(t.args[0]):
        number_, m = T.split_coefficient(a)
        if m is not None and m.op == "maximum" and number_ < 0:
            rest = T.sub(t.args[0], a)
            if rest in (T.mul(T.const(-number_, "float"), x) for x in m.args):
                return True
    return False


def in_no_frame(t: Term) -> Term:
    """A product in which the scale of what is compared, exp(m) * maximum(a * exp(-m), b), has gone
    back into it: nothing has cancelled it, and a may be 0 in the frame of b, which is less."""
    for f in factors(t):
        scale = [g for g in factors(t) if g.op == "exp" and _is_frame(g)] if _compares(f) else []
        scale = [g for g in scale if f not in T.left_out_of_frame(g)]
        if scale:
            operands = (*f.args, T.ZERO) if f.op == "relu" else f.args
            plain = [T.mul(a, *scale) for a in operands]
            name = "maximum" if f.op == "relu" else f.op
            total = T.add(*plain) if f.op == "add" else T.function(name, *plain)
            return T.mul(total, *(g for g in factors(t) if g is not f and g not in scale))
    return t


def _compares(t: Term) -> bool:
    """Is it the larger or smaller of two numbers, or a sum with one?"""
    if t.op == "add":
        return any(_compares(f) for a in t.args for f in factors(a))
    return t.op in ("maximum", "minimum", "relu") and t.kind == "float"


def _is_frame(weight: Term) -> bool:
    """Is it the exponential of an aggregate or a maximum, and not at most 1 by its form?"""
    (exponent,) = weight.args
    is_frame = exponent.folded or any(a.op == "maximum" for a in T.addends(exponent))
    return is_frame and not (_is_bounded(weight) or T.is_nonnegative(T.neg(exponent)))


def _is_there(m: Term) -> Term:
    return T.compare("<", T.NEG_INF, m) if _is_greatest(m) else T.compare("<", m, T.INF)


def _if_there(m: Term) -> Term:
    """An exponent of a sum, 0 over nothing."""
    return T.where(_is_there(m), m, T.ZERO)


def logits_of(bodies: Iterable[Term]) -> frozenset[str]:
    """The inputs whose elements are added up in exponents: -inf is a mask there, and remembers it
    where a rewrite makes a factor of it, log_softmax(x) = x - logsumexp(x)."""
    found: set[str] = set()
    for t in T.subterms(*bodies):
        exponents = t.args if t.op == "exp" else t.args[2:] if _is_scaled_fold(t) else ()
        for a in map(_unscaled, (a for x in exponents for a in T.addends(x))):
            found |= {x.attr.name for y in (a, *_scaled_logits(a)) for x in _chosen_from(y)}
    return frozenset(found)


def _chosen_from(t: Term) -> Iterable[Term]:
    """What is read that t may be, or that is a part of what it may be."""
    if t.op == "read":
        yield t
    for a in (a for part in _parts(t, True) for a in T.addends(part)):
        yield from _chosen_from(_unscaled(a))


def _parts(t: Term, folds: bool) -> Sequence[Term]:
    """Of what t is chosen, or folded by no product."""
    if t.op in ("fold", "fold_at"):
        return t.args[-1:] if folds and not T.is_contraction(t) else ()
    return t.args[t.op == "where" :] if t.op in _CHOICES else ()


def infinite_with(
    parts: Sequence[Term], exponent: Term, logits: frozenset[str] = frozenset()
) -> list[Term]:
    """The factors that are infinite where an exponent is, alone or with others, or hold logits."""
    found = [
        f for f in parts if is_infinite_with(f, exponent) or has_logit(f, logits, exponent.free)
    ]
    for a in T.addends(exponent):
        product = factors(_unscaled(a))
        if len(product) > 1 and not is_missing_nowhere(a) and all(f in parts for f in product):
            found += [f for f in product if f not in found]
    return found


def is_infinite_with(t: Term, exponent: Term) -> bool:
    """Is t infinite where an exponent is, because they have an addend in common?"""
    if t.op == "pow":
        return t.attr > 0 and is_infinite_with(t.args[0], exponent)
    varying = {_unscaled(a) for a in T.addends(exponent) if not is_missing_nowhere(a)}
    varying |= {logit for a in varying for logit in _scaled_logits(a)}
    return any(
        _unscaled(a) in varying
        or any(f in varying or is_infinite_with(f, exponent) for f in _sums_in(a))
        for a in T.addends(t)
    )


def has_logit(t: Term, logits: frozenset[str], along: frozenset[str] | None = None) -> bool:
    """Is t made of a logit that may be -inf, of a choice of them, or of a prefix along these?"""
    match t.op:
        case "read":
            return t.attr.name in logits
        case "pow":
            return t.attr > 0 and has_logit(t.args[0], logits, along)
        case "add" | "mul":
            parts: Sequence[Term] = t.args
        case "log":  # of a sum of weights
            parts = [s.args[0] for s in T.subterms(t.args[0]) if s.op == "exp"]
        case _:
            parts = _parts(t, folds=along is not None and along <= t.free)
    return any(has_logit(a, logits, along) for a in parts)


def _scaled_logits(product: Term) -> Iterable[Term]:
    """What of a product in an exponent is a logit, with a scale: a sum, as a mask is added to it,
    or what varies with more than all others do; and its addends."""
    parts = factors(product)
    for f in parts if len(parts) > 1 else ():
        others = frozenset().union(*(g.free for g in parts if g is not f))
        if not is_missing_nowhere(f) and (f.op == "add" or (T.is_read(f) and f.free > others)):
            yield f
            yield from (_unscaled(a) for a in T.addends(f) if not is_missing_nowhere(a))


def _sums_in(addend: Term) -> Iterable[Term]:
    """The sums that a product is made of."""
    parts = factors(_unscaled(addend))
    return (f for f in parts if len(T.addends(f)) > 1)


def is_missing_nowhere(t: Term) -> bool:
    """Is t finite or a product of such sums and numbers?"""
    return all(T.is_finite(f) or T.is_contraction(f) for f in factors(t))


def _unscaled(t: Term) -> Term:
    return T.split_coefficient(t)[1] or t


@lru_cache(maxsize=65536)
def may_be_infinite_by_itself(t: Term) -> bool:
    """Is t infinite where it stands for nothing: a maximum, minimum or logarithm of that?"""
    match t.op:
        case "fold" if t.attr.monoid == "sum":
            return any(map(may_be_infinite_by_itself, factors(t.args[-1])))
        case "fold":
            is_extremum = t.attr.monoid in EXTREMA and not T.is_finite(t)
            return is_extremum and not (t.attr.monoid == "min" and T.is_below_infinity(t))
        case "maximum" | "minimum" | "mul" | "abs":
            return any(map(may_be_infinite_by_itself, t.args))
        case "add" | "where":
            return any(map(may_be_infinite_by_itself, t.args[t.op == "where" :]))
        case "stored":
            return may_be_infinite_by_itself(t.attr.body)
        case "log":
            return T.may_be_empty(t.args[0])
        case "pow":
            return t.attr > 0 and may_be_infinite_by_itself(t.args[0])
        case "const":
            return t in (T.INF, T.NEG_INF)
        case "field":
            return _unit_of_field(t) in (T.INF, T.NEG_INF)
    return t.op == "fold_at"


def may_be_masked(t: Term) -> bool:
    """May a fold in t have no element, so that its -inf counts for more than any infinite one?"""
    return any(s.op == "fold" and not T.has_element(s) for s in T.subterms(t))


def is_negative(t: Term) -> bool:
    coefficient, _ = T.split_coefficient(t)
    return coefficient < 0 and coefficient != -math.inf


def unsigned(t: Term) -> Term:
    """t or -t, whichever has a positive coefficient."""
    return T.neg(t) if is_negative(t) else t


def _is_greatest(t: Term) -> bool:
    if t.op == "stored":
        return _is_greatest(t.attr.body)
    is_extremum = t.op == "maximum" or (t.op == "fold" and t.attr.monoid == "max")
    return is_extremum or _unit_of_field(t) is T.NEG_INF


def _is_least(t: Term) -> bool:
    if t.op == "stored":
        return _is_least(t.attr.body)
    is_extremum = t.op == "minimum" or (t.op == "fold" and t.attr.monoid == "min")
    return is_extremum or _unit_of_field(t) is T.INF


def begins_infinite(t: Term) -> bool:
    """Is what a loop carries for this fold, or field of one, infinite before its first element?"""
    is_extremum = t.op == "fold" and t.attr.monoid in EXTREMA
    return is_extremum or _unit_of_field(t) in (T.INF, T.NEG_INF)


def _unit_of_field(t: Term) -> Term | None:
    """What a field of a user's monoid is over nothing."""
    if t.op != "field" or t.args[0].op != "fold" or t.args[0].attr.is_scaled:
        return None
    unit: Term = t.args[0].attr.monoid.unit_of(t.attr)
    return unit


# What stands for an infinite frame: exp of it is infinite in all dtypes, and no small multiple of
# it is.
_LARGE = T.const(Fraction(2**100), "float")


def clamps(frame: Term) -> Iterable[Term]:
    return (clamp(frame, unit) for unit in (T.NEG_INF, T.INF))


def clamp(frame: Term, unit: Term) -> Term:
    """The frame, a large number where it is infinite as that of nothing is."""
    large = T.neg(_LARGE) if unit is T.NEG_INF else _LARGE
    return T.where(T.compare("==", unit, frame), large, frame)
