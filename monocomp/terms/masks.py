"""Masks: inputs whose elements may be -inf, which stands for no element.

    softmax[k](S[q,k] + M[q,k])      exp(0.5 * S[q,k])      max[k](S[q,k])      sigmoid(G[t])

What a program adds up in an exponent, a maximum or a gate, as it is or scaled, may hold -inf. The
program as it is written settles that: rewrites may leave no exponent, and -inf is still -inf.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from monocomp import terms as T
from monocomp.declarations.vocabulary import KEEPING_REDUCTIONS
from monocomp.terms import Term
from monocomp.terms.domain import Assumptions, domain, is_contraction
from monocomp.terms.equations import Equations
from monocomp.terms.facts import is_nonnegative
from monocomp.terms.transfer import REAL

EXTREMA = ("max", "min")  # a frame is a maximum, or minus a minimum
_REALS = Assumptions(REAL, in_kernels=True)
_ADDING = ("add", "maximum", "minimum", "where", "fold", "fold_at", "field")


def with_masks(program: Equations) -> Equations:
    """Return the program with the inputs that may hold -inf."""
    names = added_in_exponents(e.body for e in (*program.given, *program.equations))
    for e in reversed(program.equations):
        if e.name in names:
            names |= added_names(e.body)
    masked = names & program.declared.inputs.keys()
    return replace(program, declared=replace(program.declared, masked=masked))


def added_in_exponents(bodies: Iterable[Term]) -> frozenset[str]:
    """Return the names of what is added up in exponents, maxima and gates."""
    exponents = (a for t in T.subterms(*bodies) for a in _exponents(t))
    return frozenset[str]().union(*map(added_names, exponents))


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
    return _is_exponent(t) and domain(t, _REALS).unspecified


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
def added_names(t: Term) -> frozenset[str]:
    """Return the names of inputs and definitions whose elements are added up in t, as they are or
    scaled: by what is at least 0, or varies with fewer indices. What is multiplied otherwise is a
    number."""
    parts: Iterable[Term] = ()
    if t.kind != "float":
        return frozenset()  # a position or a count is a number whatever is read for it
    if t.op in ("read", "ref"):
        return frozenset((T.name_of(t),))
    if t.op == "stored":
        parts = (t.attr.body,)
    elif t.op == "mul" and T.split_coefficient(t)[0] > 0:
        numbers = ("const", "param", "extent", "pow")
        varying = [f for f in t.args if f.op not in numbers and not T.is_bracket(f)]
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


def needed_operands(t: Term) -> Iterator[tuple[Term, Term]]:
    """Yield the operands, each with the condition under which it is needed."""
    if t.op == "where":
        condition, a, b = t.args
        yield from ((condition, T.TRUE), (a, condition), (b, T.negate(condition)))
    elif t.op in ("and", "or"):  # what is read comes last
        first = [a for a in t.args if not any(map(T.is_computed, T.subterms(a)))]
        settled = (a if t.op == "and" else T.negate(a) for a in first)
        needed = T.conjunction(*settled)
        for a in t.args:
            yield a, T.TRUE if a in first else needed
    else:
        brackets = [f for f in t.args if t.op == "mul" and T.is_bracket(f)]
        selected = T.conjunction(*(f.args[0] for f in brackets))
        for part in T.children(t):
            yield part, T.TRUE if part in brackets else selected
