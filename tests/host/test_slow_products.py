"""Notes on products that are slow by the dtypes of their operands."""

from __future__ import annotations

import warnings

import pytest
import torch

import monocomp as mc
from tests.backends import interpreted

ALIBI = mc.library.load("alibi")


def test_a_wide_operand_is_named_with_numbers() -> None:
    kernel = mc.compile(ALIBI)
    (note,) = kernel.notes(dtype={"V": "fp32"})
    assert note.message == (
        "V is float32 beside Q, K in bfloat16, and products with it run in float32: at most 67 "
        "TFLOP/s on an H100 or H200, where 989 are possible"
    )
    assert note.help == "give V.to(torch.bfloat16)"
    assert str(kernel.notes(dtype={"V": "fp32"})).splitlines()[1].strip().startswith("input Q")
    (fast,) = mc.compile(ALIBI, tf32=True).notes(dtype={"K": "fp32", "V": "fp32"})
    assert fast.message.startswith("K, V are float32 beside Q in bfloat16, and products with them")
    assert "at most 494 TFLOP/s" in fast.message


@pytest.mark.parametrize(
    "dtype", ["bf16", "fp32", {"slope": "fp32"}, dict.fromkeys(("Q", "K", "V"), "fp32")]
)
def test_side_inputs_and_equal_dtypes_have_no_note(dtype: object) -> None:
    assert not mc.compile(ALIBI).notes(dtype=dtype)  # type: ignore[arg-type]


def test_floats_of_8_bits_have_no_note() -> None:
    cache = mc.compile(mc.library.load("fp8_cache"))
    assert not cache.notes(dtype={"K": "e4m3", "V": "e4m3", "sk": "fp32"})


def _warnings_of_calls() -> list[str]:
    """What calls warn of, forward and backward, the same twice, and with another dtype."""
    kernel = mc.compile(mc.library.load("attention"), backend="triton")
    x = torch.randn(1, 1, 16, 16, requires_grad=True)
    narrow = x.bfloat16()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):
            kernel(Q=narrow, K=narrow, V=x).sum().backward(retain_graph=True)
        kernel(Q=narrow, K=narrow, V=narrow)
        kernel(Q=x, K=x, V=x)
        kernel(Q=narrow, K=x, V=narrow)
    return [str(w.message).splitlines()[0] for w in told if w.category is mc.MonocompWarning]


def test_a_call_warns_once() -> None:
    told = interpreted.call(_warnings_of_calls)
    starts = [line.partition(",")[0] for line in told]
    assert starts == ["V is float32 beside Q", "K is float32 beside Q"]
