"""`persist`: as many instances as there are processors work through all items, one after the other.

What loads runs ahead into the next item while the results of this one are stored, and nothing
begins anew. Each instance claims the next item when it has asked for all blocks of this one: items
come in the order of the grid, the longest first, so that all instances end at about one time.
"""

from __future__ import annotations

from dataclasses import replace

from monocomp import blocks as B
from monocomp.blocks.operations import name

ITEM = name("item", B.INT32)
ITEMS = name("ITEMS", B.INT32)
COUNTER = name("claimed_ptr", B.Dtype("int32", "pointer"))
_GIVEN = ("pointer", "descriptor", "adding", "stride", "size", "param")


def persist(program: B.BlockProgram) -> B.BlockProgram:
    """Let instances claim items, until none is left."""
    first = next((n for n, s in enumerate(program.body) if any(map(_tells, B.roots(s)))), None)
    if first is None:
        return program
    number, *others = program.body[first:]
    assert isinstance(number, B.Assign)
    body = replace(number, value=_of_item(number.value)), *others
    items = B.For(ITEM, B.Claims(ITEMS, COUNTER), body, number.origin)
    at = sum(a.purpose in _GIVEN for a in program.arguments)
    arguments = (
        *program.arguments[:at],
        B.Argument("counter", "", 0, COUNTER, False),
        *program.arguments[at:],
        B.Argument("items", "", 0, ITEMS, False),
    )
    return replace(program, arguments=arguments, body=(*program.body[:first], items))


def _tells(e: B.Expr) -> bool:
    """True if an expression reads the number of the instance."""
    return any(x.op == "program_id" for x in B.subexpressions(e))


def _of_item(e: B.Expr) -> B.Expr:
    """Return an expression of the number of the item instead."""
    return ITEM if e.op == "program_id" else replace(e, args=tuple(map(_of_item, e.args)))
