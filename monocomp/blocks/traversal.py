"""Statements of block programs: what they hold, what they read, and what they give names to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import get_args

from monocomp.blocks.statements import (
    Access,
    Body,
    For,
    If,
    Range,
    Statement,
    While,
    Within,
    bodies,
)
from monocomp.blocks.values import Expr, subexpressions
from monocomp.declarations.record import expressions_in, with_expressions

# The records in statements that have expressions of their own.
_PARTS = (*get_args(Access), *get_args(Range), Within)


def walk(body: Iterable[Statement]) -> Iterator[Statement]:
    """Yield every statement, compound ones before what they hold."""
    for s in body:
        yield s
        for inner in bodies(s):
            yield from walk(inner)


def inside(s: Statement, change: Callable[[Body], Body]) -> Statement:
    """Return a statement with what it holds changed."""
    match s:
        case For() | While():
            return replace(s, body=change(s.body))
        case If():
            return replace(s, body=change(s.body), orelse=change(s.orelse))
    return s


def roots(s: Statement) -> tuple[Expr, ...]:
    """Return the expressions that a statement evaluates itself."""
    return expressions_in(s, Expr, _PARTS)


def with_roots(s: Statement, change: Callable[[Expr], Expr]) -> Statement:
    """Return a statement with the expressions changed that it evaluates itself."""
    return with_expressions(s, Expr, _PARTS, change)


def targets(s: Statement) -> tuple[Expr, ...]:
    """Return the names that a statement gives itself."""
    return expressions_in(s, Expr, gives=True)


def given(body: Iterable[Statement]) -> set[str]:
    """Return the names that statements give, and those that they hold."""
    return {t.attr for s in walk(body) for t in targets(s)}


def fresh(wanted: str, taken: set[str]) -> str:
    """Take a name like the wanted one that nothing has."""
    while wanted in taken:
        wanted += "_2"
    taken.add(wanted)
    return wanted


def names_of(body: Body) -> set[str]:
    """Return the names that statements read."""
    values = (e for s in walk(body) for e in roots(s))
    return {x.attr for e in values for x in subexpressions(e) if x.op == "name"}
