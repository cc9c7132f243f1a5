"""Gradients of attention's variants on one GPU, bf16, beside FlexAttention's.

Timed is the backward alone, from the derivative of the output to those of all inputs that are
differentiated, and forward and backward together. FlexAttention is compiled for the shapes with its
default options; building its block mask is not counted. Work is counted over the pairs of query and
key that the mask admits: 10 * d operations each in the backward. Errors are taken of each gradient
against float32 eager torch, on one group of heads, relative to that of eager torch in bf16; the
largest is shown: at most 2.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask

from benchmarks import errors, gpu, peers
from benchmarks.gpu import Setting
from benchmarks.peers import FLEX, OURS, Call, Prepare
from benchmarks.report import Report, table
from benchmarks.variants import VARIANTS, Case, Shape, admitted_pairs, tensors

TOKENS = 16384
HEADS, GROUPS = {128: 16, 64: 32, 256: 8}, (32, 8)
LIMIT = 2.0  # errors of gradients over those of eager torch
BOTH = " with forward"
NAMES = ("full", "causal", "window", "softcap", "alibi", "documents", "gqa-causal", "relative-bias")


def cases(setting: Setting) -> list[Case]:
    """The cases of a run."""
    lengths = (4096,) if setting.quick else (4096, 16384)
    found = []
    for variant in (v for v in VARIANTS if v.name in NAMES):
        if setting.rehearse:
            groups = 2 if variant.has_groups else 4
            found.append(Case(variant, Shape(2, 4, groups, 48, 16, 9, 12)))
            continue
        for head, heads in HEADS.items():
            many, few = GROUPS if variant.has_groups else (heads, heads)
            if head == 256 and variant.name not in ("full", "causal"):
                continue
            found += [Case(variant, Shape(TOKENS // n, many, few, n, head)) for n in lengths]
    return setting.select(found)


@dataclass
class Result(gpu.Contest[Case]):
    """What was found for one case."""

    pairs: int

    def teraflops(self, name: str) -> float:
        """The rate of a contender's backward."""
        shape = self.case.shape
        return 10 * shape.heads * shape.head * self.pairs / self.outcome.median(name) / 1e9

    def ratio(self, suffix: str = "") -> float:
        """Times as fast as FlexAttention."""
        return self.outcome.median(FLEX + suffix) / self.outcome.median(OURS + suffix)

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {
            "variant": self.case.variant.name,
            **vars(self.case.shape),
            "pairs": self.pairs,
            "ratio": self.ratio(),
            "ratio_with_forward": self.ratio(BOTH),
            **self.outcome.to_json(),
        }


@dataclass(frozen=True)
class Reference:
    """The gradients of one group of heads, in float32, and the errors of eager torch in bf16."""

    exact: tuple[Tensor, ...]
    eager: tuple[float, ...]

    def error(self, found: Sequence[Tensor]) -> float:
        """The largest error of a gradient over eager torch's."""
        pairs = zip(_of_first_heads(found), self.exact, self.eager, strict=True)
        return max(errors.relative_error(f, x) / e for f, x, e in pairs)


def _of_first_heads(gradients: Sequence[Tensor]) -> list[Tensor]:
    """Of dQ, dK, dV the last sequence's first group of heads; of what all sequences share the first
    head's, unless that is one number, of which eager torch's may be right by chance."""
    heads = gradients[0].shape[1] // gradients[1].shape[1]
    own = [g[-1, : heads if n == 0 else 1] for n, g in enumerate(gradients[:3])]
    return own + [g[0] for g in gradients[3:] if g.dim() > 1]


def reference(case: Case, inputs: Mapping[str, Tensor], cotangent: Tensor) -> Reference:
    """Eager torch's autograd, for the last sequence's first group of heads; and for those of all
    sequences, where these share what is differentiated."""
    q, k, v = (inputs[n] for n in ("q", "k", "v"))
    heads, last = q.shape[1] // k.shape[1], q.shape[0] - 1
    extras = {n: x for n, x in inputs.items() if n not in ("q", "k", "v")}
    shares = any(x.is_floating_point() for x in extras.values())

    def gradients(dtype: torch.dtype) -> tuple[Tensor, ...]:
        given = {
            n: x.to(dtype).requires_grad_() if x.is_floating_point() else x
            for n, x in extras.items()
        }
        score, mask = case.variant.mods(case.shape, given)
        shared = [x for x in given.values() if x.is_floating_point()]
        sums = [torch.zeros_like(x) for x in shared]
        positions = torch.arange(q.shape[2], device=q.device)
        own: list[Tensor] = []
        for batch in range(0 if shares else last, last + 1):
            rows = [
                x.to(dtype).requires_grad_() for x in (q[batch, :heads], k[batch, 0], v[batch, 0])
            ]
            own = [torch.zeros_like(x) for x in rows]
            at = torch.tensor(batch, device=q.device)
            for h in range(heads):
                logits = rows[0][h] @ rows[1].T / math.sqrt(q.shape[-1])
                head = torch.tensor(h, device=q.device)
                if score is not None:
                    logits = score(logits, at, head, positions[:, None], positions[None, :])
                if mask is not None:
                    admitted = mask(at, head, positions[:, None], positions[None, :])
                    logits = logits.masked_fill(~admitted, -math.inf)
                result = torch.softmax(logits, dim=-1) @ rows[2]
                wanted = [*rows, *shared]
                parts = torch.autograd.grad(result, wanted, cotangent[batch, h].to(dtype))
                for total, part in zip([*own, *sums], parts, strict=True):
                    total += part
        return own[0], own[1][None], own[2][None], *(x[0] for x in sums if x.dim() > 1)

    exact, eager = gradients(torch.float32), gradients(q.dtype)
    pairs = zip(eager, exact, strict=True)
    return Reference(exact, tuple(errors.relative_error(e, x) for e, x in pairs))


