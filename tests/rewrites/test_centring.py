"""Sums about a centre: the same value, and the form that does not cancel."""

from __future__ import annotations

import numpy as np

from monocomp.rewrites.centring import anchoring, centring
from tests.rewrites.rules import apply_only, inputs_of, rule_tests, values

RULES = {rule.name: rule for rule in (*centring.rules, *anchoring.rules)}


INPUTS = "input X[i,k], D[i,k], Y[k], B[i], Z[k,k]"
W = "exp(i * k)"  # weights with an index that the elements lack


def mean(u: str = "X[i,k]", weight: str = "1.0", where: str = "") -> str:
    """A weighted mean, over an index of its own."""
    u, weight, where = (t.replace("k", "l") for t in (u, weight, where))
    product = u if weight == "1.0" else f"{weight} * {u}"
    return f"sum[l{where}]({product}) / sum[l{where}]({weight})"


def exact(u: str = "X[i,k]", weight: str = "1.0", where: str = "", scale: str = "") -> str:
    """The sum of the squares of distances from their mean, less what rounding leaves of that of the
    distances."""
    distance = f"({u} - {mean(u, weight, where)})"
    times = "" if weight == "1.0" else f"{weight} * "
    squares, total = (f"sum[k{where}]({times}{distance}{p})" for p in (" ** 2", ""))
    return f"{scale}{squares} - {scale}{total} ** 2 / sum[k{where}]({weight})"


def softmean(u: str, s: str, monoid: str = "l") -> str:
    """A mean in SE."""
    return f"SE[{monoid}]({u}, {s}).v / SE[{monoid}](1, {s}).v"


