"""Factors that are the same for groups of the elements along a batch dimension.

    sum[d](A[h,m,d] * B[h // r, d, n])  =  sum[d](A[(g,i), m, d] * B[g,d,n])  at h = g * r + i

Heads of a group are rows of one product of matrices, and what they share is not repeated.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch

from monocomp.backends.tape.tile import Tile, common_shape


def group_size(x: Tile, dim: int) -> int:
    """Return how many elements in turn along a dimension are known to be equal; 0 for all."""
    if dim not in x.dims:
        return 0
    if x.value.known is not None:
        parts = x.value.known.unbind(x.dims.index(dim))
        pairs = enumerate(pairwise(parts), 1)
        return math.gcd(len(parts), *(n for n, (p, q) in pairs if not torch.equal(p, q)))
    if x.source is None or x.source.dim == dim:
        return 1
    return math.gcd(*(group_size(operand, dim) for operand in x.source.operands))


def first_of_groups(x: Tile, dim: int, size: int) -> Tile:
    """Record the first elements of groups of equal ones."""
    shape = (*x.shape[:dim], x.shape[dim] // size, *x.shape[dim + 1 :])
    if dim not in x.dims:
        return x.like(x.dims, shape) if x.shape[dim] > 1 else x
    if x.source is None or x.value.known is not None:
        return x.ops.part(x, dim, slice(None, None, size))
    tile = x.source.again(*(first_of_groups(operand, dim, size) for operand in x.source.operands))
    return x.ops.stretched(tile, common_shape(tile.shape, shape))
