"""Every kind of fault in a tile program is found; `test_text` looks for them after each pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from monocomp.errors import InternalError
from monocomp.tile import (
    Axis,
    Loop,
    Statement,
    TileProgram,
    local,
    with_roots,
)
from monocomp.tile.parser import parse
from monocomp.tile.verifier import verify, verify_all
from tests.tile.kernels import TEXTS, kernels

SUMS = """
kernel sums(X: float[i, k], n: int[i], flag: bool[k], c: float) -> O: float[i], C: stored float[k]
  row i
  stream k
  whole r
  serial j
  n_tile[i] = n[i]
  state acc[i] = 0.0
  for k in 0 .. min(|k|, n_tile) where kept:
    flag_tile[k] = flag[k]
    keep flag_tile
    X_tile[i,k] = X[i, k]
    x[i,k] = inside[k, 0.0](X_tile * c)
    y[k] = sum[i](inside[i, 0.0](x))
    store C[k] += y
    acc <- acc + sum[k](x)
  store O[i] = acc
"""
PAIRS = """
kernel pairs(X: float[i, k], Y: float[i, k]) -> A: float[i, r], P: int[i, r], U: float[i]
  row i
  stream k
  whole r
  combine Affine(a: float, u: float; a_next, u_next):
    t = a_next * u
    give a * a_next, t + u_next
  state largest[i,r] = -inf
  state positions[i,r] = -1
  state a[i] = 1.0
  state u[i] = 0.0
  for k in 0 .. |k|:
    X_tile[i,k] = X[i, k]
    Y_tile[i,k] = Y[i, k]
    x[i,k] = inside[k, -inf](X_tile)
    y[i,k] = inside[k, 1.0](Y_tile)
    largest_new, positions_new = (largest, positions).top[k, r](x, k)
    a_new, u_new = (a, u).Affine[k](y, x)
    largest <- largest_new
    positions <- positions_new
    a <- a_new
    u <- u_new
  store A[i, r] = largest
  store P[i, r] = positions
  store U[i] = u
"""

# What is written instead of a line, and what is wrong with it.
FAULTS: list[tuple[str, str, str]] = [
    ("X_tile[i,k] = X[i, k]", "n_tile[i] = n[i]\nX_tile[i,k] = X[i, k]", "n_tile is given twice"),
    ("(X_tile * c)", "(X[i, k] * c)", "X[i, k] has no name"),
    (
        "kernel sums(X: float[i, k]",
        "kernel sums(X: float[i, k] as int8",
        "X is float, and not int8",
    ),
    ("keep flag_tile", "keep k", "a mask is int"),
    ("keep flag_tile", "keep flag_tile\nkeep flag_tile", "has several masks"),
    ("n_tile[i] = n[i]", "keep true\nn_tile[i] = n[i]", "a mask outside of a loop"),
    ("min(|k|, n_tile)", "min(|k|, c)", "a bound is float"),
    ("min(|k|, n_tile)", "min(|k|, k)", "k outside of its loop"),
    ("store O[i] = acc", "store O[k] = acc", "k outside of its loop"),
    ("store O[i] = acc", "store O[i] = acc + sum[k](acc)", "reduce along k, which no operand has"),
    ("sum[i](inside[i, 0.0](x))", "sum[r](x)", "reduce along r, which no operand has"),
    ("state acc[i] = 0.0", "state acc[i] = 0", "int, float"),
    ("state acc[i] = 0.0", "state acc = float(n_tile)", "acc starts as a larger tile"),
    ("acc + sum[k](x)", "acc + x", "acc becomes what it cannot hold"),
    ("acc + sum[k](x)", "n_tile", "acc becomes what it cannot hold"),
    ("acc <- acc", "acc <- acc\nacc <- acc", "are assigned as ['acc', 'acc']"),
    ("store O[i] = acc", "store Q[i] = acc", "Q is stored and no output"),
    ("store O[i] = acc", "store O[i, i] = acc", "O has 1 dimensions"),
    ("store O[i] = acc", "store O[i] = n_tile", "O is float: n_tile"),
    ("store O[i] = acc", "store O[c] = acc", "a position in O is no int"),
    ("store O[i] = acc", "if c: store O[i] = acc", "a guard of O is no bool"),
    ("store O[i] = acc", "store O[0] = acc", "several elements are stored in one of O"),
    ("store O[i] = acc", "store O[i] = acc\nstore C[i] = acc", "C is both set and added to"),
    ("store O[i] = acc", "store O[i] += acc", "O is too narrow to be added to"),
    ("store C[k] += y", "store C[k] += c", "C is added to for each block of i"),
    ("inside[k, 0.0]", "inside[k, 0]", "masked of float"),
    ("= (a, u)", "= (a, u, a)", "a_new, u_new have other fields than their fold"),
    ("Affine[k](y, x)", "Affine[k](y, k)", "elements of a_new are no states"),
    (".top[k, r](x, k)", ".top[k, r](k, x)", "elements of largest_new are no states"),
    ("top[k, r]", "top[k, k]", "a list along k"),
    ("Affine[k]", "Affine[r]", "a becomes what it cannot hold"),
    ("t = a_next * u", "t = a_next < u", "bool, float"),
    ("a * a_next, t", "int(a), t", "the combine Affine makes int of float"),
    ("a * a_next, t + u_next", "a", "the combine Affine has other fields"),
]


@pytest.mark.parametrize("text", [SUMS, PAIRS])
def test_nothing_is_wrong_before(text: str) -> None:
    assert str(verify(parse(text))) == text.strip()


def changed(text: str, old: str, new: str) -> str:
    """The text with some lines instead of another one's part."""
    (line,) = (x for x in text.splitlines() if old in x)
    indent = line[: len(line) - len(line.lstrip())]
    return text.replace(line, line.replace(old, new).replace("\n", "\n" + indent))


