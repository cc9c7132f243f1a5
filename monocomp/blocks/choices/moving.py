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


def is_all_or_none(e: Expr, program: TileProgram) -> bool:
    """True if an int is an extent where a comparison for order holds, and 0 elsewhere: the end of
    an interval of all elements, or of none."""
    if e.op != "where":
        return False
    test, every, none = map(program.meaning, e.args)
    is_ordered = test.op == "compare" and test.attr in ("<", "<=")
    return is_ordered and every.op == "extent" and none.op == "number" and none.attr == 0
