"""Emitted kernels compile for GPUs that are not here: no spills, and they fit.

The default schedule is the one that an emitted file carries when nothing was measured.
"""

from __future__ import annotations

import pytest
import torch

import monocomp as mc
from monocomp import library
from monocomp.backends.triton.emit import emit
from monocomp.backends.triton.launch import load
from monocomp.backends.triton.schedule import candidates
from tests.backends.compiling import SHARED_LIMIT, TARGETS, Usage, compile_for, recorded

LENGTH = 512


def usage(name: str, target: str, dtype: torch.dtype, head: int) -> list[Usage]:
    """What the kernels of a library program take, compiled for a target."""
    kernel = mc.compile(library.load(name), name=name)
    sizes = {"b": 2, "h": 4, "g": 2, "q": LENGTH, "k": LENGTH, "i": LENGTH, "d": head, "e": head}
    extents = {e: sizes[e] for e in kernel.program.extent_of.values()}
    inputs = {
        n: torch.empty([sizes[d] for d in i.dims], dtype=dtype, device="meta")
        for n, i in kernel.program.inputs.items()
    }
    programs = kernel.tile_programs(extents)
    width = 4 if dtype == torch.float32 else 2
    schedules = [candidates(p, extents, width, target)[0] for p in programs]
    module = emit(kernel.equations, programs, schedules, target=target)
    configs = tuple(module.config(n, s) for n, s in enumerate(schedules))
    launches = recorded(load(module.source), module.host, inputs, configs=configs)
    assert len(launches) == len(programs)
    return [compile_for(target, launch) for launch in launches]


def fits(found: list[Usage], target: str) -> None:
    """No registers in memory, and no more shared memory than a block has."""
    for u in found:
        assert u.spilled == 0, u
        assert u.shared <= SHARED_LIMIT[target], u


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", library.names())
def test_library(name: str, target: str) -> None:
    """bfloat16 at d = 64 and 128."""
    heads = (64, 128) if "e" in mc.compile(library.load(name)).program.extent_of else (64,)
    for head in heads:
        fits(usage(name, target, torch.bfloat16, head), target)


@pytest.mark.parametrize("target", TARGETS)
def test_large_heads_and_float32(target: str) -> None:
    """The largest head that is held whole, and the widest dtype."""
    fits(usage("causal", target, torch.bfloat16, 256), target)
    fits(usage("causal", target, torch.float32, 64), target)
