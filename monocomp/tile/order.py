"""The order of statements in a loop: gathers, blocks, products, sums of tiles, products with them.

Matrix units work beside the others: what positions alone decide is computed while a product runs.

No block is loaded ahead whose elements have a position each, and no load passes a product of
matrices, nor the wait for a block that is loaded ahead. So such a tile is read first, and these
hide the wait for it; one along three axes takes too many registers to wait for a product in them.

A product takes its operands rounded, or in limbs. Where a sum of the same tile is done by then, no
registers hold the tile in full any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from monocomp.errors import InternalError
from monocomp.tile.statements import (
    Assign,
    Let,
    Loop,
    Mask,
    Statement,
    multiplies,
    names,
    names_read,
    roots,
)
from monocomp.tile.values import (
    leaves,
    subexpressions,
)

_PRODUCT = 1  # the turn of a product
_HELD_AXES = 2  # of a tile that is held beside those that are multiplied


def order_updates(updates: Sequence[Assign]) -> list[Assign]:
    """Return the updates in an order in which all read what states are before any of them.

    Raises:
        InternalError: there is none, as two states read each other.
    """
    ordered, waiting = list[Assign](), list(updates)
    while waiting:
        ready = (u for u in waiting if not any(v is not u and _reads(v, u.name) for v in waiting))
        first = next(ready, None)
        if first is None:
            raise InternalError(f"the states {', '.join(u.name for u in waiting)} read each other")
        ordered.append(first)
        waiting.remove(first)
    return ordered


def order_statements(body: list[Statement]) -> list[Statement]:
    """Return the statements with those of each loop in order.

    Updates that read other states stay where they are, and so do those beside them.
    """
    return [replace(s, body=_ordered(s.body)) if isinstance(s, Loop) else s for s in body]


def _ordered(body: list[Statement]) -> list[Statement]:
    updates = [s for s in body if isinstance(s, Assign)]
    ordered = sorted(updates, key=_turn)
    positions = {u.name: n for n, u in enumerate(ordered)}
    for a, b in combinations(updates, 2):
        if positions[a.name] > positions[b.name] and (_reads(a, b.name) or _reads(b, a.name)):
            ordered = updates
    values = [s for s in body if not isinstance(s, Assign)]
    moved = _read_late(_compute_late(_gather_early(values)), ordered)
    return order_statements(moved) + list(ordered)


def _turn(u: Assign) -> int:
    """Sums go first, then products, then what is neither."""
    operations = {x.op for x in subexpressions(u.value)}
    return _PRODUCT if "contract" in operations else 0 if "reduce" in operations else 2


def _reads(u: Assign, state: str) -> bool:
    return any(x.attr == state for x in leaves(u.value))


def _gather_early(body: Sequence[Statement]) -> list[Statement]:
    """Return the statements, gathers and what their positions are computed from before the first
    block or product. None passes a loop, or the condition of a block that may not need it.
    """
    ordered: list[Statement] = []
    first: int | None = None  # block or product since the last loop
    late: dict[str, Statement] = {}  # by the names of values since then
    for s in body:
        if isinstance(s, Loop | Mask):
            first, late = None, {}
        elif first is not None and _is_early(s) and (needed := _needed(s, late)) is not None:
            ordered[first:] = [*needed, s, *(x for x in ordered[first:] if x not in needed)]
            first += len(needed) + 1
            late = {name: x for name, x in late.items() if x not in needed}
            continue
        elif first is not None or multiplies([s]) or _reads_block(s):
            first = len(ordered) if first is None else first
            late |= dict.fromkeys(names([s]), s)
        ordered.append(s)
    return ordered


def _read_late(values: Sequence[Statement], updates: Sequence[Assign]) -> list[Statement]:
    """Return the values, blocks that only products of the updates take after all other blocks: no
    registers hold them while the others are used. None passes a product, as `_gather_early` says,
    nor a loop or a condition.
    """
    fixed = [isinstance(s, Loop | Mask) or multiplies([s]) for s in values]
    first = max((n for n, is_fixed in enumerate(fixed, 1) if is_fixed), default=0)
    readers = [*values, *(u for u in updates if _turn(u) != _PRODUCT)]
    needed = names_read(readers)
    blocks = [n for n, s in enumerate(values) if n >= first and _reads_block(s)]
    last = max((n for n in blocks if not needed.isdisjoint(names([values[n]]))), default=0)
    late = [n for n in blocks if n < last and needed.isdisjoint(names([values[n]]))]
    before = [s for n, s in enumerate(values[: last + 1]) if n not in late]
    return [*before, *(values[n] for n in late), *values[last + 1 :]]


def _compute_late(body: Sequence[Statement]) -> list[Statement]:
    """Return the statements, tiles that positions alone decide behind the first product, unless
    something before it takes them. None passes a loop or a condition."""
    stops = (n for n, s in enumerate(body) if isinstance(s, Loop | Mask) or multiplies([s]))
    first = next(stops, None)
    if first is None or not multiplies([body[first]]):
        return list(body)
    before, after = body[: first + 1], body[first + 1 :]
    needed = names_read(before)
    late = [s for s in before if _is_of_positions(s) and needed.isdisjoint(names([s]))]
    return [*(s for s in before if s not in late), *late, *after]


def _needed(s: Statement, late: Mapping[str, Statement]) -> list[Statement] | None:
    """Return the late statements that one depends on, in order; None if it waits for a product."""
    needed: dict[Statement, None] = {}
    for name in (x.attr for root in roots(s) for x in leaves(root)):
        if name in late:
            before = _needed(late[name], late)
            if before is None or not isinstance(late[name], Let) or multiplies([late[name]]):
                return None
            needed |= dict.fromkeys([*before, late[name]])
    return list(needed)


def _reads_block(s: Statement) -> bool:
    return isinstance(s, Let) and s.value.op == "load" and not _gathers(s)


def _is_of_positions(s: Statement) -> bool:
    """True for a tile that is computed from positions, extents and parameters."""
    if not isinstance(s, Let) or len(s.value.axes) < _HELD_AXES:
        return False
    return not any(x.op in ("load", "local") for x in subexpressions(s.value))


def _is_early(s: Statement) -> bool:
    """True if a gathered tile may be held while other tiles are multiplied."""
    return isinstance(s, Let) and _gathers(s) and len(s.value.axes) <= _HELD_AXES


def _gathers(s: Statement) -> bool:
    """True if a statement reads elements with a position each."""
    if not isinstance(s, Let) or s.value.op != "load":
        return False
    return any(len(x.axes) > 1 for x in s.value.positions)
