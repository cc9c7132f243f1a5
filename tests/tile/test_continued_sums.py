"""Loops one after the other whose sums are added: before and after the pass, on every backend; and
loops that are left out where nobody asks for what they come to."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import numpy as np
import pytest
import torch

from monocomp.backends.triton.kernel_source import block_program
from monocomp.blocks import If, walk
from monocomp.blocks.choices.choose import PASSES, choose
from monocomp.lowering.continued_sums import continue_sums
from monocomp.tile import Loop, TileProgram
from monocomp.tile.parser import parse
from monocomp.tile.verifier import verify
from tests.tile.running import BACKENDS

KERNEL = """
kernel f(Q: float[q, c], K: float[k, c], P: float[q, r], R: float[k, r]) -> O: float[q, k]
  row q, k
  stream c, r
  state acc[k,q] = 0.0
  for c in 0 .. |c|:
    Q_tile[c,q] = Q[q, c]
    K_tile[c,k] = K[k, c]
    acc <- contract[c](K_tile, Q_tile, acc)
  state acc_2[k,q] = {start}
  for r in 0 .. |r|:
    P_tile[q,r] = P[q, r]
    R_tile[k,r] = R[k, r]
    acc_2 <- {step}
  test[k,q] = {test}
  store O[q, k] = {stored}
"""
USUAL = {
    "start": "0.0",
    "step": "contract[r](R_tile, P_tile, acc_2)",
    "test": "k <= q",
    "stored": "where(test, exp2((0.5 * acc) + (0.5 * acc_2)), 0.0)",
}
CONTINUED = {"start": "acc", "stored": "where(test, exp2(0.5 * acc_2), 0.0)"}
# What is not continued.
OTHER_NUMBERS = {"stored": "where(test, exp2((0.25 * acc) + (0.5 * acc_2)), 0.0)"}
READ_AGAIN = {"stored": "where(test, exp2((0.5 * acc) + (0.5 * acc_2)) + acc, 0.0)"}
MOVED = {"step": "contract[r](R_tile, P_tile, 0.5 * acc_2)"}
MULTIPLIED = {"stored": "where(test, exp2((0.5 * acc) * (0.5 * acc_2)), 0.0)"}
# What is not left out.
ALL_STORED = {"stored": "exp2((0.5 * acc) + (0.5 * acc_2))"}
ONE_ELSEWHERE = {"stored": "where(test, exp2((0.5 * acc) + (0.5 * acc_2)), acc)"}
UNEQUAL = {"test": "k != q"}


def kernel(**parts: str) -> str:
    return dedent(KERNEL.format(**{**USUAL, **parts})).strip()


def continued(text: str) -> str:
    p = parse(text)
    return str(verify(replace(p, body=continue_sums(p.body))))


def inputs() -> dict[str, torch.Tensor]:
    generator = np.random.default_rng(0)
    shapes = {"Q": (37, 21), "K": (43, 21), "P": (37, 5), "R": (43, 5)}
    return {n: torch.tensor(generator.integers(-2, 3, s)).float() for n, s in shapes.items()}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("test", ["k <= q", "q < k", "k == q", "(k <= q) and (q <= (k + 16))"])
def test_a_loop_goes_on_with_the_sum_of_another(backend: str, test: str) -> None:
    before, after = kernel(test=test), kernel(**CONTINUED, test=test)
    assert continued(before) == after
    given = inputs()
    logits = given["Q"] @ given["K"].T + given["P"] @ given["R"].T
    q, k = np.ogrid[:37, :43]
    admitted = eval_test(test, q, k)
    wanted = np.where(admitted, np.exp2(0.5 * logits.numpy()), 0)
    for text in (before, after):
        found = BACKENDS[backend](text, given, {}, 16)["O"]
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5)


def eval_test(test: str, q: np.ndarray, k: np.ndarray) -> np.ndarray:
    of = {
        "k <= q": k <= q,
        "q < k": q < k,
        "k == q": k == q,
        "(k <= q) and (q <= (k + 16))": (k <= q) & (q <= k + 16),
    }
    return of[test]


@pytest.mark.parametrize("parts", [OTHER_NUMBERS, READ_AGAIN, MOVED, MULTIPLIED])
def test_a_sum_that_is_not_only_added_begins_anew(parts: dict[str, str]) -> None:
    text = kernel(**parts)
    assert continued(text) == str(parse(text))


def left_out(p: TileProgram) -> list[bool]:
    """Of each loop, is it asked whether any row needs it?"""
    needed = choose(p).needed
    return [bool(needed.get(s)) for s in p.body if isinstance(s, Loop)]


def test_loops_are_left_out_where_no_row_needs_them() -> None:
    for parts in ({}, CONTINUED):
        p = parse(kernel(**parts))
        assert left_out(p) == [True, True]
        tests = [s for s in walk(block_program(p).body) if isinstance(s, If)]
        without = block_program(p, passes=[x for x in PASSES if x != "leave_out"])
        assert len(tests) == len([s for s in walk(without.body) if isinstance(s, If)]) + 2
    assert left_out(parse(kernel(test="(k <= q) and (q <= (k + 16))"))) == [True, True]


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [(ALL_STORED, [False, False]), (ONE_ELSEWHERE, [False, True]), (UNEQUAL, [False, False])],
)
def test_what_some_row_needs_is_computed(parts: dict[str, str], wanted: list[bool]) -> None:
    assert left_out(parse(kernel(**parts))) == wanted
