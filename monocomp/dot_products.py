"""Softmax attention in the form in which torch and transformers ask for it.

Each call says what it needs: a mask or none, heads that share keys, a cap, sinks. That is a program
of a few lines; one is compiled for each combination that occurs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import torch

from monocomp.calls import dynamo
from monocomp.errors import UsageError

if TYPE_CHECKING:
    from monocomp.kernel import Kernel


@dataclass(frozen=True)
class Form:
    """The features that a call needs.

    Attributes:
        mask: an input `mask[b,h,q,k]`: true where a key is seen, or what is added to logits.
        causal: key k is seen by the queries from k on, counted from the first of both.
        shares: several heads of queries share one of keys and values.
        softcap: `c * tanh(s / c)` keeps logits small.
        sinks: each head has one more logit, `sinks[h]`, without a value.
        dropout: weights are dropped by chance, and the others grow.
    """

    mask: Literal["bool", "float"] | None = None
    causal: bool = False
    shares: bool = False
    softcap: bool = False
    sinks: bool = False
    dropout: bool = False

    def text(self) -> str:
        """Return the program."""
        inputs, params = ["Q[b,h,q,d]", "K[b,g,k,d]", "V[b,g,k,e]"], ["scale: float"]
        head = "h // (|h| // |g|)" if self.shares else "h"
        inputs = inputs if self.shares else [at.replace("g", "h") for at in inputs]
        score, weight = f"scale * (Q[b,h,q,d] * K[b,{head},k,d])", "softmax[k{}](S[b,h,q,k])"
        conditions = ["k <= q"] if self.causal else []
        if self.softcap:
            params.append("softcap: float")
            score = f"softcap * tanh({score} / softcap)"
        if self.mask is not None:
            inputs.append(f"mask[b,h,q,k]: {self.mask}")
            if self.mask == "bool":
                conditions.append("mask[b,h,q,k]")
            else:
                score += " + mask[b,h,q,k]"
        seen = f" if {' and '.join(conditions)}" if conditions else ""
        if self.sinks:
            inputs.append("sinks[h]")
            total = f"(sum[k{seen}](exp(S[b,h,q,k])) + exp(sinks[h]))"
            weight = f"exp(S[b,h,q,k]) / {total}"
        if self.dropout:
            params += ["dropout: float", "seed: int"]
            weight += " * where(uniform(seed, b, h, q, k) < dropout, 0, 1 / (1 - dropout))"
        value = f"V[b,{head},k,e]"
        result = f"{weight.format(seen)} * {value}"
        if self.sinks:
            result = f"sum[k{seen}]({result})"
        return (
            f"input {', '.join(inputs)}\nparam {', '.join(params)}\n"
            f"S[b,h,q,k] = {score}\nO[b,h,q,e] = {result}\n"
        )

    def call(self, given: dict[str, Any], backend: str = "auto") -> torch.Tensor:
        """Return the result for inputs and parameters by name."""
        if torch.compiler.is_dynamo_compiling():
            form = self.mask, self.causal, self.shares, self.softcap, self.sinks, self.dropout
            traced: torch.Tensor = dynamo.traced(_key(backend, *form), (), given)  # type: ignore[assignment]
            return traced
        found: torch.Tensor = self.kernel(backend)(**given)
        return found

    def kernel(self, backend: str = "auto") -> Kernel:
        """Return the kernel, compiled once."""
        return _kernel(self, backend)


@cache
def _kernel(form: Form, backend: str) -> Kernel:
    from monocomp.kernel import compile

    return compile(form.text(), name="attention", backend=backend)


def _key(backend: str, *form: Any) -> str:
    """Return the key of a form's kernel, which is compiled: Dynamo looks at no more."""
    key: str = Form(*form).kernel(backend).calls.key
    return key


torch.compiler.assume_constant_result(_key)  # type: ignore[no-untyped-call]


def draw_seed() -> int:
    """Draw the seed of a call with dropout from torch's generator."""
    return int(torch.randint(2**31 - 1, ()))


def sdpa(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """`torch.nn.functional.scaled_dot_product_attention` as a derived kernel.

    The arguments are torch's. A causal mask begins at the first query and the first key, as there.
    A row that sees no key is 0. What `dropout_p` drops follows torch's generator, and is another
    choice than torch would make.

    Args:
        query, key, value: (..., heads, length, features), of 3 dimensions or more.
        attn_mask: true where a key is seen, or what is added to logits; broadcast.
        dropout_p: the share of weights that are dropped.
        is_causal: each query sees the keys up to its own position.
        scale: of logits; 1 / sqrt(features), unless given.
        enable_gqa: heads of queries in groups share those of keys and values.
    """
    if attn_mask is not None and is_causal:
        raise UsageError(
            "a mask and is_causal are given, and only one of them may be",
            help="make one mask of them: attn_mask & torch.ones(q, k, dtype=bool).tril()",
        )
    if query.dim() < 3 or not query.dim() == key.dim() == value.dim():
        shapes = ", ".join(str(tuple(t.shape)) for t in (query, key, value))
        raise UsageError(
            f"query, key and value have the shapes {shapes}",
            help="pass (batch, heads, length, features) each",
        )
    if not 0 <= dropout_p < 1:
        raise UsageError(f"dropout_p is {dropout_p}", help="give a share from 0 to below 1")
    form = Form(
        mask=None if attn_mask is None else "bool" if attn_mask.dtype == torch.bool else "float",
        causal=is_causal,
        shares=enable_gqa and query.shape[-3] != key.shape[-3],
        dropout=dropout_p > 0,
    )
    corners = [t[..., :1, :1, :1] for t in (query, key, value)]  # `broadcast_shapes` imports sympy
    batch = torch.broadcast_tensors(*corners)[0].shape[:-3]  # type: ignore[no-untyped-call]
    tensors = [
        t.expand(*batch, *t.shape[-3:]).flatten(0, -4) if batch else t[None]
        for t in (query, key, value)
    ]
    given: dict[str, Any] = dict(zip("QKV", tensors, strict=True))
    if attn_mask is not None:
        shape = (*batch, *query.shape[-3:-1], key.shape[-2])
        mask = torch.broadcast_to(attn_mask, shape)
        given["mask"] = mask.flatten(0, -4) if batch else mask[None]
    if dropout_p > 0:
        given |= {"dropout": dropout_p, "seed": draw_seed()}
    given["scale"] = query.shape[-1] ** -0.5 if scale is None else scale
    found = form.call(given)
    return found.reshape(*batch, *found.shape[1:])
