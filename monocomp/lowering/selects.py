"""Selects: where a kernel's arithmetic is not that of the language, by the domains of its terms.

    0 * anything = 0        -inf + anything = -inf        0 / 0 = 0

A kernel needs three selects (`monocomp/reference/semantics.md`): for a quotient whose divisor may
be 0; for a sum of which one addend may be -inf and another unspecified; for a product of which one
factor may be 0 and another -inf or unspecified. Any number may stand for what is unspecified: a
maximum that is subtracted is settled where it is known, outside of the loops that subtract it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

from monocomp import terms as T
from monocomp.declarations.vocabulary import KEEPING_REDUCTIONS
from monocomp.rewrites.frames import is_at_most_zero
from monocomp.terms import Number, Term
from monocomp.terms.domain import Assumptions, is_contraction, is_settled_where_negative
from monocomp.terms.monomials import factors
from monocomp.terms.transfer import MASKED, REAL, Dom

# A frame is a maximum, or minus a minimum.
EXTREMA = ("max", "min")
_ADDING = ("add", "maximum", "minimum", "where", "fold", "fold_at", "exp", "log", "field")


def assume_masks(bodies: Iterable[Term]) -> Assumptions:
    """Return the assumptions of a kernel: what is read is a real number, but for the inputs that
    are added up in exponents, whose elements may be -inf."""
    return _assume_masks(tuple(bodies))


@lru_cache(maxsize=256)  # kernels of one program share what is known of its domains
def _assume_masks(bodies: tuple[Term, ...]) -> Assumptions:
    terms = T.subterms(*bodies)
    exponents = [a for t in terms for a in _exponents(t)]
    names = dict.fromkeys(n for a in exponents for n in _added_inputs(a))
    return Assumptions(REAL, names=tuple((n, MASKED) for n in names), in_kernels=True)


def _exponents(t: Term) -> Iterable[Term]:
    """Return the operands of a term whose -inf stands for no element."""
    if t.op == "fold" and t.attr.is_scaled:
        return t.args[2:]
    if t.op in ("fold", "fold_at") and t.attr.monoid in ("max", "top", *KEEPING_REDUCTIONS):
        return t.args[-1:]
    is_gate = t.op in ("exp", "sigmoid", "softplus", "silu", "gelu", "maximum")
    return t.args if is_gate or (t.op == "compare" and T.NEG_INF in t.args) else ()


def _added_inputs(t: Term) -> Iterator[str]:
    """Yield the names of inputs that are -inf where t is: as they are, with a scale, or beside
    others. A scale varies with fewer indices; two that are multiplied otherwise are numbers."""
    if t.op == "read":
        yield t.attr.name
    elif t.op == "mul":
        numbers = ("const", "param", "extent", "pow")
        varying = [f for f in t.args if f.op not in numbers and not T.is_bracket(f)]
        for f in varying:
            if f.op != "read" or all(g is f or g.free < f.free for g in varying):
                yield from _added_inputs(f)
    elif t.op in _ADDING and not is_contraction(t):
        for a in t.args:
            if a.kind == "float":
                yield from _added_inputs(a)


def settle(t: Term, domain: Callable[[Term], Dom]) -> Term:
    """Return a product with numbers for each -inf of which it is a negative multiple."""
    number, rest = T.split_coefficient(t)
    parts = factors(rest) if rest is not None and number < 0 else ()
    settled = [clamp(f) if is_settled_where_negative(f) and domain(f).masked else f for f in parts]
    return T.mul(T.const(number, "float"), *settled) if settled != [*parts] else t


def clamp(frame: Term) -> Term:
    """Return the frame, and 0 where it is -inf."""
    return T.where(T.compare("==", T.NEG_INF, frame), T.ZERO, frame)


def times(number: Number, parts: Sequence[Term]) -> Term:
    """Return a product as it stands: where it was written so that nothing cancels, nothing does."""
    if not parts:
        return T.const(number, "float")
    numbers = [] if number == 1 else [T.const(number, parts[0].kind)]
    if len(parts) + len(numbers) == 1 or parts[0].kind != "float":
        return T.mul(*numbers, *parts)
    return T.inert("mul", *numbers, *parts)


def factors_outside_frames(parts: Sequence[Term], known: Iterable[Term]) -> Iterator[Term]:
    """Yield the factors that are 0 where an exponential beside them may overflow, as they have no
    part in the maximum that is taken from its exponent, where conditions are known to hold."""
    condition = T.conjunction(*known)
    for weight in (f for f in parts if f.op == "exp"):
        without = set(left_out_of_frame(weight))
        is_bounded = is_at_most_zero(weight.args[0], condition)
        for f in parts:
            base, _ = T.base_and_power(f)
            if base in without or (base.op == "relu" and not is_bounded):
                yield f


def left_out_of_frame(weight: Term) -> Iterator[Term]:
    """Yield the w without which exp(s - m) may be infinite: m is the maximum of s for w != 0."""
    (x,) = weight.args
    for a in T.addends(x):
        _, m = T.split_coefficient(a)
        for condition in _conditions_of_frame(m, sorted(weight.free)) if m is not None else ():
            tests = (c for c in T.conjuncts(condition) if c.op == "compare" and T.ZERO in c.args)
            yield from (t for c in tests for t in c.args)


def _conditions_of_frame(m: Term, names: Iterable[str]) -> Iterator[Term]:
    """Yield conditions under which exponents count in a maximum, at positions with some names."""
    if m.op == "fold" and m.attr.monoid in ("max", "min") and len(m.attr.indices) == 1:
        (bound,), (condition, _) = T.open_fold(m)
        for name in names:
            yield T.substitute(condition, {bound.attr[0]: T.index(name, bound.attr[1])})
    elif m.op in ("maximum", "where"):
        if T.NEG_INF in m.args:
            yield m.args[0]
        for t in m.args[m.op == "where" :]:
            yield from _conditions_of_frame(t, names)


def is_negative(t: Term) -> bool:
    """True if a term has a negative coefficient."""
    coefficient, _ = T.split_coefficient(t)
    return coefficient < 0 and coefficient != -math.inf


def unsigned(t: Term) -> Term:
    """Return t or -t, whichever has a positive coefficient."""
    return T.neg(t) if is_negative(t) else t
