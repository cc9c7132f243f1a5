"""Reads at computed positions: a view where positions have equal steps, and a copy elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from monocomp.backends.tape.recorder import Shape, Value, contiguous_strides
from monocomp.backends.tape.tile import (
    NO_DIM,
    Tile,
    TileOps,
    common_shape,
    is_dense,
    strided,
)


def elements_at(ops: TileOps, tensor: Tile, at: Sequence[Tile]) -> Tile:
    """Record the elements of a tensor at some positions, one for each of its dimensions.

    A view has the dimensions along which positions have equal steps, and those of the tensor for
    which they are computed, in the place of the first along which these vary. Of the latter the
    elements are copied.
    """
    every = ops.whole(tensor, range(len(tensor.shape)))
    steps = [_steps(x) for x in at]
    computed = [n for n, s in enumerate(steps) if s is None]
    selected = sorted({d for n in computed for d in at[n].dims if d != NO_DIM}, key=ops.rank)
    layout = every.strides or contiguous_strides(every.shape)
    offset, strides = 0, dict[int, int]()
    for n, known in enumerate(steps):
        if known is not None:
            stride = layout[n]
            offset += known[0] * stride
            for d, step in known[1].items():
                strides[d] = strides.get(d, 0) + step * stride
    shape = common_shape(*(x.shape for x in at))
    if strides.keys() & set(selected) or (len(computed) > 1 and not selected):
        gathered = _along_one(ops, every, at, steps, computed, shape)
        return gathered or _at_all(ops, every, at, shape)
    before = [d for d in strides if not selected or ops.rank(d) < ops.rank(selected[0])]
    before.sort(key=ops.rank)
    after = sorted(strides.keys() - set(before), key=ops.rank)
    sizes = [(tensor.shape[n], layout[n]) for n in computed]
    view = _strided(ops, every, sizes, (before, after), shape, strides, offset)
    if not computed:
        return Tile(ops, view, before, shape)
    values = [ops.whole(at[n], selected) for n in computed]
    if len(values) == 1:
        values = [ops.viewed(values[0], range(len(selected)), (math.prod(values[0].shape),))]
    dims = (*before, *selected, *after)
    full = tuple(shape[d] for d in dims)
    run = _selecting(len(before), len(selected), full, len(values))
    key = "select", len(before), full
    return Tile(ops, ops.recorder.step(key, run, [view, *values], full, every.dtype), dims, shape)


def _steps(x: Tile) -> tuple[int, dict[int, int]] | None:
    """Return the first of some positions and the step along each dimension, if they are known,
    each dimension has one, and none is negative."""
    known = x.value.known
    if known is None or not known.numel():
        return None
    first, steps = int(known.flatten()[0]), dict[int, int]()
    regular = torch.full_like(known, first)
    for n, (dim, size) in enumerate(zip(x.dims, known.shape, strict=True)):
        if size > 1:
            steps[dim] = int(known.select(n, 1).flatten()[0]) - first
            count = torch.arange(size, device=known.device)
            regular = regular + steps[dim] * count.reshape([-1] + [1] * (known.dim() - n - 1))
    is_regular = torch.equal(regular, known) and min(steps.values(), default=0) >= 0
    return (first, steps) if is_regular else None


def _strided(
    ops: TileOps,
    every: Value,
    whole: Sequence[tuple[int, int]],
    dims: tuple[Sequence[int], Sequence[int]],
    shape: Shape,
    strides: Mapping[int, int],
    offset: int,
) -> Value:
    """Record a view of a tensor.

    Args:
        whole: the sizes and strides of the tensor's dimensions that the view has.
        dims: those of tiles before and after these.
        shape: the sizes of the latter.
        strides: theirs.
        offset: the first element.
    """
    before, after = ([(shape[d], strides[d]) for d in at] for at in dims)
    viewed = tuple(n for n, _ in (*before, *whole, *after))
    stride = tuple(s for _, s in (*before, *whole, *after))
    if offset == 0 and every.strides is not None:
        return strided(ops.recorder, every, viewed, stride)
    is_laid_out = every.strides is not None

    def run(t: torch.Tensor) -> torch.Tensor:
        t = t if is_laid_out else t.contiguous()
        return t.as_strided(viewed, stride, t.storage_offset() + offset)

    key = "strided", viewed, stride, offset
    view = ops.recorder.step(key, run, [every], viewed, every.dtype, is_view=True)
    view.is_dense = is_dense(viewed, stride)
    return view


def _selecting(dim: int, count: int, shape: Shape, computed: int) -> Callable[..., torch.Tensor]:
    """Return what takes the elements at computed positions in dimensions from one on.

    Args:
        dim: the first of these.
        count: the dimensions along which the positions vary.
        shape: the result's.
        computed: so many dimensions.
    """
    before: tuple[Any, ...] = (slice(None),) * dim

    def select(t: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return t.index_select(dim, positions)

    def select_more(t: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return t.index_select(dim, positions).reshape(shape)

    def index(t: torch.Tensor, *positions: torch.Tensor) -> torch.Tensor:
        return t[(*before, *positions)].contiguous()

    if computed > 1:
        return index
    return select if count == 1 else select_more


def _along_one(
    ops: TileOps,
    every: Value,
    at: Sequence[Tile],
    steps: Sequence[tuple[int, dict[int, int]] | None],
    computed: Sequence[int],
    shape: Shape,
) -> Tile | None:
    """Record the elements at computed positions in one dimension, which vary along others; None
    where the positions in these are not all that there are."""
    plain: dict[int, int] = {}
    for n, (size, known) in enumerate(zip(every.shape, steps, strict=True)):
        if known is not None:
            first, strides = known
            if first or [*strides.values()] != [1] or shape[dim := next(iter(strides))] != size:
                return None
            plain[dim] = n
    if len(computed) != 1 or len(plain) != len(every.shape) - 1:
        return None
    varying = {d for d in at[computed[0]].dims if d != NO_DIM}
    before = sorted(plain, key=ops.rank)
    free = sorted(varying - plain.keys(), key=ops.rank)
    index = ops.whole(at[computed[0]], (*(d for d in before if d in varying), *free))
    order = (*(plain[d] for d in before), computed[0])
    whole = (*(shape[d] for d in before), math.prod(shape[d] for d in free))
    one = (*(shape[d] if d in varying else 1 for d in before), whole[-1])
    inner = tuple(shape[d] for d in (*before, *free))

    def gather(t: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        positions = positions.reshape(one).expand(whole)
        return t.permute(order).gather(-1, positions).view(inner)

    key = "along", order, inner
    made = ops.recorder.step(key, gather, [every, index], inner, every.dtype)
    return Tile(ops, made, (*before, *free), shape)


def _at_all(ops: TileOps, every: Value, at: Sequence[Tile], shape: Shape) -> Tile:
    """Record the elements of a tensor with computed positions in all dimensions."""
    dims, values = ops.aligned(at)
    inner = common_shape(*(v.shape for v in values))
    run = _index if inner else _copy_element
    made = ops.recorder.step("gather", run, [every, *values], inner, every.dtype)
    return Tile(ops, made, dims, shape)


def _index(t: torch.Tensor, *positions: torch.Tensor) -> torch.Tensor:
    """Return elements in their order: torch lays them out as positions are, and without elements
    it does not."""
    return t[positions].contiguous()


def _copy_element(t: torch.Tensor, *positions: torch.Tensor) -> torch.Tensor:
    """Return one element, copied: at positions without dimensions torch gives a view."""
    return t[positions].clone()
