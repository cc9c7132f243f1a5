"""What filters say is equal is written once."""

from __future__ import annotations

from monocomp.derivation.rule_sets import RULES
from tests.rewrites.rules import rule_tests

INPUTS = "input Y[i], X[i,k], N[k]: int, C[k], P[i]: int\n"
NEAR_MISSES = {
    "assume_equality": [
        "A[i] = sum[k](X[i,k] * Y[k // 2])",  # no filter
        "A[i] = sum[k if i == k](X[i,k] * Y[k // 2])",  # the index itself: see pick_point
        "A[i] = sum[k if i <= k // 2](X[i,k] * Y[k // 2])",
        "A[i] = sum[k if C[k] == 0](X[i,k] * (C[k] + 1))",  # floats: 0 and -0
        "A[i] = sum[k if k // 3 == k // 2](X[i,k] * Y[k // 2])",  # it varies as well
        "A[i] = sum[k if i == k // 2](X[i,k] * C[k])",  # nothing to replace
        "A[i] = sum[k if P[i] == 1 and C[k] < 0](X[i,k] * P[i])",  # neither varies
        "A[i] = X[i,i // 2]",
    ],
}
VARIANTS = {
    "assume_equality": [
        "sum[k if k // 2 == i](X[i,k] * Y[k // 2]) => sum[k if k // 2 == i](X[i,k] * Y[i])",
        "max[k if C[k] < 1 and i == k // 2](X[i,k] * Y[k // 2])"
        " => max[k if C[k] < 1 and i == k // 2](X[i,k] * Y[i])",
        "sum[k if P[i] == N[k] and i == k // 2](X[i,k] * Y[k // 2])"
        " => sum[k if P[i] == N[k] and i == k // 2](X[i,k] * Y[i])",
        "sum[k if i == k // 2 and P[i] == N[k]](X[i,k] * N[k])"
        " => sum[k if i == k // 2 and P[i] == N[k]](X[i,k] * P[i])",
        "sum[k if N[k] == 1](X[i,k] * N[k]) => sum[k if N[k] == 1](X[i,k] * 1)",
    ],
}

test_example, test_near_miss, test_variant = rule_tests(
    [RULES["assume_equality"]], NEAR_MISSES, VARIANTS, miss=INPUTS, start=f"{INPUTS}A[i] = "
)
