"""Block programs: one kernel for one way of running it, as data.

    tile program
      | choices     order of dimensions, loads by descriptors, phases of loops, alignment, dtypes:
      |             each decides one thing and records it (`Choices`); without any of them a
      |             program means the same, and tests interpret it after each
      | building    one statement after the other; what has been chosen is written out, and what is
      |             known of arguments is folded by the constructors of `operations`
    block program
      | passes      for dialects that can say so: products beside those of the next block, or each
      |             other (`skew`), instances that claim items (`persist`), blocks in rings of
      |             stages (`pipeline`), a warp of its own that asks for blocks (`specialise`), rows
      |             for each warpgroup (`divide`), and where tiles lie in registers (`place`)
    a printer of a dialect

`masking` has the phases, bounds and masks of loops, chosen and written out, in one room.
`liveness` lists the values that a thread holds at once.

`values`, `statements` and `program` are the data, which print, and `traversal` walks them.
A block program means what its printed source means.
"""

from __future__ import annotations

from monocomp.blocks.program import (
    Argument,
    BlockProgram,
    Function,
    Line,
    Rows,
)
from monocomp.blocks.statements import (
    Access,
    Assign,
    Block,
    Blocks,
    Body,
    Claims,
    Clear,
    Comment,
    Descriptor,
    Drain,
    For,
    Give,
    If,
    Issue,
    Learn,
    Load,
    Meet,
    Origin,
    Pointers,
    Put,
    Range,
    Release,
    Ring,
    Send,
    Serial,
    Skip,
    Statement,
    Static,
    Store,
    Take,
    Tell,
    Turn,
    Wait,
    While,
    Within,
    bodies,
)
from monocomp.blocks.traversal import (
    fresh,
    given,
    inside,
    names_of,
    roots,
    targets,
    walk,
    with_roots,
)
from monocomp.blocks.values import (
    BFLOAT16,
    BOOL,
    FLOAT,
    FLOAT16,
    FLOAT32,
    INDEX,
    INT,
    INT32,
    INT64,
    NONE,
    OF_KIND,
    SMALL_INT,
    UINT32,
    Dtype,
    DtypeKind,
    Expr,
    Layout,
    Reduction,
    Registers,
    renamed,
    subexpressions,
)
