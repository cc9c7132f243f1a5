"""Equalities: what a filter says is equal need not be computed, nor read at a computed position.

    sum[h if g == h // n](Q[h,d] * K[h // n,d]) = sum[h if g == h // n](Q[h,d] * K[g,d])

The normal form takes what an equality fixes out of sums, and of a sum of one element that element.
All else is written so when kernels are planned: what is known of a given sum (`terms.shares`) is
known of it as it was written.
"""

from __future__ import annotations

from collections.abc import Iterator

from monocomp import terms as T
from monocomp.rewrites.single_folds import is_fold, opened_fold
from monocomp.rewriting.rules import RuleSet
from monocomp.terms import Term
from monocomp.terms.monomials import addends, factors

equalities = RuleSet("equalities", "what filters say is equal is written once")
fixed_elements = RuleSet("fixed elements", "what filters fix leaves sums")


def _fixed(condition: Term, names: set[str]) -> Iterator[tuple[Term, Term]]:
    """Yield the terms that vary with indices, other than these, and what a filter equates them to
    that does not."""
    for old, new in T.equal_ints(condition):
        if old.op != "index" and not names.isdisjoint(old.free) and names.isdisjoint(new.free):
            yield old, new


@equalities.procedure
def assume_equality(t: Term) -> Term | None:
    """Replace a term by one that does not vary with the index, where the filter equates them.

    Law:     `(a == b) * X[a] = (a == b) * X[b]`
    Claims:  brackets
    Needs:   ints, as floats that are equal may be 0 and -0
    before:  A[i] = sum[k if i == k // 2](X[i,k] * Y[k // 2])
    after:   A[i] = sum[k if i == k // 2](X[i,k] * Y[i + 0])
    """
    if t.op != "fold":
        return None
    opened, (condition, *bodies) = T.open_fold(t)
    for old, new in _fixed(condition, {i.name for i in opened}):
        replaced = [T.replace(b, old, new) for b in bodies]
        if replaced != bodies:
            return T.refold(t, condition, *replaced, opened=opened)
    return None


@fixed_elements.procedure
def hoist_equal(t: Term) -> Term | None:
    """Write what an equality of the filter fixes without the index, so that it leaves the sum.

    Law:     `(a == b) * X[a] = (a == b) * X[b]`
    Claims:  brackets
    Needs:   ints, as floats that are equal may be 0 and -0; no part of a share; no sums, which
             would also be taken of what no element has
    before:  A[i] = sum[k if i == k // 2](X[i,k] * exp(Y[k // 2]))
    after:   A[i] = sum[k if i == k // 2](X[i,k] * exp(Y[i + 0]))
    """
    if not is_fold(t, "sum"):
        return None
    bound, name, condition, body = opened_fold(t)
    pairs = list(_fixed(condition, {name}))
    if not pairs:
        return None

    def fixed(part: Term) -> Term:
        """Return a part without the index, if it can be written so."""
        if part.op == "exp":
            return T.exp(T.add(T.ZERO, *map(fixed, addends(part.args[0]))))
        replaced = part
        for old, new in pairs:
            replaced = T.replace(replaced, old, new)
        return part if name in replaced.free or replaced.folded else replaced

    share, rest = T.shares(body, T.conjuncts(condition))
    replaced = tuple(map(fixed, factors(rest)))
    if replaced == factors(rest):
        return None
    given = () if share is T.ONE else (share,)
    return T.fold("sum", (bound,), condition, T.mul(T.const(1, body.kind), *given, *replaced))


@fixed_elements.procedure
def pick_point(t: Term) -> Term | None:
    """A sum over the one index that equals a given position is the element there.

    Law:     `sum[k if k == a](X[k]) = X[a]` for a position a in the range of k, else 0
    Claims:  one point
    before:  A[i] = max[k](X[i,k]) + sum[k if k == i - 1](X[i,k])
    after:   A[i] = max[k](X[i,k]) + (0 <= i - 1 and i - 1 < |k|) * X[i,i - 1]
    """
    if not is_fold(t, "sum"):
        return None
    bound, name, condition, body = opened_fold(t)
    for c in T.conjuncts(condition):
        position = _solve(c, bound)
        if position is None:
            continue
        if position.op == "index" and position.extent != bound.extent:
            return None  # a read with a plain index is never out of range
        substitution = {name: position}
        others = (T.substitute(o, substitution) for o in T.conjuncts(condition) if o is not c)
        inside = T.TRUE if position.op == "index" else T.in_range(position, bound.extent)
        return T.mul(T.conjunction(inside, *others), T.substitute(body, substitution))
    return None


def _solve(c: Term, bound: Term) -> Term | None:
    """Return a of a condition that says bound = a."""
    if c.op != "compare" or c.attr != "==" or c.args[0].kind != "int":
        return None
    difference = T.sub(c.args[1], c.args[0])
    for sign in (1, -1):
        rest = T.sub(difference, T.mul(T.const(sign), bound))
        if bound.name not in rest.free:
            return T.mul(T.const(-sign), rest)
    return None
