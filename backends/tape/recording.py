"""The tape of a host program's plan: its kernels, interpreted with tiles without elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch

from monocomp.backends.interpreter import Interpreter
from monocomp.backends.tape.recorder import Recorder, Value
from monocomp.backends.tape.tape import Tape
from monocomp.backends.tape.tile import Tile
from monocomp.backends.tape.tiles import Buffer, TapeOps
from monocomp.backends.torch_operations import TorchOps, TorchTarget
from monocomp.host.evaluation import Evaluation
from monocomp.host.interpreting import KernelRun
from monocomp.host.plan import Plan
from monocomp.host.program import HostProgram, Slices, Sort
from monocomp.tile import TileProgram

Blocks: TypeAlias = Callable[[TileProgram, Mapping[str, int], int], dict[str, int]]
LARGEST = 1 << 21  # elements of the largest tile: 8 MiB in float32, of which a few live at once
MOST_BLOCKS = 32  # of a kernel's grid
_ALIGNMENT = 16  # bytes, as the signatures of calls have it


def is_short(program: TileProgram, extents: Mapping[str, int], blocks: Blocks) -> bool:
    """Return True if each axis of a kernel is held by one block, but for a few of its grid."""
    lengths = blocks(program, extents, LARGEST)
    counts = {a: -(-extents[a.extent] // lengths.get(n, 1)) for n, a in program.axes.items()}
    cut = {a: n for a, n in counts.items() if n > 1 and a.role != "whole"}
    return all(a.role == "grid" for a in cut) and math.prod(cut.values()) <= MOST_BLOCKS


class RecordingTarget(TorchTarget):
    """Notes what the kernels of a host program do.

    Args:
        kernels: the kernels.
        like: runs them.
        count: of the values of a call.
        blocks: chooses their lengths.
    """

    def __init__(
        self, kernels: Sequence[TileProgram], like: TorchTarget, count: int, blocks: Blocks
    ) -> None:
        super().__init__(like.device, like.accumulated, like.results)
        self.kernels, self.blocks = kernels, blocks
        self.recorder = Recorder(count)
        self.order: dict[str, int] = {}
        self.ops = self._ops(())

    def _ops(self, axes: Sequence[str]) -> TapeOps:
        done_by = TorchOps(self.device, self.accumulated)
        return TapeOps(self.recorder, done_by, axes, self.order)

    def input(self, position: int, tensor: torch.Tensor) -> Tile:
        """A tensor that a call gives, in one layout and alignment, so that results do not vary."""
        value = self.recorder.input(position, tensor)
        if not tensor.is_contiguous() or tensor.data_ptr() % _ALIGNMENT:
            value = self.recorder.copy(value)
        return Tile(self.ops, value, range(tensor.dim()), tensor.shape)

    def param(self, position: int) -> Tile:
        """A parameter that a call gives."""
        return Tile(self.ops, self.recorder.inputs[position], (), ())

    def allocation(self, shape: tuple[int, ...], dtype: torch.dtype) -> Callable[[], Any]:
        return partial(Buffer, shape, dtype)

    def clear(self, tensor: Any) -> None:
        self.ops.clear(tensor)

    def kernel(self, number: int, programs: int) -> Callable[..., object]:
        return KernelRun(self.kernels[number], self._record)

    def _record(
        self,
        program: TileProgram,
        inputs: Mapping[str, Tile | Buffer],
        outputs: Mapping[str, Buffer],
        extents: Mapping[str, int],
        params: Mapping[str, Any],
    ) -> None:
        for name, axis in sorted(program.axes.items(), key=lambda x: x[1].role == "whole"):
            self.order.setdefault(name, len(self.order))
        ops = self._ops(list(program.axes))
        held = {n: t.tile if isinstance(t, Buffer) else t for n, t in inputs.items()}
        tiles = {n: Tile(ops, t.value, t.dims, t.shape) for n, t in held.items() if t is not None}
        lengths = self.blocks(program, extents, LARGEST)
        Interpreter(program, ops, extents, params, lengths).run(tiles, outputs)

    def returned(self, made: Sequence[Any]) -> Iterator[Value]:
        """Return the results of a call, each in memory of its own."""
        seen: set[Value] = set()
        for r in made:
            value, shape = r.held(self.ops)
            if not value.is_owned or value.root in seen:
                value = self.recorder.copy(value)
            seen.add(value.root)
            yield self.recorder.step(
                None, _in_shape(shape), [value], shape, value.dtype, is_view=True
            )


def _in_shape(shape: tuple[int, ...]) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return what gives a tensor a shape, in one layout: no view, so that it may be written to."""
    reshape: Callable[..., torch.Tensor] = torch.ops.aten._unsafe_view.default

    def run(t: torch.Tensor) -> torch.Tensor:
        t = t.contiguous()
        return t if t.shape == shape else reshape(t, shape)

    return run


def recorded(
    host: HostProgram,
    plan: Plan,
    kernels: Sequence[TileProgram],
    like: TorchTarget,
    inputs: Mapping[str, torch.Tensor],
    params: Mapping[str, Any],
    configs: Sequence[Mapping[str, int]],
    varying: Collection[str],
    blocks: Blocks,
) -> Tape | None:
    """The tape of a plan; None where one of its kernels would make it long."""
    if any(isinstance(s, Slices | Sort) for s in host.body):
        return None
    runs = [(x.run, x.args) for stage in plan.stages for x in stage.launches]
    kernel_runs = [(run, args) for run, args in runs if isinstance(run, KernelRun)]
    if not all(is_short(run.kernel, run.extents(args), blocks) for run, args in kernel_runs):
        return None
    target = RecordingTarget(kernels, like, len(inputs) + len(params), blocks)
    again = Evaluation(host, target, inputs, params, configs, varying).plan()
    given: list[Any] = [target.input(n, t) for n, t in enumerate(inputs.values())]
    given += [target.param(len(inputs) + n) for n in range(len(params))]
    return Tape(target.recorder, [*target.returned(again(given))])
