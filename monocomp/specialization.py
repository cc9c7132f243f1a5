"""The kernels of a program, specialized for sizes as far as these are known.

Sizes decide what kernels store for one another, which streams are cut into parts, and which axes
are held entirely. Sizes that decide alike share their kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from monocomp.building import BUILDING
from monocomp.derivation import Derivation
from monocomp.errors import UnsupportedError
from monocomp.language.syntax import Program
from monocomp.lowering import cut, has_same_elements, lower, split
from monocomp.nominal import nominal_sizes, power_of_two
from monocomp.pipeline import RULE_SETS, derive
from monocomp.program import Equations
from monocomp.rewrites.tiling import tiling_steps
from monocomp.rewriting import Rewriter, Step
from monocomp.roles import WHOLE_LIMIT
from monocomp.tile import TileProgram


class Specializations:
    """The kernels of a derived program by sizes; each is made once.

    Args:
        program: what the user has written.
        rewriter: where its derivation has come to.
        processors: how many program instances are to run side by side, unless a caller says.
    """

    def __init__(self, program: Program, rewriter: Rewriter, processors: int | None) -> None:
        self.program = program
        self.rewriter = rewriter
        self.processors = processors
        self._in_kernels: dict[tuple[Any, ...], tuple[Equations, list[Step]]] = {}
        self._lowered: dict[tuple[Any, ...], tuple[TileProgram, ...]] = {}

    @property
    def equations(self) -> Equations:
        """The program as it is written, in index terms."""
        return self.rewriter.start

    @cached_property
    def derivation(self) -> Derivation:
        """How the kernels follow from the program where no size is known."""
        return self.derivation_for({})

    def derivation_for(
        self, extents: Mapping[str, int], processors: int | None = None
    ) -> Derivation:
        """How the kernels for these sizes follow from the program."""
        with BUILDING:
            program, steps = self.in_kernels(extents, processors)
            steps = [*steps, *tiling_steps(program, self.tile_programs(extents, processors))]
            return Derivation.of(self.rewriter).then(steps)

    def in_kernels(
        self, given: Mapping[str, int], processors: int | None = None, divides: bool = True
    ) -> tuple[Equations, list[Step]]:
        """The program in kernels, with what they store for one another, and the steps to it."""
        processors = processors or self.processors or 1
        bucket = {e: power_of_two(n) for e, n in sorted(given.items())}
        key = (processors, divides, *bucket.items())
        found = self._in_kernels.get(key)
        if found is None:
            sizes = nominal_sizes(self.program, bucket)
            with BUILDING:
                program = self.rewriter.program
                if self.rewriter.depends_on_sizes:
                    program = derive(replace(self.equations, sizes=bucket)).program
                program, steps = cut(program, sizes)
                if processors > 1:
                    program, more = split(program, sizes, processors, divides=divides)
                    steps = [*steps, *more]
                found = self._in_kernels.setdefault(key, (program, steps))
        if given and not has_same_elements(found[0], given):
            return self.in_kernels(given, processors, divides=False)
        return found

    def tile_programs(
        self, extents: Mapping[str, int] | None = None, processors: int | None = None
    ) -> tuple[TileProgram, ...]:
        """The kernels as tile programs, in the order in which they run.

        Args:
            extents: sizes that are known, by representative. Others are taken for what
                `nominal_sizes` says where it must be chosen what kernels store.
            processors: as for `compile`; the kernel's own, unless given.
        """
        given = extents or {}
        program, _ = self.in_kernels(given, processors)
        # Beyond that only the side of the limit matters on which a size lies.
        sizes = {e: WHOLE_LIMIT + (n > WHOLE_LIMIT) for e, n in sorted(given.items())}
        key = (program.equations, *sizes.items())
        found = self._lowered.get(key)
        if found is None:
            with BUILDING:
                try:
                    found = self._lowered.setdefault(key, lower(program, sizes))
                except UnsupportedError as error:
                    raise _with_laws(error, program) from None
        return found


def _with_laws(error: UnsupportedError, program: Equations) -> UnsupportedError:
    """The error with the rules that would have helped, but for a law that is not proved."""
    from monocomp.refusals import unproved

    refused = [f"{r.rule}: {r}" for at in RULE_SETS for r in unproved(program, at)]
    notes = [*error.notes, *dict.fromkeys(refused)]
    return UnsupportedError(error.message, notes=notes, help=error.help)
