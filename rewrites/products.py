"""Products: sums of products of matrices are taken one product at a time.

What follows is planning: both sides have one value, and a product of two matrices is what
hardware is built for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from monocomp import terms as T
from monocomp.rewrites.single_folds import opened_sum
from monocomp.rewriting.rules import RuleSet
from monocomp.terms import Term
from monocomp.terms.monomials import addends, exponent_of, factors

products = RuleSet("products", "products of matrices are summed one by one")


@products.procedure
def split_products(t: Term) -> Term | None:
    """A sum of several products of matrices is a sum for each of them.

    The remaining addends are split by the indices that they vary with: the sum of x[i,k] is taken
    once and not for every j.

    Law:     `sum[k](a * b + c) = sum[k](a * b) + sum[k](c)`
    Claims:  separate_results
    Needs:   an addend is a product of two parts, each with an index that the other lacks, and
             none has an exponential weight: sums of one weight are one sum
    before:  A[i,j] = sum[k](X[i,k] * Y[j,k] + Z[i,k] * W[j,k])
    after:   A[i,j] = sum[k](X[i,k] * Y[j,k]) + sum[k](Z[i,k] * W[j,k])
    """
    if (opened := opened_sum(t)) is None:
        return None
    bound, condition, body = opened
    parts = apart(body, bound.name)
    if len(parts) < 2 or any(bound.name in exponent_of(p).free for p in parts):
        return None
    split = (T.add(T.ZERO, *group) for p in parts for group in _by_indices(p))
    return T.add(*(T.fold("sum", (bound,), condition, p) for p in split))


def _by_indices(t: Term) -> Iterable[list[Term]]:
    """Return the addends, in groups that vary with the same indices."""
    groups: dict[frozenset[str], list[Term]] = {}
    for a in addends(t):
        groups.setdefault(a.free, []).append(a)
    return groups.values()


def _free(t: Term) -> frozenset[str]:
    return t.free


def apart(
    body: Term, name: str, indices: Callable[[Term], frozenset[str]] = _free
) -> Sequence[Term]:
    """Return the body as addends that are products of matrices over the index, and one of the rest;
    the body itself if it is such a product or holds none. `indices` tells what a factor varies
    with."""
    sums = [f for f in factors(body) if f.op == "add"]
    if len(sums) != 1 or is_product(body, name, indices):
        return (body,)
    (total,) = sums
    others = [f for f in factors(body) if f is not total]
    parts = [T.mul(*others, a) for a in total.args]
    good = [a for a in parts if is_product(a, name, indices)]
    rest = [a for a in parts if a not in good]
    if not good:
        return (body,)
    return (*good, T.add(*rest)) if rest else good


def is_product(body: Term, name: str, indices: Callable[[Term], frozenset[str]] = _free) -> bool:
    """True if the sum of this body over the index is a product of two matrices."""
    return largest_sides([indices(f) for f in factors(body)], name) is not None


def largest_sides(
    varying: Sequence[frozenset[str]], name: str
) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return the indices of both sides, other than the summed one, if factors that vary with these
    indices make a product of two matrices."""
    free = [v - {name} for v in varying]
    if any(v and name not in v for v in varying):
        return None
    largest = sorted({a for a in free if not any(a < b for b in free)}, key=sorted)
    return (largest[0], largest[1]) if len(largest) == 2 else None
