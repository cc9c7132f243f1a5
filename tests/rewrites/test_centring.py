"""Sums about a moving centre: the same value, and the form that does not cancel."""

from __future__ import annotations

import numpy as np
import pytest

from monocomp.reference.oracle import evaluate
from monocomp.rewrites.centring import centring, sums
from monocomp.rewriting.driver import Rewriter
from monocomp.rewriting.rules import Rule
from tests.rewrites.rules import (
    check_does_not_fire,
    check_example,
    check_variant,
    equations,
    inputs_of,
    rule_of,
    values,
)

RULES = [*centring.rules, *centring.choices]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_example(rule: Rule) -> None:
    check_example(rule)


MEAN = "sum[l](X[i,l]) / sum[l](1.0)"
OF_NOTHING = "max[k if k < i](S[i,k])"  # in the first row, as the next two are
SUM = "sum[k if k < i](exp(S[i,k]))"
LEAST = "min[k if k < i](S[i,k])"
WEIGHTS = "exp(i * k)"


def weighted_mean(value: str) -> str:
    """A mean by weights with an index that the elements lack."""
    weights, value = WEIGHTS.replace("k", "l"), value.replace("k", "l")
    return f"sum[l]({weights} * {value}) / sum[l]({weights})"


LOGIT = "sum[l](X[i,l] * Z[l,k])"  # which is no mask
NEAR_MISSES = {
    "distribute_bracket": [
        f"Y[i] = (0 < C[i]) * (max[k]({LOGIT}) + B[i])",  # nothing meets its like by it
        f"Y[i] = (0 < C[i]) * (max[k]({LOGIT}) + B[i]) + max[k]({LOGIT})",
        f"Y[i] = (0 < C[i]) * (max[k]({LOGIT}) + B[i]) - B[i]",
        "Y[i] = (0 < X[i]) * (A[i] + B[i]) - A[i]",
        f"Y[i] = (0 < C[i]) * (sum[k]({LOGIT}) + B[i]) - sum[k]({LOGIT})",
        f"Y[i] = C[i] * (max[k]({LOGIT}) + B[i]) - C[i] * max[k]({LOGIT})",
        f"Y[i] = (0 < C[i]) * max[k]({LOGIT}) - max[k]({LOGIT})",
        f"Y[i] = maximum((0 < C[i]) * (max[k]({LOGIT}) + B[i]), -max[k]({LOGIT}))",  # no sum
        f"Y[i] = (0 < C[i]) * maximum(max[k]({LOGIT}), B[i]) - (0 < C[i]) * max[k]({LOGIT})",
        f"Y[i] = (0 < C[i]) * exp(max[k]({LOGIT})) - (0 < C[i]) * max[k]({LOGIT})",
    ],
    "complement_bracket": [
        "Y[i] = A[i] - (0 < X[i]) * A[i]",
        f"Y[i] = max[k]({LOGIT}) + (0 < C[i]) * max[k]({LOGIT})",
        f"Y[i] = max[k]({LOGIT}) - 2 * (0 < C[i]) * max[k]({LOGIT})",
        f"Y[i] = max[k]({LOGIT}) - (0 < C[i]) * min[k]({LOGIT})",
        f"Y[i] = maximum(max[k]({LOGIT}), (0 < C[i]) * -max[k]({LOGIT}))",
        f"Y[i] = max[k]({LOGIT}) - C[i] * max[k]({LOGIT})",
        *(  # where an aggregate over nothing taken away from itself is -inf
            f"Y[i] = {OF_NOTHING} - ({condition}) * {OF_NOTHING}{beside}"
            for condition, beside in (
                ("0 < X[i]", ""),
                (f"{SUM} == 0", ""),
                (f"{SUM} >= 0", ""),
                (f"X[i] < {SUM}", ""),
                ("0 < X[i]", f" - log({SUM})"),
                ("0 < X[i]", f" + (0 < A[i]) * log({SUM})"),
                ("0 < X[i]", f" + {SUM} * log({SUM})"),
            )
        ),
        f"Y[i] = {LEAST} - (0 < X[i]) * {LEAST} + log(1 + sum[k if k < i](exp(-S[i,k])))",
        "Y[i] = maximum((0 < X[i]) * max[k](S[i,k]), -max[k](S[i,k]))",  # no sum
    ],
    "drop_beside_logarithm": [
        "H[i] = log(sum[k](exp(S[i,k]))) + (0 < sum[k](exp(S[i,k]))) * B[i]",
        "H[i] = B[i] * (not 0 < sum[k](exp(S[i,k]))) - log(sum[k](exp(S[i,k])))",
        "H[i] = log(sum[k](exp(S[i,k]))) + (not 0 < sum[k](exp(X[i,k]))) * B[i]",  # another
        "H[i] = log(sum[k](exp(S[i,k]))) * (not 0 < sum[k](exp(S[i,k]))) * B[i]",  # no sum
        "H[i] = sum[k](exp(S[i,k])) + (not 0 < sum[k](exp(S[i,k]))) * B[i]",  # no logarithm
        "H[i] = log(B[i]) + (not 1 < B[i]) * C[i]",
        "H[i] = log(B[i]) + (not B[i] == 0) * C[i]",
        "H[i] = log(B[i]) + C[i] * D[i]",
        "H[i] = maximum(log(B[i]), (not 0 < B[i]) * C[i])",
        "H[i] = C[i] * log(sum[k](exp(S[i,k]))) + (not 0 < sum[k](exp(S[i,k]))) * B[i]",
    ],
    "common_count": [
        "Y[i] = 1 / (|i| * X[i] + B[i])",
        "Y[i] = 1 / (X[i] / |i| + B[i] / |i|)",
        "Y[i] = |i| * X[i] + |i| * B[i]",  # under no power
        "Y[i] = sin(|i| * X[i] + |i| * B[i])",
        "Y[i] = 1 / (A[i] * X[i] + A[i] * B[i])",  # no count
        "Y[i] = 1 / (1.0 * i * X[i] + 1.0 * i * B[i])",
    ],
    "centre_moments": [
        "V[i] = sum[k](X[i,k] ** 2)",  # no mean is at hand
        "V[i] = sum[k](X[i,k] ** 2) + sum[k](X[i,k])",  # no shorter
        "V[i] = sum[k](X[i,k] ** 2) - sum[k if k < i](X[i,k]) ** 2 / |k|",
        "V[i] = sum[k](X[i,k] ** 2 * W[k]) - sum[k](X[i,k]) ** 2 / |k|",  # other weights
        "V[i] = sum[k](X[i,k] ** 2 * W[k]) - sum[k](X[i,k] * W[k]) ** 2 / |k|",
        "V[i] = sum[k if k < i](X[i,k] ** 2) - sum[k if k < i](X[i,k]) ** 2 / |k|",
        "V[i] = sum[k](abs(X[i,k]) ** 2.5) - sum[k](abs(X[i,k])) ** 2 / |k|",
        "V[i] = sum[k](1 / X[i,k]) - (1.0 * |k|) ** 2 / sum[k](X[i,k])",
        "V[i] = sum[k](X[i,k] ** 9) - sum[k](X[i,k]) ** 9 / |k| ** 8",
        "V[i] = max[k](X[i,k] ** 2) - max[k](X[i,k]) ** 2",
        "V[i] = max[k](X[i,k] ** 2) - sum[k](X[i,k]) ** 2 / |k|",
        "V[i] = sum[k](Z[i] ** 2 * X[i,k]) - sum[k](Z[i] * X[i,k]) ** 2 / sum[k](X[i,k])",
        "V[i] = sum[k]((X[i,k] - max[l](X[i,l])) ** 2)"
        " - sum[k](X[i,k] - max[l](X[i,l])) ** 2 / |k|",  # it varies with a result
        "V[i] = sum[j, k](D[i,j,k] ** 2) - sum[j, k](D[i,j,k]) ** 2",  # two indices
        "input N[i,k]: int\nV[i] = sum[k](N[i,k] ** 2) - sum[k](1.0 * N[i,k]) ** 2 / |k|",
        "input N[i,k]: int\nV[i] = sum[k](N[i,k] ** 2) - sum[k](N[i,k]) ** 2 / |k|",  # exact
        f"V[i] = sum[k]((X[i,k] - {MEAN}) ** 2)",  # done
    ],
    "anchor_means": [
        "V[i] = sum[k](X[i,k]) / sum[k](1.0)",  # no powers about it
        "V[i] = sum[k]((X[i,k] - M[i]) ** 2)",
        f"V[i] = sum[k](relu(X[i,k] - {MEAN}))",
        "V[i] = sum[k]((X[i,k] - sum[l](X[i,l])) ** 2)",  # no mean
        "V[i] = sum[k]((X[i,k] - sum[l](Y[l]) / sum[l](1.0)) ** 2)",  # of something else
        # The anchor would have to be an element whose weight is not 0.
        "V[i] = sum[k](Y[k]**2 * (X[i,k] - sum[l](Y[l]**2 * X[i,l]) / sum[l](Y[l]**2)) ** 2)",
        "V[i] = sum[k](S[i,k]**2 * (Y[k] - sum[l](S[i,l]**2 * Y[l]) / sum[l](S[i,l]**2)) ** 2)",
        *(  # elements that are sums over a part, or of sums
            f"V = sum[k](({sums} - sum[n]({sums.replace('k', 'n')}) / sum[n](1.0)) ** 2)"
            for sums in (
                "sum[l if l < 3](Y[l] * Z[k,l])",
                "sum[l](Y[l] * max[m](Z[l,m] * Z[k,m]))",
            )
        ),
        # Weights that their mean does not have, two series, and sums over a part as elements.
        *(
            f"index i < 4\nV[i] = sum[k]({WEIGHTS} * {element})"
            for element in (
                f"B[k] * (Y[k] - {weighted_mean('Y[k]')}) ** 2",
                f"(Y[k] - {weighted_mean('Y[k]')}) * (B[k] - {weighted_mean('B[k]')})",
                f"(sum[j if j < 3](Z[k,j]) - {weighted_mean('sum[j if j < 3](Z[k,j])')}) ** 2",
            )
        ),
        "V[i] = SE[k]((Y[k] - SE[l](Y[l], X[i,l]).v / SE[l](1, X[i,l]).v) ** 2, D[i,k]).v",
        # For each mean another element would be the first.
        "V[i] = SE[k]((X[i,k] - SE[l](X[i,l], D[i,l]).v / SE[l](1, D[i,l]).v) ** 2, D[i,k]).v",
        "V[i] = sum[k]((B[i] - sum[l](B[i]) / sum[l](1.0)) ** 2)"
        " + sum[k](X[i,k]) + sum[l](X[i,l])",  # of what does not vary
    ],
    "centre_on_maximum": [
        *(  # of one addend, whichever comes first
            f"H[i] = max[k](S[i,k] + R[i,k]) - SE[k]({x}, S[i,k] + R[i,k]).v"
            " / SE[k](1, S[i,k] + R[i,k]).v"
            for x in ("S[i,k]", "R[i,k]")
        ),
        "H[i] = SE[k](S[i,k], S[i,k]).v / SE[k](1, S[i,k]).v",  # no maximum stands outside
        "H[i] = max[k](S[i,k]) - sum[k](S[i,k])",  # no exponent
        "H[i] = max[k](S[i,k]) * sum[k](1.0) - sum[k](S[i,k])",
        "H[i] = max[j, k](D[i,j,k]) - SE[k](S[i,k], S[i,k]).v / SE[k](1, S[i,k]).v",
        "index j < 3\nH[i] = max[j](B[i]) - SE[k](B[i], S[i,k]).v / SE[k](1, S[i,k]).v",
        "H[i] = max[k if k < i](S[i,k]) - SE[k](S[i,k], S[i,k]).v / SE[k](1, S[i,k]).v",
        "H[i] = max[k](S[i,k]) - SE[k if k < i](S[i,k], S[i,k]).v / SE[k if k < i](1, S[i,k]).v",
        "H[i] = max[k](R[i,k]) - SE[k](S[i,k], S[i,k]).v / SE[k](1, S[i,k]).v",
        "H[i] = max[k](S[i,k] + Y[k]) - SE[k](S[i,k], S[i,k]).v / SE[k](1, S[i,k]).v",  # a part
        "H[i] = max[k](S[i,k] + Y[k]) - SE[k](Y[k], S[i,k]).v / SE[k](1, S[i,k]).v",
        "H[i] = max[k](S[i,k]) + SE[k](S[i,k], S[i,k]).v",  # it would not leave
        "H[i] = max[k](S[i,k] - S[i,k]) + SE[k](1, S[i,k]).v",  # the maximum of zeros
        "H[i] = max[k](0.0) - SE[k](X[i,k] + 2, S[i,k]).v / SE[k](1, S[i,k]).v",
        "H[i] = max[k](S[i,k]) - SE[k](S[i,k] ** 2, S[i,k]).v / SE[k](1, S[i,k]).v",
        "H[i] = max[k](inf * S[i,k]) - SE[k](inf * S[i,k], S[i,k]).v / SE[k](1, S[i,k]).v",
    ],
}


