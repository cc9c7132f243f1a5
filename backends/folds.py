"""Folds of tiles along a dimension: pairs of neighbours are combined, then pairs of these.

    total(x[0..n]) = total(x[0] . x[1], x[2] . x[3], ...)
    prefixes(x)[2n + 1] = prefixes(x[0] . x[1], x[2] . x[3], ...)[n]
    prefixes(x)[2n + 2] = prefixes(x)[2n + 1] . x[2n + 2]

The order is kept, as a monoid need not be commutative, and each takes as many operations on tiles
as the length has bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from monocomp.backends.array_operations import Array, Ops, Tiles

Operation: TypeAlias = Callable[[Tiles, Tiles], Tiles]  # of a monoid


def total(ops: Ops, combine: Operation, dim: int, tiles: Tiles) -> Tiles:
    """Return all elements combined."""
    while tiles[0].shape[dim] > 1:
        halved, last = _pairs(combine, dim, tiles)
        tiles = joined(ops, halved, last, dim) if last[0].shape[dim] else halved
    return tiles


def prefixes(ops: Ops, combine: Operation, dim: int, tiles: Tiles) -> Tiles:
    """Return each element combined with all before it: prefixes of the pairs are every second one,
    the others one step more."""
    count = tiles[0].shape[dim]
    if count < 2:
        return tiles
    odd = prefixes(ops, combine, dim, _pairs(combine, dim, tiles)[0])
    before = parts(odd, dim, slice((count - 1) // 2))
    even = combine(before, parts(tiles, dim, slice(2, None, 2)))
    even = joined(ops, parts(tiles, dim, slice(1)), even, dim)
    both = joined(ops, even, odd, dim)
    halves = (count + 1) // 2
    return parts(both, dim, [n // 2 + n % 2 * halves for n in range(count)])


def _pairs(combine: Operation, dim: int, tiles: Tiles) -> tuple[Tiles, Tiles]:
    """Return neighbours combined, and the last element if it has none."""
    even = tiles[0].shape[dim] // 2 * 2
    left, right = (parts(tiles, dim, slice(n, even, 2)) for n in (0, 1))
    return combine(left, right), parts(tiles, dim, slice(even, None))


def parts(tiles: Tiles, dim: int, part: slice | list[int] | int) -> Tiles:
    """Return the elements at some positions along a dimension."""
    return tuple(x[(slice(None),) * dim + (part,)] for x in tiles)


def joined(ops: Ops, first: Tiles, second: Tiles, dim: int) -> Tiles:
    """Concatenate tiles along a dimension."""
    pairs = (alike(ops, a, b, dim) for a, b in zip(first, second, strict=True))
    return tuple(ops.library.concatenate(p, axis=dim) for p in pairs)


def alike(ops: Ops, a: Array, b: Array, dim: int) -> tuple[Array, Array]:
    """Broadcast two arrays to each other in all dimensions except one."""
    shape = [max(m, n) if m and n else 0 for m, n in zip(a.shape, b.shape, strict=True)]
    both = []
    for x in (a, b):
        shape[dim] = x.shape[dim]
        both.append(ops.library.broadcast_to(x, tuple(shape)))
    return both[0], both[1]
