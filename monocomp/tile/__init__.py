"""Tile programs: one kernel as data, read by every backend.

    program     the data types, and their grammar
    printer     a program as text

Everything else of the compiler imports the types from here.
"""

from __future__ import annotations

from monocomp.tile.program import (
    WHOLE,
    Assign,
    Axis,
    Combine,
    Expr,
    Fold,
    Let,
    Loop,
    Mask,
    OutputTensor,
    Role,
    Segment,
    Selection,
    State,
    Statement,
    Store,
    Tensor,
    TileProgram,
    apply,
    elements,
    expressions,
    local,
    number,
    over,
    roots,
    subexpressions,
    walk,
)

__all__ = [
    "WHOLE",
    "Assign",
    "Axis",
    "Combine",
    "Expr",
    "Fold",
    "Let",
    "Loop",
    "Mask",
    "OutputTensor",
    "Role",
    "Segment",
    "Selection",
    "State",
    "Statement",
    "Store",
    "Tensor",
    "TileProgram",
    "apply",
    "elements",
    "expressions",
    "local",
    "number",
    "over",
    "roots",
    "subexpressions",
    "walk",
]
