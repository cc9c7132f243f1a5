"""Facts: questions about the domain of a term, as rules ask them.

Some ask what is 0 because a fold has no element, and which conditions say that it has one: x / x is
1, and exp(a) * exp(-a) is, where there is an element, and a product drops the conditions without
which it is 0 anyway (`monocomp/reference/semantics.md`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from monocomp.declarations.vocabulary import LOGARITHM_OF
from monocomp.terms.absence import Place
from monocomp.terms.binders import free_indices, rename
from monocomp.terms.constructors import construct
from monocomp.terms.domain import (
    ELEMENTS_ARE_THERE,
    MASKS_ARE_ADDED,
    MASKS_ARE_READ,
    REALS_ARE_READ,
    domain,
    has_element,
    is_contraction,
)
from monocomp.terms.leaves import FALSE, NEG_INF, TRUE, const, name_of
from monocomp.terms.logic import conjuncts
from monocomp.terms.nodes import Number, Term, intern
from monocomp.terms.parts import addends, base_and_power, factors, is_bracket, split_coefficient
from monocomp.terms.transfer import Dom


def is_finite_if_read(t: Term) -> bool:
    """True if t is neither infinite nor NaN, if all that is read is."""
    return domain(t, REALS_ARE_READ).is_real


def is_unmasked(t: Term) -> bool:
    """True if t is neither infinite nor NaN, if no element is that is no mask: the -inf of a mask
    is added to logits, but is no factor in a contraction of queries and keys."""
    return domain(t, MASKS_ARE_ADDED).is_real


def is_finite_if_there(t: Term) -> bool:
    """True if t is neither infinite nor NaN, if all that is read is and every aggregate has an
    element."""
    return domain(t, ELEMENTS_ARE_THERE).is_real


def exceeds_minus_infinity(t: Term) -> bool:
    """True if t is more than -inf wherever it is a number."""
    return not domain(t, MASKS_ARE_READ).masked


def is_unmasked_if_read(t: Term) -> bool:
    """True if t is more than -inf wherever it is a number, if all that is read is."""
    return not domain(t, REALS_ARE_READ).masked


def is_positive(t: Term) -> bool:
    """True if t is more than 0 wherever it is a number."""
    return domain(t).is_positive


def is_positive_if_specified(t: Term) -> bool:
    """True if t is more than 0 where it is specified: a divisor then is not 0."""
    parts = map(base_and_power, factors(t))
    return all(is_positive(b) if n > 0 else is_nonnegative(b) for b, n in parts)


def is_nonnegative(t: Term) -> bool:
    """True if t is at least 0 wherever it is a number."""
    return domain(t).lo >= 0


def is_small(t: Term) -> bool:
    """True if t is an int whose sums and differences with others of that kind are no more than
    64 bits hold, as those of indices and extents are."""
    values = domain(t)
    return max(-values.lo, values.hi) <= 2**62


# --- nothing ----------------------------------------------------------------------------------


@lru_cache(maxsize=65536)
def may_be_empty(t: Term) -> bool:
    """True if t may be 0 over nothing: where a fold has no element, or weights are all exp(-inf).
    A sum of numbers of both signs may be 0 by chance as well."""
    fold = t.args[0] if t.op == "field" else t
    may_be_none = fold.op == "fold" and not has_element(fold)
    return _with_masks(t).zero and (may_be_none or is_nonnegative(t))


def is_there(t: Term) -> Term:
    """t != 0, for a t that may be empty: the bracket [t != 0] is what t / t is."""
    return construct("compare", const(0, t.kind), t, attr="<" if is_nonnegative(t) else "!=")


def vanishes(
    product: Iterable[Term], condition: Term, known: frozenset[Term] = frozenset()
) -> bool:
    """True if a product is 0, or unspecified, where a condition fails and others hold: [0 < z] says
    no more than an element of the sum z, and [-inf < m] no more than a sum of exponentials whose
    largest exponent is m."""
    failing = _failing(condition)
    if failing is None:
        return False
    parts = [unfolded(w) for f in product for w in _weights_of(f)]
    indices = sorted({i for t in parts for i in free_indices(t)}, key=lambda i: i.key)
    held = known.union(Place(_with_masks, indices, known).equations(*failing))
    return FALSE in held or any(_with_masks(f, held).is_zero for f in parts)


def _weights_of(factor: Term) -> Iterator[Term]:
    """Yield terms of which one is 0 if and only if a factor is."""
    failing = map(_failing, conjuncts(factor.args[0])) if is_bracket(factor) else (None,)
    for equation in failing:
        if equation is None:
            yield factor
        else:
            t, value = equation
            yield construct("exp", t) if value is NEG_INF else t


def may_be_missing(product: Term, weights: Iterable[Term]) -> bool:
    """True if a product may be -inf, where neither it nor a weight is 0. What a maximum is
    multiplied with is a number."""
    parts = factors(product)
    beside = [*weights, *parts]
    extrema = [f for f in parts if f.op == "fold" and f.attr.monoid in ("max", "min")]

    def is_masked(f: Term) -> bool:
        return domain(f, REALS_ARE_READ if extrema and f not in extrema else MASKS_ARE_ADDED).masked

    conditions = (construct("compare", NEG_INF, f, attr="<") for f in filter(is_masked, parts))
    return not all(vanishes(beside, c) for c in conditions)


def _with_masks(t: Term, conditions: frozenset[Term] = frozenset()) -> Dom:
    """Return the domain of a term, in which every element that is read may be -inf."""
    return domain(t, MASKS_ARE_READ, conditions)


def _failing(condition: Term) -> tuple[Term, Term] | None:
    """Return (t, value) if t is 0, or -inf, where a condition fails."""
    if condition.op != "compare" or condition.args[0].kind == "bool":
        return None
    a, b = condition.args
    if condition.attr == "<" and a is NEG_INF:
        return unfolded(b), NEG_INF
    zero = const(0, a.kind)
    if condition.attr == "!=" and zero in (a, b):
        return unfolded(b if a is zero else a), zero
    is_sign = condition.attr == "<" and a is zero and is_nonnegative(b)
    return (unfolded(b), zero) if is_sign else None


def unfolded(t: Term) -> Term:
    """Return a value that another kernel stores as it is computed there."""
    while t.op == "stored":
        names = [i.name for i in t.attr.indices]
        t = rename(t.attr.body, dict(zip(names, t.args, strict=True)))
    return t


def is_weight_there(exponent: Term) -> Term | None:
    """Return exp(exponent) != 0, if that is no matter of course."""
    number, rest = split_coefficient(exponent)
    if rest is None or number < 0 or is_unmasked(exponent):
        return None
    bound = exponent if isinstance(number, float) else without_scale(rest)
    condition = construct("compare", NEG_INF, bound, attr="<")
    return None if condition is TRUE else condition


def conditions_of_weights(exponents: Iterable[Term]) -> Iterator[Term]:
    """Yield the conditions without which a product of exponentials is 0: exp(a) * exp(-a) is 1
    where a is more than -inf."""
    numbers: dict[Term, list[Number]] = {}
    for e in exponents:
        for a in addends(e):
            number, rest = split_coefficient(a)
            if rest is not None:
                numbers.setdefault(rest, []).append(number)
    for rest, found in numbers.items():
        if sum(found) <= 0 < max(found) and (condition := is_weight_there(rest)) is not None:
            yield condition


# --- masks ------------------------------------------------------------------------------------

_ADDING = ("add", "maximum", "minimum", "where", "fold", "fold_at", "field")


@lru_cache(maxsize=65536)
def added_names(t: Term) -> frozenset[str]:
    """Return the names of inputs and definitions whose elements are added up in t, as they are or
    scaled: by what is at least 0, or varies with fewer indices. What is multiplied otherwise is a
    number."""
    parts: Iterable[Term] = ()
    if t.kind != "float":
        return frozenset()  # a position or a count is a number whatever is read for it
    if t.op in ("read", "ref"):
        return frozenset((name_of(t),))
    if t.op == "stored":
        parts = (t.attr.body,)
    elif t.op == "mul" and split_coefficient(t)[0] > 0:
        numbers = ("const", "param", "extent", "pow")
        varying = [f for f in t.args if f.op not in numbers and not is_bracket(f)]
        parts = [f for f in varying if all(_is_scale(g, f) for g in varying if g is not f)]
    elif t.op in _ADDING and not (is_contraction(t) or _multiplies(t)):
        parts = [a for a in t.args if a.kind == "float"]
    return frozenset().union(*map(added_names, parts))


def _is_scale(factor: Term, t: Term) -> bool:
    """True if a factor is at least 0, or varies with fewer indices than t and is no aggregate."""
    return is_nonnegative(factor) or (not factor.folded and factor.free < t.free)


def _multiplies(t: Term) -> bool:
    """True for an aggregate that may multiply its elements, as one of a user's monoid may."""
    if t.op == "field":
        return not t.args[0].attr.is_scaled
    return t.op == "fold" and t.attr.monoid in ("prod", "var")


