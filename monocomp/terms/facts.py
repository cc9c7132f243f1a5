"""Facts: questions about the domain of a term, as rules ask them."""

from __future__ import annotations

from monocomp.terms.asking import fact
from monocomp.terms.domain import (
    ELEMENTS_ARE_THERE,
    MASKS_ARE_ADDED,
    MASKS_ARE_READ,
    REALS_ARE_READ,
    WHATEVER_IS_READ,
    admits_element,
    domain,
)
from monocomp.terms.nodes import Term
from monocomp.terms.parts import base_and_power, factors


@fact("is finite")
def is_finite(t: Term) -> bool:
    """True if t is neither infinite nor NaN, whatever is read."""
    return domain(t, WHATEVER_IS_READ).is_real


@fact("is finite if all that it reads is", "is_finite")
def is_finite_if_read(t: Term) -> bool:
    """True if t is neither infinite nor NaN, if all that is read is."""
    return domain(t, REALS_ARE_READ).is_real


@fact("is finite if what its contractions read is", "is_finite")
def is_unmasked(t: Term) -> bool:
    """True if t is neither infinite nor NaN, if no element is that is no mask: the -inf of a mask
    is added to logits, but is no factor in a contraction of queries and keys."""
    return domain(t, MASKS_ARE_ADDED).is_real


@fact(
    "is finite if all that it reads is and its aggregates have elements",
    "is_finite_if_read",
    "is_finite",
)
def is_finite_if_there(t: Term) -> bool:
    """True if t is neither infinite nor NaN, if all that is read is and every aggregate has an
    element."""
    return domain(t, ELEMENTS_ARE_THERE).is_real


@fact("is a number or -inf if all that it reads is", "is_finite_if_read", "is_finite")
def is_number_if_read(t: Term) -> bool:
    """True if t is not NaN, if what is read is a number or the -inf of a mask."""
    return not domain(t, ELEMENTS_ARE_THERE).unspecified


@fact("> -inf")
def exceeds_minus_infinity(t: Term) -> bool:
    """True if t is more than -inf wherever it is a number."""
    return not domain(t, MASKS_ARE_READ).masked


@fact("> -inf if all that it reads is", "exceeds_minus_infinity")
def is_unmasked_if_read(t: Term) -> bool:
    """True if t is more than -inf wherever it is a number, if all that is read is."""
    return not domain(t, REALS_ARE_READ).masked


@fact("> 0")
def is_positive(t: Term) -> bool:
    """True if t is more than 0 wherever it is a number."""
    return domain(t).is_positive


@fact("> 0 where it is a number", "is_positive")
def is_positive_if_specified(t: Term) -> bool:
    """True if t is more than 0 where it is specified: a divisor then is not 0."""
    parts = map(base_and_power, factors((t,)))
    return all(is_positive(b) if n > 0 else is_nonnegative(b) for b, n in parts)


@fact(">= 0", "is_positive")
def is_nonnegative(t: Term) -> bool:
    """True if t is at least 0 wherever it is a number."""
    return domain(t).lo >= 0


@fact("has an element")
def has_element(fold: Term) -> bool:
    """True if the filter of a fold admits an element, whatever its free indices are."""
    return admits_element(fold)


def is_small(t: Term) -> bool:
    """True if t is an int whose sums and differences with others of that kind are no more than
    64 bits hold, as those of indices and extents are."""
    values = domain(t)
    return max(-values.lo, values.hi) <= 2**62
