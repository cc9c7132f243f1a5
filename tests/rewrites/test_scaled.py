"""Sums of exponentials get their exponent split off, and no exponential can overflow."""

from __future__ import annotations

import numpy as np
import pytest

from monocomp.derivation.rule_sets import derive
from monocomp.reference.oracle import evaluate
from monocomp.rewrites.scaled import lifting
from tests.rewrites.rules import (
    apply_only,
    equations,
    inputs_of,
    rule_tests,
    same_bodies,
    values,
)

(LIFT,) = lifting.rules


PART, WHOLE = "SE[k if k < i](V[k], S[i,k]).v", "SE[k](1, S[i,k]).v"
SCALE = "exp(max[k if k < i](S[i,k]) - max[k](S[i,k]))"
# A share of a given sum, where a filter says that it is of one of its elements.
GIVEN = "input S[i,k], L[i] = log(sum[k if k <= i](exp(S[i,k])))\n"
SHARE = "exp(S[i,k] - L[i])"
MAX = "max[k](S[i,k])"
PLAIN = [
    # Sigmoids are small, which counts only beside what is large.
    "Y[i] = exp(X[i]) + sigmoid(Z[i])",
    "Y[i] = X[i] * sigmoid(Z[i])",
    "Y[i] = exp(X[i] - maximum(X[i], A[i])) * sigmoid(Z[i])",  # at most 0
    "Y[i] = exp(X[i]) * sigmoid(abs(Z[i]))",
    "Y[i] = exp(sigmoid(Z[i]))",
    f"{GIVEN}Y[k] = sum[i if k <= i]({SHARE} * sigmoid(Z[i]))",
    f"{GIVEN}O[k] = sum[i if k <= i]({SHARE} * sum[l](sigmoid(R[i,l])))",
    "O[i] = sum[k](sigmoid(S[i,k]) * V[k])",
    "O[i] = sum[k](sigmoid(S[i,k]) * sigmoid(C[k]))",
    "O[i] = sum[k](sigmoid(S[i,k])) ** 2",
    "O[i] = sum[k](sigmoid(S[i,k])) * SE[k](1, S[i,k]).v ** 2",
    "O[i] = sum[k](sigmoid(S[i,k])) + 1 / SE[k](1, S[i,k]).v",
    "O[i] = sum[k](sigmoid(S[i,k])) / Z[i]",
    "O[i] = sum[k](sigmoid(S[i,k])) / tanh(SE[k](1, S[i,k]).v)",
    "O[i] = tanh(sum[k](sigmoid(S[i,k])))",
    "O[i] = exp(X[i] - maximum(X[i], A[i])) * sum[k](sigmoid(S[i,k]))",
    "O[i] = exp(X[i]) + sum[k](sigmoid(S[i,k]))",
    "O[i] = log(max[k](sigmoid(S[i,k])))",
    # Powers
    "Y[i] = (exp(X[i]) * Z[i]) ** 0.01",  # which may be less than 0
    "Y[i] = (exp(X[i]) * Z[i] ** 2) ** A[i]",  # no number
    "Y[i] = (Z[i] ** 2) ** 0.01",  # no exponential
    # Choices
    "Y[i] = where(X[i] > 0, exp(A[i]), -inf) * exp(B[i])",  # 0 times infinity, where B masks
    "Y[i] = where(X[i] > 0, exp(A[i]), -inf) * exp(max[k](S[i,k]))",
    "Y[i] = where(X[i] > 0, exp(A[i]), -inf) * exp(-min[k](S[i,k]))",
    "Y[i] = where(X[i] > 0, A[i], -inf) * exp(-max[k](S[i,k]))",  # one exponential
    "Y[i] = where(X[i] > 0, exp(A[i]), -inf) + exp(-max[k](S[i,k]))",
    # Sums of exponentials that are at most 1 by their form, of none, or of those that do not vary
    "O[i] = sum[k](exp((S[i,k] - max[j](S[i,j])) / B[i] ** 2) * V[k])",
    "O[i] = sum[k](exp(S[i,k] - maximum(S[i,k], 0)) * V[k])",
    "O[i] = sum[k](V[k] / (exp(-maximum(S[i,k], 0)) + exp(S[i,k] - maximum(S[i,k], 0))))",
    "O[i] = sum[k](tanh(S[i,k]) * V[k])",
    "O[i] = 1 / sum[k](tanh(S[i,k]))",
    "O[i] = exp(X[i]) * sum[k](tanh(S[i,k]))",
    "O[i] = log(sum[k](sigmoid(X[i]) * Y[k]))",
    "A[i] = sum[k](exp(M[i]) * V[k] + V[k])",
    # Other folds
    "O[i] = prod[k](exp(S[i,k]))",
    "O[i] = sum[j, k](exp(S[i,j,k]))",  # two indices, not nested yet
    "O[i] = log(sum[j, k](sigmoid(D[i,j,k])))",
    "A[i] = sum[k, l](exp(M[i]) * V[k] * V[l])",
    "O[i] = SE[k](V[k], S[i,k]).v",
    # Extrema
    "M[i] = max[k](exp(S[i,k]))",
    "A[i] = max[k](exp(M[i]) * V[k])",
    "M[i] = max[k](exp(max[j](D[i,j,k])))",  # monotone
    "M[i] = max[k](exp(max[j](D[i,j,k])) * V[k])",  # as large, however it is written
    # Sums that nothing is taken of, beside nothing that is scaled
    "Y[i] = exp(A[i]) + exp(B[i])",
    f"Z[i] = exp({MAX}) * X[i] + exp(C[i])",
    f"Z[i] = maximum(0, exp({MAX}) * X[i])",
    "Y[i] = (exp(A[i]) + exp(B[i])) ** 2",
    "Y[i] = tanh(exp(A[i]) + exp(B[i]))",
    "Y[i] = (exp(A[i]) + exp(B[i])) * X[i] ** 2",
    "Y[i] = log(A[i] + B[i])",
    "Y[i] = log(tanh(exp(A[i])))",
    "Y[i] = exp(C[i]) * tanh(exp(A[i]))",
    "Y[i] = maximum(1 / X[i], exp(A[i]) + exp(B[i]))",
    "Y[i] = log(exp(A[i] - maximum(A[i], B[i])) + exp(B[i] - maximum(A[i], B[i])))",
    "Y[i] = log(exp(minimum(A[i], B[i]) - A[i]) + X[i])",
    "Y[i] = maximum(exp(A[i]) * X[i], exp(B[i])) * exp(C[i])",  # the larger may be negative
    "Y[i] = minimum(exp(A[i]) * X[i] ** 2, exp(B[i])) * exp(C[i])",
    # Comparisons
    "Y[i] = A[i] < B[i]",
    "Y[i] = exp(A[i]) * X[i] < B[i]",  # a plain number
    "Y[i] = N[i] < M[i]\ninput N[i]: int, M[i]: int",
    "O[i] = X[i] * abs(i - argmax[k](exp(S[i,k])))",  # an integer has no exponent
    # Frames that are not shared
    f"O[i] = {SCALE} * {PART}",
    f"O[i] = {SCALE} * {PART} + 1 / {WHOLE}",
    f"O[i] = {SCALE} * {PART} * {WHOLE}",
    f"O[i] = exp(max[k](S[i,k]) - max[k if k < i](S[i,k])) * {WHOLE} / {PART}",  # larger
    f"O[i] = exp(max[k if k < i](S[i,k]) - max[k if k < 3](S[i,k])) * {PART}"
    " / SE[k if k < 3](1, S[i,k]).v",
    f"O[i] = exp(max[k if k < i](S[i,k]) - max[k](R[i,k])) * {PART}"
    " / SE[k](1, R[i,k]).v",  # another exponent
    f"O[i] = {PART} / {PART.replace('V[k]', '1')}",
    f"O[i] = {SCALE} * {PART} / SE[k](1, R[i,k]).v",
    f"O[i] = {PART} / SE[j](1, R[i,j]).v",
    "O[i] = SE[k if k < i](V[k], C[i]).v / SE[j](W[j], C[i]).v",  # other indices
    f"O[i] = {SCALE} * {PART} * {WHOLE} ** 2",
    f"O[i] = {SCALE} * (B[i] + {PART}) / {WHOLE}",
    f"O[i] = {SCALE} * ({PART} + {PART.replace('S', 'R').replace('RE', 'SE')})"
    f" / {WHOLE} / SE[k](1, R[i,k]).v",  # each in one addend
    # A small part that is not scaled by its frame, or that a large number multiplies.
    f"O[i] = {PART} / {WHOLE}",
    f"O[i] = log({PART} / {WHOLE})",
    f"O[i] = exp(A[i]) * {SCALE} * {PART} / {WHOLE}",
    "O[i] = SE[j, k if k < j](V[k], D[i,j,k]).v / SE[j, k](1, D[i,j,k]).v",  # not nested yet
    f"O[i] = {PART} / SE[j, k](1, D[i,j,k]).v",
    *(f"O[i] = {SCALE} * ({n} * {PART} - 8 * B[i]) / {WHOLE}" for n in (3, 5)),  # or first
]


