"""The order of nested sums: the cheapest, and only where the sums allow another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from monocomp.derivation.rule_sets import exchange
from monocomp.reference.oracle import evaluate
from monocomp.rewriting.driver import Rewriter
from tests.rewrites.rules import (
    check_variant,
    equations,
    inputs_of,
    rule_of,
    rule_tests,
    same_bodies,
    values,
)

RULES = exchange.rules


# Without sizes i, k and l are long, and e is 2.
NEAR_MISSES = {
    "exchange_sums": [
        "O[i,e] = sum[j](A[i,j] * sum[k](B[k,j] * C[k,e]))",  # done
        "O[i,e] = sum[k](max[j](A[i,j] * B[k,j]) * C[k,e])",  # other monoids
        "O[i,e] = max[k](sum[j](A[i,j] * B[k,j]) * C[k,e])",
        "O[i,e] = sum[k](prod[j](A[i,j] * B[k,j]) * C[k,e])",
        "O[i,e] = sum[k](relu(sum[j](A[i,j] * B[k,j])) * C[k,e])",  # not linear in it
        "O[i,e] = sum[k](exp(sum[j](A[i,j] * B[k,j])) * C[k,e])",
        "O[i,e] = sum[k](1 / sum[j](A[i,j] * B[k,j]) * C[k,e])",
        "O[i,e] = sum[k](sum[j](A[i,j] * B[k,j]) ** 0.5 * C[k,e])",
        "O[i,e] = sum[k](sum[j](A[i,j] * B[k,j]) ** 5 * C[k,e])",  # too many products
        "index j < 2\nO[i,e] = sum[k](sum[j](A[i,j] * B[k,j]) ** 5 * C[k,e])",
        "O[i,e] = sum[k](sum[j](A[i,j] * B[i,j]) * C[k,e])",  # it does not vary
        "O[i,e] = sum[k](exp(R[i,k]) * sum[j](A[i,j] * B[k,j]) * C[k,e])",  # no separate weights
        "O[i,e] = sum[k](sum[j](exp(A[i,j] * B[k,j])) * C[k,e])",
        "O[i,e] = sum[k if k <= i](sum[j](A[i,j] * B[k,j]) * C[k,e])",  # a filter that joins them
        "O[i,e] = sum[k](sum[j if R[i,k] < A[i,j]](A[i,j] * B[k,j]) * C[k,e])",
        "O[i,e] = sum[k](sum[j](A[i,j] * B[k,j]) * log(abs(Y[k])) * C[k,e])",  # infinite at 0
        "O[i] = sum[k if C[i,k] < 0](1)",  # no sum in it
        "O[i,e] = sum[k, l](sum[j](A[i,j] * B[k,j]) * C[k,e] * D[l])",  # not one index
        "O[i,e] = sum[k](sum[j, l](F[i,j,l] * G[k,j,l]) * C[k,e])",
        "input B[k,j]: int, A[i,j]: int, C[k,e]: int\n"
        "O[i,e] = sum[k](sum[j](A[i,j] * B[k,j]) * C[k,e])",
    ],
    "join_products": [
        "O[i,k] = sum[j]((A[i,j] + D[i,j]) * B[k,j])",  # done
        "O[i,k] = sum[j](A[i,j] * B[k,j]) + sum[j](D[i,j] * F[k,j])",  # no side is the same
        "O[i,k] = sum[j](A[i,j] * B[k,j]) + sum[j](Y[j] * B[k,j])",  # once for all i
        "O[i] = sum[j](A[i,j] * B[i,j]) + sum[j](D[i,j] * B[i,j])",  # no products of matrices
        "O[i,k] = sum[j](A[i,j] * B[k,j]) + sum[j if j < 2](D[i,j] * B[k,j])",  # other elements
        "O[i,k] = sum[j](A[i,j] * B[k,j]) + max[j](D[i,j] * B[k,j])",
        "O[i,k] = sum[j](A[i,j] * B[k,j]) + relu(sum[j](D[i,j] * B[k,j]))",
        "O[i,k] = sum[j](A[i,j] * B[k,j]) + R[k,i] * sum[j](D[i,j] * B[k,j])",  # it varies
        "O[i,k] = sum[j](A[i,j] * B[k,j]) + sum[j](Y[j]) * sum[j](D[i,j] * B[k,j])",
        "O[i,k] = sum[j](A[i,j] * B[k,j]) + sum[j](D[i,j] * B[k,j]) / X[i]",  # infinite of 0
        "O[i,k] = sum[j](A[i,j] * B[k,j]) + sigmoid(sum[j](Y[j])) * sum[j](D[i,j] * B[k,j])",
        "O[i,k] = sum[j, l](F[i,j,l] * G[k,j,l]) + sum[j, l](H[i,j,l] * G[k,j,l])",  # two indices
        "input A[i,j]: int, B[k,j]: int, D[i,j]: int\n"
        "O[i,k] = sum[j](A[i,j] * B[k,j]) + sum[j](D[i,j] * B[k,j])",
        "O[i,k] = sum[j](exp(A[i,j]) * B[k,j]) + sum[j](D[i,j] * B[k,j])",  # a frame of its own
        # One sum would be of no product of matrices, and be split again without end.
        "O[i,k] = sum[j](X[i,j] * A[i,j] * B[k,j]) + sum[j](X[i,j] * D[i,j] * F[k,j])",
        # Each is needed by itself as well.
        "O[i,k] = sum[j](A[i,j] * B[k,j]) + sum[j](D[i,j] * B[k,j])\n"
        "R[i,k] = sum[j](A[i,j] * B[k,j]) * sum[j](D[i,j] * B[k,j])\nreturn O, R",
    ],
}


INPUTS = "index e < 2\ninput A[i,j], B[k,j], C[k,e], R[i], Y[k]"
VARIANTS = {
    "exchange_sums": [
        # filters go with the innermost index that they name
        "sum[k if k <= e](sum[j if j < i](A[i,j] * B[k,j]) * C[k,e])"
        " => sum[j if j < i](A[i,j] * sum[k if k <= e](B[k,j] * C[k,e]))",
        "sum[k](sum[j if j < k and j < i](A[i,j] * B[k,j]) * C[k,e])"
        " => sum[j if j < i](A[i,j] * sum[k if j < k](B[k,j] * C[k,e]))",
        # weights that separate
        "sum[k](sum[j](exp(A[i,j] + B[k,j])) * C[k,e])"
        " => sum[j](exp(A[i,j]) * sum[k](exp(B[k,j]) * C[k,e]))",
        # multiplied out: sums, products and powers
        "sum[k]((Y[k] + sum[j](A[i,j] * B[k,j])) * C[k,e])"
        " => sum[k](Y[k] * C[k,e]) + sum[j](A[i,j] * sum[k](B[k,j] * C[k,e]))",
        "sum[k](sum[j](A[i,j] * B[k,j]) ** 2 * C[k,e])"
        " => sum[j](A[i,j] * sum[l](A[i,l] * sum[k](B[k,j] * B[k,l] * C[k,e])))",
        "sum[k](sum[j](A[i,j] * B[k,j]) / sum[j](exp(B[k,j])) * C[k,e])"
        " => sum[j](A[i,j] * sum[k](B[k,j] / sum[l](exp(B[k,l])) * C[k,e]))",
        # what holds no such sum stays together
        "sum[k](sum[j](A[i,j] * B[k,j]) * (C[k,e] - Y[k]))"
        " => sum[j](A[i,j] * sum[k](B[k,j] * (C[k,e] - Y[k])))",
        "sum[k](sum[j](A[i,j] * B[k,j]) * (C[k,e] - relu(sum[j](B[k,j]))))"
        " => -sum[j](A[i,j] * sum[k](B[k,j] * (relu(sum[l](B[k,l])) - C[k,e])))",
        # within another fold
        "max[l](sum[k](sum[j](A[l,j] * B[k,j]) * C[k,e]))"
        " => max[l](sum[j](A[l,j] * sum[k](B[k,j] * C[k,e])))",
        # in both positions at once: in one alone it would be computed twice
        "sum[k](sum[j](A[i,j] * B[k,j]) * C[k,e])"
        " + max[l](sum[k](sum[j](A[l,j] * B[k,j]) * C[k,e]))"
        " => sum[j](A[i,j] * sum[k](B[k,j] * C[k,e]))"
        " + max[l](sum[j](A[l,j] * sum[k](B[k,j] * C[k,e])))",
        # what stands outside already is free of charge
        "sum[k](sum[j](A[i,j] * B[k,j]) * C[k,e]) * sum[j](sum[k](B[k,j] * C[k,e]))"
        " => sum[j](A[i,j] * sum[k](B[k,j] * C[k,e])) * sum[j](sum[k](B[k,j] * C[k,e]))",
    ],
    "join_products": [
        # with what stands before them
        "sum[k](A[i,k] * C[k,e]) - 2 * X[i] * sum[k](D[i,k] * C[k,e])"
        " => sum[k]((A[i,k] - 2 * X[i] * D[i,k]) * C[k,e])",
        # the other side, and a product on it
        "sum[k](A[i,k] * C[k,e]) + sum[k](A[i,k] * D[k,e] * F[k,e])"
        " => sum[k](A[i,k] * (C[k,e] + D[k,e] * F[k,e]))",
        # filters, three of them, and what is left
        "sum[k if k < 3](A[i,k] * C[k,e]) + sum[k if k < 3](D[i,k] * C[k,e])"
        " + sum[k if k < 3](B[i,k] * C[k,e]) + Y[e]"
        " => sum[k if k < 3]((A[i,k] + B[i,k] + D[i,k]) * C[k,e]) + Y[e]",
        # in both positions at once
        "sum[k](A[i,k] * C[k,e]) + sum[k](D[i,k] * C[k,e])"
        " + max[l](sum[k](A[l,k] * C[k,e]) + sum[k](D[l,k] * C[k,e]))"
        " => sum[k]((A[i,k] + D[i,k]) * C[k,e]) + max[l](sum[k]((A[l,k] + D[l,k]) * C[k,e]))",
    ],
}


test_example, test_near_miss, test_variant = rule_tests(
    RULES, NEAR_MISSES, VARIANTS, miss="index e < 2\n", start=f"{INPUTS}\nO[i,e] = R[i] + "
)


OUTER_K = "O[i,e] = sum[k](sum[j](A[i,j] * B[k,j]) * C[k,e])"
OUTER_J = "O[i,e] = sum[j](A[i,j] * sum[k](B[k,j] * C[k,e]))"
# i k (j + e) operations against j e (i + k)
SIZED = [
    ({"i": 4, "j": 64, "k": 4, "e": 64}, OUTER_K),
    ({"i": 64, "j": 4, "k": 64, "e": 4}, OUTER_J),
    ({"i": 8, "j": 8, "k": 8, "e": 8}, OUTER_J),  # a tie: in the order of names
]


@pytest.mark.parametrize("start", [OUTER_K, OUTER_J])
@pytest.mark.parametrize(("sizes", "cheapest"), SIZED)
def test_sizes_decide(sizes: dict[str, int], cheapest: str, start: str) -> None:
    """Whichever of two forms a program has, it gets the one that needs fewer operations."""
    rewriter = Rewriter(replace(equations(start), sizes=sizes))
    rewriter.exhaust(exchange)
    assert same_bodies(rewriter.program, equations(cheapest))
    assert len(rewriter.steps) == (start != cheapest)
    inputs = inputs_of(rewriter.start)
    source = evaluate(rewriter.start.origin.text, inputs)
    np.testing.assert_allclose(values(rewriter.program, inputs), source, rtol=1e-12)


def test_a_share_of_a_sum_stays_whole() -> None:
    """At most 1, it may be a product of numbers that are too small and too large."""
    start = "index e < 2\ninput A[j], L[k] = log(sum[j](exp(A[j] + B[k,j])))\nO[i,e] = "
    check_variant(
        rule_of(exchange, "exchange_sums"),
        f"{start}sum[k](sum[j](exp(A[j] + B[k,j] - L[k]) * F[i,j]) * C[k,e])",
        f"{start}sum[j](F[i,j] * sum[k](exp(A[j] + B[k,j] - L[k]) * C[k,e]))",
    )
