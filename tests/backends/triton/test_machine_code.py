"""Machine code is that of the kernels that a GPU of the target runs; GPUs by the names that people
call them."""

from __future__ import annotations

import pytest

import monocomp as mc
from monocomp import library
from monocomp.backends.targets import canonical
from monocomp.backends.triton.launch import load
from monocomp.backends.triton.machine_code import recorded
from tests.backends.compiling import without_elements

SIZES = dict.fromkeys("bhqkde", 64)


@pytest.mark.parametrize("is_minimal", [False, True])
@pytest.mark.parametrize(
    ("target", "dtype", "is_fast"),
    [
        ("h100", "bf16", True),
        ("a100", "fp16", True),
        ("h100", "fp32", False),
        ("mi300x", "bf16", False),
    ],
)
def test_functions_are_those_of_the_target(
    target: str, dtype: str, is_fast: bool, is_minimal: bool
) -> None:
    """The accuracy of tanh is decided by the host function, or in a file for known sizes."""
    kernel = mc.compile(library.load("softcap"), name="kernel")
    made = kernel.source(
        target=target, dtype=dtype, minimal=is_minimal, extents=SIZES if is_minimal else None
    )
    inputs = without_elements(kernel, SIZES)
    if dtype == "fp32":
        inputs = {name: tensor.float() for name, tensor in inputs.items()}
    (launch,) = recorded(load(made), "kernel", inputs, canonical(target))
    decided = f"tanh(scale * s, {is_fast})" in made if is_minimal else launch.kwargs["FAST"]
    assert decided is (is_minimal or is_fast)


# --- names of GPUs -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "spellings"),
    [
        ("cuda:80", "a100 A100 sm_80 cuda:8.0"),
        ("cuda:90", "h100 H200 sm_90 sm90 sm_90a compute_90 9.0 cuda:90 H100-SXM5-80GB"),
        ("cuda:100", "b200 sm_100 10.0"),
        ("hip:gfx942", "mi300 MI300X gfx942 rocm:gfx942 hip:gfx942"),
    ],
)
def test_spellings(target: str, spellings: str) -> None:
    assert {canonical(word) for word in spellings.split()} == {target}


def test_names_that_devices_give() -> None:
    assert canonical("NVIDIA H100 80GB HBM3") == "cuda:90"
    assert canonical("NVIDIA GeForce RTX 4090") == "cuda:89"
    assert canonical("AMD Instinct MI300X") == "hip:gfx942"


def test_the_source_is_that_of_the_kind() -> None:
    kernel = mc.compile(library.load("softmax"))
    assert kernel.source("triton", target="h100") == kernel.source("triton", target="cuda:90")