SUM = "sum[k if k < i](X[i,k])"
OVER, THERE = "max[k](S[i,k] / X[k])", "(-inf < B[i]) * "
LARGER = "maximum(S[i,k], 0)"
OF_SUM, OF_BOTH = f"maximum(C[i], where({SUM} != 0, {MAX}, -inf))", f"maximum(C[i], {MAX})"
COMPARED = "maximum(where(X[i] != 0, A[i], -inf), where(Z[i] != 0, B[i], -inf))"
CUT = f"relu(exp(S[i,k] - {LARGER}) - exp(-{LARGER}))"
VARIANTS = [
    # a number that is not small has no exponent
    "O[i] = sum[k](exp(S[i,k]) * sigmoid(abs(R[i,k])))"
    " => O[i] = exp(max[k](S[i,k])) * SE[k](sigmoid(abs(R[i,k])), S[i,k]).v",
    *(  # what may be 0 at an element, whatever its exponent, leaves it out of the maximum
        f"O[i] = sum[k](exp(S[i,k]) * {w})"
        f" => O[i] = exp(max[k{condition}](S[i,k])) * SE[k{condition}]({w}, S[i,k]).v"
        for w, condition in (
            ("B[k]", " if B[k] != 0"),
            ("sum[j](D[i,j,k])", " if sum[j](D[i,j,k]) != 0"),
            ("X[i]", ""),
            ("B[k] ** -1", ""),
            ("(k < i)", ""),
            ("B[k] ** 2", " if B[k] != 0"),
            ("sum[j if D[i,j,k] > 0](1.0)", " if sum[j if D[i,j,k] > 0](1.0) != 0"),
            ("tanh(X[i,k] * exp(A[i]))", " if tanh(X[i,k] * exp(A[i])) != 0"),
        )
    ),
    # nor does an exponent count where it is cut off
    "O[i] = sum[k](relu(exp(S[i,k]) - 1))"
    f" => O[i] = exp(max[k if {CUT} != 0]({LARGER})) * SE[k if {CUT} != 0]({CUT}, {LARGER}).v",
    # or where values cancel
    "O[i] = sum[k](exp(max[j](D[i,j,k])) * SE[j](B[j], D[i,j,k]).v)"
    " => O[i] = exp(max[k if SE[j](B[j], D[i,j,k]).v != 0](max[j](D[i,j,k])))"
    " * SE[k if SE[j](B[j], D[i,j,k]).v != 0](SE[j](B[j], D[i,j,k]).v, max[j](D[i,j,k])).v",
    # but not where it is 0 only because its own exponent is -inf
    "O[i] = sum[k](exp(max[j](D[i,j,k])) * SE[j](1, D[i,j,k]).v)"
    " => O[i] = exp(max[k](max[j](D[i,j,k]))) * SE[k](SE[j](1, D[i,j,k]).v, max[j](D[i,j,k])).v",
    *(  # whichever of two sigmoids comes first
        f"Y[i] = exp(X[i]) * sigmoid(abs({a}[i])) * sigmoid({b}[i])"
        f" => Y[i] = exp(X[i] + minimum({b}[i], 0)) * sigmoid(abs({a}[i])) * sigmoid(abs({b}[i]))"
        for a, b in ("AZ", "ZA")
    ),
    *(  # beside what may be no share
        f"{GIVEN}Y[k] = {fold}({SHARE} * sigmoid(Z[i]) + Z[i])"
        f" => {GIVEN}Y[k] = {fold}("
        "exp(S[i,k] + minimum(Z[i], 0) - L[i]) * sigmoid(abs(Z[i])) + Z[i])"
        for fold in ("max[i if k < i + 2]",)
    ),
    f"{GIVEN}Y[i,k] = {SHARE} * sigmoid(Z[i])"
    f" => {GIVEN}Y[i,k] = exp(S[i,k] + minimum(Z[i], 0) - L[i]) * sigmoid(abs(Z[i]))",
    # what the divisor's filter says is not said again
    "O[i] = exp(max[k if k < i and k < 3](S[i,k]) - max[k if k < 3](S[i,k]))"
    " * SE[k if k < i and k < 3](V[k], S[i,k]).v / SE[k if k < 3](1, S[i,k]).v"
    " => O[i] = SE[k if k < 3]((k < i) * V[k], S[i,k]).v / SE[k if k < 3](1, S[i,k]).v",
    # a factor of every addend
    f"O[i] = {SCALE} * (A[i] * {PART} - {PART}) / {WHOLE}"
    " => O[i] = (A[i] - 1) * SE[k]((k < i) * V[k], S[i,k]).v / SE[k](1, S[i,k]).v",
    # over nothing a sum says that the addend is not there
    f"Z[i] = log(exp({MAX}) * {SUM} + exp(C[i]))"
    f" => Z[i] = log(exp({MAX} - {OF_SUM}) * {SUM} + exp(C[i] - {OF_SUM})) + {OF_SUM}",
    *(  # but not as the divisor of what is there: that is infinite
        f"Z[i] = log(exp({MAX}) * {x} + exp(C[i]))"
        f" => Z[i] = log(exp({MAX} - {OF_BOTH}) * {x} + exp(C[i] - {OF_BOTH})) + {OF_BOTH}"
        for x in ("B[i] ** -1", f"{SUM} ** 2", f"{SUM} ** -1")
    ),
    *(  # a mantissa beside an exponent that is not inf where that is of nothing
        f"Z[i] = log({bracket}exp({x}) * {WHOLE} + exp(C[i]))"
        f" => Z[i] = log({bracket}exp({x} - {m}) * {WHOLE} + exp(C[i] - {m})) + {m}"
        for bracket, x, m in (
            ("", f"A[i] + {MAX}", f"maximum(C[i], A[i] + {MAX})"),
            ("", OVER, f"maximum(C[i], {OVER})"),
            (THERE, f"{MAX} - B[i]", f"maximum(C[i], where(-inf < B[i], {MAX} - B[i], -inf))"),
        )
    ),
    # a sum that has an element
    f"Z[i] = log(exp({MAX}) + sum[k](V[k]))"
    f" => Z[i] = log(exp({MAX} - maximum({MAX}, 0)) + exp(-maximum({MAX}, 0)) * sum[k](V[k]))"
    f" + maximum({MAX}, 0)",
    # what is cut off
    f"Z[i] = log(relu(exp({MAX}) - exp(C[i])))"
    f" => Z[i] = log(relu(exp({MAX} - {OF_BOTH}) - exp(C[i] - {OF_BOTH}))) + {OF_BOTH}",
    # what is the same for all elements leaves them
    "A[i] = sum[k](exp(M[i]) * X[i,k]) => A[i] = exp(M[i]) * sum[k](X[i,k])",
    "A[i] = sum[k](exp(S[i,k] - M[i]) * V[k])"
    " => A[i] = (M[i] < inf) * exp(max[k if V[k] != 0](S[i,k]) - M[i])"
    " * SE[k if V[k] != 0](V[k], S[i,k]).v",
    "Y[i] = (exp(X[i]) * Z[i] ** 2) ** 0.01 => Y[i] = exp(0.01 * X[i]) * (Z[i] ** 2) ** 0.01",
    "O[i] = log(sum[k](sigmoid(S[i,k])))"
    " => O[i] = log(SE[k](sigmoid(abs(S[i,k])), minimum(S[i,k], 0)).v)"
    " + max[k](minimum(S[i,k], 0))",
    # a sum over part of a domain, divided by the sum over all of it
    f"O[i] = {SCALE} * {PART} / {WHOLE} => O[i] = SE[k]((k < i) * V[k], S[i,k]).v / {WHOLE}",
    # 0 times what is unspecified is 0: over nothing any factor may stand beside it
    f"O[i] = log(X[i]) * {SCALE} * {PART} / {WHOLE}"
    f" => O[i] = log(X[i]) * SE[k]((k < i) * V[k], S[i,k]).v / {WHOLE}",
    f"O[i] = {SCALE} * {PART.replace('V[k]', '1 / V[k]')} / {WHOLE}"
    f" => O[i] = SE[k]((k < i) / V[k], S[i,k]).v / {WHOLE}",
    # a power of a sum
    "O[i] = sum[k]((exp(S[i,k]) - V[k]) ** 2)"
    f" => O[i] = exp(2 * max[k]({LARGER}))"
    f" * SE[k]((exp(S[i,k] - {LARGER}) - exp(-{LARGER}) * V[k]) ** 2, 2 * {LARGER}).v",
    # where the larger exponent counts, a sum is there, or the other one
    f"Y[i] = log({SUM} * exp(A[i]) + exp(B[i]))"
    f" => Y[i] = log({SUM} * exp(A[i] - maximum(B[i], where({SUM} != 0, A[i], -inf)))"
    f" + exp(B[i] - maximum(B[i], where({SUM} != 0, A[i], -inf))))"
    f" + maximum(B[i], where({SUM} != 0, A[i], -inf))",
    "Y[i] = exp(A[i]) * X[i] < exp(B[i]) * Z[i]"
    f" => Y[i] = exp(A[i] - ({COMPARED})) * X[i] < exp(B[i] - ({COMPARED})) * Z[i]",
    # beside 0: an exponential may be rounded to 0, and is 0 where its exponent is -inf
    "Y[i] = 0 < exp(A[i]) * X[i] => Y[i] = 0 < X[i] and -inf < A[i]",
    "Y[i] = 0 < exp(A[i] + B[i]) / X[i] => Y[i] = 0 < 1 / X[i] and -inf < A[i] and -inf < B[i]",
    "Y[i] = exp(A[i]) * X[i] < 0 => Y[i] = X[i] < 0 and -inf < A[i]",
    # two equal exponents, and none of 0
    f"Z[i] = log(exp({MAX}) * X[i] ** 2 + exp({MAX}) * Y[i] ** 2)"
    f" => Z[i] = log(X[i] ** 2 + Y[i] ** 2) + {MAX}",
    f"Z[i] = log(maximum(exp({MAX}) * X[i] ** 2, 0)) => Z[i] = log(maximum(X[i] ** 2, 0)) + {MAX}",
    # beside a number
    f"Y[i] = where(X[i] > 0, exp(A[i]), -inf) * exp(-{MAX} - 1)"
    f" => Y[i] = where(X[i] > 0, exp(A[i] - {MAX}), -inf) * exp(-1)",
]


