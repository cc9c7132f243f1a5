"""Operations of the torch backend on tiles, and the target of host programs on torch tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import torch

from monocomp.backends.array_operations import Ops, elementwise
from monocomp.backends.sorting import sort_positions
from monocomp.declarations import counter_rng
from monocomp.declarations.vocabulary import Kind


class TorchOps(Ops):
    """Array operations on one device, in float32 or float64."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self.device = device
        self.dtype = dtype
        self.library: Any = torch
        own = {**_OWN, "uniform": self.uniform}
        self.elementwise: Mapping[str, Callable[..., Any]] = elementwise(torch, own)

    def uniform(self, *counters: torch.Tensor) -> torch.Tensor:
        """`counter_rng.uniform`, whatever torch's default dtype is."""
        bits = self.cast(counter_rng.mantissa(*counters), "float")
        return bits * 2.0**-counter_rng.MANTISSA_BITS

    def promote(self, x: torch.Tensor) -> torch.Tensor:
        if x.dtype.is_floating_point:  # one layout and alignment, so that results do not vary
            return x.to(self.dtype, copy=True, memory_format=torch.contiguous_format)
        return x if x.dtype == torch.bool else x.to(torch.int64)

    def arange(self, start: int, stop: int) -> torch.Tensor:
        return torch.arange(start, stop, device=self.device)

    def full(self, shape: tuple[int, ...], value: float, kind: Kind) -> torch.Tensor:
        dtype = self.dtype_of(kind)
        if kind == "float" and abs(value) > torch.finfo(dtype).max:  # torch would refuse it
            value = math.copysign(math.inf, value)
        return torch.full(shape, value, dtype=dtype, device=self.device)

    def cast(self, x: torch.Tensor, kind: Kind) -> torch.Tensor:
        return x.to(self.dtype_of(kind))

    def dtype_of(self, kind: Kind) -> torch.dtype:
        return {"float": self.dtype, "int": torch.int64, "bool": torch.bool}[kind]

    def contract(self, a: torch.Tensor, b: torch.Tensor, dim: int) -> torch.Tensor:
        """sum over dim of a * b, as one batched matrix product."""
        rank = a.dim()
        shape = [max(m, n) if m and n else 0 for m, n in zip(a.shape, b.shape, strict=True)]
        rest = [n for n in range(rank) if n != dim]
        batch = [n for n in rest if a.shape[n] > 1 and b.shape[n] > 1]
        left = [n for n in rest if a.shape[n] > 1 and b.shape[n] == 1]
        right = [n for n in rest if n not in batch and n not in left]
        count = [shape[n] for n in batch]
        if not a.numel() or not b.numel():
            return a.new_zeros([1 if n == dim else shape[n] for n in range(rank)])
        x = a.permute(*batch, *left, dim, *right).reshape(*count, -1, a.shape[dim])
        y = b.permute(*batch, dim, *right, *left).reshape(*count, b.shape[dim], -1)
        product = torch.matmul(x, y).reshape([shape[n] for n in (*batch, *left, *right)] + [1])
        order = [*batch, *left, *right, dim]
        return product.permute([order.index(n) for n in range(rank)])

    def largest(
        self, values: torch.Tensor, positions: torch.Tensor, dim: int, count: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        distinct = largest_of_distinct(values, dim, count)
        if distinct is not None:
            return distinct[0], positions.gather(dim, distinct[1])
        values, positions = self.ranked(values, positions, dim, count)
        return values, torch.where(values == -torch.inf, -1, positions)

    @staticmethod
    def ranked(
        values: torch.Tensor, positions: torch.Tensor, dim: int, count: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the largest elements along a dimension, equal ones by position, and where they
        are."""
        ranks = values.nan_to_num(torch.inf, torch.inf, -torch.inf)
        if ranks.dtype == torch.float32:
            order = _keys(ranks, positions).movedim(dim, -1).topk(count).indices.movedim(-1, dim)
        else:
            by_position = positions.argsort(dim=dim, stable=True)
            ranked = ranks.gather(dim, by_position).argsort(dim=dim, descending=True, stable=True)
            order = by_position.gather(dim, ranked.narrow(dim, 0, count))
        return values.gather(dim, order), positions.gather(dim, order)

    def scatter(
        self, output: Any, positions: tuple[Any, ...], value: Any, valid: Any, add: bool
    ) -> None:
        positions = tuple(p[valid] for p in positions)
        output = output if output.dim() else output.reshape(1)
        output.index_put_(positions, value[valid].to(output.dtype), accumulate=add)


def largest_of_distinct(
    values: torch.Tensor, dim: int, count: int
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return the largest numbers, and where they are; None if two of them, or the last one and the
    next, are not known to differ: equal ones, -inf and NaN."""
    if not values.is_cpu or values.shape[dim] <= count or not values.numel():
        return None
    first, order = values.topk(count + 1, dim)
    if not first.diff(dim=dim).max().item() < 0:
        return None
    return first.narrow_copy(dim, 0, count), order.narrow_copy(dim, 0, count)


def _keys(ranks: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Return integers that are in the order of numbers, and of equal ones the first is largest."""
    bits = (ranks + 0.0).view(torch.int32)  # no -0
    in_order = bits ^ (bits >> 31 & 0x7FFFFFFF)
    return (in_order.to(torch.int64) << 32) - positions


def _floordiv(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a // b rounded down; an integer divided by 0 is 0."""
    return _divided(torch.floor_divide, a, b)


def _mod(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Compute a modulo b, with the sign of b; an integer modulo 0 is 0."""
    return _divided(torch.remainder, a, b)


def _divided(divide: Callable[..., torch.Tensor], a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.is_floating_point() or b.is_floating_point():
        return divide(a, b)
    zero = b == 0
    return divide(a, b.masked_fill(zero, 1)).masked_fill_(zero, 0)


# Where torch has two names for one function, one calls the other.
_NAMED = {name: getattr(torch, name) for name in ("add", "sub", "mul", "div", "neg")}
_OWN: dict[str, Callable[..., Any]] = {
    **_NAMED,
    "floordiv": _floordiv,
    "mod": _mod,
}


class TorchTarget:
    """The target of host programs on torch tensors.

    Args:
        device: the inputs' device.
        accumulated: the dtype of sums.
        results: the dtype of float results for which the program names none; if not given, the
            one to which the dtypes of the inputs that decide it are promoted.
    """

    def __init__(
        self,
        device: torch.device,
        accumulated: torch.dtype = torch.float32,
        results: torch.dtype | None = None,
    ) -> None:
        self.device, self.accumulated, self.results = device, accumulated, results

    def promoted(self, tensors: Sequence[torch.Tensor], default: str) -> torch.dtype:
        dtypes = [t.dtype for t in tensors] or [getattr(torch, default)]
        return self.results or reduce(torch.promote_types, dtypes)

    def dtype(self, name: str, kind: Kind, promoted: torch.dtype) -> torch.dtype:
        named = {"accumulated": self.accumulated, "promoted": promoted, "operand": promoted}
        known = named.get(name)
        return known or getattr(torch, name)

    def allocation(self, shape: tuple[int, ...], dtype: torch.dtype) -> Callable[[], torch.Tensor]:
        return partial(torch.empty, shape, dtype=dtype, device=self.device)

    def stand_in(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    def clear(self, tensor: torch.Tensor) -> object:
        return tensor.zero_()

    sort = staticmethod(sort_positions)
