"""Lengths of blocks for interpreters, which hold whole tiles in memory."""

from __future__ import annotations

import math
from collections.abc import Mapping

from monocomp import tile as P


def default_blocks(
    program: P.TileProgram,
    extents: Mapping[str, int],
    elements: int,
    has_own_loops: bool = True,
) -> dict[str, int]:
    """Return lengths of blocks such that a tile has at most so many elements, as far as cutting
    helps: of the largest tile the grid is taken apart first, then its longest axis is cut again.
    So tiles are about square, and where a domain is a triangle few of them stick out of it.

    Args:
        program: the kernel.
        extents: sizes by name.
        elements: the most of a tile.
        has_own_loops: take values of the grid apart where each has loops of its own, over elements
            that the others lack.
    """
    axes = program.axes
    is_exact = any(s.is_exact and not s.is_whole for s in program.loops)
    apart = _with_own_loops(program) if has_own_loops or is_exact else set()
    lengths = {n: 1 if n in apart else max(1, extents[a.extent]) for n, a in axes.items()}
    grid = program.axis_names("grid")[::-1]
    tiles = [e | set(grid) for e in program.tiles]
    while tiles:
        largest = max(tiles, key=lambda t: math.prod(lengths[n] for n in t))
        if math.prod(lengths[n] for n in largest) <= elements:
            break
        cut = [n for n in grid if lengths[n] > 1][:1] or sorted(
            (n for n in largest if axes[n].role in ("row", "stream") and lengths[n] > 1),
            key=lambda n: (-lengths[n], n),
        )
        if cut:
            extent = extents[axes[cut[0]].extent]
            lengths[cut[0]] = min(lengths[cut[0]] - 1, -(-extent // _more(extent, lengths[cut[0]])))
        else:
            tiles.remove(largest)
    return {n: length for n, length in lengths.items() if axes[n].role in ("grid", "row", "stream")}


def _more(extent: int, length: int) -> int:
    """Return the next larger number of blocks, or of many a number that is an eighth larger."""
    count = -(-extent // length)
    return count + 1 + count // 8


def _with_own_loops(program: P.TileProgram) -> set[str]:
    """Return the axes of the grid with which bounds of loops vary that vary with no tile."""
    bounds = (e for s in program.loops if not any(e.axes for e in s.bounds) for e in s.bounds)
    coordinates = {e.attr for e in program.made_of(*bounds) if e.op == "coordinate"}
    return coordinates.intersection(program.axis_names("grid"))
