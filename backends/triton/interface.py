"""The interface of an emitted kernel to the host: its parameters, and the value given for each."""

from __future__ import annotations

from collections.abc import Mapping

from monocomp.blocks.program import Argument, BlockProgram
from monocomp.errors import InternalError
from monocomp.host import arguments as A
from monocomp.host.building import Interface
from monocomp.tile import TileProgram

_SCHEDULED = ("order", "stages", "warps")  # what a schedule says beside block lengths


def interface(kernel: TileProgram, p: BlockProgram) -> Interface:
    """Return the interface of one kernel."""
    lengths = _lengths(p)
    arguments, scheduled = [], []
    for a in p.arguments:
        parameter = str(a.name.attr)
        value = None if a.purpose in _SCHEDULED else _value(p, a, lengths)
        if value is None or isinstance(value, A.Length):
            scheduled.append(parameter)
        else:
            arguments.append(A.Argument(parameter, value))
    grid = []
    for axis in p.grid:
        block = str(p.lengths[axis.name].attr) if axis.role == "row" else None
        grid.append((axis.name, A.Count(axis.extent, block)))
    return Interface(
        kernel,
        p.name,
        tuple(str(a.name.attr) for a in p.arguments),
        tuple(arguments),
        tuple(scheduled),
        tuple(grid),
        p.shared,
        p.added,
        bool(p.rings),
    )


def _lengths(p: BlockProgram) -> dict[str, A.AnyLength]:
    """Return the lengths of blocks along each axis that has blocks."""
    found: dict[str, A.AnyLength] = {}
    firsts = {a.after for a in p.axes.values()}
    for a in p.axes.values():
        length = p.lengths.get(a.name)
        if length is not None and length.op == "number":
            found[a.name] = A.FixedLength(a.name, a.extent, length.attr)
        elif a.after is not None or a.name in firsts:
            found[a.name] = A.HalfLength(a.name, a.extent, a.after)
        elif a.role == "whole":
            found[a.name] = A.HeldLength(a.name, a.extent)
        elif a.role in ("row", "stream"):
            found[a.name] = A.Length(a.name, a.extent, str(p.lengths[a.name].attr))
    return found


def _value(p: BlockProgram, a: Argument, lengths: Mapping[str, A.AnyLength]) -> A.Value:
    match a.purpose, a.of:
        case "pointer", tensor:
            return A.Pointer(tensor)
        case "descriptor", tensor:
            axes = p.blocks[a.dim].axes
            sides = tuple(lengths[x] if x else None for x in axes)
            return A.Descriptor(str(a.name.attr), tensor, sides)
        case "stride", tensor:
            return A.Stride(tensor, a.dim)
        case "size", extent:
            return A.Extent(extent)
        case "param", param:
            return A.Param(param)
        case "block", axis:
            return lengths[axis]
        case "even", axis:
            return A.Even(lengths[axis])
        case "single", axis:
            return A.Single(lengths[axis])
        case "option", "STEP":
            return A.Step(tuple(A.Stride(tensor, held) for tensor, held in p.held.items()))
        case "option", "INDEX":
            return A.Flag("index")
        case "option", "PRECISION":
            return A.Flag("precision")
        case "option", "FAST":
            return A.Flag("fast")
    raise InternalError(f"no argument is {a.purpose} {a.of}")
