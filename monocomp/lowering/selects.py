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
from monocomp.rewrites.frames import condition_of, is_at_most_zero
from monocomp.terms import Number, Term
from monocomp.terms.domain import Assumptions, is_contraction, is_settled_where_negative
from monocomp.terms.domain import domain as domain_of
from monocomp.terms.monomials import factors
from monocomp.terms.transfer import MASKED, REAL, Dom

# A frame is a maximum, or minus a minimum.
EXTREMA = ("max", "min")
_REALS = Assumptions(REAL, in_kernels=True)
_ADDING = ("add", "maximum", "minimum", "where", "fold", "fold_at", "exp", "log", "field")


def assume_masks(bodies: Iterable[Term]) -> Assumptions:
    """Return the assumptions of a kernel: what is read is a real number, but for the inputs that
    are added up in exponents, whose elements may be -inf."""
    return _assume_masks(tuple(bodies))


@lru_cache(maxsize=256)  # kernels of one program share what is known of its domains
def _assume_masks(bodies: tuple[Term, ...]) -> Assumptions:
    terms = T.subterms(*bodies)
    names = frozenset().union(*(added_inputs(a) for t in terms for a in _exponents(t)))
    return Assumptions(REAL, names=tuple((n, MASKED) for n in sorted(names)), in_kernels=True)


def _exponents(t: Term) -> Iterable[Term]:
    """Return the operands of a term whose -inf stands for no element."""
    if t.op == "fold" and t.attr.is_scaled:
        return t.args[2:]
    if t.op in ("fold", "fold_at") and t.attr.monoid in (
        "max",
        "top",
        "logsumexp",
        *KEEPING_REDUCTIONS,
    ):
        return t.args[-1:]
    if t.op == "add" and any(map(_is_from_exponent, t.args)):
        return [a for a in t.args if not _is_exponent(a)]
    is_gate = t.op in ("exp", "sigmoid", "softplus", "silu", "gelu", "maximum")
    return t.args if is_gate or (t.op == "compare" and T.NEG_INF in t.args) else ()


def _is_from_exponent(t: Term) -> bool:
    """True if t is an exponent that may be unspecified. What is added to it was in one as well.

    log(exp(s) * x) = s + log(x)        max[k](s + x) = s + max[k](x)    for s free of k
    """
    return _is_exponent(t) and domain_of(t, _REALS).unspecified


def _is_exponent(t: Term) -> bool:
    """True for a number times a logarithm or an extremum, or a choice of these."""
    _, x = T.split_coefficient(t)
    if x is None:
        return False
    if x.op == "where":
        return any(map(_is_exponent, x.args[1:]))
    is_fold = x.op in ("fold", "fold_at")
    return x.op == "log" or (is_fold and x.attr.monoid in (*EXTREMA, "top", "logsumexp"))


@lru_cache(maxsize=4096)
def added_inputs(t: Term) -> frozenset[str]:
    """Return the names of inputs whose elements are added up in t, as they are or scaled: by
    numbers more than 0, or by what varies with fewer indices. What is multiplied otherwise is a
    number."""
    parts: Iterable[Term] = ()
    if t.kind != "float":
        return frozenset()  # a position or a count is a number whatever is read for it
    if t.op == "read":
        return frozenset((t.attr.name,))
    if t.op == "stored":
        parts = (t.attr.body,)
    elif t.op == "mul" and not is_negative(t):
        numbers = ("const", "param", "extent", "pow")
        varying = [f for f in t.args if f.op not in numbers and not T.is_bracket(f)]
        parts = [f for f in varying if all(_is_scale(g, f) for g in varying if g is not f)]
    elif t.op in _ADDING and not (is_contraction(t) or _is_of_monoid(t)):
        parts = [a for a in t.args if a.kind == "float"]
    return frozenset().union(*map(added_inputs, parts))


def _is_scale(factor: Term, t: Term) -> bool:
    """True if a factor varies with fewer indices than t does, and is no aggregate."""
    return not factor.folded and factor.free < t.free


def _is_of_monoid(t: Term) -> bool:
    """True for a field of an aggregate in a user's monoid, which may multiply its elements."""
    return t.op == "field" and not t.args[0].attr.is_scaled


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
    """Yield the factors that are 0 where an exponential beside them may overflow.

    Its exponent is at most 0 only where such a factor counts: it has no part elsewhere in the
    maximum that is taken from the exponent.

    Args:
        parts: the factors.
        known: conditions that hold.
    """
    condition = T.conjunction(*known)
    for (exponent,) in (f.args for f in parts if f.op == "exp"):
        if not is_at_most_zero(exponent, condition):
            for f in parts:
                counts = condition_of(f, exponent)
                if counts is not T.TRUE and is_at_most_zero(
                    exponent, T.conjunction(condition, counts)
                ):
                    yield f


def is_negative(t: Term) -> bool:
    """True if a term has a negative coefficient."""
    coefficient, _ = T.split_coefficient(t)
    return coefficient < 0 and coefficient != -math.inf


def unsigned(t: Term) -> Term:
    """Return t or -t, whichever has a positive coefficient."""
    return T.neg(t) if is_negative(t) else t