def test_every_rule_has_near_misses() -> None:
    assert list(NEAR_MISSES) == [rule.name for rule in RULES]


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, texts in NEAR_MISSES.items() for text in texts]
)
def test_near_miss(name: str, text: str) -> None:
    check_does_not_fire(rule_of(centring, name), text)


ANCHORED = "X[i,k] - where(0 < |k|, X[i,0], 0)"
OF_THE_OTHER = ANCHORED.replace("X", "D")
FIRST = "argmax[l](1 * (-inf < Y[l]))"
ADMITTED = "argmax[l](1 * (0 < Y[l]))"
AT_ADMITTED = f"where({ADMITTED} < |k| and 0 < Y[{ADMITTED}], X[i,{ADMITTED}], 0)"
AT_FIRST = f"(Z[k,k] - where({FIRST} < |k|, Z[{FIRST}, {FIRST}], 0))"
VARIANTS = {
    "distribute_bracket": [
        (
            f"(X[i,0] < 0) * B[i] * (B[i] - min[k]({LOGIT})) + B[i] * min[k]({LOGIT})",
            f"(X[i,0] < 0) * B[i] ** 2 - (X[i,0] < 0) * B[i] * min[k]({LOGIT})"
            f" + B[i] * min[k]({LOGIT})",
        ),
    ],
    "complement_bracket": [
        (
            f"B[i] * max[k]({LOGIT}) - (i < 2) * B[i] * max[k]({LOGIT})",
            f"(i >= 2) * B[i] * max[k]({LOGIT})",
        ),
    ],
    "drop_beside_logarithm": [
        (  # among other conditions
            "2 * log(sum[k if k < i](exp(X[i,k])))"
            " - (i < 2 and not 0 < sum[k if k < i](exp(X[i,k]))) * Y[0] * min[k](X[i,k]) + Y[1]",
            "2 * log(sum[k if k < i](exp(X[i,k]))) + Y[1]",
        ),
        ("log(abs(Y[0])) + (not abs(Y[0]) != 0) * X[i,0]", "log(abs(Y[0]))"),
    ],
    "common_count": [
        (
            "1 / (X[i,0] * (1.0 * |k|) ** 2 + B[i] * |k|) ** 2",
            "1 / ((1.0 * |k|) ** 2 * (X[i,0] * |k| + B[i]) ** 2)",
        ),
    ],
    "centre_moments": [
        (  # weights, a filter, and a factor that is multiplied out
            "B[i] * sum[k if k < i](Y[k] ** 2 * X[i,k] ** 2)"
            " - B[i] * sum[k if k < i](Y[k] ** 2 * X[i,k]) ** 2 / sum[k if k < i](Y[k] ** 2)",
            "B[i] * sum[k if k < i](Y[k] ** 2 * (X[i,k] - sum[l if l < i](Y[l] ** 2 * X[i,l])"
            " / sum[l if l < i](Y[l] ** 2)) ** 2)",
        ),
        (  # weights with an index that the elements lack
            "sum[k](X[i,k] ** 2 * Y[k] ** 2)"
            " - sum[k](X[i,k] ** 2 * Y[k]) ** 2 / sum[k](X[i,k] ** 2)",
            "sum[k](X[i,k] ** 2 * (Y[k] - sum[l](X[i,l] ** 2 * Y[l]) / sum[l](X[i,l] ** 2)) ** 2)",
        ),
        (  # the same where an anchor would do, which comes next
            f"sum[k]({WEIGHTS} * Y[k] ** 2) - sum[k]({WEIGHTS} * Y[k]) ** 2 / sum[k]({WEIGHTS})",
            f"sum[k]({WEIGHTS} * (Y[k] - {weighted_mean('Y[k]')}) ** 2)",
        ),
        (  # distances from the anchor, which have all indices of their mean
            f"sum[k](({ANCHORED}) ** 2) - sum[k]({ANCHORED}) ** 2 / |k|",
            f"sum[k](({ANCHORED} - sum[k]({ANCHORED}) / sum[k](1.0)) ** 2)",
        ),
        (
            "SE[k](X[i,k] ** 2, D[i,k]).v / SE[k](1, D[i,k]).v"
            " - (SE[k](X[i,k], D[i,k]).v / SE[k](1, D[i,k]).v) ** 2",
            "SE[k]((X[i,k] - SE[l](X[i,l], D[i,l]).v / SE[l](1, D[i,l]).v) ** 2, D[i,k]).v"
            " / SE[k](1, D[i,k]).v",
        ),
    ],
    "anchor_means": [
        (  # no subscript is out of range, where i and k have one extent
            "Y[i] + sum[k if i <= k]((Y[k] - sum[l if i <= l](Y[l]) / sum[l if i <= l](1.0)) ** 2)",
            "Y[i] + sum[k if i <= k]((Y[k] - where(i < |k|, Y[i], 0)) ** 2)"
            " - sum[k if i <= k](Y[k] - where(i < |k|, Y[i], 0)) ** 2 / sum[k if i <= k](1.0)",
        ),
        (  # the anchor is the first element that the filter lets pass
            "sum[k if i <= k]((X[i,k] - sum[l if i <= l](X[i,l]) / sum[l if i <= l](1.0)) ** 2)",
            "sum[k if i <= k]((X[i,k] - where(i < |k|, X[i, maximum(i, 0)], 0)"
            " - sum[l if i <= l](X[i,l] - where(i < |k|, X[i, maximum(i, 0)], 0))"
            " / sum[l if i <= l](1.0)) ** 2)",
        ),
        (
            "sum[k if 0 < Y[k]]((X[i,k] - sum[l if 0 < Y[l]](X[i,l])"
            " / sum[l if 0 < Y[l]](1.0)) ** 2)",
            f"sum[k if 0 < Y[k]]((X[i,k] - {AT_ADMITTED} - sum[k if 0 < Y[k]](X[i,k]"
            f" - {AT_ADMITTED}) / sum[k if 0 < Y[k]](1.0)) ** 2)",
        ),
        (  # elements that are sums, so that the anchor is a result; the weights vary with i
            "sum[k](Z[k,k]) + sum[k](exp(i * k) * (sum[l](Y[l] * Z[k,l])"
            " - sum[m](exp(i * m) * sum[l](Y[l] * Z[m,l])) / sum[m](exp(i * m))) ** 2)",
            "sum[k](Z[k,k]) + sum[k](exp(i * k)"
            " * (sum[l](Y[l] * Z[k,l]) - where(0 < |k|, sum[l](Y[l] * Z[0,l]), 0)) ** 2)"
            " - sum[k](exp(i * k)"
            " * (sum[l](Y[l] * Z[k,l]) - where(0 < |k|, sum[l](Y[l] * Z[0,l]), 0))) ** 2"
            " / sum[k](exp(i * k))",
        ),
        (  # the first element whose weight is not 0 for all rows
            "SE[k]((Z[k,k] - SE[l](Z[l,l], X[i,l] + Y[l]).v / SE[l](1, X[i,l] + Y[l]).v) ** 2,"
            " X[i,k] + Y[k]).v",
            f"SE[k]({AT_FIRST} ** 2, X[i,k] + Y[k]).v"
            f" - SE[k]{AT_FIRST[:-1]}, X[i,k] + Y[k]).v ** 2 / SE[k](1, X[i,k] + Y[k]).v",
        ),
        (  # of exponents all are finite that vary with no other index
            "SE[k]((Y[k] - SE[l](Y[l], X[i,l] + l).v / SE[l](1, X[i,l] + l).v) ** 2, X[i,k] + k).v",
            "SE[k]((Y[k] - where(0 < |k|, Y[0], 0)) ** 2, X[i,k] + k).v"
            " - SE[k](Y[k] - where(0 < |k|, Y[0], 0), X[i,k] + k).v ** 2"
            " / SE[k](1, X[i,k] + k).v",
        ),
        (  # of two series
            f"sum[k]((X[i,k] - {MEAN}) * (D[i,k] - {MEAN.replace('X', 'D')}))",
            f"sum[k](({ANCHORED} - sum[k]({ANCHORED}) / sum[k](1.0))"
            f" * ({OF_THE_OTHER} - sum[k]({OF_THE_OTHER}) / sum[k](1.0)))",
        ),
    ],
    "centre_on_maximum": [
        (
            "max[k if k < i](X[i,k])"
            " - SE[k if k < i](X[i,k], X[i,k]).v / SE[k if k < i](1, X[i,k]).v",
            "max[k if k < i](X[i,k]) * (not 0 < SE[k if k < i](1, X[i,k]).v)"
            " - SE[k if k < i](X[i,k] - max[l if l < i](X[i,l]), X[i,k]).v"
            " / SE[k if k < i](1, X[i,k]).v",
        ),
        (
            "B[i] * max[k](X[i,k]) - B[i] * SE[k](X[i,k], X[i,k]).v / SE[k](1, X[i,k]).v",
            "B[i] * max[k](X[i,k]) * (not 0 < SE[k](1, X[i,k]).v)"
            " - B[i] * SE[k](X[i,k] - max[l](X[i,l]), X[i,k]).v / SE[k](1, X[i,k]).v",
        ),
        (  # what may be infinite is not multiplied with what is added
            "max[k](X[i,k]) - SE[k](X[i,k], X[i,k]).v / SE[k](1, X[i,k]).v"
            " + Y[0] * max[k](X[i,k]) - Y[0] * SE[k](X[i,k], X[i,k]).v / SE[k](1, X[i,k]).v"
            " + SE[k](X[i,k], X[i,k]).v / B[i]",
            "(not 0 < SE[k](1, X[i,k]).v) * max[k](X[i,k])"
            " - SE[k](X[i,k] - max[l](X[i,l]), X[i,k]).v / SE[k](1, X[i,k]).v"
            " + Y[0] * (not 0 < SE[k](1, X[i,k]).v) * max[k](X[i,k])"
            " - Y[0] * SE[k](X[i,k] - max[l](X[i,l]), X[i,k]).v / SE[k](1, X[i,k]).v"
            " + (SE[k](X[i,k] - max[l](X[i,l]), X[i,k]).v"
            " + max[k](X[i,k]) * SE[k](1, X[i,k]).v) / B[i]",
        ),
        (  # beside something that stands under a negated condition
            "(not 0 < Y[0]) + max[k](X[i,k]) - SE[k](X[i,k], X[i,k]).v / SE[k](1, X[i,k]).v",
            "(not 0 < Y[0]) + max[k](X[i,k]) * (not 0 < SE[k](1, X[i,k]).v)"
            " - SE[k](X[i,k] - max[l](X[i,l]), X[i,k]).v / SE[k](1, X[i,k]).v",
        ),
        (  # of a product, and where a condition holds
            "(i < 2) * max[k](X[i,k]) * SE[k](Y[k], X[i,k]).v / SE[k](1, X[i,k]).v"
            " - (i < 2) * SE[k](Y[k] * X[i,k], X[i,k]).v / SE[k](1, X[i,k]).v",
            "-(i < 2) * SE[k](Y[k] * (X[i,k] - max[l](X[i,l])), X[i,k]).v / SE[k](1, X[i,k]).v",
        ),
    ],
}
INPUTS = "input X[i,k], D[i,k], Y[k], B[i], Z[k,k]"


