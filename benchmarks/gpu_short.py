"""Short sequences on one GPU, bf16: first calls beside a search of 20 seconds, and the peers.

Full and causal attention and a window of 256, forward and the backward alone. A first call races
the few schedules that the package's table predicts to be fastest; beside it are the prediction
alone, and the search, which compiles and times up to 12 candidates of each kernel. All are timed in
turns with FlashAttention-3 (see `benchmarks.gpu_forward`) and cuDNN. The seconds of a race are what
it adds to a first call: the prediction has been compiled before.
Errors are taken against float32 eager torch, relative to those of eager torch in bf16: at most
1 forward, 2 for gradients. Work is counted over the pairs of query and key that the mask admits.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend

import monocomp as mc
from benchmarks import errors, gpu, peers
from benchmarks.gpu import Setting
from benchmarks.gpu_gradients import HEADS, LIMIT, TOKENS
from benchmarks.gpu_gradients import reference as reference_of_gradients
from benchmarks.peers import CUDNN, FA3, OURS, Call, Prepare
from benchmarks.report import Report, table
from benchmarks.variants import VARIANTS, Case, Shape, admitted_pairs, tensors

PREDICTED, SEARCHED = OURS + ", predicted", OURS + ", searched"
MODES = {PREDICTED: "0", OURS: "", SEARCHED: "1"}  # of MONOCOMP_TUNE
FORWARD, BACKWARD = "forward", "backward"
LENGTHS, WINDOW = (128, 256, 512, 1024, 2048), 256
NAMES = ("full", "causal", "window")
FLOPS = {FORWARD: 4, BACKWARD: 10}  # of a pair and an element of a head


@dataclass(frozen=True)
class Pass:
    """Forward or backward of a case."""

    case: Case
    direction: str

    @property
    def words(self) -> tuple[str, ...]:
        """Return the words that `--only` chooses by."""
        return (*self.case.words, self.direction)


def passes(setting: Setting) -> list[Pass]:
    """List what a run measures."""
    variants = [v for v in VARIANTS if v.name in NAMES]
    shapes = [Shape(TOKENS // n, m, m, n, d, WINDOW) for d, m in HEADS.items() for n in LENGTHS]
    if setting.rehearse:
        shapes = [Shape(2, 2, 2, 40, 16, 9)]
    cases = [Case(v, shape) for shape in shapes for v in variants]
    return setting.select([Pass(c, way) for c in cases for way in (FORWARD, BACKWARD)])


@dataclass
class Result(gpu.Contest[Pass]):
    """Measurements of one pass."""

    pairs: int
    seconds: dict[str, float]  # of first calls

    def teraflops(self, name: str) -> float:
        """Return the TFLOP/s of a contender."""
        shape = self.case.case.shape
        operations = FLOPS[self.case.direction] * shape.heads * shape.head * self.pairs
        return operations / self.outcome.median(name) / 1e9

    def over(self, name: str, of: str = OURS) -> float:
        """Return the time of one, a first call's unless named, over that of another."""
        return self.outcome.median(of) / self.outcome.median(name)

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "variant": self.case.case.variant.name,
            **vars(self.case.case.shape),
            "direction": self.case.direction,
            "seconds_of_first_calls": self.seconds,
            **self.outcome.to_json(),
        }


def choosing(prepare: Prepare, name: str, seconds: dict[str, float]) -> Prepare:
    """Return the same, whose first call chooses schedules as a contender does; it is timed."""

    def choose() -> Call:
        with patch.dict(os.environ, MONOCOMP_TUNE=MODES[name]):
            call = prepare()
            began = time.perf_counter()
            call()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            seconds[name] = time.perf_counter() - began
        return call

    return choose


