"""Gradients of the library's programs on one GPU, bf16, beside eager torch compiled.

Timed are forward and backward together, from the inputs to the gradients of all float inputs,
every float output given a derivative. Memory is the peak of the same, beside what has to be there:
inputs, outputs, and derivatives of both. Errors are taken at a small size, against float64 eager
torch and relative to that of eager torch in bf16; the largest of all gradients is shown: at most 2.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks import errors, gpu, peers
from benchmarks.gpu import Setting
from benchmarks.gpu_floor import CHECKED, FULL, SHORT, SMALL, Case, Full, full_inputs
from benchmarks.peers import DTYPE, OURS, Call, Prepare
from benchmarks.report import Report, table
from tests.backends.library_cases import CASES

COMPILED = "compiled"
LIMIT = 2.0  # errors of gradients over those of eager torch
# Eager torch stores what is quadratic, so lengths are short.
SIZES: Mapping[str, Mapping[str, int]] = {
    "linear_attention": {**SHORT, "q": 4096, "k": 4096},
    "learned_sink": SHORT,
    "differential": SHORT,
    "sigmoid_attention": SHORT,
    "cosine_attention": SHORT,
    "pair_bias": FULL["pair_bias"].sizes,
    "attention_moments": SHORT,
    "kl_divergence": FULL["kl_divergence"].sizes,
    "mla": FULL["mla"].sizes,
    "cross_entropy": FULL["cross_entropy"].sizes,
    "rms_norm": SHORT,
    "taylor_attention": SHORT,
    "attention_jvp": SHORT,
    "talking_heads": FULL["talking_heads"].sizes,
    "layer_norm": {"i": 16384, "k": 4096},
}
# Rows of programs that are asked to keep values, which by themselves they compute again: names.
SAVED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "kl_divergence, logits saved": ("kl_divergence", ("D", "S", "T", "L", "L_2")),
    "cross_entropy, logits saved": ("cross_entropy", ("S", "L", "M")),
}

Function: TypeAlias = Callable[..., tuple[Tensor, ...]]
Inputs: TypeAlias = Mapping[str, Tensor]


@dataclass
class Result(gpu.Contest[Case]):
    """What was found for one program.

    Attributes:
        inputs: bytes of those that are differentiated.
        outputs: bytes of those that have derivatives.
        sizes: of its indices.
    """

    inputs: int
    outputs: int
    sizes: str

    @property
    def needed(self) -> int:
        """Bytes of inputs, outputs and the derivatives of both."""
        return 2 * (self.inputs + self.outputs)

    def peak(self, name: str) -> float:
        """Bytes that are there at the peak of a contender."""
        return 2 * self.inputs + self.outputs + self.outcome.memory.get(name, math.nan)

    def faster(self, name: str) -> float:
        """Times as fast as a contender."""
        return self.outcome.median(name) / self.outcome.median(OURS)

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {
            "name": self.case.name,
            "needed": self.needed,
            "peak": self.peak(OURS),
            "sizes": self.sizes,
            **self.outcome.to_json(),
        }


def moments(Q: Tensor, K: Tensor, V: Tensor) -> tuple[Tensor, Tensor]:
    """Attention's mean and variance, with nothing stored that is cubic."""
    weights = (Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5).softmax(-1)
    mean = weights @ V
    return mean, weights @ V**2 - mean**2


def tangent(
    Q: Tensor, K: Tensor, V: Tensor, dQ: Tensor, dK: Tensor, dV: Tensor
) -> tuple[Tensor, Tensor]:
    """Attention and its derivative, so written that it can be differentiated once more."""
    scale = Q.shape[-1] ** -0.5
    weights = (scale * (Q @ K.transpose(-1, -2))).softmax(-1)
    moved = scale * (dQ @ K.transpose(-1, -2) + Q @ dK.transpose(-1, -2))
    change = weights * (moved - (weights * moved).sum(-1, keepdim=True))
    return weights @ V, change @ V + weights @ dV


PEERS: Mapping[str, Function] = {"attention_moments": moments, "attention_jvp": tangent}


def eager(name: str) -> Function:
    """The same in eager torch."""

    def function(**inputs: Tensor) -> tuple[Tensor, ...]:
        return CASES[name].in_eager_torch(inputs)

    return PEERS.get(name, function)


def gradients(function: Function, inputs: Inputs, cotangents: Sequence[Tensor]) -> Call:
    """What computes the outputs and the gradients of all float inputs."""
    leaves = {n: x.detach().requires_grad_(x.is_floating_point()) for n, x in inputs.items()}
    wanted = [x for x in leaves.values() if x.requires_grad]

    def call() -> tuple[Tensor, ...]:
        found = [x for x in function(**leaves) if x.requires_grad]
        given = [c.to(x.dtype) for c, x in zip(cotangents, found, strict=True)]
        return torch.autograd.grad(found, wanted, given, allow_unused=True)

    return call


