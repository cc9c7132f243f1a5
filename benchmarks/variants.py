"""Variants of attention, each written twice: as a program, and as FlexAttention's functions.

From the functions also follow the eager reference and the number of pairs of query and key that
the mask admits, by which work is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from benchmarks.peers import DTYPE, Mods

Extras: TypeAlias = Mapping[str, Tensor]
SINK, CAP = 4, 30.0

GQA_CAUSAL = """
input Q[b,h,q,d], K[b,g,k,d], V[b,g,k,e]

G[h]       = h // (|h| // |g|)
S[b,h,q,k] = Q[b,h,q,d] * K[b,G[h],k,d] / sqrt(|d|)
O[b,h,q,e] = softmax[k if k <= q](S[b,h,q,k]) * V[b,G[h],k,e]
"""
RELATIVE_BIAS = """
input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], R[h,r]
index r < |q| + |k| - 1

S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|) + R[h,q - k + |k| - 1]
O[b,h,q,e] = softmax[k](S[b,h,q,k]) * V[b,h,k,e]
"""
SOFTCAP_WINDOW_GQA = """
input Q[b,h,q,d], K[b,g,k,d], V[b,g,k,e]
param window: int = 1024, cap: float = 30.0
def softcap(x, c) = c * tanh(x / c)

G[h]       = h // (|h| // |g|)
S[b,h,q,k] = softcap(Q[b,h,q,d] * K[b,G[h],k,d] / sqrt(|d|), cap)
O[b,h,q,e] = softmax[k if k <= q and q - k < window](S[b,h,q,k]) * V[b,G[h],k,e]
"""

FORGETTING = """
input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], F[b,h,t]

