"""Masks that are read, asked first of the extremes of a block's rows, and ints in few bits."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch

import monocomp as mc
from monocomp.blocks.choices.choose import choose
from monocomp.blocks.masking.phases import Phases
from monocomp.tile import Mask, TileProgram
from monocomp.tile.parser import parse
from tests.backends.running import BACKENDS, BLOCK, DISTINCT, exact, make_inputs, program_of, run
from tests.backends.tolerances import agree

HEAD = "input r[k]: int, n[k]: int, own[q]: int, x[k], y[q], t[k,q]: int, valid[k]: bool\n"
SIZES = {"q": 3 * BLOCK + 5, "k": 5 * BLOCK + 3, "e": 4}
FILTERS = (
    "r[k] == own[q]",
    "own[q] == r[k]",
    "r[k] < own[q]",
    "r[k] > own[q] and q > k",
    "r[k] <= q and n[k] > q",
    "own[q] <= r[k] and own[q] + 2 > r[k] and valid[k]",
    "2 * r[k] - 1 >= own[q] and n[k] != own[q]",
    "r[k] < own[q] and (n[k] > q or k < q)",
    "r[k] <= q and n[k] >= 2",
    "r[k] != own[q]",  # true of some element of nearly any two blocks
    "r[k] == own[q] or n[k] == q",
    "not r[k] <= own[q] * k",  # not of rows and the loop apart
    "t[k,q] == own[q]",
    "x[k] <= y[q]",  # of floats, which may be NaN
    "k % 3 == own[q]",  # nothing is read along the loop
    "n[k] >= 2 and valid[k]",  # of no row
)
BOUNDS = ("k <= q", "q <= k", "own[q] <= k and k < 2 * own[q]", "k < 7 or k == q")
# What is done with what passes: something is read behind the filter, and nothing is.
BODIES = {
    "weighted sum": "O[q,e] = softmax[k if {0}](X[q,k]) * V[k,e]",
    "positions": "O[q] = minimum(own[q], min[k if {0}](k))\n"
    "P[q] = maximum(own[q], max[k if {0}](k))\n"
    "C[q] = own[q] + sum[k if {0}](1)\n"
    "return O, P, C",
}


def program(body: str, condition: str) -> str:
    return HEAD + BODIES[body].format(condition)


def kernel(text: str) -> TileProgram:
    (found,) = mc.compile(text).tile_programs({})
    return found


def phases(text: str) -> Phases:
    """How the loop over what a mask decides on runs."""
    found = choose(kernel(text)).phases
    (of_mask,) = (p for loop, p in found.items() if any(isinstance(s, Mask) for s in loop.body))
    return of_mask


def inputs_for(text: str, seed: int, **changed: torch.Tensor) -> dict[str, torch.Tensor]:
    made = make_inputs(text, SIZES, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    q, k = SIZES["q"], SIZES["k"]

    def integers(high: int, size: int) -> torch.Tensor:
        return torch.randint(-3, high, [size], generator=generator)

    sorted_ = {"r": integers(20, k).sort().values, "own": integers(25, q).sort().values}
    made |= {"n": integers(60, k), **sorted_, **changed}
    return {name: made[name] for name in program_of(text).inputs}


@pytest.mark.one_in(10)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("condition", [*FILTERS, *BOUNDS])
def test_results(condition: str, body: str, backend: str) -> None:
    text = program(body, condition)
    for seed in range(2):
        inputs = inputs_for(text, seed)
        agree(backend, text, inputs, 4)


WIDE = 1 << 40
VALUES: Mapping[str, tuple[torch.dtype, list[int]]] = {
    "8 bits": (torch.int8, [-128, -1, 0, 127]),
    "32 bits": (torch.int32, [-(1 << 31), -7, 0, (1 << 31) - 1]),
    "more": (torch.int64, [-WIDE, -(1 << 31) - 1, 0, (1 << 31), WIDE]),
}


@pytest.mark.one_in(19)
@pytest.mark.parametrize("backend", DISTINCT)
@pytest.mark.parametrize("bits", VALUES)
@pytest.mark.parametrize(
    "condition",
    [
        *(f"r[k] {sign} own[q]" for sign in ("==", "<", "<=", ">", ">=")),
        "own[q] <= k",
        "k < own[q]",
    ],
)
def test_values_of_all_bits(condition: str, bits: str, backend: str) -> None:
    """Whatever rows beyond the last are taken to have, nothing that is admitted is left out."""
    text = program("positions", condition)
    dtype, values = VALUES[bits]
    for value in values:
        same = {"r": torch.full([SIZES["k"]], value), "own": torch.full([SIZES["q"]], value)}
        alone = {at: torch.zeros(SIZES["k"], dtype=torch.int64) for at in (0, BLOCK)}
        for at, x in alone.items():
            x[at] = value
        for changed in (same, *({**same, "r": x} for x in alone.values())):
            inputs = inputs_for(text, 0, **{n: x.to(dtype) for n, x in changed.items()})
            for got, good in zip(run(backend, text, inputs), exact(text, inputs), strict=True):
                assert torch.equal(got, good)


# --- ints in few bits --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "is_short"),
    [
        ("min[k if n[k] > q](k)", True),
        ("max[k if n[k] > q](q)", True),
        ("sum[k if n[k] > q](7)", True),
        ("sum[k if n[k] > q](k)", False),  # may leave the bits of an index
        ("max[k if n[k] > q](k + 1)", False),
        ("min[k if n[k] > q](r[k])", False),
        ("prod[k if n[k] > q](2)", False),
        ("argmax[k if n[k] > q](x[k])", True),
        ("argmin[k](x[k] * y[q])", True),
    ],
)
def test_short_ints(body: str, is_short: bool) -> None:
    assert bool(choose(kernel(f"{HEAD}O[q] = {body}")).short) == is_short


COMBINE = """kernel f(x: float[i,k]) -> V: float[i], P: int[i]
  grid i
  stream k
  commuting combine largest(v: float, n: int; v_next, n_next):
    later = {0}
    give maximum(v, v_next), later
  state v = -inf
  state n = 9223372036854775807
  for k in 0 .. |k|:
    x_tile[k] = x[i, k]
    x_in[k] = inside[k, -inf](x_tile)
    p[k] = inside[k, 9223372036854775807](k)
    v_new, n_new = (v, n).largest[k](x_in, p)
    v <- v_new
    n <- n_new
  store V[i] = v
  store P[i] = n
"""


@pytest.mark.parametrize(
    ("later", "is_short"),
    [
        ("where(v < v_next, n_next, where(v == v_next, minimum(n, n_next), n))", True),
        ("where(v < v_next, n_next, where(n < n_next, n, n_next))", True),
        ("where(v < v_next, n_next, n + n_next)", False),
        ("where(n < 7, n, n_next)", False),
        ("where(v < v_next, n_next, 7)", False),
    ],
)
def test_short_fields(later: str, is_short: bool) -> None:
    """A position that a combine chooses takes the bits of an index."""
    assert bool(choose(parse(COMBINE.format(later))).short) == is_short
