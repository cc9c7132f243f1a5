"""The tape of a host program's plan: its kernels, interpreted with tiles without elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch

from monocomp.backends.interpreter import Interpreter
from monocomp.backends.tape.buffers import Buffer, clear
from monocomp.backends.tape.recorder import Recorder, Value, contiguous_strides, needed
from monocomp.backends.tape.softmax import normalised
from monocomp.backends.tape.tape import Tape
from monocomp.backends.tape.tile import Tile, strided
from monocomp.backends.tape.tiles import TapeOps
from monocomp.backends.torch_operations import TorchOps, TorchTarget
from monocomp.host.evaluation import Evaluation
from monocomp.host.interpreting import KernelRun
from monocomp.host.launches import Slices
from monocomp.host.plan import Plan
from monocomp.host.program import HostProgram
from monocomp.host.tensors import Sort
from monocomp.machine.cpu import CPU
from monocomp.tile import Store, TileProgram, walk

_NONE: Mapping[int, Value] = {}
Blocks: TypeAlias = Callable[..., dict[str, int]]
WHOLE = 1 << 62  # of one that need not be computed, as what selects its elements reads them
_ALIGNMENT = 16  # bytes, as the signatures of calls have it


def is_short(program: TileProgram, extents: Mapping[str, int], lengths: Mapping[str, int]) -> bool:
    """Return True if each axis of a kernel is held by one block, but for a few of its grid."""
    counts = {a: -(-extents[a.extent] // lengths.get(n, 1)) for n, a in program.axes.items()}
    cut = {a: n for a, n in counts.items() if n > 1 and a.role != "whole"}
    return all(a.role == "grid" for a in cut) and math.prod(cut.values()) <= CPU.blocks


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a tensor in memory.

    Attributes:
        shape, strides, dtype: its own.
        is_plain: True if it is contiguous and aligned.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    is_plain: bool

    @classmethod
    def of(cls, t: torch.Tensor) -> Layout:
        """Return the layout of a tensor."""
        is_plain = t.is_contiguous() and not t.data_ptr() % _ALIGNMENT
        return cls(tuple(t.shape), t.stride(), t.dtype, is_plain)

    def stand_in(self) -> torch.Tensor:
        """Return a tensor without elements."""
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device="meta")


class RecordingTarget(TorchTarget):
    """Notes what the kernels of a host program do.

    Args:
        kernels: the kernels.
        like: runs them.
        recorder: has a value for each of a call.
        blocks: chooses their lengths.
        known: values of the call that the recorder has in one layout, by their positions.

    Attributes:
        inputs: the values of a call, tensors in one layout, by their positions.
    """

    def __init__(
        self,
        kernels: Sequence[TileProgram],
        like: TorchTarget,
        recorder: Recorder,
        blocks: Blocks,
        known: Mapping[int, Value],
    ) -> None:
        super().__init__(like.device, like.accumulated, like.results)
        self.kernels, self.blocks = kernels, blocks
        self.recorder, self.inputs = recorder, dict(known)
        self.order = {name: rank for rank, name in enumerate(_in_memory_order(kernels))}
        self.ops = self._ops(())

    def _ops(self, axes: Sequence[str]) -> TapeOps:
        done_by = TorchOps(self.device, self.accumulated)
        return TapeOps(self.recorder, done_by, axes, self.order)

    def input(self, position: int, tensor: Layout) -> Tile:
        """Return a tensor that a call gives, in one layout and alignment, so that results do not
        vary."""
        value = self.inputs.get(position)
        if value is None:
            value = self.recorder.input(position, tensor.shape, tensor.dtype)
            if not tensor.is_plain:
                value = self.recorder.copy(value)
            value.strides = contiguous_strides(tensor.shape)
            self.inputs[position] = value
        return Tile(self.ops, value, range(len(tensor.shape)), tensor.shape)

    def param(self, position: int) -> Tile:
        """Return a parameter that a call gives."""
        value = self.inputs.setdefault(position, self.recorder.inputs[position])
        return Tile(self.ops, value, (), ())

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
            if not value.is_whole or value.root in seen:
                held[n] = self.recorder.copy(value), shape
            seen.add(held[n][0].root)
        for value, shape in held:
            if value.strides == contiguous_strides(value.shape):
                yield strided(self.recorder, value, shape, contiguous_strides(shape))
                continue
            run: Callable[..., torch.Tensor] = torch.Tensor.contiguous
            arguments: tuple[Any, ...] = ()
            if value.shape != shape:
                run, arguments = _shaped, (shape,)
            result = self.recorder.step(
                None, run, [value], shape, value.dtype, is_view=True, arguments=arguments
            )
            result.key, result.operands = ("view", tuple(range(len(value.shape))), shape), (value,)
            result.strides = contiguous_strides(shape)
            yield result


def _in_memory_order(kernels: Sequence[TileProgram]) -> list[str]:
    """Return the axes of kernels in the order that they have in tensors, as far as it is one: those
    of a grid first, as others may count what belongs to one of their elements."""
    before: dict[str, set[str]] = {name: set() for k in kernels for name in k.axes}
    for k in kernels:
        grid = {name for name, axis in k.axes.items() if axis.role == "grid"}
        for name in k.axes.keys() - grid:
            before[name] |= grid
    loads = [e.positions for k in kernels for e in k.expressions if e.op == "load"]
    every = [[p.attr for p in at if p.op == "coordinate"] for at in loads]
    every += [[*s.axes] for k in kernels for s in walk(k.body) if isinstance(s, Store)]
    for names in every:
        for n, name in enumerate(names):
            before[name].update(names[:n])
    order: list[str] = []
    while len(order) < len(before):
        waiting = [n for n in before if n not in order]
        order.append(next((n for n in waiting if before[n] <= {n, *order}), waiting[0]))
    return order


def _shaped(t: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Give a tensor a shape, in one layout."""
    return t.contiguous().view(shape)


