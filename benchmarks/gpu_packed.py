"""Sequences of different lengths in one call on one GPU, forward, bf16.

16 sequences of 256 to 8192 tokens, full and causal: *padded* to the longest, with a filter by
lengths, and *packed* one after the other, where each query knows where its own sequence begins and
ends. Beside them is FlashAttention-3 (see `benchmarks.gpu_forward`) of the packed ones. Work is
counted over the pairs of query and key of the same sequence that the mask admits. Errors of packed
tokens are taken against float32 eager torch, relative to those of eager torch in bf16.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks import errors, gpu, peers
from benchmarks.gpu import Setting
from benchmarks.peers import FA3, OURS, Call, Mods, Prepare
from benchmarks.report import Report, table
from benchmarks.variants import Shape, tensors

PADDED = OURS + ", padded"
SEQUENCES, LONGEST, WIDTH = 16, 8192, 2048
_ATTENTION = """
S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)
O[b,h,q,e] = softmax[k if {}](S[b,h,q,k]) * V[b,h,k,e]
"""
PADDED_ATTENTION = "input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], length[b]: int" + _ATTENTION
PACKED_ATTENTION = (
    "input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], start[b,q]: int, end[b,q]: int" + _ATTENTION
)


@dataclass(frozen=True)
class Case:
    """Sequences of random lengths."""

    is_causal: bool
    head: int
    lengths: tuple[int, ...]

    @property
    def words(self) -> tuple[str, str]:
        """Return the words that `--only` chooses by."""
        return "causal" if self.is_causal else "full", f"d={self.head}"

    @property
    def heads(self) -> int:
        """Return the number of heads."""
        return max(1, WIDTH // self.head) if sum(self.lengths) > SEQUENCES * 8 else 2

    def operations(self) -> float:
        """Floating-point operations of one call."""
        pairs = sum(n * (n + 1) // 2 if self.is_causal else n * n for n in self.lengths)
        return 4 * self.heads * self.head * pairs

    def program(self, text: str, condition: str) -> str:
        """The program whose filter is a condition, and causal if this is."""
        return text.format(condition + " and k <= q" if self.is_causal else condition)


def cases(setting: Setting) -> list[Case]:
    """The cases of a run."""
    longest = 8 if setting.rehearse else LONGEST
    random = torch.Generator().manual_seed(0)
    lengths = torch.randint(longest // 32, longest + 1, (SEQUENCES,), generator=random).tolist()
    lengths[0] = longest
    heads = (16,) if setting.rehearse else (128, 64)
    return setting.select([Case(c, d, tuple(lengths)) for d in heads for c in (False, True)])


@dataclass
class Result(gpu.Contest[Case]):
    """The outcome of one case."""

    schedules: dict[str, str]

    def teraflops(self, name: str) -> float:
        """The rate of a contender."""
        return self.case.operations() / self.outcome.median(name) / 1e9

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {
            "causal": self.case.is_causal,
            "d": self.case.head,
            "lengths": self.case.lengths,
            "tflops": {name: self.teraflops(name) for name in self.outcome.milliseconds},
            **self.outcome.to_json(),
            "schedules": self.schedules,
        }


def _flash3(case: Case, packed: Sequence[Tensor], edges: Tensor) -> Prepare:
    """FlashAttention-3 of packed sequences, whose result is (1, H, T, D)."""

    def prepare() -> Call:
        peers.fa3()
        q, k, v = (x[0].transpose(0, 1).contiguous() for x in packed)
        ends, longest = edges.int(), max(case.lengths)
        lengths = [ends, ends, None, None, None, longest, longest]
        more = [case.head**-0.5, case.is_causal, -1, -1, 0, 0.0, True, None, 1, None, 0]
        given = (q, k, v, *[None] * 4, *lengths, *[None] * 9, *more)

        def call() -> Tensor:
            result: Tensor = torch.ops.flash_attn_3.fwd(*given)[0]
            return result.transpose(0, 1)[None]

        return call

    return prepare


def run_case(case: Case, run: gpu.Run) -> Result:
    """Check, then time, whatever of the contenders runs here."""
    device, longest = run.setting.device, max(case.lengths)
    lengths = torch.tensor(case.lengths, device=device)
    edges = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    padded = tensors(Shape(SEQUENCES, case.heads, case.heads, longest, case.head), device)
    is_token = torch.arange(longest, device=device) < lengths[:, None]
    packed = [x.transpose(1, 2)[is_token].transpose(0, 1)[None].contiguous() for x in padded]
    own = torch.arange(SEQUENCES, device=device).repeat_interleave(lengths)
    start, end = (edges[own + n].int()[None] for n in (0, 1))

    def mods(_: Any) -> Mods:
        def is_admitted(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            is_own = (start[0, q] <= k) & (k < end[0, q])
            return is_own & (k <= q) if case.is_causal else is_own

        return None, is_admitted

    q, k, v = packed
    right = errors.reference(q, k, v, mods)
    text = case.program(PACKED_ATTENTION, "start[b,q] <= k < end[b,q]")
    padded_text = case.program(PADDED_ATTENTION, "k < length[b] and q < length[b]")
    ours = {
        OURS: (text, [*packed, start, end]),
        PADDED: (padded_text, [*padded, lengths.int()]),
    }
    contenders = {name: peers.ours(t, *inputs) for name, (t, inputs) in ours.items()}
    contenders[FA3] = _flash3(case, packed, edges)

    def error(result: Tensor) -> float:
        if result.shape[0] == SEQUENCES:
            result = result.transpose(1, 2)[is_token].transpose(0, 1)[None]
        return right.error(result)

    outcome = run.hold(contenders, error, right.eager_error)
    chosen = {n: peers.schedule(t, *x) for n, (t, x) in ours.items() if n in outcome.errors}
    return Result(case, outcome, chosen)


def tables(setting: Setting) -> Report:
    """The table."""
    run = gpu.Run(setting)
    results = run.each(cases(setting), lambda case: run_case(case, run))
    shown = [n for n in (OURS, PADDED, FA3) if any(n in r.outcome.milliseconds for r in results)]
    rows = []
    for r in results:
        ratio = r.outcome.best([FA3]) / r.outcome.best([OURS, PADDED])
        error = r.outcome.errors.get(OURS, float("nan")) / r.outcome.eager_error
        rates = [gpu.number(r.teraflops(n), ".0f") for n in shown]
        rows.append([*r.case.words, *rates, gpu.number(ratio), gpu.number(error)])
    lines = [
        f"{SEQUENCES} sequences of different lengths, forward, bf16, TFLOP/s, "
        f"medians of {setting.rounds} rounds.",
        *run.notes(results),
        "",
        table(["", "d", *shown, "/ FA3", "error"], rows),
    ]
    return run.report("gpu_packed", lines, results)


if __name__ == "__main__":
    sys.exit(gpu.main(__doc__, tables))
