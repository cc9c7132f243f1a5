"""Positions that move by one from an element of a tile to the next."""

from __future__ import annotations

from monocomp.tile import Expr, TileProgram


def signs(e: Expr, program: TileProgram) -> dict[str, int] | None:
    """Return the axes along which an int rises (1) or falls (-1) by one; None if that is not all it
    does.

    Args:
        e: the int.
        program: what it is computed in.
    """
    if not e.axes:
        return {}
    e = program.meaning(e)
    match e.op:
        case "coordinate":
            return {e.attr: 1}
        case "neg" | "add" | "sub":
            parts = [signs(a, program) for a in e.args]
            if e.op != "add" and parts[-1] is not None:
                parts[-1] = {axis: -sign for axis, sign in parts[-1].items()}
            moving: dict[str, int] = {}
            for part in parts:
                if part is None or not part.keys().isdisjoint(moving):
                    return None
                moving |= part
            return moving
    return None
