"""Kernels that are interpreted as tile programs, as the launches of host programs call them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from monocomp.tile import TileProgram


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
