"""Host programs whose kernels are interpreted: one after the other, as tile programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    """Return the results of a host program whose kernels are interpreted.

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


class KernelRun:
    """A function that runs a kernel for a launch's arguments: its inputs, outputs, extents and
    parameters, which `run` takes by name."""

    def __init__(self, kernel: TileProgram, run: Callable[..., None]) -> None:
        self.kernel, self.run = kernel, run
        outputs = [o.name for o in kernel.outputs]
        self.names = (list(kernel.inputs), outputs, kernel.extents(), list(kernel.params))

    def __call__(self, *given: Any) -> None:
        values = iter(given)
        self.run(self.kernel, *({n: next(values) for n in each} for each in self.names))

    def extents(self, args: Sequence[Any]) -> dict[str, int]:
        """Return the sizes among what follows the tensors."""
        return dict(zip(self.names[2], args, strict=False))