def ours(name: str, save: tuple[str, ...] | None) -> Function:
    """Our kernel, of tensors by name."""
    kernel, params = peers.kernel(name, save=save), CASES[name].params

    def function(**inputs: Tensor) -> tuple[Tensor, ...]:
        found = kernel(**inputs, **params)
        return found if isinstance(found, tuple) else (found,)

    return function


def cotangents_of(function: Function, inputs: Inputs) -> list[Tensor]:
    """Random derivatives of the float outputs."""
    outputs = function(**inputs)
    return [torch.randn_like(x, dtype=DTYPE) for x in outputs if x.is_floating_point()]


def error_at_small_size(name: str, save: tuple[str, ...] | None, setting: Setting) -> float:
    """The largest error of a gradient over that of eager torch in bf16."""
    case, full = CASES[name], FULL.get(name, Full())
    lengths = SMALL if setting.rehearse else {**CHECKED, "d": 32, "e": 32}
    inputs = case.inputs({**case.sizes(**lengths), **full.checked}, DTYPE)
    theirs = eager(name)
    wide = {n: t.double() if t.is_floating_point() else t for n, t in inputs.items()}
    given = cotangents_of(theirs, inputs)
    exact = gradients(theirs, wide, given)()
    in_bf16 = gradients(theirs, inputs, given)()
    there = {n: t.to(setting.device) for n, t in inputs.items()}
    found = gradients(ours(name, save), there, [c.to(setting.device) for c in given])()
    worst = 0.0
    for one, rounded, right in zip(found, in_bf16, exact, strict=True):
        if right is None or not bool(right.any()):
            continue
        error = errors.relative_error(rounded, right)
        least = torch.finfo(DTYPE).eps / 4  # eager torch may be right by chance
        worst = max(worst, errors.relative_error(one.cpu(), right) / max(error, least))
    return worst


def run_case(row: str, run: gpu.Run) -> Result:
    """Check, then time."""
    setting = run.setting
    name, save = SAVED.get(row, (row, None))
    error = error_at_small_size(name, save, setting)
    with patch.dict(FULL, {name: replace(FULL.get(name, Full()), sizes=SIZES[name])}):
        inputs = full_inputs(name, setting)
    if name == "cross_entropy":
        inputs["W"] *= inputs["W"].shape[-1] ** -0.5
    function, theirs = ours(name, save), eager(name)
    given = cotangents_of(function, inputs)
    floats = [x for x in inputs.values() if x.is_floating_point()]
    sums = sum(x.nbytes for x in floats), sum(c.nbytes for c in given)

    def compiled() -> Call:
        torch._dynamo.reset()
        fused = torch.compile(theirs, dynamic=False) if setting.device == "cuda" else theirs
        return gradients(fused, inputs, given)

    contenders: dict[str, Prepare] = {
        OURS: lambda: gradients(function, inputs, given),
        COMPILED: compiled,
    }
    outcome = run.hold(contenders, _finite, 1.0, memory=True)
    outcome.errors[OURS] = max(error / LIMIT, outcome.errors.get(OURS, math.inf))
    sizes = " ".join(f"{n}={size}" for n, size in SIZES[name].items())
    result = Result(Case(row), outcome, *sums, sizes)
    gpu.say(" ".join(_row(result)) + f" {outcome.faults}")
    return result


def _finite(found: Sequence[Tensor]) -> float:
    """0, or infinite where an element is not finite or was not written."""
    there = all(bool(x.isfinite().all()) for x in found if x is not None)
    return 0.0 if there else math.inf


def _row(r: Result) -> list[str]:
    peak = [r.peak(n) / gpu.MiB for n in (OURS, COMPILED)]
    times = gpu.numbers([r.outcome.median(n) for n in (OURS, COMPILED)], (".3f", ".3f"))
    memory = gpu.numbers([*peak, r.needed / gpu.MiB], (".0f", ".0f", ".0f"))
    error = gpu.number(r.outcome.errors.get(OURS, math.nan) * LIMIT)
    return [r.case.name, *times, gpu.number(r.faster(COMPILED)), *memory, error]


def tables(setting: Setting) -> Report:
    """The table."""
    run = gpu.Run(setting)
    chosen = setting.select([Case(name) for name in (*SIZES, *SAVED)])
    with patch.dict(os.environ, MONOCOMP_TUNE="0"):
        results = run.each(chosen, lambda case: run_case(case.name, run))
    header = ["", OURS + ", ms", "compiled, ms", "x compiled"]
    header += [OURS + ", MiB", "compiled, MiB", "needed, MiB", "error", "sizes"]
    lines = [
        "Forward and backward of the library's programs, bf16, beside eager torch compiled, "
        f"medians of {setting.rounds} rounds.",
        *run.notes(results),
        "Memory is what is there at the peak; needed are inputs, outputs and the derivatives of "
        "both. The error is the largest of all gradients, relative to that of eager torch in bf16.",
        "",
        table(header, [[*_row(r), r.sizes] for r in results]),
    ]
    return run.report("gpu_library_gradients", lines, results)


if __name__ == "__main__":
    sys.exit(gpu.main(__doc__, tables))