test_example, test_near_miss, test_variant = rule_tests(
    lifting.rules, {LIFT.name: PLAIN}, {LIFT.name: VARIANTS}
)


SCALED = [
    # Not at most 0: nothing is known where the maximum is 0.
    "O[i] = sum[k](exp(S[i,k] - inf * maximum(R[i,k] + 9, 0)))",
    # Products and sums of what is at most 0, or at most a maximum, need not be.
    "O[i] = sum[k](exp(prod[j](T[i,k,j] - max[l](T[i,k,l]))) * V[k])",
    "O[i] = sum[k](exp(sum[j](T[i,k,j]) - max[j](T[i,k,j])) * V[k])",
    "O[i] = 1 / sum[k](sigmoid(S[i,k]))",
    "O[i] = sqrt(sum[k](sigmoid(S[i,k])))",
    "O[i] = sum[k](sigmoid(S[i,k]) * V[k]) / SE[k](1, S[i,k]).v",
    "O[i] = sum[k](sigmoid(S[i,k]) * V[k]) / (1 + SE[k](1, S[i,k]).v)",
    "O[i] = exp(X[i]) * sum[k](sigmoid(S[i,k]) * V[k])",
    "Y[i] = sqrt(exp(A[i]) + exp(B[i]))",
    "Y[i] = log(exp(-abs(A[i])) + exp(-abs(B[i])))",  # both may be far below 0
    "Y[i] = 1 / (exp(A[i]) + exp(B[i]))",
    "Y[i] = (exp(A[i]) + exp(B[i])) * exp(C[i])",
    "Y[i] = maximum(exp(A[i]) * X[i] ** 2, exp(B[i])) * exp(C[i])",
    "Y[i] = (exp(A[i]) + exp(B[i])) / (1 + X[i] ** 2)",
    "Y[i] = (exp(A[i]) - exp(B[i])) ** 2 / (1 + X[i] ** 2)",
    "Y[i] = sqrt(exp(A[i]) + exp(B[i])) * exp(C[i])",
    "Y[i] = (exp(A[i]) - exp(B[i])) ** 3 * sigmoid(X[i]) ** 2",
    "Y[i] = exp(C[i]) / maximum(exp(A[i]) * X[i] ** 2, exp(B[i]))",
    "A[i] = sum[k if V[k] < i](exp(M[i]))",
    f"{GIVEN}Y[k] = sum[i if k <= i]({SHARE} * sigmoid(Z[i]) + {SHARE} * B[i])",
    f"{GIVEN}Y[k] = sum[i]({SHARE} * sigmoid(Z[i]) + Z[i])",  # which may be no share
]


