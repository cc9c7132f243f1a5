"""Frames in base 2: which are written so, and that weights are right however large logits are."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
import torch

from monocomp.tile.base_two import in_base_two
from monocomp.tile.parser import parse
from monocomp.tile.verifier import verify
from tests.tile.running import by_numpy, by_triton

LOG2_E = 1.4426950408889634
SUMS = """
kernel sums(X: float[q, k], V: float[k], s: float) -> O: float[q], L: float[q]
  row q
  stream k
  scale = s * 1.0
  state m[q] = -inf
  state l[q] = 0.0
  state acc[q] = 0.0
  for k in 0 .. |k|:
    X_tile[k,q] = X[q, k]
    x[k,q] = inside[k, -inf](X_tile)
    m_new[q] = maximum[frame](m, max[k](x))
    shift[q] = where(inf == abs(m_new), 0.0, m_new)
    alpha[q] = exp2(1.4426950408889634 * (m - shift))
    p[k,q] = exp2(1.4426950408889634 * (x - shift))
    V_tile[k] = V[k]
    l <- (l * alpha) + sum[k](p)
    acc <- (acc * alpha) + sum[k](V_tile * p)
    m <- m_new
  store O[q] = acc / l
  store L[q] = log(l)
"""


def _with(**changes: str) -> str:
    """The kernel with other statements, by what they compute."""
    lines = SUMS.splitlines()
    for name, value in changes.items():
        lines = [
            f"{line.split(sign)[0]}{sign}{value}"
            if line.split(sign)[0].split("[")[0].strip() == name
            else line
            for line in lines
            for sign in [" <- " if " <- " in line else " = "]
        ]
    return "\n".join(lines)


SCALED = SUMS.replace(str(LOG2_E), "scale")
IN_BASE_TWO = {
    "a number as scale": SUMS,
    "a scale that is computed": SCALED,
    "a choice of weights": _with(acc="(acc * alpha) + sum[k](where(V_tile < 0.5, p, 0.0))"),
    "a weight less another": _with(acc="(acc * alpha) + sum[k](maximum(0.0, p - (V_tile * p)))"),
    "a weight of 0": _with(
        acc=f"(acc * alpha) + sum[k](maximum(0.0, p - exp2(neg({LOG2_E} * shift))) * V_tile)"
    ),
    "a quotient of weights": _with(
        V_tile="(p * V[k]) / (p + p)", acc="acc + sum[k](V_tile)"
    ).replace("V_tile[k] = (p * V[k])", "V_read[k] = V[k]\n    V_tile[k,q] = (p * V_read)"),
}
AS_THEY_WERE = {
    "two scales": SUMS.replace("exp2(1.4426950408889634 * (x", "exp2(2.5 * (x"),
    "a square": _with(acc="(acc * alpha) + sum[k](p * p)"),
    "a weight and a number": _with(acc="(acc * alpha) + sum[k](p + V_tile)"),
    "a function of a weight": _with(acc="(acc * alpha) + sum[k](log(p))"),
    "a sum that starts": SUMS.replace("acc[q] = 0.0", "acc[q] = 1.0"),
    "a minimum": SUMS.replace("maximum[frame]", "minimum"),
}


@pytest.mark.parametrize("name", IN_BASE_TWO)
def test_frames_are_in_base_two(name: str) -> None:
    """The program is the same in exact arithmetic, and its logarithm is that of the whole sum."""
    found = verify(in_base_two(verify(parse(IN_BASE_TWO[name]))))
    assert "p[k,q] = exp2(fma(factor, x, offset))" in str(found)
    assert "log(l * inverse)" in str(found)
    inputs = {"X": torch.randn(5, 40) * 20, "V": torch.rand(40)}
    inputs["X"][1] = -torch.inf
    wanted = by_numpy(IN_BASE_TWO[name], inputs, {"s": 0.75}, 16)
    for output, x in by_numpy(str(found), inputs, {"s": 0.75}, 16).items():
        np.testing.assert_allclose(x, wanted[output], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", AS_THEY_WERE)
def test_what_is_no_sum_of_weights_stays(name: str) -> None:
    program = verify(parse(AS_THEY_WERE[name]))
    assert str(in_base_two(program)) == str(program)


def test_frames_are_numbers_as_before() -> None:
    """A sum may multiply weights with the maximum, as an entropy does."""
    text = _with(acc="(acc * alpha) + sum[k](p * (V_tile + abs(shift)))")
    found = str(verify(in_base_two(verify(parse(text)))))
    assert "abs(shift)" in found and "fma(factor, x, offset)" in found


# Logits that float32 holds, with maxima on both sides of where a power of two becomes the scale.
LARGE = {
    "moving a little": (-1e4, 2.0**-9),
    "a million": (1e6, 2.0**-3),
    "1e8": (-1e8, 8.0),
    "on both sides": (-(2.0**28) / LOG2_E, 16.0),
    "positive, on both sides": (2.0**28 / LOG2_E, 16.0),
    "1e9": (-1e9, 64.0),
    "the least": (float(np.finfo(np.float32).min), 2.0**105),
}


@pytest.mark.parametrize("text", [SUMS, SCALED])
def test_weights_of_large_logits(text: str) -> None:
    generator = np.random.default_rng(0)
    steps = generator.integers(0, 5, (len(LARGE), 64)).astype(np.float64)
    near, far = np.array([*LARGE.values()]).T[:, :, None]
    logits = (near.astype(np.float32) + far * steps).astype(np.float32)
    logits[:, 16:48].sort(axis=1)  # the maximum moves from block to block
    inputs = {"X": torch.from_numpy(logits), "V": torch.rand(64)}
    found = by_triton(text, inputs, {"s": LOG2_E}, 16)
    _check(found, logits.astype(np.float64), inputs["V"].double().numpy())


def _check(found: Mapping[str, torch.Tensor], x: np.ndarray, v: np.ndarray) -> None:
    weights = np.exp(x - x.max(1, keepdims=True))
    # exp(-16) may be 2**-16 where a power of two is the scale.
    atol = np.where([name.endswith("on both sides") for name in LARGE], 64 * 2.0**-16, 2e-6)
    assert np.all(abs(found["L"].numpy() - np.log(weights.sum(1))) <= atol)
    assert np.all(abs(found["O"].numpy() - weights @ v / weights.sum(1)) <= atol)
