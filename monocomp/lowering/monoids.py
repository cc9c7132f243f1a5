"""Monoids of tuples: what a loop carries for them, and their combine on tiles.

A user's monoid is a tuple of fields; argmax and argmin are pairs of a value and its position. A
prefix of numbers is one of tuples with one field. The entries of `top` and `argtop` are read from
one carried list of values and positions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from monocomp import terms as T
from monocomp.extents.prefixes import as_prefix, elements_of
from monocomp.lowering.bodies import Body
from monocomp.lowering.expressions import where_equal
from monocomp.lowering.values import Values
from monocomp.terms import Term, UserMonoid
from monocomp.terms.algebra import SE_PAIR, carried_positions, first_position, of_one_field
from monocomp.terms.domain import Assumptions, of_fields
from monocomp.terms.monomials import factors
from monocomp.terms.transfer import REAL, Dom
from monocomp.tile import Assign, Combine, Expr, Let, Selection, apply, local
from monocomp.tile.single_uses import inline_single_uses

_POSITIONS = ("argmax", "argmin")


def tuple_monoid(f: Term) -> UserMonoid | None:
    """Return the monoid of tuples that a fold is one in, if it is."""
    if isinstance(f.attr.monoid, UserMonoid):
        return None if f.attr.monoid is SE_PAIR else f.attr.monoid
    if f.attr.monoid in _POSITIONS:
        return first_position(f.attr.monoid, f.args[1].kind, "int")
    return None


def prefix_monoid(f: Term) -> UserMonoid:
    """Return the monoid of tuples in which a prefix is taken; a number is a tuple of one field."""
    if isinstance(f.attr.monoid, UserMonoid):
        return f.attr.monoid
    return tuple_monoid(f) or of_one_field(f.attr.name, f.kind)


def combine_of(
    monoid: UserMonoid,
    commutes: bool,
    is_backwards: bool = False,
    is_strict: bool = False,
    elements: Sequence[Dom] = (),
) -> Combine:
    """Return the combine, with names for the fields of both operands.

    Args:
        monoid: its formulas.
        commutes: does the order of the operands not matter?
        is_backwards: are the elements combined from the last to the first?
        is_strict: does each operand have its fields twice: for all of its elements, and for all but
            the last one? Then the first fields are x . y, and the second ones x . (y before).
        elements: the domains of the elements' fields; those of real numbers if there are none.
    """
    formulas = Values({}, fits=bool, is_short=bool)
    domains = of_fields(monoid, tuple(elements) or (REAL,) * len(monoid.unit))
    pairs = zip(monoid.fields, domains, strict=True)
    fields = tuple((f + prime, values) for f, values in pairs for prime in ("", "'"))
    formulas.assumed = Assumptions(REAL, names=fields, in_kernels=True)
    kinds = [unit.kind for unit in monoid.unit]
    scope = formulas.scopes[0]

    def operand(suffix: str) -> tuple[str, ...]:
        return tuple(formulas.fresh(field + suffix) for field in monoid.fields)

    def results(left: tuple[str, ...], right: tuple[str, ...]) -> Iterator[Assign]:
        sides = (right, left) if is_backwards and not commutes else (left, right)
        for prime, names in zip(("", "'"), sides, strict=True):
            for field, name, kind in zip(monoid.fields, names, kinds, strict=True):
                formulas.locals[T.param(field + prime, kind)] = local(name, frozenset(), kind)
        scope.memo.clear()
        for field, formula in zip(monoid.fields, monoid.combine, strict=True):
            yield Assign(field, formulas.value(formula))

    left, right = operand(""), operand("_next")
    combined, called = [*results(left, right)], monoid.name
    if is_strict:
        before = operand("_before")
        combined += results(left, before)
        left, right = left + operand("_unread"), right + before
        called += "_strictly"
    scope.body += combined
    inline_single_uses(scope.body)
    lets = tuple(s for s in scope.body if isinstance(s, Let))
    values = tuple(s.value for s in scope.body if isinstance(s, Assign))
    called += "_backwards" if is_backwards and not commutes else ""
    return Combine(called, left, right, lets, values, commutes and not is_strict)


def add_tuples(body: Body, f: Term, parts: Sequence[Term], commutes: bool) -> dict[Term, Expr]:
    """Carry a fold in a monoid of tuples; the result, by field.

    Args:
        body: that of its loop.
        f: the fold.
        parts: its elements.
        commutes: does the order of the elements not matter?
    """
    monoid = tuple_monoid(f)
    assert monoid is not None
    states = _states(body, f, monoid)
    values = [
        body.masked(body.at.value(element), start)
        for element, start in zip(_elements(body, f, parts), _starts(monoid), strict=True)
    ]
    elements = list(map(body.at.domain, _elements(body, f, parts)))
    combine = combine_of(monoid, commutes, body.loop.is_backwards, elements=elements)
    body.combine(combine, states, values)
    return _results(body.at, f, monoid, states)


def add_prefix(body: Body, f: Term) -> dict[Term, Expr]:
    """Carry a prefix along the index of the loop; return its value at each position, by field."""
    at, monoid = body.at, prefix_monoid(f)
    elements = _prefix_elements(body, f, monoid)
    at.prepare(elements)
    states = _states(body, f, monoid, body.loop.axis.tile, _start(body, f, monoid))
    values = [at.summand(e) if f.attr.monoid == "sum" else at.value(e) for e in elements]
    if not body.loop.is_whole or body.loop.is_backwards:  # else what is no element comes last
        values = [body.masked(v, u) for v, u in zip(values, _starts(monoid), strict=True)]
    prefixes = _combine_prefix(body, f, monoid, states, values, list(map(at.domain, elements)))
    results = _results(at, f, monoid, prefixes)
    if f.attr.monoid in _POSITIONS:
        results[f] = at.let(body.scope, "position", results[f])
    return results


def _prefix_elements(body: Body, f: Term, monoid: UserMonoid) -> list[Term]:
    """Return the fields of a prefix's elements: those of the unit where its filter fails."""
    at, axis = body.at, body.loop.axis
    condition, *parts = elements_of(f, T.index(axis.name, axis.extent))
    fields = _elements(body, f, parts)
    if monoid is SE_PAIR:
        mantissa, exponent = fields
        # An exponent of -inf is as good as no element, whatever its mantissa is.
        is_real = all(at.domain(factor).is_real for factor in factors(mantissa))
        if at.domain(exponent).masked and not is_real:
            condition = T.conjunction(condition, T.compare("<", T.NEG_INF, exponent))
    return [T.where(condition, x, unit) for x, unit in zip(fields, monoid.unit, strict=True)]


