"""Launches of kernels in Gluon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from monocomp.backends.gluon.emit import GluonSource
from monocomp.backends.triton.launch import load
from monocomp.blocks.program import Argument, Block

_ELEMENTS = {torch.bfloat16: gl.bfloat16, torch.float16: gl.float16}


@dataclass(frozen=True)
class Launch:
    """A kernel with what it is given.

    Attributes:
        source: the kernel.
        tensors: inputs and outputs by name; what descriptors load is of 16 bits, without gaps.
        extents, params: sizes and parameter values.
        lengths: block lengths by axis: 64 rows for each four warps.
        stages: how many blocks of a stream are in shared memory at a time.
        warps: of those that compute.
    """

    source: GluonSource
    tensors: Mapping[str, torch.Tensor]
    extents: Mapping[str, int]
    params: Mapping[str, Any]
    lengths: Mapping[str, int]
    stages: int = 2
    warps: int = 8

    @property
    def function(self) -> Any:
        """The kernel, loaded."""
        return getattr(load(self.source.text), self.source.program.name)

    @property
    def args(self) -> list[Any]:
        """The arguments, in order."""
        return list(map(self._argument, self.source.program.arguments))

    @property
    def programs(self) -> int:
        """How many program instances there are."""
        grid = self.source.program.grid
        lengths = (self.lengths[a.name] if a.role == "row" else 1 for a in grid)
        sizes = (self.extents[a.extent] for a in grid)
        return prod(-(-size // length) for size, length in zip(sizes, lengths, strict=True))

    def __call__(self) -> None:
        """Run the kernel."""
        self.function[(self.programs,)](*self.args, num_warps=self.warps)

    def _argument(self, a: Argument) -> Any:
        match a.purpose:
            case "pointer":
                return self.tensors[a.of]
            case "descriptor":
                return self._descriptor(self.source.program.blocks[a.dim])
            case "stride":
                return self.tensors[a.of].stride(a.dim)
            case "size":
                return self.extents[a.of]
            case "stages":
                return self.stages
            case "warps":
                return self.warps
            case "param":
                return self.params[a.of]
            case "block":
                return self.lengths[a.of]
            case "even":
                extent = self.source.program.axes[a.of].extent
                return self.extents[extent] % self.lengths[a.of] == 0
        return {"INDEX": gl.int32, "STEP": 1, "ABREAST": 1, "FAST": False}.get(a.of)

    def _descriptor(self, block: Block) -> TensorDescriptor:
        tensor = self.tensors[block.tensor]
        shape = [1 if axis is None else self.lengths[axis] for axis in block.axes]
        layout = gl.NVMMASharedLayout.get_default_for(shape, _ELEMENTS[tensor.dtype])
        return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), shape, layout)
