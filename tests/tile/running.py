"""Tile programs that are written by hand, run by every backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

import monocomp as mc
from monocomp.backends.array_operations import Ops
from monocomp.backends.block_lengths import default_blocks
from monocomp.backends.interpreter import Interpreter
from monocomp.backends.numpy import NumpyOps
from monocomp.backends.schedules.schedule import Schedule
from monocomp.backends.torch_operations import TorchOps
from monocomp.backends.triton.emit import Part, emit
from monocomp.backends.triton.launch import load
from monocomp.tile import TileProgram
from monocomp.tile.parser import parse
from tests.backends import interpreted

Tensors = Mapping[str, torch.Tensor]
Run = Callable[[str, Tensors, Mapping[str, Any], int], dict[str, torch.Tensor]]
_DTYPES = {"float": torch.float32, "int": torch.int64, "bool": torch.bool}


def extents_of(p: TileProgram, inputs: Tensors) -> dict[str, int]:
    """The sizes of all extents: those of inputs that a kernel does not read count, too."""
    dims = {n: t.dims for n, t in p.inputs.items()}
    return {d: n for name, of in dims.items() for d, n in zip(of, inputs[name].shape, strict=True)}


def blocks_of(p: TileProgram, length: int) -> dict[str, int]:
    """Blocks of a length, and one value of the grid at a time."""
    return {a.name: 1 if a.role == "grid" else length for a in p.axes.values()}


def interpret(
    text: str,
    inputs: Tensors,
    params: Mapping[str, Any],
    block: int,
    ops: Ops,
    outputs: Callable[[TileProgram, Mapping[str, int]], dict[str, Any]],
) -> dict[str, torch.Tensor]:
    """Run a kernel in blocks of a length, or if it is 0 of the usual one."""
    p = parse(text)
    extents = extents_of(p, inputs)
    blocks = blocks_of(p, block) if block else default_blocks(p, extents, 1024)
    made = outputs(p, extents)
    for o in p.outputs:
        if p.is_added_to(o.name):  # as host programs have it
            made[o.name][...] = 0
    with np.errstate(all="ignore"):
        Interpreter(p, ops, extents, params, blocks).run(inputs, made)
    return {n: torch.as_tensor(a) for n, a in made.items()}


def spoilt(p: TileProgram, extents: Mapping[str, int]) -> dict[str, torch.Tensor]:
    """Outputs that hold what no kernel should leave."""
    values = {"float": torch.nan, "int": 77, "bool": True}
    return {
        o.name: torch.full([extents[d] for d in o.dims], values[o.kind], dtype=_DTYPES[o.kind])
        for o in p.outputs
    }


def by_numpy(
    text: str, inputs: Tensors, params: Mapping[str, Any], block: int
) -> dict[str, torch.Tensor]:
    def outputs(p: TileProgram, extents: Mapping[str, int]) -> dict[str, Any]:
        made = spoilt(p, extents)
        return {
            n: t.double().numpy() if t.is_floating_point() else t.numpy() for n, t in made.items()
        }

    arrays: Any = {n: t.numpy() for n, t in inputs.items()}
    return interpret(text, arrays, params, block, NumpyOps(), outputs)


def by_torch(
    text: str, inputs: Tensors, params: Mapping[str, Any], block: int
) -> dict[str, torch.Tensor]:
    ops = TorchOps(torch.device("cpu"), torch.float32)
    return interpret(text, inputs, params, block, ops, spoilt)


def by_triton(
    text: str, inputs: Tensors, params: Mapping[str, Any], block: int
) -> dict[str, torch.Tensor]:
    """The emitted kernel, interpreted."""
    found: dict[str, torch.Tensor] = interpreted.call(
        _call, text, dict(inputs), dict(params), block or 16
    )
    return found


def by_descriptors(
    text: str, inputs: Tensors, params: Mapping[str, Any], block: int
) -> dict[str, torch.Tensor]:
    """The same, with tiles loaded by descriptors."""
    found: dict[str, torch.Tensor] = interpreted.call(
        _call, text, dict(inputs), dict(params), block, True
    )
    return found


def source(text: str, block: int = 16, descriptors: bool = False) -> tuple[str, str]:
    """The emitted file and its host function's name."""
    p = parse(text)
    blocks = {n: length for n, length in blocks_of(p, block).items() if _is_cut(p, n)}
    schedule = Schedule(tuple(blocks.items()), num_warps=4, num_stages=1, descriptors=descriptors)
    equations = mc.compile(declared(p)).equations
    module = emit(Part(equations, [p], [schedule], equations))
    return module.source, module.host


def _is_cut(p: TileProgram, axis: str) -> bool:
    return p.axes[axis].role in ("row", "stream")


def declared(p: TileProgram) -> str:
    """A program with the inputs and outputs of a kernel, whatever it computes."""
    inputs = [f"{_indexed(t.name, t.dims)}: {t.kind}" for t in p.inputs.values()]
    params = [f"param {n}: {kind}" for n, kind in p.params.items()]
    names = [o.name for o in p.outputs]
    known = {d for t in p.inputs.values() for d in t.dims}
    bodies = []
    for o in p.outputs:
        assert known >= set(o.dims)
        value = " + ".join([{"float": "1.0", "int": "1", "bool": "1"}[o.kind], *o.dims])
        bodies.append(f"{_indexed(o.name, o.dims)} = {value}{' < 2' if o.kind == 'bool' else ''}")
    return "\n".join([f"input {', '.join(inputs)}", *params, *bodies, f"return {', '.join(names)}"])


def _indexed(name: str, dims: tuple[str, ...]) -> str:
    return f"{name}[{', '.join(dims)}]" if dims else name


def _call(
    text: str,
    inputs: dict[str, torch.Tensor],
    params: dict[str, Any],
    block: int,
    descriptors: bool = False,
) -> dict[str, torch.Tensor]:
    written, host = source(text, block, descriptors)
    p = parse(text)
    found = getattr(load(written), host)(*(inputs[n] for n in p.inputs), **params)
    outputs = found if isinstance(found, tuple) else (found,)
    return dict(zip((o.name for o in p.outputs), outputs, strict=True))


BACKENDS: dict[str, Run] = {
    "numpy": by_numpy,
    "torch": by_torch,
    "triton": by_triton,
}
