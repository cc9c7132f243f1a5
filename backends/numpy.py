"""The NumPy backend: the tile program, interpreted. It checks lowering, nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from monocomp.backends.array_operations import Ops, elementwise
from monocomp.backends.block_lengths import default_blocks
from monocomp.backends.interpreter import Interpreter
from monocomp.declarations import counter_rng
from monocomp.declarations.vocabulary import Kind
from monocomp.host.arguments import PROGRAMS
from monocomp.host.evaluation import Evaluation
from monocomp.host.interpreting import KernelRun
from monocomp.host.program import HostProgram
from monocomp.tile import TileProgram

Array = Any
_DTYPES: dict[Kind, Any] = {"float": np.float64, "int": np.int64, "bool": np.bool_}


class NumpyOps(Ops):
    """Array operations in float64."""

    def __init__(self) -> None:
        self.library: Any = np
        self.elementwise: Mapping[str, Callable[..., Array]] = elementwise(np, _OWN)

    def promote(self, x: Array) -> Array:
        if x.dtype.kind == "f":
            return x.astype(np.float64, order="C")  # one layout: results do not vary with it
        return x if x.dtype.kind == "b" else x.astype(np.int64)

    def arange(self, start: int, stop: int) -> Array:
        return np.arange(start, stop)

    def full(self, shape: tuple[int, ...], value: float, kind: Kind) -> Array:
        return np.full(shape, value, dtype=_DTYPES[kind])

    def cast(self, x: Array, kind: Kind) -> Array:
        return x.astype(_DTYPES[kind])

    def contract(self, a: Array, b: Array, dim: int) -> Array:
        shape = np.broadcast_shapes(a.shape, b.shape)
        left = [n for n in range(a.ndim) if a.shape[n] != 1 or n == dim]
        right = [n for n in range(a.ndim) if b.shape[n] != 1 or n == dim]
        out = [n for n in range(a.ndim) if n != dim and (n in left or n in right)]
        result = np.einsum(
            a.reshape([a.shape[n] for n in left]),
            left,
            b.reshape([b.shape[n] for n in right]),
            right,
            out,
            optimize=True,
        )
        return result.reshape([1 if n == dim else shape[n] for n in range(a.ndim)])

    def largest(self, values: Array, positions: Array, dim: int, count: int) -> tuple[Array, Array]:
        ranks = np.where(np.isnan(values), np.inf, values)
        order = np.lexsort((positions, -ranks), axis=dim)
        kept = order[(slice(None),) * dim + (slice(count),)]
        values = np.take_along_axis(values, kept, dim)
        positions = np.take_along_axis(positions, kept, dim)
        return values, np.where(values == -np.inf, -1, positions)

    def scatter(
        self, output: Array, positions: tuple[Array, ...], value: Array, valid: Array, add: bool
    ) -> None:
        positions, value = tuple(p[valid] for p in positions), value[valid]
        output = output if output.ndim else output.reshape(1)
        if add:
            np.add.at(output, positions, value)
        else:
            output[positions] = value


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[x.dtype])(x)


_OWN: dict[str, Callable[..., Array]] = {
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": _erf,
    "uniform": counter_rng.uniform,
}


class _Target:
    """Runs kernels one after the other, for host programs."""

    device = None

    def __init__(self, kernels: Sequence[TileProgram], checked: bool) -> None:
        self.kernels, self.checked = kernels, checked

    def promoted(self, tensors: Sequence[Array], default: str) -> Any:
        return np.float64

    def dtype(self, name: str, kind: Kind, promoted: Any) -> Any:
        return _DTYPES[kind]

    def allocation(self, shape: tuple[int, ...], dtype: Any) -> Callable[[], Array]:
        return partial(np.zeros, shape, dtype)

    def stand_in(self, shape: tuple[int, ...], dtype: Any) -> Array:
        return np.broadcast_to(np.zeros((), dtype), shape)

    def clear(self, tensor: Array) -> object:
        return tensor.fill(0)

    def sort(
        self, tensor: Array, order: Array, first: Array, last: Array, kept: Sequence[int]
    ) -> None:
        rows = np.moveaxis(tensor, kept, range(len(kept))).reshape(order.shape)
        order[...] = np.argsort(rows, axis=-1, kind="stable")
        for at in np.ndindex(order.shape[:-1]):
            keys, numbers = rows[at][order[at]], np.arange(first.shape[-1])
            first[at] = np.searchsorted(keys, numbers)
            last[at] = np.searchsorted(keys, numbers, side="right")

    def kernel(self, number: int, programs: int) -> Callable[..., object]:
        return KernelRun(self.kernels[number], partial(run, checked=self.checked))


def run_all(
    host: HostProgram,
    kernels: Sequence[TileProgram],
    inputs: Mapping[str, Array],
    params: Mapping[str, Any],
    programs: int,
    *,
    checked: bool = False,
) -> tuple[Array, ...]:
    """Return the results of a host program on NumPy arrays.

    Args:
        host: of `of_tile_program`'s interfaces.
        kernels: the tile programs.
        inputs, params: of the call.
        programs: into how many splits streams are cut that are cut at all.
        checked: test computed subscripts.
    """
    configs = [{PROGRAMS: programs}] * len(kernels)
    call = Evaluation(host, _Target(kernels, checked), inputs, params, configs)
    return call.plan()((*inputs.values(), *params.values()))


def run(
    program: TileProgram,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    extents: Mapping[str, int],
    params: Mapping[str, Any],
    *,
    checked: bool = False,
) -> None:
    """Run one kernel on NumPy arrays; `outputs` are filled in place."""
    blocks = default_blocks(program, extents, 1024)
    with np.errstate(all="ignore"):
        Interpreter(program, NumpyOps(), extents, params, blocks, checked).run(inputs, outputs)
