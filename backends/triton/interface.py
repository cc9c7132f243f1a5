"""The interface of an emitted kernel to the host: its parameters, and the value given for each."""

from __future__ import annotations

from collections.abc import Mapping

from monocomp.blocks import Argument, BlockProgram, Send, walk
from monocomp.blocks.masking.filters import KINDS
from monocomp.blocks.passes.own_rows import GROUPS
from monocomp.errors import InternalError
from monocomp.host import arguments as A
from monocomp.host.building import Interface
from monocomp.host.launches import Map
from monocomp.host.tensors import FRAGMENT
from monocomp.tile import Axis, TileProgram

_SCHEDULED = ("order", "stages", "groups")  # what a schedule says beside block lengths


def interface(kernel: TileProgram, p: BlockProgram) -> Interface:
    """Return the interface of one kernel."""
    lengths = _lengths(p)
    maps = tuple(_map(p, m, n, lengths) for n, m in enumerate(p.maps))
    arguments, scheduled = [], []
    for a in p.arguments:
        parameter = str(a.name.attr)
        value = None if a.purpose in _SCHEDULED else value_of(p, a, lengths)
        if value is None or (isinstance(value, A.Number) and value.op == "setting"):
            scheduled.append(parameter)
        else:
            arguments.append(A.Argument(parameter, value))
    return Interface(
        kernel,
        p.name,
        tuple(arguments),
        tuple(scheduled),
        tuple((axis.name, count(axis, lengths)) for axis in p.grid),
        p.shared,
        p.added,
        bool(p.rings),
        maps,
    )


def count(axis: Axis, lengths: Mapping[str, A.Number]) -> A.Number:
    """Return the number of program instances along an axis."""
    size = A.size(axis.extent)
    return A.Number("cdiv", (size, lengths[axis.name])) if axis.role == "row" else size


def _map(p: BlockProgram, made: BlockProgram, number: int, lengths: Mapping[str, A.Number]) -> Map:
    """Return the map of a kernel, which has the kernel's schedule, whatever its own names are."""
    scheduled = {a.key: A.setting(str(a.name.attr)) for a in p.arguments if a.purpose in _SCHEDULED}
    given = [a for a in made.arguments if a.purpose != "map"]
    arguments = [
        A.Argument(str(a.name.attr), scheduled.get(a.key) or value_of(made, a, lengths))
        for a in given
    ]
    return Map(
        map_name(p, number),
        made.name,
        A.product(count(axis, lengths) for axis in made.grid),
        map_length(made, lengths),
        tuple(arguments),
    )


def map_length(made: BlockProgram, lengths: Mapping[str, A.Number]) -> A.Number:
    """Return how many numbers a map has for a block of rows, of the kernel that makes it."""
    rows = {a.name for a in made.grid}
    (stream,) = (a for a in made.axes.values() if a.name not in rows)
    room = A.Number("cdiv", (A.size(stream.extent), lengths[stream.name]))
    return A.Number("+", (A.const(KINDS), A.product((A.const(KINDS), room))))


def map_name(p: BlockProgram, number: int) -> str:
    """Return the name of a map, which no program's tensor has."""
    return f"{p.name} map {number}"


def _lengths(p: BlockProgram) -> dict[str, A.Number]:
    """Return the lengths of blocks along each axis that has blocks."""
    lengths: dict[str, A.Number] = {}
    firsts = {a.after for a in p.axes.values()}
    for a in p.axes.values():
        known = p.lengths.get(a.name)
        if known is not None and known.op == "number":
            lengths[a.name] = A.const(known.attr)
        elif a.after is not None or a.name in firsts:
            lengths[a.name] = A.length(a.name)
        elif a.role == "whole":
            lengths[a.name] = A.Number("tile", (A.size(a.extent),))
        elif a.role in ("row", "stream"):
            lengths[a.name] = A.setting(str(p.lengths[a.name].attr))
    return lengths


def _is_even(p: BlockProgram, axis: Axis, lengths: Mapping[str, A.Number]) -> A.Number:
    """True if no element of a block is beyond the end of the axis."""
    size, length = A.size(axis.extent), lengths[axis.name]
    if axis.role != "whole":
        return A.Number("==", (A.Number("%", (size, length)), A.const(0)))
    if axis.after is not None:
        return A.Number("==", (size, A.Number("+", (lengths[axis.after], length))))
    is_first = any(a.after == axis.name for a in p.axes.values())
    return A.Number(">=" if is_first else "==", (size, length))


def value_of(p: BlockProgram, a: Argument, lengths: Mapping[str, A.Number]) -> A.Value:
    """Return the value of an argument that no schedule gives, from the lengths of blocks."""
    match a.purpose, a.of:
        case "pointer", tensor:
            return A.Pointer(tensor)
        case "map", _:
            return A.Pointer(map_name(p, a.dim))
        case "descriptor", tensor:
            axes = p.blocks[a.dim].axes
            groups = A.setting(str(GROUPS.attr))
            shares = {x: A.Number("//", (lengths[x], groups)) for x in p.divided}
            sides = tuple({**lengths, **shares}[x] if x else None for x in axes)
            return A.Descriptor(str(a.name.attr), tensor, sides, axes)
        case "adding", tensor:
            (sent,) = (s for s in walk(p.body) if isinstance(s, Send) and s.output == tensor)
            axes, groups = sent.access.block.axes, A.setting(str(GROUPS.attr))
            side, width = (lengths[str(x)] for x in axes[-2:])
            # Each warpgroup has 64 rows of it or more, or else a part of its columns.
            parts = A.Number("min", (groups, A.Number("//", (side, A.const(FRAGMENT[0])))))
            columns = A.Number("//", (width, A.Number("//", (groups, parts))))
            part = A.Number("//", (side, parts)), columns
            return A.Adding(str(a.name.attr), tensor, part, axes)
        case "stride", tensor:
            return A.Stride(tensor, a.dim)
        case "size", extent:
            return A.size(extent)
        case "param", param:
            return A.param(param)
        case "block", axis:
            return lengths[axis]
        case "even", axis:
            return _is_even(p, p.axes[axis], lengths)
        case "single", axis:
            return A.Number("holds", (lengths[axis], A.size(p.axes[axis].extent)))
        case "option", "STEP":
            return A.Step(tuple(A.Stride(tensor, held) for tensor, held in p.held.items()))
        case "option", "INDEX":
            return A.Flag("index")
        case "option", "PRECISION":
            return A.Flag("precision")
        case "option", "FAST":
            return A.Flag("fast")
        case "items", _:
            return A.Flag("items")
        case "counter", _:
            return A.Counter(f"{p.name} claimed")
    raise InternalError(f"no argument is {a.purpose} {a.of}")
