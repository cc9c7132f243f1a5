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

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmarks import gpu
from benchmarks.gpu import DTYPE, OURS, Call, Outcome, Prepare, Setting
from benchmarks.gpu import unavailable as unavailable
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


def run_case(case: Case, contest: gpu.Contest) -> tuple[Outcome, dict[str, str]]:
    """Check, then time."""
    device = contest.setting.device
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
        run = torch.compile(eager, dynamic=False) if device == "cuda" else eager
        return lambda: run(x, w, label)

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
    outcome = contest.hold(contenders, error, gpu.relative_error(in_bf16, exact), memory=True)
    schedules = {}
    if OURS in outcome.errors:
        schedules[OURS] = gpu.schedule(LOSS, x, w, label)
    if STATISTICS in outcome.errors:
        schedules[STATISTICS] = gpu.schedule("cross_entropy", x, w, label, z=0.0)
    return outcome, schedules


def tables(setting: Setting) -> Report:
    """The tables."""
    contest, budget = gpu.Contest(setting), gpu.Budget(setting)
    lines = [
        f"Cross-entropy of a linear layer, forward, bf16, medians of {setting.rounds} rounds.",
        gpu.machine(),
        "The error is against float32 eager torch, relative to that of eager torch in bf16.",
    ]
    parts, data, right = [], [], True
    for case in budget.cases(cases(setting)):
        outcome, schedules = run_case(case, contest)
        rows = []
        for name, error in outcome.errors.items():
            taken = outcome.median(name)
            rate, memory = case.operations / taken / 1e9, outcome.memory[name] / gpu.MiB
            speed = outcome.median(LIGER) / taken
            compared = (taken, rate, memory, speed, error / outcome.eager_error)
            found = gpu.numbers(compared, (".2f", ".0f", ".1f", ".2f", ".2f"))
            rows.append([name, *found, schedules.get(name, "")])
        header = ["", "ms", "TFLOP/s", "MiB more", "x Liger", "error", "schedule"]
        sizes = f"{case.tokens} tokens, hidden {case.hidden}, vocabulary {case.vocabulary}"
        parts += [*gpu.faults([(sizes, outcome)]), "", f"{sizes}:", "", table(header, rows)]
        gpu.say("\n".join(parts))
        data.append({**vars(case), **outcome.to_json(), "schedules": schedules})
        right &= outcome.right
    text = "\n".join([*lines, *contest.notes(), *budget.notes(), *parts])
    report = {**gpu.data_of_machine(), "missing": contest.missing, "cases": data}
    return Report("gpu_cross_entropy", text, report, right)


def measure(quick: bool = False) -> Report:
    """The tables, of everything."""
    return tables(Setting(quick))


def main() -> int:
    """Print the tables."""
    return gpu.main(__doc__, tables)


if __name__ == "__main__":
    sys.exit(main())
