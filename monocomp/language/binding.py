"""What a call gives a program: inputs and parameters by name, and the extent of every index.

One index name has one extent. A call reads extents off the shapes of the inputs, evaluates
the declared ones, and refuses two sizes for one index, naming both tensors. Nothing here
looks at elements, so shapes are all it needs.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any, NoReturn

from monocomp.errors import (
    InputError,
    InternalError,
    ShapeError,
    Span,
    did_you_mean,
    in_text,
    shorten,
)
from monocomp.language import syntax as S

MAX_EXTENT = 2**63 - 1
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    **{"+": operator.add, "-": operator.sub, "*": operator.mul},
    **{"//": operator.floordiv, "%": operator.mod},
}


@dataclass(frozen=True)
class Binding:
    """The extents of a call, by index name and representative, and its parameters."""

    extents: dict[str, int]
    params: dict[str, int | float]


def bind(
    program: S.Program, shapes: Mapping[str, tuple[int, ...]], params: Mapping[str, object]
) -> Binding:
    """Extents and parameters of a call, or an error that says what does not fit.

    Args:
        program: a checked program.
        shapes: the shape of each input.
        params: the parameters given; the others take their defaults.
    """
    _same_names("input", shapes, program.inputs, program.inputs)
    required = [name for name, param in program.params.items() if param.default is None]
    _same_names("parameter", params, program.params, required)
    values = {
        name: param.default if name not in params else _value(param, params[name])
        for name, param in program.params.items()
    }
    known = {name: value for name, value in values.items() if value is not None}
    sizes = _Sizes(program)
    with in_text(program.text):
        for name, at in program.inputs.items():
            sizes.read_off(at, tuple(shapes[name]))
        for name in _bound_order(program):
            sizes.declare(name, program.bounds[name], known)
        return Binding(sizes.by_name(), known)


def signature(
    program: S.Program, args: Sequence[object], kwargs: Mapping[str, object]
) -> tuple[dict[str, object], dict[str, object]]:
    """The arguments of a call as inputs and parameters by name.

    Args:
        program: a checked program.
        args: inputs by position, in order of their first appearance.
        kwargs: inputs and parameters by name.
    """
    names = list(program.inputs)
    if len(args) > len(names):
        raise InputError(
            f"{len(args)} inputs are given by position, and the program has {len(names)}",
            notes=(_accepted(program),),
            help="parameters are given by name" if program.params else None,
        )
    inputs = dict(zip(names, args, strict=False))
    params: dict[str, object] = {}
    for name, value in kwargs.items():
        if name in inputs and name in names[: len(args)]:
            place = names.index(name) + 1
            raise InputError(
                f"input '{name}' is given twice, by position ({place}) and by name",
                notes=(_accepted(program),),
            )
        if name in program.inputs:
            inputs[name] = value
        elif name in program.params:
            params[name] = value
        else:
            _unknown("input or parameter", name, (*names, *program.params), _accepted(program))
    missing = [name for name in names if name not in inputs]
    missing += [
        name for name, at in program.params.items() if at.default is None and name not in params
    ]
    if missing:
        _missing("input" if missing[0] in program.inputs else "parameter", missing, program)
    return {name: inputs[name] for name in names}, params


# Names


def _accepted(program: S.Program) -> str:
    parts = ["inputs: " + (", ".join(_form(at) for at in program.inputs.values()) or "none")]
    if program.params:
        parts.append("parameters: " + ", ".join(_param_form(at) for at in program.params.values()))
    return "; ".join(parts)


def _param_form(param: S.Param) -> str:
    default = "" if param.default is None else f" = {param.default}"
    return f"{param.name}: {param.kind}{default}"


def _form(at: S.Input) -> str:
    """An input as the program reads it, `_` where no index names a dimension."""
    dims = ",".join("_" if dim.startswith(".") else dim for dim in at.dims)
    return f"{at.name}[{dims}]" if dims else at.name


def _same_names(
    what: str, given: Iterable[str], known: Mapping[str, S.Input | S.Param], required: Iterable[str]
) -> None:
    forms = [_form(at) if isinstance(at, S.Input) else _param_form(at) for at in known.values()]
    accepted = f"{what}s: {', '.join(forms) or 'none'}"
    names = list(given)
    for name in names:
        if name not in known:
            _unknown(what, name, known, accepted)
    for name in required:
        if name not in names:
            raise InputError(f"{what} '{name}' is missing", notes=(accepted,))


def _unknown(what: str, name: str, known: Iterable[str], accepted: str) -> NoReturn:
    raise InputError(
        f"the program has no {what} '{name}'",
        notes=(accepted,),
        help=did_you_mean(str(name), known),
    )


def _missing(what: str, missing: list[str], program: S.Program) -> NoReturn:
    quoted = ", ".join(f"'{name}'" for name in missing)
    raise InputError(
        f"{what} {quoted} is missing" if len(missing) == 1 else f"missing: {quoted}",
        notes=(_accepted(program),),
        help=f"pass {missing[0]}=... or give it by position"
        if what == "input"
        else f"pass {missing[0]}=...",
    )


# Parameters


def _value(param: S.Param, given: object) -> int | float:
    """A parameter's value in its type: an int stays exact, a condition is no number."""
    number = _number(given)
    if number is not None and param.kind == "float":
        return _as_float(param, given, number)
    if isinstance(number, float) and number.is_integer():
        return int(number)
    if isinstance(number, int):
        return number
    wanted = "an integer" if param.kind == "int" else "a number"
    raise InputError(
        f"parameter '{param.name}' must be {wanted}, not {_shown_value(given)}",
        notes=(f"its declaration: param {_param_form(param)}",),
    )


