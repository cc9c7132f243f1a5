"""Fusion and tiling, as steps of the derivation: what a kernel's loops rest on.

The lowering decides which folds one loop carries and where its blocks begin and end; here
the two laws that allow it are written down, with the folds before and the loop after.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from monocomp.rewriting.driver import Step
from monocomp.terms.equations import Equations
from monocomp.tile import Loop, TileProgram, walk
from monocomp.tile.printer import loop_header, show_state

PRODUCT_LAW = "fold(f) x fold(g) = fold(f x g); with one frame, SE(V) x SE(W) = SE(V + W)"
TILING_LAW = "the fold over a disjoint union is the product of the folds"


def tiling_steps(program: Equations, kernels: Sequence[TileProgram]) -> Iterable[Step]:
    """The steps from lifted equations to the loops of the kernels."""
    for kernel in kernels:
        place = [o.name for o in kernel.outputs]
        for loop in (s for s in walk(kernel.body) if isinstance(s, Loop)):
            if not loop.state:
                continue
            if len(loop.folds) > 1:
                before = "; ".join(loop.folds)
                after = f"one pass over {loop.axis.name}: " + ", ".join(map(show_state, loop.state))
                yield Step("fuse_folds", PRODUCT_LAW, tuple(place), before, after, program, program)
            before = f"fold over {loop.axis.name}"
            after = loop_header(loop) + " in blocks"
            yield Step("tile", TILING_LAW, tuple(place), before, after, program, program)
