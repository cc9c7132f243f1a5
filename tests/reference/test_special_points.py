"""Where side conditions matter: 0, -inf, empty rows, weights of 0, what guards exclude.

What must hold is in `monocomp/reference/semantics.md`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest
import torch

import monocomp as mc
from monocomp.language.checker import check
from monocomp.reference.oracle import evaluate, specified
from tests.agreement import agrees, as_list, check_gradients
from tests.backends import interpreted
from tests.reference.special_inputs import ELSEWHERE
from tests.reference.special_points import (
    DIFFERENTIATED,
    GIVEN,
    INPUTS,
    MASKS,
    NAN,
    PROGRAMS,
    SOFTMAX,
    softmax,
)

INF = math.inf

# What each backend computes in, and the relative and the absolute error that it may have there.
DTYPES = {"torch": torch.float64, "triton": torch.float32}
TOLERANCES = {"torch": (1e-9, 1e-12), "triton": (1e-4, 1e-6)}  # of exponents of 900

# Moments at a large mean, in float32 beside the plain two-pass computation.
MEAN = "m[i] = mean[k](A[i,k])\n"
MOMENTS = {
    "third": f"{MEAN}O[i] = mean[k]((A[i,k] - m[i]) ** 3)",
    "fourth": f"{MEAN}O[i] = mean[k]((A[i,k] - m[i]) ** 4)",
    "covariance": f"{MEAN}l[i] = mean[k](B[i,k])\n"
    "O[i] = mean[k]((A[i,k] - m[i]) * (B[i,k] - l[i]))",
    "half centred": f"{MEAN}O[i] = mean[k]((A[i,k] - m[i]) * B[i,k])",
    "weighted": "t = sum[k](W[k])\nm[i] = sum[k](W[k] * A[i,k]) / t\n"
    "O[i] = sum[k](W[k] * (A[i,k] - m[i]) ** 2) / t",
    "weighted by exponentials": "P[i,k] = softmax[k](B[i,k])\nm[i] = P[i,k] * A[i,k]\n"
    "O[i] = P[i,k] * (A[i,k] - m[i]) ** 2",
    "filtered": "m[i] = mean[k if W[k] > 0](A[i,k])\nO[i] = var[k if W[k] > 0](A[i,k])",
    "filtered by data": "O[i] = mean[k if W[k] > B[i,k] - B[i,1]]("
    "(A[i,k] - mean[k if W[k] > B[i,k] - B[i,1]](A[i,k])) ** 4)",
    "all but one": "O[i] = mean[k if k != i]((A[i,k] - mean[k if k != i](A[i,k])) ** 3)",
    "of a part": f"{MEAN}O[i] = sum[k if W[k] > 0]((A[i,k] - m[i]) ** 2)",
    "of products": "O[i] = var[k](A[i,k] * W[k])",
    "over two indices": "O = var[i, k](A[i,k])",
    "over a triangle": "O = var[i, k if k <= i](A[i,k])",
    "of a sum over three indices": "O = var[i, j, k](A[i,k] + B[j,k])",
    "of means": "O = var[i](mean[k](A[i,k]))",
    "in a mean": "O[i] = mean[j](var[k](A[i,k] + B[j,k]))",
    "in a mean, of products": "m[i,j] = mean[k](A[i,k] * B[j,1])\n"
    "O[i] = mean[j](mean[k]((A[i,k] * B[j,1] - m[i,j]) ** 2))",
    "three series": f"{MEAN}O[i] = mean[k]((A[i,k] - m[i]) ** 2 * (B[i,k] - mean[k](B[i,k])))",
    "from another mean": f"{MEAN}O[i] = mean[k]((B[i,k] - m[i]) ** 2)",
    "from the largest": "O[i] = mean[k]((A[i,k] - max[k](A[i,k])) ** 2)",
    "shifted": "O[i] = var[k](A[i,k] - mean[k](A[i,k] ** 2))",
    "shifted by another mean": "O[i] = var[k](A[i,k] - mean[k](B[i,k]))",
    "shifted by others": "O[i] = mean[k]((A[i,k] - B[i,0] - mean[k](A[i,k] - B[i,0])) ** 3)",
}


def compared(
    text: str,
    inputs: Mapping[str, Any],
    dtype: torch.dtype = torch.float64,
    backend: str = "torch",
) -> Any:
    """The oracle's outputs, as `dtype` holds them, and those of the compiled kernel, as lists."""
    tensors = {name: torch.from_numpy(np.array(a)) for name, a in inputs.items()}
    tensors = {n: t.to(dtype) if t.is_floating_point() else t for n, t in tensors.items()}
    with np.errstate(over="ignore"):
        wanted = [torch.from_numpy(np.asarray(x, float)) for x in specified(text, tensors)]
    if backend == "triton":
        found = interpreted.call(outputs, text, tensors, backend)
    else:
        found = outputs(text, tensors, backend)
    return [x.to(dtype).double().numpy() for x in wanted], as_list(found)


