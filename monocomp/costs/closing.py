"""Closing: terms that are elements of one tensor, whatever subscripts these have.

F[b,h,q]                                  =  sum[e](O[b,h,q,e] * dO[b,h,q,e])
sum[e](O[b,h,k + r,e] * dO[b,h,k + r,e])  =  F[b,h,k + r]
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from monocomp import terms as T
from monocomp.terms import Term


@lru_cache(maxsize=16384)
def close(t: Term) -> tuple[Term, tuple[Term, ...]]:
    """Return the term as a function of `@0`, `@1`, ..., and the subscripts that these stand for.

    They stand for free indices, and for computed subscripts: the sum over c of X[table[k],c] is
    one of as many sums as X has rows. Terms that differ by subscripts alone close to one function.
    """
    opened, stands_for = open_subscripts(t)
    positions: dict[Term, list[tuple[int, str]]] = {}
    for part in _parts(opened):
        for n, a in enumerate(part.args):
            if a.op == "index" and a.name in opened.free:
                is_subscript = part.op in T.READS
                where = (n, part.key[1]) if is_subscript else (len(opened.free), part.op)
                positions.setdefault(a, []).append(where)
    ordered = sorted(positions, key=lambda i: (sorted(positions[i]), i.extent, i.name))
    names = {i.name: T.index(f"@{n}", i.extent) for n, i in enumerate(ordered)}
    subscripts = tuple(stands_for.get(i.name, i) for i in ordered)
    return T.substitute(opened, names), subscripts


def open_subscripts(t: Term) -> tuple[Term, dict[str, Term]]:
    """Put indices in place of computed subscripts; return these by the names of the indices."""
    opened, parts = t, _parts(t)
    stands_for: dict[str, Term] = {}
    while computed := _computed_subscripts(opened, parts):
        # One that holds another goes first: without the other it would not be found.
        subscript = next(
            a for a in computed if not any(T.holds(b, a) for b in computed if b is not a)
        )
        variable = T.index(f"@@{len(stands_for)}", computed[subscript])
        stands_for[variable.name] = subscript
        opened = T.replace(opened, subscript, variable)
        parts = _parts(opened)
    return opened, stands_for


def _computed_subscripts(t: Term, parts: Iterable[Term]) -> dict[Term, str]:
    """Return the computed subscripts without bound indices, with the extents of the dimensions."""
    extents: dict[Term, set[str]] = {}
    for part in parts:
        if part.op in T.READS:
            for a, extent in zip(part.args, part.attr.extents, strict=True):
                if a.op not in ("index", "const") and a.free and a.free <= t.free:
                    extents.setdefault(a, set()).add(extent)
    return {a: min(e) for a, e in extents.items() if len(e) == 1}


def _parts(t: Term) -> list[Term]:
    """Return every subterm once, as it stands: bound indices stay bound."""
    known, parts = {t: None}, [t]
    for part in parts:  # which grow
        new = dict.fromkeys(a for a in part.args if a not in known)
        known |= new
        parts += new
    return parts
