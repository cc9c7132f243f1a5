"""Emitted kernels compile for GPUs that are not here: no spills, and they fit.

The default schedule is the one that an emitted file carries when nothing was measured. Triton's
interpreter accepts more than its compiler, so every program of the tests is compiled as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
import torch

import monocomp as mc
from monocomp import library
from monocomp.backends.targets import canonical
from monocomp.backends.triton.launch import interpreted, load
from monocomp.backends.triton.machine_code import recorded
from monocomp.blocks.choices.choose import choose
from monocomp.language.checker import check
from tests.backends.compiling import (
    SHARED_LIMIT,
    TARGETS,
    Launch,
    Usage,
    accepted,
    compile_for,
    compiled_to,
    first_launches,
    instructions,
    kept_in_memory,
    without_elements,
)
from tests.backends.library_cases import CASES
from tests.backends.programs import EXAMPLES
from tests.backends.running import make_inputs
from tests.backends.storing import PROGRAMS as STORED
from tests.backends.test_library import OF_THEIR_OWN
from tests.backends.test_programs import PROGRAMS as LONG
from tests.marks import slow_unless

pytestmark = pytest.mark.skipif(interpreted(), reason="Triton interprets in this process")

E4M3 = torch.float8_e4m3fn
ODD, EVEN = 1000, 1024  # lengths that blocks stick out of, and that they fit
REST = [name for name, case in CASES.items() if not case.thorough]
ATTENDING = [n for n in OF_THEIR_OWN if CASES[n].is_attention]


def launches(
    text: str,
    target: str,
    inputs: Mapping[str, torch.Tensor],
    extents: Mapping[str, int],
    processors: int = 1,
    **params: float,
) -> list[Launch]:
    """The launches of a program's kernels, and of their maps."""
    kernel = mc.compile(text, processors=processors)
    ordered = {n: inputs[n] for n in kernel.declared.inputs}
    how = {"processors": processors, "params": params}
    found = first_launches(kernel, ordered, extents, target, **how)
    kernels = kernel.planner.plan(extents).kernels
    assert len(found) == len(kernels) + sum(len(choose(p).maps) for p in kernels)
    return found


def of_sizes(
    name: str, target: str, sizes: Mapping[str, int], processors: int = 1, **dtypes: Any
) -> list[Launch]:
    """The launches of a program of the library; no memory is needed for its inputs."""
    kernel = mc.compile(library.load(name))
    inputs = without_elements(kernel, sizes, **dtypes)
    extents = {e: sizes[e] for e in kernel.declared.extent_of.values() if e in sizes}
    return launches(library.load(name), target, inputs, extents, processors)


def of_library(name: str, target: str, dtype: torch.dtype, head: int, length: int) -> list[Usage]:
    """Return what launches take of a GPU, for some lengths."""
    sizes = {"b": 2, "h": 4, "g": 2, "q": length, "k": length, "i": length, "d": head, "e": head}
    return [compile_for(target, x) for x in of_sizes(name, target, sizes, dtype=dtype)]


def fits(found: list[Usage], target: str, spilled: int = 0) -> None:
    """No more registers in memory than that, and no more shared memory than a block has."""
    for u in found:
        assert u.spilled <= spilled, u
        assert u.shared <= SHARED_LIMIT[target], u


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    ("name", "head", "target"),
    slow_unless(
        lambda name, head, target: head == 128 and (target == "cuda:90" or name == "causal"),
        ATTENDING,
        [64, 128],
        TARGETS,
    ),
)
def test_library(name: str, head: int, target: str) -> None:
    """bfloat16, at lengths that need every mask. What was measured to be the fastest on Hopper may
    keep a few registers in memory."""
    fits(of_library(name, target, torch.bfloat16, head, ODD), target, spilled=24)


