"""Products of loaded blocks are issued together: for loops that `skew` leaves alone.

What reads a product waits for it. A later product that needs no other one is brought before the
first that waits, with the loads and the arithmetic that it takes, so that it is computed beside
what follows the first. Values that are masked like one that they are made from take that with its
mask, so that no other has to be kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import replace

from monocomp import blocks as B
from monocomp.blocks.passes.unread import read
from monocomp.blocks.values import show
from monocomp.tile.operations import is_elementwise


def advance(body: B.Body) -> B.Body:
    """Return the statements of a loop with products brought before what waits for others."""
    rest = _with_masked(body)
    before: list[B.Statement] = []
    while rest and read(rest[:1]).isdisjoint(B.given(filter(is_product, before))):
        before.append(rest.pop(0))
    for product in filter(is_product, tuple(rest)):
        first = _needed(product, rest)
        if first and read(first).isdisjoint(B.given(filter(is_product, before))):
            before += first
            rest = [s for s in rest if s not in first]
    return (*before, *rest)


def is_product(s: B.Statement) -> bool:
    """True if a statement gives a product of matrices a name."""
    return isinstance(s, B.Assign) and s.value.op == "dot"


def _with_masked(body: Sequence[B.Statement]) -> list[B.Statement]:
    """Return statements whose masked values are made from masked ones:

    y = x;  z = f(x);  if c: y = where(m, y, 0), z = where(m, z, 0)   has   z = f(y)
    """
    statements = list(body)
    given = Counter(t.attr for s in B.walk(tuple(body)) for t in B.targets(s))
    for end, s in enumerate(body):
        masks = dict(map(_mask, s.body)) if isinstance(s, B.If) else {}
        for n, copy in enumerate(statements[:end]):
            match copy:
                case B.Assign(targets=(y,), value=B.Expr(op="name") as x) if (
                    y.attr in masks and given[x.attr] == 1 and given[y.attr] == 2
                ):
                    alike = {z for z in masks if masks[z] == masks[y.attr]}
                    statements[n + 1 : end] = [
                        _made_from(b, x, y, alike) for b in statements[n + 1 : end]
                    ]
    return statements


def _mask(s: B.Statement) -> tuple[str, str]:
    """Return what a statement masks, and the mask as text; empty texts if it does not."""
    match s:
        case B.Assign(targets=(target,), value=B.Expr(op="where", args=(mask, old, _))):
            if old.attr == target.attr:
                return target.attr, show(mask)
    return "", ""


def _made_from(s: B.Statement, x: B.Expr, y: B.Expr, alike: Set[str]) -> B.Statement:
    """Return what makes one of these values from x, with y instead."""
    match s:
        case B.Assign(targets=(target,), value=value) if (
            target.attr in alike and x.attr in value.read_names
        ):
            if _is_elementwise(value, {x.attr}):
                return replace(s, value=B.renamed(value, {x.attr: y}))
    return s


def _is_elementwise(e: B.Expr, names: Set[str]) -> bool:
    """True if elements of a value are made from the same elements of those of these names."""
    if e.op == "name" or names.isdisjoint(e.read_names):
        return True
    return is_elementwise(e.op) and all(_is_elementwise(a, names) for a in e.args)


def _needed(product: B.Statement, waiting: Sequence[B.Statement]) -> list[B.Statement]:
    """Return a product and what must come before it; nothing if what it would pass does more than
    give names."""
    before = waiting[: waiting.index(product)]
    if not all(isinstance(s, B.Assign | B.Load | B.If) for s in B.walk(tuple(before))):
        return []
    statements = [product]
    for s in reversed(before):
        made = B.given(statements)
        if B.given([s]) & (read(statements) | made) or read([s]) & made:
            statements.insert(0, s)
    return statements