NEAR_MISSES = {
    "centre_powers": [
        "V[i] = sum[k](X[i,k] ** 2)",  # no mean is at hand
        "V[i] = sum[k](X[i,k] ** 2) + sum[k](X[i,k])",  # no shorter
        "V[i] = sum[k](X[i,k] ** 2) - sum[k if k < i](X[i,k]) ** 2 / |k|",
        "V[i] = sum[k](X[i,k] ** 2 * W[k]) - sum[k](X[i,k] * W[k]) ** 2 / |k|",  # other weights
        "V[i] = sum[k](abs(X[i,k]) ** 2.5) - sum[k](abs(X[i,k])) ** 2 / |k|",
        "V[i] = sum[k](X[i,k] ** 9) - sum[k](X[i,k]) ** 9 / |k| ** 8",
        "V[i] = max[k](X[i,k] ** 2) - sum[k](X[i,k]) ** 2 / |k|",
        "V[i] = sum[k]((X[i,k] - max[l](X[i,l])) ** 2)"
        " - sum[k](X[i,k] - max[l](X[i,l])) ** 2 / |k|",  # it varies with a result
        "V[i] = sum[j, k](D[i,j,k] ** 2) - sum[j, k](D[i,j,k]) ** 2",  # two indices
        # A mean of other weights, and one that varies with an index of the nest.
        "V = sum[i](sum[k]((X[i,k] - sum[j](sum[l](D[j,l])) / |i| / |k|) ** 2))",
        f"V = sum[i](sum[k](relu(X[i,k] - {mean()})))",
        "input N[i,k]: int\nV[i] = sum[k](N[i,k] ** 2) - sum[k](N[i,k]) ** 2 / |k|",  # exact
        f"V[i] = {exact()}",  # done
        "V[i] = sum[k](X[i,k]) / sum[k](1.0)",  # no powers about it
        f"V[i] = sum[k](X[i,k] - {mean()})",
        f"V[i] = sum[k](relu(X[i,k] - {mean()}))",
        "V[i] = sum[k]((X[i,k] - M[i]) ** 2)",
        "V[i] = sum[k]((X[i,k] - sum[l](X[i,l])) ** 2)",  # no mean
        "V[i] = sum[k]((X[i,k] - sum[l](Y[l]) / sum[l](1.0)) ** 2)",  # of something else
        # An element whose weight is not 0 would have to be the first for all rows.
        f"V[i] = sum[k](S[i,k]**2 * (Y[k] - {mean('Y[k]', 'S[i,k]**2')}) ** 2)",
        # Weights that their mean does not have, two series, and sums over a part as elements.
        f"index i < 4\nV[i] = sum[k]({W} * B[k] * (Y[k] - {mean('Y[k]', W)}) ** 2)",
        f"index i < 4\nV[i] = sum[k]({W} * (Y[k] - {mean('Y[k]', W)})"
        f" * (B[k] - {mean('B[k]', W)}))",
        f"index i < 4\nV[i] = sum[k]({W} * (sum[j if j < 3](Z[k,j])"
        f" - {mean('sum[j if j < 3](Z[k,j])', W)}) ** 2)",
        f"V[i] = SE[k]((Y[k] - {softmean('Y[l]', 'X[i,l]')}) ** 2, D[i,k]).v",
        # The weight of the first element may be 0.
        f"V[i] = SE[k]((Z[k,k] - {softmean('Z[l,l]', 'X[i,l] + Y[l]')}) ** 2, X[i,k] + Y[k]).v",
    ],
    "centre_exponents": [
        *(  # of one addend, whichever comes first
            f"H[i] = max[k](S[i,k] + R[i,k]) - {softmean(x, 'S[i,k] + R[i,k]', 'k')}"
            for x in ("S[i,k]", "R[i,k]")
        ),
        f"H[i] = {softmean('S[i,k]', 'S[i,k]', 'k')}",  # no maximum stands outside
        # It would stay where the other condition fails, whatever is added.
        f"H[i] = max[k](S[i,k]) - (i < 2) * {softmean('S[i,k]', 'S[i,k]', 'k')}"
        " + log(SE[k](1, S[i,k]).v)",
        "H[i] = max[k](S[i,k]) * B[i] - sum[k](S[i,k])",  # it would not leave
        f"H[i] = max[j, k](D[i,j,k]) - {softmean('S[i,k]', 'S[i,k]', 'k')}",
        f"H[i] = max[k if k < i](S[i,k]) - {softmean('S[i,k]', 'S[i,k]', 'k')}",
        f"H[i] = max[k](R[i,k]) - {softmean('S[i,k]', 'S[i,k]', 'k')}",
        f"H[i] = max[k](S[i,k] + Y[k]) - {softmean('S[i,k]', 'S[i,k]', 'k')}",  # a part
        "H[i] = max[k](S[i,k]) + SE[k](S[i,k], S[i,k]).v",  # it would not leave
        f"H[i] = max[k](0.0) - {softmean('X[i,k] + 2', 'S[i,k]', 'k')}",
        f"H[i] = max[k](S[i,k]) - {softmean('S[i,k] ** 2', 'S[i,k]', 'k')}",
        f"H[i] = max[k](inf * S[i,k]) - {softmean('inf * S[i,k]', 'S[i,k]', 'k')}",
        # exponents of which none is all that is in the maximum
        "H[i] = max[k](S[i,k] + Y[k]) - max[k](S[i,k] + B[i] * Z[k,k])",
        "H[i] = max[k](S[i,k] + Y[k]) - max[k if k < i](S[i,k])",
        "H[i] = max[k](S[i,k] + Y[k])",
    ],
    "anchor_powers": [
        *(
            f"index e < 2, i < 4\nV[i,e] = {text}"
            for text in (
                f"sum[k]({W} * (X[k,e] - {mean('Y[k,e]', W)}) ** 2)",  # another mean
                f"sum[k]({W} * (X[k,e] - {mean('X[k,e]', 'exp(R[i,k])')}) ** 2)",
                f"sum[k]({W} * (X[k,e] - {mean('X[k,e]', W, ' if l < i')}) ** 2)",
                f"sum[k]({W} * (X[k,e] - 2 * {mean('X[k,e]', W)}) ** 2)",
                f"sum[k]({W} * abs(X[k,e] - {mean('X[k,e]', W)}))",  # no power
                f"sum[k](R[i,k] * (X[k,e] - {mean('X[k,e]', 'R[i,k]')}) ** 2)",  # may be 0
                f"sum[k]((X[k,e] - {mean('X[k,e]')}) ** 2) + R[i,e]",  # varies as elements do
            )
        ),
        f"V[i] = SE[k]((Y[k] - {softmean('Y[l]', 'X[i,l]')}) ** 2, X[i,k]).v",  # scaled already
    ],
}


