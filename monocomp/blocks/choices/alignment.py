"""`align`: blocks of a stream and the periods that its elements lie in, such as a cache's pages.

Of a block of B elements that begins at k, where B and s are known as the kernel is compiled,

    if s divides B, then all blocks have the same positions k % s, those of the first block, and
    if B divides s and k, then the block lies in one period, and its elements' positions are those
        of the first block but for a number, k % s - first % s.

So before the loop as much is computed as can be, and in it numbers instead of tiles.
"""

from __future__ import annotations

from collections.abc import Mapping

from monocomp.blocks.masking.phases import Phases
from monocomp.declarations.record import record
from monocomp.extents.nominal import MIN_DOT
from monocomp.tile import Expr, Loop, TileProgram, expressions


@record()
class Period:
    """The number or the position of a stream's elements in periods of constant length.

    Attributes:
        axis, length: the stream, and an extent or a number.
        divisor: what divides the positions at which blocks begin, besides the length of blocks;
            None: it is not known whether a block can lie in one period.
    """

    axis: str
    length: Expr
    divisor: int | None


def align(program: TileProgram, phases: Mapping[Loop, Phases]) -> dict[Expr, Period]:
    """Return the periods of k // s and k % s, for each of them."""
    periods = {}
    for loop, how in phases.items():
        if program.axes[loop.axis.name].role != "stream":
            continue
        for e in expressions(loop.body):
            if e.op in ("floordiv", "mod") and e.attr == "nonnegative":
                coordinate, length = e.args
                if coordinate.op == "coordinate" and coordinate.attr == loop.axis.name:
                    is_short = length.op == "number" and length.attr < MIN_DOT
                    divisor = None if how.divisor == 1 or is_short else how.divisor
                    if length.op == "extent" or (length.op == "number" and length.attr > 0):
                        periods[e] = Period(loop.axis.name, length, divisor)
    return periods
