"""How the host calls an emitted kernel: its parameters, and what is given for each."""

from __future__ import annotations

from dataclasses import replace

from monocomp.backends.triton.kernel_source import KernelEmitter, KernelSource
from monocomp.errors import InternalError
from monocomp.host.building import Interface
from monocomp.host.program import (
    Argument,
    Count,
    Descriptor,
    Even,
    Extent,
    Flag,
    Length,
    Param,
    Pointer,
    Step,
    Stride,
    Value,
)
from monocomp.tile import TileProgram


def interface(kernel: TileProgram, source: KernelSource, emitter: KernelEmitter) -> Interface:
    """That of one kernel."""
    lengths = _lengths(kernel, emitter)
    arguments, parameters, scheduled = [], [], []
    for purpose, name, dim in source.arguments:
        parameter = emitter._argument(purpose, name, dim)
        parameters.append(parameter)
        if purpose == "order" or (purpose == "block" and lengths[name].tile == "block"):
            scheduled.append(parameter)
            continue
        value = _value(source, parameter, purpose, name, dim, lengths)
        arguments.append(Argument(parameter, value))
    grid = []
    for axis in source.grid:
        block = lengths[axis.name].parameter if axis.role == "row" else None
        grid.append((axis.name, Count(axis.extent, block)))
    return Interface(
        kernel,
        source.name,
        tuple(parameters),
        tuple(arguments),
        tuple(scheduled),
        tuple(grid),
        tuple(source.shared),
        tuple(source.added),
    )


def _lengths(kernel: TileProgram, emitter: KernelEmitter) -> dict[str, Length]:
    """How long blocks are along each axis that has blocks."""
    found = {}
    firsts = {a.after for a in kernel.axes.values()}
    for axis in kernel.axes.values():
        if axis.role in ("row", "stream", "whole"):
            length = Length(axis.name, axis.extent, emitter._block(axis.name))
            if axis.after is not None:
                length = replace(length, tile="second", first=axis.after)
            elif axis.role == "whole":
                length = replace(length, tile="first" if axis.name in firsts else "one")
            found[axis.name] = length
    return found


def _value(
    source: KernelSource,
    parameter: str,
    purpose: str,
    name: str,
    dim: int,
    lengths: dict[str, Length],
) -> Value:
    match purpose:
        case "pointer":
            return Pointer(name)
        case "descriptor":
            axes = source.blocks[dim].axes
            return Descriptor(parameter, name, tuple(lengths[a] if a else None for a in axes))
        case "stride":
            return Stride(name, dim)
        case "size":
            return Extent(name)
        case "param":
            return Param(name)
        case "block":
            return lengths[name]
        case "even":
            return Even(lengths[name])
    match name:
        case "INDEX":
            return Flag("index")
        case "PRECISION":
            return Flag("precision")
        case "FAST":
            return Flag("fast")
        case "STEP":
            return Step(tuple(source.held.items()))
    raise InternalError(f"no argument is {purpose} {name}")
