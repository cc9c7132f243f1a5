"""Outputs of kernels while a tape is made, and what is written to them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from monocomp.backends.tape.recorder import Shape, Value
from monocomp.backends.tape.tile import NO_DIM, Tile, TileOps


class Buffer:
    """Hold the output of kernels while a tape is made.

    Attributes:
        tile: what it holds, if anything has been written.
        is_own: does it alone hold that?
    """

    def __init__(self, shape: Shape, dtype: torch.dtype) -> None:
        self.shape, self.dtype = shape, dtype
        self.tile: Tile | None = None
        self.is_own = False

    def reshape(self, shape: Shape) -> BufferView:
        """Return a view, in another shape, of its final contents."""
        return BufferView(self, shape)

    def held(self, ops: TileOps, shape: Shape | None = None) -> tuple[Value, Shape]:
        """Return a value that has its elements in their order, and its shape, or another one."""
        shape = self.shape if shape is None else shape
        if self.tile is None:  # no kernel has elements to write
            nothing = torch.empty(shape, dtype=self.dtype, device=ops.ops.device)
            return ops.recorder.constant(object(), nothing), shape
        value, dims = self.tile.value, [d for d in self.tile.dims if d != NO_DIM]
        if dims != sorted(dims) or math.prod(value.shape) != math.prod(self.shape):
            value = ops.whole(self.tile, range(len(self.shape)))
        return value, shape


class BufferView:
    """A buffer in another shape."""

    def __init__(self, buffer: Buffer, shape: Shape) -> None:
        self.buffer, self.shape = buffer, shape

    def held(self, ops: TileOps) -> tuple[Value, Shape]:
        """Return what the buffer holds, and this shape."""
        return self.buffer.held(ops, self.shape)


def store(ops: TileOps, output: Buffer, at: tuple[slice, ...], value: Tile) -> None:
    """Write a tile that has the dimensions of an output."""
    if all(range(n)[s] == range(n) for s, n in zip(at, output.shape, strict=True)):
        output.tile, output.is_own = ops.cast_to(value, output.dtype), False
        return
    made = ops.whole(ops.cast_to(value, output.dtype), range(len(output.shape)))

    def write(t: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        t[at] = v
        return t

    _write(ops, output, write, made)


def scatter(
    ops: TileOps,
    output: Buffer,
    positions: Sequence[Tile],
    value: Tile,
    valid: Tile,
    add: bool,
) -> None:
    """Write, or add, elements at computed positions, as `TorchOps.scatter` does."""
    _, values = ops.aligned([value, valid, *positions])

    def write(t: torch.Tensor, v: Any, ok: Any, *p: Any) -> torch.Tensor:
        ops.ops.scatter(t, p, v, ok, add)
        return t

    _write(ops, output, write, *values)


def clear(ops: TileOps, output: Buffer) -> None:
    """Write 0 to all elements."""
    _write(ops, output, torch.Tensor.zero_)


def _write(ops: TileOps, output: Buffer, write: Callable[..., Any], *values: Value) -> None:
    """Let a function write to an output."""
    shape, dtype, device = output.shape, output.dtype, ops.ops.device
    dims = range(len(shape))
    if output.tile is None:
        held = ops.recorder.step(
            None, lambda: torch.empty(shape, dtype=dtype, device=device), [], shape, dtype
        )
    else:
        held = ops.whole(output.tile, dims)
        held = held if output.is_own else ops.recorder.copy(held)
    made = ops.recorder.step(None, write, [held, *values], shape, dtype, is_view=True)
    made.is_owned = output.is_own = True
    output.tile = Tile(ops, made, dims, shape)