def run_case(case: Case, run: gpu.Run) -> Result:
    """Check, then time."""
    variant, shape, device = case.variant, case.shape, run.setting.device
    extras = variant.inputs(shape, device)
    pairs = admitted_pairs(variant, shape, extras, device)
    q, k, v = (x.requires_grad_() for x in tensors(shape, device))
    differentiated = [q, k, v]
    for x in extras.values():
        if x.is_floating_point():
            differentiated.append(x.requires_grad_())
    cotangent = torch.randn(q.shape, dtype=q.dtype, device=device)
    inputs = {"q": q, "k": k, "v": v, **extras}
    right = reference(case, {n: x.detach() for n, x in inputs.items()}, cotangent)

    def backward(forward: Callable[[], Tensor], wanted: Sequence[Tensor]) -> Prepare:
        def prepare() -> Call:
            result = forward()
            return lambda: torch.autograd.grad(result, wanted, cotangent, retain_graph=True)

        return prepare

    def both(forward: Callable[[], Tensor], wanted: Sequence[Tensor]) -> Prepare:
        return lambda: lambda: torch.autograd.grad(forward(), wanted, cotangent)

    def ours() -> Tensor:
        call = peers.kernel(variant.program)
        found = call(q, k, v, *extras.values(), **variant.params(shape))
        assert isinstance(found, Tensor)
        return found

    attend: list[Callable[[], Tensor]] = []

    def flex() -> Tensor:
        if not attend:
            peers.reset_flex()
            score, mask = variant.mods(shape, extras)
            batch, n = shape.batch if variant.per_batch else None, shape.length
            blocks = None
            if mask is not None:
                blocks = create_block_mask(mask, batch, None, n, n, device=device)
            attend.append(peers.flex(q, k, v, score, blocks))
        return attend[0]()

    contenders: dict[str, Prepare] = {
        OURS: backward(ours, differentiated),
        FLEX: backward(flex, differentiated),
        OURS + BOTH: both(ours, differentiated),
        FLEX + BOTH: both(flex, differentiated),
    }
    outcome = run.hold(contenders, right.error, LIMIT)
    result = Result(case, outcome, pairs)
    gpu.say(
        f"{' '.join(case.words)}: {result.teraflops(OURS):.0f} TFLOP/s, Flex "
        f"{result.teraflops(FLEX):.0f}, {result.ratio():.2f}x, with forward "
        f"{result.ratio(BOTH):.2f}x, error {outcome.errors.get(OURS, math.nan):.2f}; "
        f"{outcome.faults}"
    )
    return result


def _table(results: Sequence[Result]) -> str:
    header = ["", "d", "N", "H", OURS, FLEX, "/ Flex", "with forward", "error"]
    rows = []
    for r in results:
        shape = r.case.shape
        heads = f"{shape.heads}/{shape.groups}" if shape.groups < shape.heads else shape.heads
        rates = [gpu.number(r.teraflops(n), ".0f") for n in (OURS, FLEX)]
        ratios = [gpu.number(r.ratio()), gpu.number(r.ratio(BOTH))]
        error = gpu.number(r.outcome.errors.get(OURS, math.nan))
        rows.append([r.case.variant.name, shape.head, shape.length, heads, *rates, *ratios, error])
    return table(header, rows)


def tables(setting: Setting) -> Report:
    """The table."""
    run = gpu.Run(setting)
    results = run.each(cases(setting), lambda case: run_case(case, run))
    ratios = [r.ratio() for r in results if not math.isnan(r.ratio())]
    least, mean = min(ratios, default=math.nan), gpu.geometric_mean(ratios)
    lines = [
        f"Gradients of attention's variants, bf16, {TOKENS} tokens a batch, TFLOP/s of the "
        f"backward over admitted pairs, medians of {setting.rounds} rounds.",
        *run.notes(results),
        "Flex is FlexAttention, compiled; its block mask is built beforehand.",
        "The error is the largest of all gradients, relative to that of eager torch in bf16.",
        "",
        _table(results),
        "",
        f"Beside Flex: at least {gpu.number(least)}x, geometric mean {gpu.number(mean)}x, "
        f"in {len(ratios)} cases.",
    ]
    return run.report("gpu_gradients", lines, results, least_ratio=least, geometric_mean=mean)


if __name__ == "__main__":
    sys.exit(gpu.main(__doc__, tables))
