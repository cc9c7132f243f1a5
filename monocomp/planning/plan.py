"""The kernels of a program, specialized for sizes as far as these are known.

Sizes decide what kernels store for one another, which streams are cut into parts, and which axes
are held entirely. Sizes that decide alike share their kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from monocomp.building import BUILDING
from monocomp.derivation import Derivation
from monocomp.equations import Equations
from monocomp.errors import UnsupportedError
from monocomp.lowering import lower
from monocomp.pipeline import RULE_SETS
from monocomp.planning.roles import WHOLE_LIMIT
from monocomp.planning.sizes import has_same_elements, nominal_sizes, power_of_two, without_elements
from monocomp.planning.splitting import split
from monocomp.planning.storing import cut
from monocomp.proving.proofs import require_program
from monocomp.rewrites.tiling import tiling_steps
from monocomp.rewriting import Rewriter, Step
from monocomp.tile import TileProgram


class Specializations:
    """The kernels of a derived program by sizes; each is made once.

    Args:
        rewriter: where its derivation has come to.
        derive: the same derivation for sizes.
        processors: how many program instances are to run side by side, unless a caller says.
    """

    def __init__(
        self,
        rewriter: Rewriter,
        derive: Callable[[Mapping[str, int]], Rewriter],
        processors: int | None,
    ) -> None:
        self.rewriter = rewriter
        self.derive = derive
        self.processors = processors
        self._rewriters: dict[tuple[tuple[str, int], ...], Rewriter] = {}
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
            return Derivation.of(self._rewriter_for(_rounded(extents))).then(steps)

    def _rewriter_for(self, sizes: Mapping[str, int]) -> Rewriter:
        """The derivation for sizes, if they could lead it elsewhere."""
        matter = self.rewriter.depends_on_sizes or 0 in sizes.values()
        if not matter or not sizes:
            return self.rewriter
        key = tuple(sizes.items())
        found = self._rewriters.get(key)
        if found is None:
            found = self.derive(sizes)
            require_program(found.program)
            found = self._rewriters.setdefault(key, found)
        return found

    def in_kernels(
        self, given: Mapping[str, int], processors: int | None = None, divides: bool = True
    ) -> tuple[Equations, list[Step]]:
        """The program in kernels, with what they store for one another, and the steps to it."""
        processors = processors or self.processors or 1
        bucket = _rounded(given)
        key = (processors, divides, *bucket.items())
        found = self._in_kernels.get(key)
        if found is None:
            sizes = {
                e: max(n, 1) for e, n in nominal_sizes(self.equations.declared, bucket).items()
            }
            with BUILDING:
                program, steps = cut(self._rewriter_for(bucket).program, sizes)
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
        # Beyond that only the side of the limit matters on which a size lies, and which are 0.
        sizes = {e: WHOLE_LIMIT + (n > WHOLE_LIMIT) for e, n in sorted(given.items())}
        key = (program.equations, without_elements(program), *sizes.items())
        found = self._lowered.get(key)
        if found is None:
            with BUILDING:
                try:
                    found = self._lowered.setdefault(key, lower(program, sizes))
                except UnsupportedError as error:
                    raise _with_laws(error, program) from None
        return found


def _rounded(extents: Mapping[str, int]) -> dict[str, int]:
    """Sizes that decide alike."""
    return {e: power_of_two(n) if n else 0 for e, n in sorted(extents.items())}


def _with_laws(error: UnsupportedError, program: Equations) -> UnsupportedError:
    """The error with the rules that would have helped, but for a law that is not proved."""
    from monocomp.refusals import unproved

    refused = [f"{r.rule}: {r}" for at in RULE_SETS for r in unproved(program, at)]
    notes = [*error.notes, *dict.fromkeys(refused)]
    return UnsupportedError(error.message, notes=notes, help=error.help)
