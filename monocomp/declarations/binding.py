"""Bind what a call gives a program: inputs and parameters by name, and the extent of every index.

One index name has one extent. A call reads extents off the shapes of the inputs, evaluates
the declared ones, and refuses two sizes for one index, naming both tensors. Nothing here
looks at elements, so shapes are all it needs.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, NoReturn, TypeVar

from monocomp.declarations.record import record
from monocomp.declarations.records import Declarations, Input, Origin, Param
from monocomp.errors import (
    InputError,
    InternalError,
    ShapeError,
    count_of,
    did_you_mean,
    in_text,
    quoted,
    shorten,
)

MAX_EXTENT = 2**63 - 1
Size = TypeVar("Size")


@record()
class Binding:
    """The extents of a call, by index name and representative, and its parameters."""

    extents: dict[str, int]
    params: dict[str, int | float]


def bind(
    declared: Declarations[Size],
    origin: Origin,
    shapes: Mapping[str, tuple[int, ...]],
    params: Mapping[str, object],
    evaluated: Callable[[Size, Mapping[str, int], Mapping[str, int | float]], int | None],
) -> Binding:
    """Return extents and parameters of a call, or an error that says what does not fit.

    Args:
        declared: what the program declares.
        origin: where it comes from.
        shapes: the shape of each input.
        params: those that `signature` finds; the others take their defaults.
        evaluated: the number that a declared extent is, for others by representative and for
            parameters; None if it divides by zero.
    """
    values = {
        name: param.default if name not in params else _value(param, params[name])
        for name, param in declared.params.items()
    }
    known = {name: value for name, value in values.items() if value is not None}
    return Binding(extents_of(declared, origin, shapes, known, evaluated), known)


def extents_of(
    declared: Declarations[Size],
    origin: Origin,
    shapes: Mapping[str, tuple[int, ...]],
    params: Mapping[str, int | float],
    evaluated: Callable[[Size, Mapping[str, int], Mapping[str, int | float]], int | None],
) -> dict[str, int]:
    """Return extents by index name and representative; arguments as for `bind`, with all
    parameters."""
    sizes = _Sizes(declared, origin)
    with in_text(origin.text):
        for name, at in declared.inputs.items():
            sizes.read_off(at, tuple(shapes[name]))
        for name, bound in declared.bounds.items():
            sizes.declare(name, evaluated(bound, sizes.found, params))
        return sizes.by_name()


def signature(
    declared: Declarations[Any], args: Sequence[object], kwargs: Mapping[str, object]
) -> tuple[dict[str, object], dict[str, object]]:
    """Return the arguments of a call as inputs and parameters by name.

    Args:
        declared: what the program declares.
        args: inputs by position, in the order of the `input` lines.
        kwargs: inputs and parameters by name.
    """
    names = list(declared.inputs)
    if args:
        check_order(declared)
    if len(args) > len(names):
        raise InputError(
            f"{len(args)} inputs are given by position, and the program has {len(names)}",
            notes=(_accepted(declared),),
            help="parameters are given by name" if declared.params else None,
        )
    inputs = dict(zip(names, args, strict=False))
    params: dict[str, object] = {}
    for name, value in kwargs.items():
        if name in inputs and name in names[: len(args)]:
            position = names.index(name) + 1
            raise InputError(
                f"input '{name}' is given twice, by position ({position}) and by name",
                notes=(_accepted(declared),),
            )
        if name in declared.inputs:
            inputs[name] = value
        elif name in declared.params:
            params[name] = value
        else:
            raise InputError(
                f"the program has no input or parameter '{name}'",
                notes=(_accepted(declared),),
                help=did_you_mean(str(name), (*names, *declared.params)),
            )
    missing = [name for name in names if name not in inputs]
    missing += [
        name for name, at in declared.params.items() if at.default is None and name not in params
    ]
    if missing:
        _missing("input" if missing[0] in declared.inputs else "parameter", missing, declared)
    return {name: inputs[name] for name in names}, params


def check_order(declared: Declarations[Any]) -> None:
    """Refuse inputs by position where the program does not give their order."""
    if declared.has_order:
        return
    by_name = ", ".join(f"{name}=..." for name in declared.inputs)
    undeclared = [at for at in declared.inputs.values() if at.name in declared.undeclared]
    line = ", ".join(at.declaration for at in undeclared)
    raise InputError(
        "inputs are given by position, and no `input` line declares "
        f"{quoted(at.name for at in undeclared)}",
        notes=("an order of inputs is that of their declarations",),
        help=f"pass {by_name}, or declare them in the order of the call: input {line}",
    )


# Names


def _accepted(declared: Declarations[Any]) -> str:
    parts = ["inputs: " + (", ".join(map(str, declared.inputs.values())) or "none")]
    if declared.params:
        parts.append("parameters: " + ", ".join(map(str, declared.params.values())))
    return "; ".join(parts)


def _missing(what: str, missing: list[str], declared: Declarations[Any]) -> NoReturn:
    raise InputError(
        f"{what} {quoted(missing)} is missing"
        if len(missing) == 1
        else f"missing: {quoted(missing)}",
        notes=(_accepted(declared),),
        help=f"pass {missing[0]}=... or give it by position"
        if what == "input" and declared.has_order
        else f"pass {missing[0]}=...",
    )


# Parameters


def _value(param: Param, value: object) -> int | float:
    """Return a parameter's value in its type: an int stays exact, a condition is no number."""
    number = _number(value)
    if number is not None and param.kind == "float":
        return _as_float(param, value, number)
    if isinstance(number, float) and number.is_integer():
        return int(number)
    if isinstance(number, int):
        return number
    wanted = "an integer" if param.kind == "int" else "a number"
    raise InputError(
        f"parameter '{param.name}' must be {wanted}, not {_shown_value(value)}",
        notes=(f"its declaration: param {param}",),
    )


