"""Derivations and emitted sources as they are read, word for word."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import monocomp as mc
from monocomp import library
from monocomp.kernel import Kernel

NAMES = ["attention", "causal", "sliding_window"]


def kernel(name: str) -> Kernel:
    return mc.compile(library.load(name), name=name)


@pytest.mark.parametrize("name", NAMES)
def test_derivation(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}.derivation.txt", f"{kernel(name).derivation}\n")


def test_source(golden: Callable[[str, str], None]) -> None:
    source = kernel("causal").source("triton", target="cuda:90", dtype="bf16")
    golden("causal.cuda90.bf16.py", source)


def test_minimal_source(golden: Callable[[str, str], None]) -> None:
    head = {"d": 128, "e": 128}
    source = kernel("attention").source(target="cuda:90", dtype="bf16", extents=head, minimal=True)
    golden("attention.minimal.py", source)


@pytest.mark.parametrize("name", NAMES)
def test_both_are_the_same_every_time(name: str) -> None:
    """Neither depends on what was compiled before."""
    first, second = kernel(name), kernel(name)
    assert str(first.derivation) == str(second.derivation)
    for dtype in ("bf16", "fp32"):
        sources = {k.source("triton", target="cuda:90", dtype=dtype) for k in (first, second)}
        assert len(sources) == 1
