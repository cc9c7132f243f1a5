"""The plain reading of equations: what a program computes as it is written, before any rewrite.

A definition is a name and costs nothing. softmax and logsumexp are read as everyone computes them,
with the maximum subtracted, and means and variances in one and two passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from monocomp import terms as T
from monocomp.costs.roles import kernel_groups
from monocomp.extents.nominal import nominal_sizes
from monocomp.rewriting.sharing import kept
from monocomp.terms import Term
from monocomp.terms.algebra import is_selection
from monocomp.terms.equations import Equation, Equations, stored_in


def kernels(program: Equations) -> list[list[Equation]]:
    """List the equations of each kernel as they are computed, in the order in which kernels run."""
    equations = tuple(replace(e, body=as_computed(e.body)) for e in inlined(program))
    return kernel_groups(replace(program, equations=equations), nominal_sizes(program.declared))


def inlined(program: Equations) -> tuple[Equation, ...]:
    """Return the outputs with what their definitions stand for, and what kernels store for them."""
    known: dict[str, Equation] = {}
    stay = kept(program) if program.kept is None else program.kept

    def value(t: Term) -> Term:
        at = known[t.attr]
        return T.stored(at, t.args) if t.attr in stay else T.element(at, t.args)

    written_out = T.mapping_refs(program.by_name, value)
    for e in program.equations:
        known[e.name] = replace(e, body=written_out(e.body))
    outputs = [known[o.name] for o in program.declared.outputs]
    needed: set[str] = set()
    waiting = list(outputs)
    while waiting:
        # By name: what is stored may have come to read something stored itself since.
        names = {read.name for read in stored_in(waiting.pop().body)}
        waiting += (known[name] for name in names - needed)
        needed |= names
    stored = [known[e.name] for e in program.equations if e.name in needed]
    return (*stored, *(e for e in outputs if e.name not in needed))


@lru_cache(maxsize=4096)
def as_computed(t: Term) -> Term:
    """Derived reductions by the folds that compute them, folds over several indices nested."""
    t = T.map_children(t, as_computed)
    if t.op not in ("fold", "fold_at") or is_selection(t):
        return t
    opened, (condition, *bodies) = T.open_fold(t)
    reading = _READINGS.get(t.attr.name)
    if reading is not None:
        return reading(t, opened, condition, bodies[0])
    if t.op == "fold_at":
        return as_computed(T.by_definition(t))
    if len(opened) > 1 and t.attr.monoid in ("sum", "max", "min", "prod"):
        for i in reversed(opened[1:]):
            bodies = [T.fold(t.attr.monoid, (i,), condition, *bodies)]
            condition = T.TRUE
        return T.fold(t.attr.monoid, opened[:1], condition, *bodies)
    return t


def _weights(opened: tuple[Term, ...], condition: Term, x: Term) -> tuple[Term, Term]:
    """(maximum, sum of the exponentials of the differences from it)"""
    m = as_computed(T.fold("max", opened, condition, x))
    return m, as_computed(T.fold("sum", opened, condition, T.exp(T.sub(x, m))))


def _softmax(t: Term, opened: tuple[Term, ...], condition: Term, x: Term) -> Term:
    m, total = _weights(opened, condition, x)
    substitution = {opened[0].name: t.args[0]}
    admitted, logit = T.substitute(condition, substitution), T.substitute(x, substitution)
    if t.attr.monoid == "log_softmax":
        return T.where(admitted, T.sub(T.sub(logit, m), T.log(total)), T.NEG_INF)
    return T.divide(T.mul(T.bracket(admitted), T.exp(T.sub(logit, m))), total)


def _logsumexp(t: Term, opened: tuple[Term, ...], condition: Term, x: Term) -> Term:
    m, total = _weights(opened, condition, x)
    return T.add(m, T.log(total))


def _mean(t: Term, opened: tuple[Term, ...], condition: Term, x: Term) -> Term:
    total = as_computed(T.fold("sum", opened, condition, x))
    if condition is T.TRUE:
        return T.divide(total, T.mul(T.const(1), *(T.extent_of(i.extent) for i in opened)))
    return T.divide(total, as_computed(T.fold("sum", opened, condition, T.const(1))))


def _var(t: Term, opened: tuple[Term, ...], condition: Term, x: Term) -> Term:
    centre = _mean(t, opened, condition, x)
    return _mean(t, opened, condition, T.power_of(T.sub(x, centre), 2))


_READINGS: dict[str, Callable[[Term, tuple[Term, ...], Term, Term], Term]] = {
    "softmax": _softmax,
    "log_softmax": _softmax,
    "logsumexp": _logsumexp,
    "mean": _mean,
    "var": _var,
}