JOINED = [
    "Z[i] = 1 / (exp(max[k](S[i,k])) + X[i])",
    "Z[i,k] = 1 / (exp(S[i,k] - max[l](X[l])) + X[i])",  # the maximum of something else
    "Z[i,k] = 1 / (exp(S[i,k] - min[l](S[i,l])) + X[i])",
    "Z[i,k] = 1 / (exp(max[l](S[i,l]) - S[i,k]) + X[i])",
    "Z[i,k] = 1 / (exp(2 * S[i,k] - max[l](S[i,l])) + X[i])",
    "Z[i,k] = 1 / (exp(C[i] * S[i,k] - C[i] * max[l](S[i,l])) + X[i])",  # it may be negative
    "Z[i,k] = 1 / (V[k]"
    " + exp(where(k < i, C[i] - maximum(max[l](S[i,l]), where(k < i, X[i], -inf)), -inf)))",
    # A position that the maximum leaves out may lie above it.
    "Z[i,k] = 1 / (exp(S[i,k] - max[l if l <= i](S[i,l])) + X[i])",
    "Z[i,k] = 1 / (exp(where(k < i, S[i,k] - max[l if k < l](S[i,l]), -inf)) + X[i] * S[i,k])",
    "Z[i,k] = 1 / (exp(C[i] - maximum(max[l](S[i,l]), where(k < i, C[i], -inf))) + V[k])",
    *(  # what a maximum of 0 would scale is not lifted again and again
        f"O[i] = {x}[k](sum[j](exp(B[i,j]) * W[j]) * exp(S[i,k] - max[k](S[i,k])))"
        for x in ("max", "min")
    ),
]


