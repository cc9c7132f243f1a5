"""Nominal sizes: what the compiler takes an extent for when a choice depends on it.

Which of two equal programs is cheaper depends on the extents, and most calls look alike:
features are few and contiguous in memory, everything else is long. So where an extent is
not given, one that is only ever the last of a tensor's dimensions counts as short.
"""

from __future__ import annotations

from collections.abc import Mapping

from monocomp.language import syntax
from monocomp.program import Equations, translate_expression

SHORT, LONG = 64, 16384


def nominal_sizes(
    program: syntax.Program, given: Mapping[str, int] | None = None
) -> dict[str, int]:
    """A size for every extent of a program, by representative.

    Args:
        program: a checked program.
        given: sizes that are known, by representative; they win.

    Returns:
        The given size, or the number that an `index` line declares, or `SHORT` for an extent
        that tensors of two and more dimensions have as their last and no tensor has
        elsewhere, or `LONG`.
    """
    last, other = set(), set()
    for tensor in program.inputs.values():
        extents = [program.extent_of.get(d, d) for d in tensor.dims]
        other.update(extents[:-1])
        if len(extents) > 1:
            last.add(extents[-1])
    sizes = {e: SHORT if e in last - other else LONG for e in program.extent_of.values()}
    for extent, expression in program.bounds.items():
        bound = translate_expression(program, expression)
        sizes[extent] = int(bound.attr) if bound.op == "const" else LONG
    return {**sizes, **(given or {})}


def power_of_two(n: int) -> int:
    """The smallest power of two that is not less than n: it stands for sizes like n."""
    return 1 << max(0, n - 1).bit_length()


def without_elements(program: Equations) -> frozenset[str]:
    """The extents that are known to be 0."""
    sizes = nominal_sizes(program.source, program.sizes)
    return frozenset(extent for extent, size in sizes.items() if not size)
