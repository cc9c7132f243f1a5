"""Quotients of exponentials become sigmoids, and sigmoids one normal form."""

from __future__ import annotations

import pytest

from monocomp.rewrites.sigmoids import sigmoids
from monocomp.rewriting.rules import Rule
from tests.rewrites.rules import check_does_not_fire, check_example, check_variant, rule_of


@pytest.mark.parametrize("rule", sigmoids.rules, ids=lambda rule: rule.name)
def test_example(rule: Rule) -> None:
    check_example(rule)


# -inf where a largest of nothing is taken from -inf, and so is its opposite.
LOST = "Z[i] - max[k if k < i](S[i,k])"
NEAR_MISSES = {
    "recognise_sigmoid": [
        "Y = 1 / (1 + exp(sum[i](X[i]))) ** (1 / 3)",  # a sum that stays scaled
        "Y[i] = 1 + exp(X[i])",
        "Y[i] = sqrt(1 + exp(X[i]))",
        "Y[i] = 1 / (1 - exp(X[i]))",
        "Y[i] = 1 / (exp(X[i]) - 1)",
        "Y[i] = 1 / (1 + exp(X[i]) + exp(Z[i]))",
        "Y[i] = 1 / (1 + exp(X[i]) * Z[i])",
        "Y[i] = 1 / (1 + exp(X[i]) * abs(N))\ninput N",  # it may be 0
        "Y[i] = 1 / (abs(N) + exp(X[i]))\ninput N",
        "Y[i] = 1 / (1 + Z[i] ** 2 + exp(X[i]))",  # the number varies
        "Y[i] = 1 / (1 + exp(X[i]) / (1 + Z[i] ** 2))",
        "Y[i] = 1 / (sum[k](exp(C[k])) + exp(X[i]))",  # or holds a fold
        "Y[i] = 1 / (1 + exp(X[i]) * sum[k](exp(C[k])))",
        "Y[i] = 1 / (|k| + exp(X[i])) + 0 * sum[k](C[k])",  # there may be no k
        "Y[i] = 1 / (1 + |k| * exp(X[i])) + 0 * sum[k](C[k])",
        "Y[i] = sum[k](C[k]) / (|k| + exp(X[i]))",  # nor is there any beside the sum
        "Y[i] = 1 / (|k| + exp(max[k](S[i,k])))",
        "Y[i] = 1 / (1 + sum[k](exp(C[k])) + exp(X[i]))",  # a sum that stays scaled, too
        "Y[i] = 1 / (0.00000000000000001 + exp(X[i]))",  # its inverse may be too large
        "Y[i] = 1 / (1 + 100000000000000000 * exp(X[i]))",
        "Y[i] = 1 / (1 + X[i])",
        "Y[i] = exp(Z[i]) * sigmoid(X[i])",
        "Y[i] = exp(X[i]) * sigmoid(X[i])",
        "Y[i] = exp(X[i]) / sigmoid(-X[i])",
        "Y[i] = X[i] + sigmoid(0)",  # no product
        "Y[i,k] = exp(S[i,k]) * sigmoid(-X[i])",
        "Y[i,k] = exp(X[i]) * sigmoid(-S[i,k] - X[i])",
        "Y[i,k] = exp(S[i,k]) * sigmoid(-S[i,k] - X[i])",  # X may be infinite
        f"Y[i] = 1 / (1 + exp({LOST}))",
    ],
    "distribute_sigmoid": [
        "Y[i] = (exp(X[i]) - 1) ** 2 + sigmoid(-X[i]) ** 3",
        "Y[i] = (exp(X[i]) + 1) * sigmoid(Z[i])",
        "Y[i] = (X[i] + 1) * sigmoid(X[i])",
        "Y[i] = (exp(X[i]) + 1) * sigmoid(X[i])",  # it would be larger
        "Y[i] = (exp(X[i]) + 1) ** 2 * sigmoid(-X[i])",  # each needs all of it
        "Y[i] = (exp(2 * X[i]) + 1) * sigmoid(-X[i])",
        "Y[i] = (exp(X[i]) + 1) * sigmoid(-X[i]) ** (1 / 2)",
        "Y[i] = (exp(X[i]) + 1) ** 2 / sigmoid(-X[i]) ** 2",  # it would be larger
        "Y[i] = sqrt(exp(X[i]) + 1) * sigmoid(-X[i])",  # no whole power
        "Y[i] = sigmoid(-X[i]) / (exp(X[i]) - 1)",
        "Y[i,k] = (exp(S[i,k]) + 1) * sigmoid(-S[i,k] - X[i])",  # X may be infinite
        "Y[i] = (exp(X[i]) + 1) * sigmoid(-3)",  # it varies with nothing
        "Y[i] = minimum(exp(X[i]), Z[i]) * sigmoid(-X[i])",
        "Y[i] = exp(X[i]) + sigmoid(-X[i])",  # no product
    ],
    "complement_sigmoid": [
        "Y[i] = A[i] - B[i] * sigmoid(X[i])",
        "Y[i] = A[i] + A[i] * sigmoid(X[i])",
        "Y[i] = 1 - 2 * sigmoid(X[i])",
        "Y[i] = 1 - sigmoid(X[i]) ** 2",
        "Y[i] = A[i] - C[i] * (A[i] - B[i]) * sigmoid(X[i])",
        f"Y[i] = A[i] - A[i] * sigmoid({LOST})",
    ],
    "exponential_of_softplus": [
        "Y[i] = exp(A[i] * softplus(X[i]))",  # no number
        "Y[i] = exp(-inf * softplus(X[i]))",
        "Y[i] = exp(softplus(X[i]) ** 2)",
        "Y[i] = softplus(X[i])",
    ],
    "log_sigmoid": [
        "Y[i] = log(1 + sigmoid(X[i]))",
        "Y[i] = log(A[i] * sigmoid(X[i]))",
        "Y[i] = log(tanh(X[i]))",
        f"Y[i] = log(sigmoid({LOST}))",
    ],
    "recognise_softplus": [
        "Y[i] = log(1 + X[i])",
        "Y[i] = log(1 - exp(X[i]))",
        "Y[i] = log(exp(X[i]) - 1)",
        "Y[i] = log(1 + exp(X[i]) * Z[i])",
        "Y[i] = log(1 + Z[i] ** 2 + exp(X[i]))",
        "Y[i] = log(1 + exp(X[i]) + exp(Z[i]))",
        "Y[i] = log(maximum(exp(X[i]), 1))",
        "Y[i] = 1 + exp(X[i])",
    ],
}


