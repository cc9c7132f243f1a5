"""Runs tile programs and the block programs built from them side by side.

    with both_stages(): run("numpy", text, inputs)

Every kernel that the backend numpy runs inside is interpreted as a block program too: after no
pass, after each further one, by pointers and by descriptors, with some and all of its arguments
as constants. All must give what the tile program gives, and the verifier must be silent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from monocomp.backends import block_interpreter
from monocomp.backends import numpy as backend
from monocomp.backends.schedules.schedule import held_length
from monocomp.backends.triton.kernel_source import block_program
from monocomp.blocks import INT32, BlockProgram
from monocomp.blocks.choices.choose import PASSES
from monocomp.blocks.names import Constant, Key
from monocomp.blocks.passes.chains import unchain
from monocomp.blocks.verifier import verify
from monocomp.tile import TileProgram

Arrays = Mapping[str, np.ndarray[Any, Any]]
STAGES = tuple(PASSES[:n] for n in range(len(PASSES) + 1))  # the passes that have run
GARBAGE = -7777
_SOME = ((0, 1), (1, 2))  # of the arguments: all, and a half
_TOLERANCE = 1e-9  # sums are taken in another order


def lengths(program: TileProgram, extents: Mapping[str, int], block: int) -> dict[str, int]:
    """Block lengths: one for rows and streams, that of the tile for what is held entirely."""
    return {
        a.name: held_length(program, a.name, extents[a.extent]) if a.role == "whole" else block
        for a in program.axes.values()
    }


@contextmanager
def both_stages(block: int = 16) -> Iterator[list[str]]:
    """Compares all kernels that run inside; the list tells which have."""
    original, seen = backend.run, []

    def run(
        program: TileProgram,
        inputs: Arrays,
        outputs: Arrays,
        extents: Mapping[str, int],
        params: Mapping[str, Any],
        **options: Any,
    ) -> None:
        original(program, inputs, outputs, extents, params, **options)
        given = {n: in_float64(inputs[n]) for n in program.inputs}
        chosen = lengths(program, extents, block)
        for passes in STAGES:
            blocks = block_program(program, passes)
            for more, descriptors in enumerate((False, True) if blocks.blocks else (False,)):
                call = ({**given, **outputs}, extents, params, chosen, descriptors, 1 + more)
                variants = [blocks]
                if passes == PASSES:
                    variants += [unchain(blocks)]
                    known = _known(blocks, call)
                    some = (dict(known[n::m]) for n, m in _SOME)
                    variants += [_known_program(program, found) for found in some]
                for variant in variants:
                    verify(variant)
                    found = {n: _start(program, n, x) for n, x in outputs.items()}
                    block_interpreter.run(
                        variant,
                        given,
                        found,
                        extents,
                        params,
                        chosen,
                        descriptors=descriptors,
                        group_size=1 + more,
                    )
                    for name, array in found.items():
                        what = f"{name} after {passes}, descriptors: {descriptors}\n{variant}"
                        np.testing.assert_allclose(
                            array, outputs[name], _TOLERANCE, _TOLERANCE, err_msg=what
                        )
        seen.append(program.name)

    with patch.object(backend, "run", run):
        yield seen


def _known_program(program: TileProgram, known: Mapping[Key, Constant]) -> BlockProgram:
    return block_program(program, known=lambda arguments, described: known)


def _known(blocks: BlockProgram, call: tuple[Any, ...]) -> list[tuple[Key, Constant]]:
    """What a call gives for arguments that may be constants."""
    known: list[tuple[Key, Constant]] = []
    for a in blocks.arguments:
        value = block_interpreter.argument(blocks, a, *call)
        match a.purpose:
            case "descriptor":
                known.append((a.key, None if value is None else True))
            case "option":
                known.append((a.key, {"INDEX": INT32, "PRECISION": "ieee"}.get(a.of, value)))
            case "stride" | "size" | "block" | "even" | "single" | "order":
                known.append((a.key, value))
    return known


def in_float64(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def _start(program: TileProgram, output: str, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array that no kernel has written: 0 where stores add."""
    if program.is_added_to(output):
        return np.zeros_like(like)
    return np.full_like(like, like.dtype.kind == "b" or GARBAGE)
