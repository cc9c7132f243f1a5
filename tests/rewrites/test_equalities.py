"""What filters say is equal is written once."""

from __future__ import annotations

from monocomp.derivation.rule_sets import RULES
from monocomp.rewrites.equalities import fixed_elements
from tests.rewrites.rules import rule_tests
from tests.rewrites.test_normal_form import INPUTS as OTHERS

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

FIXED_MISSES = {
    "hoist_equal": [
        "A[i] = sum[k if i == k // 2](X[i,k] * Y[k])",  # nothing to replace
        # A share and the sign of what it weighs stay as they are.
        "input L[i] = log(sum[k](exp(S[i,k])))\n"
        "A[i] = sum[k](-(exp(S[i,k] - L[i]) * (X[i,k] + Y[k])))",
        "A[i] = B[i] + sum[k if i == k // 2](Y[k] * X[k // 2,k])",  # it varies by another subscript
        "A[i] = sum[k if i == k](X[i,k] * Y[k])",  # the index itself: see pick_point
        "A[i] = sum[k if i <= k // 2](X[i,k] * Y[k // 2])",
        "A[i] = sum[k if Y[k] == 0](X[i,k] * (Y[k] + 1))",  # floats: 0 and -0
        "A[i] = B[i] + sum[k if i == k // 2](Y[k] * sum[l](X[k // 2,l]))",  # for all i
    ],
    "pick_point": [
        "A[i] = max[k if k == i - 1](X[i,k])",
        "A[i] = sum[k if k <= i](X[i,k])",
        "A[i] = sum[k if k != i - 1](X[i,k])",
        "A[i] = sum[k if 2 * k == i](X[i,k])",  # perhaps no whole number
        "A[i] = sum[k if k // 2 == i](X[i,k])",  # two of them
        "A[i] = sum[k if k * k == i](X[i,k])",
        "A[i] = sum[k if X[i,k] == 0](X[i,k])",
        "A[i] = sum[k if 1.0 * k == B[i]](X[i,k])",  # perhaps no whole number
        "A[i] = sum[k if i == 1 and k < 2](X[i,k])",
        "A[i] = sum[k if k == i or k == 1](X[i,k])",
        "A[i] = sum[k if k == i](X[i,k])",  # X[i,i] would give i and k one extent
    ],
}
FIXED_VARIANTS = {
    "hoist_equal": [
        "sum[k if k // 2 == i](X[i,k] * B[k // 2]) => sum[k if i == k // 2](X[i,k] * B[i])",
        "sum[k if k // 2 == i](k * (k // 2)) => sum[k if i == k // 2](i * k)",
        "sum[k if i == k // 2](exp(X[i,k] + B[k // 2] - Y[k]))"
        " => sum[k if i == k // 2](exp(X[i,k] + B[i] - Y[k]))",
    ],
    "pick_point": [
        "sum[k if k == 2](X[i,k]) => (2 < |k|) * X[i,2]",
        "sum[k if i == k + 1 and Y[k] < 1](k)"
        " => (0 <= i - 1 and i - 1 < |k| and Y[i - 1] < 1) * (i - 1)",
        "sum[k](sum[l if k == l](X[i,l]) * Y[k]) => sum[k](X[i,k] * Y[k])",
        "sum[k](sum[l if k == l and l < i](X[i,l])) => sum[k]((k < i) * X[i,k])",
    ],
}

test_fixed_example, test_fixed_near_miss, test_fixed_variant = rule_tests(
    fixed_elements.rules, FIXED_MISSES, FIXED_VARIANTS, start=f"{OTHERS}\nA[i] = B[i] + "
)
