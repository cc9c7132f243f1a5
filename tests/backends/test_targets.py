"""GPUs by the names that people call them: one kind, one source."""

from __future__ import annotations

import pytest

import monocomp as mc
from monocomp import library
from monocomp.backends.targets import canonical


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
