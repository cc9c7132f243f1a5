"""Folds over one index, as rules look at them."""

from __future__ import annotations

from monocomp import terms as T
from monocomp.rewriting.matching import Bindings
from monocomp.terms import Term
from monocomp.terms.monomials import addends, exponent_of, factors, is_scale


def is_fold(t: Term, *names: str) -> bool:
    return t.op == "fold" and len(t.attr.indices) == 1 and t.attr.monoid in names


def opened_fold(t: Term) -> tuple[Term, str, Term, Term]:
    """(index, its name, condition, body) of a fold over one index."""
    (bound,), (condition, body) = T.open_fold(t)
    return bound, bound.name, condition, body


def opened_sum(t: Term) -> tuple[Term, Term, Term] | None:
    """(index, condition, element) of a sum of floats over one index; None for anything else."""
    if not is_fold(t, "sum") or t.kind != "float":
        return None
    (bound,), (condition, element) = T.open_fold(t)
    return bound, condition, element


def weight_of(t: Term, name: str) -> Term:
    """Return the part of the exponent that varies with the index."""
    return T.add(T.ZERO, *(a for a in addends(exponent_of(t)) if name in a.free))


def reads_computed(t: Term) -> bool:
    """True if a read in t may leave its tensor."""
    return any(map(T.is_computed, T.subterms(t)))


def scales_no_weights(bindings: Bindings) -> bool:
    """True if a factor is no scale of weights in the elements of a maximum or choice, without which
    these may be too large for a float."""
    (bound,), fold = bindings.folds["k"]
    _, (condition, body) = T.open_fold(fold)
    is_whole = T.has_element(fold)

    def stays(f: Term) -> bool:
        return bound.name in f.free or not (is_whole or T.is_positive_if_specified(f))

    moving = [*filter(stays, factors(body))]
    return not is_scale(bindings.terms["a"], moving, T.conjuncts(condition))
