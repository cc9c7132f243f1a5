"""Tiles that tensor descriptors can load: by the copy engine of Hopper and its successors (TMA).

Such a load names the first element of a block, and one thread asks for all of it: no addresses
are computed, and no registers hold them. What is outside of the tensor is 0. So a tile can be
loaded this way if each of its axes moves along a dimension of the tensor, and the other subscripts
are the same for all of the tile. Beside the operands of products such are numbers along a stream,
as a row's statistics are in the gradient of attention: by pointers, each thread would ask for all
that it adds to a product's columns, which others ask for, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from monocomp.blocks import Block
from monocomp.blocks.choices.moving import signs
from monocomp.blocks.choices.operands import Operands
from monocomp.tile import Expr, Let, Loop, Mask, Statement, TileProgram, over

_MOST_DIMENSIONS = 5


def descriptor_loads(program: TileProgram, resident: bool = False) -> dict[str, Block]:
    """Return the blocks that descriptors load, by the load's name: operands of products of matrices
    that loops load, and floats along a stream of these; if operands are to be `resident` in shared
    memory, also operands that are loaded once."""
    operands = Operands(program)
    used = {a.attr for e in program.products if operands.is_product(e) for a in _locals(e, program)}
    apart = {*program.axis_names("row")} - {over(e) for e in program.expressions}
    in_loops, beside = {}, {}
    for s, loops in _loads(program.body, frozenset()):
        block = _block(s.value, program, apart)
        streamed = {a for a in s.value.axes if program.axes[a].role == "stream"}
        if block is None or not streamed <= loops:
            continue
        if len(block.tile) == 1:
            if streamed and program.inputs[block.tensor].kind == "float":
                beside[s.name] = block
        elif s.name in used and (loops or resident):
            in_loops[s.name] = block
    streams = {a for block in in_loops.values() for a in block.tile}
    return in_loops | {n: block for n, block in beside.items() if {*block.tile} <= streams}


def summed_loads(program: TileProgram) -> dict[str, str]:
    """Return the loads whose tiles a product sums along a stream, by name, and the stream: what no
    row admits there would enter as 0 times itself."""
    operands, streams = Operands(program), {*program.axis_names("stream")}
    return {
        a.attr: axis
        for e in program.products
        if operands.is_product(e) and (axis := over(e)) in streams
        for a in _locals(e, program)
    }


def is_dense(loop: Loop) -> bool:
    """True if the domain has all elements between its bounds, so that blocks can lie in it."""
    return not any(isinstance(s, Mask) for s in loop.body)


def _loads(
    body: Sequence[Statement], streams: frozenset[str]
) -> Iterator[tuple[Let, frozenset[str]]]:
    """Yield the loads of a body, each with the axes around it whose loops have such blocks."""
    for s in body:
        if isinstance(s, Loop):
            # A segment without a mask is a loop of its own.
            has_blocks = is_dense(s) or not all(x.masked for x in s.segments)
            inside = streams | {s.axis.name} if has_blocks else streams
            yield from _loads(s.body, inside)
        elif isinstance(s, Let) and s.value.op == "load":
            yield s, streams


def _locals(e: Expr, program: TileProgram) -> Iterator[Expr]:
    """Yield the operands of a product that have names, be they converted or not, and what is
    masked of them."""
    for a in e.args[:2]:
        if a.op == "cast":
            a = a.args[0]
        if a.op == "local":
            yield a
            value = program.meaning(a)
            if value.op == "masked" and value.args[0].op == "local":
                yield value.args[0]


def _block(load: Expr, program: TileProgram, apart: Collection[str]) -> Block | None:
    """Return the block that a load reads. Where it begins elsewhere than its axis it may go on
    where that ends, so that nothing may add up what is beyond: its elements are kept `apart`.
    Its rows begin where their axis does, as 16 bytes divide that."""
    axes: list[str | None] = []
    for position in () if load.guarded else load.args:
        moves = signs(position, program)
        if moves is None or [*moves.values()] not in ([], [1]):
            return None
        axis = next(iter(moves), None)
        if axis is not None and position.op != "coordinate" and axis not in apart:
            return None
        axes.append(axis)
    block = Block(load.attr, tuple(axes))
    is_tile = 1 <= len(block.tile) == len({*block.tile}) <= 2 and len(axes) <= _MOST_DIMENSIONS
    has_rows = is_tile and axes[-1] is not None and load.args[-1].op == "coordinate"
    return block if has_rows else None
