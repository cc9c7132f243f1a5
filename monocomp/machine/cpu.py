"""The CPU that calls run on where there is no GPU: numbers of elements, taken as of float32."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cpu:
    """The speed of torch on a CPU, and what calls may hold.

    Attributes:
        call: elements that a vector operation goes through while another is called.
        tile: of the largest tile that is recorded, of which a few live at once; longer ones are
            better cut where filters leave something out.
        interpreted: of the largest tile that is interpreted.
        blocks: of the grid of a kernel that is recorded.
        kept: elements of a value that is held between calls.
        shared: of all that a call leaves for its backward pass.
        freed: of a value that is given back before its call ends.
        lanes: of a vector. Fewer rows are multiplied one by one if both matrices are transposed.
    """

    call: int
    tile: int
    interpreted: int
    blocks: int
    kept: int
    shared: int
    freed: int
    lanes: int


CPU = Cpu(
    call=1 << 12,  # about a microsecond of either: guessed
    tile=1 << 21,  # beyond 8 MiB cut tiles were faster, measured 2026-11-28
    interpreted=1 << 19,  # 2 MiB, about a second-level cache: guessed
    blocks=32,  # from here on guessed, so that calls hold little
    kept=1 << 18,
    shared=1 << 20,
    freed=1 << 14,
    lanes=8,  # of AVX2; with fewer rows MKL took up to 15 times as long, measured 2026-11-30
)
