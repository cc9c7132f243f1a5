"""Rivals: the kernels of a program in several dialects, of which the fastest run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from statistics import median
from typing import Any

import torch

from monocomp.backends.schedules import remembered
from monocomp.backends.schedules.measure import GpuBench
from monocomp.backends.schedules.search import RACE, DoesNotFit
from monocomp.backends.triton.launch import (
    MEASURING,
    Repeated,
    TritonRunner,
    budget_of_calls,
    elements,
    is_capturing,
    is_on_gpu,
)
from monocomp.errors import UnsupportedError
from monocomp.extents.nominal import packed_extents
from monocomp.host.plan import Plan, Ran

_ROUNDS = 5
Results = tuple[torch.Tensor, ...]
Times = Mapping[str, float]  # milliseconds, by dialect


class Rivals:
    """Run a program's kernels in the dialect that is fastest for calls like this one.

    A first call that measures schedules measures dialects, too: each with its best schedules, in
    turns. What comes of it is remembered with the schedules of the first. Where nothing is measured
    the first dialect runs, which takes every kernel and every layout.

    Args:
        runners: one a dialect.
    """

    def __init__(self, runners: Sequence[TritonRunner]) -> None:
        self.first, *self.others = runners

    def run(
        self,
        inputs: Mapping[str, torch.Tensor],
        params: Mapping[str, Any],
        extents: Mapping[str, int],
        varying: Sequence[str],
    ) -> tuple[Ran, Results, Plan | None]:
        """Return what has run, its results, and how to repeat the call."""
        times = self._times(inputs, params, extents) if self.others else {}
        device = next(iter(inputs.values())).device
        fastest = min(times, key=lambda name: times[name], default=None)
        why = _said(times)
        for runner in self.others:
            if runner.dialect.name == fastest:
                try:
                    results, plan = runner(inputs, params, extents, varying)
                except UnsupportedError:
                    why = f"as {fastest} cannot take this layout"
                else:
                    return Ran(fastest, device, why), results, plan
        results, plan = self.first(inputs, params, extents, varying)
        return Ran(self.first.dialect.name, device, why), results, plan

    def _times(
        self,
        inputs: Mapping[str, torch.Tensor],
        params: Mapping[str, Any],
        extents: Mapping[str, int],
    ) -> Times:
        """Return what a call takes in each dialect; nothing where that is not known, nor to be
        measured."""
        if not is_on_gpu(inputs):
            return {}
        budget, tensors = budget_of_calls(), elements(inputs)
        sizes = packed_extents(self.first.program, extents, params)
        situation = self.first.situation(tensors, sizes)
        entry = remembered.entry_for(situation, raced=budget is RACE)
        if entry is not None and entry.dialects:
            return dict(entry.dialects)
        if budget is None or is_capturing(next(iter(inputs.values())).device):
            return {}
        times = self._measured(tensors, params, extents)
        entry = remembered.entry_for(situation)  # of the first, which has been measured
        if entry is not None and times:
            remembered.keep(replace(entry, dialects=tuple(times.items())))
        return times

    def _measured(
        self,
        tensors: Mapping[str, torch.Tensor],
        params: Mapping[str, Any],
        extents: Mapping[str, int],
    ) -> Times:
        """Time the dialects that have a form of the kernels, in turns."""
        timers, wanted = {}, None
        for runner in (self.first, *self.others):
            sizes = packed_extents(runner.program, extents, params)
            bench = GpuBench(Repeated(runner, tensors, params), list(tensors.values()))
            try:
                choice = runner.schedules(tensors, params, sizes)
                with _measuring(tensors):
                    results = bench.outputs(choice)
                    wanted = results if wanted is None else wanted
                    if bench.agree(results, wanted):
                        timers[runner.dialect.name] = bench.timer(choice)
            except (UnsupportedError, DoesNotFit):
                continue
        with _measuring(tensors):
            rounds = [{name: timer() for name, timer in timers.items()} for _ in range(_ROUNDS)]
        return {name: median(each[name] for each in rounds) for name in timers}


@contextmanager
def _measuring(tensors: Mapping[str, torch.Tensor]) -> Iterator[None]:
    """Measure on the device of tensors, alone."""
    with MEASURING, torch.cuda.device_of(next(iter(tensors.values()))):  # type: ignore[no-untyped-call]
        yield


def _said(times: Times) -> str:
    """Say what each dialect takes."""
    return " and ".join(f"{t:.3g} ms in {name}" for name, t in sorted(times.items(), key=_time))


def _time(item: tuple[str, float]) -> float:
    return item[1]
