"""Shares: what an element is of a sum that is given, at most 1.

An input L may be given with its definition, log(sum[k](exp(S[q,k]))) say (`nodes.Equation`). One of
several numbers that are at least 0 is at most their sum, and the logarithm is increasing: so
wherever the sum has the element, S[q,k] - L[q] is at most 0. Such a weight needs no frame, as long
as it is not taken apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache

from monocomp.terms.binders import open_as, open_fold
from monocomp.terms.comparisons import in_range
from monocomp.terms.facts import is_nonnegative
from monocomp.terms.folds import substitute
from monocomp.terms.leaves import ONE, READS, ZERO, const, index
from monocomp.terms.logic import conjuncts
from monocomp.terms.nodes import Term
from monocomp.terms.parts import addends, factors, is_bracket, split_coefficient
from monocomp.terms.ring import add, exp, mul, multiply_out, sub
from monocomp.terms.walking import element, subterms


def shares(t: Term, known: Iterable[Term] = ()) -> tuple[Term, Term]:
    """Return a product as (shares of given sums, the rest), where conditions are known to hold."""
    parts = factors(t)
    conditions = frozenset(known).union(*(conjuncts(f.args[0]) for f in parts if is_bracket(f)))
    pairs = [_shares(f, conditions) for f in parts]
    if all(share is ONE for share, _ in pairs):
        return ONE, t
    of_sums, unshared = zip(*pairs, strict=True)
    return mul(*of_sums), mul(const(1, t.kind), *unshared)


def _shares(factor: Term, known: frozenset[Term]) -> tuple[Term, Term]:
    """Return a factor as (shares of given sums, the rest)."""
    exponent, share = factor.args[0] if factor.op == "exp" else ZERO, ZERO
    for addend, times, total in _logarithms(exponent):
        elements = _elements_of(total, times, exponent, known)
        if elements is not None:
            share = add(share, elements, addend)
            exponent = sub(exponent, add(elements, addend))
    return (ONE, factor) if share is ZERO else (exp(share), exp(exponent))


def _logarithms(exponent: Term) -> Iterator[tuple[Term, Fraction, Term]]:
    """(addend, c, log(z)) for the addends -c * log(z) of an exponent that are given."""
    for a in addends(exponent):
        number, rest = split_coefficient(a)
        if isinstance(number, Fraction) and number < 0 and rest is not None and _is_given(rest):
            yield a, -number, element(rest.attr, rest.args)


def _is_given(t: Term) -> bool:
    return t.op == "stored" and t.attr.given


def _elements_of(
    total: Term, times: Fraction, exponent: Term, known: frozenset[Term]
) -> Term | None:
    """Return the addends of an exponent that are `times` the logarithm of one element, or the
    logarithms of so many."""
    elements = _element_of(total, times, exponent, known)
    if elements is not None or times.denominator != 1:
        return elements
    elements = ZERO
    for _ in range(int(times)):
        one = _element_of(total, Fraction(1), exponent, known)
        if one is None:
            return None
        elements, exponent = add(elements, one), sub(exponent, one)
    return elements


def _element_of(
    total: Term, times: Fraction, exponent: Term, known: frozenset[Term]
) -> Term | None:
    """Return the addends of an exponent that are `times` the logarithm of an element, where
    `total` is that of the sum, scaled and shifted."""
    logarithms = [(n, x) for n, x in map(split_coefficient, addends(total)) if x and x.op == "log"]
    if len(logarithms) != 1:
        return None
    ((number, logarithm),) = logarithms
    if not isinstance(number, Fraction) or number < 0:
        return None
    shift = sub(total, mul(const(number, "float"), logarithm))
    parts_of_exponent = addends(exponent)
    for e in exponents(logarithm.args[0], exponent, known):
        scaled = mul(const(number, "float"), e)
        wanted = _addends_of(mul(const(times, "float"), add(scaled, shift)))
        parts = [a for a in parts_of_exponent if wanted.issuperset(_addends_of(a))]
        if wanted == frozenset().union(*map(_addends_of, parts)):
            return add(ZERO, *parts)
    return None


@lru_cache(maxsize=65536)
def _addends_of(exponent: Term) -> frozenset[Term]:
    """Return the addends of an exponent, multiplied out: derivations bring it and what is given to
    one normal form."""
    return frozenset(addends(multiply_out(exponent)))


def exponents(z: Term, weight: Term, known: frozenset[Term]) -> Iterator[Term]:
    """Yield the exponents of elements of a sum of numbers that are at least 0, at the positions
    that a weight speaks of, where the sum's filters are known to admit them."""
    match z.op:
        case "exp":
            yield z.args[0]
        case "add" if all(map(is_nonnegative, z.args)):
            for a in z.args:
                yield from exponents(a, weight, known)
        case "fold" if z.attr.monoid == "sum" and len(z.attr.indices) == 1:
            for element in elements_at(z, (weight,), known) if is_nonnegative(z.args[1]) else ():
                yield from exponents(element, weight, known)
            yield from _largest(z, weight)


def elements_at(fold: Term, terms: Sequence[Term], known: frozenset[Term] | None) -> Iterator[Term]:
    """Yield the elements of a fold at the positions that terms speak of."""
    _, (_, body) = open_fold(fold)
    return (substitute(body, at) for at in places(fold, terms, known))


def places(
    fold: Term, terms: Sequence[Term], known: frozenset[Term] | None
) -> Iterator[dict[str, Term]]:
    """Yield the positions that terms speak of for the indices of an opened fold, where its filter
    is known to admit them; all of these positions if it does not matter what is known."""
    opened, (condition, *_) = open_fold(fold)
    for at in itertools.product(*(_positions(terms, i.extent, known) for i in opened)):
        substitution = dict(zip((i.name for i in opened), at, strict=True))
        conditions = conjuncts(substitute(condition, substitution))
        if known is None or known.issuperset(conditions):
            yield substitution


def _largest(z: Term, weight: Term) -> Iterator[Term]:
    """Yield the largest exponents of elements of a sum that a weight speaks of."""
    _, (condition, body) = open_as(z, ("@0",))
    folds = (t for t in subterms(weight) if t.op in ("fold", "fold_at") and t.free <= weight.free)
    for t in folds if body.op == "exp" else ():
        if t.attr.monoid in ("max", "top") and t.attr.extents == z.attr.extents:
            _, (among, exponent) = open_as(t, ("@0",))
            is_element = frozenset(conjuncts(among)).issuperset(conjuncts(condition))
            if is_element and _addends_of(exponent) == _addends_of(body.args[0]):
                yield t


def _positions(terms: Sequence[Term], extent: str, known: frozenset[Term] | None) -> Iterator[Term]:
    """Yield the positions along an extent of which terms may speak as of that of an element: their
    indices, and computed positions that they read, if these are known to lie within."""
    free = frozenset[str]().union(*(t.free for t in terms))
    for name in sorted(free):
        yield index(name, extent)
    reads = (t for t in subterms(*terms) if t.op in READS)
    computed = {a for t in reads for a in t.args if a.op != "index" and a.free <= free}
    for position in sorted(computed, key=lambda a: a.key):
        if known is None or known.issuperset(conjuncts(in_range(position, extent))):
            yield position
