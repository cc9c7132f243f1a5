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

import math
from collections.abc import Iterator

from monocomp.costs.cost import ELEMENT_BYTES
from monocomp.costs.counting import elements
from monocomp.costs.roles import after_slices
from monocomp.extents.nominal import planned_sizes
from monocomp.planning.search import TOLERABLE, Draft
from monocomp.planning.slicing import lengths_of_slices, slice_index
from monocomp.rewriting.driver import Step

REASON = "as all of it would take more memory than the results that come later"


def lower_peak(draft: Draft) -> Iterator[list[Step]]:
    """Yield the steps that store the largest value that is no result for slices of an index."""
    program, sizes = draft.program, draft.sizes
    largest = max(draft.stored, key=draft.bytes_of, default=None)
    if largest is None or not draft.memory:
        return
    size = draft.bytes_of(largest)
    outputs = {o.name for o in program.outputs}
    for extent in dict.fromkeys(i.extent for i in largest.indices):
        most = math.inf
        for length in lengths_of_slices(sizes[extent], 1, sizes[extent], 1):  # all there are
            if length > most:
                continue
            step = slice_index(program, [largest.name], extent, length, REASON)
            if step is None:
                break
            if most == math.inf:  # what is computed later, the length does not matter to
                known = planned_sizes(step.program, sizes)
                late = (e for e in after_slices(step.program, known) if e.name in outputs)
                results = ELEMENT_BYTES * sum(elements(e.indices, known) for e in late)
                most = TOLERABLE * results * sizes[extent] / size  # blocks fill up
            if length <= most:
                yield [step]
                break
