"""Schedules: what a tile program leaves open."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import cached_property
from typing import Any

from monocomp.declarations.record import record
from monocomp.extents.nominal import MIN_DOT as MIN_DOT
from monocomp.extents.nominal import one_tile, split_lengths
from monocomp.machine.gpus import HOPPER
from monocomp.tile import TileProgram

CHUNK = 8  # elements of 16 bits that a lane loads at once
SECTOR = 16  # the same that the second-level cache does
LONGEST_BLOCK = 1 << 16
MOST_PROGRAMS = 1 << 20
LARGEST_GROUP = 1 << 20


@record()
class Schedule:
    """Block lengths by axis, warps a program instance, and stages of the load pipeline.

    `programs` is how many program instances a stream is cut into splits for; 0 if it is not.
    `split_axes` are held as two tiles each, which are padded less than one.
    `descriptors`: are tiles loaded by the copy engine, of tensors whose layout it can take?
    `group_size` is the order of the instances: so many positions of the grid, such as heads, take
    turns, a block of rows each; with 1, all rows of one come before those of the next. Where two
    axes are cut into blocks and there is no grid, blocks along the first are its positions.
    `registers` are the most that a thread may have; with 0, the compiler takes what it likes.
    `unchained`: are products cut off from those that they are made from, as their rows are too few
    for all warps?
    `language` is that of the kernel: a dialect's name.
    """

    blocks: tuple[tuple[str, int], ...]
    num_warps: int
    num_stages: int
    programs: int = 0
    split_axes: tuple[str, ...] = ()
    descriptors: bool = False
    group_size: int = 1
    registers: int = 0
    unchained: bool = False
    language: str = "triton"

    @cached_property
    def lengths(self) -> dict[str, int]:
        """Return the lengths of blocks, by axis."""
        return dict(self.blocks)

    @property
    def in_source(self) -> tuple[Any, ...]:
        """Return the settings that a kernel's source depends on, whatever its arguments are."""
        return self.split_axes, self.unchained, self.language

    def with_source_of(self, other: Schedule) -> Schedule:
        """Return this schedule for the source of another."""
        return replace(self, split_axes=other.split_axes, unchained=other.unchained)

    def to_json(self) -> dict[str, Any]:
        """Return the schedule as plain data."""
        return {**asdict(self), "blocks": dict(self.blocks), "split_axes": list(self.split_axes)}

    @staticmethod
    def from_json(data: Any) -> Schedule:
        """Make a schedule of plain data; raises ValueError, TypeError or KeyError if it is none."""
        names = ("num_warps", "num_stages", "programs")
        blocks = {str(axis): _whole_number(n) for axis, n in dict(data["blocks"]).items()}
        warps, stages, programs = (_whole_number(data[n]) for n in names)
        split_axes = tuple(str(axis) for axis in dict(data).get("split_axes", ()))
        descriptors, unchained = (dict(data).get(n, False) for n in ("descriptors", "unchained"))
        for flag in (descriptors, unchained):
            if not isinstance(flag, bool):
                raise TypeError(f"{flag!r} is no truth value")
        group_size = _whole_number(dict(data).get("group_size", 1))
        own = MIN_DOT * warps  # rows of warpgroups, of which there may be three
        if any(n < 1 or (n & (n - 1) and n != own) or n > LONGEST_BLOCK for n in blocks.values()):
            raise ValueError("block lengths are powers of two")
        if warps not in (1, 2, 4, 8, 12, 16) or not 1 <= stages <= 8:
            raise ValueError("warps or stages out of range")
        if not 0 <= programs <= MOST_PROGRAMS:
            raise ValueError("the number of program instances is out of range")
        registers = _whole_number(dict(data).get("registers", 0))
        if not 1 <= group_size <= LARGEST_GROUP or group_size & (group_size - 1):
            raise ValueError("the size of a group is a power of two")
        if not 0 <= registers <= HOPPER.registers:
            raise ValueError("registers out of range")
        language = dict(data).get("language", "triton")
        if not isinstance(language, str):
            raise TypeError(f"{language!r} is no name")
        rest = (programs, split_axes, descriptors, group_size, registers, unchained, language)
        return Schedule(tuple(blocks.items()), warps, stages, *rest)

    def __str__(self) -> str:
        """Return text such as "128 x 64, 8 warps, 3 stages"."""
        blocks = " x ".join(str(length) for _, length in self.blocks) or "1"
        splits = f", {self.programs} programs" if self.programs else ""
        tiles = f", padding of {' and '.join(self.split_axes)} split" if self.split_axes else ""
        loads = ", descriptors" if self.descriptors else ""
        order = f", groups of {self.group_size}" if self.group_size > 1 else ""
        limit = f", {self.registers} registers" if self.registers else ""
        cut = ", unchained" if self.unchained else ""
        spoken = f", in {self.language}" if self.language != "triton" else ""
        more = splits + tiles + loads + order + limit + cut + spoken
        return f"{blocks}, {self.num_warps} warps, {self.num_stages} stages{more}"


def shortest(size: int) -> int:
    """Return the padded length of an axis in one tile or in two, whichever is less."""
    return min(one_tile(size), sum(split_lengths(size)))


def longest_alike(size: int) -> int:
    """Return the longest size of an axis that is held entirely that takes the same schedules: it
    is padded alike, and its rows fill sectors too, or chunks, or neither."""
    if size % SECTOR == 0:
        return shortest(size)
    return shortest(size) - (1 if size % CHUNK else CHUNK)


def held_length(program: TileProgram, axis: str, size: int) -> int:
    """Return the length of the tile of an axis of this size, in a kernel that holds it entirely."""
    if program.axes[axis].after is not None:
        return split_lengths(size)[1]
    is_first = any(a.after == axis for a in program.axes.values())
    return split_lengths(size)[0] if is_first else one_tile(size)


def _whole_number(x: Any) -> int:
    if type(x) is not int:
        raise TypeError(f"{x!r} is no whole number")
    return x
