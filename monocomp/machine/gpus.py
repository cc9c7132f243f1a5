"""GPUs: what each has and does, in one record a target.

Plans, schedules and passes take what a machine is from here, and compute what follows where it is
needed. Beside each number stands where it is from: data sheets and white papers of the vendors, the
tables of NVIDIA's CUDA C++ Programming Guide, or a measurement, with its page of `benchmarks/log`.

Plans are made for Hopper, whatever the target: rates of others were not measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Warpgroups:
    """The warpgroups of an instance that compute, of which there are so many.

    Attributes:
        registers: of a thread. Values leave some for addresses, or else ptxas lets each product end
            before the next.
        producer: registers of a thread of the warp that loads.
        pace: time of a row, over that with three: they hide each other's delays.
    """

    registers: int
    producer: int
    pace: float


@dataclass(frozen=True)
class Gpu:
    """The resources of a GPU, its rates, and what was measured on it.

    Attributes:
        processors: multiprocessors.
        clock: cycles a second.
        bandwidth: bytes a second, to and from device memory.
        launch: seconds of a kernel that does next to nothing.
        elementwise: operations on float32 of a processor in a cycle.
        special: special functions.
        conversions: conversions of 8 bits to 16.
        matrix: multiplications and additions of 16 bits, in products of matrices.
        lanes: threads of a warp.
        registers: that a thread can have.
        register_file: registers of a processor, each of 32 bits.
        saved: registers by which estimates may exceed those of a thread: so many the compiler has
            saved by itself, or at a few bytes in memory.
        addresses: registers of a thread for addresses, masks and counters.
        counters: the same where no operand of a product is loaded by addresses.
        spared: part of the registers of an estimate that the compiler saves, if it has to.
        kept: part of the rows and columns of its tile that a thread multiplies in full precision
            that it keeps.
        warp_tile: elements of a tile that a warp can hold in registers.
        limits_registers: true if it pays to give threads fewer, so that more instances fit.
        shared: bytes of shared memory that an instance can have.
        reserved: bytes of it that each instance takes for itself; its processor has them beside.
        direct_rows: rows that a product has at least whose operands matrix units take from there; 0
            if they do not.
        copies: true if an engine copies blocks of tensors there.
        cached: bytes that positions may stream while they take turns.
        neighbours: blocks of rows of one position that run at a time, if instances claim items.
        items: of a group of positions then, for each processor: long and short ones.
        turns: equal splits that a processor takes one after the other, if rows differ in length.
        converting: instances of a warp that a processor runs, if conversions take their time.
        alternating: how many times as long as special functions products may take, for warpgroups
            to take turns at them.
        warpgroups: by how many compute.
    """

    processors: int
    clock: float
    bandwidth: float
    launch: float
    elementwise: int
    special: int
    conversions: int
    matrix: int
    lanes: int
    registers: int
    register_file: int
    saved: int
    addresses: int
    counters: int
    spared: float
    kept: float
    warp_tile: int
    limits_registers: bool
    shared: int
    reserved: int
    direct_rows: int
    copies: bool
    cached: int
    neighbours: int
    items: float
    turns: int
    converting: int
    alternating: int
    warpgroups: Mapping[int, Warpgroups]

    @property
    def elementwise_per_second(self) -> float:
        """Return the operations on float32 of all processors in a second."""
        return self.processors * self.elementwise * self.clock


# An H200 SXM. Of an H100 all is the same but for the bandwidth.
HOPPER = Gpu(
    processors=132,  # data sheet
    clock=1.98e9,  # nvidia-smi, between products of matrices, 2026-10-28
    bandwidth=4.2e12,  # a copy; 4.8e12 in the data sheet. library.md
    launch=2e-6,  # between 1.75e-6 and 4.3e-6, in CUDA graphs, 2026-11-30. decoding.md
    elementwise=128,  # these four: as known of the architecture; not measured here
    special=16,
    conversions=64,
    matrix=4096,
    lanes=32,  # from here to registers: the guide's technical specifications
    registers=255,
    register_file=1 << 16,
    saved=160,  # in what was compiled for Hopper, 2026-11; no log was kept
    addresses=72,  # from here to `kept`: the same
    counters=40,
    spared=0.3,
    kept=0.3,
    warp_tile=1 << 12,  # half of the registers, guessed
    limits_registers=True,  # no log was kept
    shared=227 << 10,  # the guide
    reserved=1 << 10,
    direct_rows=64,
    copies=True,
    cached=8 << 20,  # about a sixth of the second level was best, 2026-11-22
    neighbours=8,  # these two: forward.md, 13, 2026-11-29
    items=1.9,
    turns=3,  # beside 2 and 4, 2026-11-30. decoding.md
    converting=8,  # caches of 8 bits, 2026-11-30. fp8.md
    alternating=3,  # backward, heads of 64 and 128, 2026-11-30. gradients.md
    warpgroups={  # pace: attention, heads of 64, 4096 keys, 2026-11-30. forward.md, 12
        1: Warpgroups(240, 24, pace=1.65),
        2: Warpgroups(240, 24, pace=1.13),
        3: Warpgroups(160, 32, pace=1.0),
    },
)
# The others differ in what decides which schedules fit, as data sheets and guides give it. Their
# `cached` and `saved` are guesses; limits of registers were not tried.
_AMPERE = replace(
    HOPPER,
    processors=108,
    saved=64,
    limits_registers=False,
    shared=163 << 10,
    direct_rows=0,
    copies=False,
)
_CONSUMER = replace(_AMPERE, processors=1, shared=99 << 10, cached=1 << 20)
_BLACKWELL = replace(HOPPER, processors=148, limits_registers=False, cached=16 << 20)
_CDNA = replace(
    _AMPERE,
    processors=304,
    lanes=64,
    registers=512,
    register_file=1 << 17,
    shared=64 << 10,
)
_TARGETS = {
    "cuda:80": _AMPERE,
    "cuda:90": HOPPER,
    "cuda:100": _BLACKWELL,
    **dict.fromkeys((f"cuda:{arch}" for arch in (86, 87, 89, 120, 121)), _CONSUMER),
    "hip:gfx942": _CDNA,
    "hip:gfx950": replace(_CDNA, processors=1, shared=160 << 10),
}


def gpu(target: str | None, processors: int = 0) -> Gpu:
    """Return the GPU that a target names, with as many processors if that is known: Hopper for
    None, and the last before it for one that is not in the table, with one processor."""
    target = target or "cuda:90"
    record = _TARGETS.get(target)
    if record is None:
        arch = 0 if target.startswith("hip:") else int(target.removeprefix("cuda:"))
        last = _BLACKWELL if arch >= 100 else HOPPER if arch >= 90 else _AMPERE
        record = replace(last if arch else _CDNA, processors=1)
    return replace(record, processors=processors) if processors > 1 else record
