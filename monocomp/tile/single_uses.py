"""Values that are used once are written where they are used, while that stays readable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from monocomp.tile import (
    Assign,
    Expr,
    Let,
    Loop,
    Statement,
    expressions,
    leaves,
    names_read,
    with_roots,
)

_KEPT = ("load", "contract", "masked")
_MAX_NESTING = 4


def inline_single_uses(body: list[Statement]) -> None:
    """Write a value that is used once where it is used, if that is in the same body."""
    uses: dict[str, int] = {}
    for e in expressions(body):
        if e.op == "local":
            uses[e.attr] = uses.get(e.attr, 0) + 1
    _inline(body, uses)


def _inline(body: list[Statement], uses: Mapping[str, int]) -> None:
    pending: dict[str, Let] = {}
    out: list[Statement] = []
    states = {s.name for s in body if isinstance(s, Assign)}
    for s in body:
        if isinstance(s, Loop):
            held = names_read(s.body)
            for name in [n for n in pending if n in held]:
                out.append(pending.pop(name))
            _inline(s.body, uses)
        if isinstance(s, Assign):  # what reads another state must be known before it changes
            for name, let in list(pending.items()):
                if any(e.attr in states and e.attr != s.name for e in leaves(let.value)):
                    out.append(pending.pop(name))
        s = with_roots(s, lambda e: _fill(e, pending))
        if (
            isinstance(s, Let)
            and uses.get(s.name, 0) == 1
            and s.value.op not in _KEPT
            and not _is_new_tile(s.value)
            and _nesting(s.value) < _MAX_NESTING
        ):
            pending[s.name] = s
        else:
            out.append(s)
    out += pending.values()
    body[:] = out


def _fill(e: Expr, pending: dict[str, Let]) -> Expr:
    if e.op == "local":
        return pending.pop(e.attr).value if e.attr in pending else e
    if not e.args or not pending:
        return e
    args = tuple(_fill(a, pending) for a in e.args)
    if all(a is b for a, b in zip(args, e.args, strict=True)):
        return e
    return replace(e, args=args)


def _is_new_tile(e: Expr) -> bool:
    """True if this is a tile of random numbers, or of numbers made of positions or conditions.
    Integers that were read are converted where they are multiplied. Random numbers are drawn before
    what they are used with."""
    if e.op == "uniform":
        return len(e.axes) > 1
    return e.op == "cast" and len(e.axes) > 1 and (e.args[0].op, e.args[0].kind) != ("local", "int")


def _nesting(e: Expr) -> int:
    return 1 + max((_nesting(a) for a in e.args), default=0)
