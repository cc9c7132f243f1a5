"""Side inputs in float32 beside the same in bfloat16, on one GPU: forward and backward in turn.

A side input is one that no contraction multiplies: slopes, sinks, biases, scales, the logarithms of
sums. Matrices are bfloat16. With side inputs in float32 results must have the same dtypes and take
at most 1.05 times as long. First both are compared on the same numbers.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks import errors, gpu, peers
from benchmarks.gpu import Setting
from benchmarks.gpu_floor import REHEARSED
from benchmarks.peers import DTYPE, OURS, Call
from benchmarks.report import Report, table
from monocomp import library
from monocomp.checking.sizes import complete_extents

LIMIT = 1.05  # times that bfloat16 takes
CLOSE = 1e-2  # what results in bfloat16 may differ by, relative to the largest
WIDE, NARROW = f"{OURS}, float32", f"{OURS}, bfloat16"
LENGTHS = {"b": 2, "h": 16, "q": 4096, "k": 4096, "d": 128, "e": 128}
# Sizes that are not those, and the dtypes of what is no bfloat16.
MORE: Mapping[str, Mapping[str, int]] = {
    "fp8_attention": {"i": 32, "j": 32},
    "fp8_cache": {"b": 32, "p": 8192, "s": 16, "n": 256, "g": 4, "q": 16},
    "int8_cache": {"b": 32, "g": 4, "q": 16},
}
STORED = {
    "fp8_attention": dict.fromkeys("QKV", torch.float8_e4m3fn),
    "fp8_cache": dict.fromkeys("KV", torch.float8_e4m3fn),
    "int8_cache": dict.fromkeys("KV", torch.int8),
}

Inputs: TypeAlias = Mapping[str, Tensor]


@dataclass(frozen=True)
class Case:
    """A program, forward or backward."""

    name: str
    phase: str

    @property
    def words(self) -> tuple[str, str]:
        """What `--only` is compared with."""
        return self.name, self.phase


class Result(gpu.Contest[Case]):
    """What was found for one program."""

    @property
    def ratio(self) -> float:
        """The time with side inputs in float32 over that with them in bfloat16."""
        return self.outcome.median(WIDE) / self.outcome.median(NARROW)

    @property
    def right(self) -> bool:
        """Are results right, of the right dtypes, and as fast as they should be?"""
        is_fast = math.isnan(self.ratio) or self.ratio <= LIMIT or gpu.unavailable() is not None
        worst = max(self.outcome.errors.values(), default=math.inf)
        return not self.outcome.faults and worst <= CLOSE and is_fast

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {"words": self.case.words, "ratio": self.ratio, **self.outcome.to_json()}


def side_inputs(name: str) -> tuple[str, ...]:
    """Return the side inputs that a library program declares."""
    return peers.kernel(name).declared.side


def cases() -> Iterator[Case]:
    """Yield forward and backward of programs; floats of 8 bits have no gradients."""
    for name in filter(side_inputs, library.names()):
        yield Case(name, "forward")
        if torch.float8_e4m3fn not in STORED.get(name, {}).values():
            yield Case(name, "backward")


def inputs_of(name: str, setting: Setting) -> dict[str, Tensor]:
    """Return inputs in bfloat16, or as they are stored."""
    equations = peers.kernel(name).equations
    most = REHEARSED if setting.rehearse else max(LENGTHS.values())
    free = {n for i in equations.declared.inputs.values() for n in i.dims}
    lengths = {**LENGTHS, **MORE.get(name, {})}
    if setting.rehearse and name == "fp8_cache":
        lengths |= {"n": REHEARSED, "s": 1}
    given = {n: min(size, most) for n, size in lengths.items() if n in free}
    extents = complete_extents(equations, given, {})
    torch.manual_seed(3)
    made = {}
    for n, i in equations.declared.inputs.items():
        shape, device = [extents[d] for d in i.dims], setting.device
        if i.kind == "float":
            x = torch.randn(shape, device=device)
            made[n] = x.to(DTYPE).to(STORED.get(name, {}).get(n, DTYPE))
        elif n in STORED.get(name, {}):
            made[n] = torch.randint(-99, 100, shape, device=device, dtype=torch.int8)
        elif n == "length":
            made[n] = torch.full(shape, extents.get("k", most), device=device)
        else:
            made[n] = torch.randint(0, extents.get("p", 1), shape, device=device)
    return made


def call_of(case: Case, inputs: Inputs) -> Call:
    """Return what runs a phase: the gradients are those of all inputs of floats."""
    kernel = peers.kernel(case.name)

    def forward(given: Inputs) -> tuple[Tensor, ...]:
        found = kernel(**given)
        return found if isinstance(found, tuple) else (found,)

    if case.phase == "forward":
        return lambda: forward(inputs)
    leaves = {n: x.detach().requires_grad_(x.is_floating_point()) for n, x in inputs.items()}
    wanted = [x for x in leaves.values() if x.requires_grad]
    results = forward(leaves)
    torch.manual_seed(4)
    given = [torch.randn(x.shape, device=x.device).to(DTYPE).to(x.dtype) for x in results]
    return lambda: torch.autograd.grad(results, wanted, given, retain_graph=True)


def run_case(case: Case, run: gpu.Run) -> Result:
    """Compare the results, then time both."""
    narrow, side = inputs_of(case.name, run.setting), side_inputs(case.name)
    wide = {n: x.float() if n in side else x for n, x in narrow.items()}
    right = [x.float() for x in call_of(case, narrow)()]
    found = [x.dtype for x in call_of(case, wide)()]
    wanted = [x.dtype for x in wide.values() if x.is_floating_point()]
    if found != wanted if case.phase == "backward" else found[0] is not DTYPE:
        raise ValueError(f"results are {found}")

    def error(found: Sequence[Tensor]) -> float:
        return max(map(errors.relative_error, found, right))

    contenders = {WIDE: lambda: call_of(case, wide), NARROW: lambda: call_of(case, narrow)}
    result = Result(case, run.hold(contenders, error, CLOSE))
    gpu.say(" ".join(_row(result)) + f" {result.outcome.faults}")
    return result


def _row(r: Result) -> list[str]:
    times = gpu.numbers([r.outcome.median(n) for n in (WIDE, NARROW)], (".3f", ".3f"))
    worst = max(r.outcome.errors.values(), default=math.nan)
    return [*r.case.words, *times, gpu.number(r.ratio, ".3f"), gpu.number(worst, ".0e")]


def tables(setting: Setting) -> Report:
    """Return the table."""
    run = gpu.Run(setting)
    with patch.dict(os.environ, MONOCOMP_TUNE="0"):
        results = run.each(setting.select(list(cases())), lambda case: run_case(case, run))
    ratios = [r.ratio for r in results if r.ratio > 0]
    header = ["", "", "float32, ms", "bfloat16, ms", "ratio", "difference"]
    lines = [
        f"Side inputs in float32 and in bfloat16, medians of {setting.rounds} rounds in turn.",
        *run.notes(results),
        "",
        table(header, map(_row, results)),
    ]
    if ratios:
        mean, worst = gpu.geometric_mean(ratios), max(ratios)
        lines += ["", f"geometric mean {mean:.3f}, largest {worst:.3f}, at most {LIMIT} wanted"]
    return run.report("gpu_side_inputs", lines, results)


if __name__ == "__main__":
    sys.exit(gpu.main(__doc__, tables))
