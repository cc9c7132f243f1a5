"""Extents of 0: results and gradients of programs, each index in turn without values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import monocomp as mc
from monocomp import library
from monocomp.checking.sizes import free_extents
from monocomp.checking.steps import small_params
from monocomp.translation.translator import translate
from tests.backends.running import exact, make_inputs, program_of
from tests.gradients import twin

# A group of no heads reads at 0, where nothing is.
UNDEFINED = {("gqa", "g")}
NAMES = ("causal", "gqa", "layer_norm")


def cases() -> list[Any]:
    """Each program with each of its indices."""
    found = []
    for name in NAMES:
        declared = translate(program_of(library.load(name))).declared
        indices = [e.lstrip(".") for e in free_extents(declared)]
        found += [(name, i) for i in indices if (name, i) not in UNDEFINED]
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "index"), cases())
def test_an_index_without_values(name: str, index: str) -> None:
    text = library.load(name)
    program = translate(program_of(text))
    params = small_params(program.declared)
    inputs = make_inputs(text, {index: 0}, torch.float64, params=params)
    wanted = exact(text, inputs, **params)
    floats = [n for n, t in inputs.items() if t.is_floating_point()]
    leaves = {n: t.clone().requires_grad_(n in floats) for n, t in inputs.items()}
    found = mc.compile(text, backend="torch")(**leaves, **params)
    results = found if isinstance(found, tuple) else (found,)
    slopes = {}
    for output, result, want in zip(program.outputs, results, wanted, strict=True):
        torch.testing.assert_close(result, want, equal_nan=True)
        slopes[output.name] = np.ones(want.shape)
    loss = torch.stack([r.sum() for r in results]).sum()
    gradients = torch.autograd.grad(loss, [leaves[n] for n in floats], allow_unused=True)
    arrays = {n: t.numpy() for n, t in inputs.items()}
    _, theirs = twin.gradients(text, arrays, slopes, floats, params)
    for n, gradient in zip(floats, gradients, strict=True):
        ours = torch.zeros_like(inputs[n]) if gradient is None else gradient
        torch.testing.assert_close(ours, torch.from_numpy(theirs[n]))
