"""Block programs: their text, what passes change, and how exponentials are scaled. That they mean
what tile programs mean, tests of what is emitted of them hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import monocomp as mc
from monocomp import library
from monocomp.backends.triton.device_functions import DEVICE_FUNCTIONS
from monocomp.backends.triton.kernel_source import block_program
from monocomp.blocks import FLOAT32
from monocomp.blocks.choices.choose import PASSES
from monocomp.blocks.operations import infix, name
from monocomp.errors import InternalError
from monocomp.tile import TileProgram


def kernel_of(text: str) -> TileProgram:
    """The only kernel of a program."""
    (program,) = mc.compile(text).tile_programs({})
    return program


# --- passes -----------------------------------------------------------------------------------


def test_each_pass_does_something() -> None:
    """On a cache in pages, a window, a tree and masked products every pass changes a program."""
    changed = set()
    texts = [library.load(n) for n in ("paged_attention", "sliding_window", "attention", "tree")]
    for text in (*texts, "P[q,k] = where(k <= q, exp(sum[c](Q[q,c] * K[k,c])), 0)"):
        kernel = kernel_of(text)
        texts = [str(block_program(kernel, PASSES[:n])) for n in range(len(PASSES) + 1)]
        pairs = zip(PASSES, pairwise(texts), strict=True)
        changed |= {passed for passed, (before, after) in pairs if before != after}
    assert changed == {*PASSES}


@pytest.mark.parametrize("program", ["attention", "sliding_window"])
def test_printed(program: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{program}.blocks.txt", f"{block_program(kernel_of(library.load(program)))}\n")


def test_tiles_along_different_axes_do_not_meet() -> None:
    tile = name("Q_tile", FLOAT32, ("q", "d"))
    with pytest.raises(InternalError, match="different axes"):
        infix("+", tile, name("s", FLOAT32, ("q", "k")))
    with pytest.raises(InternalError, match="different ranks"):
        infix("+", tile, name("m_i", FLOAT32, ("q",)))


# --- scaled exponentials ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("logits", "is_weight"),
    [
        ("Q[q,d] * K[k,d]", False),  # as large as what is multiplied
        ("Q[q,d] * K[k,d] + A[q,k]", True),
        ("where(A[q,k] < 0, -1e9, Q[q,d] * K[k,d])", True),
        ("A[q,k]", False),  # exact
        ("where(A[q,k] < 0, Q[q,d] * K[k,d], A[q,k])", False),
    ],
)
def test_sums_with_what_is_loaded_may_be_large(logits: str, is_weight: bool) -> None:
    program = f"S[q,k] = {logits}\nO[q,e] = softmax[k](S[q,k]) * V[k,e]"
    assert (" = weight(" in mc.compile(program).source(target="cuda:90")) == is_weight
    stored = f"{program}\nL[q] = logsumexp[k](S[q,k])\nreturn O, L"  # to all digits
    assert " = weight(" not in mc.compile(stored).source(target="cuda:90")


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("shift", [0.0, -3.7, 1e4, -1e4, 1e8, -1e9, 2.0**27, 2.0**27 + 16, -3e38])
def test_fused_weights(shift: float, dtype: type[np.floating[Any]]) -> None:
    """Weights of results of 16 bits: accurate to the rounding of x, and finite whatever x is."""
    y = np.float32(np.finfo(np.float32).min if shift == -3e38 else shift)
    steps = [y]
    with np.errstate(over="ignore"):
        for _ in range(12):
            steps.append(np.nextafter(steps[-1], np.float32(-np.inf)))
    x = np.array([*steps, y - 1, y - 20, -np.inf], np.float32)
    fused = _weights(x, y, fast=True)
    assert np.isfinite(fused.astype(dtype)).all() and fused[0] > 0 and fused[-1] == 0
    exact = np.exp(x.astype(float) - float(y))
    assert abs(np.log2(fused[0])) <= min(8.0, 2.0**-23 * abs(float(y)))
    np.testing.assert_allclose(fused[1:-1] / fused[0], exact[1:-1], rtol=1e-6, atol=2e-5)
    np.testing.assert_allclose(_weights(x, y, fast=False), exact, rtol=3e-6, atol=1e-20)


def _weights(x: NDArray[np.float32], y: np.float32, fast: bool) -> NDArray[np.float64]:
    """The helper of emitted files in numpy; x of 64 bits, so that products with it are fused."""
    text = DEVICE_FUNCTIONS["weight"].removeprefix("@triton.jit\n").replace(": tl.constexpr", "")
    scope: dict[str, Any] = {"tl": SimpleNamespace(abs=np.abs, where=np.where, exp2=np.exp2)}
    exec(text, scope)
    with np.errstate(over="ignore"):
        scale, power = np.float32(math.log2(math.e)), np.float32(1)
        return np.asarray(scope["weight"](x.astype(float), y, scale, power, fast))
