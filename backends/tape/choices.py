"""Choices without branches: what `where` comes to where its condition is one of floats.

Comparisons and `torch.where` go element by element on a CPU, and a branch that is predicted wrongly
takes as long as ten multiplications. So a condition on floats is recorded as a mask of ones and
zeros in their dtype, and a choice between a value and 0 keeps the value where the mask is 1, which
is one vector operation, exact for all values. A choice between a value and an infinity is an
extremum more, and one between two values the sum of what is kept of each, or the values themselves
where they are 0 when they are not chosen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Set
from functools import partial
from typing import Any

import torch

from monocomp.backends.tape.guards import is_positive, unguarded
from monocomp.backends.tape.reals import is_real, name_of
from monocomp.backends.tape.recorder import Recorder, Value
from monocomp.backends.tape.tile import NO_DIM, Tile, TileOps, common_shape, flat, is_strided
from monocomp.machine.cpu import CPU

VECTOR = CPU.call // 2  # elements from which on more operations repay that they are on vectors

_COMPARED: dict[str, Callable[..., Any]] = {
    n: getattr(torch, n) for n in ("eq", "ne", "lt", "le", "gt", "ge")
}
_INVERSE = {"eq": "ne", "ne": "eq"}  # of the others NaN has none
_KEEP = torch.ops.aten.threshold_backward.default._op
_KEEP_OUT = torch.ops.aten.threshold_backward.grad_input._op
# A number that is no tensor is made one in each call.
_HALF, _INFINITY = torch.tensor(0.5), torch.tensor(math.inf)


def chosen(ops: TileOps, condition: Tile, a: Tile, b: Tile) -> Tile | None:
    """Return a choice as vector operations without branches, or None."""
    first, second = a.value.number, b.value.number
    if (a.value is b.value and a.dims == b.dims) or (first is not None and first == second):
        return a
    if not a.dtype.is_floating_point or a.dtype != b.dtype:
        return None
    for x, number, holds in ((b, first, True), (a, second, False)):
        both = _alike(condition, x)
        if number is None or both is None:
            continue
        replaced = _replaced(ops, *both, x, number, holds)
        if replaced is not None:
            return replaced
    size = math.prod(common_shape(*(x.shape for x in ops.aligned((condition, a, b))[1])))
    if size < VECTOR:
        return None
    for x, number, holds in ((a, second, True), (b, first, False)):
        if number is None or not (number == 0 or math.isinf(number)):
            continue
        kept = _kept(ops, condition, x, holds)
        if number == 0:
            return kept
        its = _mask(ops, condition, x.dtype, holds)
        edge = ops.map(("bound", number), partial(bound, number), its, takes_out=True)
        return ops.elementwise["maximum" if number > 0 else "minimum"](kept, edge)
    is_zero = unguarded(b, condition).value.number == 0
    other = b if is_zero else _kept(ops, condition, b, False)
    return ops.elementwise["add"](_kept(ops, condition, a, True), other)


def _replaced(
    ops: TileOps, condition: Value, its: Value, x: Tile, number: float, holds: bool
) -> Tile | None:
    """Return x with a number for the infinities at which it is chosen; None where it is chosen at
    other elements.

    Args:
        condition: where the number is chosen.
        its: has the elements of x in the order of the condition.
        holds: is it chosen where the condition holds?
    """
    infinities = replaced_infinities(condition, its, number, holds)
    name, operands = its.key, its.operands
    if infinities is None:  # they may have been replaced
        of = operands[0] if isinstance(name, tuple) and name[0] == "replace" else None
        same = None if of is None else replaced_infinities(condition, of, number, holds)
        return x if same is not None and name == ("replace", same) else None
    if infinities == (math.inf, -math.inf) or is_real(its):
        return x
    instead = dict(zip((math.inf, -math.inf), infinities, strict=True))
    if all(n is not None and instead.get(n, n) == number for n in _numbers(x.value)):
        return ops.full((1,) * len(x.shape), number, "float")
    numbers, key = (math.nan, *infinities), ("replace", infinities)
    return ops.map(key, torch.nan_to_num, x, takes_out=True, arguments=numbers)


def _numbers(x: Value) -> Set[float | None]:
    """Return the numbers that a value is chosen from, with None for what is none."""
    name, operands = flat(x).key, flat(x).operands
    return {flat(v).number for v in operands[1:]} if name == "where" else {x.number}


def _alike(one: Tile, other: Tile) -> tuple[Value, Value] | None:
    """Return values that have the elements of two tiles in the same order: their own, or what both
    view alike; None if there are none."""
    values = one.value, other.value
    if all(map(is_strided, values)) and _strides(one) == _strides(other):
        a, b = (v.operands[0] for v in values)
        return (a, b) if a.is_contiguous and b.is_contiguous else None
    first, second = ([d for d in x.dims if d != NO_DIM] for x in (one, other))
    return values if first == second else None


def _strides(x: Tile) -> dict[int, int]:
    """Return how far the elements of a view are apart along each dimension."""
    return dict(zip(x.dims, x.value.strides or (), strict=False))


def _kept(ops: TileOps, condition: Tile, x: Tile, holds: bool) -> Tile:
    """Return x where a condition holds, or fails, and 0 elsewhere."""
    if holds and is_positive(condition, x):
        zero = ops.full((1,) * len(x.shape), 0, "float")
        return ops.elementwise["maximum"](zero, x)
    return ops.map("keep", keep, x, _mask(ops, condition, x.dtype, holds), takes_out=True)


def _mask(ops: TileOps, condition: Tile, dtype: torch.dtype, holds: bool) -> Tile:
    """Return 1 where a condition holds, or fails, and 0 elsewhere."""
    mask = mask_of(ops.recorder, condition.value, dtype, holds)
    return Tile(ops, mask, condition.dims, condition.shape)


def compared(
    sign: Callable[..., Any],
    shape: tuple[int, ...],
    a: torch.Tensor,
    b: torch.Tensor,
    out: torch.Tensor | None = None,
) -> Any:
    """Return 1 where a comparison holds and 0 elsewhere, in the dtype of its operands."""
    if out is None:
        out = torch.empty(shape, dtype=a.dtype, device=a.device)
    return sign(a, b, out=out)


def keep(
    x: torch.Tensor, mask: torch.Tensor, least: float = 0.0, out: torch.Tensor | None = None
) -> Any:
    """Return x where a mask is 1, or another tensor above a number, and 0 elsewhere."""
    return _KEEP(x, mask, least) if out is None else _KEEP_OUT(x, mask, least, grad_input=out)


def bound(infinity: float, mask: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """Return an infinity where a mask is 0, and the other one where it is 1."""
    operands = (mask, _HALF) if infinity < 0 else (_HALF, mask)
    return torch.sub(*operands, out=out).mul_(_INFINITY)


def bits(condition: torch.Tensor) -> torch.Tensor:
    """Return a condition as numbers, 1 where it holds: what goes element by element for booleans
    is a vector operation for these."""
    return condition.view(torch.uint8)


def extremum_of_bits(
    function: Callable[..., torch.Tensor], condition: torch.Tensor, dim: int, keepdims: bool
) -> torch.Tensor:
    """Return the test that a condition holds anywhere, or everywhere, along a dimension."""
    return function(bits(condition), dim, keepdims).view(torch.bool)


def mask(recorder: Recorder, name: str, a: Value, b: Value, shape: tuple[int, ...]) -> Value:
    """Record the mask of a comparison."""
    run = partial(compared, _COMPARED[name], shape)
    return recorder.step(("mask", name), run, [a, b], shape, a.dtype, takes_out=True)


def truth(recorder: Recorder, of: Value) -> Value:
    """Record a mask as a condition."""
    return recorder.step("truth", lambda m: m.to(torch.bool), [of], of.shape, torch.bool)


def mask_of(recorder: Recorder, condition: Value, dtype: torch.dtype, holds: bool) -> Value:
    """Record where a condition holds, or fails, as a mask.

    Args:
        condition: the condition.
        dtype: of the mask.
        holds: is the mask 1 where it holds?
    """
    shape = condition.shape
    name, operands = condition.key, condition.operands
    if condition.known is None:
        if name == "not":
            return mask_of(recorder, operands[0], dtype, not holds)
        if name in ("and", "or") and math.prod(shape) >= VECTOR:
            both = [mask_of(recorder, v, dtype, holds) for v in operands]
            run = torch.minimum if (name == "and") == holds else torch.maximum
            key = run.__name__
            return recorder.step(key, run, both, shape, dtype, takes_out=True)
        if name in _COMPARED and operands[0].dtype == dtype:
            operands = (mask(recorder, name, operands[0], operands[1], shape),)
            name = "truth"
        if name == "truth" and operands[0].dtype == dtype:
            return operands[0] if holds else _inverse(recorder, operands[0])

    def run_bool(c: torch.Tensor) -> torch.Tensor:
        return bits(c if holds else c.bitwise_not()).to(dtype)

    return recorder.step(("mask", dtype, holds), run_bool, [condition], shape, dtype)


def _inverse(recorder: Recorder, of: Value) -> Value:
    _, name = of.key or (None, None)
    if name in _INVERSE:
        return mask(recorder, _INVERSE[name], of.operands[0], of.operands[1], of.shape)
    zero = torch.zeros((), dtype=of.dtype)
    return mask(recorder, "eq", of, recorder.constant(("zero", of.dtype), zero), of.shape)


def replaced_infinities(
    condition: Value, x: Value, number: float, holds: bool = True
) -> tuple[float, float] | None:
    """Return what inf and -inf in x become where a number is chosen instead: where a condition
    holds, or fails.

    None unless the condition is `abs(x) == inf`, `x == inf` or `x == -inf`, or else `-inf < x`, or
    `0 < y` where x is the logarithm of y.
    """
    for limit, compared in _compared(condition, "eq" if holds else "lt"):
        if limit.number == math.inf and compared.is_made_by("abs", x):
            return number, number
        is_same = flat(compared) is flat(x)
        if limit.number == math.inf and is_same and holds:
            return number, -math.inf
        logarithm = not holds and flat(x).is_made_by("log", flat(compared))
        if (limit.number == -math.inf and is_same) or (limit.number == 0 and logarithm):
            # A maximum that is inf is unspecified: it may be replaced as well, at once.
            return (number if is_maximum(flat(x)) else math.inf), number
    return None


def _compared(condition: Value, sign: str) -> Iterator[tuple[Value, Value]]:
    """Yield both sides of a condition `a == b`, in either order, or `a < b`; nothing for others."""
    name, operands = flat(condition).key, flat(condition).operands
    if name == "truth":  # of a mask
        of = flat(operands[0])
        (_, name), operands = of.key or (None, None), of.operands
    if name == sign:
        a, b = operands
        yield a, b
        if sign == "eq":
            yield b, a


def is_maximum(x: Value) -> bool:
    """True if a value is the largest of some."""
    return name_of(x) in ("maximum", "amax")
