"""The Gluon dialect: block programs with a producer mean what their tile programs mean, and compile
for Hopper without spills."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import torch

import monocomp as mc
from monocomp import library
from monocomp.backends import block_interpreter
from monocomp.backends import numpy as backend
from monocomp.backends.gluon.emit import block_program, emit
from monocomp.backends.gluon.launch import Launch
from monocomp.blocks.program import For, Give, Release, Statement, Take, walk
from monocomp.blocks.verifier import verify
from monocomp.errors import InternalError, UnsupportedError
from monocomp.tile import TileProgram
from tests.backends.both_stages import lengths
from tests.backends.compiling import SHARED_LIMIT, compile_for, instructions, without_elements
from tests.backends.compiling import Launch as CompiledLaunch
from tests.backends.library_cases import CASES
from tests.backends.running import run

SUPPORTED = (
    *("attention", "causal", "gqa", "sliding_window", "sink_window", "softcap", "alibi"),
    *("attention_statistics", "learned_sink", "softmax_one", "dropout", "sigmoid_attention"),
    *("softpick", "prefix_lm", "varlen"),
)
# Rows and streamed elements of a block; a second sum beside the result takes registers, too.
BLOCKS = {"q": 128, "k": 128}
SHORT = {"attention_statistics": {"k": 64}}


def kernel_of(text: str) -> TileProgram:
    """The only kernel of a program."""
    (program,) = mc.compile(text).tile_programs({})
    return program


def launch_of(name: str, inputs: Mapping[str, torch.Tensor]) -> Launch:
    """A launch of a library program on tensors of 16 bits, with outputs that hold NaN."""
    kernel, program = mc.compile(library.load(name)), kernel_of(library.load(name))
    dims = ((t.dims, inputs[n].shape) for n, t in program.inputs.items())
    known = {d: size for names, shape in dims for d, size in zip(names, shape, strict=True)}
    device = next(iter(inputs.values())).device
    outputs = {}
    for o in program.outputs:
        shape = [known[d] for d in o.dims]
        outputs[o.name] = torch.full(shape, torch.nan, dtype=torch.bfloat16, device=device)
    declared = kernel.declared.params.values()
    params = {p.name: CASES[name].params.get(p.name, p.default) for p in declared}
    chosen = lengths(program, known, 0) | BLOCKS | SHORT.get(name, {})
    return Launch(emit(program, f"{name}_kernel"), {**inputs, **outputs}, known, params, chosen)


# --- meaning ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SUPPORTED)
def test_meaning(name: str) -> None:
    """Producer and consumers compute what the tile program does."""
    case = CASES[name]
    original, seen = backend.run, []

    def both(program, inputs, outputs, extents, params, **options) -> None:  # type: ignore[no-untyped-def]
        original(program, inputs, outputs, extents, params, **options)
        blocks = block_program(program, "the_kernel")
        verify(blocks)
        given = {n: np.asarray(inputs[n]) for n in program.inputs}
        given = {n: x.astype(float) if x.dtype.kind == "f" else x for n, x in given.items()}
        found = {o.name: np.full_like(outputs[o.name], np.nan) for o in program.outputs}
        chosen = lengths(program, extents, 16)
        block_interpreter.run(blocks, given, found, extents, params, chosen, descriptors=True)
        for n, array in found.items():
            np.testing.assert_allclose(array, outputs[n], 1e-9, 1e-9, err_msg=str(blocks))
        seen.append(program.name)

    with patch.object(backend, "run", both):
        run("numpy", case.text, case.inputs(case.sizes(37, 53, 20, 16)), name=name, **case.params)
    assert seen


def test_printed(golden: Callable[[str, str], None]) -> None:
    golden("causal.gluon.py", emit(kernel_of(library.load("causal")), "causal_kernel").text)


def test_roles() -> None:
    """The producer asks for blocks and computes no tile; who computes asks for none."""
    program = block_program(kernel_of(library.load("causal")), "kernel")
    producer, consumer = list(walk(program.producer)), list(walk(program.body))
    assert [s.ring.name for s in producer if isinstance(s, Give)] == ["Q_ring", "K_ring", "V_ring"]
    assert [s.ring.name for s in consumer if isinstance(s, Take)] == ["Q_ring", "K_ring", "V_ring"]
    assert [s.ring.name for s in consumer if isinstance(s, Release)] == ["K_ring", "V_ring"]
    assert not any(isinstance(s, Take | Release) for s in producer)


def test_waiting_for_each_other() -> None:
    """Blocks that are never released, or released too early, are found."""
    tile_program = kernel_of(library.load("attention"))
    program = block_program(tile_program, "kernel")
    sizes = {"b": 1, "h": 1, "q": 16, "k": 48, "d": 16, "e": 16}
    arrays = {n: np.ones([sizes[d] for d in t.dims]) for n, t in tile_program.inputs.items()}

    def check(body: tuple[Statement, ...]) -> None:
        outputs = {"O": np.zeros((1, 1, 16, 16))}
        changed, chosen = replace(program, body=body), lengths(tile_program, sizes, 16)
        block_interpreter.run(changed, arrays, outputs, sizes, {}, chosen, descriptors=True)

    def moved(body: tuple[Statement, ...], early: bool) -> tuple[Statement, ...]:
        releases = [s for s in body if isinstance(s, Release)] if early else []
        found: list[Statement] = []
        for s in body:
            if isinstance(s, For):
                s = replace(s, body=moved(s.body, early))
            found += [] if isinstance(s, Release) else [s]
            found += [r for r in releases if isinstance(s, Take) and r.ring == s.ring]
        return tuple(found)

    check(program.body)
    with pytest.raises(InternalError, match="wait for each other"):
        check(moved(program.body, early=False))
    with pytest.raises(KeyError, match="_tile"):
        check(moved(program.body, early=True))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("softmax", "no product here has operands that descriptors can load"),
        ("paged_attention", "no product says where a tile along ('d',) lies in registers"),
        ("attention_moments", "V_tile_2 is used by more than products"),
        ("document", "where a block of a tensor is depends on a tile"),
        ("mla", "a product's right operand is in no shared memory"),
    ],
)
def test_refusals(name: str, message: str) -> None:
    with pytest.raises(UnsupportedError) as found:
        emit(kernel_of(library.load(name)))
    assert message in str(found.value)


# --- machine code -----------------------------------------------------------------------------


@pytest.mark.one_in(5)
@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("name", SUPPORTED)
def test_compiles_without_spills(name: str, d: int) -> None:
    """For two warpgroups of 64 rows each, with products from shared memory."""
    sizes = CASES[name].sizes(1000, 1000, d, d, 2)
    inputs = without_elements(mc.compile(library.load(name)), sizes)
    launch = launch_of(name, inputs)
    made = CompiledLaunch(launch.function, tuple(launch.args), {"num_warps": launch.warps})
    usage = compile_for("cuda:90", made)
    assert usage.spilled == 0
    assert usage.shared <= SHARED_LIMIT["cuda:90"]
    used = instructions(made)
    assert any(text.startswith("HGMMA") for text in used)
    assert any(text.startswith("UTMALDG") for text in used)
