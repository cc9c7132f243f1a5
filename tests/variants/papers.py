"""Variants of attention as their papers write them, each with plain torch beside it.

A variant is its text, its inputs at a small size, and a function that computes the same with all
weights in memory, after the paper's text or its authors' code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

Inputs = Mapping[str, Tensor]


@dataclass(frozen=True)
class Variant:
    """A program, what it takes, and what it means.

    Attributes:
        text: the program.
        shapes: those of its float inputs.
        expected: the result, from the inputs by name.
        others: inputs that are no floats, by name.
        positive: inputs that are between 0 and 1.
    """

    text: str
    shapes: Mapping[str, tuple[int, ...]]
    expected: Callable[[Inputs], Tensor]
    others: Mapping[str, Tensor] = field(default_factory=dict)
    positive: tuple[str, ...] = ()

    def inputs(self, dtype: torch.dtype = torch.float64, seed: int = 0) -> dict[str, Tensor]:
        """Random inputs."""
        generator = torch.Generator().manual_seed(seed)
        made = {
            name: torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
            for name, shape in self.shapes.items()
        }
        for name in self.positive:
            made[name] = torch.sigmoid(made[name] + 2)
        return made | dict(self.others)


VARIANTS: dict[str, Variant] = {}
B, H, N, D, E = 2, 2, 23, 8, 5
_QKV = {"Q": (B, H, N, D), "K": (B, H, N, D), "V": (B, H, N, E)}
_ROW, _COLUMN = torch.arange(N)[:, None], torch.arange(N)[None]
_CAUSAL = _COLUMN <= _ROW


def attend(scores: Tensor, values: Tensor, allowed: Tensor | None = None) -> Tensor:
    """Softmax of the scores where they are allowed, times the values; 0 where none is."""
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -math.inf)
    return torch.softmax(scores, -1).nan_to_num(0.0) @ values


# Su et al., RoFormer, 2021: rotary positions, in halves as in GPT-NeoX, and in pairs.


def _angles() -> Tensor:
    return torch.arange(N)[:, None] * 10000.0 ** (-torch.arange(D // 2).double() / (D // 2))


def _rotated(x: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    c, s = _angles().cos(), _angles().sin()
    return torch.cat((a * c - b * s, b * c + a * s), -1)


def _rotated_in_pairs(x: Tensor) -> Tensor:
    found = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2).contiguous())
    turned = found * torch.polar(torch.ones(()).double(), _angles())
    return torch.view_as_real(turned).reshape(x.shape)


def _rotary(turned: Callable[[Tensor], Tensor]) -> Callable[[Inputs], Tensor]:
    return lambda x: attend(turned(x["Q"]) @ turned(x["K"]).mT / math.sqrt(D), x["V"], _CAUSAL)


VARIANTS["rotary in halves"] = Variant(
    """
    input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e]
    index p < |d| // 2
    def angle(n, x) = n * exp(-log(10000.0) * x / |p|)
    QA[b,h,q,p] = Q[b,h,q,p] * cos(angle(q, p)) - Q[b,h,q,p + |p|] * sin(angle(q, p))
    QB[b,h,q,p] = Q[b,h,q,p + |p|] * cos(angle(q, p)) + Q[b,h,q,p] * sin(angle(q, p))
    KA[b,h,k,p] = K[b,h,k,p] * cos(angle(k, p)) - K[b,h,k,p + |p|] * sin(angle(k, p))
    KB[b,h,k,p] = K[b,h,k,p + |p|] * cos(angle(k, p)) + K[b,h,k,p] * sin(angle(k, p))
    S[b,h,q,k]  = QA[b,h,q,p] * KA[b,h,k,p] + QB[b,h,q,p] * KB[b,h,k,p]
    O[b,h,q,e]  = softmax[k if k <= q](S[b,h,q,k] / sqrt(|d|)) * V[b,h,k,e]
    """,
    _QKV,
    _rotary(_rotated),
)
VARIANTS["rotary by one subscript"] = Variant(
    """
    # x cos + rotate_half(x) sin, the cosines of all d as transformers hands them over
    input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], cos[q,d], sin[q,d]
    index k < |q|
    def sign_of(n)  = where(n < |d| // 2, -1, 1)
    QR[b,h,q,d] = Q[b,h,q,d] * cos[q,d] + sign_of(d) * Q[b,h,q,(d + |d| // 2) % |d|] * sin[q,d]
    KR[b,h,k,d] = K[b,h,k,d] * cos[k,d] + sign_of(d) * K[b,h,k,(d + |d| // 2) % |d|] * sin[k,d]
    O[b,h,q,e] = softmax[k if k <= q](QR[b,h,q,d] * KR[b,h,k,d] / sqrt(|d|)) * V[b,h,k,e]
    """,
    _QKV,
    _rotary(_rotated),
    {"cos": _angles().cos().repeat(1, 2), "sin": _angles().sin().repeat(1, 2)},
)
VARIANTS["rotary in pairs"] = Variant(
    """
    input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e]
    index p < |d| // 2
    def angle(n, x) = n * exp(-log(10000.0) * x / |p|)
    def even(x, y, n, m) = x * cos(angle(n, m)) - y * sin(angle(n, m))
    QA[b,h,q,p] = even(Q[b,h,q,2 * p], Q[b,h,q,2 * p + 1], q, p)
    QB[b,h,q,p] = even(Q[b,h,q,2 * p + 1], -Q[b,h,q,2 * p], q, p)
    KA[b,h,k,p] = even(K[b,h,k,2 * p], K[b,h,k,2 * p + 1], k, p)
    KB[b,h,k,p] = even(K[b,h,k,2 * p + 1], -K[b,h,k,2 * p], k, p)
    S[b,h,q,k]  = QA[b,h,q,p] * KA[b,h,k,p] + QB[b,h,q,p] * KB[b,h,k,p]
    O[b,h,q,e]  = softmax[k if k <= q](S[b,h,q,k] / sqrt(|d|)) * V[b,h,k,e]
    """,
    _QKV,
    _rotary(_rotated_in_pairs),
)

# Queries and keys normalised before they meet: Dehghani et al., ViT-22B, 2023.

VARIANTS["layer norm of queries and keys"] = Variant(
    """
    input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], GQ[d], BQ[d], GK[d], BK[d]
    def norm(x, m, v, g, b) = (x - m) / sqrt(v + 0.00001) * g + b
    QN[b,h,q,d] = norm(Q[b,h,q,d], mean[d](Q[b,h,q,d]), var[d](Q[b,h,q,d]), GQ[d], BQ[d])
    KN[b,h,k,d] = norm(K[b,h,k,d], mean[d](K[b,h,k,d]), var[d](K[b,h,k,d]), GK[d], BK[d])
    O[b,h,q,e]  = softmax[k](QN[b,h,q,d] * KN[b,h,k,d] / sqrt(|d|)) * V[b,h,k,e]
    """,
    {**_QKV, "GQ": (D,), "BQ": (D,), "GK": (D,), "BK": (D,)},
    lambda x: attend(
        F.layer_norm(x["Q"], (D,), x["GQ"], x["BQ"])
        @ F.layer_norm(x["K"], (D,), x["GK"], x["BK"]).mT
        / math.sqrt(D),
        x["V"],
    ),
)

# Lin et al., Forgetting Transformer, 2025, arXiv:2503.02130: a forget gate for each position.


def _forgetting(x: Inputs) -> Tensor:
    c = F.logsigmoid(x["F"]).cumsum(-1)
    bias = c[..., :, None] - c[..., None, :]
    return attend(x["Q"] @ x["K"].mT / math.sqrt(D) + bias, x["V"], _CAUSAL)


VARIANTS["forgetting"] = Variant(
    """
    input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], F[b,h,q]
    C[b,h,q]   = sum[..q](-softplus(-F[b,h,q]))
    S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|) + C[b,h,q] - C[b,h,k]
    O[b,h,q,e] = softmax[k if k <= q](S[b,h,q,k]) * V[b,h,k,e]
    """,
    {**_QKV, "F": (B, H, N)},
    _forgetting,
)

# Yuan et al., Native Sparse Attention, 2025, arXiv:2502.11089: three branches with gates; of the
# compressed keys, means of blocks. And Lu et al., MoBA, 2025, arXiv:2502.13189.

_BLOCK, _TOP, _WINDOW = 4, 3, 6
_BLOCKS = N // _BLOCK


def _of_blocks(x: Tensor) -> Tensor:
    return x[..., : _BLOCKS * _BLOCK, :].unflatten(-2, (_BLOCKS, _BLOCK)).mean(-2)


def _in_chosen(positions: Tensor, present: Tensor) -> Tensor:
    """Which keys are in the chosen blocks of each query."""
    chosen = torch.zeros(*positions.shape[:-1], _BLOCKS + 1, dtype=torch.bool)
    chosen.scatter_(-1, torch.where(present, positions, _BLOCKS), True)
    return chosen[..., :_BLOCKS].repeat_interleave(_BLOCK, -1)


def _native_sparse(x: Inputs) -> Tensor:
    scores = x["Q"] @ x["K"].mT / math.sqrt(D)
    compressed = x["Q"] @ _of_blocks(x["K"]).mT / math.sqrt(D)
    seen = (torch.arange(_BLOCKS) + 1) * _BLOCK - 1 <= _ROW
    masked = compressed.masked_fill(~seen, -math.inf)
    one = attend(compressed, _of_blocks(x["V"]), seen)
    best = masked.topk(_TOP)
    inside = F.pad(
        _in_chosen(best.indices, best.values > -math.inf), (0, N - _BLOCKS * _BLOCK), value=False
    )
    two = attend(scores, x["V"], inside & _CAUSAL)
    three = attend(scores, x["V"], _CAUSAL & (_ROW - _COLUMN < _WINDOW))
    g = torch.sigmoid(x["G"])[..., None]
    return g[:, :, :, 0] * one + g[:, :, :, 1] * two + g[:, :, :, 2] * three


VARIANTS["native sparse"] = Variant(
    """
    input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], G[b,h,q,c]
    param block: int = 4, best: int = 3, window: int = 6
    index s < block, n < |k| // block, r < best
    def gate(x) = sigmoid(x)
    KC[b,h,n,d]  = mean[s](K[b,h,n * |s| + s,d])
    VC[b,h,n,e]  = mean[s](V[b,h,n * |s| + s,e])
    SC[b,h,q,n]  = Q[b,h,q,d] * KC[b,h,n,d] / sqrt(|d|)
    O1[b,h,q,e]  = softmax[n if (n + 1) * |s| - 1 <= q](SC[b,h,q,n]) * VC[b,h,n,e]
    I[b,h,q,r]   = argtop[n -> r if (n + 1) * |s| - 1 <= q](SC[b,h,q,n])
    T[b,h,q,r,s] = I[b,h,q,r] * |s| + s
    S2[b,h,q,r,s] = Q[b,h,q,d] * K[b,h,T[b,h,q,r,s],d] / sqrt(|d|)
    P2[b,h,q,r,s] = softmax[r, s if I[b,h,q,r] >= 0 and T[b,h,q,r,s] <= q](S2[b,h,q,r,s])
    O2[b,h,q,e]  = sum[r, s if I[b,h,q,r] >= 0](P2[b,h,q,r,s] * V[b,h,T[b,h,q,r,s],e])
    S3[b,h,q,k]  = Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)
    O3[b,h,q,e]  = softmax[k if k <= q and q - k < window](S3[b,h,q,k]) * V[b,h,k,e]
    O[b,h,q,e]   = gate(G[b,h,q,0]) * O1[b,h,q,e] + gate(G[b,h,q,1]) * O2[b,h,q,e] +
                   gate(G[b,h,q,2]) * O3[b,h,q,e]
    """,
    {**_QKV, "G": (B, H, N, 3)},
    _native_sparse,
)


def _moba(x: Inputs) -> Tensor:
    own, n = torch.arange(24)[:, None] // _BLOCK, torch.arange(24 // _BLOCK)
    scores = x["Q"] @ x["K"].unflatten(-2, (-1, _BLOCK)).mean(-2).mT
    best = scores.masked_fill(n == own, math.inf).masked_fill(n > own, -math.inf).topk(_TOP)
    chosen = torch.zeros_like(scores, dtype=torch.bool)
    chosen.scatter_(-1, best.indices, best.values > -math.inf)
    inside = chosen.repeat_interleave(_BLOCK, -1)
    causal = torch.ones(24, 24, dtype=torch.bool).tril()
    return attend(x["Q"] @ x["K"].mT / math.sqrt(D), x["V"], inside & causal)


_24 = {"Q": (B, H, 24, D), "K": (B, H, 24, D), "V": (B, H, 24, E)}
VARIANTS["moba"] = Variant(
    """
    # The best blocks by the mean of their keys, the query's own among them
    input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e]
    param block: int = 4, best: int = 3
    index s < block, n < |k| // block, r < best
    M[b,h,n,d]    = mean[s](K[b,h,n * |s| + s,d])
    G[b,h,q,n]    = where(n == q // |s|, inf, Q[b,h,q,d] * M[b,h,n,d])
    I[b,h,q,r]    = argtop[n -> r if n <= q // |s|](G[b,h,q,n])
    T[b,h,q,r,s]  = I[b,h,q,r] * |s| + s
    S[b,h,q,r,s]  = Q[b,h,q,d] * K[b,h,T[b,h,q,r,s],d] / sqrt(|d|)
    P[b,h,q,r,s]  = softmax[r, s if I[b,h,q,r] >= 0 and T[b,h,q,r,s] <= q](S[b,h,q,r,s])
    O[b,h,q,e]    = sum[r, s if I[b,h,q,r] >= 0](P[b,h,q,r,s] * V[b,h,T[b,h,q,r,s],e])
    """,
    _24,
    _moba,
)

# Shazeer et al., Outrageously Large Neural Networks, 2017: the largest probabilities of experts.
VARIANTS["router"] = Variant(
    """
    input X[t,d], W[d,x]
    index r < 3
    P[t,x] = softmax[x](X[t,d] * W[d,x])
    T[t,r] = top[x -> r](P[t,x])
    """,
    {"X": (N, D), "W": (D, 11)},
    lambda x: (x["X"] @ x["W"]).softmax(-1).topk(3).values,
)

# Child et al., Sparse Transformers, 2019, and FlashInfer's block-sparse rows, 2025: lists.

_LISTS = torch.tensor([[0, 0, 0], [1, 0, 0], [2, 0, 1], [3, 1, 0], [4, 2, 0], [5, 0, 3]])
_COUNTS = torch.tensor([1, 2, 3, 2, 2, 0])


def _block_sparse(x: Inputs) -> Tensor:
    allowed = torch.zeros(24, 24, dtype=torch.bool)
    for i, (blocks, count) in enumerate(zip(_LISTS.tolist(), _COUNTS.tolist(), strict=True)):
        for j in blocks[:count]:
            allowed[4 * i : 4 * i + 4, 4 * j : 4 * j + 4] = True
    return attend(x["Q"] @ x["K"].mT / math.sqrt(D), x["V"], allowed)


VARIANTS["block-sparse from lists"] = Variant(
    """
    input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], lists[i,r]: int, count[i]: int
    param block: int = 4
    index s < block
    T[q,r,s]   = lists[q // |s|, r] * |s| + s
    S[b,h,q,r,s] = Q[b,h,q,d] * K[b,h,T[q,r,s],d] / sqrt(|d|)
    O[b,h,q,e] = softmax[r, s if r < count[q // |s|]](S[b,h,q,r,s]) * V[b,h,T[q,r,s],e]
    """,
    _24,
    _block_sparse,
    {"lists": _LISTS, "count": _COUNTS},
)

# Beltagy et al., Longformer, 2020, arXiv:2004.05150: a window, and tokens that see all.

_GLOBAL = torch.zeros(B, N, dtype=torch.bool)
_GLOBAL[0, :2] = _GLOBAL[1, 7] = True


def _longformer(x: Inputs) -> Tensor:
    near = (_ROW - _COLUMN).abs() <= 3
    allowed = near | _GLOBAL[:, None, None, :] | _GLOBAL[:, None, :, None]
    return attend(x["Q"] @ x["K"].mT / math.sqrt(D), x["V"], allowed)


VARIANTS["longformer"] = Variant(
    """
    input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], G[b,k]: bool
    param window: int = 3
    S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)
    O[b,h,q,e] = softmax[k if abs(q - k) <= window or G[b,k] or G[b,q]](S[b,h,q,k]) * V[b,h,k,e]
    """,
    _QKV,
    _longformer,
    {"G": _GLOBAL},
)

# Hassani et al., Neighborhood Attention, 2023: windows that stay inside, of lines and of images.


def _neighbours(length: int, size: int) -> Tensor:
    start = (torch.arange(length)[:, None] - size // 2).clamp(0, length - size)
    at = torch.arange(length)[None]
    return (at >= start) & (at < start + size)


VARIANTS["neighbourhood"] = Variant(
    """
    input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e]
    param size: int = 5
    start[q]   = minimum(maximum(q - size // 2, 0), |k| - size)
    S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)
    O[b,h,q,e] = softmax[k if k >= start[q] and k < start[q] + size](S[b,h,q,k]) * V[b,h,k,e]
    """,
    _QKV,
    lambda x: attend(x["Q"] @ x["K"].mT / math.sqrt(D), x["V"], _neighbours(N, 5)),
)
_IMAGE = {"Q": (B, 6, 7, D), "K": (B, 6, 7, D), "V": (B, 6, 7, E)}


def _neighbours_in_images(x: Inputs) -> Tensor:
    Q, K, V = (x[name].flatten(1, 2) for name in "QKV")
    allowed = _neighbours(6, 3)[:, None, :, None] & _neighbours(7, 3)[None, :, None, :]
    found = attend(Q @ K.mT / math.sqrt(D), V, allowed.reshape(42, 42))
    return found.unflatten(1, (6, 7))


VARIANTS["neighbourhood in images"] = Variant(
    """
    input Q[b,x,y,d], K[b,u,v,d], V[b,u,v,e]
    param size: int = 3
    def start(x, n) = minimum(maximum(x - size // 2, 0), n - size)
    def near(x, u, n) = u >= start(x, n) and u < start(x, n) + size
    S[b,x,y,u,v] = Q[b,x,y,d] * K[b,u,v,d] / sqrt(|d|)
    O[b,x,y,e] = softmax[u, v if near(x, u, |u|) and near(y, v, |v|)](S[b,x,y,u,v]) * V[b,u,v,e]
    """,
    _IMAGE,
    _neighbours_in_images,
)

# Tan et al., Stick-breaking Attention, 2024, arXiv:2410.17980.


def _stick_breaking(x: Inputs) -> Tensor:
    z = x["Q"] @ x["K"].mT / math.sqrt(D)
    before = _COLUMN < _ROW
    stays = F.logsigmoid(-z).masked_fill(~before, 0.0)
    later = stays.flip(-1).cumsum(-1).flip(-1) - stays  # over k < j < q
    weights = torch.exp(F.logsigmoid(z) + later).masked_fill(~before, 0.0)
    return weights @ x["V"]


VARIANTS["stick-breaking"] = Variant(
    """
    input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e]
    index j < |k|
    Z[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)
    C[b,h,q,k] = sum[j if k < j and j < q](softplus(Z[b,h,q,j]))
    O[b,h,q,e] = sum[k if k < q](sigmoid(Z[b,h,q,k]) * exp(-C[b,h,q,k]) * V[b,h,k,e])
    """,
    _QKV,
    _stick_breaking,
)

# Golovneva et al., Contextual Position Encoding, 2024, arXiv:2405.18719.


def _contextual(x: Inputs) -> Tensor:
    z = x["Q"] @ x["K"].mT
    gates = torch.sigmoid(z).masked_fill(~_CAUSAL, 0.0)
    positions = gates.flip(-1).cumsum(-1).flip(-1).clamp(max=x["P"].shape[0] - 1)
    low, high = positions.floor(), positions.ceil()
    embedded = x["Q"] @ x["P"].mT
    one, other = embedded.gather(-1, low.long()), embedded.gather(-1, high.long())
    share = positions - low
    return attend(z + other * share + one * (1 - share), x["V"], _CAUSAL)


VARIANTS["contextual positions"] = Variant(
    """
    input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], P[n,d]
    Z[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d]
    C[b,h,q,k] = sum[..k if k <= q](sigmoid(Z[b,h,q,k]))
    T[b,h,q]   = sum[k if k <= q](sigmoid(Z[b,h,q,k]))
    A[b,h,q,k] = minimum(T[b,h,q] - C[b,h,q,k] + sigmoid(Z[b,h,q,k]), |n| - 1)
    W[b,h,q,n] = Q[b,h,q,d] * P[n,d]
    L[b,h,q,k] = W[b,h,q,minimum(maximum(int(A[b,h,q,k]), 0), |n| - 1)]
    U[b,h,q,k] = W[b,h,q,minimum(maximum(int(A[b,h,q,k]), 0) + 1, |n| - 1)]
    R[b,h,q,k] = A[b,h,q,k] - floor(A[b,h,q,k])
    S[b,h,q,k] = Z[b,h,q,k] + U[b,h,q,k] * R[b,h,q,k] + L[b,h,q,k] * (1 - R[b,h,q,k])
    O[b,h,q,e] = softmax[k if k <= q](S[b,h,q,k]) * V[b,h,k,e]
    """,
    {**_QKV, "P": (6, D)},
    _contextual,
)

# Golovneva et al., Multi-Token Attention, 2025, arXiv:2504.00927: logits convolved over queries and
# keys, causally in queries, and mixed between heads.


def _multi_token(x: Inputs) -> Tensor:
    scores = (x["Q"] @ x["K"].mT / math.sqrt(D)).masked_fill(~_CAUSAL, 0.0)
    count, width = x["W"].shape[1:]
    padded = F.pad(scores, (width // 2, width // 2, count - 1, 0))
    convolved = F.conv2d(padded, x["W"][:, None], groups=H)
    return attend(convolved, x["V"], _CAUSAL)


VARIANTS["multi-token"] = Variant(
    """
    input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], W[h,i,j]
    A[b,h,q,k] = where(k <= q, Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|), 0)
    def key(n, m) = n + m - |j| // 2
    C[b,h,q,k] = sum[i, j if q - |i| + 1 + i >= 0 and key(k, j) >= 0 and key(k, j) < |k|](
        W[h,i,j] * A[b,h,q - |i| + 1 + i,key(k, j)])
    O[b,h,q,e] = softmax[k if k <= q](C[b,h,q,k]) * V[b,h,k,e]
    """,
    {**_QKV, "W": (H, 3, 3)},
    _multi_token,
)

# Leviathan et al., Selective Attention, 2024, arXiv:2410.02703: what the first head selects is
# masked, more and more, for later queries.


def _selective(x: Inputs) -> Tensor:
    scores = x["Q"] @ x["K"].mT / math.sqrt(D)
    chosen = torch.relu(scores[:, 0].masked_fill(~_CAUSAL, 0.0))
    chosen = chosen.masked_fill((_COLUMN == 0) | (_COLUMN == _ROW), 0.0)
    past = F.pad(chosen, (0, 0, 1, 0))[:, :-1].cumsum(1)
    return attend(scores - past[:, None], x["V"], _CAUSAL)


VARIANTS["selective"] = Variant(
    """
    input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e]
    S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)
    X[b,q,k]   = where(k < q and k > 0, relu(S[b,0,q,k]), 0)
    F[b,q,k]   = sum[..q](X[b,q,k]) - X[b,q,k]
    O[b,h,q,e] = softmax[k if k <= q](S[b,h,q,k] - F[b,q,k]) * V[b,h,k,e]
    """,
    _QKV,
    _selective,
)

# Sander et al., Sinkformers, 2022, arXiv:2110.11773: rows and columns normalised in turn.


def _sinkhorn(x: Inputs) -> Tensor:
    scores = x["Q"] @ x["K"].mT / math.sqrt(D)
    for n in range(3):
        scores = scores - torch.logsumexp(scores, -1 if n % 2 == 0 else -2, keepdim=True)
    return scores.exp() @ x["V"]


VARIANTS["sinkhorn"] = Variant(
    """
    input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e]
    S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)
    F[b,h,q]   = logsumexp[k](S[b,h,q,k])
    G[b,h,k]   = logsumexp[q](S[b,h,q,k] - F[b,h,q])
    O[b,h,q,e] = softmax[k](S[b,h,q,k] - G[b,h,k]) * V[b,h,k,e]
    """,
    _QKV,
    _sinkhorn,
)

# Sun et al., Retentive Network, 2023, arXiv:2307.08621, in parallel; Yang et al., Gated Linear
# Attention, 2024, arXiv:2312.06635.


def _retention(x: Inputs) -> Tensor:
    decay = x["g"][:, None, None] ** (_ROW - _COLUMN).clamp(min=0)
    return ((x["Q"] @ x["K"].mT) * decay * _CAUSAL) @ x["V"]


VARIANTS["retention"] = Variant(
    """
    input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], g[h]
    O[b,h,q,e] = sum[k if k <= q](g[h] ** (q - k) * (Q[b,h,q,d] * K[b,h,k,d]) * V[b,h,k,e])
    """,
    {**_QKV, "g": (H,)},
    _retention,
    positive=("g",),
)


def _gated_linear(x: Inputs) -> Tensor:
    state = torch.zeros(B, H, D, E, dtype=x["Q"].dtype)
    rows = []
    for t in range(N):
        written = x["K"][:, :, t, :, None] * x["V"][:, :, t, None, :]
        state = x["A"][:, :, t, :, None] * state + written
        rows.append((x["Q"][:, :, t, None, :] @ state)[:, :, 0])
    return torch.stack(rows, 2)


VARIANTS["gated linear"] = Variant(
    """
    input Q[b,h,t,d], K[b,h,t,d], V[b,h,t,e], A[b,h,t,d]
    M[b,h,t,d,e] = Affine[..t](A[b,h,t,d], K[b,h,t,d] * V[b,h,t,e]).u
    O[b,h,t,e]   = Q[b,h,t,d] * M[b,h,t,d,e]
    """,
    {**_QKV, "A": (B, H, N, D)},
    _gated_linear,
    positive=("A",),
)
