"""Differences between the languages that kernels are printed in; all else in a file is shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import field
from typing import Protocol

from monocomp.backends.schedules import table
from monocomp.backends.schedules.legal import Legal
from monocomp.backends.schedules.reasons import reasons
from monocomp.backends.schedules.schedule import Schedule
from monocomp.backends.triton.device_functions import DEVICE_FUNCTIONS
from monocomp.backends.triton.host_functions import HOST_FUNCTIONS
from monocomp.backends.triton.printer import Printer
from monocomp.backends.triton.selfcheck import DEVICES
from monocomp.blocks import BlockProgram
from monocomp.blocks.choices.choose import PASSES
from monocomp.blocks.passes.endings import end_products
from monocomp.blocks.passes.interleaving import interleave
from monocomp.blocks.passes.loading_together import load_together
from monocomp.blocks.passes.running_folds import hold_folds
from monocomp.declarations.record import record
from monocomp.tile import TileProgram


class Table(Protocol):
    """Chooses among legal schedules."""

    def first(self, legal: Legal, /) -> Schedule:
        """Return the schedule to take where nothing is measured."""

    def candidates(self, legal: Legal, /, count: int) -> list[Schedule]:
        """Return at most so many schedules that are worth measuring."""


@record(eq=False)
class Dialect:
    """A language; what is not given is as in Triton.

    Attributes:
        name: of the backend.
        printer: prints kernels.
        passes: over block programs, in their order; those of `blocks.choices` have run.
        resident: do descriptors load what is loaded once, too?
        target: the only kind of GPU that has what the language says; None: there are several.
        adds: may kernels add up in memory what others would compute, as that costs little?
        merges: are there kernels without products, that merge partial results?
        schedules: those that a kernel may have.
        table: which of these come first.
        reasons: says why one is taken where nothing is measured.
        reserved: names of every file, which no program can have.
        taken: those in a kernel of a name.
        imports: of every file.
        device_functions, host_functions: those that files hold if they use them.
        devices: where a file's self-check runs, and in which dtypes.
    """

    name: str
    printer: type[Printer] = Printer
    passes: Mapping[str, Callable[[BlockProgram], BlockProgram]] = field(default_factory=dict)
    resident: bool = False
    target: str | None = None
    adds: bool = False
    merges: bool = True
    schedules: type[Legal] = Legal
    table: Table = table
    reasons: Callable[[Legal], str] = reasons
    reserved: Set[str] = frozenset()
    taken: Callable[[TileProgram, str], Set[str]] = lambda program, kernel: frozenset()
    imports: tuple[str, ...] = ()
    device_functions: Mapping[str, str] = field(default_factory=lambda: DEVICE_FUNCTIONS)
    host_functions: Mapping[str, str] = field(default_factory=lambda: HOST_FUNCTIONS)
    devices: str = DEVICES

    @property
    def every_pass(self) -> tuple[str, ...]:
        """Return the names of all passes that lead to a block program, in their order."""
        return (*PASSES, *self.passes)

    def legal(
        self,
        kernel: TileProgram,
        sizes: Mapping[str, int],
        element_bytes: int,
        target: str | None = None,
        processors: int = 1,
    ) -> Legal:
        """Return the schedules that a kernel may have; arguments as for `Legal`."""
        return self.schedules(kernel, sizes, element_bytes, target, processors, self.name)


TRITON = Dialect(
    "triton",
    passes={
        "interleave": interleave,
        "end_products": end_products,
        "hold_folds": hold_folds,
        "load_together": load_together,
    },
)
