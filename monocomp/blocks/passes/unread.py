"""Statements that only give names which nobody reads are left out."""

from __future__ import annotations

from collections.abc import Collection

from monocomp.blocks import program as B


def needed(body: B.Body) -> B.Body:
    """The statements with an effect, and those that they need."""
    names: set[str] = set()
    known: dict[int, set[str]] = {}  # what expressions read, by identity
    while True:
        found = _with(body, names)
        now = read(found, known)
        if now <= names:
            return found
        names |= now


def read(body: B.Body, known: dict[int, set[str]] | None = None) -> set[str]:
    """The names whose values or dtypes statements read; `known` are those of expressions that stay,
    by identity."""
    known = {} if known is None else known
    found: set[str] = set()
    for s in B.walk(body):
        for e in B.roots(s):
            if id(e) not in known:
                known[id(e)] = names_in(e)
            found |= known[id(e)]
    return found


def names_in(e: B.Expr) -> set[str]:
    """The names whose values or dtypes an expression reads."""
    found = set()
    for x in B.subexpressions(e):
        match x.op:
            case "name":
                found.add(x.attr)
            case "cast" | "to" | "full" | "zeros" | "dot_in_limbs":
                dtype = x.attr if x.op == "dot_in_limbs" else x.dtype
                found |= {dtype.name} if dtype.of or dtype == B.INDEX else set()
    return found


def _with(body: B.Body, names: Collection[str]) -> B.Body:
    """The statements with an effect, those that give names that are needed, and what is said of
    them."""
    found: list[B.Statement] = []
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
        found += [*said, s] if is_kept else []
        said = []
    return tuple(found)
