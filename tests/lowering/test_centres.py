"""Sums about centres that their own loop computes, or that earlier loops have left."""

from __future__ import annotations

import pytest

import monocomp as mc
from monocomp.checking.random_inputs import random_inputs
from monocomp.language.checker import check
from monocomp.tile.verifier import verify_all
from monocomp.translation.translator import translate
from tests.agreement import check_outputs


@pytest.mark.parametrize(
    "text",
    [
        "O = var[i](X[i] + sum[i](cos(X[i] - sum[i](X[i])) * X[i]))",
        "O = var[i](X[i] - max[i](X[i] - mean[i](X[i])))",
        "O = mean[i](X[i] * (X[i] - mean[i](X[i] / (1 + sum[i](X[i] ** 2)))) ** 2)",
        # a list of the largest, which no sum is about
        "index r < 2\nO = max[r](top[i -> r](X[i])) * sum[i](exp(X[i] - mean[i](X[i])))",
    ],
)
def test_a_centre_of_several_aggregates(text: str) -> None:
    """Some of which hold others: of a loop before, they are known as they are."""
    kernel = mc.compile(text, backend="torch")
    verify_all(kernel.plan().kernels)
    inputs = random_inputs(translate(check(text)), {"i": 37}, dtype="float64")
    check_outputs(check(text), kernel, inputs, note="")