def outputs(text: str, tensors: Mapping[str, torch.Tensor], backend: str) -> Any:
    """What a backend computes."""
    return mc.compile(text, backend=backend)(**tensors)


def on_backends(texts: Iterable[str]) -> list[Any]:
    """Each on torch, and one in ten on Triton, which is slower, in `make test`."""
    cases = []
    for n, (text, values) in enumerate([*((text, INPUTS) for text in texts), *ELSEWHERE]):
        slow = [pytest.mark.slow] if n % 10 else []
        cases.append(pytest.param(text, values, "torch"))
        cases.append(pytest.param(text, values, "triton", marks=slow))
    return cases


def inputs_of(text: str, values: Mapping[str, Any] = INPUTS) -> dict[str, Any]:
    """Return the inputs of a program in their kinds; given ones by their definition."""
    kinds = {"int": np.int64, "float": np.float64, "bool": np.bool_}
    inputs: dict[str, Any] = {}
    for name, at in check(text).inputs.items():
        if name in values:
            inputs[name] = np.asarray(values[name], kinds[at.kind])
        else:
            defined = re.sub(r"^input (.* = )", r"\1", text, flags=re.MULTILINE)
            inputs[name] = evaluate(f"{defined.split('return')[0]}return {name}", inputs)
    return inputs


FORMS = [
    softmax(form, mask)
    for form in (*SOFTMAX, *GIVEN)
    for mask in MASKS
    if form in SOFTMAX or mask != "large"  # by what is given, which is rounded
]


@pytest.mark.parametrize(("text", "values", "backend"), on_backends([*FORMS, *PROGRAMS]))
def test_programs(text: str, values: Mapping[str, Any], backend: str) -> None:
    rtol, atol = TOLERANCES[backend]
    inputs = inputs_of(text, values)
    for wanted, found in zip(*compared(text, inputs, DTYPES[backend], backend), strict=True):
        assert not np.isnan(wanted).all()
        right = agrees(wanted, found, rtol, atol)
        np.testing.assert_array_equal(right, True, f"{wanted}\n{found}")


@pytest.mark.parametrize("text", DIFFERENTIATED, ids=repr)
def test_first_derivatives(text: str) -> None:
    """Beside differences of the oracle, on both sides, in its long numbers; 0 by what is masked."""
    kernel = mc.compile(text, backend="torch")
    assert check_gradients(check(text), kernel, inputs_of(text), note=text, elementwise=True)


@pytest.mark.parametrize("fold", ["softmax", "log_softmax"])
def test_a_mask_of_all_elements_takes_no_digits_along(fold: str) -> None:
    """As from a padded row, whose mask is no -inf: its addends have no digits in common."""
    inputs = {"S": np.array([[40.0, -90.0, 1.25], [1.5, 2.0, -1.0]]), "M": np.full(3, -(2.0**20))}
    wanted, found = compared(f"O[q,k] = {fold}[k](S[q,k] + M[k])", inputs, torch.float32)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("name", MOMENTS)
@pytest.mark.parametrize("mean", [0.0, 1e4])
def test_moments_stay_centred(name: str, mean: float) -> None:
    check_moment(name, mean, "torch")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", MOMENTS)
def test_moments_stay_centred_on_triton(name: str) -> None:
    check_moment(name, 1e4, "triton")


