"""Nominal sizes: what the compiler takes an extent for when a choice depends on it.

Which of two equal programs is cheaper depends on the extents, and most calls look alike:
features are few and contiguous in memory, everything else is long. So where an extent is
not given, one that is only ever the last of a tensor's dimensions counts as short.
"""

from __future__ import annotations

from collections.abc import Mapping

from monocomp.equations import Equations
from monocomp.terms.declarations import Declarations

SHORT, LONG = 64, 16384


def nominal_sizes(program: Declarations, given: Mapping[str, int] | None = None) -> dict[str, int]:
    """A size for every extent of a program, by representative.

    Args:
        program: what it declares.
        given: sizes that are known, by representative; they win.

    Returns:
        The given size, or the number that an `index` line declares, or `SHORT` for an extent
        that tensors of two and more dimensions have as their last and no tensor has
        elsewhere, or `LONG`.
    """
    last: set[str] = set()
    other: set[str] = set()
    for tensor in program.inputs.values():
        extents = program.extents(tensor.name)
        other.update(extents[:-1])
        if len(extents) > 1:
            last.add(extents[-1])
    sizes = {e: SHORT if e in last - other else LONG for e in program.extent_of.values()}
    for extent, bound in program.bounds.items():
        sizes[extent] = int(bound.attr) if bound.op == "const" else LONG
    return {**sizes, **(given or {})}


def power_of_two(n: int) -> int:
    """The smallest power of two that is not less than n: it stands for sizes like n."""
    return 1 << max(0, n - 1).bit_length()


def without_elements(program: Equations) -> frozenset[str]:
    """The extents that are known to be 0."""
    sizes = nominal_sizes(program.declared, program.sizes)
    return frozenset(extent for extent, size in sizes.items() if not size)
