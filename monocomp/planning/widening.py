"""Widening: floats of 8 bits that many blocks of rows read are converted once, before kernels run.

A product takes them in the dtype of the computed operand that they meet, so each block of rows
would convert all of its stream anew. Converted beforehand, 8 bits of each are read once and 16
written, and products read them as they are. The conversion is exact.

Where integers are read, as lengths and tables of pages are, they may tell that most of a tensor is
never needed: then it stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from monocomp.costs.cost import BYTE_TIME, ELEMENT_BYTES
from monocomp.declarations.dtypes import NARROW
from monocomp.extents.nominal import ROW_BLOCK
from monocomp.machine.gpus import HOPPER
from monocomp.tile import TileProgram

CONVERSION_TIME = HOPPER.elementwise // HOPPER.conversions


def widened(
    kernels: Sequence[TileProgram], sizes: Mapping[str, int], dtypes: Mapping[str, str]
) -> frozenset[str]:
    """Return the inputs of 8 bits that are converted before: all that are read as tiles, or none.

    Args:
        kernels: all that run.
        sizes: extents, as far as they are known.
        dtypes: of inputs.
    """
    narrow = {n for n, d in dtypes.items() if d in NARROW}
    read = {k.name: _tiles(k) & narrow for k in kernels}
    is_worth_it = all(_has_many_rows(k, sizes) for k in kernels if read[k.name])
    return frozenset().union(*read.values()) if is_worth_it else frozenset()


def _tiles(kernel: TileProgram) -> set[str]:
    """Return the inputs of which a kernel loads tiles."""
    blocked = {*kernel.axis_names("row", "stream", "whole")}
    loads = (e for e in kernel.expressions if e.op == "load")
    return {e.attr for e in loads if len(e.axes & blocked) > 1}


def _has_many_rows(kernel: TileProgram, sizes: Mapping[str, int]) -> bool:
    """True if blocks of rows, each of which reads all, convert for longer than a copy takes."""
    rows = math.prod(sizes.get(kernel.axes[a].extent, 1) for a in kernel.axis_names("row"))
    multiplies = bool(kernel.products)
    reads_all = all(t.kind != "int" for t in kernel.inputs.values())
    is_longer = rows / ROW_BLOCK * CONVERSION_TIME >= (1 + ELEMENT_BYTES) * BYTE_TIME
    return multiplies and reads_all and is_longer
