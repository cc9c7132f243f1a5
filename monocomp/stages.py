"""The stages between a program and its kernels, each as text: what `Kernel.stages` shows.

    equations   after the rewrites, in normal form
    plan        what each kernel computes, how it walks along its indices, and why
    tile        the kernels: named axes with roles, typed operations, loops
    blocks      the same as one program instance does it: phases of loops, loads, layouts, dtypes
    host        what happens around the kernels: sizes, checks, buffers, launches
    source      the file that is emitted

A stage can be looked at before or after one of the passes within it: equations before and after the
steps of a rule, and blocks without and with a pass of `blocks.passes` or of the dialect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from monocomp.declarations import by_representative
from monocomp.errors import UsageError, did_you_mean

if TYPE_CHECKING:  # a kernel has stages
    from monocomp.backends.triton.dialect import Dialect
    from monocomp.kernel import Kernel
    from monocomp.planning.plan import Plan

STAGES = ("equations", "plan", "tile", "blocks", "host", "source")


class Stages(Mapping[str, str]):
    """The texts of a kernel's stages, made when they are read.

    Args:
        kernel: the kernel.
        extents: sizes that are known, by index.
        target: what to choose schedules for, such as "cuda:90".
    """

    def __init__(
        self, kernel: Kernel, extents: Mapping[str, int] | None = None, target: str | None = None
    ) -> None:
        self.kernel = kernel
        self.extents = dict(extents or {})
        self.target = target

    def at(self, target: str | None = None, **extents: int) -> Stages:
        """The stages for sizes by index, and for a target."""
        return Stages(self.kernel, {**self.extents, **extents}, target or self.target)

    @property
    def plan(self) -> Plan:
        """The plan for these sizes."""
        return self.kernel.plan(self.extents)

    @property
    def dialect(self) -> Dialect:
        """The language of the source."""
        from monocomp.backends.dialects import DIALECTS

        return DIALECTS[self.kernel.language]()

    @property
    def passes(self) -> tuple[str, ...]:
        """The passes over blocks, in their order."""
        return self.dialect.every_pass

    def __getitem__(self, stage: str) -> str:
        match stage:
            case "equations":
                return _lines(self.plan.rewrites.result)
            case "plan":
                return str(self.plan)
            case "tile":
                return "\n\n".join(map(str, self.plan.kernels))
            case "blocks":
                return self._blocks(self.passes)
            case "host":
                from monocomp.source import module

                kernel, sizes = self.kernel, by_representative(self.kernel.declared, self.extents)
                made = module(kernel.language, kernel.planner, sizes, "bf16", self.target)
                return str(made.program).rstrip()
            case "source":
                return self.kernel.source(extents=self.extents, target=self.target).rstrip()
        raise _unknown("stage", stage, STAGES)

    def __iter__(self) -> Iterator[str]:
        return iter(STAGES)

    def __len__(self) -> int:
        return len(STAGES)

    def __repr__(self) -> str:
        return f"<stages {', '.join(STAGES)}>"

    def before(self, name: str) -> str:
        """The equations before the first step of a rule, or block programs without a pass and
        those that come after it."""
        return self._beside(name, after=False)

    def after(self, name: str) -> str:
        """The equations after the last step of a rule, or block programs with a pass and those
        that come before it."""
        return self._beside(name, after=True)

    def _beside(self, name: str, *, after: bool) -> str:
        passes = self.passes
        if name in passes:
            return self._blocks(passes[: passes.index(name) + after])
        plan = self.plan
        every = [*plan.rewrites.steps, *plan.decisions]
        steps = [s for s in every if s.rule == name]
        if not steps:
            raise _unknown("pass here", name, [*dict.fromkeys(s.rule for s in every), *passes])
        return _lines(steps[-1].program if after else steps[0].start)

    def _blocks(self, passes: tuple[str, ...]) -> str:
        from monocomp.backends.triton.kernel_source import block_program

        programs = (
            block_program(k, passes=passes, dialect=self.dialect) for k in self.plan.kernels
        )
        return "\n\n".join(map(str, programs))


def _lines(equations: Any) -> str:
    return "\n".join(equations.readable_lines())


def _unknown(what: str, name: str, known: Any) -> UsageError:
    names = list(known)
    return UsageError(
        f"there is no {what} {name!r}",
        notes=[f"there are {', '.join(names)}"],
        help=did_you_mean(name, names),
    )
