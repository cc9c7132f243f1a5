"""A plan: the kernels that compute a program at given sizes, and the derivation that led there.

    equations -> rewrites -> what is stored -> packed rows, split streams -> groups, roles -> loops

Each of these is a step with its reason, and what the choice costs by `costs.cost`. A plan is
the one way to kernels: for calls, emitted source, explanations, reports, certificates and the
search alike. Sizes that decide alike share a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from monocomp.costs.holding import roles_by_cost
from monocomp.costs.operands import stored_operands
from monocomp.costs.roles import (
    WHOLE_LIMIT,
    RoleChoice,
    fits_whole,
    kernel_groups,
    scan_along,
)
from monocomp.declarations.record import record
from monocomp.derivation import rule_sets
from monocomp.derivation.derivation import Derivation
from monocomp.derivation.tiling import tiling_steps
from monocomp.display.rendering import Rendered
from monocomp.extents.nominal import (
    has_same_elements,
    nominal_sizes,
    packed_extents,
    planned_sizes,
    power_of_two,
    without_elements,
)
from monocomp.lowering.guards import guard_reads
from monocomp.lowering.kernels import lower
from monocomp.machine.locking import BUILDING
from monocomp.planning.arranging import arrange
from monocomp.planning.joining import join
from monocomp.planning.report import report
from monocomp.planning.search import Budget
from monocomp.planning.splitting import split
from monocomp.planning.widening import widened
from monocomp.proving.proofs import require_program
from monocomp.rewriting.driver import Rewriter, Step
from monocomp.rewriting.rules import STATED
from monocomp.terms.equations import Equation, Equations
from monocomp.tile import TileProgram

if TYPE_CHECKING:  # loaded when it is asked for: compiling needs none
    from monocomp.derivation.certificate import Certificate

_NAMED = 3  # results in a kernel's name


@record(eq=False)
class PlannedKernel:
    """A kernel: what it computes, and how it walks along each index of its outputs.

    Attributes:
        names: the equations that it computes.
        roles: of their indices, each with the reason.
        tiles: the kernel.
    """

    names: tuple[str, ...]
    roles: tuple[RoleChoice, ...]
    tiles: TileProgram


@record(eq=False)
class Plan(Rendered):
    """A way to compute a program; see the module.

    Attributes:
        rewrites: the derivation from the program as it is written to its normal form.
        decisions: the steps to equations in kernels: what is stored, packed and split.
        program: the equations in kernels.
        planned: the kernels, in the order in which they run.
        sizes: the extents, and what each was taken for where nobody gave it.
        given: the extents that were given.
        processors: how many program instances were to run side by side.
        is_spent: True if more ways to cut could have been tried.
    """

    rewrites: Derivation
    decisions: tuple[Step, ...]
    program: Equations
    planned: tuple[PlannedKernel, ...]
    sizes: Mapping[str, int]
    given: frozenset[str]
    processors: int
    is_spent: bool = False

    @cached_property
    def kernels(self) -> tuple[TileProgram, ...]:
        """Return the tile programs, in the order in which they run."""
        return tuple(k.tiles for k in self.planned)

    @cached_property
    def derivation(self) -> Derivation:
        """Return the steps that led from the program as it is written to the loops of its
        kernels."""
        with BUILDING:
            return self.rewrites.then([*self.decisions, *tiling_steps(self.program, self.kernels)])

    @cached_property
    def certificate(self) -> Certificate:
        """Certify what the kernels rest on at these sizes: laws with proofs, side conditions."""
        with BUILDING:
            return self.derivation.certify()

    def of_dtypes(self, dtypes: Mapping[str, str]) -> Plan:
        """Return the plan for inputs of dtypes, as far as they are known. Of what is widened the
        kernels do not see the 8 bits."""
        known = self.program.with_slices(dtypes)
        is_whole = self.program.slices is None  # else slices would be converted again and again
        wide = widened(self.kernels, self.sizes, known) if is_whole else frozenset()
        seen = {n: d for n, d in known.items() if n not in wide}
        planned = (replace(k, tiles=k.tiles.of_dtypes(seen)) for k in self.planned)
        return replace(self, program=self.program.of_dtypes(dtypes), planned=tuple(planned))

    def extents(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Return the extents that are known, by representative, with those that the plan has made
        of them."""
        return packed_extents(self.program, sizes)

    def report(self, extents: Mapping[str, int]) -> dict[str, Any]:
        """Report what the kernels cost; see `Kernel.report`."""
        return report(self.kernels, extents)

    @property
    def shown_sizes(self) -> str:
        """Return the sizes that were given, and the names of the others: "q = 64, any b, h"."""
        return show_sizes(self.sizes, self.given)

    def __str__(self) -> str:
        lines = [f"plan of {', '.join(o.name for o in self.program.declared.outputs)}"]
        lines += [f"  for {self.shown_sizes}"] if self.sizes else []
        lines += [f"  processors {self.processors}"] if self.processors > 1 else []
        lines += ["  with no trial left"] if self.is_spent else []
        lines += [f"  {line}" for line in self.program.readable_lines()]
        for s in self.decisions:
            lines += [f"{s.rule} in {', '.join(s.place)}: {s.after}"]
            lines += [f"  {s.cost}"] if s.cost is not None else []
        for kernel in self.planned:
            lines.append(f"{kernel.tiles.name}: {', '.join(kernel.names)}")
            width = max((len(c.axis.name) for c in kernel.roles), default=0)
            for c in kernel.roles:
                lines.append(f"  {c.axis.name:{width}}  {c.axis.role:6}  {c.why}")
            loops = report([kernel.tiles], {})["passes"]
            lines += [f"  {n} over {index}" for index, n in loops.items()]
        return "\n".join(lines)


