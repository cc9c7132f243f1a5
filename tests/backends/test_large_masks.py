"""Masks of large finite numbers, over keys and whole rows, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
import torch

from tests.backends import interpreted
from tests.large_masks import CASES, CONSTANTS, check, check_masks, inputs
from tests.marks import slow_unless

INTERPRETED = ("causal", "grouped heads", "learned sinks")
ALWAYS = ("grouped heads", "saved logits")  # "plain" with a save


@pytest.mark.parametrize("name", slow_unless(ALWAYS.__contains__, CASES))
def test_torch(name: str) -> None:
    case = CASES[name]
    kernel = case.kernel("torch")
    check_masks(case, kernel, 13, 8, (torch.float32,), values=("1e4", "1e9", "float32"))
    check_masks(case, kernel, 13, 8, (torch.bfloat16,), values=("1e9",))
    check_masks(case, kernel, 13, 8, (torch.float16,), values=("float16",))


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants(name: str) -> None:
    case = CONSTANTS[name]
    draw = partial(inputs, case, 13, 8, torch.float32, "cpu")
    check(case, case.kernel("torch"), draw, torch.float32)


@pytest.mark.parametrize("name", slow_unless(lambda name: name != "learned sinks", INTERPRETED))
def test_triton(name: str) -> None:
    interpreted.call(check_triton, name, (torch.float16,), ("1e9", "float16"))


def check_triton(name: str, dtypes: Sequence[torch.dtype], values: Sequence[str]) -> None:
    """Check a case in the process that interprets."""
    case = CASES[name]
    check_masks(case, case.kernel("triton"), 13, 8, dtypes, values=values)
