"""Extrema with their positions: one step gives both, and a step each takes one of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from monocomp.backends.tape.reals import is_real
from monocomp.backends.tape.recorder import Shape, Value, contiguous_strides
from monocomp.backends.tape.selections import span_of
from monocomp.backends.tape.tile import NO_DIM, Tile, TileOps
from monocomp.backends.torch_operations import largest_of_distinct


def largest(ops: TileOps, values: Tile, positions: Tile, dim: int, count: int) -> tuple[Tile, Tile]:
    """Record the largest elements along a dimension, and their positions."""
    every = {d for x in (values, positions) for d in x.dims} | {dim}
    dims = sorted(every - {NO_DIM}, key=ops.rank)
    both = [ops.whole(x, dims) for x in (values, positions)]
    shape = (*values.shape[:dim], count, *values.shape[dim + 1 :])
    inner, at = tuple(shape[d] for d in dims), dims.index(dim)
    is_counted = span_of(positions) == (dim, 0, positions.shape[dim])
    is_inside = is_counted and is_real(both[0])  # -1 is the position of -inf
    rank = ops.ops.ranked if is_inside else ops.ops.largest

    def run(values: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        distinct = largest_of_distinct(values, at, count) if is_counted else None
        first, second = distinct or rank(values, positions, at, count)
        return first.contiguous(), second.contiguous()

    key = "largest", at, count, is_inside
    first, second = _pair(ops, key, run, both, inner, positions.dtype)
    for made in (first, second):
        if made.known is None:
            made.strides = contiguous_strides(inner)
    if is_counted:
        second.bounds = 0 if is_inside else -1, positions.shape[dim] - 1
    return Tile(ops, first, dims, shape), Tile(ops, second, dims, shape)


def largest_in(part: Value, whole: Value) -> Value | None:
    """Return the step that gives the largest real numbers along the last dimension of some, with
    their places, if a value is computed of the former as another one is of all; None if it is
    not."""
    if part.key == ("field", 0):
        (pair,) = part.operands
        key = ("largest", len(whole.shape) - 1, part.shape[-1], True), whole
        return pair if pair.key and (*pair.key, pair.operands[0]) == key else None
    if part.key != whole.key or part.key not in ("exp2", "mul", "sub"):
        return None
    pairs = [(a, b) for a, b in zip(part.operands, whole.operands, strict=True) if a is not b]
    is_same = all(a.shape[-1:] in ((), (1,)) for a in part.operands if a in whole.operands)
    return largest_in(*pairs[0]) if len(pairs) == 1 and is_same else None


def first_extreme(
    ops: TileOps, name: str, values: Tile, positions: Tile, dim: int
) -> tuple[Tile, Tile] | None:
    """Record the maximum or minimum along a dimension, and the least position that has it; None
    where the positions are no coordinates."""
    span = span_of(positions)
    if span is None or span[0] != dim or dim not in values.dims:
        return None
    at = values.dims.index(dim)
    inner = (*values.value.shape[:at], 1, *values.value.shape[at + 1 :])
    shape = (*values.shape[:dim], 1, *values.shape[dim + 1 :])
    key, run = f"first {name}", getattr(torch, name)
    both = [*_pair(ops, key, run, [values.value], inner, torch.int64, at, True)]
    for made in both:
        if made.known is None and values.value.strides is not None and values.value.is_contiguous:
            made.strides = contiguous_strides(inner)
    value, place = (Tile(ops, x, values.dims, shape) for x in both)
    place.value.bounds = 0, values.shape[dim] - 1
    first = ops.full((1,) * len(shape), span[1], "int")
    return value, ops.elementwise["add"](place, first) if span[1] else place


def _pair(
    ops: TileOps,
    key: object,
    run: Callable[..., Any],
    operands: Sequence[Value],
    shape: Shape,
    dtype: torch.dtype,
    *arguments: Any,
) -> Iterator[Value]:
    """Record a function that gives two tensors of one shape, the second one with a dtype."""
    recorder, own = ops.recorder, operands[0].dtype
    known = [v.known.expand(v.shape) for v in operands if v.known is not None]
    if len(known) == len(operands):
        for n, made in enumerate(run(*known, *arguments)):
            yield recorder.alike(Value(shape, (own, dtype)[n], made))
        return
    how = (key, *arguments), run, operands, shape, own
    pair = recorder.step(*how, has_layout=False, arguments=arguments)
    pair.is_owned = False
    for n, d in enumerate((own, dtype)):
        yield recorder.step(("field", n), operator.getitem, [pair], shape, d, arguments=(n,))
