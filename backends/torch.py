"""The torch backend: the tile program on torch tensors, on any device.

It holds blocks, never what the derivation removed, so its memory is the inputs, the
outputs and a few tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from monocomp.backends.block_lengths import default_blocks
from monocomp.backends.interpreter import Interpreter
from monocomp.backends.tape.recording import Recording, recorded
from monocomp.backends.tape.sharing import shared
from monocomp.backends.tape.source import NotRecorded
from monocomp.backends.torch_operations import TorchOps, TorchTarget
from monocomp.host.arguments import PROGRAMS
from monocomp.host.evaluation import Evaluation
from monocomp.host.interpreting import KernelRun
from monocomp.host.plan import Ran, Repeat
from monocomp.host.program import HostProgram
from monocomp.host.tensors import Promote
from monocomp.machine.cpu import CPU
from monocomp.tile import TileProgram

_is_cast = torch._C._is_any_autocast_enabled


class _Target(TorchTarget):
    """Runs kernels one after the other, for host programs."""

    def __init__(
        self,
        host: HostProgram,
        kernels: Sequence[TileProgram],
        inputs: Mapping[str, torch.Tensor],
        results: torch.dtype | None,
        checked: bool,
    ) -> None:
        device = next((t.device for t in inputs.values()), torch.device("cpu"))
        super().__init__(device, accumulated(host, inputs), results)
        self.kernels, self.checked = kernels, checked

    def kernel(self, number: int, programs: int) -> Callable[..., object]:
        run_one = partial(run, dtype=self.accumulated, checked=self.checked)
        return KernelRun(self.kernels[number], run_one)


class Repeated:
    """Repeat a call as its plan does, or the tape that this comes to.

    Args:
        device: that of the inputs.
        run: computes the results.
        recording: what the tape is recorded from, if it is one.
    """

    __slots__ = ("device", "ran", "recording", "run")

    def __init__(
        self,
        device: torch.device,
        run: Callable[..., tuple[torch.Tensor, ...]],
        recording: Recording | None = None,
    ) -> None:
        self.device, self.run, self.recording = device, run, recording
        self.ran = Ran("torch", device)

    def __call__(self, values: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """Return the results for inputs and parameters, in their order."""
        if _is_cast():
            with torch.autocast(self.device.type, enabled=False):
                return self(values)
        return self.run(*values)


def sharing(
    call: Repeat, backward: Repeat, sources: Sequence[int], count: int
) -> tuple[Repeated, Repeated, int] | None:
    """Return repeats of a call and of its backward pass that share values, and how many they share;
    None if they share nothing (`tape.sharing.shared`).

    Args:
        sources: for each value of the backward pass where it is among the values of the call and
            then its results; -1 for one that is not.
        count: of the results that the call still returns.
    """
    if not (isinstance(call, Repeated) and isinstance(backward, Repeated)):
        return None
    if call.recording is None or backward.recording is None:
        return None
    tapes = shared(call.recording, backward.recording, sources, count)
    if tapes is None:
        return None
    first, second, values = tapes
    return (
        Repeated(call.device, first.run, call.recording),
        Repeated(call.device, second.run, backward.recording),
        values,
    )


def repeated(
    host: HostProgram,
    kernels: Sequence[TileProgram],
    inputs: Mapping[str, torch.Tensor],
    params: Mapping[str, Any],
    programs: int,
    *,
    varying: Collection[str] = (),
    results: torch.dtype | None = None,
    checked: bool = False,
) -> Repeated:
    """Make a `Repeated` that computes the results of a host program for calls that look alike.

    Args:
        programs: number of splits of each stream that is cut.
        varying: the parameters whose values are left open.
        results: the dtype of float results, as `TorchTarget` says.
        checked: test computed subscripts.
    """
    target = _Target(host, kernels, inputs, results, checked)
    configs = [{PROGRAMS: programs}] * len(kernels)
    plan = Evaluation(host, target, inputs, params, configs, varying).plan()
    if not checked:
        blocks = partial(default_blocks, has_own_loops=False)
        taped = recorded(host, plan, kernels, target, inputs, params, configs, varying, blocks)
        if taped is not None:
            tape, recording = taped
            return Repeated(target.device, tape.run, recording)

    def run(*values: Any) -> tuple[torch.Tensor, ...]:
        with NotRecorded():
            return plan(values)

    return Repeated(target.device, run)


def accumulated(host: HostProgram, inputs: Mapping[str, torch.Tensor]) -> torch.dtype:
    """Return the dtype of sums: float64 where an input has it that decides that of products."""
    deciding = (n for s in host.body if isinstance(s, Promote) for n in s.tensors)
    is_wide = any(inputs[n].dtype == torch.float64 for n in deciding)
    return torch.float64 if is_wide else torch.float32


def run_all(
    host: HostProgram,
    kernels: Sequence[TileProgram],
    inputs: Mapping[str, torch.Tensor],
    params: Mapping[str, Any],
    programs: int,
    *,
    results: torch.dtype | None = None,
    checked: bool = False,
) -> tuple[torch.Tensor, ...]:
    """Return the results of a host program, as `numpy.run_all` does.

    Args:
        results: the dtype of float results, as `TorchTarget` says.
        checked: test computed subscripts.
    """
    run = repeated(host, kernels, inputs, params, programs, results=results, checked=checked)
    return run((*inputs.values(), *params.values()))


def run(
    program: TileProgram,
    inputs: Mapping[str, torch.Tensor],
    outputs: Mapping[str, torch.Tensor],
    extents: Mapping[str, int],
    params: Mapping[str, Any],
    *,
    dtype: torch.dtype,
    checked: bool = False,
) -> None:
    """Run one kernel on torch tensors, with sums in this dtype; `outputs` are filled in place."""
    ops = TorchOps(next(iter(outputs.values())).device, dtype)
    blocks = default_blocks(program, extents, CPU.interpreted)
    with torch.no_grad():
        Interpreter(program, ops, extents, params, blocks, checked).run(inputs, outputs)
