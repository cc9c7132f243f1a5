"""The cross-entropy of a linear layer over a large vocabulary, forward, on one GPU.

The loss alone, and the library's program with its five statistics, beside eager torch, the same
compiled, and Liger's fused loss where `liger_kernel` is installed (its forward pass without
gradients). Memory is what a call takes at its peak beside its inputs and its first output. The
error is that of some tokens' losses against float32 eager torch, relative to eager torch in bf16.
"""

from __future__ import annotations

import importlib
import math
import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmarks import gpu
from benchmarks.gpu import DTYPE, OURS, Call, Prepare, Setting
from benchmarks.report import Report, table

STATISTICS, LIGER = f"{OURS}, 5 statistics", "Liger"
PEERS = ("eager", "compiled", LIGER)
CHECKED = 256  # tokens

LOSS = """
input X[t,d], W[v,d], label[t]: int

S[t,v]  = X[t,d] * W[v,d]
loss[t] = logsumexp[v](S[t,v]) - S[t,label[t]]
return loss: float32
"""


@dataclass(frozen=True)
class Case:
    """Sizes."""

    tokens: int
    hidden: int
    vocabulary: int

    @property
    def words(self) -> tuple[str, str, str]:
        """What `--only` is compared with."""
        return f"T={self.tokens}", f"D={self.hidden}", f"V={self.vocabulary}"

    @property
    def operations(self) -> int:
        """Of the linear layer."""
        return 2 * self.tokens * self.hidden * self.vocabulary


def cases(setting: Setting) -> list[Case]:
    """The cases of a run."""
    if setting.rehearse:
        return setting.select([Case(24, 32, 80)])
    found = [Case(8192, 4096, 131072), Case(4096, 2048, 32768)]
    return setting.select(found[:1] if setting.quick else found)


def eager(x: Tensor, w: Tensor, label: Tensor) -> Tensor:
    """As it is written down: all logits are stored, in float32."""
    return cross_entropy((x @ w.T).float(), label, reduction="none")


@dataclass
class Result(gpu.Contest[Case]):
    """What was found for one case."""

    schedules: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {**vars(self.case), **self.outcome.to_json(), "schedules": self.schedules}

    def table(self) -> str:
        """A row a contender."""
        outcome, rows = self.outcome, []
        for name, error in outcome.errors.items():
            taken = outcome.median(name)
            rate, memory = self.case.operations / taken / 1e9, outcome.memory[name] / gpu.MiB
            speed = outcome.median(LIGER) / taken
            compared = (taken, rate, memory, speed, error / outcome.eager_error)
            found = gpu.numbers(compared, (".2f", ".0f", ".1f", ".2f", ".2f"))
            rows.append([name, *found, self.schedules.get(name, "")])
        header = ["", "ms", "TFLOP/s", "MiB more", "x Liger", "error", "schedule"]
        return table(header, rows)


def run_case(case: Case, run: gpu.Run) -> Result:
    """Check, then time."""
    device = run.setting.device
    x = torch.randn(case.tokens, case.hidden, device=device, dtype=DTYPE)
    w = torch.randn(case.vocabulary, case.hidden, device=device, dtype=DTYPE)
    w *= case.hidden**-0.5
    label = torch.randint(case.vocabulary, (case.tokens,), device=device)
    few = slice(0, None, max(1, case.tokens // CHECKED))
    exact = eager(x[few].float(), w.float(), label[few])
    in_bf16 = cross_entropy(x[few] @ w.T, label[few], reduction="none")

    def error(loss: Tensor) -> float:
        return gpu.relative_error(loss[few], exact) if loss.isfinite().all() else math.inf

    def compiled() -> Call:
        torch._dynamo.reset()
        fused = torch.compile(eager, dynamic=False) if device == "cuda" else eager
        return lambda: fused(x, w, label)

    def liger() -> Call:
        ops = importlib.import_module("liger_kernel.ops.fused_linear_cross_entropy")

        def call() -> Tensor:
            with torch.no_grad():
                found = ops.fused_linear_cross_entropy_forward(x, w, label, reduction="none")
            loss: Tensor = found[0]
            return loss

        return call

    contenders: dict[str, Prepare] = {
        OURS: gpu.ours(LOSS, x, w, label),
        STATISTICS: gpu.ours("cross_entropy", x, w, label, z=0.0),
        "eager": lambda: lambda: eager(x, w, label),
        "compiled": compiled,
        LIGER: liger,
    }
    outcome = run.hold(contenders, error, gpu.relative_error(in_bf16, exact), memory=True)
    schedules = {}
    if OURS in outcome.errors:
        schedules[OURS] = gpu.schedule(LOSS, x, w, label)
    if STATISTICS in outcome.errors:
        schedules[STATISTICS] = gpu.schedule("cross_entropy", x, w, label, z=0.0)
    result = Result(case, outcome, schedules)
    gpu.say(f"{result.table()}\n{outcome.faults}")
    return result


def tables(setting: Setting) -> Report:
    """The tables."""
    run = gpu.Run(setting)
    results = run.each(cases(setting), lambda case: run_case(case, run))
    lines = [
        f"Cross-entropy of a linear layer, forward, bf16, medians of {setting.rounds} rounds.",
        *run.notes(results),
        "The error is against float32 eager torch, relative to that of eager torch in bf16.",
    ]
    for r in results:
        tokens, hidden, vocabulary = r.case.tokens, r.case.hidden, r.case.vocabulary
        sizes = f"{tokens} tokens, hidden {hidden}, vocabulary {vocabulary}:"
        lines += ["", sizes, "", r.table()]
    return run.report("gpu_cross_entropy", lines, results)


if __name__ == "__main__":
    sys.exit(gpu.main(__doc__, tables))
