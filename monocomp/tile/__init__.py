"""Tile programs: one kernel as data, read by every backend.

    operations     the table of operations: operands, kinds, meaning, cost
    program        the data types, and their grammar
    printer        a program as text
    parser         the text as a program
    extrema        which combines are extrema with their positions
    verifier       what holds of every program
    single_uses    a pass that names no value which is used once
    order          a pass that puts reads and sums before products
    split_padding  a pass that holds an axis as two tiles

Everything else of the compiler imports the types from here.
"""

from __future__ import annotations

from monocomp.tile.program import (
    OPERAND,
    WHOLE,
    Assign,
    Axis,
    Combine,
    Expr,
    Fold,
    Let,
    Loop,
    Mask,
    Origin,
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
    leaves,
    local,
    names,
    number,
    over,
    roots,
    subexpressions,
    walk,
    with_roots,
)
