"""What a report counts, against formulas written by hand."""

from __future__ import annotations

import pytest
import sympy

import monocomp as mc
from monocomp import library
from tests.costs.test_cost import number

# A filter's bounds are not counted: in `causal` all pairs are, not the half that is admitted.
BY_HAND = {
    # Two products of matrices, and of the weights the maximum, the difference from it, its scale,
    # exp2, and the sum.
    **dict.fromkeys(("attention", "causal"), "b*h*q*k * (2*d + 2*e + 5)"),
    # e^-s (3), its multiple and 1 (2), and the quotient.
    "sigmoid_attention": "b*h*q*k * (2*d + 2*e + 6)",
    # The logits are a sum of two products, scaled once; the values are the latent keys.
    "mla": "b*h*q*k * (2*c + 2*r + 1 + 5 + 2*c)",
    # Maxima and sums of the mixed logits; then, for each head of the values, all weights anew (6
    # each), which take the logits of all heads.
    "talking_heads": "b*q*k * (h * (g * (2*d + 2) + 5) + i * (h * (g * (2*d + 2) + 6) + 2*e))",
    # Logits, softmax, and the mean of the logits under it: a difference, a product, a sum.
    "cross_entropy": "t*v * (2*d + 5 + 3)",
}


@pytest.mark.parametrize("name", BY_HAND)
def test_operations_for_each_pair(name: str) -> None:
    flops = sympy.expand(mc.compile(library.load(name)).report()["flops"])
    pair = {"q", "k"} if name != "cross_entropy" else {"t", "v"}
    counted = [t for t in flops.as_ordered_terms() if pair <= {s.name for s in t.free_symbols}]
    names = {s.name: s for s in flops.free_symbols}
    assert sympy.expand(sympy.Add(*counted) - sympy.parse_expr(BY_HAND[name], names)) == 0


def test_what_is_done_once_a_block_is_done_once() -> None:
    """The running maximum and the moving of the sum to it: by rows, not by elements."""
    flops = mc.compile("L[i] = logsumexp[k](X[i,k])").report()["flops"]
    assert number(flops, {"i": 3, "k": 1000}) == 5 * 3000 + number(flops, {"i": 3, "k": 0})
    assert number(flops, {"i": 1, "k": 0}) < 15