def show_sizes(sizes: Mapping[str, int], known: Collection[str], word: str = "any") -> str:
    """Return sizes that were given as numbers, and the other extents by names after a word."""
    names = {e: e.lstrip(".") for e in sizes}
    numbers = [f"{names[e]} = {n}" for e, n in sizes.items() if e in known]
    unknown = [names[e] for e in sizes if e not in known]
    return ", ".join([*numbers, *([f"{word} {', '.join(unknown)}"] if unknown else [])])


class Planner:
    """The plans of one program; each is made once.

    Args:
        equations: the program as it is written.
        derivation: where its derivation has come to, unless it is made here.
        steps, rules: of the derivation, as for `compile`.
        processors: how many program instances are to run side by side, unless a caller says.
    """

    def __init__(
        self,
        equations: Equations,
        derivation: Derivation | None = None,
        *,
        steps: int | None = None,
        rules: Sequence[str] | None = None,
        processors: int | None = None,
    ) -> None:
        self.equations = equations
        self.processors = processors
        self.steps, self.rules = steps, rules
        self._rewriters: dict[tuple[tuple[str, int], ...], Rewriter] = {}
        self._plans: dict[tuple[Any, ...], Plan] = {}
        self._planned: dict[tuple[Any, ...], tuple[PlannedKernel, ...]] = {}
        with BUILDING:
            if derivation is None:
                self._start = self._derived(equations)
            else:
                self._start = derivation.rewriter()
                if not self._start.finished:  # elaboration would take apart what was lifted
                    rule_sets.complete(self._start)
            require_program(equations)
            require_program(self._start.program)

    def plan(
        self,
        extents: Mapping[str, int] | None = None,
        processors: int | None = None,
        in_memory: bool = False,
        narrow: Mapping[str, str] = MappingProxyType({}),
        adds: bool = False,
        matrices: bool = True,
    ) -> Plan:
        """Return the plan for these sizes, by index, as far as they are known.

        Args:
            extents: the sizes.
            processors: how many program instances are to run side by side.
            in_memory: are tiles held in memory, and may have any number of axes?
            narrow: the dtypes of inputs of 8 bits.
            adds: may kernels add up in memory what others would compute, in any order?
            matrices: may operands and results of products be stored, or are they computed wherever
                they are needed?

        Raises:
            UnsupportedError: no kernel computes the program.
        """
        representative = self.equations.declared.extent_of
        given = {representative.get(i, i): n for i, n in (extents or {}).items()}
        processors = processors or self.processors or 1
        made = partial(self._plan, given, processors, in_memory, narrow, adds, matrices)
        plan = made(divides=True)
        if given and not has_same_elements(plan.program, given):
            plan = made(divides=False)
        return plan

    def _plan(
        self,
        given: Mapping[str, int],
        processors: int,
        in_memory: bool,
        narrow: Mapping[str, str],
        adds: bool,
        matrices: bool,
        *,
        divides: bool,
    ) -> Plan:
        bucket = {e: power_of_two(n) if n else 0 for e, n in sorted(given.items())}
        # Beyond that only the side of the limit matters on which a size lies.
        sides = {e: WHOLE_LIMIT + (n > WHOLE_LIMIT) for e, n in sorted(given.items())}
        key = (
            processors,
            in_memory,
            adds,
            matrices,
            divides,
            *bucket.items(),
            *sides.values(),
            *narrow.items(),
        )
        plan = self._plans.get(key)
        if plan is None:
            with BUILDING:
                how = in_memory, narrow, adds, matrices, divides
                plan = self._made(bucket, sides, processors, *how)
            plan = self._plans.setdefault(key, plan)
        return plan

    def _made(
        self,
        bucket: Mapping[str, int],
        sides: Mapping[str, int],
        processors: int,
        in_memory: bool,
        narrow: Mapping[str, str],
        adds: bool,
        matrices: bool,
        divides: bool,
    ) -> Plan:
        rewriter = self._rewriter_for(bucket)
        known = packed_extents(self.equations, bucket)
        nominal = nominal_sizes(self.equations.declared, known)
        sizes = {e: max(n, 1) for e, n in nominal.items()}
        budget = Budget()
        draft = arrange(rewriter.program, sizes, budget, matrices=matrices)
        program, sizes, steps = draft.program, {**draft.sizes}, [*draft.steps]
        if processors > 1:
            program, splits = split(program, sizes, processors, divides, frozenset(narrow))
            steps += splits
        if adds:
            program, joined = join(program, planned_sizes(program, sizes))
            steps += joined
        for rule in {s.rule for s in steps} & STATED.keys():
            STATED[rule].require_proved()
        program = replace(program, operands=stored_operands(program))
        planned = self._kernels(program, sides, sizes, in_memory)
        given = frozenset(known)
        derivation, decisions = Derivation.of(rewriter), tuple(steps)
        how = processors, budget.is_spent
        plan = Plan(derivation, decisions, program, planned, sizes, given, *how)
        return plan.of_dtypes(narrow) if narrow else plan

    def _rewriter_for(self, sizes: Mapping[str, int]) -> Rewriter:
        """Return the derivation for sizes, if they could lead it elsewhere."""
        matter = self._start.depends_on_sizes or 0 in sizes.values()
        if not matter or not sizes:
            return self._start
        key = tuple(sizes.items())
        rewriter = self._rewriters.get(key)
        if rewriter is None:
            rewriter = self._derived(self.equations.at(sizes))
            require_program(rewriter.program)
            self._rewriters[key] = rewriter
        return rewriter

    def _derived(self, equations: Equations) -> Rewriter:
        rewriter = rule_sets.derive(equations, self.steps, self.rules)
        if not rewriter.finished or self.rules is not None:
            rule_sets.complete(rewriter)
        return rewriter

    def _kernels(
        self,
        program: Equations,
        sides: Mapping[str, int],
        sizes: Mapping[str, int],
        in_memory: bool,
    ) -> tuple[PlannedKernel, ...]:
        """Return the kernels of equations in kernels: groups, roles, loops.

        Args:
            program: what `arrange` and `split` leave.
            sides: extents that are known, on which side of the limit for what is held.
            sizes: a number for every extent, by which roles are chosen.
        """
        program = guard_reads(program)
        nominal = {**nominal_sizes(program.declared), **sizes}
        fits = partial(fits_whole, sizes=sides)
        groups = kernel_groups(program, nominal)
        chosen = [(group, roles_by_cost(program, group, fits, nominal)) for group in groups]
        axes = tuple(c.axis for _, roles in chosen for c in roles.values())
        key = (program.equations, without_elements(program), axes, in_memory, *sides.items())
        kernels = self._planned.get(key)
        if kernels is None:
            is_short = partial(fits_whole, sizes=nominal)
            kernels = self._planned[key] = tuple(
                _kernel(program, *g, fits, is_short, in_memory, name)
                for g, name in zip(chosen, kernel_names(program, groups), strict=True)
            )
        return kernels


