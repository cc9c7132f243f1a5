"""Statements of block programs: what they hold, what they read, and what they give names to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from monocomp.blocks.program import (
    Access,
    Assign,
    Blocks,
    Body,
    Claims,
    Clear,
    Descriptor,
    For,
    Give,
    If,
    Issue,
    Load,
    Statement,
    Store,
    Take,
    Wait,
    While,
    Within,
    bodies,
)
from monocomp.blocks.values import Expr, subexpressions


def walk(body: Body) -> Iterator[Statement]:
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
    match s:
        case Assign():
            return (s.value,)
        case Load():
            return roots_of(s.access)
        case Store():
            return (*roots_of(s.access), s.value)
        case For():
            r = s.range
            if isinstance(r, Blocks):
                return tuple(x for x in (r.start, r.stop, r.stages, r.fused) if x is not None)
            if isinstance(r, Claims):
                return (r.stop, r.counter)
            return (r.stop,) if r.start is None else (r.start, r.stop)
        case While() | If():
            return (s.test,)
        case Give():
            return roots_of(s.access)
        case Take(within=Within() as within) | Clear(within=within):
            return within.parts
        case Issue():
            return (s.product,)
    return ()


def with_roots(s: Statement, change: Callable[[Expr], Expr]) -> Statement:
    """Return a statement with the expressions changed that it evaluates itself."""
    match s:
        case Assign():
            return replace(s, value=change(s.value))
        case Load() | Give():
            return replace(s, access=_with_roots_of(s.access, change))
        case Store():
            access = _with_roots_of(s.access, change)
            return replace(s, access=access, value=change(s.value))
        case For():
            return replace(s, range=_with_parts(s.range, change))
        case While() | If():
            return replace(s, test=change(s.test))
        case Take(within=Within() as within) | Clear(within=within):
            return replace(s, within=_with_parts(within, change))
        case Issue():
            return replace(s, product=change(s.product))
    return s


def _with_roots_of(access: Access, change: Callable[[Expr], Expr]) -> Any:
    if isinstance(access, Descriptor):
        positions = tuple(map(change, access.positions))
        within = access.within and _with_parts(access.within, change)
        return replace(access, positions=positions, within=within)
    offsets = tuple(map(change, access.offsets))
    return replace(_with_parts(access, change), offsets=offsets)


def _with_parts(x: Any, change: Callable[[Expr], Expr]) -> Any:
    """Return a record with its expressions changed."""
    parts = {f.name: getattr(x, f.name) for f in fields(x)}
    return replace(x, **{n: change(e) for n, e in parts.items() if isinstance(e, Expr)})


def targets(s: Statement) -> tuple[Expr, ...]:
    """Return the names that a statement gives itself."""
    match s:
        case Assign():
            return s.targets
        case Load() | Take() | Issue() | Wait():
            return (s.target,)
        case For():
            return (s.variable,)
    return ()


def roots_of(access: Access) -> tuple[Expr, ...]:
    """Return the expressions of an access."""
    if isinstance(access, Descriptor):
        within = access.within
        bounds = () if within is None else within.parts
        return (access.descriptor, *access.positions, *bounds)
    rest = (x for x in (access.mask, access.fill) if x is not None)
    return (access.base, *access.offsets, *rest)


def names_of(body: Body) -> set[str]:
    """Return the names that statements read."""
    values = (e for s in walk(body) for e in roots(s))
    return {x.attr for e in values for x in subexpressions(e) if x.op == "name"}
