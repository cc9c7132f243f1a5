"""Peaks: what is stored between kernels takes no more memory than results that come after it.

The sums along diagonals of a learned bias's gradient are as many as several tensors of keys. Of
some heads at a time they are fewer, and these are given back before results are allocated:

    for each slice of h:
        E[h,j,x,y] = ...
        dR[h,r]    = sum[y](E[h,...])
    free E
    dK[h,k,d], dV[h,k,e] = ...

So the peak is that of inputs and results. Few slices have to do, and cost next to no time.
"""

from __future__ import annotations

from collections.abc import Mapping

from monocomp.costs.cost import ELEMENT_BYTES, STORED_BYTES
from monocomp.costs.counting import elements, tensor_sizes
from monocomp.costs.holding import time_of
from monocomp.costs.operands import stored_operands
from monocomp.costs.roles import after_slices
from monocomp.planning.slicing import lengths_of_slices, slice_index
from monocomp.planning.storing import TOLERABLE
from monocomp.rewriting.driver import Step
from monocomp.terms.equations import Equation, Equations

SHARE = 0.05  # of inputs and outputs, which a peak may exceed
REASON = "as all of it would take more memory than the results that come later"


def lower_peak(program: Equations, sizes: Mapping[str, int]) -> tuple[Equations, list[Step]]:
    """Store the largest value that is no result for slices of an index, if that saves memory.

    Args:
        program: equations in kernels.
        sizes: a number for every extent.

    Returns:
        The program with slices, and the step to it, if there is one.
    """
    outputs = {o.name for o in program.outputs}
    narrow = stored_operands(program)

    def size(e: Equation) -> int:
        width = ELEMENT_BYTES if e.name in outputs | narrow else STORED_BYTES
        return elements(e.indices, sizes) * width

    stored = [e for e in program.computed if e.name not in outputs and e.name not in program.views]
    largest = max(stored, key=size, default=None)
    most = SHARE * ELEMENT_BYTES * sum(tensor_sizes(program, sizes))
    if largest is None or size(largest) <= most:
        return program, []
    whole = time_of(program, sizes)
    for extent in dict.fromkeys(i.extent for i in largest.indices):
        for length in lengths_of_slices(sizes[extent], 1, sizes[extent], 1):  # all there are
            step = slice_index(program, [largest.name], extent, length, REASON)
            if step is None or step.program.slices is None:
                break
            known = {**sizes, step.program.slices.part: length}
            after = after_slices(step.program, known)
            later = sum(size(e) for e in after if e.name in outputs)
            if size(largest) * length > TOLERABLE * later * sizes[extent]:  # blocks fill up
                continue
            if time_of(step.program, sizes) <= TOLERABLE * whole:
                return step.program, [step]
            break
    return program, []