def check_moment(name: str, mean: float, backend: str) -> None:
    """At most 100 times the error of two passes over the data, and of its rounding to float32."""
    rng = np.random.default_rng(3)
    inputs: dict[str, Any] = {
        "A": (mean + rng.exponential(size=(3, 257))).astype(np.float32),
        "B": (mean + rng.standard_normal((3, 257))).astype(np.float32),
        "W": rng.choice([0.0, 1.0, 2.0], size=257).astype(np.float32),
    }
    inputs["W"][0], inputs["A"][:, 0] = 0.0, 1e6  # the first element counts for nothing
    if name not in ("weighted", "filtered"):
        inputs["A"][:, 0] = mean
    text = MOMENTS[name]
    inputs = {n: inputs[n] for n in check(text).inputs}
    wanted, found = compared(text, inputs, torch.float32, backend)
    single = {n: a.astype(np.float32) for n, a in inputs.items()}
    last = specified(text, single, dtype=np.float32)[-1]
    error = np.abs(found[-1] - wanted[-1]).max()
    assert error <= 100 * np.abs(last - wanted[-1]).max() + 1e-5 * np.abs(wanted[-1]).max()


def test_the_first_element_is_looked_for_within_limits() -> None:
    """A limit guards the reads of the conditions after it, also where an anchor is looked for."""
    text = "O[i] = var[k if k + 1 < |k| and S[i,k + 1] <= 0](V[k])"
    inputs = {"S": np.array([[1.0, 2.0, 3.0], [1.0, -2.0, 3.0]]), "V": np.array([1e4, 2e4, 1e6])}
    kernel = mc.compile(text, backend="torch", checked=True)
    found = kernel(**{name: torch.from_numpy(a) for name, a in inputs.items()})
    np.testing.assert_allclose(found, evaluate(text, inputs))


@pytest.mark.parametrize("backend", DTYPES)
@pytest.mark.parametrize(
    "text",
    [
        "P[q,k] = log_softmax[k](S[q,k])\nO[q,k] = where(P[q,k] >= max[j](P[q,j]), 1, 7)",
        "P[q,k] = log(softmax[k](S[q,k] + M[q,k]))\nO[q,k] = where(P[q,k] == max[j](P[q,j]), 1, 7)",
    ],
)
def test_an_element_equals_the_largest_of_all_if_it_is_that(text: str, backend: str) -> None:
    """Rounding does not tell them apart: what they have in common leaves the comparison."""
    rng = np.random.default_rng(0)
    logits = 3 * rng.standard_normal((40, 9)).astype(np.float32)
    logits[0], logits[1] = 1, -INF
    masks = np.where(rng.random((40, 9)) < 0.4, -INF, 0)
    inputs = {name: {"S": logits, "M": masks}[name] for name in check(text).inputs}
    (wanted,), (found,) = compared(text, inputs, DTYPES[backend], backend)
    np.testing.assert_array_equal(found, wanted)


def test_the_scales_of_a_quotient_leave_a_comparison_together() -> None:
    text = """
        m = max[k if k < |k| - 1](x[k])
        O = sum[k if k < |k| - 1](k * exp(x[k] - m)) / sum[k](exp(x[k] - m)) > 0
    """
    assert mc.compile(text, backend="torch")(x=torch.tensor([9900.0, 10000.0, 10010.0])).item()


def test_what_a_filter_leaves_out_may_be_no_number_though_it_is_asked_about() -> None:
    """A value in its own weight is asked whether it is 0, and read for all elements."""
    text = "O[l] = sum[k if F[k] > 0](exp(S[k] * B[l]) * S[k])"
    inputs = {"S": [1.0, NAN, -INF, NAN, 2.0], "B": [2.0, 0.5], "F": [1.0, 0.0, 0.0, 0.0, 1.0]}
    wanted = [sum(math.exp(s * b) * s for s in (1.0, 2.0)) for b in inputs["B"]]
    assert evaluate(text, inputs) == pytest.approx(wanted)
    tensors = {n: torch.tensor(x) for n, x in inputs.items()}
    found = interpreted.call(outputs, text, tensors, "triton")
    assert found.tolist() == pytest.approx(wanted, rel=1e-4)
