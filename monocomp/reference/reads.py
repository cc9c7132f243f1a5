"""Reads at computed positions, and the faults of those that leave their tensor.

A definition is an equation, so that one of its elements lies outside of a tensor matters only
where that element is read. A `Fault` says where, and is handed on until something needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from monocomp.errors import IndexRangeError, MonocompError
from monocomp.language.syntax import Read
from monocomp.reference.named_arrays import (
    Axes,
    Axis,
    Value,
    aligned,
    first_true,
    shape_of,
    somewhere,
)
from monocomp.reference.wide import Array

Point: TypeAlias = Mapping[Axis, int]


@dataclass(frozen=True, slots=True)
class Fault:
    """Reads outside their tensor: where they happen, and the error for one such point."""

    axes: Axes
    happens: Array
    explain: Callable[[Point], MonocompError]


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or a definition that has been evaluated, over its own axes."""

    axes: Axes
    array: Array
    absent: Array | None = None
    faults: tuple[Fault, ...] = ()


def gather(
    text: str, node: Read, tensor: Tensor, positions: Sequence[Value], guard: Value | None
) -> tuple[Value, list[Fault]]:
    """The elements at computed positions, one for each dimension; 0 where the guard fails."""
    axes, at = aligned(*positions)
    wanted = np.broadcast_to(somewhere(guard, axes), shape_of(axes))
    faults = []
    inside = wanted
    for dimension, position in enumerate(at):
        fits = (position >= 0) & (position < tensor.array.shape[dimension])
        if (wanted & ~fits).any():
            explain = _leaves(text, node, tensor, dimension, axes, position)
            faults.append(Fault(axes, wanted & ~fits, explain))
        inside = inside & fits
    for fault in tensor.faults:
        faults += _inherited(fault, tensor, axes, at, inside)
    absent = None if tensor.absent is None else _take(tensor.absent, at, inside)
    return Value(axes, _take(tensor.array, at, inside), absent), faults


def _leaves(
    text: str, node: Read, tensor: Tensor, dimension: int, axes: Axes, position: Array
) -> Callable[[Point], MonocompError]:
    """The error for a read outside its tensor."""

    def explain(point: Point) -> MonocompError:
        extent = tensor.array.shape[dimension]
        index = tensor.axes[dimension].index
        named = f"dimension {dimension}" if index.startswith(".") else f"dimension '{index}'"
        valid = f"0 to {extent - 1}" if extent else "none, as it has no element"
        return IndexRangeError(
            f"'{node.name}' is read at {_pick(position, axes, point)} along its {named}",
            text=text,
            spans=node.subscripts[dimension].span if text else (),
            notes=(f"valid positions: {valid}", *_where(point)),
            help="guard the read with a filter or where(...)",
        )

    return explain


def _inherited(
    fault: Fault, tensor: Tensor, axes: Axes, at: list[Array], inside: Array
) -> Iterator[Fault]:
    """Reading an element of a definition that could not be evaluated is a fault here."""
    bad = somewhere(Value(fault.axes, fault.happens), tensor.axes)
    happens = inside & _take(np.broadcast_to(bad, shape_of(tensor.axes)), at, inside)

    def explain(point: Point) -> MonocompError:
        there = [_pick(position, axes, point) for position in at]
        fixed = {a: n for a, n in zip(tensor.axes, there, strict=True) if a in fault.axes}
        return fault.explain(first_true(fault.happens, fault.axes, fixed))

    if happens.any():
        yield Fault(axes, happens, explain)


def _take(array: Array, at: list[Array], inside: Array) -> Array:
    """The elements at computed positions; 0 where a position is not to be read."""
    if array.size == 0:
        return np.zeros(inside.shape, array.dtype)
    found = array[tuple(np.where(inside, position, 0) for position in at)]
    return found if inside.all() else np.where(inside, found, np.zeros((), array.dtype))


def _pick(array: Array, axes: Axes, point: Point) -> int:
    """An integer array's element at a point; dimensions of length 1 hold for all."""
    offsets = tuple(
        point[axis] - axis.start if length > 1 else 0
        for axis, length in zip(axes, array.shape, strict=True)
    )
    return int(array[offsets])


def _where(point: Point) -> Iterator[str]:
    if point:
        yield "at " + ", ".join(f"{axis.index} = {value}" for axis, value in point.items())


def widened(fault: Fault, part: Axis, axis: Axis) -> Fault:
    """A fault on a part of an axis as one on the axis."""
    if part not in fault.axes:
        return fault
    at = fault.axes.index(part)
    axes = tuple(axis if a is part else a for a in fault.axes)
    happens = np.zeros(shape_of(axes), bool)
    inside = (slice(None),) * at + (slice(part.start - axis.start, part.stop - axis.start),)
    happens[inside] = fault.happens

    def explain(point: Point) -> MonocompError:
        return fault.explain({part if a is axis else a: n for a, n in point.items()})

    return Fault(axes, happens, explain)
