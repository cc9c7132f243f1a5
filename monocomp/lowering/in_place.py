"""Sums in sums: the inner loop goes on where the outer one is.

A sum over one index of sums over another begins anew for each value of the first, and what each
has come to is added to the whole. Both are held at once then, and an accumulator is the largest
thing that a program instance holds. The inner loop may as well begin with what is there already:

    acc . (unit . x[0] . x[1] ...)  =  acc . x[0] . x[1] ...

as `.` is associative and `unit` its unit. That needs an inner state to which elements are joined
and nothing else is done, and which only the outer one takes.
"""

from __future__ import annotations

from dataclasses import replace

from monocomp.lowering.bodies import unit_of
from monocomp.tile import Assign, Expr, Loop, State, Statement, expressions, local
from monocomp.tile.operations import JOIN

_MONOIDS = {join: monoid for monoid, join in JOIN.items()}


def accumulate_in_place(body: list[Statement]) -> list[Statement]:
    """Return the statements, with inner loops that go on from the state of the loop around them.

    The outermost loop goes first: what it gives to one inside, that one may give to the next.
    """
    return [replace(s, body=_passed_on(s)) if isinstance(s, Loop) else s for s in body]


def _passed_on(outer: Loop) -> list[Statement]:
    body = outer.body
    for state in outer.state:
        for inner in [s for s in body if isinstance(s, Loop)]:
            for own in inner.state:
                if own.axes == state.axes and _is_only_joined(own, inner, state, body):
                    body = [_goes_on(s, inner, own, state) for s in body]
    return accumulate_in_place(body)


def _goes_on(s: Statement, inner: Loop, own: State, state: State) -> Statement:
    """Return a statement where the inner loop's own state begins as the outer one, which becomes
    it."""
    if s is inner:
        start = _local(state)
        return replace(
            inner, state=[replace(x, start=start) if x is own else x for x in inner.state]
        )
    if isinstance(s, Assign) and s.name == state.name:
        return replace(s, value=_local(own))
    return s


def _is_only_joined(own: State, inner: Loop, state: State, body: list[Statement]) -> bool:
    """True if an inner loop only joins elements to its state, which only the outer one takes."""
    join = _update(body, state)
    monoid = _MONOIDS.get(join.op)
    if monoid is None or {a.attr for a in join.args if a.op == "local"} != {own.name, state.name}:
        return False
    begins_anew = (own.start.op, own.start.attr) == ("number", unit_of(monoid, own.kind))
    uses = sum(e.op == "local" and e.attr == own.name for e in expressions(body))
    return begins_anew and uses == 2 and _joins_to(_update(inner.body, own), own, join)


def _joins_to(e: Expr, own: State, join: Expr) -> bool:
    """True if e is the state, or the state with something joined to it."""
    if e.op == "local":
        return bool(e.attr == own.name)
    is_join = (e.op, e.attr) == (join.op, join.attr)
    taken = e.args if is_join else e.args[2:] if (e.op, join.op) == ("contract", "add") else ()
    return any(_joins_to(a, own, join) for a in taken)


def _update(body: list[Statement], state: State) -> Expr:
    return next(s.value for s in body if isinstance(s, Assign) and s.name == state.name)


def _local(state: State) -> Expr:
    return local(state.name, state.axes, state.kind)
