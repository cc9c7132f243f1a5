"""The Gluon dialect: stages, sources and schedules of its block programs, which compile
for Hopper with tiles in registers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from itertools import product
from typing import Any

import pytest
import torch

import monocomp as mc
from monocomp import library
from monocomp.backends.gluon.dialect import GLUON
from monocomp.backends.schedules.schedule import Schedule
from monocomp.backends.triton.dialect import TRITON, Dialect
from monocomp.backends.triton.kernel_source import block_program
from monocomp.backends.triton.known_arguments import Known
from monocomp.blocks import (
    BlockProgram,
    Blocks,
    For,
    Issue,
    Learn,
    Release,
    Take,
    names_of,
    walk,
)
from monocomp.declarations.records import by_representative
from monocomp.errors import UnsupportedError
from monocomp.gradients.gradient import GradientPrograms
from monocomp.tile import TileProgram
from tests.backends.compiling import (
    SHARED_LIMIT,
    Launch,
    compile_for,
    first_launches,
    instructions,
    is_serialised,
    kept_in_memory,
    synchronisations,
    without_elements,
)
from tests.backends.library_cases import CASES
from tests.backends.triton.test_emit import faults

SUPPORTED = (
    *("attention", "causal", "gqa", "sliding_window", "sink_window", "softcap", "alibi"),
    *("attention_statistics", "learned_sink", "softmax_one", "dropout", "sigmoid_attention"),
    *("softpick", "prefix_lm", "varlen", "pair_bias", "differential", "attention_jvp"),
    *("kl_divergence", "cross_entropy", "cosine_attention", "mla", "document"),
)
# Programs whose gradients it supports.
GRADIENTS = (
    *("attention", "causal", "gqa", "sliding_window", "softcap", "softmax_one", "dropout"),
    *("sigmoid_attention", "differential", "kl_divergence", "cross_entropy", "mla"),
    *("sink_window", "prefix_lm", "varlen"),
)
# Programs with a size of a head of which a warpgroup cannot hold 64 rows.
SHARED = (("attention_jvp", 256), ("differential", 256), ("attention", 512), ("causal", 512))
# Programs whose gradients it supports in part: a kernel without products, or one whose blocks are
# where a tile says, is in Triton.
IN_PART = ("alibi", "cosine_attention", "document", "learned_sink")
# Bytes a thread, of programs that have 160 registers and keep 192 rows.
SPILLED = {
    **{("document", 256): 104, ("dropout", 256): 96, ("sigmoid_attention", 256): 88},
    **{("attention_jvp", 128): 96, ("cosine_attention", 17): 128},
}
MODULES = {
    *("torch", "triton", "triton.language", "triton.experimental"),
    *("triton.experimental.gluon", "triton.experimental.gluon.nvidia"),
    "triton.experimental.gluon.language.nvidia.hopper",
    "triton.tools.tensor_descriptor",
}


def kernel_of(text: str) -> TileProgram:
    """The only kernel of a program."""
    (program,) = mc.compile(text).tile_programs({})
    return program


def in_gluon(
    program: TileProgram,
    passes: Collection[str] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> BlockProgram:
    """Its block program, after some passes and for some sizes."""
    known = Known(program, Schedule((), 4, 2), sizes or {}, None)
    return block_program(program, passes, "the_kernel", dialect=GLUON, known=known)


# --- meaning ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["causal", "gqa", "dropout"])
def test_one_warp_divides_items(name: str) -> None:
    """The others are told what divisions of an item give, and compute the rest from that."""
    program = in_gluon(kernel_of(library.load(name)))
    (learnt,) = (s for s in walk(program.body) if isinstance(s, Learn))
    assert {x.attr for x in learnt.targets} == {"start_q", "h", "b"}
    assert {"item", "pid"} <= names_of(program.producer)
    assert names_of(program.body).isdisjoint({"item", "pid"})


@pytest.mark.parametrize("d", [64, 256])
@pytest.mark.parametrize("n", [1024, 4096, 16384])
def test_items_of_a_group(n: int, d: int) -> None:
    """Where rows differ in length, processors find long and short ones in each group of heads."""
    sizes = {"b": 8, "h": 32, "q": n, "k": n, "d": d, "e": d}
    for name in ("causal", "attention"):
        legal = GLUON.legal(kernel_of(library.load(name)), sizes, 2, "cuda:90", 132)
        schedule = GLUON.table.first(legal)
        items = schedule.group_size * -(-n // dict(schedule.blocks)["q"])
        assert schedule.group_size == 1 if name == "attention" else items > 132


@pytest.mark.parametrize(
    ("n", "heads", "rows"), [(128, 4096, 128), (256, 2048, 128), (4096, 128, 192), (1024, 4, 64)]
)
def test_rows_of_an_item(n: int, heads: int, rows: int) -> None:
    """Items have few rows where more lie beyond the end, or leave processors idle."""
    sizes = {"b": 1, "h": heads, "q": n, "k": n, "d": 64, "e": 64}
    legal = GLUON.legal(kernel_of(library.load("causal")), sizes, 2, "cuda:90", 132)
    assert dict(GLUON.table.first(legal).blocks)["q"] == rows


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", SUPPORTED)
def test_nothing_but_kernels(name: str) -> None:
    """A file is valid, imports torch and triton, and uses known names."""
    source = mc.compile(library.load(name), name=name, backend="gluon").source()
    assert not list(faults(source, MODULES))


def test_names_of_the_language() -> None:
    """A program may use them."""
    text = library.load("causal")
    for old, new in {"Q": "gl", "K": "tma", "V": "rings", "O": "causal_kernel_producer"}.items():
        text = re.sub(rf"\b{old}\b", new, text)
    assert not list(faults(mc.compile(text, name="gluon", backend="gluon").source(), MODULES))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("softmax", "no product here has operands that descriptors can load"),
        ("paged_attention", "broadcast has no position in registers"),
        ("attention_moments", "dot_in_limbs has no position in registers"),
        ("int8_cache", "a product's right operand is in no shared memory"),
    ],
)
def test_refusals(name: str, message: str) -> None:
    with pytest.raises(UnsupportedError) as found:
        mc.compile(library.load(name), name=name, backend="gluon").source()
    assert found.value.described() == (
        f"UnsupportedError: backend 'gluon' has no form of kernel '{name}': {message}\n"
        "  help: compile with backend='triton', which takes all kernels"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "cuda:100"}, "backend 'gluon' is for cuda:90 alone, and this is cuda:100"),
        ({"dtype": "fp32"}, "backend 'gluon' multiplies matrices of 16 bits, and . is float32"),
        ({"minimal": True}, "only the source for backend 'triton' has a minimal form"),
    ],
)
def test_refused_sources(options: dict[str, Any], message: str) -> None:
    kernel = mc.compile(library.load("causal"), name="causal", backend="gluon")
    with pytest.raises(mc.MonocompError, match=message) as found:
        kernel.source(**options)
    assert "minimal" in options or "backend='triton'" in str(found.value)


def test_refused_rows() -> None:
    kernel = mc.compile(library.load("attention_jvp"), name="jvp", backend="gluon")
    with pytest.raises(UnsupportedError, match="warpgroups can't hold 64 rows of kernel 'jvp'"):
        kernel.source(extents={"d": 512, "e": 512})


@pytest.mark.parametrize("name", list(GLUON.passes))
def test_stages(name: str) -> None:
    """A kernel in Gluon shows its own block program, host program and source."""
    stages = mc.compile(library.load("causal"), name="causal", backend="gluon").stages
    passes = GLUON.every_pass
    assert stages.before(name) == stages.after(passes[passes.index(name) - 1])
    changed = stages  # its last products stand beside the first ones of the next block
    if name == "span":
        changed = mc.compile(library.load("document"), name="causal", backend="gluon").stages
    if name == "take_turns":
        changed = mc.compile(mc.grad(library.load("causal")), name="causal", backend="gluon").stages
    is_same = name == "cross"  # of which nothing sums over rows (`test_joined_sums`)
    assert (changed.before(name) == changed.after(name)) == is_same
    assert stages["blocks"] == stages.after(passes[-1])
    assert "gl.warp_specialize" in stages["source"]
    assert "STAGES" in stages["blocks"] and "describe blocks of Q: " in stages["host"]


# --- machine code -----------------------------------------------------------------------------


def launches(
    text: str | GradientPrograms, name: str, length: int, d: int, *others: Dialect
) -> tuple[list[Launch], list[BlockProgram]]:
    """The launches of a program, like one of the library, and what they come from; in other
    languages, if there are any, where it has no form."""
    kernel = mc.compile(text, processors=1)
    sizes = by_representative(kernel.declared, CASES[name].sizes(length, length, d, d, 512))
    of_rows = {"L": torch.float32}  # what a gradient reads of the forward
    inputs = without_elements(kernel, sizes, dtypes=of_rows)
    how = {"dialects": [*others, GLUON], "processors": 132, "params": CASES[name].params}
    found = first_launches(kernel, inputs, sizes, **how)
    plan = kernel.planner.plan(sizes)
    if others:
        return found, []
    return found, [GLUON.legal(k, sizes, 2, "cuda:90", 132).blocks for k in plan.kernels]


@pytest.mark.one_in(93)
@pytest.mark.parametrize(
    ("name", "d"), [x for x in product(SUPPORTED, (17, 64, 128, 256)) if x not in SHARED]
)
def test_compiles_for_registers(name: str, d: int) -> None:
    """The schedule that comes first keeps tiles in them, and products are from shared memory."""
    found, programs = launches(library.load(name), name, 1000, d)
    found = [x for x in found if x.function.is_gluon()]  # not copies of rows
    for made, blocks in zip(found, programs, strict=True):
        usage = compile_for("cuda:90", made)
        # Rows of results, and a few bounds and counters, are the same for all items: these may wait
        # in memory while a loop over blocks runs.
        assert usage.spilled <= SPILLED.get((name, d), 64) and kept_in_memory(made) <= 3
        assert usage.shared <= SHARED_LIMIT["cuda:90"]
        used = instructions(made)
        assert any(text.startswith("HGMMA") for text in used)
        assert any(text.startswith("UTMALDG") for text in used)
        assert not is_serialised(made)
        assert synchronisations(made) <= most_synchronisations(blocks)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "d"), SHARED[1:])
def test_warpgroups_share_columns(name: str, d: int) -> None:
    """Two have the same rows then, and a half of the columns each."""
    found, _ = launches(library.load(name), name, 1000, d)
    (made,) = (x for x in found if x.function.is_gluon())
    usage = compile_for("cuda:90", made)
    assert made.kwargs["num_warps"] == 8 and made.kwargs["BLOCK_Q"] == 64
    assert usage.spilled <= 64 and not kept_in_memory(made)
    assert usage.shared <= SHARED_LIMIT["cuda:90"]
    assert any(text.startswith("HGMMA") for text in instructions(made))
    assert not is_serialised(made)


def most_synchronisations(program: BlockProgram) -> int:
    """How often a warpgroup's threads may wait for each other in a loop that multiplies: for each
    block that is released, each product, and to clear a part of a block."""
    loops = [s for s in walk(program.body) if isinstance(s, For) and isinstance(s.range, Blocks)]
    counts = []
    for loop in loops:
        inside = list(walk(loop.body))
        cleared = sum(isinstance(s, Take) and s.within is not None for s in inside)
        counts.append(4 * cleared + sum(isinstance(s, Release | Issue) for s in inside))
    return max(counts)


@pytest.mark.parametrize("d", [64, 128])
def test_gradient_compiles_for_registers(d: int) -> None:
    """So do a gradient's kernels, in which warpgroups take turns where arithmetic takes long."""
    found, _ = launches(mc.grad(library.load("causal")), "causal", 1024, d)
    for made in (x for x in found if x.function.is_gluon()):
        assert compile_for("cuda:90", made).spilled <= 64
        assert not is_serialised(made)
        assert any("BAR.ARV" in text for text in instructions(made)) == (d == 64)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("name", IN_PART)
