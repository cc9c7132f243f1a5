"""Attention's variants on one GPU, forward, bf16, beside FlexAttention.

FlexAttention is compiled for the shapes, with the fastest of a few kernel options; building its
block mask is not counted. Work is counted over the pairs of query and key that the mask admits:
4 * d operations each. The error is taken against float32 eager torch, on some heads and rows,
relative to that of eager torch in bf16: at most 1.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask

from benchmarks import errors, gpu, peers
from benchmarks.gpu import Setting
from benchmarks.peers import FLEX, OURS, Call, Mods, Prepare
from benchmarks.report import Report, table
from benchmarks.variants import VARIANTS, Case, Extras, Shape, Variant, admitted_pairs, tensors

TOKENS = 16384
HEADS, GROUPS = {128: 16, 64: 32}, (32, 8)
FLEX_FLASH = "Flex FLASH"  # its backend in the way of FlashAttention-4
MOST_OPTIONS = 2  # of FlexAttention's are measured again at further lengths


def cases(setting: Setting) -> list[Case]:
    """The cases of a run."""
    lengths = (4096,) if setting.quick else (4096, 16384)

    def shapes(variant: Variant) -> list[Shape]:
        if setting.rehearse:
            return [Shape(2, 4, 2 if variant.has_groups else 4, 48, 16, 9, 12)]
        found = []
        for head, heads in HEADS.items():
            many, few = GROUPS if variant.has_groups else (heads, heads)
            found += [Shape(TOKENS // n, many, few, n, head) for n in lengths]
        return found

    return setting.select([Case(v, shape) for v in VARIANTS for shape in shapes(v)])


@dataclass
class Result(gpu.Contest[Case]):
    """What was found for one case."""

    pairs: int
    flex_options: str
    schedule: str

    def teraflops(self, name: str) -> float:
        """The rate of a contender."""
        shape = self.case.shape
        return 4 * shape.heads * shape.head * self.pairs / self.outcome.median(name) / 1e9

    @property
    def ratio(self) -> float:
        """Times as fast as the fastest FlexAttention."""
        return self.outcome.best([FLEX, FLEX_FLASH]) / self.outcome.median(OURS)

    @property
    def error_ratio(self) -> float:
        """Our error over that of eager torch in bf16."""
        return self.outcome.errors.get(OURS, math.nan) / self.outcome.eager_error

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {
            "variant": self.case.variant.name,
            **vars(self.case.shape),
            "pairs": self.pairs,
            "tflops": {name: self.teraflops(name) for name in self.outcome.milliseconds},
            "ratio": self.ratio,
            **self.outcome.to_json(),
            "flex_options": self.flex_options,
            "schedule": self.schedule,
        }


class FlexOptions:
    """The kernel options that are tried: all at first, later the fastest of those before."""

    def __init__(self, setting: Setting) -> None:
        self.all = peers.FLEX_OPTIONS[: MOST_OPTIONS if setting.quick else None]
        self.ranked: dict[tuple[str, int], list[dict[str, int]]] = {}
        self.chosen = ""

    def fastest(self, case: Case, q: Tensor, k: Tensor, v: Tensor, mods: Mods, mask: Any) -> Call:
        """FlexAttention with the fastest options."""
        key = (case.variant.name, case.shape.head)
        tried = self.ranked.get(key, list(self.all))
        taken: list[tuple[float, int, Call]] = []
        fault: Exception | None = None
        for number, options in enumerate(tried):
            call = peers.flex(q, k, v, mods[0], mask, kernel_options=options)
            try:
                call()
                if q.device.type == "cuda":
                    torch.cuda.synchronize()
                    call()
                    taken.append((min(gpu.burst(call, 3) for _ in range(3)), number, call))
                else:
                    taken.append((float(number), number, call))
            except Exception as found:  # these blocks do not fit, say
                fault = found
        if not taken:
            raise fault or RuntimeError("no options")
        taken.sort(key=lambda entry: entry[:2])
        self.ranked[key] = [tried[number] for _, number, _ in taken[:MOST_OPTIONS]]
        best = tried[taken[0][1]]
        self.chosen = ", ".join(f"{name} {value}" for name, value in best.items()) or "default"
        return taken[0][2]


def run_case(case: Case, run: gpu.Run, flex_options: FlexOptions) -> Result:
    """Check, then time."""
    variant, shape, device = case.variant, case.shape, run.setting.device
    extras: Extras = variant.inputs(shape, device)
    pairs = admitted_pairs(variant, shape, extras, device)
    q, k, v = tensors(shape, device)
    inputs = (q, k, v, *extras.values())
    right = errors.reference(q, k, v, lambda x: variant.mods(shape, x), extras)
    mods = variant.mods(shape, extras)

    def block_mask() -> Any:
        if mods[1] is None:
            return None
        batch = shape.batch if variant.per_batch else None
        return create_block_mask(mods[1], batch, None, shape.length, shape.length, device=device)

    def flex() -> Call:
        peers.reset_flex()
        return flex_options.fastest(case, q, k, v, mods, block_mask())

    def flex_flash() -> Call:
        return peers.flex(q, k, v, mods[0], block_mask(), kernel_options={"BACKEND": "FLASH"})

    contenders: dict[str, Prepare] = {
        OURS: peers.ours(variant.program, *inputs, **variant.params(shape)),
        FLEX: flex,
        FLEX_FLASH: flex_flash,
    }
    flex_options.chosen = ""
    outcome = run.hold(contenders, right.error, right.eager_error)
    chosen = ""
    if OURS in outcome.errors:
        chosen = peers.schedule(variant.program, *inputs, **variant.params(shape))
    result = Result(case, outcome, pairs, flex_options.chosen, chosen)
    gpu.say(
        f"{' '.join(case.words)}: {result.teraflops(OURS):.0f} TFLOP/s, Flex "
        f"{result.teraflops(FLEX):.0f}, {result.ratio:.2f}x, error {result.error_ratio:.2f}; "
        f"first call {outcome.first_call_s:.1f} s; {outcome.faults or chosen}"
    )
    return result


def _table(results: Sequence[Result], shown: Sequence[str]) -> str:
    header = ["", "d", "N", "H", "admitted", *shown, "/ Flex", "error", "schedule", "Flex's"]
    rows = []
    for r in results:
        shape = r.case.shape
        area = r.pairs / (shape.batch * shape.length**2)
        heads = f"{shape.heads}/{shape.groups}" if shape.groups < shape.heads else shape.heads
        rates = [gpu.number(r.teraflops(n), ".0f") for n in shown]
        found = [gpu.number(r.ratio), gpu.number(r.error_ratio)]
        sizes = [shape.head, shape.length, heads, f"{100 * area:.1f} %"]
        rows.append([r.case.variant.name, *sizes, *rates, *found, r.schedule, r.flex_options])
    return table(header, rows)


def tables(setting: Setting) -> Report:
    """The table."""
    run, flex_options = gpu.Run(setting), FlexOptions(setting)
    results = run.each(cases(setting), lambda case: run_case(case, run, flex_options))
    shown = [
        n for n in (OURS, FLEX, FLEX_FLASH) if any(n in r.outcome.milliseconds for r in results)
    ]
    ratios = [r.ratio for r in results if not math.isnan(r.ratio)]
    least, mean = min(ratios, default=math.nan), gpu.geometric_mean(ratios)
    lines = [
        f"Variants of attention, forward, bf16, {TOKENS} tokens a batch, TFLOP/s over admitted "
        f"pairs, medians of {setting.rounds} rounds.",
        *run.notes(results),
        "Flex is FlexAttention, compiled, with the fastest of "
        f"{len(flex_options.all)} kernel options; its block mask is built beforehand.",
        "The error is against float32 eager torch, relative to that of eager torch in bf16.",
        "",
        _table(results, shown),
        "",
        f"Beside Flex: at least {gpu.number(least)}x, geometric mean {gpu.number(mean)}x, "
        f"in {len(ratios)} cases.",
    ]
    return run.report("gpu_variants", lines, results, least_ratio=least, geometric_mean=mean)


if __name__ == "__main__":
    sys.exit(gpu.main(__doc__, tables))
