"""Attention forward with e4m3 inputs on one GPU, with scales a tensor and a block, beside bf16.

The scales are inputs of the program: one number each for queries, keys and values, or one for
every 128 rows. Errors are against float64 eager torch, on some heads and rows: of the inputs
before they were rounded to e4m3, and as they are then, which leaves the kernel's own error.
Work is counted as 4 * B * H * N * N * d operations, half of that for causal.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks import errors, gpu, peers
from benchmarks.gpu import Setting
from benchmarks.peers import FA3, OURS, Mods, Prepare
from benchmarks.report import Report, table
from benchmarks.variants import Shape, tensors

E4M3, LARGEST = torch.float8_e4m3fn, 448.0
BLOCK = 128
TOLERATED = 0.1  # the kernel's own error, with weights rounded to e4m3
BATCH, HEADS = 4, 16
WHOLE, BLOCKS, THEIRS = f"{OURS}, e4m3", f"{OURS}, e4m3 in blocks", f"{FA3}, e4m3"

_TEXT = """
input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], {inputs}

S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] * ({query} * {key} / sqrt(|d|))
O[b,h,q,e] = softmax[{bound}](S[b,h,q,k]) * ({value} * V[b,h,k,e])
return O: bfloat16
"""


def program(causal: bool, blocks: bool) -> str:
    """The program's text."""
    names = {"inputs": "sq, sk, sv", "query": "sq", "key": "sk", "value": "sv"}
    if blocks:
        names = {
            "inputs": "sq[b,h,m], sk[b,h,n], sv[b,h,n]",
            "query": f"sq[b,h,q // {BLOCK}]",
            "key": f"sk[b,h,k // {BLOCK}]",
            "value": f"sv[b,h,k // {BLOCK}]",
        }
    return _TEXT.format(bound="k if k <= q" if causal else "k", **names)


@dataclass(frozen=True)
class Case:
    """Full or causal attention at one size."""

    name: str
    shape: Shape

    @property
    def causal(self) -> bool:
        """Does a query see the keys up to its own position only?"""
        return self.name == "causal"

    @property
    def words(self) -> tuple[str, str, str]:
        """What `--only` is compared with."""
        return self.name, f"d={self.shape.head}", f"N={self.shape.length}"

    def operations(self) -> float:
        """Floating-point operations of one call."""
        s = self.shape
        return 4 * s.batch * s.heads * s.length**2 * s.head / (2 if self.causal else 1)

    def mods(self, extras: Mapping[str, Tensor]) -> Mods:
        """The mask."""
        return None, (lambda b, h, q, k: k <= q) if self.causal else None


def cases(setting: Setting) -> list[Case]:
    """The cases of a run."""
    if setting.rehearse:
        shapes = [Shape(1, 2, 2, 160, 16)]
    else:
        lengths = (4096,) if setting.quick else (4096, 16384)
        shapes = [Shape(BATCH, HEADS, HEADS, n, d) for d in (128, 64) for n in lengths]
    return setting.select([Case(name, s) for s in shapes for name in ("attention", "causal")])


