"""How many registers a thread may have: so many that shared memory decides how many instances a
multiprocessor has; and rows that one block holds, which are loaded once."""

from __future__ import annotations

import math
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
    without_elements,
)
from tests.backends.tolerances import near

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


# --- rows that one block holds -----------------------------------------------------------


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
