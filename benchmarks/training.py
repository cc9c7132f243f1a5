"""Train a small language model with a derived attention, beside the same in eager torch.

    python -m benchmarks.training --steps 200 --plot losses.svg

The model is a transformer over bytes, and learns from the documentation of Python's syntax, which
comes with Python (`pydoc_data.topics`). Each variant of attention is one program; its gradients are
derived. Both models start with the same weights and see the same batches: their losses differ by
what rounding makes of it, and no more than those of two eager runs whose batches differ.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pydoc_data import topics

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import monocomp as mc

SINK = """
input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], sink[h]
S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)
Z[b,h,q]   = exp(sink[h]) + sum[k if k <= q](exp(S[b,h,q,k]))
O[b,h,q,e] = sum[k if k <= q](exp(S[b,h,q,k]) * V[b,h,k,e]) / Z[b,h,q]
"""
ALIBI = """
input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], slope[h]
S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|) - abs(slope[h]) * (q - k)
O[b,h,q,e] = softmax[k if k <= q](S[b,h,q,k]) * V[b,h,k,e]
"""
SOFTCAP = """
input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], cap[h]
S[b,h,q,k] = cap[h] * tanh(Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|) / cap[h])
O[b,h,q,e] = softmax[k if k <= q and q - k < 64](S[b,h,q,k]) * V[b,h,k,e]
"""

Attention = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def _eager(q: Tensor, k: Tensor, weigh: Callable[[Tensor, Tensor], Tensor], v: Tensor) -> Tensor:
    positions = torch.arange(q.shape[2], device=q.device)
    distance = positions[:, None] - positions
    return weigh(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, distance) @ v


def eager_sink(q: Tensor, k: Tensor, v: Tensor, sink: Tensor) -> Tensor:
    """Causal attention with one more logit a head, which has no value."""

    def weigh(s: Tensor, distance: Tensor) -> Tensor:
        s = s.masked_fill(distance < 0, -torch.inf)
        extra = sink[:, None, None].expand(*s.shape[:-1], 1)
        return torch.cat([s, extra], -1).softmax(-1)[..., :-1]

    return _eager(q, k, weigh, v)


def eager_alibi(q: Tensor, k: Tensor, v: Tensor, slope: Tensor) -> Tensor:
    """Causal attention whose logits fall with the distance, by a slope that is learned."""

    def weigh(s: Tensor, distance: Tensor) -> Tensor:
        s = s - slope.abs()[:, None, None] * distance
        return s.masked_fill(distance < 0, -torch.inf).softmax(-1)

    return _eager(q, k, weigh, v)


def eager_softcap(q: Tensor, k: Tensor, v: Tensor, cap: Tensor) -> Tensor:
    """Attention in a window of 64, with logits that are capped softly."""

    def weigh(s: Tensor, distance: Tensor) -> Tensor:
        bound = cap[:, None, None]
        s = bound * torch.tanh(s / bound)
        return s.masked_fill((distance < 0) | (distance >= 64), -torch.inf).softmax(-1)

    return _eager(q, k, weigh, v)


@dataclass(frozen=True)
class Variant:
    """A way to attend, with one parameter a head that is learned.

    Attributes:
        program: its mathematics.
        eager: the same in eager torch.
        start: what the parameter of a head starts with.
    """

    program: str
    eager: Attention
    start: float


VARIANTS: Mapping[str, Variant] = {
    "a learned sink": Variant(SINK, eager_sink, 0.0),
    "learned slopes": Variant(ALIBI, eager_alibi, 0.1),
    "a window, softly capped": Variant(SOFTCAP, eager_softcap, 10.0),
}


class Block(nn.Module):
    """A layer of the transformer: attention, then two linear layers, each on what is normalised."""

    def __init__(self, width: int, heads: int, attend: Attention, start: float) -> None:
        super().__init__()
        self.heads, self.attend = heads, attend
        self.per_head = nn.Parameter(torch.full((heads,), start))
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(B, N, width) to the same."""
        batch, length, width = x.shape
        normed = F.layer_norm(x, (width,))
        q, k, v = self.qkv(normed).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = self.attend(q, k, v, self.per_head.to(q.dtype))
        x = x + self.out(attended.to(x.dtype).transpose(1, 2).reshape(x.shape))
        wide: Tensor = self.down(F.gelu(self.up(F.layer_norm(x, (width,)))))
        return x + wide


