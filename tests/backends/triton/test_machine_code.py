"""Machine code is that of the kernels that a GPU of the target runs."""

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
