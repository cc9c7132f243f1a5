"""Attention forward on one GPU for heads of any size: is there a cliff beside powers of two?

Full and causal attention from the library, bf16, beside the same program with every axis padded
to one tile, and the backends of scaled_dot_product_attention. The schedules are those of the
first call, which measures nothing. Errors and work are counted as in `gpu_forward`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from torch import Tensor
from torch.nn.attention import SDPBackend

from benchmarks import errors, gpu, peers
from benchmarks.gpu import Setting
from benchmarks.peers import CUDNN, FLASH, OURS, Mods, Prepare
from benchmarks.report import Report, table
from benchmarks.variants import Shape, tensors

BATCH, HEADS, LENGTH = 1, 32, 4096
ONE_TILE, EFFICIENT = f"{OURS}, one tile", "efficient"
SDPA = (CUDNN, FLASH, EFFICIENT)
LONGEST = 256  # of the heads that cuDNN and FlashAttention take
SIZES = (33, 40, 48, 64, 72, 80, 88, 96, 99, 100, 104, 112, 120, 128)
LONGER = (136, 160, 192, 200, 248, 256, 320, 384, 512)
QUICK = (64, 72, 80, 96, 128, 160, 192, 256, 320, 512)


@dataclass(frozen=True)
class Case:
    """A program of the library for one size of heads."""

    program: str
    head: int
    length: int

    @property
    def words(self) -> tuple[str, str]:
        """What `--only` is compared with."""
        return self.program, f"d={self.head}"

    def operations(self) -> float:
        """Floating-point operations of one call."""
        full = 4 * BATCH * HEADS * self.length**2 * self.head
        return full / 2 if self.program == "causal" else full

    def mods(self, extras: Mapping[str, Tensor]) -> Mods:
        """The program as FlexAttention's score_mod and mask_mod."""
        return None, (lambda b, h, q, k: k <= q) if self.program == "causal" else None


def cases(setting: Setting) -> list[Case]:
    """The cases of a run."""
    heads = (24, 40) if setting.rehearse else QUICK if setting.quick else SIZES + LONGER
    length = 40 if setting.rehearse else LENGTH
    return setting.select([Case(p, d, length) for p in ("attention", "causal") for d in heads])


def contenders(case: Case, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Prepare]:
    """Who takes part."""
    backends = {EFFICIENT: SDPBackend.EFFICIENT_ATTENTION}
    if case.head <= LONGEST:
        backends |= {CUDNN: SDPBackend.CUDNN_ATTENTION, FLASH: SDPBackend.FLASH_ATTENTION}
    if case.head % 8:  # FlashAttention alone pads such heads
        backends = {n: b for n, b in backends.items() if n == FLASH}
    is_causal = case.program == "causal"
    others = {n: peers.sdpa(b, q, k, v, is_causal=is_causal) for n, b in backends.items()}
    ours = peers.ours(case.program, q, k, v)
    return {OURS: ours, ONE_TILE: peers.in_one_tile(case.program, q, k, v), **others}


@dataclass
class Result(gpu.Contest[Case]):
    """What was found for one case."""

    schedule: str

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        case = {"program": self.case.program, "d": self.case.head}
        return {**case, **self.outcome.to_json(), "schedule": self.schedule}


def run_case(case: Case, run: gpu.Run) -> Result:
    """Check, then time, whatever of the contenders runs here."""
    shape = Shape(BATCH, HEADS, HEADS, case.length, case.head)
    q, k, v = tensors(shape, run.setting.device)
    right = errors.reference(q, k, v, case.mods)
    outcome = run.hold(contenders(case, q, k, v), right.error, right.eager_error)
    return Result(case, outcome, peers.schedule(case.program, q, k, v))


def _table(results: Sequence[Result]) -> str:
    header = ["", "d", "ms", "TFLOP/s", "one tile, ms", "/ one tile", "best SDPA, ms"]
    header += ["/ best SDPA", "error", "schedule"]
    rows = []
    for r in results:
        found = r.outcome
        ours, one, best = found.median(OURS), found.median(ONE_TILE), found.best(SDPA)
        speed = r.case.operations() / ours / 1e9
        values = [ours, speed, one, one / ours, best, best / ours]
        values.append(found.errors.get(OURS, float("nan")) / found.eager_error)
        forms = [".3f", ".0f", ".3f", ".2f", ".3f", ".2f", ".2f"]
        numbers = gpu.numbers(values, forms)
        rows.append([r.case.program, r.case.head, *numbers, r.schedule])
    return table(header, rows)


def tables(setting: Setting) -> Report:
    """The table."""
    run = gpu.Run(setting)
    with patch.dict(os.environ, MONOCOMP_TUNE="0"):
        results = run.each(cases(setting), lambda case: run_case(case, run))
    lines = [
        f"Attention forward for heads of any size, bf16, B = {BATCH}, H = {HEADS}, N = {LENGTH}, "
        f"with the schedules of first calls, medians of {setting.rounds} rounds.",
        *run.notes(results),
        "One tile: every axis padded to a power of two. SDPA: the fastest of cuDNN, "
        "FlashAttention and the memory-efficient backend. The error is relative to that of eager "
        "torch in bf16.",
        "",
        _table(results),
    ]
    shape = {"B": BATCH, "H": HEADS, "N": LENGTH, "dtype": str(peers.DTYPE)}
    return run.report("gpu_heads", lines, results, shape=shape)


if __name__ == "__main__":
    sys.exit(gpu.main(__doc__, tables))