@pytest.mark.parametrize("target", slow_unless(lambda target: target == "cuda:90", TARGETS))
def test_requests_that_differ_in_length(target: str) -> None:
    """Kernels that list splits, compute these from pages and merge them. The one that is fastest on
    Hopper keeps a few registers in memory."""
    sizes = {"b": 64, "h": 32, "g": 8, "q": 1, "d": 128, "e": 128, "s": 64, "n": 256, "p": 8192}
    launches = of_sizes("paged_attention", target, sizes | {"k": 16384}, processors=132)
    found = [compile_for(target, launch) for launch in launches]
    assert len(found) == 5
    fits(found, target, spilled=96)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [n for n in OF_THEIR_OWN if n not in ATTENDING])
def test_library_of_rows(name: str, target: str) -> None:
    """Kernels without a product."""
    for length in (ODD, EVEN):
        fits(of_library(name, target, torch.bfloat16, 1, length), target)


@pytest.mark.one_in(18)
@pytest.mark.parametrize("name", slow_unless(lambda name: name in REST[::4], REST))
def test_rest_of_the_library(name: str) -> None:
    """In short blocks; what long ones take is the choice of a schedule."""
    case = CASES[name]
    sizes, extent_of = case.sizes(19, 37, 6, 5), check(case.text).extent_of
    inputs = case.inputs(sizes, torch.bfloat16)
    extents = {extent_of[index]: size for index, size in sizes.items()}
    made = launches(case.text, "cuda:90", inputs, extents, **case.params)
    assert [compile_for("cuda:90", launch) for launch in made]


# The dtypes that a cache's keys and values may have, and those of queries and scales.
CACHES: dict[str, dict[str, torch.dtype]] = {
    "paged_attention": {},
    "rolling_cache": {},
    "int8_cache": {"K": torch.int8, "V": torch.int8, "SK": torch.float32, "SV": torch.float32},
    "fp8_cache": {"K": E4M3, "V": E4M3, "sk": torch.float32, "sv": torch.float32},
    "fp8_attention": dict.fromkeys("QKV", E4M3) | dict.fromkeys(("SQ", "SK", "SV"), torch.float32),
}


