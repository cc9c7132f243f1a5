"""Statements that only give names which nobody reads are left out."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from types import UnionType

from monocomp import blocks as B


def needed(body: B.Body) -> B.Body:
    """Return the statements with an effect, and those that they need."""
    effects: list[set[str]] = []
    made: dict[str, list[set[str]]] = {}  # what is read to make a name
    _collect(body, set(), effects, made)
    names: set[str] = set()
    waiting = effects
    while waiting:
        new = waiting.pop() - names
        names |= new
        waiting += [reads for name in new for reads in made.get(name, ())]
    return _with(body, names)


def without(body: B.Body, kinds: type | UnionType) -> B.Body:
    """Return the statements that are of none of these kinds."""
    kept = (s for s in body if not isinstance(s, kinds))
    return tuple(B.inside(s, lambda body: without(body, kinds)) for s in kept)


def _collect(
    body: B.Body, around: set[str], effects: list[set[str]], made: dict[str, list[set[str]]]
) -> None:
    """Collect the names that each statement reads, with those that the statements around it read,
    `around`: in `made` for each name that it gives, or in `effects`."""
    for s in body:
        reads = around.union(*(e.read_names for e in B.roots(s)))
        if inside := B.bodies(s):
            for inner in inside:
                _collect(inner, reads, effects, made)
        elif isinstance(s, B.Assign | B.Load):
            for t in B.targets(s):
                made.setdefault(t.attr, []).append(reads)
        elif not isinstance(s, B.Comment):
            effects.append(reads)


def read(body: Iterable[B.Statement]) -> set[str]:
    """Return the names whose values or dtypes statements read."""
    return {n for s in B.walk(tuple(body)) for e in B.roots(s) for n in e.read_names}


def _with(body: B.Body, names: Collection[str]) -> B.Body:
    """Return the statements with an effect, those that give names that are needed, and what is
    said of them."""
    statements: list[B.Statement] = []
    said: list[B.Statement] = []
    for s in body:
        if isinstance(s, B.Comment):
            said.append(s)
            continue
        s = B.inside(s, lambda body: _with(body, names))
        match s:
            case B.Assign(targets=(target,), value=B.Expr(op="name", attr=name)) if (
                name == target.attr
            ):
                is_kept = False
            case B.Assign() | B.Load():
                is_kept = any(t.attr in names for t in B.targets(s))
            case B.For() | B.While() | B.If():
                is_kept = any(B.bodies(s))
            case _:
                is_kept = True
        statements += [*said, s] if is_kept else []
        said = []
    return tuple(statements)