def run_pass(measured: Pass, run: gpu.Run) -> Result:
    """Check, then time."""
    case, is_forward = measured.case, measured.direction == FORWARD
    variant, shape, device = case.variant, case.shape, run.setting.device
    q, k, v = tensors(shape, device)
    cotangent = torch.randn_like(q)
    params, causal = variant.params(shape), variant.name != "full"
    span = (shape.window - 1, 0) if variant.name == "window" else (-1, -1)
    wanted = [x.requires_grad_(not is_forward) for x in (q, k, v)]

    def pass_of(forward: Callable[[], Tensor]) -> Call:
        if is_forward:
            return forward
        result = forward()
        return lambda: torch.autograd.grad(result, wanted, cotangent, retain_graph=True)

    def ours() -> Call:
        kernel = mc.compile(peers.text(variant.program))
        return pass_of(lambda: kernel(q, k, v, **params))

    def fa3() -> Call:
        module, rows = peers.fa3(), [peers.rows(x.detach()) for x in (q, k, v)]
        out, lse = module.fwd(*rows, causal, window=span)
        if is_forward:
            return lambda: module.fwd(*rows, causal, window=span)[0].transpose(1, 2)
        do = peers.rows(cotangent)
        into = [torch.empty_like(x) for x in rows]

        def backward() -> list[Tensor]:
            module.bwd(do, *rows, out, lse, causal, *into, window=span)
            return [x.transpose(1, 2) for x in into]

        return backward

    def cudnn() -> Call:
        call = peers.sdpa(SDPBackend.CUDNN_ATTENTION, q, k, v, is_causal=causal)()
        return pass_of(call)

    seconds: dict[str, float] = {}
    contenders = {name: choosing(ours, name, seconds) for name in MODES} | {FA3: fa3}
    if variant.name != "window":
        contenders[CUDNN] = cudnn
    if is_forward:
        right = errors.reference(q, k, v, lambda x: variant.mods(shape, x), {})
        outcome = run.hold(contenders, right.error, right.eager_error)
    else:
        inputs = {"q": q.detach(), "k": k.detach(), "v": v.detach()}
        right_of_gradients = reference_of_gradients(case, inputs, cotangent)
        outcome = run.hold(contenders, right_of_gradients.error, LIMIT)
    result = Result(measured, outcome, admitted_pairs(variant, shape, {}, device), seconds)
    gpu.say(
        f"{' '.join(measured.words)}: {result.teraflops(OURS):.0f} TFLOP/s, over searched "
        f"{result.over(SEARCHED):.3f}, predicted {result.over(SEARCHED, PREDICTED):.3f}, FA3 "
        f"{result.over(FA3):.2f}; race {seconds.get(OURS, math.nan):.1f} s; {outcome.errors} "
        f"{outcome.eager_error:.2g} {outcome.faults}"
    )
    return result


def _table(results: Sequence[Result]) -> str:
    header = ["", "d", "N", "", "first call", "predicted", "searched", FA3, CUDNN]
    header += ["first / searched", "predicted / searched", "race, s", "error"]
    rows = []
    for r in results:
        shape = r.case.case.shape
        rates = [gpu.number(r.teraflops(n), ".0f") for n in (OURS, PREDICTED, SEARCHED, FA3, CUDNN)]
        over = [gpu.number(r.over(SEARCHED, n), ".3f") for n in (OURS, PREDICTED)]
        over.append(gpu.number(r.seconds.get(OURS, math.nan), ".1f"))
        error = r.outcome.errors.get(OURS, math.nan)
        error /= r.outcome.eager_error if r.case.direction == FORWARD else 1.0
        of_case = [r.case.direction, shape.head, shape.length, r.case.case.variant.name]
        rows.append([*of_case, *rates, *over, gpu.number(error)])
    return table(header, rows)


def tables(setting: Setting) -> Report:
    """Measure, and return the table."""
    os.environ["MONOCOMP_TUNE"] = "0"
    run = gpu.Run(setting)
    results = run.each(passes(setting), lambda p: run_pass(p, run))
    means, most, lines = {}, {}, []
    for name in (OURS, PREDICTED):
        ratios = [x for r in results if not math.isnan(x := r.over(SEARCHED, name))]
        most[name], means[name] = max(ratios, default=math.nan), gpu.geometric_mean(ratios)
        lines.append(
            f"{name} over searched: at most {gpu.number(most[name], '.3f')}, geometric mean "
            f"{gpu.number(means[name], '.3f')}, in {len(ratios)} cases."
        )
    lines = [
        f"Short sequences, bf16, {TOKENS} tokens a batch, TFLOP/s over admitted pairs, medians "
        f"of {setting.rounds} rounds.",
        *run.notes(results),
        "",
        _table(results),
        "",
        *lines,
    ]
    return run.report(
        "gpu_short", lines, results, most_ratio=most[OURS], geometric_mean=means[OURS]
    )


if __name__ == "__main__":
    sys.exit(gpu.main(__doc__, tables))
