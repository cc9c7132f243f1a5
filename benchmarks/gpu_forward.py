"""Attention forward on one GPU: is it right, how fast is it, and how much memory does it take?

Full and causal attention from the library, bf16, beside FlexAttention and the backends of
scaled_dot_product_attention, and FlashAttention-3 where FA3_DIR names a folder with its
compiled operators and a module `fa3` is importable that wraps them: `load(folder)` and
`fwd(q, k, v, causal)` on tensors (B, N, H, D).

The error is taken against float32 eager torch, on some heads and rows, and must not exceed that
of eager torch in bf16. Work is counted as 4 * B * H * N * N * D operations, half of that for
causal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.nn.attention import SDPBackend
from torch.nn.attention.flex_attention import create_block_mask

from benchmarks import errors, gpu, peers
from benchmarks.gpu import Setting
from benchmarks.peers import CUDNN, FA3, FLASH, FLEX, OURS, Call, Mods, Prepare
from benchmarks.report import Report, table
from benchmarks.variants import Shape, tensors

BATCH, HEADS = 4, 16
SDPA = (CUDNN, FLASH)


@dataclass(frozen=True)
class Case:
    """A program of the library at one size."""

    program: str
    length: int
    head: int

    @property
    def causal(self) -> bool:
        """Does a query see the keys up to its own position only?"""
        return self.program == "causal"

    @property
    def words(self) -> tuple[str, str, str]:
        """What `--only` is compared with."""
        return self.program, f"N={self.length}", f"d={self.head}"

    def operations(self) -> float:
        """Floating-point operations of one call."""
        full = 4 * BATCH * HEADS * self.length**2 * self.head
        return full / 2 if self.causal else full

    def inputs(self, device: str) -> tuple[Tensor, Tensor, Tensor]:
        """Random queries, keys and values, (B, H, N, D)."""
        return tensors(Shape(BATCH, HEADS, HEADS, self.length, self.head), device)

    def mods(self, extras: Mapping[str, Tensor]) -> Mods:
        """The program as FlexAttention's score_mod and mask_mod."""
        return None, (lambda b, h, q, k: k <= q) if self.causal else None


def cases(setting: Setting) -> list[Case]:
    """The cases of a run."""
    lengths = (40,) if setting.rehearse else (4096,) if setting.quick else (4096, 16384)
    heads = (16,) if setting.rehearse else (128, 64)
    programs = ("attention", "causal")
    return setting.select([Case(p, n, d) for d in heads for n in lengths for p in programs])


def _flex(case: Case, q: Tensor, k: Tensor, v: Tensor) -> Prepare:
    def prepare() -> Call:
        peers.reset_flex()
        _, mask = case.mods({})
        length = case.length
        built = mask and create_block_mask(mask, None, None, length, length, device=q.device)
        return peers.flex(q, k, v, None, built)

    return prepare


def contenders(case: Case, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Prepare]:
    """Who takes part."""
    return {
        OURS: peers.ours(case.program, q, k, v),
        FLEX: _flex(case, q, k, v),
        CUDNN: peers.sdpa(SDPBackend.CUDNN_ATTENTION, q, k, v, is_causal=case.causal),
        FLASH: peers.sdpa(SDPBackend.FLASH_ATTENTION, q, k, v, is_causal=case.causal),
        FA3: peers.flash3(*map(peers.rows, (q, k, v)), causal=case.causal),
    }


@dataclass
class Result(gpu.Contest[Case]):
    """What was found for one case."""

    schedule: str

    def teraflops(self, name: str) -> float:
        """The rate of a contender."""
        return self.case.operations() / self.outcome.median(name) / 1e9

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {
            "program": self.case.program,
            "N": self.case.length,
            "d": self.case.head,
            "tflops": {name: self.teraflops(name) for name in self.outcome.milliseconds},
            **self.outcome.to_json(),
            "schedule": self.schedule,
        }


def run_case(case: Case, run: gpu.Run) -> Result:
    """Check, then time, whatever of the contenders runs here."""
    q, k, v = case.inputs(run.setting.device)
    right = errors.reference(q, k, v, case.mods)
    outcome = run.hold(contenders(case, q, k, v), right.error, right.eager_error, memory=True)
    chosen = peers.schedule(case.program, q, k, v) if OURS in outcome.errors else ""
    return Result(case, outcome, chosen)


def _ratio(result: Result, names: Iterable[str]) -> str:
    return gpu.number(result.outcome.best(names) / result.outcome.median(OURS))


def _speed_table(results: Sequence[Result], shown: Sequence[str]) -> str:
    header = ["", "d", "N", *shown, "/ Flex", "/ best SDPA", "schedule"]
    rows = []
    for r in results:
        rates = [gpu.number(r.teraflops(n), ".0f") for n in shown]
        ratios = [_ratio(r, [FLEX]), _ratio(r, SDPA)]
        rows.append([r.case.program, r.case.head, r.case.length, *rates, *ratios, r.schedule])
    return table(header, rows)


def _error_table(results: Sequence[Result], shown: Sequence[str]) -> str:
    header = ["", "d", "N", "error", "of eager bf16", "ratio", *(f"MiB, {n}" for n in shown)]
    rows = []
    for r in results:
        error, eager = r.outcome.errors.get(OURS, float("nan")), r.outcome.eager_error
        found = [f"{error:.1e}", f"{eager:.1e}", f"{error / eager:.2f}"]
        kept = r.outcome.memory
        memory = [f"{kept[n] / gpu.MiB:.1f}" if n in kept else "-" for n in shown]
        rows.append([r.case.program, r.case.head, r.case.length, *found, *memory])
    return table(header, rows)


def tables(setting: Setting) -> Report:
    """The tables."""
    run = gpu.Run(setting)
    results = run.each(cases(setting), lambda case: run_case(case, run))
    named = (OURS, FLEX, CUDNN, FLASH, FA3)
    shown = [n for n in named if any(n in r.outcome.milliseconds for r in results)]
    lines = [
        f"Attention forward, bf16, B = {BATCH}, H = {HEADS}, TFLOP/s, "
        f"medians of {setting.rounds} rounds.",
        *run.notes(results),
        "Flex is FlexAttention, compiled, with its default options; cuDNN and FA2 "
        "(FlashAttention) are backends of SDPA.",
        "",
        _speed_table(results, shown),
        "",
        "Relative error against float32 eager torch beside that of eager torch in bf16, and",
        "memory at the peak of a call beside inputs and outputs.",
        "",
        _error_table(results, shown),
    ]
    shape = {"B": BATCH, "H": HEADS, "dtype": str(peers.DTYPE)}
    return run.report("gpu_forward", lines, results, shape=shape)


if __name__ == "__main__":
    sys.exit(gpu.main(__doc__, tables))
