"""Gradients are the slopes of the oracle at special points: masks, empty rows, ties, zeros."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import monocomp as mc
from monocomp.gradients.laws import FOLDS
from monocomp.language.checker import check
from monocomp.translation.translator import translate
from tests.agreement import check_slopes, slopes
from tests.gradients.test_derived import tuple_of

INF = np.inf
MASKS = np.array([[-INF] * 4, [-INF, -INF, 0, 0], [0, 0, 0, -INF], [0, 0, 0, 0]])
# Of A[i,k], V[k], M[i,k] with masks of -inf, N[i]: int.
SPECIAL = {
    "logits of -20": "O[i] = sum[k](exp(A[i,k] + M[i,k] - 20) * V[k]) / "
    "sum[k](exp(A[i,k] + M[i,k] - 20))",
    "logits of 20": "O[i] = where(any[k](M[i,k] == 0),"
    " logsumexp[k](A[i,k] * V[k] + M[i,k] + 20), 0)",
    "means of nothing": "O[i] = V[0] * sqrt(mean[k if k < N[i]](A[i,k] ** 2))"
    " + mean[k if k < N[i]](V[k]) * sum[k if k != i](softmax[k if k != i](A[i,k]) ** 2)",
    "weights 0": "O[i] = sum[k](relu(A[i,k] - 9) * V[k]) + sum[k](0 * A[i,k] * V[k] ** 2)",
    "a minimum of nothing": "O[i] = min[k if k < N[i]](A[i,k]) / (1 + sum[k](V[k] ** 2))",
    "roots": "O[i] = sum[k](where(A[i,k] > 1, sqrt(A[i,k] - 1) * V[k], 0))"
    " + sum[k if V[k] > 0](log(V[k]) / V[k])",
    "temperature, masked by an addend": "P[i,k] = softmax[k](V[0] * (A[i,k] + M[i,k]))\n"
    "O[i] = -sum[k](P[i,k] * log(P[i,k]))",
    "entropy of nothing, squared": "H[i] = -sum[k](softmax[k if k < N[i]](A[i,k])"
    " * log(softmax[k if k < N[i]](A[i,k])))\nO[i] = V[0] / (1 + H[i] ** 2)",
    "powers of 0": "O[i] = sum[k](relu(A[i,k]) ** abs(V[k]) + maximum(A[i,k], 0) ** (V[k] ** 2))"
    " + relu(A[i,0]) ** N[i]",
    "masks that are scaled": "O[i] = sum[k](softmax[k]((A[i,k] + M[i,k]) * abs(V[0])) * V[k])"
    " + sum[k](softmax[k]((A[i,k] + M[i,k]) / exp(V[0])) * V[k])"
    " + sum[k](softmax[k]((A[i,k] + M[i,k]) * A[i,k] ** 2) * V[k])",
    "weights over what others have": "index j < |i|\nP[i,k] = softmax[k](A[i,k] + M[i,k])\n"
    "O[i] = sum[k](P[i,k] / sum[j](P[j,k]) * V[k])",
    "gates of which sums are subtracted": "index j < |k|\nc[i,k] = sum[..k](M[i,k])\n"
    "O[i,k] = sum[j if j <= k](exp(c[i,k] - c[i,j]) * A[i,j] * V[j])",
    "ties": "W[i] = max[k](N[i] * V[k] * 0) + A[i,0]\nO[i] = W[i] * max[k](abs(V[k]) * 0 + 1)",
}


# The laws of folds that are differentiated (`monocomp.gradients.laws.FOLDS`), on a grid of ties,
# zeros and rows of nothing.
AFFINE = "monoid Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')\n"
SPREAD = "monoid Spread(lo, hi) = unit (inf, -inf), combine (minimum(lo, lo'), maximum(hi, hi'))\n"
OF_FOLDS = {
    "sum": ["O[i] = sum[k if A[i,k] > 0](A[i,k] ** 2)"],
    "max": ["O[i] = max[k](A[i,k])", "O[i] = max[k if A[i,k] != 1](A[i,k])"],
    "min": ["O[i] = min[k](A[i,k])"],
    "prod": ["O[i] = prod[k](A[i,k])", "O[i] = prod[k if A[i,k] < 2](A[i,k])"],
    "fold_at": ["O[i,k] = sum[..k](A[i,k] ** 2)", "O[i,k] = max[..k](A[i,k])"],
    "selection": ["index r < 2\nO[i,r] = top[k -> r](A[i,k])"],
    "field": [
        f"{AFFINE}O[i] = Affine[k](A[i,k], A[i,k] - 1).u",
        f"{SPREAD}O[i] = Spread[k](A[i,k], A[i,k]).hi - Spread[k](A[i,k], 2 * A[i,k]).lo",
    ],
}


def test_laws_of_folds_have_grids() -> None:
    assert OF_FOLDS.keys() == FOLDS.keys()


@pytest.mark.parametrize("text", [text for texts in OF_FOLDS.values() for text in texts])
def test_laws_of_folds(text: str) -> None:
    points = np.array(list(itertools.product([-1.0, 0.0, 1.0], repeat=3)))
    check_slopes(text, {"A": points})


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", SPECIAL)
def test_special_points(name: str) -> None:
    declared = {"A": "A[i,k]", "V": "V[k]", "M": "M[i,k]", "N": "N[i]: int"}
    generator = np.random.default_rng(1)
    given = {
        "A": generator.normal(size=(4, 4)),
        "V": generator.normal(size=4),
        "M": MASKS,
        "N": np.array([0, 1, 3, 4]),
    }
    used = [n for n in declared if f"{n}[" in SPECIAL[name].replace("min[", "").replace("max[", "")]
    text = "\n".join([*(f"input {declared[n]}" for n in used), SPECIAL[name]])
    check_slopes(text, {n: given[n] for n in used})


WIDTHS = {
    f"a table in a window of {w}": (
        "param w: int = 6\n"
        "O[q,e] = softmax[k if abs(q - k) < w](S[q,k] + R[q - k + w - 1]) * V[k,e]",
        {"S": (33, 33), "R": (2 * w - 1,), "V": (33, 2)},
        {"w": w},
    )
    for w in (1, 6)
}
SHAPED = {
    **WIDTHS,
    "a head of size 0": (
        "O[q,e] = softmax[k if k <= q](Q[q,d] * K[k,d]) * V[k,e]",
        {"Q": (5, 0), "K": (5, 0), "V": (5, 3)},
        {},
    ),
    "weights that are visibly positive": (
        "O[b] = Welford[k](sigmoid(X[b]), A[b,k], 0).m2",
        {"X": (2,), "A": (2, 4)},
        {},
    ),
}


@pytest.mark.parametrize("name", SHAPED)
def test_shapes(name: str) -> None:
    text, shapes, params = SHAPED[name]
    generator = np.random.default_rng(0)
    inputs = {n: generator.normal(size=shape) for n, shape in shapes.items()}
    check_slopes(text, inputs, params=params, elementwise="w" not in params)


LONG = {
    "sparsemax": mc.library.load("sparsemax"),
    "a user's monoid": "monoid Scaled(m, s) = unit (-inf, 0), combine (maximum(m, m'),"
    " exp(m - where(maximum(m, m') == -inf, 0, maximum(m, m'))) * s"
    " + exp(m' - where(maximum(m, m') == -inf, 0, maximum(m, m'))) * s')\n"
    "O[q] = Scaled[k](S[q,k] + M[q,k], 1).m + log(Scaled[k](S[q,k] + M[q,k], 1).s)",
}


@pytest.mark.parametrize("name", LONG)
def test_long_text(name: str) -> None:
    """An adjoint that several operands get has a name, and a saved value its own; the text parses
    to the same equations."""
    found = mc.grad(LONG[name])
    text = str(found)
    assert ("M_6" if found.saved else "G[") in text and len(text.split()) < 600
    again = translate(check(text))
    assert [e.body for e in again.equations] == [e.body for e in found.equations.equations]


def test_saved_values_of_definitions_that_stay() -> None:
    """A value is given with what it is made of, and comes after that in the text."""
    lines = (f"X{n + 1}[i] = logsumexp[j](X{n}[j] + S[i,j])" for n in range(8))
    text = "\n".join(["input X0[i], S[i,j]", *lines, "return X8"])
    generator = np.random.default_rng(0)
    assert "\nX7[i] = " in str(mc.grad(text))
    check_slopes(text, {"X0": generator.normal(size=3), "S": generator.normal(size=(3, 3))})


@pytest.mark.parametrize("base", ["X[i]", "relu(X[i])", "abs(X[i])", "maximum(X[i], 0)"])
def test_powers_at_0(base: str) -> None:
    """0 ** p is 0 for all p > 0, and x ** 0 is 1 for all x."""
    powers = np.array([0.0, 1.5, 2.0])
    text = f"input X[i], P[p]\nO[i,p] = ({base}) ** P[p]"
    found = mc.grad(text, ["X", "P"])
    below = [] if base == "X[i]" else [-1.0]
    inputs = {"X": np.array([*below, 0.0, 2.0]), "P": powers}
    given = {**inputs, "dO": np.ones((len(inputs["X"]), len(powers)))}
    of_bases, of_powers = tuple_of(mc.evaluate(str(found), given))
    same = slopes(text, inputs, {"O": given["dO"]}, ["X", "P"])
    np.testing.assert_allclose(of_powers, np.log(2) * 2**powers)
    is_known = np.isfinite(same["X"])
    np.testing.assert_allclose(of_bases[is_known], same["X"][is_known], rtol=1e-6, atol=1e-6)


def test_factors_that_underflow_are_not_divided_by() -> None:
    """The sum of Y is not O over a softplus, which is 0 for large negative sums."""
    text = "input X[i], Y[i]\nO = softplus(sum[i](X[i] * Y[i])) * sum[i](Y[i])"
    given = {"X": np.array([30.0, 50.0]), "Y": np.array([-4e3, -4e3]), "dO": np.ones(())}
    for slope in tuple_of(mc.evaluate(str(mc.grad(text)), given)):
        np.testing.assert_array_equal(slope, 0)
