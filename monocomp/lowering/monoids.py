"""Monoids of tuples: what a loop carries for them, and their combine on tiles.

A user's monoid is a tuple of fields; argmax and argmin are pairs of a value and its place.
The entries of `top` and `argtop` are read from one carried list of values and places.
"""

from __future__ import annotations

from monocomp import terms as T
from monocomp.errors import InternalError
from monocomp.lowering.single_uses import inline_single_uses
from monocomp.lowering.values import Values
from monocomp.terms import Term, UserMonoid
from monocomp.terms.algebra import SE_PAIR, first_place, highest, lowest
from monocomp.tile import Assign, Combine, Expr, Let, Statement, local


def tuple_monoid(f: Term) -> UserMonoid | None:
    """The monoid of tuples that a fold is one in, if it is."""
    if isinstance(f.attr.monoid, UserMonoid):
        return None if f.attr.monoid is SE_PAIR else f.attr.monoid
    if f.attr.monoid in ("argmax", "argmin"):
        return first_place(f.attr.monoid, f.args[1].kind, "int")
    return None


def prefix_monoid(f: Term) -> UserMonoid:
    """The monoid of tuples in which a prefix is taken; a number is a tuple of one field."""
    if isinstance(f.attr.monoid, UserMonoid):
        return f.attr.monoid
    found = tuple_monoid(f)
    if found is not None:
        return found
    x, y = T.param("x", f.kind), T.param("x'", f.kind)
    unit, combined = {
        "sum": (T.const(0, f.kind), T.add(x, y)),
        "prod": (T.const(1, f.kind), T.mul(x, y)),
        "max": (lowest(f.kind), T.function("maximum", x, y)),
        "min": (highest(f.kind), T.function("minimum", x, y)),
    }[f.attr.name]
    name = f.attr.name if f.kind == "float" else f"{f.attr.name}_of_{f.kind}s"
    return UserMonoid(name, ("x",), (unit,), (combined,))


def combine_of(monoid: UserMonoid, commutes: bool) -> Combine:
    """The combine, with names for the fields of both operands."""
    formulas = _Formulas({}, {})
    sides: list[tuple[str, ...]] = []
    for prime, suffix in (("", ""), ("'", "_next")):
        names = []
        for field, unit in zip(monoid.fields, monoid.unit, strict=True):
            name = formulas.fresh(field + suffix)
            symbol = T.param(field + prime, unit.kind)
            formulas.locals[symbol] = local(name, frozenset(), unit.kind)
            names.append(name)
        sides.append(tuple(names))
    body: list[Statement] = formulas.body
    results = [formulas.value(c) for c in monoid.combine]
    body += [Assign(f, r) for f, r in zip(monoid.fields, results, strict=True)]
    inline_single_uses(body)
    lets = tuple(s for s in body if isinstance(s, Let))
    values = tuple(s.value for s in body if isinstance(s, Assign))
    return Combine(monoid.name, sides[0], sides[1], lets, values, commutes)


class _Formulas(Values):
    """Builds expressions of fields: there are no axes, reads or folds."""

    fresh = Values._fresh
    value = Values._value

    @property
    def body(self) -> list[Statement]:
        return self.scopes[0].body

    def _fold(self, t: Term) -> Expr:
        raise InternalError(f"a combine holds {t!r}")

    _entry = _fold

    def _prepare(self, terms: list[Term]) -> None:
        pass

    def _refuse(self, t: Term) -> None:
        raise InternalError(f"a combine holds {t!r}")