def test_every_rule_has_near_misses() -> None:
    assert list(NEAR_MISSES) == [rule.name for rule in sigmoids.rules]


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, texts in NEAR_MISSES.items() for text in texts]
)
def test_near_miss(name: str, text: str) -> None:
    check_does_not_fire(rule_of(sigmoids, name), text)


VARIANTS = [
    (
        "distribute_sigmoid",
        "Y[i] = (exp(X[i]) - exp(-X[i])) * exp(X[i]) * Z[i] * sigmoid(-2 * X[i])",
        "Y[i] = (exp(2 * X[i]) * sigmoid(-2 * X[i]) - sigmoid(-2 * X[i])) * Z[i]",
    ),
    (  # where all exponents are positive, or none is 0
        "distribute_sigmoid",
        "Y[i] = (exp(3 * X[i]) + exp(X[i])) * sigmoid(-2 * X[i])",
        "Y[i] = (exp(2 * X[i]) * sigmoid(-2 * X[i]) + sigmoid(-2 * X[i])) * exp(X[i])",
    ),
    (  # two sums share a sigmoid, a number is finite, and one exponential is no power
        "distribute_sigmoid",
        "Y[i] = (exp(X[i]) - 1) * (exp(X[i] + A[i]) - 2) * sigmoid(-2 * X[i] - 3)",
        "Y[i] = (exp(X[i]) * sqrt(sigmoid(-2 * X[i] - 3)) - sqrt(sigmoid(-2 * X[i] - 3)))"
        " * (exp(X[i] + A[i]) * sqrt(sigmoid(-2 * X[i] - 3)) - 2 * sqrt(sigmoid(-2 * X[i] - 3)))",
    ),
    ("recognise_sigmoid", "Y[i] = exp(X[i]) / sigmoid(X[i])", "Y[i] = 1 / sigmoid(-X[i])"),
    ("recognise_sigmoid", "Y = 1 / (1 + exp(sum[i](X[i])))", "Y = sigmoid(-sum[i](X[i]))"),
    (
        "recognise_sigmoid",
        "Y[i] = 1 / (2 + 3 * exp(X[i]))",
        "Y[i] = sigmoid(log(2 / 3) - X[i]) / 2",
    ),
    (
        "recognise_sigmoid",
        "Y[i] = exp(2 * X[i]) / (|i| + exp(X[i])) ** 2",
        "Y[i] = sigmoid(X[i] - log(|i|)) ** 2",
    ),
    (  # several addends are one number, and a root is taken of it
        "recognise_sigmoid",
        "input N\nY[i] = 1 / sqrt(1 + N ** 2 + exp(X[i]))",
        "input N\nY[i] = sqrt(sigmoid(log(1 + N ** 2) - X[i])) / sqrt(1 + N ** 2)",
    ),
    (
        "recognise_softplus",
        "Y[i] = log(1 + exp(X[i]) / |i|)",
        "Y[i] = softplus(X[i] - log(|i|))",
    ),
    (  # a constant has left the exponent
        "recognise_sigmoid",
        "Y[i,k] = exp(S[i,k] + A[i,k]) * sigmoid(-S[i,k] - 0.5)",
        "Y[i,k] = exp(A[i,k] - 0.5) * sigmoid(S[i,k] + 0.5)",
    ),
    (  # the opposite of a number, and of a sum
        "complement_sigmoid",
        "Y[i] = 1 - sigmoid(X[i])",
        "Y[i] = sigmoid(-X[i])",
    ),
    (
        "complement_sigmoid",
        "Y[i] = A[i] - B[i] - (A[i] - B[i]) * sigmoid(X[i]) + Z[i]",
        "Y[i] = (A[i] - B[i]) * sigmoid(-X[i]) + Z[i]",
    ),
    (  # a weight of nothing is 0 beside what is infinite
        "exponential_of_softplus",
        "Y[i] = Z[i] * exp(-softplus(X[i]))",
        "Y[i] = Z[i] * sigmoid(-X[i]) * (X[i] < inf)",
    ),
    (  # and what is infinite stays so
        "exponential_of_softplus",
        "Y[i] = exp(softplus(X[i]))",
        "Y[i] = 1 / sigmoid(-X[i])",
    ),
    ("log_sigmoid", "Y[i] = log(sigmoid(X[i]) ** 2)", "Y[i] = -2 * softplus(-X[i])"),
    *(  # what is taken is no mask, or is taken from nothing, or is a number
        ("complement_sigmoid", f"Y[i] = 1 - sigmoid({x})", f"Y[i] = sigmoid(-({x}))")
        for x in ("X[i] - sum[k](S[i,k] * Z[k])", "-max[k](S[i,k])", "X[i] - inf")
    ),
]


@pytest.mark.parametrize(("name", "before", "after"), VARIANTS)
def test_variant(name: str, before: str, after: str) -> None:
    """What an example leaves out."""
    check_variant(rule_of(sigmoids, name), before, after)
