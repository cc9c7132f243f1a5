"""Does the time of masked attention follow the area that the mask admits?

Sliding windows and packed documents at a length of 32768, bf16, forward, beside the time of
causal attention, and of full attention, times the ratio of the areas: 1 where time follows the
area, and at most 1.15 wanted.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks import errors, gpu, peers
from benchmarks.gpu import Setting
from benchmarks.peers import OURS
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
class Result(gpu.Contest[Case]):
    """What was found for one case.

    Attributes:
        pairs: of query and key that the mask admits.
        schedule: what was chosen, in words.
        over: the time over what the ratio of areas promises from that of each base.
    """

    pairs: int
    schedule: str
    over: dict[str, float] = field(default_factory=dict)

    def compare(self, base: Result | None) -> float:
        """The time over what the ratio of areas promises from another case's."""
        if base is None:
            return math.nan
        promised = base.outcome.median(OURS) * self.pairs / base.pairs
        return self.outcome.median(OURS) / promised

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {
            "case": self.case.label,
            **vars(self.case.shape),
            "pairs": self.pairs,
            **{f"over_{name}": ratio for name, ratio in self.over.items()},
            **self.outcome.to_json(),
            "schedule": self.schedule,
        }


def run_case(case: Case, run: gpu.Run) -> Result:
    """Check, then time."""
    variant = next(v for v in VARIANTS if v.name == case.variant)
    shape, device = case.shape, run.setting.device
    extras = variant.inputs(shape, device)
    pairs = admitted_pairs(variant, shape, extras, device)
    q, k, v = tensors(shape, device)
    right = errors.reference(q, k, v, lambda x: variant.mods(shape, x), extras)
    inputs, params = (q, k, v, *extras.values()), variant.params(shape)
    contenders = {OURS: peers.ours(variant.program, *inputs, **params)}
    outcome = run.hold(contenders, right.error, right.eager_error)
    chosen = peers.schedule(variant.program, *inputs, **params) if OURS in outcome.errors else ""
    gpu.say(f"{case.label}: {outcome.median(OURS):.3f} ms; {outcome.faults or chosen}")
    return Result(case, outcome, pairs, chosen)


def _within(base: str, ratios: Sequence[float]) -> str:
    kept = [x for x in ratios if not math.isnan(x)]
    good, middle = sum(x <= WANTED for x in kept), statistics.median(kept or [math.nan])
    return (
        f"Within {WANTED} of the time of {base} attention times the ratio of areas: {good} of "
        f"{len(kept)}, median {gpu.number(middle)}."
    )


def tables(setting: Setting) -> Report:
    """The table."""
    run = gpu.Run(setting)
    results = run.each(cases(setting), lambda case: run_case(case, run))
    found = {r.case.words: r for r in results}
    header = ["", "d", "area", "ms", "TFLOP/s", "/ causal x area", "/ full x area", "error"]
    rows: list[list[object]] = []
    for r in results:
        shape, taken = r.case.shape, r.outcome.median(OURS)
        _, head = r.case.words
        r.over = {name: r.compare(found.get((name, head))) for name in BASES}
        rate = 4 * shape.heads * shape.head * r.pairs / taken / 1e9
        error = r.outcome.errors.get(OURS, math.nan) / r.outcome.eager_error
        area = f"{100 * r.pairs / shape.length**2:.2f} %"
        numbers = [gpu.number(x) for x in (r.over["causal"], r.over["full"], error)]
        ms, tflops = gpu.number(taken, ".3f"), gpu.number(rate, ".0f")
        rows.append([r.case.label, shape.head, area, ms, tflops, *numbers, r.schedule])
    masked = [r for r in results if r.case.variant not in BASES]
    lines = [
        f"Masked attention, forward, bf16, N = {LENGTH}, B = 1: time over that of causal "
        f"attention times the ratio of areas, medians of {setting.rounds} rounds.",
        *run.notes(results),
        "The error is against float32 eager torch, relative to that of eager torch in bf16.",
        "",
        table([*header, "schedule"], rows),
        "",
        *(_within(name, [r.over[name] for r in masked]) for name in BASES),
    ]
    return run.report("gpu_area", lines, results)


if __name__ == "__main__":
    sys.exit(gpu.main(__doc__, tables))
