"""Derivations and emitted sources as they are read, word for word."""

from __future__ import annotations

from collections.abc import Callable

import monocomp as mc
from monocomp import library
from monocomp.kernel import Kernel


def kernel(name: str) -> Kernel:
    return mc.compile(library.load(name), name=name)


def test_derivation(golden: Callable[[str, str], None]) -> None:
    golden("causal.derivation.txt", f"{kernel('causal').derivation}\n")


def test_minimal_source(golden: Callable[[str, str], None]) -> None:
    head = {"d": 128, "e": 128}
    source = kernel("attention").source(target="cuda:90", dtype="bf16", extents=head, minimal=True)
    golden("attention.minimal.py", source)