@pytest.mark.parametrize("text", [*SCALED, *JOINED])
def test_scaled(text: str) -> None:
    """What needs a frame has the value that it had; a sum is joined once."""
    rewriter = apply_only(LIFT, text)
    assert len(rewriter.steps) == 1 or (rewriter.steps and text in SCALED)
    inputs = inputs_of(rewriter.start)
    expected = evaluate(rewriter.start.text(), inputs)
    finite = np.isfinite(expected)
    assert finite.any()
    result = values(rewriter.program, inputs)
    np.testing.assert_allclose(result[finite], expected[finite], rtol=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        "O[i] = sum[k](V[k] * sigmoid(S[i,k] + X[i]))",
        "O[i] = sum[k](V[k] * sigmoid(S[i,k] + X[i]) ** 2)",
        "O[i] = sum[k](sigmoid(S[i,k] + X[i]) * sigmoid(-S[i,k] - X[i]))",
        "O[i] = sum[k if k < i](V[k] * sigmoid(S[i,k] + X[i] + C[i]))",
        "O[i] = sum[k](V[k] * sigmoid(S[i,k] - log(|k|)))",
        "O[i] = sum[k](V[k] * sigmoid(log(|k|) - S[i,k]))",
        "O[i] = sum[k](V[k] * sigmoid(S[i,k] - log(|k|)) ** 2)",
        "O[i] = sum[k](V[k] * sigmoid(S[i,k] + X[i] - log(|k|)))",
        "O[i] = sum[k](sigmoid(S[i,k] - log(|k|)) * sigmoid(log(|k|) - S[i,k]))",
        "O[i] = sum[k](V[k] * softplus(sum[e](D[i,k,e]) - log(2)))",
    ],
)
def test_a_sigmoid_about_its_row_stands_alone(text: str) -> None:
    """What has left the sum, a row's exponential or a number, meets its inverse there."""
    program = equations(text)
    assert same_bodies(derive(program).program, program)


@pytest.mark.parametrize("exponent", ["R[i,k] - L[i]", "-sum[d](Q[i,d] * K[k,d])"])
def test_what_divides_by_no_weight_of_nothing_is_in_the_frame(exponent: str) -> None:
    """Which needs no pass that looks for zeros: what varies is not inf."""
    program = derive(equations(f"O[i] = sum[k](exp({exponent}) * (exp(S[i,k]) - 1) ** 2)")).program
    assert "SE[k](" in program.text() and "!=" not in program.text()
