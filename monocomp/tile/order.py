"""The order of the statements of a loop: reads, products, sums of tiles, products with them.

A tile that is read element by element is waited for where it is first used, and a product of
matrices lets no load pass. So it is read before the first product, which hides the wait. Operands
of products are read where they stand: they are loaded blocks ahead.

A product takes its operands rounded, or in limbs. Where a sum of the same tile is done by then, no
registers hold the tile in full any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

from monocomp.tile.program import (
    Assign,
    Expr,
    Let,
    Loop,
    Mask,
    Statement,
    expressions,
    leaves,
    names,
    roots,
    subexpressions,
)

_FORMS = ("cast", "masked")  # of an operand that is as it is read


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
    return order_statements(_read_early(values, _operands(expressions(body)))) + list(ordered)


def _turn(u: Assign) -> int:
    """Sums go first, then products, then what is neither."""
    found = {x.op for x in subexpressions(u.value)}
    return 1 if "contract" in found else 0 if "reduce" in found else 2


def _reads(u: Assign, state: str) -> bool:
    return any(x.attr == state for x in leaves(u.value))


def _operands(values: Iterable[Expr]) -> frozenset[str]:
    """Return the names of the tiles that products take as they are read."""
    operands = set()
    for product in values:
        for operand in product.args if product.op == "contract" else ():
            while operand.op in _FORMS:
                operand = operand.args[0]
            operands.add(operand.attr if operand.op == "local" else "")
    return frozenset(operands)


def _read_early(body: list[Statement], operands: frozenset[str]) -> list[Statement]:
    """Return the statements with tiles read before the first product that does not compute where.

    No read passes a loop, or the condition of a block that may not need it.
    """
    ordered: list[Statement] = []
    first: int | None = None  # product since the last loop
    late: set[str] = set()  # values since then
    for s in body:
        if isinstance(s, Loop | Mask):
            first, late = None, set()
        elif first is not None and _is_read(s, operands) and late.isdisjoint(_names_in(s)):
            ordered.insert(first, s)
            first += 1
            continue
        elif first is not None or _multiplies(s):
            first = len(ordered) if first is None else first
            late.update(names([s]))
        ordered.append(s)
    return ordered


def _multiplies(s: Statement) -> bool:
    return any(x.op == "contract" for root in roots(s) for x in subexpressions(root))


def _is_read(s: Statement, operands: frozenset[str]) -> bool:
    """True if a statement reads a tile that no product takes as it is."""
    return isinstance(s, Let) and s.value.op == "load" and s.name not in operands


def _names_in(s: Statement) -> set[str]:
    return {x.attr for root in roots(s) for x in leaves(root)}
