"""Products whose left operand is in registers, on Hopper: it is written for each block, and not
while a product still reads it.

The assembler ptxas, before CUDA 13.3, may give such registers to other values while a loop still
needs them (triton-lang/triton, pull requests 9514 and 11781; seen with ptxas 12.8 where queries
are the result of a product before the loop, and blocks are as long as heads). So each block has to
write the registers anew. And it may write them too early (issue 9433): `blocks.passes.endings`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import monocomp as mc
from monocomp import library
from monocomp.backends.schedules.schedule import Schedule
from monocomp.backends.triton.kernel_source import block_program
from monocomp.backends.triton.launch import interpreted, load
from tests.backends import interpreted as interpreter
from tests.backends.compiling import (
    compile_for,
    compiled_to,
    first_launches,
    launches_of,
    machine_code,
    without_elements,
)
from tests.backends.tolerances import near

LENGTH, HEAD = 4096, 64  # blocks are as long as heads
PROJECTED = """
P[b,h,q,d] = Q[b,h,q,c] * W[c,d]
O[b,h,q,e] = softmax[k](P[b,h,q,d] * K[b,h,k,d] / sqrt(|d|)) * V[b,h,k,e]
"""
BIASED = "O[b,h,q,e] = softmax[k]((Q[b,h,q,d] + B[h,d]) * K[b,h,k,d]) * V[b,h,k,e]"
IN_LIBRARY = ("attention", "causal", "rms_norm", "taylor_attention", "linear_attention")
PROGRAMS = {n: library.load(n) for n in IN_LIBRARY} | {"projected": PROJECTED, "biased": BIASED}


def written(instruction: str) -> set[int]:
    """The registers that an instruction writes, if its first operand is one."""
    found = re.match(r"(?:@!?\w+ )?([A-Z0-9]+)(\S*)\s+R(\d+)\b", instruction)
    if found is None:
        return set()
    name, modifiers, first = found[1], found[2], int(found[3])
    product = re.match(r"\.64x(\d+)x\d+\.F32", modifiers)
    count = 1
    if name == "HGMMA" and product:
        count = int(product[1]) // 2
    elif ".128" in modifiers or (name == "LDSM" and modifiers.endswith(".4")):
        count = 4
    elif ".64" in modifiers or ".WIDE" in modifiers or modifiers.endswith(".2"):
        count = 2
    return {*range(first, first + count)}


def loops(code: Sequence[tuple[int, str]]) -> Iterator[Sequence[tuple[int, str]]]:
    """The instructions of each loop, from where a branch goes back to."""
    positions = {address: n for n, (address, _) in enumerate(code)}
    for n, (_, branch) in enumerate(code):
        target = re.search(r"\bBRA\b.*?(0x[0-9a-f]+)", branch)
        loop = code[positions.get(int(target[1], 16), n) if target else n : n]
        # Not one: the end of the kernel has been laid out in between.
        if loop and not any("EXIT" in text for _, text in loop):
            yield loop


def held(code: Sequence[tuple[int, str]]) -> tuple[int, list[int]]:
    """How many products in loops have their left operand in registers, and the addresses of those
    that find there what no earlier instruction of the loop has written."""
    count, found = 0, []
    for loop in loops(code):
        known: set[int] = set()
        for address, text in loop:
            operand = re.search(r"HGMMA\S*\s+R\d+, R(\d+),", text)
            if operand:
                count += 1
                first = int(operand[1])
                if not {*range(first, first + 4)} <= known:
                    found.append(address)
            known |= written(text)
    return count, found


def overwritten(code: Sequence[tuple[int, str]]) -> list[int]:
    """The addresses that write left operands of products in loops that may still run. Products run
    in groups, each until one waits for it, or for a later one."""
    found: dict[int, None] = {}
    for loop in loops(code):
        groups: list[set[int]] = [set()]
        for address, text in (*loop, *loop):  # what one block issues, the next one may overwrite
            wait = re.search(r"DEPBAR\.LE gsb0, (0x[0-9a-f]+)", text)
            operand = re.search(r"HGMMA\S*\s+R\d+, R(\d+),", text)
            if wait:
                groups = groups[max(0, len(groups) - 1 - int(wait[1], 16)) :]
            elif "HGMMA" not in text and written(text) & set().union(*groups):
                found[address] = None
            if operand:
                groups[-1] |= {*range(int(operand[1]), int(operand[1]) + 4)}
            if "gsb0" in text and not wait:
                groups.append(set())
    return [*found]


def codes(kernel: mc.Kernel, head: int) -> Iterator[tuple[str, Sequence[tuple[int, str]]]]:
    """The name of each kernel, and its instructions."""
    known = {"b": 4, "h": 16, "q": LENGTH, "k": LENGTH, "d": head, "e": head, "c": head}
    sizes = {e: known[e] for e in kernel.declared.extent_of.values()}
    for launch in first_launches(kernel, without_elements(kernel, sizes), sizes, processors=132):
        yield launch.function.__name__, machine_code(launch)


@pytest.mark.one_in(7)
@pytest.mark.skipif(interpreted(), reason="Triton interprets in this process")
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_operand_is_held_in_registers(name: str) -> None:
    counts = []
    for called, code in codes(mc.compile(PROGRAMS[name]), HEAD):
        count, found = held(code)
        assert not found and not overwritten(code), called
        counts.append(count)
    assert any(counts)


@pytest.mark.skipif(interpreted(), reason="Triton interprets in this process")
def test_no_operand_is_overwritten() -> None:
    """In Triton 3.6.0 the gradient of K was infinite here, on an H200: a stored sum is multiplied
    in two limbs, and nothing waited for the second product of a block."""
    gradient = mc.compile(mc.grad(library.load("linear_attention"), ["K"]))
    for called, code in codes(gradient, 2 * HEAD):
        assert not overwritten(code), called


# --- how many registers a thread may have -----------------------------------------

SIZES = {"b": 4, "h": 16, "q": 4096, "k": 4096, "d": 64, "e": 64}


def test_emitted() -> None:
    """A file says its limit where sizes are given; nothing is known of others."""
    kernel = mc.compile(library.load("causal"))
    assert '    "maxnreg": 128,\n' in kernel.source(target="cuda:90", extents=SIZES)
    assert "maxnreg" not in kernel.source(target="cuda:90")
    assert "maxnreg" not in kernel.source(target="hip:gfx942", extents=SIZES)
    text = kernel.source(target="cuda:90", extents=SIZES, minimal=True)
    assert "maxnreg=128" in text


@pytest.mark.skipif(interpreted(), reason="Triton interprets in this process")
def test_compiled() -> None:
    """It is kept, and costs next to nothing."""
    kernel = mc.compile(library.load("document"))
    (launch,) = first_launches(kernel, without_elements(kernel, SIZES), SIZES, processors=132)
    usage = compile_for("cuda:90", launch)
    assert launch.kwargs["maxnreg"] == 128 >= usage.registers and usage.spilled <= 32


# --- rows that one block holds -----------------------------------------


def launch_of(name: str, rows: int, length: int, block: int) -> Any:
    kernel = mc.compile(library.load(name))
    (tile,) = kernel.plan({"i": rows, "k": length}).kernels
    schedule = Schedule(tuple((axis, block) for axis in tile.axis_names("stream")), 4, 1)
    inputs = {"X": torch.empty(rows, length, dtype=torch.bfloat16, device="meta")}
    (launch,) = launches_of(kernel, [tile], [schedule], inputs)
    return launch


@pytest.mark.parametrize("length", [2048, 2000])
@pytest.mark.parametrize("name", ["softmax", "sparsemax"])
def test_rows_are_loaded_once(name: str, length: int) -> None:
    text = compiled_to("ttgir", launch_of(name, 8, length, 2048))
    assert text.count("tt.load ") == 1 and "scf.for" not in text
    longer = compiled_to("ttgir", launch_of(name, 8, length + 2048, 2048))
    assert longer.count("tt.load ") > 1 and "scf.for" in longer


def test_loops_alone_are_left() -> None:
    """A stream read once has nothing to keep; nor do products, whose loops run ahead."""
    for name in ("logsumexp", "attention"):
        for tile in mc.compile(library.load(name)).plan().kernels:
            assert "single" not in {a.purpose for a in block_program(tile).arguments}


def run(source: str, x: Tensor, block: int) -> Tensor:
    module = load(source)
    config = {n: block if n.startswith("BLOCK") else v for n, v in module.CONFIG.items()}
    found: Tensor = module.softmax(x, configs=(config,))
    return found


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 31, 32, 33])
def test_results(length: int) -> None:
    """Also of rows with nothing in them, and beside what is no number."""
    source = mc.compile(library.load("softmax"), name="softmax").source()
    around = torch.full((3, length + 5), math.nan)
    around[:, 2 : length + 2] = torch.randn(3, length)
    x = around[:, 2 : length + 2]
    found = interpreter.call(run, source, x, 16)
    near("triton", library.load("softmax"), {"X": x}, [found], 4)


def test_minimal_files_have_no_loops() -> None:
    kernel = mc.compile(library.load("softmax"), name="softmax")
    held = kernel.source(
        target="cuda:90", dtype="bf16", extents={"i": 16384, "k": 8000}, minimal=True
    )
    assert " in tl.range(" not in held
    assert "offs_k = tl.arange(0, BLOCK_K)\n" in held