def _number(given: object) -> int | float | None:
    """An int or a float out of anything that is one, such as a scalar of an array library."""
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


def _as_float(param: S.Param, given: Any, number: int | float) -> float:
    """The nearest float; no finite number is infinity."""
    with suppress(OverflowError):
        found = float(number)
        if not math.isinf(found) or given == found:
            return found
    raise InputError(
        f"parameter '{param.name}' is {_shown_value(given)}, and floats end at 1.8e308",
        help=f"give {param.name} a smaller value, or math.inf",
    )


def _shown_value(given: object) -> str:
    """In few characters: long integers, and objects of any kind, may have no others."""
    if isinstance(given, int) and given.bit_length() > 128:
        return f"an integer of {given.bit_length()} bits"
    try:
        return shorten(ascii(given))
    except Exception:
        return f"a {type(given).__name__}"


# Extents


def _bound_order(program: S.Program) -> list[str]:
    """The declared extents, each after those that it mentions."""
    graph = {
        name: {program.extent_of[e.index] for e in S.walk(bound) if isinstance(e, S.Extent)}
        for name, bound in program.bounds.items()
    }
    return [name for name in TopologicalSorter(graph).static_order() if name in program.bounds]


@dataclass(frozen=True)
class _Source:
    """What said that an index has a size."""

    index: str
    size: int
    by: S.Input | S.Expr
    shape: tuple[int, ...] = ()

    @property
    def tensor(self) -> str | None:
        """The input whose shape it was, if it was one."""
        return self.by.name if isinstance(self.by, S.Input) else None

    def note(self, text: str) -> str:
        """The size and where it is from, in a program of this text."""
        if isinstance(self.by, S.Input):
            shape = _named(self.by, self.shape)
            return f"{self.index} = {self.size} from {self.by.name}, shape {shape}"
        declared = f"index {self.index} < {_shown(text, self.by)}"
        return f"{self.index} = {self.size} from its declaration, {declared}"


