"""Gradients of the library at the sizes that `benchmarks.cpu` times, beside eager torch in float64.

What a tape computes depends on sizes: which products are cut, shared, or of one operation. The
formulas of eager torch are compared with the oracle in `test_library`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

import monocomp as mc
from benchmarks.cpu import SIZES, inputs_at
from tests.backends.library_cases import CASES
from tests.backends.tolerances import Bound

# A gradient adds up more than a result, in an order of its own.
GRADIENTS = Bound(4.0, 2e-6)


def gradients(
    compute: Callable[[Mapping[str, Tensor]], Any], inputs: Mapping[str, Tensor], dtype: torch.dtype
) -> tuple[Tensor, ...]:
    """The gradients of results, with the same weights in all dtypes, by all floats."""
    floats = {n: t.detach().to(dtype) for n, t in inputs.items() if t.dtype == torch.float32}
    for t in floats.values():
        t.requires_grad_()
    made = compute({**inputs, **floats})
    results = [x for x in (made if isinstance(made, tuple) else (made,)) if x.is_floating_point()]
    random = torch.Generator().manual_seed(0)
    weights = [torch.randn(x.shape, generator=random).to(dtype) for x in results]
    return torch.autograd.grad(results, [*floats.values()], weights, materialize_grads=True)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CASES)
def test_gradients_at_benchmarked_sizes(name: str, size: str) -> None:
    """Compare a first call, and those that repeat it."""
    case = CASES[name]
    inputs = inputs_at(case, size)
    eager, wanted = (
        gradients(case.in_eager_torch, inputs, dtype) for dtype in (torch.float32, torch.float64)
    )
    kernel = mc.compile(case.text, backend="torch")
    for _ in range(3):
        found = gradients(lambda x: kernel(**x, **case.params), inputs, torch.float32)
        for ours, exact, usual in zip(found, wanted, eager, strict=True):
            GRADIENTS.check(ours, exact, usual)
