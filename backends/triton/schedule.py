"""Schedules: what a tile program leaves open."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

MIN_DOT = 16  # the shortest side of a matrix product
LONGEST_BLOCK = 1 << 16
MOST_PROGRAMS = 1 << 20


@dataclass(frozen=True)
class Schedule:
    """Block lengths by axis, warps a program instance, and stages of the load pipeline.

    `programs` is how many program instances a stream is cut into parts for; 0 if it is not.
    """

    blocks: tuple[tuple[str, int], ...]
    num_warps: int
    num_stages: int
    programs: int = 0

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "blocks": dict(self.blocks)}

    @staticmethod
    def from_json(data: Any) -> Schedule:
        """From plain data; raises ValueError, TypeError or KeyError when it is not a schedule."""
        names = ("num_warps", "num_stages", "programs")
        blocks = {str(axis): _whole_number(n) for axis, n in dict(data["blocks"]).items()}
        warps, stages, programs = (_whole_number(data[n]) for n in names)
        if any(n < 1 or n & (n - 1) or n > LONGEST_BLOCK for n in blocks.values()):
            raise ValueError("block lengths are powers of two")
        if warps not in (1, 2, 4, 8, 16) or not 1 <= stages <= 8:
            raise ValueError("warps or stages out of range")
        if not 0 <= programs <= MOST_PROGRAMS:
            raise ValueError("the number of program instances is out of range")
        return Schedule(tuple(blocks.items()), warps, stages, programs)

    def __str__(self) -> str:
        """As in "128 x 64, 8 warps, 3 stages"."""
        blocks = " x ".join(str(length) for _, length in self.blocks) or "1"
        parts = f", {self.programs} programs" if self.programs else ""
        return f"{blocks}, {self.num_warps} warps, {self.num_stages} stages{parts}"


def _whole_number(x: Any) -> int:
    if type(x) is not int:
        raise TypeError(f"{x!r} is no whole number")
    return x


_PROCESSORS = {"cuda:80": 108, "cuda:90": 132, "cuda:100": 148, "hip:gfx942": 304}


def processors_of(target: str | None) -> int:
    """How many multiprocessors a target has, as a rule; 1 if it is not known."""
    return _PROCESSORS.get(target or "", 1)