def _combine_prefix(
    body: Body,
    f: Term,
    monoid: UserMonoid,
    states: list[Expr],
    values: list[Expr],
    domains: Sequence[Dom],
) -> Sequence[Expr]:
    """Combine a step's elements with the states of a prefix; return it at each position.

    Elements are combined in the order of the index, though for numbers it may not matter. In a tile
    a strict prefix is the second of two, with its own element and without: (x . y, x . y'). Both
    continue the same state.
    """
    prefix = as_prefix(f)
    assert prefix is not None
    is_tile = body.loop.axis.role != "serial"
    is_pair = is_tile and prefix.is_strict
    combine = combine_of(monoid, False, prefix.is_suffix, is_pair, domains)
    if is_pair:
        units = [body.at.value(unit) for unit in monoid.unit]
        return body.combine(combine, states, values + units, keep=True)[len(states) :]
    if is_tile:
        return body.combine(combine, states, values, keep=True)
    body.combine(combine, states, values)  # one element: the state before or after it is the prefix
    return states if prefix.is_strict else [body.next_value(s.attr) for s in states]


def add_selection(body: Body, f: Term, element: Term, rank: str) -> dict[Term, Expr]:
    """Carry the largest elements so far and their positions, in order along the axis of ranks."""
    at, axis = body.at, body.loop.axis
    axes = at.tile_axes(f) | {rank}
    states = [
        body.state("largest", axes, "float", -math.inf),
        body.state("positions", axes, "int", -1),
    ]
    position = at.value(T.index(axis.name, axis.extent))
    body.combine(Selection(rank), states, [body.masked(at.value(element), -math.inf), position])
    return {f: states[0], carried_positions(f): states[1]}


def _elements(body: Body, f: Term, parts: Sequence[Term]) -> Sequence[Term]:
    """Return the elements' fields."""
    if f.attr.monoid not in _POSITIONS:
        return parts
    return *parts, T.index(body.loop.axis.name, body.loop.axis.extent)


def _start(body: Body, f: Term, monoid: UserMonoid) -> Sequence[float | Expr]:
    """Return the states of a prefix where the loop that carries it begins."""
    start = body.at.start_of(f, body.scope)
    if start is None or start.earlier is None:
        return _starts(monoid)
    return [body.at.value(start.earlier)]


def _states(
    body: Body,
    f: Term,
    monoid: UserMonoid,
    without: frozenset[str] = frozenset(),
    starts: Sequence[float | Expr] = (),
) -> list[Expr]:
    """Add the states that a loop carries for a monoid of tuples."""
    if any(T.split_coefficient(unit)[1] is not None for unit in monoid.unit):
        body.at.refuse(f)
    axes = body.at.tile_axes(f) - without
    fields = zip(monoid.fields, monoid.unit, starts or _starts(monoid), strict=True)
    return [body.state(name, axes, unit.kind, start) for name, unit, start in fields]


def _starts(monoid: UserMonoid) -> list[float]:
    starts = ((T.split_coefficient(unit)[0], unit.kind) for unit in monoid.unit)
    return [int(start) if kind == "int" else float(start) for start, kind in starts]


def _results(at: Values, f: Term, monoid: UserMonoid, folded: Sequence[Expr]) -> dict[Term, Expr]:
    """Return a fold's value and its fields. Where all elements are the worst, no position counts; a
    position stays inside, whatever the elements are."""
    if f.attr.monoid in _POSITIONS:
        worst, _ = _starts(monoid)
        last = at.value(T.add(T.extent_of(f.attr.extents[0]), T.const(-1)))
        return {f: where_equal(folded[0], worst, 0, apply("minimum", folded[1], last))}
    if not isinstance(f.attr.monoid, UserMonoid):
        return {f: folded[0]}
    fields = {T.field(f, n): x for n, x in zip(monoid.fields, folded, strict=True)}
    return {f: folded[0], **fields}
