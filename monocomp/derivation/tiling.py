"""Fusion and tiling, as steps of the derivation: what a kernel's loops rest on.

The lowering decides which folds one loop carries and where its blocks begin and end; here
the two laws that allow it are written down, with the folds before and the loop after.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from monocomp.display.formulas import listed, words
from monocomp.rewriting.driver import Step
from monocomp.rewriting.rules import stated
from monocomp.terms.equations import Equations
from monocomp.tile import Loop, TileProgram, walk
from monocomp.tile.printer import loop_header, show_state


def tiling_steps(program: Equations, kernels: Sequence[TileProgram]) -> Iterable[Step]:
    """Return the steps from lifted equations to the loops of the kernels."""
    for kernel in kernels:
        place = [o.name for o in kernel.outputs]
        for loop in (s for s in walk(kernel.body) if isinstance(s, Loop)):
            if not loop.state:
                continue
            if len(loop.folds) > 1:
                yield fuse_folds(program, place, loop)
            yield tile(program, place, loop)


@stated
def fuse_folds(program: Equations, place: Sequence[str], loop: Loop) -> Step:
    """One loop carries several folds.

    Law:     fold(f) x fold(g) = fold(f x g); with one frame, SE(V) x SE(W) = SE(V + W)
    Claims:  the monoids of its folds
    """
    after = f"one pass over {loop.axis.name}: " + ", ".join(map(show_state, loop.state))
    return Step.of("fuse_folds", place, listed(loop.folds), words(after), program, program)


@stated
def tile(program: Equations, place: Sequence[str], loop: Loop) -> Step:
    """Let a loop go over its index in blocks.

    Law:     the fold over a disjoint union is the product of the folds
    Claims:  the monoids of its folds
    """
    before = words(f"fold over {loop.axis.name}")
    after = words(f"{loop_header(loop)} in blocks")
    return Step.of("tile", place, before, after, program, program)
