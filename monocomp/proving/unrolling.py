"""Equations between folds, written out over few elements, as identities that sympy proves.

Over no element both sides are units, over one and two they show what the reduction does with
elements and with the filter; more elements repeat that. Conditions become parameters as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from monocomp import terms as T
from monocomp.errors import InternalError
from monocomp.terms import Term

SIZES = {0: "nothing", 1: "one element", 2: "two elements"}
_JOINS = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}
_UNITS = {"sum": T.ZERO, "prod": T.ONE, "max": T.NEG_INF, "min": T.INF}


def unrolled(t: Term, size: int, at: Mapping[str, int] | None = None) -> Term:
    """A term with every fold over so many elements, and parameters for what is read."""
    positions = at or {}

    def visit(s: Term) -> Term:
        return unrolled(s, size, positions)

    match t.op:
        case "read":
            name = t.attr.name.lower()
            return T.param(name + _suffix(positions[i.attr[0]] for i in t.args[1:]), t.kind)
        case "extent":
            return T.const(size, "float")
        case "const":
            return T.as_float(t) if t.kind == "int" else t
        case "cast":
            return T.bracket(visit(t.args[0])) if t.args[0].kind == "bool" else visit(t.args[0])
        case "and":
            return T.conjunction(*map(visit, t.args))
        case "or":
            return T.disjunction(*map(visit, t.args))
        case "not":
            return T.negate(visit(t.args[0]))
        case "fold" if t.attr.monoid in _JOINS:
            return _unrolled_fold(t, size, positions)
        case "fold_at" if t.attr.monoid == "argtop":
            return _first_of_largest(t, size, positions)
        case "fold" | "fold_at":
            raise InternalError(f"no law about {t.attr.monoid} can be proved")
    args = [visit(a) for a in t.args]
    if all(a.op == "const" for a in args):
        return T.rebuild(t, tuple(args))
    if t.op == "mul":  # numbers come first, as terms are printed
        args.sort(key=lambda a: a.op != "const")
    return T.inert(t.op, *args, attr=t.attr)


def _unrolled_fold(t: Term, size: int, positions: Mapping[str, int]) -> Term:
    names = [f"{extent}" for extent in t.attr.extents]
    _, (condition, body) = T.open_as(t, names)
    unit = _UNITS[t.attr.monoid]
    found = unit
    for at in itertools.product(range(size), repeat=len(names)):
        here = {**positions, **dict(zip(names, at, strict=True))}
        admitted = unrolled(condition, size, here)
        element = unrolled(body, size, here)
        if admitted is not T.TRUE:
            element = T.inert("where", admitted, element, unit)
        found = element if found is unit else T.inert(_JOINS[t.attr.monoid], found, element)
    return found


def _first_of_largest(t: Term, size: int, positions: Mapping[str, int]) -> Term:
    """Return the first of the listed positions of the largest of so many elements, or -1."""
    (extent,) = t.attr.extents
    best, found = T.NEG_INF, T.const(-1, "float")
    _, (condition, body) = T.open_as(t, (extent,))
    for n in range(size):
        here = {**positions, extent: n}
        admitted, element = unrolled(condition, size, here), unrolled(body, size, here)
        larger = T.conjunction(admitted, T.inert("compare", best, element, attr="<"))
        found = T.inert("where", larger, T.const(n, "float"), found)
        best = T.inert("where", larger, element, best)
    return found


def _suffix(positions: Iterator[int]) -> str:
    return "".join(map(str, positions))
