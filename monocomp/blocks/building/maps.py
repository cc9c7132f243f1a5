"""A filter as the block program of its map: which blocks of a stream each block of rows needs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from monocomp import blocks as B
from monocomp import tile as P
from monocomp.blocks import INT32, Expr
from monocomp.blocks.building.context import Context
from monocomp.blocks.building.expressions import value
from monocomp.blocks.building.kernels import Known, build, write_body
from monocomp.blocks.choices.choose import Choices
from monocomp.blocks.masking import masks
from monocomp.blocks.masking.bounds import may_admit
from monocomp.blocks.masking.filters import KINDS
from monocomp.blocks.masking.lists import Lists, lists_at
from monocomp.blocks.masking.loops import loop
from monocomp.blocks.names import Scope
from monocomp.blocks.operations import (
    cast,
    infix,
    joined,
    name,
    number,
    reduced,
    scalar,
    spread,
    to,
    where,
)


def build_map(
    program: P.TileProgram,
    choices: Choices,
    kernel_name: str,
    scope: Callable[[str], Scope],
    known: Known,
) -> B.BlockProgram:
    """Return the block program of a filter's map; arguments as for `build`."""
    return build(program, choices, kernel_name, scope, {}, known, _write)


def _write(c: Context) -> None:
    """Write the lists of a block of rows, as the loop over a stream comes to its blocks."""
    *lets, filtered = c.program.body
    assert isinstance(filtered, P.Loop)
    write_body(c, lets)
    lists = lists_at(c, 0, filtered, c.program.axes.values())
    counts = [name(c.names.of("counted", str(n), f"count_{n}"), INT32) for n in range(KINDS)]
    for count in counts:
        c.assign(count, number(0))
    loop(c, filtered, partial(_append, lists=lists, counts=counts))
    for n, count in enumerate(counts):
        lists.store(c, lists.count(number(n)), count)


def _append(c: Context, loop: P.Loop, lists: Lists, counts: list[Expr]) -> None:
    """Append a block to the list of its kind, if there is one."""
    *lets, mask = loop.body
    assert isinstance(mask, P.Mask)
    axis, stream = loop.axis.name, c.streams[-1]
    write_body(c, lets)
    with c.of(mask), c.under(may_admit(c, stream)):
        masks.admit(c, stream, mask, value(c, mask.value, c.layout(mask.value)))
        layout = c.order(loop.domain)
        rows = [a for a in layout if a != axis]
        some = every = to(masks.domain(c, stream, layout), INT32)
        if rows:  # those beyond the last one admit nothing, and do not count
            inside = joined("&", [spread(c.names.inside(a), layout) for a in rows])
            some, every = (where(inside, some, number(n)) for n in (0, 1))
        for a in rows[::-1]:
            some = reduced(some, "max", layout.index(a))
        folded = (scalar(some, "max"), scalar(some, "min"), scalar(every, "min"))
        kind = joined("-", [number(KINDS), *folded])
        kind = c.let(name(c.names.of("kind", axis, "kind"), INT32), kind)
        assert stream.begin is not None
        distance = infix("-", c.first(axis), stream.begin)
        block = cast(infix("//", distance, c.names.block(axis)), INT32)
        for n, count in enumerate(counts):
            with c.under(infix("==", kind, number(n))):
                lists.store(c, lists.entry(number(n), count), block)
                c.assign(count, infix("+", count, number(1)))
