"""Host programs whose kernels are interpreted: one after the other, as tile programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from monocomp.host.arguments import PROGRAMS
from monocomp.host.evaluation import Evaluation, Target
from monocomp.host.program import HostProgram
from monocomp.tile import TileProgram

Array = Any


def run_plan(
    host: HostProgram,
    target: Target,
    inputs: Mapping[str, Array],
    params: Mapping[str, Any],
    programs: int,
) -> tuple[Array, ...]:
    """The results of a host program whose kernels are interpreted.

    Args:
        host: of `of_tile_program`'s interfaces.
        target: runs its kernels.
        inputs, params: of the call.
        programs: into how many splits streams are cut that are cut at all.
    """
    configs = [{PROGRAMS: programs}] * len(host.kernels)
    return Evaluation(host, target, inputs, params, configs).plan()(
        (*inputs.values(), *params.values())
    )


def launched(kernel: TileProgram, run: Callable[..., None]) -> Callable[..., None]:
    """What runs a kernel for a launch's arguments: they are its inputs, outputs, extents and
    parameters, which `run` takes by name."""
    names = (kernel.inputs, [o.name for o in kernel.outputs], kernel.extents(), kernel.params)

    def call(*given: Any) -> None:
        values = iter(given)
        run(kernel, *({n: next(values) for n in each} for each in names))

    return call
