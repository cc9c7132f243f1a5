"""The stages between a program and its kernels, each as text: what `Kernel.stages` shows.

    equations   after the rewrites, in normal form
    plan        what each kernel computes, how it walks along its indices, and why
    tile        the kernels: named axes with roles, typed operations, loops
    schedule    why the first schedule of each kernel is taken: near rows of the table, their votes,
                idle processors, and the runners-up
    blocks      the same as one program instance does it: phases of loops, loads, layouts, dtypes
    host        what happens around the kernels: sizes, checks, buffers, launches
    source      the file that is emitted

A stage can be looked at before or after one of the passes within it: equations before and after the
steps of a rule, and blocks without and with a pass of `blocks.choices` or of the dialect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from monocomp.declarations.record import record
from monocomp.declarations.records import by_representative
from monocomp.errors import unknown

if TYPE_CHECKING:  # a kernel has stages
    from monocomp import blocks as B
    from monocomp.backends.triton.dialect import Dialect
    from monocomp.kernel import Kernel
    from monocomp.planning.plan import Plan
    from monocomp.source import Emission
    from monocomp.tile import Origin


@record()
class Line:
    """A line of the source, and where it comes from.

    Attributes:
        number: from 1.
        text: the line.
        block: the statement of a block program that it says.
        tile: the statement of the tile program that this is a part of; of what belongs to none, the
            axis or the kernel.
        origin: the term that this computes, and its equation.
    """

    number: int
    text: str
    block: B.Statement | None
    tile: B.Origin | None
    origin: Origin | None


STAGES = ("equations", "plan", "tile", "schedule", "blocks", "host", "source")


class Stages(Mapping[str, str]):
    """The texts of a kernel's stages, made when they are read.

    Args:
        kernel: the kernel.
        extents: sizes that are known, by index.
        target: what to choose schedules for, such as "cuda:90".
        dtype: of the inputs.
    """

    def __init__(
        self,
        kernel: Kernel,
        extents: Mapping[str, int] | None = None,
        target: str | None = None,
        dtype: str = "bf16",
    ) -> None:
        self.kernel = kernel
        self.extents = dict(extents or {})
        self.target = target
        self.dtype = dtype

    def at(self, target: str | None = None, **extents: int) -> Stages:
        """Return the stages for sizes by index, and for a target."""
        return Stages(self.kernel, {**self.extents, **extents}, target or self.target, self.dtype)

    @cached_property
    def emission(self) -> Emission:
        """Return the program with what its source is emitted for."""
        from monocomp.source import Emission

        kernel, sizes = self.kernel, by_representative(self.kernel.declared, self.extents)
        how = self.dtype, self.target, kernel.language, kernel.tf32
        return Emission(kernel.planner, sizes, *how)

    @property
    def plan(self) -> Plan:
        """Return the plan for these sizes and this target."""
        return self.emission.plan

    @property
    def dialect(self) -> Dialect:
        """Return the language of the source."""
        return self.emission.dialect

    @property
    def is_interpreted(self) -> bool:
        """True if the kernel's backend takes the tile program as it is."""
        return self.kernel.is_interpreted

    @property
    def passes(self) -> tuple[str, ...]:
        """Return the passes over blocks, in their order."""
        return self.dialect.every_pass

    def __getitem__(self, stage: str) -> str:
        match stage:
            case "equations":
                return _lines(self.plan.rewrites.result)
            case "plan":
                return str(self.plan)
            case "tile":
                return "\n\n".join(map(str, self.plan.kernels))
            case "schedule":
                return "\n\n".join(map(self.dialect.reasons, self.emission.legal))
            case "blocks":
                return self._blocks(self.passes)
            case "host":
                return str(self.emission.module().program).rstrip()
            case "source":
                return self.emission.module().source.rstrip()
        raise unknown(stage, STAGES, f"there is no stage {stage!r}", "stages")

    @property
    def lines(self) -> tuple[Line, ...]:
        """Return the lines of the source, each with the statements and the term that it comes
        from."""
        from monocomp.tile import Axis, TileProgram

        module = self.emission.module()
        found = []
        for number, text in enumerate(module.source.rstrip().split("\n"), 1):
            block = module.origins.get(number)
            tile = None if block is None else block.origin
            term = None if tile is None or isinstance(tile, Axis | TileProgram) else tile.origin
            found.append(Line(number, text, block, tile, term))
        return tuple(found)

    def traced(self) -> str:
        """Return the source, with the term that each statement computes beside its first line."""
        before, found = None, []
        for line in self.lines:
            is_first = line.origin is not None and line.block is not before
            found.append(f"{line.text:88}  # {line.origin}" if is_first else line.text)
            before = line.block
        return "\n".join(found)

    def __iter__(self) -> Iterator[str]:
        return iter(STAGES)

    def __len__(self) -> int:
        return len(STAGES)

    def __repr__(self) -> str:
        return f"<stages {', '.join(STAGES)}>"

    def before(self, name: str) -> str:
        """Return the equations before the first step of a rule, or block programs without a pass
        and those that come after it."""
        return self._beside(name, after=False)

    def after(self, name: str) -> str:
        """Return the equations after the last step of a rule, or block programs with a pass and
        those that come before it."""
        return self._beside(name, after=True)

    def _beside(self, name: str, *, after: bool) -> str:
        passes = self.passes
        if name in passes:
            return self._blocks(passes[: passes.index(name) + after])
        plan = self.plan
        every = [*plan.rewrites.steps, *plan.decisions]
        steps = [s for s in every if s.rule == name]
        if not steps:
            known = [*dict.fromkeys(s.rule for s in every), *passes]
            raise unknown(name, known, f"there is no pass {name!r} here", "passes")
        return _lines(steps[-1].program if after else steps[0].start)

    @property
    def blocks(self) -> tuple[B.BlockProgram, ...]:
        """Return the block programs of the kernels, after all passes."""
        return self._block_programs(self.passes)

    def _block_programs(self, passes: tuple[str, ...]) -> tuple[B.BlockProgram, ...]:
        from monocomp.backends.triton.kernel_source import block_program

        pairs = zip(self.plan.kernels, self.emission.schedules, strict=True)
        return tuple(
            block_program(k, passes=passes, dialect=self.dialect, unchained=s.unchained)
            for k, s in pairs
        )

    def _blocks(self, passes: tuple[str, ...]) -> str:
        return "\n\n".join(map(str, self._block_programs(passes)))


def _lines(equations: Any) -> str:
    return "\n".join(equations.readable_lines())
