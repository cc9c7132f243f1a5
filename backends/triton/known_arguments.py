"""The arguments of kernels that are known in a file for known sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from monocomp.backends.schedules.schedule import Schedule, held_length
from monocomp.blocks import INT32, Argument, Block
from monocomp.blocks.names import Constant, Key
from monocomp.declarations.record import record
from monocomp.tile import TileProgram


@record()
class Promises:
    """The properties of calls of a minimal file, besides sizes: offsets fit 32 bits, and last
    dimensions have no gaps.

    Attributes:
        precision: "ieee" or "tf32".
        fast: True if functions may be only as accurate as results of 16 bits.
        widths: bytes of an element, by input; an element that kernels store takes 4.
    """

    precision: str
    fast: bool
    widths: Mapping[str, int]

    def of(
        self,
        known: Known,
        arguments: Sequence[Argument],
        described: Sequence[Block],
    ) -> dict[Key, Constant]:
        """Return what else is known of arguments, and of what descriptors load."""
        schedule, sizes, axes = known.schedule, known.sizes, known.kernel.axes
        blocks = schedule.lengths
        constants: dict[Key, Constant] = {
            ("option", "INDEX", 0): INT32,
            ("option", "PRECISION", 0): self.precision,
            ("option", "FAST", 0): self.fast,
            ("option", "STEP", 0): 1,
        }
        last = {a.of: a.dim for a in arguments if a.purpose == "stride"}
        constants |= {("stride", tensor, dim): 1 for tensor, dim in last.items()}
        for a in arguments:
            match a.purpose:
                case "order":
                    constants[a.key] = schedule.group_size
                case "descriptor":
                    constants[a.key] = self._is_described(known, described[a.dim]) or None
                case "even" if axes[a.of].role != "whole":
                    size = sizes.get(axes[a.of].extent)
                    constants[a.key] = size is not None and size % blocks[a.of] == 0
                case "single":
                    size = sizes.get(axes[a.of].extent)
                    constants[a.key] = size is not None and 0 < size <= blocks[a.of]
                case "even" if axes[a.of].extent not in sizes:
                    constants[a.key] = False
        return constants

    def _is_described(self, known: Known, block: Block) -> bool:
        """True if the schedule wants a descriptor, and 16 bytes divide rows of the known size."""
        last = block.axes[-1]
        row = 0 if last is None else known.sizes.get(known.kernel.axes[last].extent, 0)
        is_aligned = row > 0 and row * self.widths.get(block.tensor, 4) % 16 == 0
        return known.schedule.descriptors and is_aligned


@record()
class Known:
    """The known arguments of a kernel.

    Attributes:
        kernel: the kernel.
        schedule: its schedule.
        sizes: the known extents.
        promises: of a minimal file.
    """

    kernel: TileProgram
    schedule: Schedule
    sizes: Mapping[str, int]
    promises: Promises | None

    def __call__(
        self, arguments: Sequence[Argument], described: Sequence[Block]
    ) -> dict[Key, Constant]:
        """Return the known arguments, of these and of descriptors for these blocks: sizes, the
        tiles of what is held entirely, and what calls promise."""
        kernel, sizes = self.kernel, self.sizes
        constants: dict[Key, Constant] = {
            ("size", e, 0): sizes[e] for e in kernel.extents() if e in sizes
        }
        for a in kernel.axes.values():
            if a.role == "whole" and a.extent in sizes:
                length = held_length(kernel, a.name, sizes[a.extent])
                before = held_length(kernel, a.after, sizes[a.extent]) if a.after else 0
                constants["block", a.name, 0] = length
                constants["even", a.name, 0] = sizes[a.extent] >= before + length
        return constants | (self.promises.of(self, arguments, described) if self.promises else {})
