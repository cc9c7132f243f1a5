"""Arranging: from a program in normal form to the equations in kernels that cost least.

Some steps are always taken: those to what has to be stored, to sums that are one, and at the end to
their order. Between them two searches choose: first among values that are stored whole, then among
those of which only a slice is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from monocomp.planning.diagonals import along_diagonals
from monocomp.planning.joined_sums import join_sums
from monocomp.planning.nested_sums import order_sums, store_partial_sum
from monocomp.planning.peak import lower_peak
from monocomp.planning.random_filters import choose_elements
from monocomp.planning.search import Budget, Draft, Move, search
from monocomp.planning.segments import in_segments
from monocomp.planning.storing import (
    store_in_slices,
    store_kept,
    store_running,
    store_values,
    store_vectors,
)
from monocomp.rewrites.equalities import equalities
from monocomp.rewriting.driver import Rewriter, Step, result_of
from monocomp.terms.equations import Equations

WHOLE: tuple[Move, ...] = (along_diagonals, in_segments, store_values, store_partial_sum)
IN_SLICES: tuple[Move, ...] = (store_in_slices, lower_peak)
COMPUTING = (
    tuple(store_vectors if move is store_values else move for move in WHOLE),
    (lower_peak,),
)


def arrange(
    program: Equations, sizes: Mapping[str, int], budget: Budget, *, matrices: bool = True
) -> Draft:
    """Return the draft of a program that costs least, with the steps to it.

    Args:
        program: equations in normal form; definitions that are not inlined are stored.
        sizes: a number for every extent.
        budget: of each search.
        matrices: may operands and results of products be stored, or are they computed wherever they
            are needed?
    """
    equal = Rewriter(program)
    equal.exhaust(equalities)
    steps: list[Step] = [*equal.steps]
    for settle in (store_kept, store_running, choose_elements, join_sums):
        steps += settle(result_of(program, steps))
    draft = Draft.of(result_of(program, steps), sizes, steps)
    for moves in (WHOLE, IN_SLICES) if matrices else COMPUTING:
        draft = search(draft, moves, budget)
    ordered = [*order_sums(draft.program, draft.sizes)]  # which costs the same
    program = result_of(draft.program, ordered)
    return replace(draft, program=program, steps=(*draft.steps, *ordered))
