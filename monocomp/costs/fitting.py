"""Fitting: how many rows a program instance can hold.

A block of rows shares what a loop streams, so a kernel reads that once for each. Products of wide
tiles leave little room: those of latent attention, of 512 + 64 columns, in registers for what is
summed up and in shared memory for what is multiplied, fit 32 rows where those of heads of 128 fit
128, and read what they stream four times as often.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from monocomp.costs.cost import ELEMENT_BYTES, Amount
from monocomp.extents.nominal import MIN_DOT, ROW_BLOCK
from monocomp.machine.gpus import HOPPER
from monocomp.terms import Term


@dataclass
class Columns:
    """The columns of the matrices that a kernel's products multiply, by what is read.

    Attributes:
        held: of those that rows have, and no loop reads anew.
        streamed: of those that loops read.
    """

    held: dict[Term, int] = field(default_factory=dict)
    streamed: dict[Term, int] = field(default_factory=dict)

    def rows_that_fit(self, state: Amount) -> int:
        """Return the longest block of rows that fits, beside a block as long of what is streamed:
        twice, as one is loaded while the other is read.

        Args:
            state: the numbers that loops carry for each row.
        """
        most = [ROW_BLOCK]
        if isinstance(state, int) and state:
            most.append(HOPPER.register_file // state)
        columns = sum(self.held.values()) + 2 * sum(self.streamed.values())
        if columns:
            most.append(HOPPER.shared // (ELEMENT_BYTES * columns))
        return max(MIN_DOT, 1 << (max(1, min(most)).bit_length() - 1))
