"""Loops that are left out where nobody asks for what they come to."""

from __future__ import annotations

from textwrap import dedent

import pytest

from monocomp.backends.triton.kernel_source import block_program
from monocomp.blocks import If, walk
from monocomp.blocks.choices.choose import PASSES, choose
from monocomp.tile import Loop, TileProgram
from monocomp.tile.parser import parse

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
# What is not left out.
ALL_STORED = {"stored": "exp2((0.5 * acc) + (0.5 * acc_2))"}
ONE_ELSEWHERE = {"stored": "where(test, exp2((0.5 * acc) + (0.5 * acc_2)), acc)"}
UNEQUAL = {"test": "k != q"}


def kernel(**parts: str) -> str:
    return dedent(KERNEL.format(**{**USUAL, **parts})).strip()


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
