"""The order in which a loop's states are updated: sums of tiles before products with them.

A product takes its operands rounded, or in limbs. Where a sum of the same tile is done by then, no
registers hold the tile in full any more.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from monocomp.tile.program import Assign, Loop, Statement, leaves, subexpressions


def order_updates(body: list[Statement]) -> list[Statement]:
    """The statements, where sums come first at the end of each loop's body, and products second.

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
    return order_updates([s for s in body if not isinstance(s, Assign)]) + list(ordered)


def _turn(u: Assign) -> int:
    """Sums go first, then products, then what is neither."""
    found = {x.op for x in subexpressions(u.value)}
    return 1 if "contract" in found else 0 if "reduce" in found else 2


def _reads(u: Assign, state: str) -> bool:
    return any(x.attr == state for x in leaves(u.value))
