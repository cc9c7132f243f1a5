"""How the host calls an emitted kernel: its parameters, and what is given for each."""

from __future__ import annotations

from collections.abc import Mapping

from monocomp.blocks.program import Argument, BlockProgram
from monocomp.errors import InternalError
from monocomp.host import program as H
from monocomp.host.building import Interface
from monocomp.tile import TileProgram

_SCHEDULED = ("order", "stages", "warps")  # what a schedule says beside block lengths


def interface(kernel: TileProgram, p: BlockProgram) -> Interface:
    """That of one kernel."""
    lengths = _lengths(p)
    arguments, scheduled = [], []
    for a in p.arguments:
        parameter = str(a.name.attr)
        value = None if a.purpose in _SCHEDULED else _value(p, a, lengths)
        if value is None or isinstance(value, H.Length):
            scheduled.append(parameter)
        else:
            arguments.append(H.Argument(parameter, value))
    grid = []
    for axis in p.grid:
        block = str(p.lengths[axis.name].attr) if axis.role == "row" else None
        grid.append((axis.name, H.Count(axis.extent, block)))
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


def _lengths(p: BlockProgram) -> dict[str, H.AnyLength]:
    """How long blocks are along each axis that has blocks."""
    found: dict[str, H.AnyLength] = {}
    firsts = {a.after for a in p.axes.values()}
    for a in p.axes.values():
        length = p.lengths.get(a.name)
        if length is not None and length.op == "number":
            found[a.name] = H.FixedLength(a.name, a.extent, length.attr)
        elif a.after is not None or a.name in firsts:
            found[a.name] = H.HalfLength(a.name, a.extent, a.after)
        elif a.role == "whole":
            found[a.name] = H.HeldLength(a.name, a.extent)
        elif a.role in ("row", "stream"):
            found[a.name] = H.Length(a.name, a.extent, str(p.lengths[a.name].attr))
    return found


def _value(p: BlockProgram, a: Argument, lengths: Mapping[str, H.AnyLength]) -> H.Value:
    match a.purpose, a.of:
        case "pointer", tensor:
            return H.Pointer(tensor)
        case "descriptor", tensor:
            axes = p.blocks[a.dim].axes
            sides = tuple(lengths[x] if x else None for x in axes)
            return H.Descriptor(str(a.name.attr), tensor, sides)
        case "stride", tensor:
            return H.Stride(tensor, a.dim)
        case "size", extent:
            return H.Extent(extent)
        case "param", param:
            return H.Param(param)
        case "block", axis:
            return lengths[axis]
        case "even", axis:
            return H.Even(lengths[axis])
        case "option", "STEP":
            return H.Step(tuple(H.Stride(tensor, held) for tensor, held in p.held.items()))
        case "option", "INDEX":
            return H.Flag("index")
        case "option", "PRECISION":
            return H.Flag("precision")
        case "option", "FAST":
            return H.Flag("fast")
    raise InternalError(f"no argument is {a.purpose} {a.of}")
