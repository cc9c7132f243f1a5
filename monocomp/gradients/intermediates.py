"""Intermediates: large values that are saved, or defined, are differentiated by name.

    Y[q,e]  = sum[k](softmax[k](S[q,k]) * V[k,e])        Y is saved
    O[q,e]  = silu(G[q,e]) * Y[q,e]

    dY[q,e] = silu(G[q,e]) * dO[q,e]                     is stored once
    D[q]    = sum[e](Y[q,e] * dY[q,e])                   and so is what rows of it come to
    dV[k,e] = sum[q](P[q,k] * dY[q,e])

Inlined, what `O` makes of `Y` would be differentiated within the sums over k, and computed again
for each block of keys, in loops that have no room for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial

from monocomp import terms as T
from monocomp.gradients.reading import Reading
from monocomp.rewriting.driver import NAMING_LAW, Rewriter
from monocomp.terms import Term
from monocomp.terms.equations import Equation, in_order


@dataclass(frozen=True)
class Named:
    """The values and definitions that are differentiated by name.

    Attributes:
        values: those that are saved, which are outputs of the program.
        definitions: those of the program that are computed anew and stored.
    """

    values: tuple[str, ...] = ()
    definitions: frozenset[str] = frozenset()


def name_intermediates(rewriter: Rewriter, names: Iterable[str]) -> None:
    """Let equations read outputs that they compute, which come to definitions that stay."""
    program = rewriter.program
    for e in [program.by_name[name] for name in names]:
        program = rewriter.program
        reading = Reading()
        reading.know(e, T.ref(e.name, e.indices, "float"), is_exact=False)
        changed = {o.name: o for o in program.equations}
        for other in program.equations:
            body = other.body
            if other.name != e.name:
                body = reading(body)
            if body is not other.body:
                changed[other.name] = Equation(other.name, other.indices, body)
        users = [n for n, o in changed.items() if o is not program.by_name[n]]
        if users:
            after = replace(program, equations=in_order([*changed.values()]))
            shown = partial(program.shown, e.body), partial(program.shown_names, e)
            rewriter.record("name_intermediate", NAMING_LAW, users, *shown, after)


def with_row_sums(
    equations: Iterable[Equation], stored: Collection[str], new: Callable[[str], str]
) -> list[Equation]:
    """Equations with definitions of the sums that stored ones come to, for each of their rows,
    where an equation with another index reads them."""
    found: dict[Term, Equation] = {}
    equations = list(equations)
    own = {e.name: {i.name for i in e.indices} for e in equations if e.name in stored}
    for e in equations:
        rows = {i.name: i for i in e.indices}
        for t in T.subterms(e.body):
            is_sum = t.op == "fold" and t.attr.monoid == "sum" and t.free < rows.keys()
            if (
                is_sum
                and t not in found
                and any(rows.keys() - own.get(n, rows.keys()) for n in t.names)
            ):
                indices = tuple(i for n, i in rows.items() if n in t.free)
                found[t] = Equation(new("D"), indices, t)
    read = {t: T.ref(d.name, d.indices, "float") for t, d in found.items()}
    for t, value in read.items():
        equations = [replace(e, body=T.replace(e.body, t, value)) for e in equations]
    return [*in_order([*equations, *found.values()])]
