"""The plain reading of equations: what a program computes as it is written, before any rewrite.

A definition is a name and costs nothing. softmax and logsumexp are read as everyone computes them,
with the maximum subtracted, and means and variances in one and two passes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from monocomp import terms as T
from monocomp.costs.roles import kernel_groups
from monocomp.extents.nominal import nominal_sizes
from monocomp.rewrites.elaboration import elaboration
from monocomp.rewriting.equations import equations
from monocomp.rewriting.rules import RuleSet
from monocomp.rewriting.sharing import kept
from monocomp.terms import Term
from monocomp.terms.equations import Equation, Equations, stored_in

_stable = RuleSet("reading", "derived reductions by folds that do not overflow")
_stable.add(
    *equations(
        """
    read_logsumexp: logsumexp[k if c](x) =
        max[k if c](x) + log(sum[k if c](exp(x - max[k if c](x))))

    read_softmax: softmax[k if c](x) =
        c * exp(x - max[k if c](x)) / sum[k if c](exp(x - max[k if c](x)))

    read_log_softmax: log_softmax[k if c](x) =
        where(c, x - max[k if c](x) - log(sum[k if c](exp(x - max[k if c](x)))), -inf)

    read_count: sum[k](1) = |k|
    """,
        is_definition=True,
    ),
    *elaboration.rules,
)


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
    changed = _stable.first(t) if t.op in ("fold", "fold_at") else None
    return t if changed is None else as_computed(changed[1])
