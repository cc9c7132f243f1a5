"""A kernel in Gluon, as a file's text.

Taken are kernels with products whose operands descriptors can load, or that are computed; all
else in them is element-wise, a reduction, a load or a store by pointers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from monocomp.backends.gluon.printer import GluonPrinter, layout_name
from monocomp.backends.triton.device_functions import DEVICE_FUNCTIONS
from monocomp.backends.triton.identifiers import LAUNCH, Identifiers
from monocomp.blocks.kernels import build
from monocomp.blocks.passes import choose
from monocomp.blocks.program import BlockProgram
from monocomp.blocks.registers import place
from monocomp.blocks.pipeline import pipeline
from monocomp.blocks.specialisation import specialise
from monocomp.tile import TileProgram

_HEAD = """\
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma, warpgroup_mma, warpgroup_mma_wait
"""
_TAKEN = {"INDEX", "PRECISION", "FAST", "STEP", "ABREAST", "pid", "gl", "gluon", "n"}
_TAKEN |= {"mbarrier", "tma", "warpgroup_mma", "warpgroup_mma_wait", "STAGES", "WARPS"}


@dataclass(frozen=True)
class GluonSource:
    """A file, with the block program that it prints."""

    text: str
    program: BlockProgram


def block_program(program: TileProgram, name: str) -> BlockProgram:
    """The block program of a kernel, with its tiles in shared memory and in registers.

    Raises:
        UnsupportedError: what is not of the class above.
    """
    pairs = {layout_name((a, b)) for a in program.axes for b in program.axes}

    def scope(function: str) -> Identifiers:
        return Identifiers({*LAUNCH, *DEVICE_FUNCTIONS, *_TAKEN, *pairs, name, function})

    found = build(program, choose(program, resident=True), name, scope, {})
    return place(specialise(pipeline(found)))


def emit(program: TileProgram, name: str = "kernel") -> GluonSource:
    """The source of one kernel, whose identifier is `name`."""
    found = block_program(program, name)
    printer = GluonPrinter(found)
    lines = printer.kernel()
    text = [_HEAD]
    for helper in printer.helpers:
        function = DEVICE_FUNCTIONS[helper].replace("@triton.jit", "@gluon.jit")
        text += ["", re.sub(r"\btl\.(?!PropagateNan)", "gl.", function), ""]
    return GluonSource("\n".join([*text, "", *lines, ""]), found)
