"""Passes over blocks: products that are cut off from those that are made from them, and constants:
what is known of arguments is computed, and nothing is left that it leaves without a use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import monocomp as mc
from monocomp import blocks as B
from monocomp import library
from monocomp.backends.schedules import table
from monocomp.backends.schedules.legal import Legal, Shape
from monocomp.backends.schedules.schedule import Schedule
from monocomp.backends.triton.emit import Part, emit
from monocomp.backends.triton.kernel_source import block_program, source_of
from monocomp.backends.triton.launch import load
from monocomp.blocks import INT32
from monocomp.blocks.names import Constant, Key
from monocomp.tile import TileProgram
from tests.backends import interpreted
from tests.backends import interpreted as interpreter
from tests.backends.compiling import compile_for, compiled_to, launches_of, without_elements
from tests.backends.library_cases import CASES
from tests.backends.tolerances import near

SIZES = {"b": 1, "h": 2, "q": 512, "k": 512, "d": 256, "e": 256}
FEW, ENOUGH = "64/64 8w 2s tma", "128/64 8w 2s tma"


def gradient(name: str = "attention") -> mc.Kernel:
    return mc.compile(mc.grad(library.load(name)))


def legal(kernel: TileProgram, target: str = "cuda:90") -> Legal:
    return Legal(kernel, SIZES, 2, target, 132)


def cut(program: B.BlockProgram) -> list[str]:
    """The names of what products take that is cut off."""
    values = [e for s in B.walk(program.body) for e in B.roots(s)]
    found = [x for e in values for x in B.subexpressions(e) if x.op == "unchained"]
    return [y.attr for x in found for y in B.subexpressions(x) if y.op == "name"]


def test_warps_share_columns() -> None:
    """In the machine's layout, and with less work: half of the instructions of two products."""
    kernel = gradient()
    plan = kernel.plan(SIZES)
    inputs = without_elements(kernel, SIZES)
    firsts = [table.first(legal(k)) for k in plan.kernels]
    few = legal(plan.kernels[-1]).named(Shape.parse(FEW))
    assert few is not None
    found = {}
    for unchained in (True, False):
        schedules = [*firsts[:-1], replace(few, unchained=unchained)]
        *_, launch = launches_of(kernel, plan.kernels, schedules, inputs, lowered=plan.program)
        usage = compile_for("cuda:90", launch)
        assert usage.spilled == 0
        found[unchained] = compiled_to("ptx", launch).count("wgmma.mma_async")
        text = compiled_to("ttgir", launch)
        along_rows = re.search(r"nvidia_mma<[^>]*warpsPerCTA = \[8, 1\]", text)
        assert (along_rows is None) is unchained
    assert found[True] < found[False]


def run(source: str, host: str, *inputs: Tensor) -> Tensor:
    return getattr(load(source), host)(*inputs)


def test_results() -> None:
    """In Triton's interpreter, a kernel with statistics of its rows as well."""
    kernel = mc.compile(library.load("causal"))
    plan = kernel.plan({**SIZES, "q": 70, "k": 70})
    schedule = Schedule((("q", 64), ("k", 32)), 8, 2, unchained=True)
    module = emit(Part(kernel.equations, plan.kernels, [schedule], plan.program))
    assert "unchained(acc * alpha[:, None])" in module.source
    inputs = CASES["causal"].inputs(CASES["causal"].sizes(70, 70, 32, 32), torch.float32)
    found = interpreter.call(run, module.source, module.host, *inputs.values())
    near("triton", library.load("causal"), inputs, [found], 4)


# --- constants ---------------------------------------------------------------------------


def text(known: Mapping[Key, Constant], name: str = "causal") -> str:
    (kernel,) = mc.compile(library.load(name), name=name).plan().kernels
    return "\n".join(source_of(block_program(kernel, known=lambda *_: known)).lines)


FOLDED: dict[str, tuple[dict[Key, Constant], str, str]] = {
    "a stride of 1": ({("stride", "Q", 3): 1}, "+ offs_d[None, :],", "stride_Q_d"),
    "a mask": ({("even", "d", 0): True}, "mask=in_q[:, None], other", "in_d"),
    "no mask": ({("even", x, 0): True for x in "qd"}, " * stride_Q_d)", "in_q"),
    "a flag": ({("even", "d", 0): False}, "in_d = offs_d < size_d\n", "EVEN_D"),
    "a size": ({("size", "d", 0): 64}, "scale = 0.18033688011112042\n", "size_d"),
    "a length": ({("block", "d", 0): 64}, "offs_d = tl.arange(0, 64).to(INDEX)\n", "BLOCK_D"),
    "a dtype": ({("option", "INDEX", 0): INT32}, "offs_d = tl.arange(0, BLOCK_D)\n", "INDEX"),
    "no option": ({("option", "STEP", 0): 1}, "    num_q = tl.cdiv(size_q, BLOCK_Q)\n", "STEP"),
    "the precision": ({("option", "PRECISION", 0): "tf32"}, 'input_precision="tf32"', "PRECISION"),
    "an order": ({("order", "GROUP_SIZE", 0): 1}, "pid = tl.program_id(0)\n", "grouped"),
    "one head": ({("size", "h", 0): 1}, " * stride_Q_b\n", "stride_Q_h"),
    "a descriptor": ({("descriptor", "K", 0): True}, " if masked == 0:\n", "K_desc is not None"),
    "none": ({("descriptor", "K", 0): None}, "            K_tile = tl.load(", "K_desc"),
}


@pytest.mark.parametrize("name", FOLDED)
def test_what_is_known_is_gone(name: str) -> None:
    known, expected, gone = FOLDED[name]
    found = " ".join(text(known).split())
    assert expected.strip() in found and not re.search(rf"\b{gone}\b", found)


def test_given_sizes_are_numbers_of_whole_files(tmp_path: Path) -> None:
    """And the file checks itself at these sizes."""
    source = mc.compile(library.load("causal"), name="causal").source(
        extents={"d": 24, "e": 32}, dtype="fp32"
    )
    kernel = source[source.index("def causal_kernel") : source.index("def causal(")]
    assert not re.search(r"size_[de]|BLOCK_[DE]|EVEN_[DE]|in_e", kernel)
    assert "tl.arange(0, 32)" in kernel and "offs_d < 24" in kernel and "size_q" in kernel
    path = tmp_path / "emitted.py"
    path.write_text(source)
    status, out, err = interpreted.run_file(path)
    assert status == 0 and out.endswith("\nok\n"), err
