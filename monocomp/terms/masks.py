"""Masks: inputs whose elements may be -inf, which stands for no element.

    softmax[k](S[q,k] + M[q,k])      exp(0.5 * S[q,k])      max[k](S[q,k])      sigmoid(G[t])

What a program adds up in an exponent, a maximum or a gate, as it is or scaled, may hold -inf. The
program as it is written settles that: rewrites may leave no exponent, and -inf is still -inf.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from monocomp import terms as T
from monocomp.declarations.vocabulary import KEEPING_REDUCTIONS
from monocomp.terms import Term
from monocomp.terms.domain import Assumptions, domain
from monocomp.terms.equations import Equations
from monocomp.terms.facts import added_names
from monocomp.terms.transfer import REAL

EXTREMA = ("max", "min")  # a frame is a maximum, or minus a minimum
_REALS = Assumptions(REAL, in_kernels=True)


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
