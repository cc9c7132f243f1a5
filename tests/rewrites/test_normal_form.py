"""What does not vary with a fold's index leaves it, and nothing else does."""

from __future__ import annotations

from monocomp.rewrites.normal_form import normal_form
from tests.rewrites.rules import rule_tests

RULES = normal_form.rules


NEAR_MISSES = {
    "assume_filter": [
        "A[i] = sum[k if k <= i]((k < i) * X[i,k])",  # not this condition
        "A[i] = sum[k if k <= i or k == 3]((k <= i) * X[i,k])",  # not known: one of two
        "A[i] = sum[k]((k <= i) * X[i,k])",
        "A[i] = sum[k if k <= i](Y[k] * sum[j]((j <= i) * X[i,j]))",  # of another index
    ],
    "common_result": [
        "A[i] = exp(-M[i]) * X[i,0] + exp(-M[i])",  # no result
        "A[i] = M[i] * X[i,0] + M[i] * Y[i]",
        "A[i] = exp(-max[k](X[i,k])) * M[i] + 1",  # not of all
        "A[i] = exp(-max[k](X[i,k])) + exp(-2 * max[k](X[i,k]))",
        "A[i] = exp(M[i] * max[k](X[i,k])) + exp(max[k](X[i,k]))",
        "A[i] = maximum(max[k](X[i,k]) * M[i], max[k](X[i,k]) * Y[i])",  # its sign is unknown
        "A[i] = X[i,0] / max[k](X[i,k]) + M[i] / max[k](X[i,k])",  # divisors
        # Over nothing -inf - [-inf] is -inf, and -inf * 0 no number.
        "A[i] = max[k if k < i](X[i,k]) - (0 < M[i]) * max[k if k < i](X[i,k])",
        "A[i] = max[k](X[i,k]) * M[i] + max[k](X[i,k]) * Y[i]",  # -inf, whatever M + Y is
        "A[i] = (0 < max[k](X[i,k])) * M[i] + (0 < max[k](X[i,k])) * X[i,0]",
        "A[i] = exp(-max[k](X[i,k])) * M[i] * X[i,0]",
    ],
    "hoist_addend": [
        "input N[i,k]: int\nM[i] = max[k if N[i,k] < 0](N[i,k] + 2)",  # the least of all, if empty
    ],
    "hoist_positive_factor": [
        "input N[i,k]: int\nM[i] = max[k if N[i,k] < 0](2 * N[i,k])",
        # The scale of an exponential that stays.
        "M[i] = max[k if S[i,k] < 0](exp(B[i]) * S[i,k] / (1 + exp(B[i])))",
        "M[i] = max[k if S[i,k] < 0]((Y[k] < 0) * exp(S[i,k]) / (1 + exp(B[i])))",
    ],
    "merge_weighted_sums": [
        "A = sum[k](exp(Y[k]) * Y[k]) - max[k](Y[k]) * sum[k](exp(Y[k]))",  # a result stays outside
        "A[i] = sum[k](X[i,k]) + sum[k](Y[k])",  # no weights
        "A[i] = B[i] * sum[k](exp(X[i,k])) + sum[k](exp(X[i,k]) * Y[k])",
        "A[i] = sum[k](exp(X[i,k])) * sum[k](exp(X[i,k]) * Y[k]) + sum[k](exp(X[i,k]) * Z[k])",
        "A[i] = sum[k](exp(B[i]) * X[i,k]) + sum[k](exp(B[i]) * Y[k])",  # it does not vary
        "A[i] = sum[k](exp(X[i,k])) * sum[k](exp(X[i,k]) * Y[k])",
    ],
    "share_filter": [
        "A[i] = sum[k if 0 < k and Y[k] < 1](exp(X[i,k])) / sum[k if 0 < k](exp(X[i,k]))",
        "A[i] = sum[k if 0 < k and B[i] < 1](exp(X[i,k])) / sum[k if 0 < k](exp(2 * X[i,k]))",
        "A[i] = sum[k if 0 < k and B[i] < 1](exp(X[i,k])) * sum[k if 0 < k](exp(X[i,k]))",
        "A[i] = sum[k if 0 < k](exp(X[i,k])) / sum[k if 0 < k and B[i] < 1](exp(X[i,k]))",
        "A[i] = max[k if 0 < k and B[i] < 1](exp(X[i,k])) / max[k if 0 < k](exp(X[i,k]))",
    ],
    "divide_addends": [
        "A[i] = (X[i,0] * Y[i] + Z[i]) ** 2 / Y[i] ** 2",  # a power
        "A[i] = (sum[k if k < i](X[i,k] ** 0) * M[i] + Y[i]) ** 2 / sum[k if k < i](X[i,k] ** 0)",
        *(  # a root, in which the divisor would lose its sign, and another divisor
            f"A[i] = {x} / sum[k if k < i](X[i,k])"
            for x in (
                "sqrt(sum[k if k < i](X[i,k]) * M[i] + 1)",
                "1 / (sum[k if k < i](X[i,k]) * M[i] + Y[i])",
            )
        ),
        "A[i] = (B[i] + C[i]) / D[i]",  # nothing cancels
        "A[i] = (B[i] - C[i]) / B[i] ** 3",  # nor all of a divisor: inf - inf where it is 0
        "A[i] = (B[i] * C[i] + D[i]) * C[i]",
        "A[i] = (exp(B[i]) + C[i]) / D[i]",
        "A[i] = B[i] * C[i] / D[i]",
        "A[i] = (B[i] * C[i] + D[i]) * C[i] ** 2",  # no divisor
        "A[i] = maximum(B[i] * C[i] + D[i], 1 / C[i])",  # no quotient
        "A[i] = (B[i] + X[i,0] / D[i]) / D[i]",  # it divides already
    ],
    "factor_number": [
        "A[i] = X[i] * (2 * Y[i] + 3 * Z[i])",  # they share none
        "A[i] = 2 * Y[i] + 4 * Z[i]",  # no product
        "A[i] = X[i] / (2 * Y[i] + 4 * Z[i])",
        "input N[i]: int\nA[i] = N[i] * (2 * N[i] + 4)",  # integers stay as they are
    ],
}