def _number(given: object) -> int | float | None:
    """Return an int or a float out of anything that is one, such as a scalar of an array
    library."""
    value: Any = given
    dtype: Any = getattr(value, "dtype", None)
    axes: Any = getattr(value, "ndim", 0)
    if isinstance(given, bool | str | bytes) or axes:
        return None
    if "bool" in str(dtype) or "complex" in str(dtype):
        return None
    if getattr(dtype, "kind", "f") in "USmM":  # text and times of NumPy
        return None
    if hasattr(value, "detach"):
        value = value.detach()
    for convert in (operator.index, float):
        try:
            number: int | float = convert(value)
        except OverflowError:
            return math.inf
        except Exception:  # other libraries raise what they like
            continue
        return number
    return None


def _as_float(param: Param, value: Any, number: int | float) -> float:
    """Return the nearest float; no finite number is infinity."""
    with suppress(OverflowError):
        converted = float(number)
        if not math.isinf(converted) or value == converted:
            return converted
    raise InputError(
        f"parameter '{param.name}' is {_shown_value(value)}, and floats end at 1.8e308",
        help=f"give {param.name} a smaller value, or math.inf",
    )


def _shown_value(value: object) -> str:
    """Print a value in few characters: long integers, and objects of any kind, may have no
    others."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    try:
        return shorten(ascii(value))
    except Exception:  # of a user's own `__repr__`, which may raise anything
        return f"a {type(value).__name__}"


# Extents


@record()
class _Source:
    """The source of an index's size: an input's shape, or a declaration."""

    index: str
    size: int
    at: Input | None = None
    shape: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Return the name that has a position in the text: the input's, or else the index's."""
        return self.index if self.at is None else self.at.name

    def note(self, origin: Origin) -> str:
        """Return the size and where it is from."""
        if self.at is not None:
            shape = _named(self.at, self.shape)
            return f"{self.index} = {self.size} from {self.name}, shape {shape}"
        declared = f"index {self.index} < {origin.quoted(self.name)}"
        return f"{self.index} = {self.size} from its declaration, {declared}"


class _Sizes:
    """The size of every representative, and where it was read off."""

    def __init__(self, declared: Declarations[Any], origin: Origin) -> None:
        self._declared, self._origin = declared, origin
        self._sources: dict[str, _Source] = {}
        self.found: dict[str, int] = {}

    def read_off(self, at: Input, shape: tuple[int, ...]) -> None:
        """Take the extents that an input's shape gives."""
        if len(shape) != len(at.dims):
            raise ShapeError(
                f"'{at.name}' has {count_of(len(at.dims), 'dimension')}, {at}, "
                f"and a tensor with {len(shape)} is given",
                spans=self._origin.span(at.name),
                notes=(f"{at.name} has shape {tuple(shape)}",),
                help=f"pass {at.name} with the dimensions of {at}",
            )
        for dim, size in zip(at.dims, shape, strict=True):
            self._add(_Source(dim, size, at, shape))

    def declare(self, name: str, size: int | None) -> None:
        """Take a declared extent."""
        spans = self._origin.span(name)
        if size is None:
            raise ShapeError(
                "an extent divides by zero",
                spans=spans,
                help="maximum(1, ...) keeps a divisor from being zero",
            )
        if not 0 <= size <= MAX_EXTENT:
            what = "negative" if size < 0 else "too large"
            help = f"it is declared as {self._origin.quoted(name)}"
            raise ShapeError(
                f"the extent of index '{name}' is {what}: {_shown_value(size)}",
                spans=spans,
                help=f"{help}; maximum(0, ...) keeps it from being negative" if size < 0 else help,
            )
        self._add(_Source(name, size))

    def by_name(self) -> dict[str, int]:
        """Return the extent of every index and made-up dimension."""
        table = self._declared.extent_of
        return {name: self._size(table[name]) for name in (*table, *table.values())}

    def _size(self, extent: str) -> int:
        if extent not in self.found:
            raise InternalError(f"no extent for index '{extent}'")
        return self.found[extent]

    def _add(self, source: _Source) -> None:
        extent = self._declared.extent_of[source.index]
        first = self._sources.setdefault(extent, source)
        self.found[extent] = first.size
        if first.size == source.size:
            return
        if first.index == source.index:
            message = f"index '{first.index}' has two sizes"
        else:
            message = f"indices '{first.index}' and '{source.index}' meet and have two sizes"
        help = "pass tensors that agree with the declaration"
        if first.at is source.at:
            help = f"{first.name} is read with one index on two dimensions of different size"
        elif source.at is not None and first.at is not None:
            help = f"use another index name in {source.name} if these axes are not meant to meet"
        spans = map(self._origin.span, (first.name, source.name))
        raise ShapeError(
            message,
            spans=tuple(dict.fromkeys(chain.from_iterable(spans))),
            notes=(first.note(self._origin), source.note(self._origin)),
            help=help,
        )


def _named(at: Input, shape: tuple[int, ...]) -> str:
    """Return a shape with the names of its indices, such as (q=128, d=64)."""
    parts = [
        str(size) if dim.startswith(".") else f"{dim}={size}"
        for dim, size in zip(at.dims, shape, strict=True)
    ]
    return f"({', '.join(parts)})"
