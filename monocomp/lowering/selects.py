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
from monocomp.rewrites.frames import condition_of, is_at_most_zero
from monocomp.terms import Number, Term
from monocomp.terms.domain import Assumptions, is_settled_where_negative
from monocomp.terms.equations import Equations
from monocomp.terms.masks import added_in_exponents
from monocomp.terms.monomials import factors
from monocomp.terms.transfer import MASKED, REAL, Dom


def assume_masks(program: Equations) -> Assumptions:
    """Return the assumptions of a program's kernels: what is read is a real number, but for the
    inputs that may hold -inf, and what is stored and added up in exponents."""
    declared = frozenset(program.with_slices(dict.fromkeys(program.declared.masked, True)))
    return _assume_masks(declared, tuple(e.body for e in program.equations))


@lru_cache(maxsize=256)  # kernels of one program share what is known of its domains
def _assume_masks(declared: frozenset[str], bodies: tuple[Term, ...]) -> Assumptions:
    names = sorted(declared | added_in_exponents(bodies))
    return Assumptions(REAL, names=tuple((n, MASKED) for n in names), in_kernels=True)


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
