"""Tile programs: one kernel as data, read by every backend.

    operations     the table of operations: operands, kinds, meaning, cost
    values         axes, and tiles as expressions
    statements     what is done with them
    program        a kernel
    printer        a program as text
    parser         the text as a program
    extrema        which combines are extrema with their positions
    single_uses    a pass that names no value which is used once
    order          a pass that puts reads and sums before products
    split_padding  a pass that holds an axis as two tiles

Everything else of the compiler imports the types from here.
"""

from __future__ import annotations

from monocomp.tile.program import TileProgram
from monocomp.tile.statements import (
    FRAGMENTS,
    OPERAND,
    WHOLE,
    Assign,
    Combine,
    Fold,
    Let,
    Loop,
    Mask,
    Segment,
    Selection,
    State,
    Statement,
    Store,
    Tensor,
    expressions,
    given,
    multiplies,
    names,
    names_read,
    roots,
    walk,
    with_roots,
)
from monocomp.tile.values import (
    Axis,
    Expr,
    Origin,
    Role,
    apply,
    coordinate,
    elements,
    leaves,
    local,
    number,
    over,
    subexpressions,
)