def may_be_mask(exponent: Term) -> bool:
    """True if an exponent holds a mask, -inf or a large number that stands for it: something is
    added that is read. A name stands for numbers until it is replaced."""
    return any(number > 0 and _is_mask(x) for number, x in _with_coefficients(exponent))


def may_be_less_a_mask(exponent: Term) -> bool:
    """True if an exponent holds no mask, but what one may be taken away with."""
    signs = {number > 0 for number, x in _with_coefficients(exponent) if _is_mask(x)}
    return signs == {False}


@lru_cache(maxsize=65536)
def masks_of(exponent: Term) -> frozenset[str]:
    """Return the names of the inputs that are added in an exponent, as masks are."""
    terms = (x for number, x in _with_coefficients(exponent) if number > 0)
    return frozenset[str]().union(*(added_names(x) - x.names for x in terms))


@lru_cache(maxsize=65536)
def masks_inside(t: Term) -> frozenset[str]:
    """Return the names of the inputs that are added in the exponents that a term holds."""
    names = masks_of(t.args[-1]) if t.op == "exp" else frozenset[str]()
    parts = (t.attr.body,) if t.op == "stored" else t.args
    return names.union(*map(masks_inside, parts))


def _with_coefficients(t: Term) -> Iterator[tuple[Number, Term]]:
    pairs = map(split_coefficient, addends(t))
    return ((number, x) for number, x in pairs if x is not None)