def quantised(x: Tensor, block: int | None) -> tuple[Tensor, Tensor]:
    """The nearest e4m3 numbers, and the scale of all, or of each block of rows (B, H, blocks)."""
    wide = x.float()
    if block is None:
        scale = wide.abs().amax() / LARGEST
        return (wide / scale).to(E4M3), scale
    count = -(-x.shape[2] // block)
    padded = torch.nn.functional.pad(wide, (0, 0, 0, count * block - x.shape[2]))
    scale = padded.unflatten(2, (count, block)).abs().amax((-1, -2)) / LARGEST
    return (wide / _rows(scale, x)).to(E4M3), scale


def _rows(scale: Tensor, x: Tensor) -> Tensor:
    """A block's scale for each of its rows."""
    return scale.repeat_interleave(BLOCK, 2)[:, :, : x.shape[2], None]


def restored(x: Tensor, scale: Tensor) -> Tensor:
    """What quantised numbers stand for."""
    return x.float() * (_rows(scale, x) if scale.ndim else scale)


@dataclass
class Result(gpu.Contest[Case]):
    """What was found for one case; `own` is the error against the rounded inputs."""

    own: dict[str, float]
    schedules: dict[str, str]

    def teraflops(self, name: str) -> float:
        """The rate of a contender."""
        return self.case.operations() / self.outcome.median(name) / 1e9

    @property
    def right(self) -> bool:
        """Is bf16 as good as eager torch, and what ran with e4m3 near to its own inputs?"""
        bf16 = self.outcome.errors.get(OURS, math.inf) <= self.outcome.eager_error
        return bf16 and all(error <= TOLERATED for error in self.own.values())

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {
            "name": self.case.name,
            **vars(self.case.shape),
            "tflops": {name: self.teraflops(name) for name in self.outcome.milliseconds},
            "own_errors": self.own,
            **self.outcome.to_json(),
            "schedules": self.schedules,
        }


def run_case(case: Case, run: gpu.Run) -> Result:
    """Check, then time."""
    q, k, v = tensors(case.shape, run.setting.device)
    right = errors.reference(q, k, v, case.mods, wide_dtype=torch.float64)
    made = {
        WHOLE: (program(case.causal, blocks=False), [quantised(x, None) for x in (q, k, v)]),
        BLOCKS: (program(case.causal, blocks=True), [quantised(x, BLOCK) for x in (q, k, v)]),
    }
    inputs = {n: [x for x, _ in made[n][1]] + [scale for _, scale in made[n][1]] for n in made}

    def flash3(dtype: torch.dtype) -> Prepare:
        return peers.flash3(*(peers.rows(x.to(dtype)) for x in (q, k, v)), causal=case.causal)

    contenders: dict[str, Prepare] = {
        OURS: peers.ours(case.name, q, k, v),
        **{name: peers.ours(text, *inputs[name]) for name, (text, _) in made.items()},
        FA3: flash3(peers.DTYPE),
        THEIRS: flash3(E4M3),
    }
    outcome = run.hold(contenders, right.error, right.eager_error)
    own = {}
    for name, (text, parts) in made.items():
        if name in outcome.errors:
            rounded_q, rounded_k, rounded_v = (restored(x, scale) for x, scale in parts)
            exact = errors.reference(
                rounded_q, rounded_k, rounded_v, case.mods, wide_dtype=torch.float64
            )
            own[name] = exact.error(peers.ours(text, *inputs[name])()())
    schedules = {OURS: peers.schedule(case.name, q, k, v)} if OURS in outcome.errors else {}
    schedules |= {name: peers.schedule(made[name][0], *inputs[name]) for name in own}
    return Result(case, outcome, own, schedules)


def tables(setting: Setting) -> Report:
    """The table."""
    run = gpu.Run(setting)
    results = run.each(cases(setting), lambda case: run_case(case, run))
    header = ["", "d", "N", "contender", "TFLOP/s", "x bf16", "error", "own error", "schedule"]
    rows = []
    unsupported: dict[str, str] = {}
    for r in results:
        shape = r.case.shape
        unsupported |= {n: fault for n, fault in r.outcome.faults.items() if peers.is_ours(n)}
        for name, error in r.outcome.errors.items():
            rate = r.teraflops(name)
            found = gpu.numbers((rate, rate / r.teraflops(OURS)), (".0f", ".2f"))
            found += gpu.numbers((error, r.own.get(name, math.nan)), (".1e", ".1e"))
            chosen = r.schedules.get(name, "")
            rows.append([r.case.name, shape.head, shape.length, name, *found, chosen])
    lines = [
        f"Attention forward with e4m3 inputs, B = {BATCH}, H = {HEADS}, TFLOP/s, "
        f"medians of {setting.rounds} rounds.",
        *run.notes(),
        "Errors are against float64 eager torch: of the inputs before rounding, and, as the "
        "kernel's own, of the rounded ones.",
        *(f"Not supported: {name} ({fault})." for name, fault in unsupported.items()),
        "",
        table(header, rows),
    ]
    return run.report("gpu_fp8", lines, results, unsupported=unsupported)


if __name__ == "__main__":
    sys.exit(gpu.main(__doc__, tables))