def test_gradients_in_two_languages(name: str, d: int) -> None:
    """One file has kernels in both, which call the same functions, and compiles."""
    found, _ = launches(mc.grad(CASES[name].text), name, 1024, d, TRITON)
    prepared = {"copy_rows", "clear_elements"}
    kernels = [x for x in found if x.function.fn.__name__ not in prepared]
    assert {x.function.is_gluon() for x in kernels} == {False, True}
    for made in kernels:
        usage = compile_for("cuda:90", made)
        assert usage.shared <= SHARED_LIMIT["cuda:90"]
        if made.function.is_gluon():
            assert usage.spilled <= 64 and not is_serialised(made)


@pytest.mark.parametrize("name", ["causal", "gqa", "mla"])
@pytest.mark.parametrize("length", [301, 512])
def test_rows_of_numbers(name: str, length: int) -> None:
    """Gradients have a form whatever the lengths: rows of numbers that 16 bytes do not divide are
    copied to such, as matrices are, and blocks fill 128 bytes."""
    found, programs = launches(mc.grad(CASES[name].text), name, length, 64)
    assert sum(x.function.is_gluon() for x in found) == len(programs)
    copies = [x for x in found if x.function.fn.__name__ == "copy_rows"]
    if name != "mla":  # whose heads have odd rows themselves
        assert len(copies) == (2 if length == 301 else 0)