def of_cache(name: str, target: str, rows: int, page: int = 64) -> list[Launch]:
    """A program of the library that reads from a cache of 4096 keys, or blocks of 128."""
    sizes = {"b": 2, "h": 8, "g": 2, "q": rows, "k": 4096, "d": 128, "e": 128}
    sizes |= {"p": 100, "s": page, "n": 4096 // page, "r": 4096, "i": 32, "j": 32}
    return of_sizes(name, target, sizes, dtypes=CACHES[name])


@pytest.mark.one_in(14)
@pytest.mark.parametrize("rows", [1, 512])
@pytest.mark.parametrize("name", CACHES)
def test_caches(name: str, rows: int) -> None:
    """Decoding and prefill of a chunk, on Hopper; integers and e4m3 need nothing newer."""
    for launch in of_cache(name, "cuda:90", rows):
        assert compile_for("cuda:90", launch).shared <= SHARED_LIMIT["cuda:90"]
        assert kept_in_memory(launch) <= {"rolling_cache": 90}.get(name, 0)


def test_tiles_of_8_bits_reach_the_matrix_units_for_them() -> None:
    """Two of them are multiplied as they are; weights keep 16 bits, and so does what they meet."""
    (launch,) = of_cache("fp8_attention", "cuda:90", 4096)
    products = {i for i in instructions(launch) if "GMMA" in i}
    assert {p.partition(".")[0] for p in products} == {"QGMMA", "HGMMA"}
    assert all(p.endswith("E4M3.E4M3") for p in products if p.startswith("Q"))


@pytest.mark.parametrize(("name", "rows"), [("fp8_cache", 1), ("fp8_attention", 4096)])
def test_conversion_from_e4m3(name: str, rows: int) -> None:
    """None is done one by one, at an eighth of the rate: that is what Triton makes of bfloat16."""
    (launch,) = of_cache(name, "cuda:90", rows)
    used = {i.partition(".")[0] for i in instructions(launch)}
    assert "F2FP" in used
    assert "F2F" not in used


@pytest.mark.parametrize("target", slow_unless(lambda target: False, TARGETS))
def test_other_sizes(target: str) -> None:
    """Lengths that blocks fit, the largest head that is held whole, and other dtypes."""
    fits(of_library("causal", target, torch.bfloat16, 64, EVEN), target)
    # Blocks of 128 rows are twice as fast as those of 64, also with some bytes in memory.
    fits(of_library("sliding_window", target, torch.bfloat16, 256, ODD), target, spilled=104)
    fits(of_library("sliding_window", target, torch.bfloat16, 512, ODD), target)
    fits(of_library("causal", target, torch.float32, 64, ODD), target)
    # The compiler takes half of the registers, and keeps a few in memory during the loops.
    fits(of_library("causal", target, torch.float32, 512, ODD), target, spilled=24)
    fits(of_library("causal", target, torch.float16, 80, ODD), target)


@pytest.mark.one_in(9)
@pytest.mark.parametrize(
    ("name", "head", "target"),
    slow_unless(
        lambda name, head, target: name == "causal" and (target == "cuda:90" or head == 96),
        ["attention", "causal", "sliding_window"],
        [40, 80, 96, 192, 320],
        TARGETS,
    ),
)
def test_split_padding(name: str, head: int, target: str) -> None:
    """Heads that are padded less as two tiles; as one, long ones spill more than that."""
    spilled = {320: 512, 192: 384, 80: 16, 40: 8}.get(head, 0)
    fits(of_library(name, target, torch.bfloat16, head, ODD), target, spilled)


def launches_of_example(name: str, target: str) -> list[Launch]:
    """The launches of an example in bfloat16."""
    example = EXAMPLES[name]
    inputs = next(example.drawn(torch.bfloat16))
    return launches(example.text, target, inputs, {}, **example.params)


@pytest.mark.one_in(17)
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_for_hopper(name: str) -> None:
    """Types, shapes and helper functions are what the compiler wants."""
    for launch in launches_of_example(name, "cuda:90"):
        assert "ttg.target" in accepted("cuda:90", launch)


@pytest.mark.one_in(22)
@pytest.mark.parametrize("target", ["cuda:80", "cuda:90", "hip:gfx942"])
@pytest.mark.parametrize(
    "name",
    [
        "functions",
        "division of floats",
        "division by zero",
        "powers",
        "prod, min, all, any",
        "dropout",
        "affine maps",
        pytest.param("matmul of integers", marks=pytest.mark.slow),  # of 64 bits
        "large integers",
        "argmax",
        "top with a filter",
        "prefix sum",
        "experts",
    ],
)
def test_machine_code_of_examples(name: str, target: str) -> None:
    """The rest of the compiler accepts what it is given, and helper functions are portable; odd
    sizes and strides may cost registers."""
    assert [compile_for(target, launch) for launch in launches_of_example(name, target)]


@pytest.mark.one_in(14)
@pytest.mark.parametrize("name", STORED)
def test_stored_values_for_hopper(name: str) -> None:
    """Kernels that read what others store, in float32, beside inputs in bfloat16."""
    text = STORED[name]
    sizes = {"h": 2, "g": 2, "i": 12, "j": 140, "q": 150, "k": 160, "d": 64, "e": 64, "c": 64}
    made = launches(text, "cuda:90", make_inputs(text, sizes, torch.bfloat16), {})
    assert all("ttg.target" in accepted("cuda:90", launch) for launch in made)
    assert len(made) > 1
    if name in ("column sums", "gradients"):
        assert all(compile_for("cuda:90", launch).registers for launch in made)


def launch_of_long_axes(name: str) -> Launch:
    """A program with loops inside loops, at lengths that no tile could hold."""
    text = LONG[name]
    sizes = {"h": 2, "q": 1000, "k": 1100, "j": 1200, "d": 64, "e": 64}
    known = {i: n for i, n in sizes.items() if i in check(text).extent_of}
    (found,) = launches(text, "cuda:90", make_inputs(text, known, torch.bfloat16), known)
    return found


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", LONG)
def test_long_axes_for_hopper(name: str) -> None:
    """Such loops compile."""
    assert "ttg.target" in accepted("cuda:90", launch_of_long_axes(name))


def test_sums_that_are_read_twice() -> None:
    """Triton joins what threads add up after the loop, and fails if more than one reads it."""
    text = "S[i] = sum[k](A[i,k])\nO[i,j] = sum[k](cos(A[i,k] - S[i] * S[i]) * B[k,j])"
    inputs = make_inputs(text, {"i": 9, "k": 64, "j": 5}, torch.float32)
    (launch,) = launches(text, "cuda:90", inputs, {})
    assert "ttg.target" in accepted("cuda:90", launch)


QUOTIENTS = "input X[i]\nO[i] = X[i] * ((i - 384) // 128)"


def test_quotients_of_negative_positions() -> None:
    """Each element that a thread has is divided: Triton takes one quotient for all where the
    first is a multiple, which is wrong of negative ones."""
    (launch,) = launches(
        QUOTIENTS,
        "cuda:90",
        {"X": torch.empty(1 << 20, dtype=torch.float32, device="meta")},
        {check(QUOTIENTS).extent_of["i"]: 1 << 20},
    )
    lanes = 32 * launch.kwargs["num_warps"]
    divisions = re.findall(r"= sdiv i32 .*, 128\b", compiled_to("llir", launch))
    assert len(divisions) == launch.kwargs["BLOCK_I"] // lanes > 1


# --- machine code of a target -----------------------------------------

SIZES = dict.fromkeys("bhqkde", 64)


@pytest.mark.parametrize("is_minimal", [False, True])
@pytest.mark.parametrize(
    ("target", "dtype", "is_fast"),
    [
        ("h100", "bf16", True),
        ("a100", "fp16", True),
        ("h100", "fp32", False),
        ("mi300x", "bf16", False),
    ],
)
def test_functions_are_those_of_the_target(
    target: str, dtype: str, is_fast: bool, is_minimal: bool
) -> None:
    """The accuracy of tanh is decided by the host function, or in a file for known sizes."""
    kernel = mc.compile(library.load("softcap"), name="kernel")
    made = kernel.source(
        target=target, dtype=dtype, minimal=is_minimal, extents=SIZES if is_minimal else None
    )
    inputs = without_elements(kernel, SIZES)
    if dtype == "fp32":
        inputs = {name: tensor.float() for name, tensor in inputs.items()}
    (launch,) = recorded(load(made), "kernel", inputs, canonical(target))
    decided = f"tanh(scale * s, {is_fast})" in made if is_minimal else launch.kwargs["FAST"]
    assert decided is (is_minimal or is_fast)


# --- names of GPUs -----------------------------------------


@pytest.mark.parametrize(
    ("target", "spellings"),
    [
        ("cuda:80", "a100 A100 sm_80 cuda:8.0"),
        ("cuda:90", "h100 H200 sm_90 sm90 sm_90a compute_90 9.0 cuda:90 H100-SXM5-80GB"),
        ("cuda:100", "b200 sm_100 10.0"),
        ("hip:gfx942", "mi300 MI300X gfx942 rocm:gfx942 hip:gfx942"),
    ],
)
def test_spellings(target: str, spellings: str) -> None:
    assert {canonical(word) for word in spellings.split()} == {target}


def test_names_that_devices_give() -> None:
    assert canonical("NVIDIA H100 80GB HBM3") == "cuda:90"
    assert canonical("NVIDIA GeForce RTX 4090") == "cuda:89"
    assert canonical("AMD Instinct MI300X") == "hip:gfx942"
