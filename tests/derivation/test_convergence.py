"""Programs of every kind, each written in several ways, and one normal form for all ways.

Programs with sinks, divergences, moments, derivatives, kernels and masks, and attention itself. The
oracle says that the ways mean the same; the normal form must then be the identical term.

Ways that differ on empty rows are programs of their own: an entropy `-sum p log p` is 0 there,
and `logsumexp(s) - sum p s` is -inf. So are a squared distance and its expansion: rounded, the
first is small where two points are near, and the second is not.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from monocomp import terms as T
from monocomp.checking.random_inputs import random_inputs
from monocomp.derivation.rule_sets import derive
from monocomp.language.checker import check
from monocomp.reference.oracle import evaluate
from monocomp.terms.equations import Equations
from monocomp.translation.translator import translate

S = "S[q,k] = Q[q,d] * K[k,d] / sqrt(|d|)\n"
P = f"{S}P[q,k] = softmax[k](S[q,k])\n"
QKV = "input Q[q,d], K[k,d], V[k,e]\n"
SINK = f"input Q[q,d], K[k,d], V[k,e], sink\n{S}"
KL = "input A[t,v], B[t,v]\n"
JVP = "input Q[q,d], K[k,d], V[k,e], dQ[q,d], dK[k,d], dV[k,e]\n" + S
JVP += "T[q,k] = (dQ[q,d] * K[k,d] + Q[q,d] * dK[k,d]) / sqrt(|d|)\n"
DROPOUT = "input Q[q,d], K[k,d], V[k,e]\nparam rate: float = 0.5\n" + S
DIFFERENTIAL = "input Q1[q,d], K1[k,d], Q2[q,d], K2[k,d], V[k,e]\nparam lam: float = 0.8\n"
DIFFERENTIAL += "S[q,k] = Q1[q,d] * K1[k,d]\nT[q,k] = Q2[q,d] * K2[k,d]\n"
LOSS = "input X[t,d], W[v,d], y[t]: int\nS[t,v] = X[t,d] * W[v,d]\n"
LINEAR = "input Q[q,d], K[k,d], V[k,e]\ndef phi(x) = elu(x) + 1\n"
SIMPLICIAL = "input Q[q,d], A[j,d], B[k,d], V[j,e], W[k,e]\n"
SIMPLICIAL += "S[q,j,k] = Q[q,d] * A[j,d] * B[k,d]\n"
UPDATE = "input S[q,k], L[q]\n"
MEAN = "return M, V\nM[i] = mean[k](X[i,k])\n"

WRITINGS = {
    "learned sink": {
        "maximum of all": f"{SINK}M[q] = maximum(sink, max[k](S[q,k]))\n"
        "E[q,k] = exp(S[q,k] - M[q])\nZ[q] = exp(sink - M[q]) + sum[k](E[q,k])\n"
        "O[q,e] = sum[k](E[q,k] / Z[q] * V[k,e])",
        "maximum of the keys": f"{SINK}M[q] = max[k](S[q,k])\nE[q,k] = exp(S[q,k] - M[q])\n"
        "O[q,e] = sum[k](E[q,k] * V[k,e]) / (exp(sink - M[q]) + sum[k](E[q,k]))",
        "no maximum": f"{SINK}"
        "O[q,e] = sum[k](exp(S[q,k]) * V[k,e]) / (exp(sink) + sum[k](exp(S[q,k])))",
        "log-sum-exp with the sink": f"{SINK}L[q] = logsumexp[k](S[q,k])\n"
        "Z[q] = log(exp(sink) + exp(L[q]))\nO[q,e] = sum[k](exp(S[q,k] - Z[q]) * V[k,e])",
        "a longer row": f"{SINK}index j < |k| + 1\n"
        "L[q] = logsumexp[j](where(j > 0, S[q,j - 1], sink))\n"
        "O[q,e] = sum[k](exp(S[q,k] - L[q]) * V[k,e])",
    },
    "update of a log-sum-exp": {
        "about the maximum": f"{UPDATE}M[q] = maximum(L[q], max[k](S[q,k]))\n"
        "N[q] = M[q] + log(exp(L[q] - M[q]) + sum[k](exp(S[q,k] - M[q])))",
        "naive": f"{UPDATE}N[q] = log(exp(L[q]) + sum[k](exp(S[q,k])))",
        "two parts": f"{UPDATE}R[q] = logsumexp[k](S[q,k])\nN[q] = log(exp(L[q]) + exp(R[q]))",
    },
    "variance": {
        "squares of differences": f"{MEAN}V[i] = mean[k]((X[i,k] - M[i]) ** 2)",
        "var": f"{MEAN}V[i] = var[k](X[i,k])",
        "raw moments": f"{MEAN}V[i] = mean[k](X[i,k] ** 2) - M[i] ** 2",
        "one difference": f"{MEAN}V[i] = mean[k]((X[i,k] - M[i]) * X[i,k])",
        "expanded": f"{MEAN}V[i] = mean[k](X[i,k] ** 2 - 2 * X[i,k] * M[i] + M[i] ** 2)",
    },
    "entropy": {
        "p log p": "P[q,k] = softmax[k](S[q,k])\nH[q] = -sum[k](P[q,k] * log(P[q,k]))",
        "log_softmax": "H[q] = -sum[k](softmax[k](S[q,k]) * log_softmax[k](S[q,k]))",
        "log_softmax twice": "R[q,k] = log_softmax[k](S[q,k])\n"
        "H[q] = -sum[k](exp(R[q,k]) * R[q,k])",
    },
    "entropy by the log-sum-exp": {
        "mean logit": "H[q] = logsumexp[k](S[q,k]) - sum[k](softmax[k](S[q,k]) * S[q,k])",
        "naive": "Z[q] = sum[k](exp(S[q,k]))\n"
        "H[q] = log(Z[q]) - sum[k](exp(S[q,k]) * S[q,k]) / Z[q]",
        "safe": "M[q] = max[k](S[q,k])\nE[q,k] = exp(S[q,k] - M[q])\nZ[q] = sum[k](E[q,k])\n"
        "H[q] = log(Z[q]) - sum[k](E[q,k] * (S[q,k] - M[q])) / Z[q]",
    },
    "divergence": {
        "log_softmax": f"{KL}P[t,v] = log_softmax[v](A[t,v])\n"
        "D[t] = sum[v](exp(P[t,v]) * (P[t,v] - log_softmax[v](B[t,v])))",
        "softmax": f"{KL}P[t,v] = softmax[v](A[t,v])\n"
        "D[t] = sum[v](P[t,v] * (log(P[t,v]) - log(softmax[v](B[t,v]))))",
        "ratio": f"{KL}P[t,v] = softmax[v](A[t,v])\n"
        "D[t] = sum[v](P[t,v] * log(P[t,v] / softmax[v](B[t,v])))",
        "cross-entropy less entropy": f"{KL}P[t,v] = softmax[v](A[t,v])\n"
        "C[t] = -sum[v](P[t,v] * log_softmax[v](B[t,v]))\n"
        "H[t] = -sum[v](P[t,v] * log_softmax[v](A[t,v]))\nD[t] = C[t] - H[t]",
    },
    "derivative": {
        "of the weights": f"{JVP}P[q,k] = softmax[k](S[q,k])\n"
        "R[q,k] = P[q,k] * (T[q,k] - sum[k](P[q,k] * T[q,k]))\n"
        "D[q,e] = R[q,k] * V[k,e] + P[q,k] * dV[k,e]",
        "mean taken off last": f"{JVP}P[q,k] = softmax[k](S[q,k])\n"
        "O[q,e] = P[q,k] * V[k,e]\nM[q] = sum[k](P[q,k] * T[q,k])\n"
        "D[q,e] = sum[k](P[q,k] * (T[q,k] * V[k,e] + dV[k,e])) - M[q] * O[q,e]",
        "of the quotient": f"{JVP}E[q,k] = exp(S[q,k])\nZ[q] = sum[k](E[q,k])\n"
        "N[q,e] = sum[k](E[q,k] * V[k,e])\ndN[q,e] = sum[k](E[q,k] * (T[q,k] * V[k,e] + dV[k,e]))\n"
        "dZ[q] = sum[k](E[q,k] * T[q,k])\nD[q,e] = (dN[q,e] * Z[q] - N[q,e] * dZ[q]) / Z[q] ** 2",
        "of the logarithm": f"{JVP}P[q,k] = softmax[k](S[q,k])\n"
        "dL[q] = sum[k](P[q,k] * T[q,k])\nR[q,k] = T[q,k] - dL[q]\n"
        "D[q,e] = sum[k](P[q,k] * (R[q,k] * V[k,e] + dV[k,e]))",
        "a covariance": f"{JVP}P[q,k] = softmax[k](S[q,k])\nO[q,e] = P[q,k] * V[k,e]\n"
        "C[q,e] = sum[k](P[q,k] * T[q,k] * (V[k,e] - O[q,e]))\n"
        "D[q,e] = C[q,e] + sum[k](P[q,k] * dV[k,e])",
    },
    "dropout": {
        "weights": f"{DROPOUT}P[q,k] = softmax[k](S[q,k])\n"
        "D[q,k] = where(uniform(7, q, k) >= rate, P[q,k] / (1 - rate), 0)\n"
        "O[q,e] = D[q,k] * V[k,e]",
        "before the division": f"{DROPOUT}E[q,k] = exp(S[q,k])\n"
        "D[q,k] = where(not rate <= uniform(7, q, k), 0, E[q,k])\n"
        "O[q,e] = sum[k](D[q,k] * V[k,e]) / sum[k](E[q,k]) / (1 - rate)",
        "a factor": f"{DROPOUT}D[q,k] = (uniform(7, q, k) >= rate) / (1 - rate)\n"
        "O[q,e] = sum[k](softmax[k](S[q,k]) * D[q,k] * V[k,e])",
        "a filter": f"{DROPOUT}P[q,k] = softmax[k](S[q,k])\n"
        "O[q,e] = sum[k if uniform(7, q, k) >= rate](P[q,k] * V[k,e]) / (1 - rate)",
        "safe": f"{DROPOUT}M[q] = max[k](S[q,k])\nE[q,k] = exp(S[q,k] - M[q])\n"
        "D[q,k] = where(uniform(7, q, k) >= rate, E[q,k], 0)\nZ[q] = (1 - rate) * sum[k](E[q,k])\n"
        "O[q,e] = sum[k](D[q,k] * V[k,e]) / Z[q]",
    },
    "Gaussian kernel": {
        "squared distance": f"{QKV}D[q,k] = sum[d]((Q[q,d] - K[k,d]) ** 2)\n"
        "O[q,e] = softmax[k](-D[q,k]) * V[k,e]",
        "turned": f"{QKV}D[q,k] = sum[d]((K[k,d] - Q[q,d]) * (K[k,d] - Q[q,d]))\n"
        "O[q,e] = sum[k](exp(-D[q,k]) * V[k,e]) / sum[k](exp(-D[q,k]))",
        "safe": f"{QKV}A[q,k,d] = Q[q,d] - K[k,d]\nD[q,k] = sum[d](A[q,k,d] * A[q,k,d])\n"
        "M[q] = min[k](D[q,k])\nE[q,k] = exp(M[q] - D[q,k])\n"
        "O[q,e] = sum[k](E[q,k] / sum[k](E[q,k]) * V[k,e])",
        "absolute differences": f"{QKV}A[q,k,d] = abs(Q[q,d] - K[k,d])\n"
        "O[q,e] = softmax[k](-sum[d](A[q,k,d] ** 2)) * V[k,e]",
    },
    "moments of the values": {
        "squares of differences": f"{QKV}{P}M[q,e] = P[q,k] * V[k,e]\n"
        "C[q,e] = P[q,k] * (V[k,e] - M[q,e]) ** 2",
        "raw moments": f"{QKV}{P}M[q,e] = P[q,k] * V[k,e]\n"
        "C[q,e] = sum[k](P[q,k] * V[k,e] ** 2) - M[q,e] ** 2",
        "one difference": f"{QKV}{P}M[q,e] = P[q,k] * V[k,e]\n"
        "C[q,e] = P[q,k] * V[k,e] * (V[k,e] - M[q,e])",
        "naive": f"{QKV}{S}E[q,k] = exp(S[q,k])\nZ[q] = sum[k](E[q,k])\n"
        "M[q,e] = sum[k](E[q,k] * V[k,e]) / Z[q]\n"
        "C[q,e] = sum[k](E[q,k] * (V[k,e] - M[q,e]) ** 2) / Z[q]",
    },
    "cross-entropy": {
        "log_softmax": f"{LOSS}R[t,v] = log_softmax[v](S[t,v])\nN[t] = -R[t,y[t]]",
        "log-sum-exp": f"{LOSS}N[t] = logsumexp[v](S[t,v]) - S[t,y[t]]",
        "softmax": f"{LOSS}P[t,v] = softmax[v](S[t,v])\nN[t] = -log(P[t,y[t]])",
        "the label's row": f"{LOSS}N[t] = logsumexp[v](S[t,v]) - sum[d](X[t,d] * W[y[t],d])",
        "relative to the label": f"{LOSS}N[t] = log(sum[v](exp(S[t,v] - S[t,y[t]])))",
        "safe": f"{LOSS}M[t] = max[v](S[t,v])\n"
        "N[t] = log(sum[v](exp(S[t,v] - M[t]))) - (S[t,y[t]] - M[t])",
    },
    "linear attention": {
        "weights": f"{LINEAR}A[q,k] = phi(Q[q,d]) * phi(K[k,d])\n"
        "O[q,e] = sum[k](A[q,k] * V[k,e]) / sum[k](A[q,k])",
        "exchanged": f"{LINEAR}H[d,e] = phi(K[k,d]) * V[k,e]\nZ[d] = sum[k](phi(K[k,d]))\n"
        "O[q,e] = sum[d](phi(Q[q,d]) * H[d,e]) / sum[d](phi(Q[q,d]) * Z[d])",
        "normaliser first": f"{LINEAR}Z[q] = phi(Q[q,d]) * sum[k](phi(K[k,d]))\n"
        "A[q,k] = phi(Q[q,d]) * phi(K[k,d]) / Z[q]\nO[q,e] = A[q,k] * V[k,e]",
    },
    "softpick": {
        "safe": f"{QKV}{S}M[q] = max[k](S[q,k])\nA[q,k] = exp(S[q,k] - M[q]) - exp(-M[q])\n"
        "O[q,e] = sum[k](relu(A[q,k]) * V[k,e]) / sum[k](abs(A[q,k]))",
        "naive": f"{QKV}{S}A[q,k] = exp(S[q,k]) - 1\n"
        "O[q,e] = sum[k](relu(A[q,k]) * V[k,e]) / sum[k](abs(A[q,k]))",
        "normalised": f"{QKV}{S}A[q,k] = exp(S[q,k]) - 1\n"
        "O[q,e] = sum[k](relu(A[q,k]) / sum[k](abs(A[q,k])) * V[k,e])",
        "maximum with 0": f"{QKV}{S}A[q,k] = exp(S[q,k]) - 1\n"
        "O[q,e] = sum[k](maximum(A[q,k], 0) * V[k,e]) / sum[k](abs(A[q,k]))",
    },
    "root mean square": {
        "rsqrt": "N[i,k] = X[i,k] * rsqrt(mean[k](X[i,k] ** 2) + 1e-6)",
        "sqrt": "N[i,k] = X[i,k] / sqrt(sum[k](X[i,k] * X[i,k]) / |k| + 1e-6)",
        "power": "R[i] = (mean[k](X[i,k] ** 2) + 1e-6) ** -0.5\nN[i,k] = R[i] * X[i,k]",
    },
    "Taylor polynomial": {
        "powers": f"{QKV}{S}A[q,k] = 1 + S[q,k] + S[q,k] ** 2 / 2\n"
        "O[q,e] = sum[k](A[q,k] * V[k,e]) / sum[k](A[q,k])",
        "doubled": f"{QKV}{S}A[q,k] = 2 + 2 * S[q,k] + S[q,k] * S[q,k]\n"
        "O[q,e] = sum[k](A[q,k] * V[k,e]) / sum[k](A[q,k])",
        "square completed": f"{QKV}{S}A[q,k] = ((S[q,k] + 1) ** 2 + 1) / 2\n"
        "O[q,e] = sum[k](A[q,k] * V[k,e]) / sum[k](A[q,k])",
    },
}

# Attention, by the naive, the safe and the lazy softmax, by their logarithms, scaled before or
# after, masked in any way. {if} is a filter or nothing, {c} its condition.
_S = "S[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)\n"
_M = "M[b,h,q] = max[k{if}](S[b,h,q,k])\n"
_E = "E[b,h,q,k] = exp(S[b,h,q,k] - M[b,h,q])\n"
_O = "O[b,h,q,e] = "

ATTENTION = {
    "one line": f"{_O}softmax[k{{if}}](Q[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)) * V[b,h,k,e]",
    "sum filtered": f"{_S}{_O}sum[k{{if}}](softmax[k{{if}}](S[b,h,q,k]) * V[b,h,k,e])",
    "naive": f"{_S}{_O}sum[k{{if}}](exp(S[b,h,q,k]) * V[b,h,k,e]) / sum[k{{if}}](exp(S[b,h,q,k]))",
    "safe": f"{_S}{_M}{_E}{_O}sum[k{{if}}](E[b,h,q,k] / sum[k{{if}}](E[b,h,q,k]) * V[b,h,k,e])",
    "lazy": f"{_S}{_M}{_E}{_O}sum[k{{if}}](E[b,h,q,k] * V[b,h,k,e]) / sum[k{{if}}](E[b,h,q,k])",
    "lse": f"{_S}L[b,h,q] = log(sum[k{{if}}](exp(S[b,h,q,k])))\n"
    f"{_O}sum[k{{if}}](exp(S[b,h,q,k] - L[b,h,q]) * V[b,h,k,e])",
    "logsumexp": f"{_S}L[b,h,q] = logsumexp[k{{if}}](S[b,h,q,k])\n"
    f"{_O}sum[k{{if}}](exp(S[b,h,q,k] - L[b,h,q]) * V[b,h,k,e])",
    "log_softmax": f"{_S}{_O}sum[k](exp(log_softmax[k{{if}}](S[b,h,q,k])) * V[b,h,k,e])",
    "base 2": f"{_S}{_O}sum[k{{if}}](exp2(S[b,h,q,k] / log(2)) * V[b,h,k,e])"
    " / sum[k{if}](exp2(S[b,h,q,k] * log2(exp(1))))",
    "both scaled": "A[b,h,q,d] = Q[b,h,q,d] / |d| ** 0.25\nB[b,h,k,d] = K[b,h,k,d] / |d| ** 0.25\n"
    f"{_O}softmax[k{{if}}](A[b,h,q,d] * B[b,h,k,d]) * V[b,h,k,e]",
    "scaled after": "R[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d]\n"
    f"{_O}softmax[k{{if}}](R[b,h,q,k] * rsqrt(|d|)) * V[b,h,k,e]",
    "maximum scaled": "R[b,h,q,k] = Q[b,h,q,d] * K[b,h,k,d]\n"
    "N[b,h,q] = max[k{if}](R[b,h,q,k]) / sqrt(|d|)\n"
    "E[b,h,q,k] = exp(R[b,h,q,k] / sqrt(|d|) - N[b,h,q])\n"
    f"{_O}sum[k{{if}}](E[b,h,q,k] * V[b,h,k,e]) / sum[k{{if}}](E[b,h,q,k])",
    "shifted by row": f"{_S}{_O}softmax[k{{if}}](S[b,h,q,k] + |d| * q) * V[b,h,k,e]",
}
_T = "T[b,h,q,k] = where({c}, S[b,h,q,k], -inf)\n"
MASKED_ATTENTION = {
    "where": f"{_S}{_O}softmax[k](where({{c}}, S[b,h,q,k], -inf)) * V[b,h,k,e]",
    "added": f"{_S}{_O}softmax[k](S[b,h,q,k] + where({{c}}, 0, -inf)) * V[b,h,k,e]",
    "naive": f"{_S}{_T}{_O}sum[k](exp(T[b,h,q,k]) * V[b,h,k,e]) / sum[k](exp(T[b,h,q,k]))",
    "naive, bracket": f"{_S}E[b,h,q,k] = ({{c}}) * exp(S[b,h,q,k])\n"
    f"{_O}sum[k](E[b,h,q,k] * V[b,h,k,e]) / sum[k](E[b,h,q,k])",
    "weights zero": f"{_S}P[b,h,q,k] = where({{c}}, softmax[k{{if}}](S[b,h,q,k]), 0)\n"
    f"{_O}P[b,h,q,k] * V[b,h,k,e]",
    "safe": f"{_S}{_T}M[b,h,q] = max[k](T[b,h,q,k])\nE[b,h,q,k] = exp(T[b,h,q,k] - M[b,h,q])\n"
    f"{_O}sum[k](E[b,h,q,k] / sum[k](E[b,h,q,k]) * V[b,h,k,e])",
    "lse": f"{_S}{_T}L[b,h,q] = logsumexp[k](T[b,h,q,k])\n"
    f"{_O}sum[k](exp(T[b,h,q,k] - L[b,h,q]) * V[b,h,k,e])",
    "log_softmax": f"{_S}{_O}sum[k](exp(log_softmax[k](S[b,h,q,k]"
    " + where({c}, 0, -inf))) * V[b,h,k,e])",
}
DOMAINS = {"full": "", "causal": "k <= q", "window": "k <= q and q - k < 3"}


def written(text: str, condition: str, opposite: str = "") -> str:
    """A way to write a program, for a condition."""
    text = text.replace("{if}", f" if {condition}" if condition else "")
    return text.replace("{c}", condition).replace("{not}", opposite)


for domain, condition in DOMAINS.items():
    ways = ATTENTION | {f"masked {n}": t for n, t in MASKED_ATTENTION.items() if domain != "full"}
    WRITINGS[f"{domain} attention"] = {n: written(t, condition) for n, t in ways.items()}

# {c} is a condition, {not} its opposite, as the ways to mask take them.
MASKS = {
    "where": f"{{input}}{S}O[q,e] = softmax[k](where({{c}}, S[q,k], -inf)) * V[k,e]",
    "not": f"{{input}}{S}O[q,e] = softmax[k if not ({{not}})](S[q,k]) * V[k,e]",
    "safe": f"{{input}}{S}T[q,k] = where({{c}}, S[q,k], -inf)\nM[q] = max[k](T[q,k])\n"
    "E[q,k] = exp(T[q,k] - M[q])\nO[q,e] = sum[k](E[q,k] / sum[k](E[q,k]) * V[k,e])",
}
CONDITIONS = {
    "prefix": ("prefix: int", "k < prefix or k <= q", "k >= prefix and k > q"),
    "document": (
        "start[q]: int, end[q]: int",
        "start[q] <= k < end[q] and k <= q",
        "k < start[q] or k >= end[q] or k > q",
    ),
    "sinks and window": ("", "k <= q and (k < 2 or q - k < 3)", "k > q or k >= 2 and q - k >= 3"),
    "tree": ("ancestor[q,k]: bool", "ancestor[q,k]", "not ancestor[q,k]"),
    "length": ("length: int", "k < length", "k >= length"),
}
for mask, (inputs, condition, opposite) in CONDITIONS.items():
    declared = f"{QKV.strip()}{', ' if inputs else ''}{inputs}\n"
    WRITINGS[f"mask: {mask}"] = {
        name: written(text.replace("{input}", declared), condition, opposite)
        for name, text in MASKS.items()
    }

# Writings that do not reach the normal form of their program's first, and why.
NOT_YET = {
    ("learned sink", "a longer row"): "the case of one position is not split off a sum",
    ("softpick", "maximum with 0"): "maximum(x, 0) and relu(x) stay two",
}


@cache
def derived(text: str) -> Equations:
    return derive(translate(check(text))).program


def where_finite(t: T.Term) -> T.Term:
    """The term, for numbers that are finite: ways that subtract a maximum are others where it is
    infinite."""
    t = T.map_children(t, where_finite)
    if t.op != "compare" or T.INF not in (sizes := [_size(a) for a in t.args]):
        return t
    finite = sizes.index(T.INF) ^ 1
    sides = [T.ZERO if position == finite else a for position, a in enumerate(t.args)]
    return T.compare(t.attr, *sides)


def _size(t: T.Term) -> T.Term:
    return T.INF if t is T.NEG_INF else t


def others() -> list[object]:
    """Every writing but the first of its program."""
    found = []
    for program, writings in WRITINGS.items():
        for name in list(writings)[1:]:
            reason = NOT_YET.get((program, name))
            marks = (pytest.mark.xfail(strict=True, reason=reason),) if reason else ()
            found.append(pytest.param(program, name, marks=marks, id=f"{program}: {name}"))
    return found


@pytest.mark.parametrize("program", WRITINGS)
def test_one_meaning(program: str) -> None:
    """The oracle gives one result for all ways."""
    programs = list(map(check, WRITINGS[program].values()))
    inputs = random_inputs(translate(programs[0]), {}, dtype="float64", seed=3)
    if "start" in inputs:  # no empty row, whose brackets have no quotient
        inputs |= {"start": 0 * inputs["start"], "end": inputs["end"] + 1}
    found = [evaluate(p, {name: inputs[name] for name in p.inputs}) for p in programs]
    for p, values in zip(programs, found, strict=True):
        assert [o.name for o in p.outputs] == [o.name for o in programs[0].outputs]
        np.testing.assert_allclose(values, found[0], rtol=1e-9, atol=1e-12)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("program", "name"), others())
def test_one_normal_form(program: str, name: str) -> None:
    first, other = derived(next(iter(WRITINGS[program].values()))), derived(WRITINGS[program][name])
    for expected, output in zip(first.outputs, other.outputs, strict=True):
        assert output.indices == expected.indices
        a, b = where_finite(expected.body), where_finite(output.body)
        assert a is b, f"{output.body!r}\nis not\n{expected.body!r}"
