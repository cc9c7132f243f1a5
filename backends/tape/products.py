"""Sums of products as products of matrices, of which tables that are looked up are no factor.

    sum[d](A[i,d] * B[j,d] * C[k,d])  =  sum[d]((A[i,d] * B[j,d]) * C[k,d])    as one product
    sum[d](A[i,d] * (B[j,d] + C[k,d]))  =  sum[d](A[i,d] * B[j,d]) + sum[d](A[i,d] * C[k,d])
    sum[d if c[j,d]](A[i,d] * B[j,d])  =  sum[d if any[j](c[j,d])](A[i,d] * ([c[j,d]] * B[j,d]))
    sum[d](A[i,d] * T[p[i,j], d])  =  sum[d](A[i,d] * T[r,d])  at r = p[i,j]
    sum[k](A[i,k] * T[p[i,k], e])  =  sum[r](sum[k if r == p[i,k]](A[i,k]) * T[r,e])

None of them has all elements of the products at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import combinations

import torch

from monocomp.backends.tape.choices import keep
from monocomp.backends.tape.selections import Elements, Selection, scattered, span_of
from monocomp.backends.tape.tile import NO_DIM, Tile, TileOps, common_shape

_FACTORS = 6  # of products of which all ways to split them in two are tried


def sum_products(ops: TileOps, x: Tile, axis: int) -> Tile | None:
    """Record the sum of a product along an axis as products of matrices; None if it is none that
    needs fewer elements."""
    condition, product = _condition_of(x)
    factors = list(_factors(product))
    if not 2 <= len(factors) <= _FACTORS:
        return None
    shape = common_shape(*(f.shape for f in factors))
    every = _size([x, *factors], common_shape(x.shape, shape))
    halves = [
        half
        for half in _halves(factors)
        if all(any(axis in f.dims for f in factors) for factors in half)
        and (condition is None or any(_varies_with(f, condition) for f in half))
    ]
    sizes = [_size(left, shape) + _size(right, shape) for left, right in halves]
    size = min(sizes, default=every)
    if 2 * size >= every:
        return _distributed(ops, x, axis)
    multiply = ops.elementwise["mul"]
    left, right = (reduce(multiply, half) for half in halves[sizes.index(size)])
    if condition is not None:
        left, right = (_where_met(ops, condition, x) for x in (left, right))
    return ops.contract(left, right, axis)


def _condition_of(x: Tile) -> tuple[Tile | None, Tile]:
    """Return a condition and a tile, such that x is 0 where the condition fails."""
    if x.source is not None and x.source.name == "where":
        condition, chosen, other = x.source.operands
        if other.value.number == 0:
            return condition, chosen
    return None, x


def _varies_with(factors: Sequence[Tile], condition: Tile) -> bool:
    """True if a product varies along all dimensions of a condition."""
    return {d for f in factors for d in f.dims} >= {*condition.dims} - {NO_DIM}


def _where_met(ops: TileOps, condition: Tile, x: Tile) -> Tile:
    """Record a factor where a condition holds for some of the elements that it is multiplied with,
    and 0 elsewhere: what no element meets may be anything."""
    for d in {*condition.dims} - {*x.dims, NO_DIM}:
        condition = ops.library.amax(condition, axis=d, keepdims=True)
    return _where(ops, condition, x)


def _where(ops: TileOps, condition: Tile, x: Tile) -> Tile:
    """Record a tile where a condition holds, and 0 elsewhere."""
    zero = ops.full((1,) * len(x.shape), 0, "float" if x.dtype.is_floating_point else "int")
    kept: Tile = ops.library.where(condition, x, zero)
    return kept


def _distributed(ops: TileOps, x: Tile, axis: int) -> Tile | None:
    """Record the sum of a product with a sum among its factors as the sum of two."""
    condition, product = _condition_of(x)
    factors = list(_factors(product))
    for factor in factors:
        if factor.source is None or factor.source.name not in ("add", "sub"):
            continue
        others = [f for f in factors if f is not factor]
        products = [reduce(ops.elementwise["mul"], [*others, x]) for x in factor.source.operands]
        if condition is not None:
            products = [_where(ops, condition, x) for x in products]
        sums = [x for x in (sum_products(ops, x, axis) for x in products) if x is not None]
        if len(sums) == 2:
            return factor.source.again(*sums)
    return None


def _factors(x: Tile) -> Iterator[Tile]:
    if x.source is not None and x.source.name == "mul":
        for operand in x.source.operands:
            yield from _factors(operand)
    else:
        yield x


def _halves(factors: list[Tile]) -> Iterator[tuple[list[Tile], list[Tile]]]:
    """Yield the ways to split factors in two."""
    first, others = factors[0], factors[1:]
    for count in range(len(others)):
        for beside in combinations(range(len(others)), count):
            left = [first, *(others[n] for n in beside)]
            yield left, [f for n, f in enumerate(others) if n not in beside]


def _size(tiles: Sequence[Tile], shape: Sequence[int]) -> int:
    """Return the elements of the product of tiles, or of the table that the only one is read
    from."""
    looked_up = _looked_up(tiles[0]) if len(tiles) == 1 else None
    if looked_up is not None:
        return math.prod(looked_up[0].shape)
    return math.prod(shape[d] for d in {d for x in tiles for d in x.dims if d != NO_DIM})


def contract_table(ops: TileOps, a: Tile, b: Tile, dim: int) -> Tile | None:
    """Record a product with a table that is looked up, as one with the table; None if neither
    factor is one."""
    for x, other in ((a, b), (b, a)):
        looked_up = _looked_up(other)
        if looked_up is None:
            continue
        table, dims, position = looked_up
        varying = {*position.dims} - {NO_DIM}
        size = table.shape[dims.index(None)]
        if dim in varying and dim not in dims:
            own = dim
        else:
            free = sorted(varying - {*x.dims}, key=ops.rank)
            columns = math.prod(position.shape[d] for d in free)
            if dim not in dims or not free or size > 2 * columns:
                continue
            own = free[0]
        elements = Elements(ops, [Selection(own, 0, size, position)])
        if elements.inside or varying & {*dims}:
            continue
        order = [own if d is None else d for d in dims]
        shape = [1] * len(x.shape)
        for d, n in zip(order, table.shape, strict=True):
            shape[d] = n
        plain = Tile(ops, table.value, order, shape)
        if own == dim:
            plain = _where_read(ops, plain, dims.index(None), elements.offsets[dim])
            return ops.contract(scattered(ops, "sum", elements, None, x, x, dim), plain, dim)
        return elements.of(ops.contract(x, plain, dim))
    return None


def _where_read(ops: TileOps, table: Tile, axis: int, place: Tile) -> Tile:
    """Record a table with 0 for what nothing reads, which may be anything. Nothing but a product
    with what is added up at these places reads it."""
    value = table.value
    sizes = [n if d == axis else 1 for d, n in enumerate(value.shape)]

    def run(at: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        is_read = t.new_zeros(sizes[axis]).index_fill_(0, at.reshape(-1), 1)
        kept: torch.Tensor = keep(t, is_read.view(sizes))
        return kept

    operands = place.value, value
    made = ops.recorder.step(("read", axis), run, operands, value.shape, value.dtype)
    return Tile(ops, made, table.dims, table.shape)


def _looked_up(x: Tile) -> tuple[Tile, list[int | None], Tile] | None:
    """Return a table, the dimensions of a tile that its own are, None for the one of which
    elements are looked up, and their positions."""
    table = None if x.source is None else x.source.table
    if x.source is None or table is None:
        return None
    at = x.source.operands
    spans = [span_of(p) for p in at]
    pairs = zip(spans, table.shape, strict=True)
    dims = [s[0] if s is not None and s[1:] == (0, n) else None for s, n in pairs]
    whole = [d for d in dims if d is not None]
    if dims.count(None) != 1 or len({*whole}) < len(whole):
        return None
    return table, dims, at[dims.index(None)]
