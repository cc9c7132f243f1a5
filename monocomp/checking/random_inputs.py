"""Random inputs for a program: elements that make sense, at sizes that fit together.

Floats are standard normal, conditions are fair coins. Integers that subscript a tensor are
valid positions in it, integers that an index is compared with are lengths (0 to the extent), other
integers lie in 0 to 7. Where side conditions matter are *special points*, which take the place
of most elements if they are asked for: zeros of both signs, ones, ties, large and small
numbers, whole rows of one number, lengths of 0, conditions that fail for a row; and infinities, NaN
and rows of -inf.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np

from monocomp.checking.sizes import Sizes
from monocomp.declarations.records import Input
from monocomp.extents.intervals import Interval
from monocomp.terms.equations import Equations

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

# Where elements are drawn: in general position, or mostly at points that are finite, or at any.
Points: TypeAlias = Literal["general", "finite", "any"]
# What is larger overflows on the way, in steps whose exponentials are no scaled numbers yet.
_FINITE = (0.0, -0.0, 0.0, 1.0, 1.0, -1.0, 0.5, 2.0, 8.0, -8.0, 20.0, -20.0, 2.0**-40)
_INFINITE = (np.inf, -np.inf, -np.inf, np.nan)


def random_inputs(
    program: Equations,
    extents: Mapping[str, int],
    *,
    dtype: str = "float32",
    seed: int = 0,
    params: Mapping[str, Any] | None = None,
    points: Points = "general",
) -> dict[str, Array]:
    """Return an array for each input of a program.

    Args:
        program: the program as it is written.
        extents: sizes by the name of an index; what is missing is made up.
        dtype: of the floats. NumPy has no bfloat16: those are float32 arrays of bfloat16
            numbers.
        seed: equal seeds give equal inputs.
        params: parameters that are not at their defaults, for sizes that depend on them.
        points: where most elements are; inputs that are given with a definition are what it says.
    """
    sizes = Sizes(program, extents, params or {})
    arrays = {}
    for number, at in enumerate(program.declared.inputs.values()):
        shape = tuple(sizes.extents[dim] for dim in at.dims)
        values = sizes.values(at.name)
        array = _elements(at, shape, values, dtype, np.random.default_rng([seed, number]))
        if points != "general":
            _specialise(array, values, points, np.random.default_rng([seed, number, 1]))
        arrays[at.name] = array
    for given in program.given:
        array = _defined(program, given.name, arrays, params or {})
        is_float = program.declared.inputs[given.name].kind == "float"
        arrays[given.name] = _rounded(array, dtype) if is_float else array
    return arrays


def _defined(
    program: Equations, name: str, arrays: Mapping[str, Array], params: Mapping[str, Any]
) -> Array:
    """Return an input that is given with its definition, by the oracle."""
    from monocomp.reference.oracle import evaluate

    given = {e.name for e in program.given}
    read = {n: array for n, array in arrays.items() if n not in given}
    lines = re.sub(r"^input (.* = )", r"\1", program.text(), flags=re.MULTILINE).splitlines()
    text = "\n".join(line for line in lines if not line.startswith("return "))
    return np.asarray(evaluate(f"{text}\nreturn {name}", read, **params))


def _specialise(
    array: Array, values: Interval, points: Points, generator: np.random.Generator
) -> None:
    """Put special points into an array: two of three elements, and a row now and then."""
    kind = array.dtype.kind
    candidates: tuple[Any, ...] = (False,)
    if kind != "b":
        finite = _FINITE if points == "finite" else (*_FINITE, *_INFINITE)
        candidates, share = (finite, 2 / 3) if kind == "f" else ((values[0], max(values)), 1 / 3)
        chosen = generator.random(array.shape) < share
        array[chosen] = generator.choice(candidates, array.shape)[chosen]
    if array.ndim and array.size and generator.random() < 0.5:
        axis = generator.integers(array.ndim)
        row = [slice(None)] * array.ndim
        row[axis] = slice(position := generator.integers(array.shape[axis]), position + 1)
        is_masked = points == "any" and kind == "f" and generator.random() < 0.5
        array[tuple(row)] = -np.inf if is_masked else generator.choice(candidates)


def _elements(
    at: Input, shape: tuple[int, ...], values: Interval, dtype: str, generator: np.random.Generator
) -> Array:
    if at.kind == "bool":
        return np.asarray(generator.random(shape) < 0.5)
    if at.kind == "int":
        return np.asarray(generator.integers(values[0], max(values), shape, endpoint=True))
    precise = np.float64 if dtype == "float64" else np.float32
    return _rounded(np.asarray(generator.standard_normal(shape, dtype=precise)), dtype)


def _rounded(values: Array, dtype: str) -> Array:
    return to_bfloat16(values.astype(np.float32)) if dtype == "bfloat16" else values.astype(dtype)


def to_bfloat16(array: Array) -> Array:
    """Round finite float32 numbers to the nearest that bfloat16 has, ties to even."""
    bits = np.ascontiguousarray(array).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32).reshape(array.shape)
