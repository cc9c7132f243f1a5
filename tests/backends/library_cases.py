"""The library's programs with eager torch beside them, and inputs of every kind for both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor

from monocomp import library
from tests.backends.running import make_inputs

Eager: TypeAlias = Callable[..., Tensor]


def logits(Q: Tensor, K: Tensor) -> Tensor:
    """Q K^T / sqrt(d), each step rounded as eager torch rounds it."""
    root: float = max(1, Q.shape[-1]) ** 0.5
    return Q @ K.transpose(-1, -2) / root


def attend(S: Tensor, V: Tensor, kept: Tensor | None = None) -> Tensor:
    """softmax(S) V over the kept keys; 0 where none is kept."""
    if kept is not None:
        S = S.masked_fill(~kept, -torch.inf)
    return S.softmax(-1).masked_fill(S.isneginf(), 0) @ V


def places(Q: Tensor, K: Tensor) -> tuple[Tensor, Tensor]:
    """The places of queries, as a column, and of keys."""
    q = torch.arange(Q.shape[-2], device=Q.device)
    return q[:, None], torch.arange(K.shape[-2], device=K.device)


def attention(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    return attend(logits(Q, K), V)


def causal(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    q, k = places(Q, K)
    return attend(logits(Q, K), V, k <= q)


def gqa(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    K, V = (x.repeat_interleave(Q.shape[1] // x.shape[1], 1) for x in (K, V))
    return attention(Q, K, V)


def sliding_window(Q: Tensor, K: Tensor, V: Tensor, window: int = 1024) -> Tensor:
    q, k = places(Q, K)
    return attend(logits(Q, K), V, (k <= q) & (q - k < window))


def softcap(Q: Tensor, K: Tensor, V: Tensor, cap: float = 30.0) -> Tensor:
    q, k = places(Q, K)
    return attend(cap * torch.tanh(logits(Q, K) / cap), V, k <= q)


def alibi(Q: Tensor, K: Tensor, V: Tensor, slope: Tensor) -> Tensor:
    q, k = places(Q, K)
    return attend(logits(Q, K) - slope[:, None, None] * (q - k), V, k <= q)


def softmax(X: Tensor) -> Tensor:
    return X.softmax(-1)


def logsumexp(X: Tensor) -> Tensor:
    return X.logsumexp(-1)


@dataclass(frozen=True)
class Case:
    """A library program.

    Attributes:
        name: its name.
        eager: the same in eager torch.
        extents: sizes of the indices that `sizes` leaves open.
        params: parameters that make a difference at small sizes.
        same_kernel_as: a program with the same normal form, so that it needs fewer tests.
    """

    name: str
    eager: Eager
    extents: Mapping[str, int] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    same_kernel_as: str | None = None

    @property
    def text(self) -> str:
        """The program."""
        return library.load(self.name)

    @property
    def is_attention(self) -> bool:
        """Does it take queries, keys and values?"""
        return self.name not in ("softmax", "logsumexp")

    def sizes(self, q: int, k: int, d: int = 16, e: int = 16, b: int = 1) -> dict[str, int]:
        """Extents for lengths q and k; a matrix has q rows and k columns."""
        if not self.is_attention:
            return {"i": q, "k": k}
        return {"b": b, "h": 2, "q": q, "k": k, "d": d, "e": e, **self.extents}

    def inputs(
        self,
        sizes: Mapping[str, int],
        dtype: torch.dtype = torch.float32,
        *,
        shift: float = 0.0,
        scale: float = 1.0,
        seed: int = 0,
    ) -> dict[str, Tensor]:
        """Random inputs whose logits are about N(shift, scale)."""
        made = make_inputs(self.text, sizes, torch.float32, seed=seed)
        if not self.is_attention:
            made["X"] = made["X"] * scale + shift
        else:
            made["Q"] = made["Q"] * scale
            if shift:
                made["Q"][..., 0] = sizes["d"] ** 0.5
                made["K"][..., 0] = shift
        if "slope" in made:
            made["slope"] = made["slope"].abs() / 4
        return {n: t.to(dtype) for n, t in made.items()}

    def in_eager_torch(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """The result of eager torch in the inputs' dtype."""
        return self.eager(**inputs, **self.params)


_WINDOW = {"window": 9}
CASES = {
    case.name: case
    for case in (
        Case("attention", attention),
        Case("causal", causal),
        Case("gqa", gqa, {"h": 4, "g": 2}),
        Case("sliding_window", sliding_window, params=_WINDOW),
        Case("softcap", softcap, params={"cap": 5.0}),
        Case("alibi", alibi),
        Case("softmax", softmax),
        Case("logsumexp", logsumexp),
        Case("naive_attention", attention, same_kernel_as="attention"),
        Case("safe_attention", attention, same_kernel_as="attention"),
        Case("lazy_attention", attention, same_kernel_as="attention"),
    )
}
