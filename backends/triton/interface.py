"""How the host calls an emitted kernel: its parameters, and what is given for each."""

from __future__ import annotations

from monocomp.backends.triton.kernel_source import KernelEmitter, KernelSource
from monocomp.errors import InternalError
from monocomp.host import program as H
from monocomp.host.building import Interface
from monocomp.tile import TileProgram


def interface(kernel: TileProgram, source: KernelSource, emitter: KernelEmitter) -> Interface:
    """That of one kernel."""
    lengths = _lengths(kernel, emitter)
    arguments, scheduled = [], []
    for parameter, given in zip(source.parameters, source.arguments, strict=True):
        purpose, name, dim = given
        if purpose == "order" or (purpose == "block" and isinstance(lengths[name], H.Length)):
            scheduled.append(parameter)
            continue
        value = _value(source, parameter, purpose, name, dim, lengths)
        arguments.append(H.Argument(parameter, value))
    grid = []
    for axis in source.grid:
        block = emitter._block(axis.name) if axis.role == "row" else None
        grid.append((axis.name, H.Count(axis.extent, block)))
    return Interface(
        kernel,
        source.name,
        tuple(source.parameters),
        tuple(arguments),
        tuple(scheduled),
        tuple(grid),
        tuple(source.shared),
        tuple(source.added),
    )


def _lengths(kernel: TileProgram, emitter: KernelEmitter) -> dict[str, H.AnyLength]:
    """How long blocks are along each axis that has blocks."""
    found: dict[str, H.AnyLength] = {}
    firsts = {a.after for a in kernel.axes.values()}
    for a in kernel.axes.values():
        if a.after is not None or a.name in firsts:
            found[a.name] = H.HalfLength(a.name, a.extent, a.after)
        elif a.role == "whole":
            found[a.name] = H.HeldLength(a.name, a.extent)
        elif a.role in ("row", "stream"):
            found[a.name] = H.Length(a.name, a.extent, emitter._block(a.name))
    return found


def _value(
    source: KernelSource,
    parameter: str,
    purpose: str,
    name: str,
    dim: int,
    lengths: dict[str, H.AnyLength],
) -> H.Value:
    match purpose, name:
        case "pointer", _:
            return H.Pointer(name)
        case "descriptor", _:
            axes = source.blocks[dim].axes
            return H.Descriptor(parameter, name, tuple(lengths[a] if a else None for a in axes))
        case "stride", _:
            return H.Stride(name, dim)
        case "size", _:
            return H.Extent(name)
        case "param", _:
            return H.Param(name)
        case "block", _:
            return lengths[name]
        case "even", _:
            return H.Even(lengths[name])
        case "option", "STEP":
            return H.Step(tuple(H.Stride(tensor, held) for tensor, held in source.held.items()))
        case "option", "INDEX":
            return H.Flag("index")
        case "option", "PRECISION":
            return H.Flag("precision")
        case "option", "FAST":
            return H.Flag("fast")
    raise InternalError(f"no argument is {purpose} {name}")
