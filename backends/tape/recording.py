"""The tape of a host program's plan: its kernels, interpreted with tiles without elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch

from monocomp.backends.interpreter import Interpreter
from monocomp.backends.tape.buffers import Buffer, clear
from monocomp.backends.tape.recorder import Recorder, Value
from monocomp.backends.tape.tape import Tape
from monocomp.backends.tape.tile import Tile
from monocomp.backends.tape.tiles import TapeOps
from monocomp.backends.torch_operations import TorchOps, TorchTarget
from monocomp.host.evaluation import Evaluation
from monocomp.host.interpreting import KernelRun
from monocomp.host.plan import Plan
from monocomp.host.program import HostProgram, Slices, Sort
from monocomp.tile import Store, TileProgram, walk

Blocks: TypeAlias = Callable[..., dict[str, int]]
LARGEST = 1 << 21  # elements of the largest tile: 8 MiB in float32, of which a few live at once
WHOLE = 1 << 62  # of one that need not be computed, as what selects its elements reads them
MOST_BLOCKS = 32  # of a kernel's grid
_ALIGNMENT = 16  # bytes, as the signatures of calls have it


def is_short(program: TileProgram, extents: Mapping[str, int], lengths: Mapping[str, int]) -> bool:
    """Return True if each axis of a kernel is held by one block, but for a few of its grid."""
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
        self.order = {name: rank for rank, name in enumerate(_in_memory_order(kernels))}
        self.ops = self._ops(())

    def _ops(self, axes: Sequence[str]) -> TapeOps:
        done_by = TorchOps(self.device, self.accumulated)
        return TapeOps(self.recorder, done_by, axes, self.order)

    def input(self, position: int, tensor: torch.Tensor) -> Tile:
        """A tensor that a call gives, in one layout and alignment, so that results do not vary."""
        value = self.recorder.input(position, tensor)
        if not tensor.is_contiguous() or tensor.data_ptr() % _ALIGNMENT:
            value = self.recorder.copy(value)
        value.strides = torch.empty(tensor.shape, device="meta").stride()
        return Tile(self.ops, value, range(tensor.dim()), tensor.shape)

    def param(self, position: int) -> Tile:
        """A parameter that a call gives."""
        return Tile(self.ops, self.recorder.inputs[position], (), ())

    def allocation(self, shape: tuple[int, ...], dtype: torch.dtype) -> Callable[[], Any]:
        return partial(Buffer, shape, dtype)

    def clear(self, tensor: Any) -> None:
        clear(self.ops, tensor)

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
        ops = self._ops(list(program.axes))
        held = {n: t.tile if isinstance(t, Buffer) else t for n, t in inputs.items()}
        tiles = {n: Tile(ops, t.value, t.dims, t.shape) for n, t in held.items() if t is not None}
        lengths = self.blocks(program, extents)
        Interpreter(program, ops, extents, params, lengths).run(tiles, outputs)

    def returned(self, made: Sequence[Any]) -> Iterator[Value]:
        """Return the results of a call, each in memory of its own."""
        held = [r.held(self.ops) for r in made]
        seen: set[Value] = set()
        for n, (value, shape) in enumerate(held):
            if not value.is_owned or value.root in seen:
                held[n] = self.recorder.copy(value), shape
            seen.add(held[n][0].root)
        for value, shape in held:
            run: Callable[..., torch.Tensor] = torch.Tensor.contiguous
            arguments: tuple[Any, ...] = ()
            if value.shape != shape:
                run, arguments = _shaped, (shape,)
            yield self.recorder.step(
                None, run, [value], shape, value.dtype, is_view=True, arguments=arguments
            )


def _in_memory_order(kernels: Sequence[TileProgram]) -> list[str]:
    """Return the axes of kernels in the order that they have in tensors, as far as it is one."""
    before: dict[str, set[str]] = {name: set() for k in kernels for name in k.axes}
    every = [e.positions for k in kernels for e in k.expressions if e.op == "load"]
    every += [s.positions for k in kernels for s in walk(k.body) if isinstance(s, Store)]
    for positions in every:
        names = [p.attr for p in positions if p.op == "coordinate"]
        for n, name in enumerate(names):
            before[name].update(names[:n])
    order: list[str] = []
    while len(order) < len(before):
        waiting = [n for n in before if n not in order]
        order.append(next((n for n in waiting if before[n] <= {n, *order}), waiting[0]))
    return order


def _shaped(t: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Give a tensor a shape, in one layout: itself, as a view could not be written to."""
    return t.contiguous().resize_(shape)


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
    cuts: list[object] = []
    for most in (WHOLE, LARGEST):
        lengths = [blocks(run.kernel, run.extents(args), most) for run, args in kernel_runs]
        is_new = lengths not in cuts
        cuts.append(lengths)
        if not is_new or not all(
            is_short(run.kernel, run.extents(args), lengths[n])
            for n, (run, args) in enumerate(kernel_runs)
        ):
            continue
        target = RecordingTarget(
            kernels, like, len(inputs) + len(params), partial(blocks, elements=most)
        )
        again = Evaluation(host, target, inputs, params, configs, varying).plan()
        given: list[Any] = [target.input(n, t) for n, t in enumerate(inputs.values())]
        given += [target.param(len(inputs) + n) for n in range(len(params))]
        tape = Tape(target.recorder, [*target.returned(again(given))])
        if tape.largest <= LARGEST:
            return tape
    return None
