"""Every program of the library as an operator of torch: the program, the one that also returns what
it saves, and its backward, by `torch.library.opcheck`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import monocomp as mc
from monocomp import library
from monocomp.calls.operators import Operator, operator
from monocomp.checking.random_inputs import random_inputs
from monocomp.checking.steps import small_params
from tests.gradients.test_gradcheck import some

CHEAP = ("learned_sink", "softmax")


def operators(name: str) -> Iterator[tuple[Operator, tuple[Any, ...]]]:
    """The three, with arguments that require gradients."""
    kernel = mc.compile(library.load(name), backend="torch", name=name)
    params = small_params(kernel.declared)
    drawn = random_inputs(kernel.equations, {}, dtype="float64", params=params)
    inputs = {n: torch.as_tensor(x) for n, x in drawn.items()}
    floats = tuple(n for n, x in inputs.items() if x.is_floating_point())
    forward = kernel.calls.forward(floats)
    results = dict(zip(forward.outputs, forward.calls.call({**inputs, **params}), strict=True))
    of_floats = [o for o in forward.results if results[o].is_floating_point()]
    backward = forward.backward(dict.fromkeys(floats, torch.float64), tuple(of_floats))
    cotangents = {backward.cotangents[o]: torch.ones_like(results[o]) for o in of_floats}
    given = {**inputs, **params, **results, **cotangents}
    for value in given.values():
        if isinstance(value, Tensor) and value.is_floating_point():
            value.requires_grad_()
    for calls in (kernel.calls, forward.calls, backward.calls):
        found = operator(calls, {})
        yield found, tuple(given.get(n) for n in found.names)


@pytest.mark.parametrize("name", some(library.names(), CHEAP))
def test_operators_of_the_library(name: str) -> None:
    """Their schemas, gradients' registration and fake tensors; `test_torch` traces some, too."""
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    for found, arguments in operators(name):
        torch.library.opcheck(found.overload, arguments, test_utils=checks)
