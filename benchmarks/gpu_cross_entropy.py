"""The cross-entropy of a linear layer over a large vocabulary, on one GPU.

Forward: the loss alone, and the library's program with its five statistics, beside eager torch, the
same compiled, and Liger's fused loss where `liger_kernel` is installed (its forward pass without
gradients). Then the loss and the gradients of its mean in the hidden states and the weights.
Memory is what a call takes at its peak beside its inputs and its outputs. The error is that of some
tokens' losses, or gradients of hidden states, against float32 eager torch, relative to eager torch
in bf16.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmarks import errors, gpu, peers
from benchmarks.gpu import Setting
from benchmarks.peers import DTYPE, OURS, Call, Prepare
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
    differentiated: bool = False

    @property
    def words(self) -> tuple[str, str, str, str]:
        """What `--only` is compared with."""
        kind = "gradients" if self.differentiated else "forward"
        return f"T={self.tokens}", f"D={self.hidden}", f"V={self.vocabulary}", kind

    @property
    def operations(self) -> int:
        """Of the linear layer, and of its two gradients."""
        return (6 if self.differentiated else 2) * self.tokens * self.hidden * self.vocabulary


def cases(setting: Setting) -> list[Case]:
    """The cases of a run."""
    sizes = [(24, 32, 80)]
    if not setting.rehearse:
        sizes = [(8192, 4096, 131072), (4096, 2048, 32768)][: 1 if setting.quick else 2]
    return setting.select([Case(*size, kind) for size in sizes for kind in (False, True)])


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
    return _gradients(case, run) if case.differentiated else _forward(case, run)


def _inputs(case: Case, device: str) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states, weights that give logits of about N(0, 1), and labels."""
    x = torch.randn(case.tokens, case.hidden, device=device, dtype=DTYPE)
    w = torch.randn(case.vocabulary, case.hidden, device=device, dtype=DTYPE)
    w *= case.hidden**-0.5
    return x, w, torch.randint(case.vocabulary, (case.tokens,), device=device)


def _forward(case: Case, run: gpu.Run) -> Result:
    device = run.setting.device
    x, w, label = _inputs(case, device)
    few = slice(0, None, max(1, case.tokens // CHECKED))
    exact = eager(x[few].float(), w.float(), label[few])
    in_bf16 = cross_entropy(x[few] @ w.T, label[few], reduction="none")

    def error(loss: Tensor) -> float:
        return errors.relative_error(loss[few], exact) if loss.isfinite().all() else math.inf

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
        OURS: peers.ours(LOSS, x, w, label),
        STATISTICS: peers.ours("cross_entropy", x, w, label, z=0.0),
        "eager": lambda: lambda: eager(x, w, label),
        "compiled": compiled,
        LIGER: liger,
    }
    outcome = run.hold(contenders, error, errors.relative_error(in_bf16, exact), memory=True)
    schedules = {}
    if OURS in outcome.errors:
        schedules[OURS] = peers.schedule(LOSS, x, w, label)
    if STATISTICS in outcome.errors:
        schedules[STATISTICS] = peers.schedule("cross_entropy", x, w, label, z=0.0)
    result = Result(case, outcome, schedules)
    gpu.say(f"{result.table()}\n{outcome.faults}")
    return result


def _gradients(case: Case, run: gpu.Run) -> Result:
    """The same of the mean loss and its gradients: (dX, dW)."""
    device = run.setting.device
    x, w, label = (t.requires_grad_(t.is_floating_point()) for t in _inputs(case, device))
    few = slice(0, None, max(1, case.tokens // CHECKED))

    def few_rows(dtype: torch.dtype) -> Tensor:
        rows, weights = x[few].detach().to(dtype).requires_grad_(), w.detach().to(dtype)
        loss = cross_entropy((rows @ weights.T).float(), label[few], reduction="sum")
        return torch.autograd.grad(loss / case.tokens, rows)[0].float()

    exact = few_rows(torch.float32)

    def error(found: tuple[Tensor, Tensor]) -> float:
        there = all(bool(g.isfinite().all()) for g in found)
        return errors.relative_error(found[0][few], exact) if there else math.inf

    def of(loss: Callable[[], Tensor]) -> Prepare:
        return lambda: lambda: torch.autograd.grad(loss(), (x, w))

    def compiled() -> Call:
        torch._dynamo.reset()
        fused: Any = torch.compile(eager, dynamic=False) if device == "cuda" else eager
        return of(lambda: fused(x, w, label).mean())()

    def liger() -> Call:
        name = "liger_kernel.ops.fused_linear_cross_entropy"
        function: Any = importlib.import_module(name).LigerFusedLinearCrossEntropyFunction

        def call() -> Any:
            found = function.apply(x, w, label)
            loss = found[0] if isinstance(found, tuple) else found
            return torch.autograd.grad(loss, (x, w))

        return call

    contenders: dict[str, Prepare] = {
        OURS: of(lambda: peers.kernel(LOSS)(x, w, label).mean()),
        "eager": of(lambda: eager(x, w, label).mean()),
        "compiled": compiled,
        LIGER: liger,
    }
    limit = 2 * errors.relative_error(few_rows(DTYPE), exact)
    outcome = run.hold(contenders, error, limit, memory=True)
    result = Result(case, outcome, {})
    gpu.say(f"{result.table()}\n{outcome.faults}")
    return result


def tables(setting: Setting) -> Report:
    """The tables."""
    run = gpu.Run(setting)
    results = run.each(cases(setting), lambda case: run_case(case, run))
    lines = [
        f"Cross-entropy of a linear layer, bf16, medians of {setting.rounds} rounds.",
        *run.notes(results),
        "The error is against float32 eager torch, relative to that of eager torch in bf16, and of "
        "gradients to twice that.",
    ]
    for r in results:
        tokens, hidden, vocabulary = r.case.tokens, r.case.hidden, r.case.vocabulary
        kind = ", with gradients" if r.case.differentiated else ""
        sizes = f"{tokens} tokens, hidden {hidden}, vocabulary {vocabulary}{kind}:"
        lines += ["", sizes, "", r.table()]
    return run.report("gpu_cross_entropy", lines, results)


if __name__ == "__main__":
    sys.exit(gpu.main(__doc__, tables))
