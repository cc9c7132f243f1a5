"""The library's programs in eager torch: written for themselves, from papers and torch's own.

Each takes a program's inputs and parameters by name, in any float dtype, and gives its outputs.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from monocomp.declarations.counter_rng import uniform


def logits(Q: Tensor, K: Tensor) -> Tensor:
    """Q K^T / sqrt(d), each step rounded as eager torch rounds it."""
    root: float = max(1, Q.shape[-1]) ** 0.5
    return Q @ K.transpose(-1, -2) / root


def weights(S: Tensor) -> Tensor:
    """softmax(S); 0 where S is -inf, also in rows of nothing else."""
    return S.softmax(-1).masked_fill(S.isneginf(), 0)


def attend(S: Tensor, V: Tensor, kept: Tensor | None = None) -> Tensor:
    """softmax(S) V over the kept keys; 0 where none is kept."""
    if kept is not None:
        S = S.masked_fill(~kept, -torch.inf)
    return weights(S) @ V


def positions(Q: Tensor, K: Tensor) -> tuple[Tensor, Tensor]:
    """The positions of queries, as a column, and of keys."""
    q = torch.arange(Q.shape[-2], device=Q.device)
    return q[:, None], torch.arange(K.shape[-2], device=K.device)


def attention(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    return attend(logits(Q, K), V)


def causal(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    q, k = positions(Q, K)
    return attend(logits(Q, K), V, k <= q)


def gqa(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    K, V = (x.repeat_interleave(Q.shape[1] // x.shape[1], 1) for x in (K, V))
    return attention(Q, K, V)


def sliding_window(Q: Tensor, K: Tensor, V: Tensor, window: int = 1024) -> Tensor:
    q, k = positions(Q, K)
    return attend(logits(Q, K), V, (k <= q) & (q - k < window))


def softcap(Q: Tensor, K: Tensor, V: Tensor, cap: float = 30.0) -> Tensor:
    q, k = positions(Q, K)
    return attend(cap * torch.tanh(logits(Q, K) / cap), V, k <= q)


def alibi(Q: Tensor, K: Tensor, V: Tensor, slope: Tensor) -> Tensor:
    q, k = positions(Q, K)
    return attend(logits(Q, K) - slope[:, None, None] * (q - k), V, k <= q)


def t5(Q: Tensor, K: Tensor, V: Tensor, bias: Tensor) -> Tensor:
    q, k = positions(Q, K)
    distance = (k - q).abs()
    starts = distance.new_tensor([8, 12, 16, 23, 32, 46, 64, 91])  # of the buckets that are shared
    far = 7 + (distance[..., None] >= starts).sum(-1)
    bucket = torch.where(distance < 8, distance, far) + 16 * (k > q)
    return attend(Q @ K.mT + bias[bucket].permute(2, 0, 1), V)


def softmax(X: Tensor) -> Tensor:
    return X.softmax(-1)


def logsumexp(X: Tensor) -> Tensor:
    return X.logsumexp(-1)


# --- more outputs than one ----------------------------------------------------------------


def attention_statistics(Q: Tensor, K: Tensor, V: Tensor) -> tuple[Tensor, ...]:
    S = logits(Q, K)
    entropy = torch.special.entr(S.softmax(-1)).sum(-1)
    return attend(S, V), S.logsumexp(-1), S.amax(-1), entropy


def attention_jvp(
    Q: Tensor, K: Tensor, V: Tensor, dQ: Tensor, dK: Tensor, dV: Tensor
) -> tuple[Tensor, ...]:
    def dense(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
        return logits(Q, K).softmax(-1) @ V

    inputs, tangents = (Q, K, V), (dQ, dK, dV)
    has_gradient = torch.is_grad_enabled() and any(t.requires_grad for t in (*inputs, *tangents))
    found: tuple[Tensor, Tensor] = torch.autograd.functional.jvp(
        dense, inputs, tangents, create_graph=has_gradient
    )
    return found


def attention_moments(Q: Tensor, K: Tensor, V: Tensor) -> tuple[Tensor, Tensor]:
    P = logits(Q, K).softmax(-1)
    mean = P @ V
    return mean, torch.einsum("bhqk,bhqke->bhqe", P, (V[:, :, None] - mean[..., None, :]) ** 2)


def cross_entropy(X: Tensor, W: Tensor, label: Tensor, z: float = 1e-4) -> tuple[Tensor, ...]:
    S = X @ W.T
    lse = S.logsumexp(-1)
    nll = F.cross_entropy(S, label, reduction="none")
    entropy = torch.special.entr(S.softmax(-1)).sum(-1)
    return nll + z * lse**2, lse, entropy, -nll, z * lse**2


def softmax_top8(X: Tensor, W: Tensor) -> tuple[Tensor, ...]:
    S = X @ W.T
    values, positions = S.topk(8, sorted=True)
    return values, positions, S.softmax(-1).gather(-1, positions)


def merge_states(OS: Tensor, LS: Tensor) -> tuple[Tensor, Tensor]:
    return (LS.softmax(0)[..., None] * OS).sum(0), LS.logsumexp(0)


def variance(X: Tensor) -> tuple[Tensor, Tensor]:
    return X.mean(-1), X.var(-1, correction=0)


def layer_norm(X: Tensor, eps: float = 1e-5) -> tuple[Tensor, Tensor]:
    return X.mean(-1), torch.rsqrt(X.var(-1, correction=0) + eps)


def log_softmax_statistics(X: Tensor) -> tuple[Tensor, ...]:
    return X.amax(-1), X.logsumexp(-1), torch.special.entr(X.softmax(-1)).sum(-1)


# --- other weights than a softmax's -------------------------------------------------------


def with_sink(S: Tensor, sink: Tensor, V: Tensor) -> Tensor:
    """Attention with one more logit, which has no value."""
    longer = torch.cat([S, sink.expand(*S.shape[:-1], 1)], -1)
    return longer.softmax(-1)[..., :-1] @ V


def learned_sink(Q: Tensor, K: Tensor, V: Tensor, sink: Tensor) -> Tensor:
    q, k = positions(Q, K)
    S = logits(Q, K).masked_fill(k > q, -torch.inf)
    return with_sink(S, sink[:, None, None], V)


def softmax_one(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    return with_sink(logits(Q, K), Q.new_zeros(()), V)


def differential(
    Q1: Tensor, Q2: Tensor, K1: Tensor, K2: Tensor, V: Tensor, lam: float = 0.8
) -> Tensor:
    return attention(Q1, K1, V) - lam * attention(Q2, K2, V)


def dropout(Q: Tensor, K: Tensor, V: Tensor, rate: float = 0.1, seed: int = 0) -> Tensor:
    S = logits(Q, K)
    positions = torch.meshgrid(*map(torch.arange, S.shape), indexing="ij")
    kept = torch.as_tensor(uniform(seed, *positions)).to(Q.device) >= rate
    return S.softmax(-1).masked_fill(~kept, 0) / (1 - rate) @ V


def sigmoid_attention(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    return torch.sigmoid(logits(Q, K) - math.log(K.shape[-2])) @ V


def softpick(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    S = logits(Q, K)
    largest = S.amax(-1, keepdim=True).clamp(min=0)
    A = torch.exp(S - largest) - torch.exp(-largest)
    return A.relu() @ V / A.abs().sum(-1, keepdim=True)


def talking_heads(Q: Tensor, K: Tensor, V: Tensor, WL: Tensor, WP: Tensor) -> Tensor:
    S = torch.einsum("bgqk,gh->bhqk", logits(Q, K), WL)
    return torch.einsum("bhqk,hi->biqk", S.softmax(-1), WP) @ V


def sparsemax(X: Tensor) -> Tensor:
    low = X.amax(-1, keepdim=True) - 1
    for step in (1 / 2, 1 / 4, 1 / 8, 1 / 16):
        low = torch.where((X - low - step).relu().sum(-1, keepdim=True) >= 1, low + step, low)
    P = (X - low).relu()
    return P / P.sum(-1, keepdim=True)


def column_sums(Q: Tensor, K: Tensor) -> Tensor:
    q, k = positions(Q, K)
    return weights(logits(Q, K).masked_fill(k > q, -torch.inf)).sum(-2)


def kl_divergence(X: Tensor, A: Tensor, Y: Tensor, B: Tensor) -> Tensor:
    teacher, student = (X @ A.T).log_softmax(-1), (Y @ B.T).log_softmax(-1)
    return F.kl_div(student, teacher, reduction="none", log_target=True).sum(-1)


# --- other logits than products of queries and keys ---------------------------------------


def cosine_attention(Q: Tensor, K: Tensor, V: Tensor, scale: Tensor) -> Tensor:
    cosines = F.normalize(Q, dim=-1) @ F.normalize(K, dim=-1).mT
    return attend(scale[:, None, None] * cosines, V)


def pair_bias(Q: Tensor, K: Tensor, V: Tensor, Z: Tensor, W: Tensor) -> Tensor:
    return attend(logits(Q, K) + (Z @ W).permute(2, 0, 1), V)


def shaw_values(Q: Tensor, K: Tensor, V: Tensor, RK: Tensor, RV: Tensor, clip: int = 16) -> Tensor:
    q, k = positions(Q, K)
    distance = (k - q).clamp(-clip, clip) + clip
    S = logits(Q, K) + torch.einsum("bhqd,qkd->bhqk", Q, RK[distance]) / Q.shape[-1] ** 0.5
    return attend(S, V) + torch.einsum("bhqk,qke->bhqe", S.softmax(-1), RV[distance])


def mla(QC: Tensor, QR: Tensor, C: Tensor, R: Tensor) -> Tensor:
    Q, K = torch.cat([QC, QR], -1), torch.cat([C, R], -1)[:, None]
    q, k = positions(Q, K)
    return attend(Q @ K.mT / 192**0.5, C[:, None], k <= q)


def gaussian_attention(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    squares = ((Q[..., :, None, :] - K[..., None, :, :]) ** 2).sum(-1)
    return attend(-squares / Q.shape[-1] ** 0.5, V)


def laplace_attention(Q: Tensor, K: Tensor, V: Tensor, scale: float = 1.0) -> Tensor:
    distances = (Q[..., :, None, :] - K[..., None, :, :]).abs().sum(-1)
    return attend(-distances / scale, V)


def two_simplicial(Q: Tensor, K1: Tensor, K2: Tensor, V1: Tensor, V2: Tensor) -> Tensor:
    S = torch.einsum("bhqd,bhjd,bhkd->bhqjk", Q, K1, K2) / Q.shape[-1] ** 0.5
    values = torch.einsum("bhje,bhke->bhjke", V1, V2)
    return attend(S.flatten(-2), values.flatten(2, 3))


def rms_norm(Q: Tensor, K: Tensor, V: Tensor, A: Tensor, B: Tensor, eps: float = 1e-6) -> Tensor:
    Q, K = F.rms_norm(Q, A.shape, A, eps), F.rms_norm(K, B.shape, B, eps)
    return attention(Q, K, V)


def linear_attention(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    q, k = F.elu(Q) + 1, F.elu(K) + 1
    return q @ (k.mT @ V) / (q @ k.sum(-2)[..., None])


def taylor_attention(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    A = ((logits(Q, K) + 1) ** 2 + 1) / 2
    return A @ V / A.sum(-1, keepdim=True)


def hedgehog_attention(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    sums = Q[..., :, None, :] + K[..., None, :, :]
    return attend(torch.cat([sums, -sums], -1).logsumexp(-1), V)


# --- masks --------------------------------------------------------------------------------


def prefix_lm(Q: Tensor, K: Tensor, V: Tensor, prefix: Tensor) -> Tensor:
    q, k = positions(Q, K)
    return attend(logits(Q, K), V, (k < prefix[:, None, None, None]) | (k <= q))


def document(Q: Tensor, K: Tensor, V: Tensor, start: Tensor, end: Tensor) -> Tensor:
    q, k = positions(Q, K)
    first, last = start[:, None, :, None], end[:, None, :, None] - 1
    return attend(logits(Q, K), V, (first <= k) & (k <= last) & (k <= q))


def varlen(Q: Tensor, K: Tensor, V: Tensor, length: Tensor) -> Tensor:
    _, k = positions(Q, K)
    return attend(logits(Q, K), V, k < length[:, None, None, None])


def sink_window(Q: Tensor, K: Tensor, V: Tensor, sink: int = 4, window: int = 1024) -> Tensor:
    q, k = positions(Q, K)
    return attend(logits(Q, K), V, (k <= q) & ((k < sink) | (q - k < window)))


def dilated(Q: Tensor, K: Tensor, V: Tensor, window: int = 64, rate: int = 4) -> Tensor:
    q, k = positions(Q, K)
    near = (k <= q) & (q - k < window * rate)
    return attend(logits(Q, K), V, near & ((q - k) % rate == 0))


def tree(Q: Tensor, K: Tensor, V: Tensor, ancestor: Tensor) -> Tensor:
    return attend(logits(Q, K), V, ancestor)


# --- caches -------------------------------------------------------------------------------


def attend_last(Q: Tensor, K: Tensor, V: Tensor, length: Tensor) -> Tensor:
    """Queries that are a request's last tokens, and keys of fewer heads than they."""
    K, V = (x.repeat_interleave(Q.shape[1] // x.shape[1], 1) for x in (K, V))
    q, k = positions(Q, K)
    return attend(logits(Q, K), V, k <= q + length[:, None, None, None] - Q.shape[-2])


def pages(cache: Tensor, table: Tensor) -> Tensor:
    """The keys of each request one after the other: [b, g, k, d]."""
    return cache[table].flatten(1, 2).transpose(1, 2)


def paged_attention(Q: Tensor, K: Tensor, V: Tensor, table: Tensor, length: Tensor) -> Tensor:
    return attend_last(Q, pages(K, table), pages(V, table), length)


def fp8_cache(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    sk: Tensor,
    sv: Tensor,
    table: Tensor,
    length: Tensor,
) -> Tensor:
    K, V = (x.to(Q.dtype) * scale[:, None] for x, scale in ((K, sk), (V, sv)))
    return paged_attention(Q, K, V, table, length)


def int8_cache(Q: Tensor, K: Tensor, V: Tensor, SK: Tensor, SV: Tensor, length: Tensor) -> Tensor:
    return attend_last(Q, K * SK[..., None], V * SV[..., None], length)


def rolling_cache(Q: Tensor, K: Tensor, V: Tensor, length: Tensor, window: int = 1024) -> Tensor:
    K, V = (x.repeat_interleave(Q.shape[1] // x.shape[1], 1) for x in (K, V))
    q, r = positions(Q, K)
    last = length[:, None, None, None] - 1
    position = last - (last - r) % K.shape[-2]
    at = last + 1 - Q.shape[-2] + q
    return attend(logits(Q, K), V, (position >= 0) & (position <= at) & (at - position < window))


def fp8_attention(Q: Tensor, K: Tensor, V: Tensor, SQ: Tensor, SK: Tensor, SV: Tensor) -> Tensor:
    def scaled(x: Tensor, scales: Tensor) -> Tensor:
        return x.to(SQ.dtype) * scales.repeat_interleave(128, -1)[..., : x.shape[-2], None]

    return attention(scaled(Q, SQ), scaled(K, SK), scaled(V, SV))