@pytest.mark.parametrize(("old", "new", "message"), FAULTS)
def test_a_fault_is_found(old: str, new: str, message: str) -> None:
    check_refused(changed(SUMS if old in SUMS else PAIRS, old, new), message)


def check_refused(program: str | TileProgram, message: str) -> None:
    with pytest.raises(InternalError) as caught:
        verify(parse(program) if isinstance(program, str) else program)
    assert message in str(caught.value)


def test_what_a_loop_names_is_not_seen_after_it() -> None:
    program = parse(SUMS)
    program.body[-1] = with_roots(program.body[-1], lambda e: local("y", frozenset("k"), "float"))
    check_refused(program, "y is float along ['k'], and not None")


AXES: list[tuple[Callable[[TileProgram], TileProgram], str]] = [
    (lambda p: replace(p, axes=p.axes | {"i": p.axes["r"]}), "axis r is known as i"),
    (
        lambda p: replace(p, axes=p.axes | {"r": Axis("r", "r", "whole", after="i")}),
        "r has no tile i before it",
    ),
    (
        lambda p: replace(p, axes=p.axes | {"k": Axis("k", "i", "stream")}),
        "the loop's axis k is another one",
    ),
    (lambda p: parse(str(p).replace("stream k", "whole k")), "a loop over k, which is whole"),
]


@pytest.mark.parametrize(("change", "message"), AXES)
def test_a_wrong_axis_is_found(change: Callable[[TileProgram], TileProgram], message: str) -> None:
    check_refused(change(parse(SUMS)), message)


def test_kernels_read_what_is_stored() -> None:
    first = parse(
        "kernel f(X: float[i]) -> M: stored float[i]\n  row i\n  x[i] = X[i]\n  store M[i] = x"
    )
    second = parse(
        "kernel g(M: stored float[i]) -> O: float[i]\n  row i\n  x[i] = M[i]\n  store O[i] = x"
    )
    verify_all([first, second])
    with pytest.raises(InternalError, match="g reads M, which no kernel before it stores"):
        verify_all([second, first])


def without_one(body: list[Statement]) -> Iterator[list[Statement]]:
    """A body without one of its statements, or of those in its loops."""
    for n, s in enumerate(body):
        yield [*body[:n], *body[n + 1 :]]
        for inner in without_one(s.body) if isinstance(s, Loop) else ():
            yield [*body[:n], replace(s, body=inner), *body[n + 1 :]]


@pytest.mark.parametrize("name", ["attention", "sliding_window", "affine maps", "lengths"])
def test_every_statement_is_needed(name: str) -> None:
    for p in kernels(TEXTS[name]):
        wrong = list(without_one(p.body))
        assert len(wrong) > 5
        for body in wrong:
            with pytest.raises(InternalError):
                verify(replace(p, body=body))
