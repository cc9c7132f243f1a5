"""Sums that are added up: a loop goes on where the one before it has ended.

Logits of latent attention are two products over different columns, times the same number, and
nothing but their sum is asked for. Two loops would hold a tile each:

    a * sum[c](Q * K) + a * sum[r](P * R)  =  a * (sum[c](Q * K) + sum[r](P * R))

as addition is associative, and multiplication distributes over it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

from monocomp.tile import Assign, Expr, Loop, State, Statement, expressions, local, with_roots
from monocomp.tile.printer import show


def continue_sums(body: list[Statement]) -> list[Statement]:
    """The statements, with loops of one body whose sum begins with that of an earlier one."""
    loops = [s for s in body if isinstance(s, Loop)]
    sums = {own.name: (n, own) for n, s in enumerate(loops) for own in s.state if _is_sum(s, own)}
    reads = Counter(e.attr for e in expressions(body) if e.op == "local")
    for e in expressions([s for s in body if not isinstance(s, Loop)]):
        pair = _difference(*e.args) if e.op == "add" else None
        if pair is None or not sums.keys() >= {*pair}:
            continue
        (before, old), (after, own) = sorted((sums[name] for name in pair), key=lambda s: s[0])
        # Each is read where it changes, and here.
        if before == after or old.axes != own.axes or any(reads[name] != 2 for name in pair):
            continue
        total = e.args[0] if _reads(e.args[0], own.name) else e.args[1]
        body = [with_roots(s, partial(_replaced, old=e, new=total)) for s in body]
        return continue_sums([_begun(s, own, old) for s in body])
    return body


def _is_sum(loop: Loop, own: State) -> bool:
    """True if the state begins as 0 and the loop only adds products of matrices to it."""
    found = [s.value for s in loop.body if isinstance(s, Assign) and s.name == own.name]
    while found and found[0].op == "contract" and len(found[0].args) == 3:
        found = [found[0].args[2]]
    is_added = bool(found) and (found[0].op, found[0].attr) == ("local", own.name)
    return is_added and (own.start.op, own.start.attr) == ("number", 0.0)


def _difference(a: Expr, b: Expr) -> tuple[str, str] | None:
    """The names that two products differ by, where they have all other factors in common."""
    if a.op == b.op == "local":
        return (a.attr, b.attr) if a.attr != b.attr else None
    if a.op != "mul" or b.op != "mul":
        return None
    pairs = [(x, y) for x, y in zip(a.args, b.args, strict=True) if show(x) != show(y)]
    return _difference(*pairs[0]) if len(pairs) == 1 else None


def _reads(e: Expr, name: str) -> bool:
    return any(x.op == "local" and x.attr == name for x in (*e.below, e))


def _replaced(e: Expr, old: Expr, new: Expr) -> Expr:
    if e is old:
        return new
    args = tuple(_replaced(a, old, new) for a in e.args)
    return e if all(map(lambda a, b: a is b, args, e.args)) else replace(e, args=args)


def _begun(s: Statement, own: State, old: State) -> Statement:
    """A statement; the loop that has the one state begins it as the other."""
    if not isinstance(s, Loop) or all(x.name != own.name for x in s.state):
        return s
    start = local(old.name, old.axes, old.kind)
    return replace(s, state=[replace(x, start=start) if x.name == own.name else x for x in s.state])
