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

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from monocomp import terms as T
from monocomp.gradients.reading import Reading
from monocomp.rewriting.driver import Rewriter
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
            rewriter.name("name_intermediate", users, *shown, after)
