"""Folds: their constructors, and substitution, in which they must not capture."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count, islice

from monocomp.declarations.vocabulary import Kind
from monocomp.terms.binders import close, open_as, open_fold, rename
from monocomp.terms.comparisons import compare, where
from monocomp.terms.constructors import CONSTRUCTORS, Results, rebuild
from monocomp.terms.leaves import FALSE, INF, NEG_INF, TRUE, as_int, const, index
from monocomp.terms.logic import conjunction
from monocomp.terms.nodes import Binder, Term, UserMonoid, intern
from monocomp.terms.ring import as_float, bracket, divide, exp, mul, sub

INT_REDUCTIONS = ("argmax", "argmin", "argtop")
BOOL_REDUCTIONS = ("any", "all")


def _fold_kind(name: str, bodies: tuple[Term, ...]) -> Kind:
    if name in INT_REDUCTIONS:
        return "int"
    if name in BOOL_REDUCTIONS:
        return "bool"
    if name in ("sum", "max", "min", "prod"):
        return bodies[0].kind
    return "float"


def fold(
    monoid: str | UserMonoid,
    opened: tuple[Term, ...],
    condition: Term,
    *bodies: Term,
    target: str | None = None,
) -> Term:
    """Fold the bodies over the opened indices where the condition holds.

    `opened` are index terms that occur free in the condition and bodies; the fold binds
    them under canonical names.
    """
    if not isinstance(monoid, str) or monoid not in BOOL_REDUCTIONS:
        bodies = tuple(as_int(t) for t in bodies)
    if monoid in ("mean", "var", "logsumexp", "softmax", "log_softmax", "top"):
        bodies = tuple(as_float(t) for t in bodies)
    if not isinstance(monoid, str):
        bodies = tuple(as_float(t) for t in bodies)
    if isinstance(monoid, str) and (condition is FALSE or bodies[0].op == "const"):
        unit = _unit(monoid, _fold_kind(monoid, bodies))
        is_position = monoid in INT_REDUCTIONS and condition is not TRUE
        if unit is not None and (condition is FALSE or (bodies[0] is unit and not is_position)):
            return unit
    binder, args = close(monoid, opened, (condition, *bodies), target)
    return intern("fold", args, binder, _fold_kind(binder.name, args[1:]))


def _unit(monoid: str, kind: Kind) -> Term | None:
    """Return an aggregate over nothing, or None if it has no value."""
    if monoid in ("max", "min"):
        return None if kind == "int" else NEG_INF if monoid == "max" else INF
    if monoid in BOOL_REDUCTIONS:
        return const(monoid == "all")
    if monoid == "logsumexp":
        return NEG_INF
    return const(1 if monoid == "prod" else 0, kind)


def fold_at(
    monoid: str | UserMonoid,
    position: Term,
    opened: Term,
    condition: Term,
    *bodies: Term,
    target: str | None = None,
) -> Term:
    """Return an aggregate that keeps its index, at `position`: the element of a softmax, the
    prefix up to it, or the entry of `top` with that rank.

    The language has no word for such an aggregate at a computed position, nor at one that the
    bodies depend on: these are written by their definitions.
    """
    if monoid in ("softmax", "log_softmax", "top", "argtop"):
        bodies = tuple(as_float(t) for t in bodies)
    binder, args = close(monoid, (opened,), (condition, *bodies), target)
    t = intern("fold_at", (position, *args), binder, _fold_kind(binder.name, args[1:]))
    if position.op != "index" or (target is None and any(position.name in a.free for a in args)):
        return by_definition(t)
    return t


def by_definition(t: Term) -> Term:
    """Write a softmax, log_softmax or prefix by the aggregate that defines it; an entry of `top`
    as the one that has its rank."""
    position = t.args[0]
    if t.attr.target is not None:
        rank = index("$rank", t.attr.target)
        entry = intern("fold_at", (rank, *t.args[1:]), t.attr, t.kind)
        return fold("max", (rank,), compare("==", rank, position), entry)
    (bound,), (condition, *bodies) = open_fold(t)
    monoid, substitution = t.attr.monoid, {bound.name: position}
    if monoid not in ("softmax", "log_softmax"):
        earlier = conjunction(condition, compare("<=", bound, position))
        return fold(monoid, (bound,), earlier, *bodies)
    return substitute(softmax(monoid, (bound,), condition, bodies[0]), substitution)


def softmax(monoid: str, opened: tuple[Term, ...], condition: Term, x: Term) -> Term:
    """Return a softmax or log_softmax over the opened indices, at their own position."""
    x = as_float(x)
    if monoid == "log_softmax":
        return where(condition, sub(x, fold("logsumexp", opened, condition, x)), NEG_INF)
    return divide(mul(bracket(condition), exp(x)), fold("sum", opened, condition, exp(x)))


def field(t: Term, name: str) -> Term:
    """Return one field of a user monoid's aggregate."""
    return intern("field", (t,), name, "float")


def refold(
    t: Term,
    condition: Term,
    *bodies: Term,
    opened: tuple[Term, ...],
    position: Term | None = None,
) -> Term:
    """Replace the opened parts of the fold t, and the position of one that keeps its index."""
    binder: Binder = t.attr
    if t.op == "fold":
        return fold(binder.monoid, opened, condition, *bodies, target=binder.target)
    at = t.args[0] if position is None else position
    return fold_at(binder.monoid, at, opened[0], condition, *bodies, target=binder.target)


def substitute(t: Term, mapping: Mapping[str, Term]) -> Term:
    """Replace free indices by integer terms, without capture."""
    names = [new.name for new in mapping.values() if new.op == "index" and new.name[0] != "%"]
    if len({*names, *(t.free - mapping.keys())}) == len(mapping) + len(t.free - mapping.keys()):
        return rename(t, mapping)  # other indices, one for each: nothing gets simpler

    def put(t: Term, results: Results) -> Term:
        if t.free.isdisjoint(mapping):
            return t
        if t.op == "index":
            return mapping[t.name]
        if t.op not in ("fold", "fold_at"):
            return rebuild(t, tuple([results[a] for a in t.args]))
        # The given terms may hold any name: open under one that is free in none of them.
        free = t.free.union(*[new.free for new in mapping.values()])
        fresh = (name for n in count() if (name := f"~{n}") not in free)
        opened, parts = open_as(t, islice(fresh, len(t.attr.indices)))
        position = results[t.args[0]] if t.op == "fold_at" else None
        return refold(t, *[results[p] for p in parts], opened=opened, position=position)

    return Results(put)[t]


CONSTRUCTORS.update(
    fold=lambda args, attr, kind: intern("fold", args, attr, kind),
    fold_at=lambda args, attr, kind: intern("fold_at", args, attr, kind),
    field=lambda args, attr, kind: field(args[0], attr),
)
