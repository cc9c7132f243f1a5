"""Estimate how long all program instances take, from how long a block takes.

The instances that a processor holds at a time hide each other's delays. So its time is

    turns * (fill + blocks * time per block)

where blocks have 64 x 64 elements, and fill is what an instance takes before and after its loop:
for its rows, and for the first loads, which other instances hide. In long kernels the time per
block decides, in short ones the rest. The unit of time is what a block takes with a good schedule;
so the numbers below are used for heads of any size, forward and backward. They are fitted to 162
kernels on an H200 (benchmarks/log/schedules.md): the fill is right to about a tenth
among the shapes of one kernel, and to about a quarter among different kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, prod
from typing import NamedTuple

from monocomp.backends.schedules.legal import Shape
from monocomp.declarations.record import record
from monocomp.machine.gpus import HOPPER

_SIDE = 64  # of a block: rows, and elements of the stream
_ROWS, _MASKED = 2.2, 0.9  # fill of 64 rows, and what a block with a mask takes more
_DELAY, _DELAY_ROWS = 2.8, 1.5  # of an instance, and of each 64 rows of it, alone on a processor
_ALONE = 0.65  # exponent of how much longer instances take if others are missing
_UNEVEN, _TAIL = 4 / 3, 0.2  # the heaviest rows over the usual, and what is left at the end
_SPILLING = 2  # exponent of the registers that fill needs, over those that there are
_IDLE = 0.5  # exponent of how many processors there are for each instance, if little is known
_ROUNDING = 0.02  # of the processors: so few instances more are no turn


class Cost(NamedTuple):
    """The time of a kernel is `blocks` times that of a block, and `fill`. What little is known of
    has one block."""

    blocks: float
    fill: float


def streamed_length(length: float, ends: int, rows: int, block: int) -> float:
    """Return the elements of a stream that an instance has, on average: an end that varies with
    the rows leaves half, two leave a third, as windows of any length do, and blocks of what is left
    are whole.

    Args:
        length: of the stream.
        ends: how many vary with the rows.
        rows: of the instance.
        block: of the stream.
    """
    return max(block, min(length, length / (1 + ends) + ends * max(rows, block) / 2))


@record()
class Occupancy:
    """A kernel's instances on a GPU, by the numbers of its features.

    Attributes:
        features: by name, lengths and counts as logarithms.
        processors: of the GPU.
    """

    features: Mapping[str, float]
    processors: int

    def instances(self, shape: Shape) -> float:
        """Count the program instances of a kernel with a shape."""
        if shape.instances:
            return shape.instances * self.processors
        blocks = max(1.0, 2 ** self.features["row"] / prod(shape.rows))
        return float(2 ** self.features["positions"] * blocks)

    def cost(self, shape: Shape) -> Cost:
        """Return the time of a kernel with a shape."""
        if shape.instances:
            return Cost(1.0, 0.0)  # as many as there are places
        of, rows = self.features, prod(shape.rows)
        instances = self.instances(shape)
        is_product = (of["columns"] or len(shape.streams) > 1) and not of["kept"]
        if not of["direct"] or is_product or not shape.streams:
            return Cost(max(1.0, self.processors / instances) ** _IDLE, 0.0)
        stream, resident = shape.streams[-1], self._resident(shape)
        length, ends = 2 ** of["length"], int(of["bounded"])
        blocks = rows * streamed_length(length, ends, rows, stream) / _SIDE**2
        parts = rows / _SIDE
        fill = parts * (_ROWS + _MASKED * of["masked"] * stream / _SIDE)
        fill += (_DELAY + _DELAY_ROWS * parts) / resident
        fill *= max(1.0, self._registers(shape) / HOPPER.registers) ** _SPILLING
        turns = self._turns(instances / self.processors, resident)
        return Cost(turns * blocks, turns * fill)

    def _resident(self, shape: Shape) -> int:
        """Count the instances that a processor holds, as shared memory and registers allow."""
        of, rows, stream = self.features, prod(shape.rows), shape.streams[-1]
        shared = 2 ** of["kept"] * rows + 2 ** of["streamed"] * stream * shape.stages
        registers = shape.warps * HOPPER.lanes * min(HOPPER.registers, self._registers(shape))
        room = (HOPPER.shared + HOPPER.reserved) / (shared + HOPPER.reserved)
        return max(1, int(min(room, HOPPER.register_file / registers)))

    def _registers(self, shape: Shape) -> float:
        """Estimate the registers of a thread: its part of the accumulators and of a block."""
        elements = prod(shape.rows) * (2 ** self.features["held"] + shape.streams[-1])
        return float(HOPPER.counters + elements / (shape.warps * HOPPER.lanes))

    def _turns(self, instances: float, resident: int) -> float:
        """Return the time of the instances of a processor, over that of one while all places are
        taken."""
        most, is_uneven = max(1, ceil(instances - _ROUNDING)), self.features["bounded"] > 0
        if most <= resident:
            return _together(most, resident) * (_UNEVEN if is_uneven else 1.0)
        if is_uneven:
            return instances + _TAIL * (resident - 1)
        rest = most % resident
        return most - rest + _together(rest, resident)


def _together(instances: int, resident: int) -> float:
    """Return the same for instances that run at a time, in some of the places."""
    return instances * (resident / instances) ** _ALONE if instances else 0.0
