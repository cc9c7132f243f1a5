"""Sums of products of matrices: each of them alone, and what is no such product is left whole."""

from __future__ import annotations

from monocomp.rewrites.products import products
from tests.rewrites.rules import rule_tests

NEAR_MISSES = {
    "split_products": [
        "A[i,j] = sum[k](X[i,k] * Y[j,k])",  # one product, and done
        "A[i,j] = sum[k](X[i,k] * (Y[j,k] + Z[j,k]))",
        "A[i,j] = sum[k](X[i,k] + Y[j,k])",  # no product among the addends
        "A[i] = sum[k](X[i,k] * Y[k] + Z[i,k] * Y[k])",  # a matrix and a vector
        "A[i,j] = sum[k](X[i,k] * Y[j,k] * D[i,j,k] + Z[i,k])",  # a grid of all indices
        "A[i,j,l] = sum[k](X[i,k] * Y[j,k] * Z[l,k] + Z[l,k])",  # three matrices
        "A[i,j] = sum[k](X[i,k] * Y[j,k] * B[i] + Z[i,k])",  # a factor without the index
        "A[i,j] = sum[k](relu(X[i,k] * Y[j,k] + Z[i,k]))",
        "A[i,j] = sum[k]((X[i,k] + Y[j,k]) * (X[i,k] - Y[j,k]))",  # two sums
        "A[i,j] = sum[k](exp(X[i,k]) * (Y[j,k] + Z[i,j,k]))",  # of one weight, one sum
        "A[i,j] = max[k](X[i,k] * Y[j,k] + Z[i,k])",
        "A[i,j] = sum[k, l](X[i,k] * Y[j,k] + F[i,l])",  # two indices
        "input X[i,k]: int, Y[j,k]: int, Z[i,k]: int\nA[i,j] = sum[k](X[i,k] * Y[j,k] + Z[i,k])",
    ],
}


INPUTS = "input X[i,k], Y[j,k], Z[i,k], W[j,k], B[i], C[i,j]"
VARIANTS = {
    "split_products": [
        # what is no product stays together where it varies with the same indices
        "sum[k if k < i](X[i,k] * Y[j,k] + Z[i,k] + W[j,k] - X[i,k] ** 2 + 3)"
        " => sum[k if k < i](X[i,k] * Y[j,k]) + sum[k if k < i](Z[i,k] - X[i,k] ** 2)"
        " + sum[k if k < i](W[j,k]) + sum[k if k < i](3.0)",
        "sum[k](Z[i,k] * (X[i,k] * Y[j,k] - 2 * W[j,k]))"
        " => sum[k](Z[i,k] * X[i,k] * Y[j,k]) + sum[k](-2 * Z[i,k] * W[j,k])",
        "sum[k](X[i,k] * Y[j,k] + Z[i,k] * W[j,k])"  # nothing is left
        " => sum[k](X[i,k] * Y[j,k]) + sum[k](Z[i,k] * W[j,k])",
        # what varies with nothing is part of either matrix
        "sum[k](X[i,k] * Y[j,k] / |k| + Z[i,k]) => sum[k](X[i,k] * Y[j,k] / |k|) + sum[k](Z[i,k])",
        "sum[k](3 * X[i,k] * Y[j,k] + C[i,j] * Z[i,k] * W[j,k])"
        " => sum[k](3 * X[i,k] * Y[j,k]) + sum[k](C[i,j] * Z[i,k] * W[j,k])",
    ],
}


test_example, test_near_miss, test_variant = rule_tests(
    products.rules, NEAR_MISSES, VARIANTS, start=f"{INPUTS}\nA[i,j] = C[i,j] + "
)