def test_every_rule_has_variants() -> None:
    assert list(VARIANTS) == [rule.name for rule in RULES]


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [(name, *variant) for name, variants in VARIANTS.items() for variant in variants],
)
def test_variant(name: str, before: str, after: str) -> None:
    start = f"{INPUTS}\nA[i] = B[i] + "
    check_variant(rule_of(centring, name), start + before, start + after, rtol=1e-11)


def test_moments_about_an_anchor_stay() -> None:
    """Where the weights have an index that the elements lack; else the choices would not end."""
    mean = "sum[l](exp(i * l) * Y[l]) / sum[l](exp(i * l))"
    text = f"{INPUTS}\nA[i] = B[i] + sum[k](exp(i * k) * (Y[k] - {mean}) ** 2)"
    rewriter = Rewriter(equations(text))
    rewriter.exhaust(centring)
    assert [step.rule for step in rewriter.steps] == ["anchor_means"]
    inputs = inputs_of(rewriter.start)
    expected = evaluate(rewriter.start.origin.text, inputs)
    np.testing.assert_allclose(values(rewriter.program, inputs), expected, rtol=1e-11)


def test_sums_that_vary_with_other_folds_are_found_where_they_are_wanted() -> None:
    program = equations("V = sum[i](sum[k](exp(D[i,k])))")
    (outer,) = program.equations
    assert [t for t, *_ in sums(program)] == [outer.body]
    assert len(list(sums(program, inner=True))) == 2