def _kernel(
    program: Equations,
    group: Sequence[Equation],
    roles: Mapping[str, RoleChoice],
    fits: Callable[[str], bool],
    is_short: Callable[[str], bool],
    in_memory: bool,
    name: str,
) -> PlannedKernel:
    axes = {index: choice.axis for index, choice in roles.items()}
    tiles = lower(program, group, axes, fits, is_short, scan_along(group), name, in_memory)
    names = {e.name: None for e in group}
    names |= {j.name: None for j in program.joined if j.beside in names}
    return PlannedKernel(tuple(names), tuple(roles.values()), tiles)


def kernel_names(program: Equations, groups: Sequence[Sequence[Equation]]) -> list[str]:
    """Name kernels: one alone like the program, several by the results that each computes, or by
    the values that it stores for the others."""
    base = program.origin.name or "kernel"
    if len(groups) == 1:
        return [base]
    results = {program.views.get(o.name, o.name) for o in program.declared.outputs}
    return [f"{base}_{_joined([e.name for e in g], results)}" for g in groups]


def _joined(names: Sequence[str], results: Set[str]) -> str:
    """Return the names of results, or else of all; of many the first and their number."""
    shown = [name for name in names if name in results] or [*names]
    rest = len(shown) - _NAMED
    return "_".join(shown[:_NAMED]) + (f"_and_{rest}" if rest > 0 else "")
