"""Kernels in Gluon on the GPU, beside eager torch."""

from __future__ import annotations

import pytest
import torch

from tests.backends.library_cases import CASES
from tests.backends.running import exact
from tests.backends.test_gluon import SUPPORTED, launch_of
from tests.backends.tolerances import BESIDE_EAGER

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9,
        reason="needs a Hopper GPU",
    ),
]


@pytest.mark.parametrize("name", [n for n in SUPPORTED if n != "dropout"])
@pytest.mark.parametrize(("q", "k"), [(256, 384), (301, 257), (129, 640)])
def test_library(name: str, q: int, k: int) -> None:
    """Lengths that blocks divide and others, in bf16."""
    case = CASES[name]
    inputs = case.inputs(case.sizes(q, k, 64, 64, 2), torch.bfloat16)
    on_gpu = {n: t.cuda() for n, t in inputs.items()}
    launch = launch_of(name, on_gpu)
    launch()
    found = [launch.tensors[o].cpu() for o in launch.tensors if o not in inputs]
    wanted = exact(case.text, inputs, **case.params)
    eager = [t.cpu() for t in case.in_eager_torch(on_gpu)]
    for result, right, usual in zip(found, wanted, eager, strict=True):
        BESIDE_EAGER[torch.bfloat16].check(result, right, usual)
