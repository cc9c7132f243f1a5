"""Masks of large finite numbers on a GPU, beside eager torch: `tests/large_masks.py` says which."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from tests.gpu.comparing import BITS16, DEVICE, DTYPES, ON_GPU
from tests.large_masks import CASES, CONSTANTS, check, check_masks, inputs

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::RuntimeWarning")]  # of NumPy
SIZES = ((200, 64), (37, 128)) if ON_GPU else ((13, 8),)


@pytest.mark.parametrize("name", CASES)
def test_masks(name: str) -> None:
    case = CASES[name]
    kernel = case.kernel("triton")
    dtypes = [d for d in DTYPES if ON_GPU or d.itemsize > 2 or d == BITS16]
    for size, d in SIZES:
        check_masks(case, kernel, size, d, dtypes, DEVICE)


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants(name: str) -> None:
    case = CONSTANTS[name]
    kernel = case.kernel("triton")
    for size, d in SIZES:
        draw = partial(inputs, case, size, d, torch.float32, DEVICE)
        check(case, kernel, draw, torch.float32)
