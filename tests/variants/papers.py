"""Variants of attention as their papers write them: texts, and inputs at a small size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class Variant:
    """A program and what it takes.

    Attributes:
        text: the program.
        shapes: those of its float inputs.
        others: inputs that are no floats, by name.
        positive: inputs that are between 0 and 1.
    """

    text: str
    shapes: Mapping[str, tuple[int, ...]]
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
B, H, N, D, E = 1, 2, 23, 8, 5
_QKV = {"Q": (B, H, N, D), "K": (B, H, N, D), "V": (B, H, N, E)}


# Su et al., RoFormer, 2021: rotary positions, in halves as in GPT-NeoX, and in pairs.


def _angles() -> Tensor:
    return torch.arange(N)[:, None] * 10000.0 ** (-torch.arange(D // 2).double() / (D // 2))


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
)

# Lin et al., Forgetting Transformer, 2025, arXiv:2503.02130: a forget gate for each position.


VARIANTS["forgetting"] = Variant(
    """
    input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], F[b,h,q]
    C[b,h,q]   = sum[..q](-softplus(-F[b,h,q]))
    S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|) + C[b,h,q] - C[b,h,k]
    O[b,h,q,e] = softmax[k if k <= q](S[b,h,q,k]) * V[b,h,k,e]
    """,
    {**_QKV, "F": (B, H, N)},
)

# Yuan et al., Native Sparse Attention, 2025, arXiv:2502.11089: three branches with gates; of the
# compressed keys, means of blocks. And Lu et al., MoBA, 2025, arXiv:2502.13189.

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
)


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
)

# Child et al., Sparse Transformers, 2019, and FlashInfer's block-sparse rows, 2025: lists.

_LISTS = torch.tensor([[0, 0, 0], [1, 0, 0], [2, 0, 1], [3, 1, 0], [4, 2, 0], [5, 0, 3]])
_COUNTS = torch.tensor([1, 2, 3, 2, 2, 0])


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
    {"lists": _LISTS, "count": _COUNTS},
)

# Beltagy et al., Longformer, 2020, arXiv:2004.05150: a window, and tokens that see all.

_GLOBAL = torch.zeros(B, N, dtype=torch.bool)
_GLOBAL[0, :2] = _GLOBAL[0, 7] = True


VARIANTS["longformer"] = Variant(
    """
    input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], G[b,k]: bool
    param window: int = 3
    S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)
    O[b,h,q,e] = softmax[k if abs(q - k) <= window or G[b,k] or G[b,q]](S[b,h,q,k]) * V[b,h,k,e]
    """,
    _QKV,
    {"G": _GLOBAL},
)

# Hassani et al., Neighborhood Attention, 2023: windows that stay inside, of lines and of images.


VARIANTS["neighbourhood"] = Variant(
    """
    input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e]
    param size: int = 5
    start[q]   = minimum(maximum(q - size // 2, 0), |k| - size)
    S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)
    O[b,h,q,e] = softmax[k if k >= start[q] and k < start[q] + size](S[b,h,q,k]) * V[b,h,k,e]
    """,
    _QKV,
)
_IMAGE = {"Q": (B, 6, 7, D), "K": (B, 6, 7, D), "V": (B, 6, 7, E)}


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
)

# Tan et al., Stick-breaking Attention, 2024, arXiv:2410.17980.


VARIANTS["stick-breaking"] = Variant(
    """
    input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e]
    index j < |k|
    Z[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)
    C[b,h,q,k] = sum[j if k < j and j < q](softplus(Z[b,h,q,j]))
    O[b,h,q,e] = sum[k if k < q](sigmoid(Z[b,h,q,k]) * exp(-C[b,h,q,k]) * V[b,h,k,e])
    """,
    _QKV,
)

# Golovneva et al., Contextual Position Encoding, 2024, arXiv:2405.18719.


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
)

# Golovneva et al., Multi-Token Attention, 2025, arXiv:2504.00927: logits convolved over queries and
# keys, causally in queries, and mixed between heads.


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
)

# Leviathan et al., Selective Attention, 2024, arXiv:2410.02703: what the first head selects is
# masked, more and more, for later queries.


VARIANTS["selective"] = Variant(
    """
    input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e]
    S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)
    X[b,q,k]   = where(k < q and k > 0, relu(S[b,0,q,k]), 0)
    F[b,q,k]   = sum[..q](X[b,q,k]) - X[b,q,k]
    O[b,h,q,e] = softmax[k if k <= q](S[b,h,q,k] - F[b,q,k]) * V[b,h,k,e]
    """,
    _QKV,
)

# Sander et al., Sinkformers, 2022, arXiv:2110.11773: rows and columns normalised in turn.


VARIANTS["sinkhorn"] = Variant(
    """
    input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e]
    S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)
    F[b,h,q]   = logsumexp[k](S[b,h,q,k])
    G[b,h,k]   = logsumexp[q](S[b,h,q,k] - F[b,h,q])
    O[b,h,q,e] = softmax[k](S[b,h,q,k] - G[b,h,k]) * V[b,h,k,e]
    """,
    _QKV,
)

# Sun et al., Retentive Network, 2023, arXiv:2307.08621, in parallel; Yang et al., Gated Linear
# Attention, 2024, arXiv:2312.06635.


VARIANTS["retention"] = Variant(
    """
    input Q[b,h,q,d], K[b,h,k,d], V[b,h,k,e], g[h]
    O[b,h,q,e] = sum[k if k <= q](g[h] ** (q - k) * (Q[b,h,q,d] * K[b,h,k,d]) * V[b,h,k,e])
    """,
    {**_QKV, "g": (H,)},
    positive=("g",),
)


VARIANTS["gated linear"] = Variant(
    """
    input Q[b,h,t,d], K[b,h,t,d], V[b,h,t,e], A[b,h,t,d]
    M[b,h,t,d,e] = Affine[..t](A[b,h,t,d], K[b,h,t,d] * V[b,h,t,e]).u
    O[b,h,t,e]   = Q[b,h,t,d] * M[b,h,t,d,e]
    """,
    {**_QKV, "A": (B, H, N, D)},
    positive=("A",),
)