ORIGIN = "where(0 < |k|, sum[l](Y[l] * Z[0,l]), 0)"
FROM_ORIGIN = f"(sum[l](Y[l] * Z[k,l]) - {ORIGIN})"
OF_X = softmean("X[i,k]", "X[i,k]", "k")
BESIDE = "X[i,k] + Y[k] - max[l](X[i,l])"
NEAR = "SE[k](X[i,k] - max[l](X[i,l]), X[i,k]).v"
NONE = "(not 0 < SE[k](1, X[i,k]).v)"
MEAN_OF_D, MEAN_OF_X = mean("D[i,k]"), mean()
VARIANTS = {
    "centre_powers": [
        f"sum[k]((X[i,k] - {mean()}) ** 2) => {exact()}",
        f"sum[k](X[i,k] ** 2) - sum[k](X[i,k]) ** 2 / |k| => {exact()}",
        # weights, a filter, and a factor that is multiplied out
        "B[i] * sum[k if k < i](Y[k] ** 2 * X[i,k] ** 2)"
        " - B[i] * sum[k if k < i](Y[k] ** 2 * X[i,k]) ** 2 / sum[k if k < i](Y[k] ** 2)"
        f" => {exact(weight='Y[k] ** 2', where=' if k < i', scale='B[i] * ')}",
        # in SE
        f"SE[k](X[i,k] ** 2, D[i,k]).v / SE[k](1, D[i,k]).v"
        f" - ({softmean('X[i,k]', 'D[i,k]', 'k')}) ** 2"
        f" => SE[k]((X[i,k] - {softmean('X[i,l]', 'D[i,l]')}) ** 2, D[i,k]).v / SE[k](1, D[i,k]).v"
        f" - SE[k](X[i,k] - {softmean('X[i,l]', 'D[i,l]')}, D[i,k]).v ** 2"
        " / SE[k](1, D[i,k]).v ** 2",
        # of two series
        f"sum[k]((X[i,k] - {mean()}) * (D[i,k] - {MEAN_OF_D}))"
        f" => sum[k]((X[i,k] - {mean()}) * (D[i,k] - {MEAN_OF_D}))"
        f" - sum[k](X[i,k] - {mean()}) * sum[k](D[i,k] - {MEAN_OF_D}) / sum[k](1.0)",
        # about an element, which is the same for all means
        f"Y[i] + sum[k if k <= i]((Y[k] - {mean('Y[k]', where=' if k <= i')}) ** 2)"
        " => Y[i] + sum[k if k <= i]((Y[k] - where(0 < |k|, Y[0], 0)) ** 2)"
        " - sum[k if k <= i](Y[k] - where(0 < |k|, Y[0], 0)) ** 2 / sum[k if k <= i](1.0)",
        # as the first element is another one for each mean
        f"Y[i] + sum[k if i <= k]((Y[k] - {mean('Y[k]', where=' if i <= k')}) ** 2)"
        f" => Y[i] + {exact('Y[k]', where=' if i <= k')}",
        # elements that are sums, so that the anchor is a result
        f"sum[k](Z[k,k]) + sum[k]({W} * (sum[l](Y[l] * Z[k,l]) - "
        "sum[m](exp(i * m) * sum[l](Y[l] * Z[m,l])) / sum[m](exp(i * m))) ** 2)"
        f" => sum[k](Z[k,k]) + sum[k]({W} * {FROM_ORIGIN} ** 2)"
        f" - sum[k]({W} * {FROM_ORIGIN}) ** 2 / sum[k]({W})",
        # of exponents all are finite that vary with no other index
        f"SE[k]((Y[k] - {softmean('Y[l]', 'X[i,l] + l')}) ** 2, X[i,k] + k).v"
        " => SE[k]((Y[k] - where(0 < |k|, Y[0], 0)) ** 2, X[i,k] + k).v"
        " - SE[k](Y[k] - where(0 < |k|, Y[0], 0), X[i,k] + k).v ** 2"
        " / SE[k](1, X[i,k] + k).v",
    ],
    "centre_exponents": [
        f"B[i] * max[k](X[i,k]) - B[i] * {OF_X}"
        f" => B[i] * max[k](X[i,k]) * {NONE} - B[i] * {NEAR} / SE[k](1, X[i,k]).v",
        # of plain sums
        "max[k](X[i,k]) * |k| - sum[k](X[i,k]) => where(-inf < max[k](X[i,k]) * |k|, 0, -inf)"
        " - sum[k](X[i,k] - max[l](X[i,l]))",
        "(max[k](X[i,k]) + log(SE[k](1, X[i,k]).v)) * sum[k](D[i,k]) - sum[k](D[i,k] * X[i,k])"
        " => log(SE[k](1, X[i,k]).v) * sum[k](D[i,k])"
        " - sum[k](D[i,k] * (X[i,k] - max[l](X[i,l])))",
        # beside a logarithm that is -inf of nothing
        f"max[k](X[i,k]) - {OF_X} + log(SE[k](1, X[i,k]).v)"
        f" => log(SE[k](1, X[i,k]).v) - {NEAR} / SE[k](1, X[i,k]).v",
        # under a condition
        f"(0 < SE[k](1, X[i,k]).v) * (Y[0] + max[k](X[i,k])) - {OF_X}"
        f" => (0 < SE[k](1, X[i,k]).v) * Y[0] - {NEAR} / SE[k](1, X[i,k]).v",
        # of a product, and where a condition holds
        "(i < 2) * max[k](X[i,k]) * SE[k](Y[k], X[i,k]).v / SE[k](1, X[i,k]).v"
        " - (i < 2) * SE[k](Y[k] * X[i,k], X[i,k]).v / SE[k](1, X[i,k]).v"
        " => -(i < 2) * SE[k](Y[k] * (X[i,k] - max[l](X[i,l])), X[i,k]).v / SE[k](1, X[i,k]).v",
        # in the exponents of other weights
        "exp(max[k](X[i,k] + Y[k]) - max[k](X[i,k])) * SE[k](D[i,k], X[i,k] + Y[k]).v"
        f" => exp(max[k]({BESIDE})) * SE[k](D[i,k], {BESIDE}).v",
        # of numbers that are exponentials
        "max[k](exp(X[i,k])) - exp(max[k](X[i,k] + exp(X[i,k])) - max[k](exp(X[i,k])))"
        " * SE[k](1, X[i,k] + exp(X[i,k])).v / SE[k](1, exp(X[i,k])).v"
        " => -SE[k](exp(X[i,k]) - max[l](exp(X[i,l])), exp(X[i,k])).v / SE[k](1, exp(X[i,k])).v",
    ],
}
FAR = "(Y[k] - stop(Y[0]))"
VARIANTS["anchor_powers"] = [
    # filtered
    f"sum[k if k <= i]({W} * (Y[k] - {mean('Y[k]', W, ' if k <= i')}) ** 2)"
    f" => sum[k if k <= i]({W} * {FAR} ** 2)"
    f" - sum[k if k <= i]({W} * {FAR}) ** 2 / sum[k if k <= i]({W})",
    # a third power
    f"sum[k]({W} * (Y[k] - {mean('Y[k]', W)}) ** 3)"
    f" => sum[k]({W} * {FAR} ** 3) + 2 * sum[k]({W} * {FAR}) ** 3 / sum[k]({W}) ** 2"
    f" - 3 * sum[k]({W} * {FAR}) * sum[k]({W} * {FAR} ** 2) / sum[k]({W})",
    # and the total
    f"2 * sum[k]({W} * Y[k]) + sum[k]({W} * (Y[k] - {mean('Y[k]', W)}) ** 2)"
    f" => 2 * sum[k]({W} * {FAR}) + 2 * stop(Y[0]) * sum[k]({W}) + sum[k]({W} * {FAR} ** 2)"
    f" - sum[k]({W} * {FAR}) ** 2 / sum[k]({W})",
]


test_example, test_near_miss, test_variant = rule_tests(
    RULES.values(), NEAR_MISSES, VARIANTS, start=f"{INPUTS}\nA[i] = B[i] + ", rtol=1e-11
)


def test_over_nothing() -> None:
    """The first row of a causal filter without its diagonal is empty: its sum is 0."""
    centre = mean("X[k,e]", "exp(S[i,k])", " if k < i")
    text = f"index e < 2\nO[i,e] = sum[k if k < i](exp(S[i,k]) * (X[k,e] - {centre}) ** 2)"
    rewriter = apply_only(RULES["anchor_powers"], text)
    found = values(rewriter.program, inputs_of(rewriter.start))
    assert rewriter.steps and not found[0].any() and np.isfinite(found).all()