class Model(nn.Module):
    """A language model over bytes."""

    def __init__(
        self, width: int, heads: int, layers: int, attend: Attention, start: float
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, width)
        self.blocks = nn.ModuleList(Block(width, heads, attend, start) for _ in range(layers))
        self.head = nn.Linear(width, 256)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the mean loss, in nats a byte, of (B, N + 1) bytes."""
        x = self.embedding(tokens[:, :-1])
        for block in self.blocks:
            x = block(x)
        logits = self.head(F.layer_norm(x, x.shape[-1:]))
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


@dataclass(frozen=True)
class Size:
    """The sizes of the model and of a batch."""

    width: int = 256
    heads: int = 4
    layers: int = 4
    batch: int = 16
    length: int = 256


def text() -> Tensor:
    """Return the bytes to learn."""
    joined = "\n".join(topics.topics.values()).encode()
    return torch.frombuffer(bytearray(joined), dtype=torch.uint8).long()


def train(
    attend: Attention, start: float, steps: int, size: Size, device: str, seed: int = 0
) -> list[float]:
    """Return the loss at each step; `seed` is that of the batches."""
    torch.manual_seed(0)
    model = Model(size.width, size.heads, size.layers, attend, start).to(device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data, generator = text(), torch.Generator().manual_seed(seed)
    positions = torch.arange(size.length + 1)
    losses = []
    for _ in range(steps):
        first = torch.randint(len(data) - size.length, (size.batch, 1), generator=generator)
        batch = data[first + positions].to(device)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = model(batch)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    floats: list[float] = torch.stack(losses).tolist()
    return floats


def derived(variant: Variant) -> Attention:
    """Return the program, compiled."""
    kernel = mc.compile(variant.program)

    def attend(q: Tensor, k: Tensor, v: Tensor, per_head: Tensor) -> Tensor:
        attended = kernel(q, k, v, per_head)
        assert isinstance(attended, Tensor)
        return attended

    return attend


@dataclass(frozen=True)
class Curves:
    """The losses of a variant: derived, in eager torch, and of that with other batches."""

    derived: list[float]
    eager: list[float]
    other: list[float]

    def apart(self, others: Sequence[float], last: int = 50) -> float:
        """Return the mean distance to the eager losses over the last steps."""
        pairs = list(zip(self.eager, others, strict=True))[-last:]
        return sum(abs(a - b) for a, b in pairs) / len(pairs)

    @property
    def is_noise(self) -> bool:
        """True if the derived losses are nearer to the eager ones than those of other batches."""
        return self.apart(self.derived) < self.apart(self.other)


def plot(runs: Mapping[str, Curves]) -> str:
    """Return the losses as an SVG: a panel a variant, eager torch as a wide line under ours."""
    width, height, panels = 300, 200, []
    for n, (name, curves) in enumerate(runs.items()):
        most, least = max(curves.eager), min(*curves.eager, *curves.derived)

        def line(losses: Sequence[float], most: float = most, least: float = least) -> str:
            points = (
                f"{30 + 260 * i / max(1, len(losses) - 1):.1f},"
                f"{30 + 140 * (most - y) / (most - least or 1):.1f}"
                for i, y in enumerate(losses)
            )
            return " ".join(points)

        panels.append(
            f'<g transform="translate({n * width},0)">'
            f'<text x="30" y="18">{name}</text>'
            f'<text x="2" y="36" class="n">{most:.1f}</text>'
            f'<text x="2" y="172" class="n">{least:.1f}</text>'
            f'<text x="290" y="190" text-anchor="end" class="n">{len(curves.eager)} steps</text>'
            f'<polyline class="e" points="{line(curves.eager)}"/>'
            f'<polyline class="d" points="{line(curves.derived)}"/></g>'
        )
    style = (
        "text{font:13px sans-serif;fill:#444}.n{font-size:10px;fill:#888}"
        "polyline{fill:none}.e{stroke:#c9ccd6;stroke-width:5}.d{stroke:#3a5fcd;stroke-width:1.3}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width * len(runs)} {height}">'
        f"<style>{style}</style>{''.join(panels)}</svg>\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Train all variants, and say how far apart the losses are."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=200, help="of training (%(default)s)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write the losses as an SVG")
    parser.add_argument("--only", choices=VARIANTS, metavar="NAME", help="one of the variants")
    parser.add_argument("--small", action="store_true", help="a model for a CPU")
    chosen = parser.parse_args(arguments)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    size = Size(16, 1, 1, 2, 24) if chosen.small else Size()
    by_name = {}
    for name in [chosen.only] if chosen.only else VARIANTS:
        variant = VARIANTS[name]
        began = time.perf_counter()
        runs = [
            train(derived(variant), variant.start, chosen.steps, size, device),
            train(variant.eager, variant.start, chosen.steps, size, device),
            train(variant.eager, variant.start, chosen.steps, size, device, seed=1),
        ]
        by_name[name] = curves = Curves(*runs)
        print(
            f"{name}: loss {curves.derived[0]:.3f} to {curves.derived[-1]:.3f}, eager torch "
            f"{curves.eager[-1]:.3f}; apart by {curves.apart(curves.derived):.4f} in the mean, "
            f"two eager runs with other batches by {curves.apart(curves.other):.4f} "
            f"({time.perf_counter() - began:.0f} s)",
            flush=True,
        )
    if chosen.plot:
        chosen.plot.write_text(plot(by_name))
    return 0 if all(c.is_noise for c in by_name.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
