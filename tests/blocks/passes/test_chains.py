"""Products that are cut off from those that are made from them."""

from __future__ import annotations

import re
from dataclasses import replace

import torch
from torch import Tensor

import monocomp as mc
from monocomp import blocks as B
from monocomp import library
from monocomp.backends.schedules import table
from monocomp.backends.schedules.legal import Legal, Shape
from monocomp.backends.schedules.schedule import Schedule
from monocomp.backends.triton.emit import emit
from monocomp.backends.triton.launch import load
from monocomp.tile import TileProgram
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
    module = emit(kernel.equations, plan.kernels, [schedule], lowered=plan.program)
    assert "unchained(acc * alpha[:, None])" in module.source
    inputs = CASES["causal"].inputs(CASES["causal"].sizes(70, 70, 32, 32), torch.float32)
    found = interpreter.call(run, module.source, module.host, *inputs.values())
    near("triton", library.load("causal"), inputs, [found], 4)
