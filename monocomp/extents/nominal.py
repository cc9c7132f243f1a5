"""Nominal sizes: what the compiler takes an extent for when a choice depends on it.

Which of two equal programs is cheaper depends on the extents, and most calls look alike:
features are few and contiguous in memory, everything else is long. So where an extent is
not given, one that is only ever the last of a tensor's dimensions counts as short.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from monocomp.declarations.records import Declarations
from monocomp.extents.intervals import evaluated
from monocomp.machine.gpus import HOPPER
from monocomp.terms import Term
from monocomp.terms.equations import Equations

SHORT, LONG = 64, 16384
MIN_DOT = 16  # the shortest side of a matrix product
ROW_BLOCK, LOOP_BLOCK = 128, 64  # of rows and of a stream, with the usual schedules
COLUMNS = HOPPER.register_file // (2 * ROW_BLOCK)  # of such rows take half of the registers


def nominal_sizes(
    program: Declarations[Term], given: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Return a size for every extent of a program, by representative.

    Args:
        program: what it declares.
        given: sizes that are known, by representative; they win.

    Returns:
        The given size, or the number that an `index` line declares, or what it comes to at these
        sizes, at most `LONG`, or `SHORT` for an extent that tensors of two and more dimensions have
        as their last and no tensor has elsewhere, or `LONG`.
    """
    last: set[str] = set()
    other: set[str] = set()
    for tensor in program.inputs.values():
        extents = program.extents(tensor.name)
        other.update(extents[:-1])
        if len(extents) > 1:
            last.add(extents[-1])
    sizes = {e: SHORT if e in last - other else LONG for e in program.extent_of.values()}
    known = {e: int(b.attr) for e, b in program.bounds.items() if b.op == "const"}
    known.update(given or {})
    sizes.update(known)
    defaults = {n: p.default for n, p in program.params.items() if p.default is not None}
    for extent, bound in program.bounds.items():
        if extent not in known:
            size = evaluated(bound, sizes, defaults)  # which is 0 for sure only if it is given
            sizes[extent] = LONG if size is None else max(1, min(size, LONG))
    return sizes


def power_of_two(n: int) -> int:
    """Return the smallest power of two that is not less than n: it stands for sizes like n."""
    return 1 << max(0, n - 1).bit_length()


def one_tile(size: int) -> int:
    """Return the length of the tile of an axis that is held entirely."""
    return max(MIN_DOT, power_of_two(size))


def split_lengths(size: int) -> tuple[int, int]:
    """Return the lengths of its two tiles: the largest power of two below, and the least for the
    rest."""
    first = one_tile((size + 1) // 2)
    return first, one_tile(size - first)


def without_elements(program: Equations) -> frozenset[str]:
    """Return the extents that are known to be 0."""
    sizes = nominal_sizes(program.declared, program.sizes)
    return frozenset(extent for extent, size in sizes.items() if not size)


def packed_extents(
    program: Equations,
    sizes: Mapping[str, int],
    params: Mapping[str, int | float] | None = None,
) -> dict[str, int]:
    """Return the known extents with those of the indices that planning has made of them."""
    lengths = dict(sizes)
    for extent, bound in program.declared.bounds.items():
        if extent not in lengths:
            size = evaluated(bound, lengths, params)
            if size is not None:
                lengths[extent] = size
    return lengths


def planned_sizes(program: Equations, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return a number for every extent, those of the indices that planning has made as well.

    An extent that depends on a parameter has its nominal size, as one plan serves all values.
    """
    return nominal_sizes(program.declared, packed_extents(program, sizes))


def has_same_elements(program: Equations, sizes: Mapping[str, int]) -> bool:
    """True if each view has as many elements as what it is a view of. It does not if groups are
    unequal: 5 heads are not 2 groups of 5 // 2."""
    known = packed_extents(program, sizes)
    if program.slices is not None:  # whose views are of slices
        return True
    for names in program.views.items():
        extents = ([i.extent for i in program.by_name[n].indices] for n in names)
        before, after = (math.prod(known.get(e, 0) for e in some) for some in extents)
        if before != after:
            return False
    return True