@dataclass(frozen=True)
class Recording:
    """All that a tape is recorded from, for calls that look alike.

    Attributes:
        host, kernels: the program.
        like: runs the kernels.
        tensors: the inputs of such a call.
        params: the values of its parameters.
        configs, varying: as for `Evaluation`.
        blocks: chooses the lengths of blocks.
    """

    host: HostProgram
    kernels: Sequence[TileProgram]
    like: TorchTarget
    tensors: Mapping[str, Layout]
    params: Mapping[str, Any]
    configs: Sequence[Mapping[str, int]]
    varying: Collection[str]
    blocks: Blocks

    @property
    def count(self) -> int:
        """Return the values of a call."""
        return len(self.tensors) + len(self.params)

    def record(
        self, recorder: Recorder | None = None, known: Mapping[int, Value] = _NONE
    ) -> Record:
        """Record the steps of such a call.

        Args:
            recorder: has recorded another call, of which this one may read values.
            known: those that this one is called with, by their positions.
        """
        recorder = recorder or Recorder(self.count)
        target = RecordingTarget(self.kernels, self.like, recorder, self.blocks, known)
        inputs = {n: t.stand_in() for n, t in self.tensors.items()}
        how = self.params, self.configs, self.varying
        plan = Evaluation(self.host, target, inputs, *how).plan()
        values: list[Any] = [target.input(n, t) for n, t in enumerate(self.tensors.values())]
        values += [target.param(len(values) + n) for n in range(len(self.params))]
        return Record(recorder, target.inputs, [*target.returned(plan(values))])


@dataclass(frozen=True)
class Record:
    """The steps of a call.

    Attributes:
        recorder: has the steps.
        inputs: the values of the call, tensors in one layout, by their positions.
        results: its results.
    """

    recorder: Recorder
    inputs: Mapping[int, Value]
    results: Sequence[Value]


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
) -> tuple[Tape, Recording] | None:
    """Return the tape of a plan, and what it is recorded from; None where one of its kernels would
    make it long."""
    if any(isinstance(s, Slices | Sort) for s in host.body):
        return None
    runs = [(x.run, x.args) for stage in plan.stages for x in stage.launches]
    kernel_runs = [(run, args) for run, args in runs if isinstance(run, KernelRun)]
    tensors = {n: Layout.of(t) for n, t in inputs.items()}
    cuts: list[object] = []
    for most in (WHOLE, CPU.tile):
        lengths = [blocks(run.kernel, run.extents(args), most) for run, args in kernel_runs]
        is_new = lengths not in cuts
        cuts.append(lengths)
        if not is_new or not all(
            is_short(run.kernel, run.extents(args), lengths[n])
            for n, (run, args) in enumerate(kernel_runs)
        ):
            continue
        cut = partial(blocks, elements=most)
        recording = Recording(host, kernels, like, tensors, params, configs, varying, cut)
        record = recording.record()
        own, results = record.recorder.inputs, record.results
        steps, same = normalised(needed(record.recorder.steps, own, results), results)
        tape = Tape(steps, own, [same(v) for v in results], own[len(tensors) :])
        if tape.largest <= CPU.tile:
            return tape, recording
    return None
