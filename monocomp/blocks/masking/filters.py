"""`list`: loops whose blocks a map lists.

Where bounds do not tell which blocks of a stream a block of rows needs, a kernel of its own folds
the loop's filter over tiles,

    map[q, k] = fold over the tile in (any, all) of filter

and compacts that into lists: of blocks in which all rows admit all, of those whose every element
some row admits, and of the other ones in which anything is admitted. The first need no mask, and
only the last leave out elements as they are loaded. The kernel is made from the tile program: the
filter, and what it is computed from, along its own axes. It is worth its launch where products
follow, and several positions of the grid share its lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from monocomp.tile import (
    Let,
    Loop,
    Mask,
    TileProgram,
    multiplies,
    over,
    roots,
)

KINDS = 3  # lists of a map for each block of rows


def filters(
    program: TileProgram, loops: Mapping[Loop, tuple[Loop, ...]]
) -> dict[Loop, TileProgram]:
    """Return the loops over blocks that a map can list, each with the filter as a kernel.

    Args:
        program: the kernel.
        loops: for each loop, the loops that it is split into.
    """
    kernels = {}
    lets: dict[str, Let] = {}
    for s in program.body:
        if isinstance(s, Let):
            lets[s.name] = s
        for loop in loops[s] if isinstance(s, Loop) else ():
            kernel = _filter(program, loop, lets)
            if kernel is not None and _is_worth(program, loop, kernel):
                kernels[loop] = kernel
    return kernels


def _is_worth(program: TileProgram, loop: Loop, kernel: TileProgram) -> bool:
    """True if products follow a filter that several positions of the grid share."""
    shared = {*program.axis_names("grid")} - kernel.axes.keys()
    return bool(shared) and multiplies(loop.body)


def _filter(program: TileProgram, loop: Loop, outer: Mapping[str, Let]) -> TileProgram | None:
    """Return a loop's filter as a kernel; None if it needs more than inputs along rows and grid, or
    the loop's blocks have an order."""
    mask = next((n for n, s in enumerate(loop.body) if isinstance(s, Mask)), None)
    is_listed = mask is not None and loop.axis.role == "stream" and len(loop.segments) == 1
    if mask is None or not is_listed or loop.is_ordered or program.splits:
        return None
    before = {s.name: s for s in loop.body[:mask] if isinstance(s, Let)}
    read = [*program.made_of(*roots(loop.body[mask]), *loop.bounds)]
    names = {e.attr for e in read if e.op == "local"}
    if not names <= {*outer, *before} or any(over(e) is not None for e in read):
        return None
    axes = loop.axis.tile.union(*(e.axes for e in read))
    axes |= {e.attr for e in read if e.op == "coordinate"}
    tensors, params = ({e.attr for e in read if e.op == op} for op in ("load", "param"))
    others = axes.intersection(program.axis_names("serial", "whole", "stream"))
    if others != {loop.axis.name} or any(program.inputs[t].is_stored for t in tensors):
        return None
    body = [s for s in before.values() if s.name in names]
    alone = replace(loop, state=[], folds=(), body=[*body, loop.body[mask]])
    return TileProgram(
        f"{program.name}_map",
        {n: a for n, a in program.axes.items() if n in axes},
        {n: t for n, t in program.inputs.items() if n in tensors},
        {n: kind for n, kind in program.params.items() if n in params},
        (),
        [*(s for s in outer.values() if s.name in names), alone],
    )
