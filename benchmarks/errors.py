"""Is a result right? Errors against eager torch in a wide dtype, beside its own in bf16."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.peers import Mods

CHECKED_ROWS = 256  # at the start, in the middle and at the end


def relative_error(found: Tensor, exact: Tensor) -> float:
    """|found - exact| / |exact|; infinite if an element is not finite or was not written."""
    if not bool(torch.isfinite(found).all()):
        return math.inf
    difference = (found.double() - exact.double()).norm()
    return float(difference / exact.double().norm())


@dataclass(frozen=True)
class Reference:
    """Some heads and rows of the right result, and the error of eager torch in bf16."""

    heads: tuple[tuple[int, int], ...]
    rows: Tensor
    exact: Tensor
    eager_error: float

    def part(self, result: Tensor) -> Tensor:
        """The same heads and rows of a result."""
        return torch.stack([result[b, h][self.rows] for b, h in self.heads])

    def error(self, result: Tensor) -> float:
        """The relative error; infinite if any element is not finite or was not written."""
        if not bool(torch.isfinite(result).all()):
            return math.inf
        return relative_error(self.part(result), self.exact)


def reference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mods: Callable[[Mapping[str, Tensor]], Mods] = lambda extras: (None, None),
    extras: Mapping[str, Tensor] | None = None,
    heads: tuple[tuple[int, int], ...] | None = None,
    scale: float | None = None,
    wide_dtype: torch.dtype = torch.float32,
) -> Reference:
    """Eager torch in a wide dtype and in the inputs' dtype, where results are compared.

    Args:
        q: queries (B, H, N, D).
        k: keys (B, G, M, D), G a divisor of H.
        v: values (B, G, M, E).
        mods: FlexAttention's score_mod and mask_mod, from the further inputs.
        extras: the further inputs.
        heads: pairs of batch and head to compare; the first and the last by default.
        scale: of the logits; 1 / sqrt(D) by default.
        wide_dtype: what the right result is computed in.
    """
    batch, count_heads, length, _ = q.shape
    count = min(CHECKED_ROWS, -(-length // 3))
    middle = max(0, (length - count) // 2 + 1)  # starts inside a tile
    starts = (0, middle, length - count)
    rows = torch.cat([torch.arange(s, s + count, device=q.device) for s in starts])
    rows = rows.clamp(max=length - 1)
    heads = heads or ((0, 0), (batch - 1, count_heads - 1))
    given = dict(extras or {})
    wide = {n: x.to(wide_dtype) if x.is_floating_point() else x for n, x in given.items()}
    exact, eager = (
        torch.stack([_eager(q, k, v, at, rows, mods(x), dtype, scale) for at in heads])
        for x, dtype in ((wide, wide_dtype), (given, q.dtype))
    )
    return Reference(heads, rows, exact, relative_error(eager, exact))


def _eager(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    at: tuple[int, int],
    rows: Tensor,
    mods: Mods,
    dtype: torch.dtype,
    scale: float | None,
) -> Tensor:
    b, h = at
    group = h // (q.shape[1] // k.shape[1])
    queries, keys, values = (x.to(dtype) for x in (q[b, h][rows], k[b, group], v[b, group]))
    logits = queries @ keys.T * (scale or 1 / math.sqrt(q.shape[-1]))
    score, mask = mods
    batch, head = (torch.tensor(n, device=q.device) for n in at)
    positions = rows[:, None], torch.arange(k.shape[2], device=q.device)[None, :]
    if score is not None:
        logits = score(logits, batch, head, *positions)
    if mask is not None:
        logits = logits.masked_fill(~mask(batch, head, *positions), -math.inf)
    return torch.softmax(logits, dim=-1) @ values


def poison(like: Tensor | Sequence[Tensor], blocks: int = 3) -> None:
    """Fill memory that the next outputs will lie in with NaN, or a wrong number."""
    filled = []
    for x in (like,) if isinstance(like, Tensor) else like:
        value = math.nan if x.is_floating_point() else -7777
        filled += [torch.full_like(x, value) for _ in range(blocks)]
    del filled