class _Sizes:
    """The size of every representative, and where it was read off."""

    def __init__(self, program: S.Program) -> None:
        self._program = program
        self._sources: dict[str, _Source] = {}

    def read_off(self, at: S.Input, shape: tuple[int, ...]) -> None:
        """Take the extents that an input's shape gives."""
        if len(shape) != len(at.dims):
            form = _form(at)
            raise ShapeError(
                f"'{at.name}' has {len(at.dims)} dimension{'s' * (len(at.dims) != 1)}, {form}, "
                f"and a tensor with {len(shape)} is given",
                spans=at.span,
                notes=(f"{at.name} has shape {tuple(shape)}",),
                help=f"pass {at.name} with the dimensions of {form}",
            )
        for dim, size in zip(at.dims, shape, strict=True):
            self._add(_Source(dim, size, at, shape))

    def declare(self, name: str, bound: S.Expr, params: Mapping[str, int | float]) -> None:
        """Evaluate a declared extent."""
        text = self._program.text
        size = self._evaluate(bound, params)
        if not 0 <= size <= MAX_EXTENT:
            what = "negative" if size < 0 else "too large"
            shown = _shown(text, bound)
            raise ShapeError(
                f"the extent of index '{name}' is {what}: {_shown_value(size)}",
                spans=bound.span,
                help=f"it is declared as {shown}; maximum(0, ...) keeps it from being negative"
                if size < 0
                else f"it is declared as {shown}",
            )
        self._add(_Source(name, size, bound))

    def by_name(self) -> dict[str, int]:
        """The extent of every index and made-up dimension."""
        return {
            name: self._size(name, Span(0, 0))
            for name in (*self._program.extent_of, *self._program.extent_of.values())
        }

    def _add(self, source: _Source) -> None:
        first = self._sources.setdefault(self._program.extent_of[source.index], source)
        if first.size == source.size:
            return
        if first.index == source.index:
            message = f"index '{first.index}' has two sizes"
        else:
            message = f"indices '{first.index}' and '{source.index}' meet and have two sizes"
        help = "pass tensors that agree with the declaration"
        if first.tensor == source.tensor:
            help = f"{first.tensor} is read with one index on two dimensions of different size"
        elif source.tensor is not None and first.tensor is not None:
            help = f"use another index name in {source.tensor} if these axes are not meant to meet"
        raise ShapeError(
            message,
            spans=tuple(dict.fromkeys((first.by.span, source.by.span))),
            notes=(first.note(self._program.text), source.note(self._program.text)),
            help=help,
        )

    def _size(self, index: str, span: Span) -> int:
        source = self._sources.get(self._program.extent_of[index])
        if source is None:
            raise InternalError(f"no extent for index '{index}'", spans=span)
        return source.size

    def _evaluate(self, node: S.Expr, params: Mapping[str, int | float]) -> int:
        match node:
            case S.Number():
                return int(node.value)
            case S.Extent():
                return self._size(node.index, node.span)
            case S.Name():
                return int(params[node.name])
        values = [self._evaluate(part, params) for part in S.children(node)]
        match node:
            case S.Unary():
                return -values[0]
            case S.Call():
                return min(values) if node.function == "minimum" else max(values)
            case S.Binary(op="//" | "%") if values[1] == 0:
                raise ShapeError(
                    "an extent divides by zero",
                    spans=node.right.span,
                    help="maximum(1, ...) keeps a divisor from being zero",
                )
            case S.Binary() if node.op in _ARITHMETIC:
                return _ARITHMETIC[node.op](*values)
        raise InternalError(
            "an extent holds an operation that the checker should have refused", spans=node.span
        )


def _shown(text: str, bound: S.Expr) -> str:
    """A declared extent as the program has it."""
    return " ".join(text[bound.span.start : bound.span.stop].split())


def _named(at: S.Input, shape: tuple[int, ...]) -> str:
    """A shape with the names of its indices, such as (q=128, d=64)."""
    parts = [
        str(size) if dim.startswith(".") else f"{dim}={size}"
        for dim, size in zip(at.dims, shape, strict=True)
    ]
    return f"({', '.join(parts)})"
