"""Decoding on one GPU: one query a sequence, bf16, by the bytes of keys and values.

Grouped-query attention over a contiguous cache, over pages of several sizes that lie in any
order, and over pages of requests that differ in length, beside FlashAttention-3 (where FA3_DIR
names its operators; its own number of splits), SDPA with cuDNN and with FlashAttention-2, and
FlexAttention; and latent attention (mla) beside eager torch, SDPA and FlashAttention-3. The error
is taken against float32 eager torch, for all heads of two sequences or of the longest, relative to
that of eager torch in bf16.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend
from torch.nn.functional import scaled_dot_product_attention

from benchmarks import errors, gpu, peers
from benchmarks.gpu import Setting
from benchmarks.peers import CUDNN, DTYPE, FA3, FLASH, FLEX, OURS, Call, Prepare
from benchmarks.report import Report, table

PEERS = (FA3, CUDNN, FLASH, FLEX)
PAGE = 64  # of requests that differ in length
LATENT_SCALE = 192**-0.5  # of the heads that latents are projected from

PAGED = """
input Q[b,h,q,d], K[p,s,g,d], V[p,s,g,e], table[b,n]: int, length[b]: int
index k < |n| * |s|

G[h]       = h // (|h| // |g|)
S[b,h,q,k] = Q[b,h,q,d] * K[table[b,k // |s|],k % |s|,G[h],d] / sqrt(|d|)
P[b,h,q,k] = softmax[k if k < length[b]](S[b,h,q,k])
O[b,h,q,e] = P[b,h,q,k] * V[table[b,k // |s|],k % |s|,G[h],e]
"""
LATENT = """
input QC[b,h,q,c], QR[b,h,q,r], C[b,k,c], R[b,k,r]

S[b,h,q,k] = (QC[b,h,q,c] * C[b,k,c] + QR[b,h,q,r] * R[b,k,r]) / sqrt(192)
O[b,h,q,c] = softmax[k](S[b,h,q,k]) * C[b,k,c]
"""


def lengths_of(form: str, batch: int, longest: int) -> list[int]:
    """The lengths of requests: at random, or one in 16 of the longest and short ones."""
    if form == "random":
        return random.Random(batch).choices(range(1, longest + 1), k=batch)
    return [longest if b % 16 == 5 else longest // 16 for b in range(batch)]


@dataclass(frozen=True)
class Case:
    """Sizes: for a latent cache, `head` and `rotated` are those of its two parts; `form` is that
    of lengths that differ, up to `length`."""

    kind: str
    batch: int
    heads: int
    groups: int
    head: int
    length: int
    pages: tuple[int, ...] = ()
    rotated: int = 0
    form: str = ""

    @property
    def label(self) -> str:
        """As in "16x32x8x128"."""
        sizes = f"{self.batch}x{self.heads}x{self.groups}x{self.head}"
        return f"{sizes}+{self.rotated}" if self.rotated else sizes

    @property
    def words(self) -> tuple[str, ...]:
        """What `--only` is compared with."""
        return self.kind, self.label, f"N={self.length}", self.form.replace(" ", "-")

    @property
    def bytes(self) -> int:
        """Of keys and values."""
        width = self.head + self.rotated if self.kind == "latent" else 2 * self.head
        lengths = [self.length] * self.batch
        if self.form:
            lengths = lengths_of(self.form, self.batch, self.length)
        return sum(lengths) * self.groups * width * DTYPE.itemsize

    @property
    def operations(self) -> int:
        """Floating-point operations of the two products."""
        return 2 * self.batch * self.heads * self.length * (2 * self.head + self.rotated)


def cases(setting: Setting) -> list[Case]:
    """The cases of a run."""
    if setting.rehearse:
        grouped = Case("grouped", 2, 4, 2, 16, 96, (16, 32))
        latent = Case("latent", 2, 4, 1, 32, 48, rotated=16)
        return setting.select([grouped, latent, Case("uneven", 3, 4, 2, 16, 128, form="random")])
    pages = (16, 64, 128, 256)
    found = [
        Case("grouped", 16, 32, 8, 128, 8192, pages),
        Case("grouped", 64, 32, 8, 128, 8192, pages),
        Case("grouped", 4, 32, 8, 128, 65536, pages),
        Case("grouped", 16, 32, 32, 128, 8192, pages),
        Case("latent", 64, 128, 1, 512, 8192, rotated=64),
        Case("uneven", 16, 32, 8, 128, 16384, form="random"),
        Case("uneven", 64, 32, 8, 128, 16384, form="random"),
        Case("uneven", 128, 32, 8, 128, 8192, form="random"),
        Case("uneven", 16, 32, 8, 128, 16384, form="one in 16"),
        Case("uneven", 64, 32, 8, 128, 16384, form="one in 16"),
    ]
    return setting.select([found[0], found[2], found[4]] if setting.quick else found)


@dataclass
class Result(gpu.Contest[Case]):
    """What was found for one case."""

    schedules: dict[str, str]

    def rate(self, name: str) -> float:
        """Gigabytes of keys and values a second."""
        return self.case.bytes / self.outcome.median(name) / 1e6

    def error(self, name: str) -> float:
        """An error over that of eager torch in bf16."""
        return self.outcome.errors.get(name, math.nan) / self.outcome.eager_error

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {
            **vars(self.case),
            "bytes": self.case.bytes,
            "gigabytes_per_second": {n: self.rate(n) for n in self.outcome.milliseconds},
            **self.outcome.to_json(),
            "schedules": self.schedules,
        }


def _random(*shape: int, device: str) -> Tensor:
    return torch.randn(shape, device=device, dtype=DTYPE)


def _compared_heads(case: Case) -> tuple[tuple[int, int], ...]:
    return tuple((b, h) for b in (0, case.batch - 1) for h in range(case.heads))


def at_pages(name: str, size: int) -> str:
    """The name of a contender whose cache lies in pages."""
    return f"{name}, pages of {size}"


def paged(cache: Tensor, table: Tensor, size: int) -> Tensor:
    """A cache (B, G, N, D) as pages (P, S, G, D), of which the table tells the positions."""
    batch, groups, length, head = cache.shape
    pages = cache.transpose(1, 2).reshape(batch * length // size, size, groups, head)
    pool = torch.empty_like(pages)
    pool[table.flatten().long()] = pages
    return pool


def run_grouped(case: Case, run: gpu.Run) -> Result:
    """Check, then time, the contiguous cache and the pages."""
    device = run.setting.device
    b, g, n, d = case.batch, case.groups, case.length, case.head
    q = _random(b, case.heads, 1, d, device=device)
    k, v = (_random(b, g, n, d, device=device) for _ in range(2))
    lengths = torch.full((b,), n, device=device, dtype=torch.int32)
    right = errors.reference(q, k, v, heads=_compared_heads(case))

    def flex() -> Call:
        peers.reset_flex()
        return peers.flex(q, k, v, None, None)

    contenders: dict[str, Prepare] = {
        OURS: peers.ours("gqa", q, k, v),
        FA3: peers.flash3(*map(peers.rows, (q, k, v)), num_splits=0),
        CUDNN: peers.sdpa(SDPBackend.CUDNN_ATTENTION, q, k, v),
        FLASH: peers.sdpa(SDPBackend.FLASH_ATTENTION, q, k, v),
        FLEX: flex,
    }
    inputs: dict[str, tuple[str, tuple[Tensor, ...]]] = {OURS: ("gqa", (q, k, v))}
    for size in case.pages:
        positions = torch.randperm(b * n // size, device=device, dtype=torch.int32).view(b, -1)
        keys, values = (paged(x, positions, size) for x in (k, v))
        name = at_pages(OURS, size)
        inputs[name] = PAGED, (q, keys, values, positions, lengths)
        contenders[name] = peers.ours(PAGED, *inputs[name][1])
        contenders[at_pages(FA3, size)] = peers.flash3(
            peers.rows(q), keys, values, num_splits=0, seqused_k=lengths, page_table=positions
        )
    outcome = run.hold(contenders, right.error, right.eager_error)
    chosen = {n: peers.schedule(t, *x) for n, (t, x) in inputs.items() if n in outcome.errors}
    return Result(case, outcome, chosen)


def run_uneven(case: Case, run: gpu.Run) -> Result:
    """Check, then time, pages of 64 for requests that differ in length."""
    device, b, d = run.setting.device, case.batch, case.head
    q = _random(b, case.heads, 1, d, device=device)
    pages = b * case.length // PAGE
    k, v = (_random(pages, PAGE, case.groups, d, device=device) for _ in range(2))
    positions = torch.randperm(pages, device=device, dtype=torch.int32).view(b, -1)
    listed = lengths_of(case.form, b, case.length)
    lengths = torch.tensor(listed, device=device, dtype=torch.int32)
    one = slice(listed.index(max(listed)), listed.index(max(listed)) + 1)
    keys, values = (x[positions[one, : -(-max(listed) // PAGE)].flatten()] for x in (k, v))
    keys, values = (
        x.reshape(1, -1, case.groups, d).transpose(1, 2)[:, :, : max(listed)]
        for x in (keys, values)
    )
    heads = tuple((0, h) for h in range(case.heads))
    right = errors.reference(q[one], keys, values, heads=heads)
    inputs = q, k, v, positions, lengths
    theirs = peers.flash3(
        peers.rows(q), k, v, num_splits=0, seqused_k=lengths, page_table=positions
    )
    contenders: dict[str, Prepare] = {OURS: peers.ours(PAGED, *inputs), FA3: theirs}
    outcome = run.hold(contenders, lambda x: right.error(x[one]), right.eager_error)
    chosen = peers.schedule(PAGED, *inputs) if OURS in outcome.errors else ""
    return Result(case, outcome, {OURS: chosen})


def run_latent(case: Case, run: gpu.Run) -> Result:
    """Check, then time, the latent cache: all heads share one latent and one rotated vector."""
    device = run.setting.device
    b, h, n, c, r = case.batch, case.heads, case.length, case.head, case.rotated
    qc, qr = _random(b, h, 1, c, device=device), _random(b, h, 1, r, device=device)
    latent, rotated = _random(b, n, c, device=device), _random(b, n, r, device=device)
    queries, keys = torch.cat([qc, qr], -1), torch.cat([latent, rotated], -1)
    values = latent[:, None]
    right = errors.reference(
        queries, keys[:, None], values, heads=_compared_heads(case), scale=LATENT_SCALE
    )
    as_rows = queries.transpose(1, 2)  # heads are rows of one head

    def eager() -> Tensor:
        logits = as_rows[:, 0] @ keys.transpose(1, 2) * LATENT_SCALE
        return (torch.softmax(logits, -1) @ latent)[:, :, None]

    def dense() -> Tensor:
        found = scaled_dot_product_attention(as_rows, keys[:, None], values, scale=LATENT_SCALE)
        return found.transpose(1, 2)

    contenders: dict[str, Prepare] = {
        OURS: peers.ours(LATENT, qc, qr, latent, rotated),
        "eager": lambda: eager,
        "SDPA": lambda: dense,
        FA3 + ", latent": peers.flash3(
            peers.rows(qr),
            rotated[:, :, None],
            latent[:, :, None],
            num_splits=0,
            qv=peers.rows(qc),
            scale=LATENT_SCALE,
        ),
    }
    outcome = run.hold(contenders, right.error, right.eager_error)
    chosen = peers.schedule(LATENT, qc, qr, latent, rotated) if OURS in outcome.errors else ""
    return Result(case, outcome, {OURS: chosen})


def run_case(case: Case, run: gpu.Run) -> Result:
    """Check, then time."""
    result = {"latent": run_latent, "uneven": run_uneven}.get(case.kind, run_grouped)(case, run)
    found = {n: f"{result.rate(n):.0f}" for n in result.outcome.milliseconds}
    gpu.say(f"{case.label}, GB/s: {found}; {result.outcome.faults}")
    return result


def _contiguous_table(results: Sequence[Result]) -> str:
    shown = [n for n in (OURS, *PEERS) if any(n in r.outcome.milliseconds for r in results)]
    header = ["B x Hq x Hkv x d", "N", "GB", *shown, "/ FA3", "/ best", "error", "schedule"]
    rows = []
    for r in results:
        ours, rates = r.rate(OURS), [gpu.number(r.rate(n), ".0f") for n in shown]
        best = r.case.bytes / r.outcome.best(PEERS) / 1e6
        ratios = [gpu.number(ours / r.rate(FA3)), gpu.number(ours / best)]
        size, error = f"{r.case.bytes / 1e9:.2f}", gpu.number(r.error(OURS))
        chosen = r.schedules.get(OURS, "")
        rows.append([r.case.label, r.case.length, size, *rates, *ratios, error, chosen])
    return table(header, rows)


def _paged_table(results: Sequence[Result]) -> str:
    header = ["B x Hq x Hkv x d", "N", "page", OURS, "/ contiguous", FA3, "/ FA3", "error"]
    rows = []
    for r in results:
        for size in r.case.pages:
            name = at_pages(OURS, size)
            ours, theirs = r.rate(name), r.rate(at_pages(FA3, size))
            compared = (ours / r.rate(OURS), theirs, ours / theirs, r.error(name))
            found = gpu.numbers(compared, (".2f", ".0f", ".2f", ".2f"))
            chosen = r.schedules.get(name, "")
            rate = gpu.number(ours, ".0f")
            rows.append([r.case.label, r.case.length, size, rate, *found, chosen])
    return table([*header, "schedule"], rows)


def _uneven_table(results: Sequence[Result]) -> str:
    header = ["B x Hq x Hkv x d", "up to", "lengths", "GB", OURS, FA3, "/ FA3", "error", "schedule"]
    rows = []
    for r in results:
        ours, theirs = (r.outcome.median(n) * 1e3 for n in (OURS, FA3))
        found = gpu.numbers(
            (ours, theirs, theirs / ours, r.error(OURS)), (".0f", ".0f", ".2f", ".2f")
        )
        size = f"{r.case.bytes / 1e9:.2f}"
        chosen = r.schedules.get(OURS, "")
        rows.append([r.case.label, r.case.length, r.case.form, size, *found, chosen])
    return table(header, rows)


def _latent_table(results: Sequence[Result]) -> str:
    header = ["", "ms", "GB/s", "TFLOP/s", "error", "schedule"]
    rows = []
    for r in results:
        for name, error in r.outcome.errors.items():
            taken = r.outcome.median(name)
            rates = (taken, r.rate(name), r.case.operations / taken / 1e9)
            found = gpu.numbers(rates, (".3f", ".0f", ".0f"))
            ratio = gpu.number(error / r.outcome.eager_error)
            rows.append([name, *found, ratio, r.schedules.get(name, "")])
    return table(header, rows)


def tables(setting: Setting) -> Report:
    """The tables."""
    run = gpu.Run(setting)
    results = run.each(cases(setting), lambda case: run_case(case, run))
    grouped = [r for r in results if r.case.kind == "grouped"]
    latent = [r for r in results if r.case.kind == "latent"]
    lines = [
        "Decoding, one query a sequence, bf16, GB/s of keys and values, "
        f"medians of {setting.rounds} rounds.",
        *run.notes(results),
        "The error is against float32 eager torch, relative to that of eager torch in bf16.",
    ]
    if grouped:
        lines += ["", _contiguous_table(grouped)]
        lines += ["", "Pages in any order:", "", _paged_table(grouped)]
    uneven = [r for r in results if r.case.kind == "uneven"]
    if uneven:
        lines += ["", f"Requests that differ in length, pages of {PAGE}, microseconds:"]
        lines += ["", _uneven_table(uneven)]
    for r in latent:
        sizes = f"B = {r.case.batch}, {r.case.heads} heads, N = {r.case.length}"
        lines += ["", f"Latent attention, {sizes}, {r.case.head} + {r.case.rotated} dimensions:"]
        lines += ["", _latent_table([r])]
    return run.report("gpu_decode", lines, results)


if __name__ == "__main__":
    sys.exit(gpu.main(__doc__, tables))
