"""Arranging: from a program in normal form to the equations in kernels that cost least.

Some steps are always taken: those to what has to be stored, to sums that are one, to their order,
and to splits of streams that too few rows share. Between them searches choose: among values that
are stored whole, among those of which only a slice is, and at the end among sums that kernels add
up for others.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from monocomp.declarations.record import record
from monocomp.planning.diagonals import along_diagonals
from monocomp.planning.joined_sums import join_sums
from monocomp.planning.joining import add_up_sums
from monocomp.planning.nested_sums import order_sums
from monocomp.planning.peak import lower_peak
from monocomp.planning.search import Budget, Draft, Move, search
from monocomp.planning.segments import in_segments
from monocomp.planning.splitting import split
from monocomp.planning.storing import (
    store_in_slices,
    store_kept,
    store_running,
    store_values,
)
from monocomp.rewrites.equalities import equalities
from monocomp.rewriting.driver import Rewriter, Step, result_of
from monocomp.terms.equations import Equations


@record()
class Purpose:
    """The use of kernels, beside sizes.

    Attributes:
        processors: how many program instances are to run side by side.
        in_memory: are tiles held in memory, and may have any number of axes?
        adds: may kernels add up in memory what others would compute, in any order?
        matrices: may operands and results of products be stored, or are they computed wherever they
            are needed?
        divides: are groups of rows taken to have the same number of rows?
        narrow: the inputs of 8 bits, with their dtypes.
    """

    processors: int = 1
    in_memory: bool = False
    adds: bool = False
    matrices: bool = True
    divides: bool = True
    narrow: tuple[tuple[str, str], ...] = ()


def arrange(
    program: Equations, sizes: Mapping[str, int], budget: Budget, purpose: Purpose | None = None
) -> Draft:
    """Return the draft of a program that costs least, with the steps to it.

    Args:
        program: equations in normal form; definitions that are not inlined are stored.
        sizes: a number for every extent.
        budget: of each search.
        purpose: what the kernels are for.
    """
    purpose = purpose or Purpose()
    equal = Rewriter(program)
    equal.exhaust(equalities)
    steps: list[Step] = [*equal.steps]
    for settle in (store_kept, store_running, join_sums):
        steps += settle(result_of(program, steps))
    draft = Draft.of(result_of(program, steps), sizes, steps)
    store = partial(store_values, matrices=purpose.matrices)
    draft = search(draft, (along_diagonals, in_segments, store), budget)
    moves: tuple[Move, ...] = (store_in_slices, lower_peak) if purpose.matrices else (lower_peak,)
    draft = search(draft, moves, budget)
    draft = draft.settled(order_sums(draft.program, draft.sizes))
    if purpose.processors > 1:
        narrow = frozenset(name for name, _ in purpose.narrow)
        how = purpose.processors, purpose.divides, narrow
        draft = draft.settled(split(draft.program, draft.sizes, *how))
    if purpose.adds:
        draft = Draft.of(draft.program, draft.sizes, draft.steps)
        draft = search(draft, (add_up_sums,), budget)
    return draft
