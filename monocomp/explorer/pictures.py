"""The pictures by their names, for a kernel at given sizes."""

from __future__ import annotations

from collections.abc import Callable

from monocomp.declarations import by_representative
from monocomp.errors import UsageError, did_you_mean
from monocomp.explorer.bracketings import bracketings
from monocomp.explorer.roofline import roofline
from monocomp.explorer.timeline import timeline
from monocomp.explorer.touched import tiles
from monocomp.stages import Stages


def _bracketings(stages: Stages) -> str:
    return bracketings(stages.plan, stages.kernel.derivation.certify())


def _tiles(stages: Stages) -> str:
    return tiles(stages.plan, by_representative(stages.kernel.declared, stages.extents))


def _roofline(stages: Stages) -> str:
    sizes = by_representative(stages.kernel.declared, stages.extents)
    return roofline(stages.plan.derivation, sizes)


def _timeline(stages: Stages) -> str:
    plan, schedule = stages.plan, stages.schedules[0]
    chosen = dict(schedule.blocks)
    lengths: dict[str, int] = {}
    for kernel in plan.kernels:
        for axis in kernel.axes.values():
            if axis.role in ("row", "stream", "whole"):
                size = plan.sizes.get(axis.extent, 64)
                lengths.setdefault(axis.name, chosen.get(axis.name, min(size, 64)))
    return timeline(stages.blocks, lengths, schedule.num_stages)


PICTURES: dict[str, tuple[str, Callable[[Stages], str]]] = {
    "bracketings": ("one aggregate as a stream, a tree, split streams and a ring", _bracketings),
    "tiles": ("which tiles a filter touches: full, in part, empty", _tiles),
    "roofline": ("the program under the roofs of the cost model", _roofline),
    "timeline": ("loads and products of a block program's loop", _timeline),
}


def picture(stages: Stages, name: str) -> str:
    """A picture as SVG.

    Raises:
        UsageError: there is none of this name, or the program has nothing to show in it.
    """
    if name not in PICTURES:
        raise UsageError(
            f"there is no picture {name!r}",
            notes=[f"pictures: {', '.join(PICTURES)}"],
            help=did_you_mean(name, PICTURES),
        )
    return PICTURES[name][1](stages)
