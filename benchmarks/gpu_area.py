"""Does the time of masked attention follow the area that the mask admits?

Sliding windows and packed documents at a length of 32768, bf16, forward, beside the time of
causal attention, and of full attention, times the ratio of the areas: 1 where time follows the
area, and at most 1.15 wanted.
"""

from __future__ import annotations

import math
import statistics
import sys
from dataclasses import dataclass, replace
from typing import Any

from benchmarks import gpu
from benchmarks.gpu import OURS, Outcome, Setting
from benchmarks.gpu import unavailable as unavailable
from benchmarks.report import Report, table
from benchmarks.variants import VARIANTS, Shape, admitted_pairs, tensors

LENGTH, WINDOW, WANTED = 32768, 1024, 1.15
DOCUMENTS = (512, 2048, 8192)  # mean lengths
HEADS = {128: 16, 64: 32}
BASES = ("full", "causal")


@dataclass(frozen=True)
class Case:
    """A variant at one size."""

    variant: str
    shape: Shape

    @property
    def label(self) -> str:
        """As in "documents of 512"."""
        if self.variant == "documents":
            return f"documents-{self.shape.document}"
        return f"window-{self.shape.window}" if self.variant == "window" else self.variant

    @property
    def words(self) -> tuple[str, str]:
        """What `--only` is compared with."""
        return self.label, f"d={self.shape.head}"


def cases(setting: Setting) -> list[Case]:
    """The cases of a run; the first two are what the others are compared with."""
    found = []
    for head, heads in {16: 2}.items() if setting.rehearse else HEADS.items():
        shape = Shape(1, heads, heads, LENGTH, head, WINDOW)
        if setting.rehearse:
            shape = replace(shape, length=64, window=8)
        found += [Case(name, shape) for name in (*BASES, "window")]
        lengths = (16,) if setting.rehearse else DOCUMENTS
        found += [Case("documents", replace(shape, document=n)) for n in lengths]
    if setting.quick:
        found = [c for c in found if c.shape.head == found[0].shape.head]
    return setting.select(found)


@dataclass
class Result:
    """What was found for one case."""

    case: Case
    pairs: int
    outcome: Outcome
    schedule: str


def run_case(case: Case, run: gpu.Run) -> Result:
    """Check, then time."""
    variant = next(v for v in VARIANTS if v.name == case.variant)
    shape, device = case.shape, run.setting.device
    extras = variant.inputs(shape, device)
    pairs = admitted_pairs(variant, shape, extras, device)
    q, k, v = tensors(shape, device)
    right = gpu.reference(q, k, v, lambda x: variant.mods(shape, x), extras)
    inputs, params = (q, k, v, *extras.values()), variant.params(shape)
    contenders = {OURS: gpu.ours(variant.program, *inputs, **params)}
    outcome = run.hold(contenders, right.error, right.eager_error)
    chosen = gpu.schedule(variant.program, *inputs, **params) if OURS in outcome.errors else ""
    return Result(case, pairs, outcome, chosen)


def over_area(result: Result, base: Result | None) -> float:
    """The time over what the ratio of areas promises from another case's."""
    if base is None:
        return math.nan
    promised = base.outcome.median(OURS) * result.pairs / base.pairs
    return result.outcome.median(OURS) / promised


def tables(setting: Setting) -> Report:
    """The table."""
    run = gpu.Run(setting)
    results = run.each(cases(setting), lambda case: run_case(case, run))
    base = {r.case.words: r for r in results if r.case.variant in BASES}
    header = ["", "d", "area", "ms", "TFLOP/s", "/ causal x area", "/ full x area", "error"]
    rows: list[list[object]] = []
    data: list[dict[str, Any]] = []
    for r in results:
        shape, taken = r.case.shape, r.outcome.median(OURS)
        causal, full = (
            over_area(r, base.get((name, f"d={shape.head}"))) for name in reversed(BASES)
        )
        rate = 4 * shape.heads * shape.head * r.pairs / taken / 1e9
        error = r.outcome.errors.get(OURS, math.nan) / r.outcome.eager_error
        area = f"{100 * r.pairs / shape.length**2:.2f} %"
        numbers = [gpu.number(x) for x in (causal, full, error)]
        ms, tflops = gpu.number(taken, ".3f"), gpu.number(rate, ".0f")
        rows.append([r.case.label, shape.head, area, ms, tflops, *numbers, r.schedule])
        data.append(
            {
                "case": r.case.label,
                **vars(shape),
                "pairs": r.pairs,
                "over_causal": causal,
                "over_full": full,
                **r.outcome.to_json(),
                "schedule": r.schedule,
            }
        )
    masked = [d["over_causal"] for d in data if d["case"] not in BASES]
    kept = [x for x in masked if not math.isnan(x)]
    within = sum(x <= WANTED for x in kept)
    lines = [
        f"Masked attention, forward, bf16, N = {LENGTH}, B = 1: time over that of causal "
        f"attention times the ratio of areas, medians of {setting.rounds} rounds.",
        *run.notes((" ".join(r.case.words), r.outcome) for r in results),
        "The error is against float32 eager torch, relative to that of eager torch in bf16.",
        "",
        table([*header, "schedule"], rows),
        "",
        f"Within {WANTED}: {within} of {len(kept)}, median "
        f"{gpu.number(statistics.median(kept) if kept else math.nan)}.",
    ]
    right = not run.failed and all(r.outcome.right for r in results)
    return Report("gpu_area", "\n".join(lines), {**run.to_json(), "cases": data}, right)


def measure(quick: bool = False) -> Report:
    """The table, of everything."""
    return tables(Setting(quick))


def main() -> int:
    """Print the table."""
    return gpu.main(__doc__, tables)


if __name__ == "__main__":
    sys.exit(main())