# What else each rule does, beside its example.
INPUTS = "input D[i,j,k], X[i,k], Y[k], B[i]"
VARIANTS = {
    "common_result": [
        "X[i,0] * (exp(B[i] + max[k](X[i,k])) * 2"
        " + exp(max[k](X[i,k]) - min[k](X[i,k])) * B[i])"
        " => X[i,0] * exp(max[k](X[i,k])) * (2 * exp(B[i]) + exp(-min[k](X[i,k])) * B[i])",
        "X[i,0] * (exp(B[i] - maximum(B[i], 0)) + exp(-maximum(B[i], 0)))"
        " => X[i,0] * exp(-maximum(B[i], 0)) * (exp(B[i]) + 1)",
        # the exponents are the same, and nothing is left of them
        "X[i,0] * (exp(B[i] - max[k](X[i,k])) * B[i] / sum[k](Y[k])"
        " + exp(B[i] - max[k](X[i,k])) * i / sum[k](Y[k]) ** 2)"
        " => X[i,0] * exp(B[i] - max[k](X[i,k])) / sum[k](Y[k]) * (B[i] + i / sum[k](Y[k]))",
        "X[i,0] * (max[k](X[i,k]) ** 3 * B[i] - max[k](X[i,k]) ** 2)"
        " => X[i,0] * max[k](X[i,k]) ** 2 * (max[k](X[i,k]) * B[i] - 1)",
        "X[i,0] * (sum[k if k < i](X[i,k] * Y[k]) ** 3 * B[i] - 2 * sum[k if k < i](X[i,k] * Y[k]))"
        " => X[i,0] * sum[k if k < i](X[i,k] * Y[k])"
        " * (sum[k if k < i](X[i,k] * Y[k]) ** 2 * B[i] - 2)",
        "maximum(exp(-max[k](X[i,k])) * B[i], exp(B[i] - max[k](X[i,k])))"
        " => exp(-max[k](X[i,k])) * maximum(B[i], exp(B[i]))",
        "minimum(exp(-max[k](X[i,k])) * B[i], exp(B[i] - max[k](X[i,k])))"
        " => exp(-max[k](X[i,k])) * minimum(B[i], exp(B[i]))",
        # a sum that divides one addend multiplies the other
        "X[i,0] * (exp(B[i] - max[k](X[i,k])) / sum[k](Y[k])"
        " + exp(2 * B[i] - max[k](X[i,k])) * sum[k](Y[k]))"
        " => X[i,0] * exp(-max[k](X[i,k]))"
        " * (exp(B[i]) / sum[k](Y[k]) + exp(2 * B[i]) * sum[k](Y[k]))",
        # of a maximum no more leaves than that
        "maximum(exp(B[i] - max[k](X[i,k])) * X[i,0], exp(B[i] - max[k](X[i,k])))"
        " => exp(-max[k](X[i,k])) * maximum(exp(B[i]) * X[i,0], exp(B[i]))",
    ],
    "assume_filter": [
        "sum[k if k <= i and k < 3](exp(where(k < 3, X[i,k], -inf)))"
        " => sum[k if k <= i and k < 3](exp(X[i,k]))",
        "max[k if k <= i](where(k <= i, X[i,k], 0)) => max[k if k <= i](X[i,k])",
        # the filter guards a read at a computed position
        "sum[k if 0 < k](where(0 < k, X[i,k - 1], 0)) => sum[k if 0 < k](X[i,k - 1])",
    ],
    "filter_masked_extremum": [
        "max[k](X[i,k] + where(k <= i, 0, -inf)) => max[k if k <= i](X[i,k])",
    ],
    "hoist_factor": [
        # -inf times 0 is 0 in the sum
        "sum[k](X[i,k] * i * where(0 < B[i], 0, -inf))"
        " => i * sum[k](X[i,k] * where(0 < B[i], 0, -inf))",
    ],
    "hoist_addend": [
        "max[k if k < i](X[i,k] + i) => i + max[k if k < i](X[i,k])",
    ],
    "hoist_positive_factor": [
        *(
            f"max[k](X[i,k] * {factor}) => max[k](X[i,k]) * {factor}"
            for factor in (
                "i",
                "B[i] ** 2",
                "exp(B[i])",
                "(1 / sum[k if k < i](exp(Y[k])))",
                "sum[k if k < i](exp(Y[k]))",
                "exp(maximum(max[k if k < i](X[i,k]), B[i]))",  # at most 0 of nothing
            )
        ),
        "max[k]((Y[k] < 0) * exp(-max[l if l < i](X[i,l])))"
        " => exp(-max[k if k < i](X[i,k])) * max[k](1.0 * (Y[k] < 0))",
    ],
    "merge_weighted_sums": [
        "B[i] * sum[k](exp(X[i,k])) - 2 * B[i] * sum[k](Y[k] * exp(X[i,k]))"
        " => B[i] * sum[k](exp(X[i,k]) * (1 - 2 * Y[k]))",
        "sum[k if k < i](exp(X[i,k])) + sum[k if k < i](exp(X[i,k] - B[i]) * Y[k])"
        " => sum[k if k < i](exp(X[i,k]) * (1 + exp(-B[i]) * Y[k]))",
        # whichever comes first
        "sum[k if k < i](exp(X[i,k]) * Y[k]) + sum[k if k < i](exp(X[i,k] - 2 * B[i]))"
        " => sum[k if k < i](exp(X[i,k]) * (exp(-2 * B[i]) + Y[k]))",
        # what they have in common stays whole
        "sum[k](exp(X[i,k] - B[i]) * Y[k]) + sum[k](exp(X[i,k] - B[i]) * Y[k] ** 2)"
        " => sum[k](exp(X[i,k] - B[i]) * (Y[k] + Y[k] ** 2))",
        # one of them holds another fold
        "sum[k if k < i](exp(X[i,k]) * Y[k]) + sum[k if k < i](exp(X[i,k]) * max[j](D[i,j,k]))"
        " => sum[k if k < i](exp(X[i,k]) * (Y[k] + max[j](D[i,j,k])))",
    ],
    "share_filter": [
        # one of its conditions is that of the divisor
        "sum[k if k < i and i < 2 and B[i] < 1](exp(X[i,k])) ** 2"
        " / sum[k if k < i and B[i] < 1](exp(X[i,k]))"
        " => (i < 2) * sum[k if k < i and B[i] < 1](exp(X[i,k]))",
    ],
    "divide_addends": [
        "(B[i] ** 2 * X[i,0] + 1) / B[i] => X[i,0] * B[i] + 1 / B[i]",
        *(  # beside a sum in which nothing cancels, whichever stands first
            f"(B[i] * X[i,0] + {a}) * (X[i,0] + {b}) / B[i]"
            f" => (X[i,0] + {b}) * (X[i,0] * (B[i] != 0) + {a} / B[i])"
            for a, b in ((5, 6), (6, 5))
        ),
        # what does not cancel stays together
        "(sum[k if k < i](1.0) * X[i,0] + B[i] - Y[0]) / sum[k if k < i](1.0)"
        " => sum[k if k < i](1.0) * X[i,0] / sum[k if k < i](1.0)"
        " + (B[i] - Y[0]) / sum[k if k < i](1.0)",
        "(B[i] * X[i,0] + Y[0] - 1) / B[i] => X[i,0] * (B[i] != 0) + (Y[0] - 1) / B[i]",
        "(B[i] * X[i,0] + B[i] / X[i,0] - 1) / X[i,0]"
        " => B[i] * (X[i,0] != 0) + (B[i] / X[i,0] - 1) / X[i,0]",
        # a sum over nothing is 0
        "(B[i] * sum[k if k < i](exp(Y[k])) + B[i] - Y[1]) / sum[k if k < i](exp(Y[k]))"
        " => B[i] * (0 < sum[k if k < i](exp(Y[k]))) + (B[i] - Y[1]) / sum[k if k < i](exp(Y[k]))",
    ],
    "factor_number": [
        "X[i,0] * (2 * B[i] + 2) * (6 - 3 * B[i]) => 6 * X[i,0] * (B[i] + 1) * (2 - B[i])",
        "(X[i,0] + B[i]) * (-2 * X[i,0] - 2 * B[i]) => -2 * (X[i,0] + B[i]) ** 2",
        "X[i,0] * (B[i] / 2 - 1 / 3) => X[i,0] * (3 * B[i] - 2) / 6",
    ],
}


test_example, test_near_miss, test_variant = rule_tests(
    RULES, NEAR_MISSES, VARIANTS, start=f"{INPUTS}\nA[i] = B[i] + ", every=False
)
