"""The passes over a tile program that decide what its block program is like, in their order."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from monocomp.blocks import Block
from monocomp.blocks.choices.alignment import Period, align
from monocomp.blocks.choices.descriptors import descriptor_loads, summed_loads
from monocomp.blocks.choices.layouts import Layouts
from monocomp.blocks.choices.needed import needed
from monocomp.blocks.choices.product_dtypes import Product, choose_dtypes
from monocomp.blocks.choices.short_ints import short_ints
from monocomp.blocks.masking.filters import filters
from monocomp.blocks.masking.phases import Phases, loads_in_step, loops_of, peel, unpeeled
from monocomp.declarations.record import record
from monocomp.tile import Expr, Loop, TileProgram

# A descriptor loads the blocks that a phase is of: where all blocks ask, there are none.
PASSES = ("flip", "peel", "list", "choose_loads", "align", "leave_out", "choose_dtypes")


@record()
class Choices:
    """The choices made for one kernel.

    Attributes:
        layouts: the order of dimensions; `flip` turns some loads round.
        by_descriptor: the loads that descriptors make, by name: `choose_loads`.
        summed: the streams along which products sum them, by load, where no other load could
            leave out what is not to be there.
        loops: for each loop, the loops that it is split into, in order.
        phases: how each of these runs: `peel`.
        maps: the filters, as kernels, of loops whose blocks a map lists: `list`.
        needed: comparisons of rows that hold where a loop's results are needed: `leave_out`.
        periods: the positions of blocks that lie in periods: `align`.
        products: how each product of matrices is done: `choose_dtypes`.
        short: masked ints that are folded in the bits of an index, by the same pass.
    """

    layouts: Layouts
    by_descriptor: Mapping[str, Block]
    summed: Mapping[str, str]
    loops: Mapping[Loop, tuple[Loop, ...]]
    phases: Mapping[Loop, Phases]
    maps: Mapping[Loop, TileProgram]
    needed: Mapping[Loop, tuple[Expr, ...]]
    periods: Mapping[Expr, Period]
    products: Mapping[Expr, Product]
    short: frozenset[Expr]


def choose(
    program: TileProgram,
    passes: Collection[str] = PASSES,
    resident: bool = False,
) -> Choices:
    """Run passes.

    Args:
        program: the kernel.
        passes: those to run: a program means the same without any of them.
        resident: do descriptors load what is loaded once, too, and run ahead of products?
    """
    layouts = Layouts(program, "flip" in passes)
    peeled = "peel" in passes
    loops = {s: loops_of(s) for s in program.loops}
    each = [loop for found in loops.values() for loop in found]
    loads = descriptor_loads(program, resident) if "choose_loads" in passes else {}
    by_descriptor = loads_in_step(each, layouts, loads, resident)
    phases = peel(each, layouts, by_descriptor, resident) if peeled else unpeeled(each, layouts)
    maps = filters(program, loops) if "list" in passes and not resident else {}
    for loop in maps:
        phases[loop] = replace(phases[loop], form="listed", apart=(), asks=False)
    asked = needed(program) if "leave_out" in passes else {}
    periods = align(program, phases) if "align" in passes else {}
    products, short = choose_dtypes(program, layouts), short_ints(program)
    if "choose_dtypes" not in passes:
        products, short = dict.fromkeys(products, Product()), frozenset()
    return Choices(
        layouts=layouts,
        by_descriptor=by_descriptor,
        summed=summed_loads(program) if resident else {},
        loops=loops,
        phases=phases,
        maps=maps,
        needed=asked,
        periods=periods,
        products=products,
        short=short,
    )
