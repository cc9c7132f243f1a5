"""What a report counts, against formulas written by hand."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import sympy

import monocomp as mc
from monocomp import library
from tests.costs.test_cost import number


def attention(b: Any, h: Any, q: Any, k: Any, d: Any, e: Any) -> Any:
    """Two products of matrices, and of the weights the maximum, the difference from it, its
    scale, exp2, and the sum."""
    return b * h * q * k * (2 * d + 2 * e + 5)


def sigmoid_attention(b: Any, h: Any, q: Any, k: Any, d: Any, e: Any) -> Any:
    """e^-s (3), its multiple and 1 (2), and the quotient."""
    return b * h * q * k * (2 * d + 2 * e + 6)


def mla(b: Any, h: Any, q: Any, k: Any, c: Any, r: Any) -> Any:
    """The logits are a sum of two products, scaled once; the values are the latent keys."""
    return b * h * q * k * (2 * c + 2 * r + 1 + 5 + 2 * c)


def talking_heads(b: Any, g: Any, h: Any, i: Any, q: Any, k: Any, d: Any, e: Any) -> Any:
    """Maxima and sums of the mixed logits; then, for each head of the values, all weights
    anew (6 each), which take the logits of all heads."""
    mixed = g * (2 * d + 2)
    return b * q * k * (h * (mixed + 5) + i * (h * (mixed + 6) + 2 * e))


def cross_entropy(t: Any, v: Any, d: Any) -> Any:
    """Logits, softmax, and the mean of the logits under it: a difference, a product, a sum."""
    return t * v * (2 * d + 5 + 3)


# A filter's bounds are not counted: in `causal` all pairs are, not the half that is admitted.
BY_HAND: dict[str, Callable[..., Any]] = {
    "attention": attention,
    "causal": attention,
    "sigmoid_attention": sigmoid_attention,
    "mla": mla,
    "talking_heads": talking_heads,
    "cross_entropy": cross_entropy,
}
SIZES = {"b": 4, "g": 16, "h": 16, "i": 16, "q": 4096, "k": 4096, "d": 128, "e": 128}
SIZES |= {"c": 512, "r": 64, "t": 8192, "v": 32768}


def names_of(formula: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(formula).parameters)


@pytest.mark.parametrize("name", BY_HAND)
def test_operations_for_each_pair(name: str) -> None:
    formula = BY_HAND[name]
    flops = sympy.expand(mc.compile(library.load(name)).report()["flops"])
    pair = {"q", "k"} if name != "cross_entropy" else {"t", "v"}
    counted = [t for t in flops.as_ordered_terms() if pair <= {s.name for s in t.free_symbols}]
    expected = formula(
        **{n: sympy.Symbol(n, positive=True, integer=True) for n in names_of(formula)}
    )
    assert sympy.expand(sympy.Add(*counted) - expected) == 0


def test_what_is_done_once_a_block_is_done_once() -> None:
    """The running maximum and the moving of the sum to it: by rows, not by elements."""
    flops = mc.compile("L[i] = logsumexp[k](X[i,k])").report()["flops"]
    assert number(flops, {"i": 3, "k": 1000}) == 5 * 3000 + number(flops, {"i": 3, "k": 0})
    assert number(flops, {"i": 1, "k": 0}) < 15