def _is_mask(t: Term) -> bool:
    return not added_names(t) <= t.names or _is_masked_logarithm(unfolded(t))


def _is_masked_logarithm(t: Term) -> bool:
    return t.op == "log" and holds_masked_weight(t.args[0])


@lru_cache(maxsize=65536)
def holds_exponential(t: Term) -> bool:
    """True if t holds an exponential, a sigmoid, which is made of one, or a sum of scaled ones."""
    is_scaled = t.op == "fold" and t.attr.is_scaled
    return is_scaled or t.op in ("exp", "sigmoid") or any(map(holds_exponential, t.args))


@lru_cache(maxsize=65536)
def holds_masked_weight(t: Term) -> bool:
    """True if t holds an exponential of what may be a mask, or a sum of such."""
    if t.op == "exp" or (t.op == "fold" and t.attr.is_scaled):
        return may_be_mask(t.args[-1])
    if t.op == "stored":
        return holds_masked_weight(t.attr.body)
    return t.op == "fold_at" or any(map(holds_masked_weight, t.args))


def exponential_of(t: Term | None) -> Term | None:
    """Return x for a t = log(x)."""
    if t is None:
        return None
    if t.op == "log":
        return t.args[0]
    if t.op == "fold_at" and isinstance(t.attr.monoid, str) and t.attr.monoid in LOGARITHM_OF:
        return intern(
            "fold_at", t.args, replace(t.attr, monoid=LOGARITHM_OF[t.attr.monoid]), t.kind
        )
    return None


def without_scale(t: Term) -> Term:
    """t without its positive and finite factors: what is infinite where t is, and as it."""
    number, rest = split_coefficient(t)
    if rest is None or number < 0:
        return t
    kept = [f for f in factors(rest) if not (is_positive(f) and _with_masks(f).is_real)]
    return construct("mul", *kept) if 0 < len(kept) < len(factors(rest)) else rest