C[b,h,t]   = sum[..t](F[b,h,t])
S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|) + C[b,h,q] - C[b,h,k]
O[b,h,q,e] = softmax[k if k <= q](S[b,h,q,k]) * V[b,h,k,e]
"""


@dataclass(frozen=True)
class Shape:
    """Sizes of one case.

    Attributes:
        batch: sequences.
        heads: of the queries.
        groups: heads of keys and values.
        length: of queries and of keys.
        head: the size of a head.
        window: of the programs that have one.
        document: the mean length of a packed document.
    """

    batch: int
    heads: int
    groups: int
    length: int
    head: int
    window: int = 1024
    document: int = 1024


@dataclass(frozen=True)
class Variant:
    """A variant of attention.

    Attributes:
        name: what tables call it.
        program: of the library, by name, or a text.
        mods: FlexAttention's score_mod and mask_mod, from the shape and the further inputs.
        inputs: the further inputs, in the program's order.
        params: the parameters that the shape gives.
        has_groups: do heads share keys and values?
        per_batch: does the mask depend on the batch?
    """

    name: str
    program: str
    mods: Callable[[Shape, Extras], Mods]
    inputs: Callable[[Shape, str], dict[str, Tensor]] = lambda shape, device: {}
    params: Callable[[Shape], dict[str, Any]] = lambda shape: {}
    has_groups: bool = False
    per_batch: bool = False


@dataclass(frozen=True)
class Case:
    """A variant at one size."""

    variant: Variant
    shape: Shape

    @property
    def words(self) -> tuple[str, str, str]:
        """What `--only` is compared with."""
        return self.variant.name, f"d={self.shape.head}", f"N={self.shape.length}"


def tensors(shape: Shape, device: str) -> tuple[Tensor, Tensor, Tensor]:
    """Random queries (B, H, N, D), keys and values (B, G, N, D)."""

    def random(heads: int) -> Tensor:
        size = (shape.batch, heads, shape.length, shape.head)
        return torch.randn(size, device=device, dtype=DTYPE)

    return random(shape.heads), random(shape.groups), random(shape.groups)


def admitted_pairs(variant: Variant, shape: Shape, extras: Extras, device: str) -> int:
    """Pairs of query and key that the mask admits, over all sequences, for one head."""
    _, mask = variant.mods(shape, extras)
    if mask is None:
        return shape.batch * shape.length**2
    positions = torch.arange(shape.length, device=device)
    found = 0
    for number in range(shape.batch if variant.per_batch else 1):
        b, h = torch.tensor(number, device=device), torch.tensor(0, device=device)
        for rows in positions.split(1024):
            found += int(mask(b, h, rows[:, None], positions[None, :]).sum())
    return found if variant.per_batch else found * shape.batch


# Inputs beside queries, keys and values


def _slopes(shape: Shape, device: str) -> dict[str, Tensor]:
    heads = torch.arange(shape.heads, device=device)
    return {"slope": (2.0 ** (-8.0 * (heads + 1) / shape.heads)).to(DTYPE)}


def _alike() -> torch.Generator:
    """Random lengths are the same in each run, so that runs can be compared."""
    return torch.Generator().manual_seed(0)


def _prefixes(shape: Shape, device: str) -> dict[str, Tensor]:
    n, size = shape.length, (shape.batch,)
    prefix = torch.randint(n // 8, n // 2, size, generator=_alike())
    return {"prefix": prefix.int().to(device)}


def _bias(shape: Shape, device: str) -> dict[str, Tensor]:
    size = (shape.heads, 2 * shape.length - 1)
    return {"R": torch.randn(size, device=device, dtype=DTYPE)}


def packed(shape: Shape, device: str) -> dict[str, Tensor]:
    """Where the document of each query begins and ends: cut at random positions."""
    count, n = max(1, shape.length // shape.document), shape.length
    starts, ends, random = [], [], _alike()
    for _ in range(shape.batch):
        cuts = torch.randperm(n - 1, generator=random)[: count - 1].add(1).sort().values
        edges = torch.cat([torch.tensor([0]), cuts, torch.tensor([n])])
        lengths = edges.diff()
        starts.append(edges[:-1].repeat_interleave(lengths))
        ends.append(edges[1:].repeat_interleave(lengths))
    made = {"start": torch.stack(starts), "end": torch.stack(ends)}
    return {name: x.int().to(device) for name, x in made.items()}


def _gates(shape: Shape, device: str) -> dict[str, Tensor]:
    """Logarithms of what is not forgotten."""
    size = (shape.batch, shape.heads, shape.length)
    return {"F": -torch.rand(size, device=device, dtype=DTYPE) / 16}


# Score and mask functions


def _no_mods(shape: Shape, x: Extras) -> Mods:
    return None, None


def _causal(shape: Shape, x: Extras) -> Mods:
    return None, lambda b, h, q, k: k <= q


def _window(shape: Shape, x: Extras) -> Mods:
    window = shape.window
    return None, lambda b, h, q, k: (k <= q) & (q - k < window)


def _softcap(shape: Shape, x: Extras) -> Mods:
    return (
        lambda s, b, h, q, k: CAP * torch.tanh(s / CAP),
        lambda b, h, q, k: k <= q,
    )


def _alibi(shape: Shape, x: Extras) -> Mods:
    slope = x["slope"]
    return lambda s, b, h, q, k: s - slope[h] * (q - k), lambda b, h, q, k: k <= q


def _prefix_lm(shape: Shape, x: Extras) -> Mods:
    prefix = x["prefix"]
    return None, lambda b, h, q, k: (k < prefix[b]) | (k <= q)


def _document(shape: Shape, x: Extras) -> Mods:
    start = x["start"]
    return None, lambda b, h, q, k: (start[b, q] <= k) & (k <= q)


def _relative_bias(shape: Shape, x: Extras) -> Mods:
    bias, last = x["R"], shape.length - 1
    return lambda s, b, h, q, k: s + bias[h, q - k + last], None


def _forgetting(shape: Shape, x: Extras) -> Mods:
    """The sums of the gates are not counted, where ours are."""
    sums = x["F"].float().cumsum(-1)

    def score(s: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (s + sums[b, h, q] - sums[b, h, k]).to(s.dtype)

    return score, lambda b, h, q, k: k <= q


def _sink_window(shape: Shape, x: Extras) -> Mods:
    window = shape.window
    return None, lambda b, h, q, k: (k <= q) & ((k < SINK) | (q - k < window))


def _softcap_window(shape: Shape, x: Extras) -> Mods:
    return _softcap(shape, x)[0], _window(shape, x)[1]


def _window_param(shape: Shape) -> dict[str, Any]:
    return {"window": shape.window}


VARIANTS = (
    Variant("full", "attention", _no_mods),
    Variant("causal", "causal", _causal),
    Variant("window", "sliding_window", _window, params=_window_param),
    Variant("softcap", "softcap", _softcap, params=lambda shape: {"cap": CAP}),
    Variant("alibi", "alibi", _alibi, _slopes),
    Variant("prefix-lm", "prefix_lm", _prefix_lm, _prefixes, per_batch=True),
    Variant("documents", "document", _document, packed, per_batch=True),
    Variant("gqa-causal", GQA_CAUSAL, _causal, has_groups=True),
    Variant("relative-bias", RELATIVE_BIAS, _relative_bias, _bias),
    Variant("forgetting", FORGETTING, _forgetting, _gates),
    Variant(
        "sink-window",
        "sink_window",
        _sink_window,
        params=lambda shape: {"sink": SINK, "window": shape.window},
    ),
    Variant(
        "softcap-window-gqa",
        SOFTCAP_WINDOW_GQA,
        _softcap_window,
        params=lambda shape: {"window": shape.window, "cap": CAP},
        has_groups=True,
    ),
)
