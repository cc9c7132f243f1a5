"""GPUs by what their targets name: what a multiprocessor has, and how many there are."""

from __future__ import annotations

from dataclasses import replace

from monocomp.backends.schedules.schedule import processors_of
from monocomp.declarations.record import record


@record()
class Gpu:
    """A multiprocessor, and how many there are.

    Attributes:
        lanes: threads of a warp.
        registers: that a thread can have.
        register_file: registers of all threads, where it was measured that giving each thread fewer
            pays; else 0.
        saved: registers by which estimates may be above that: so many the compiler has saved by
            itself, or at a few bytes in memory, in what was compiled for Hopper; the shapes that
            are known for others stay below.
        shared: bytes that an instance can have.
        reads_shared: do matrix units take operands from shared memory, given 64 rows?
        copies: does it have an engine that copies blocks of tensors to shared memory?
        cached: bytes that positions may stream while they take turns: on Hopper a sixth of the
            second-level cache has been best, and others are taken to be alike.
        processors: number of multiprocessors.
    """

    lanes: int
    registers: int
    register_file: int
    saved: int
    shared: int
    reads_shared: bool
    copies: bool
    cached: int
    processors: int


_AMPERE = Gpu(
    lanes=32,
    registers=255,
    register_file=0,
    saved=64,
    shared=163 << 10,
    reads_shared=False,
    copies=False,
    cached=8 << 20,
    processors=0,
)
_HOPPER = replace(
    _AMPERE,
    saved=160,
    register_file=1 << 16,
    shared=227 << 10,
    reads_shared=True,
    copies=True,
)
_CONSUMER = replace(_AMPERE, shared=99 << 10, cached=1 << 20)
_BLACKWELL = replace(_HOPPER, cached=16 << 20, register_file=0)
_CDNA = replace(_AMPERE, lanes=64, registers=512)


def gpu(target: str | None, processors: int = 0) -> Gpu:
    """Return the GPU that a target names; Hopper for None, and what came before for others."""
    target = target or "cuda:90"
    processors = processors if processors > 1 else processors_of(target)
    if target.startswith("hip:"):
        held = (160 if target == "hip:gfx950" else 64) << 10
        return replace(_CDNA, shared=held, processors=processors)
    arch = int(target.removeprefix("cuda:"))
    if arch in (86, 87, 89, 120, 121):
        found = _CONSUMER
    elif arch < 90:
        found = _AMPERE
    else:
        found = _HOPPER if arch < 100 else _BLACKWELL
    return replace(found, processors=processors)
