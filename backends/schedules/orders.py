"""Orders of program instances: how many positions of the grid take turns."""

from __future__ import annotations

from math import ceil, isqrt, prod

from monocomp import tile as P
from monocomp.backends.schedules.resources import Resources
from monocomp.blocks.building.kernels import is_grouped
from monocomp.extents.nominal import LONG, power_of_two

_FEW = 64  # rows: of a block or two, whose order hardly matters, and fewer read a stream once


def orders(of: Resources, block: int | None = None) -> list[int]:
    """List how many positions of the grid may take turns, the best number first. Where rows bound
    one end of what they stream, some blocks have more to do than others: the heaviest of several
    positions come first, so that light ones even out the end. The best number is limited by how
    many can share the cache, and by how many blocks of rows one position has, which says how unlike
    blocks are. Where all are alike, as in a window that moves with the rows, those of one position,
    which read the same, follow each other; but not where instances claim blocks and rows read where
    both ends are, as those of one position are then as unlike as any. With blocks along two axes
    and no grid, those that run at the same time form about a square, which reads least.

    Args:
        of: the resources of the kernel.
        block: rows of an instance, of those that claim one block after the other: of each group
            of positions a processor then works on about two or more, and those that run at a
            time are some neighbours of each position.
    """
    loops, rows = of.program.stream_loops, prod(map(of.size, of.program.axis_names("row")))
    if not is_grouped(of.program) or not loops or of.program.splits or rows <= _FEW:
        return [1]
    if not of.program.axis_names("grid"):
        return [power_of_two(isqrt(of.gpu.processors)), 1]
    positions = prod(map(of.size, of.program.axis_names("grid")))
    if block:
        even = ceil(of.gpu.items * of.gpu.processors / ceil(rows / block))
        group_size = power_of_two(max(of.gpu.processors // of.gpu.neighbours, even))
    else:
        group_size, streamed = power_of_two(ceil(rows / _FEW)), max(1, _streamed_bytes(of))
        while group_size > 1 and group_size * streamed > of.gpu.cached * positions:
            group_size //= 2
    is_even = 1 not in (n for loop in loops for n in _varying_ends(of, loop))
    ends = of.program.made_of(*(e for loop in loops for e in loop.bounds))
    if block and any(e.op == "load" and e.axes & of.blocked for e in ends):
        is_even = False
    return list(dict.fromkeys([1, group_size] if is_even else [group_size, 2 * group_size, 1]))


def _streamed_bytes(of: Resources) -> float:
    """Return the bytes that all positions stream in loops that their blocks of rows have in
    common."""
    known = {a.extent: of.size(a.name) for a in of.program.axes.values()}
    rows = {*of.program.axis_names("row")}
    bytes_of: dict[str, float] = {}
    for loop in of.program.stream_loops:
        for e in P.expressions(loop.body):
            if e.op == "load" and loop.axis.name in e.axes and not e.axes & rows:
                dims = of.program.inputs[e.attr].dims
                elements = prod(of.sizes.get(d) or known.get(d, LONG) for d in dims)
                read = elements * of.element_bytes * _share(of, loop)
                bytes_of[e.attr] = max(read, bytes_of.get(e.attr, 0))
    return sum(bytes_of.values())


def _share(of: Resources, loop: P.Loop) -> float:
    """Return the share of a stream that a block of rows reads, on average: each end of a
    segment that varies with the rows halves it."""
    return min(1.0, sum(0.5**n for n in _varying_ends(of, loop)))


def _varying_ends(of: Resources, loop: P.Loop) -> list[int]:
    """Count the ends of each segment of a stream that vary with the rows."""
    bounds = ((s.lower, s.upper) for s in loop.segments)
    return [sum(any(e.axes & of.blocked for e in end) for end in each) for each in bounds]
