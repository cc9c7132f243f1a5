"""A plan: the kernels that compute a program at given sizes, and the derivation that led there.

    equations -> rewrites -> what is stored -> packed rows, split streams -> groups, roles -> loops

Each of these is a step with its reason, and what the choice costs by `costs.cost`. A plan is
the one way to kernels: for calls, emitted source, explanations, reports, certificates and the
search alike. Sizes that decide alike share a plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import field, replace
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
    power_of_two,
    without_elements,
)
from monocomp.lowering.guards import guard_reads
from monocomp.lowering.kernels import lower
from monocomp.machine.locking import BUILDING, built
from monocomp.planning.arranging import Purpose, arrange
from monocomp.planning.report import report
from monocomp.planning.search import Budget
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
        name: of the kernel.
        names: what it computes, and adds up for others.
        group: the equations that it computes, as they are lowered.
        roles: of their indices, each with the reason.
    """

    name: str
    names: tuple[str, ...]
    group: tuple[Equation, ...]
    roles: tuple[RoleChoice, ...]


@record(eq=False)
class Plan(Rendered):
    """A way to compute a program; see the module.

    Attributes:
        rewrites: the derivation from the program as it is written to its normal form.
        decisions: the steps to equations in kernels: what is stored, packed and split.
        equations: the equations in kernels, for inputs of any dtypes.
        planned: the kernels, in the order in which they run.
        sizes: the extents, and what each was taken for where nobody gave it.
        sides: the extents that were given, each as one that is held entirely, or one that is not.
        given: the extents that were given, and those that follow.
        purpose: what it is for.
        lowering: makes its tile programs.
        is_spent: True if more ways to cut could have been tried.
        dtypes: of inputs, as far as they are known.
    """

    rewrites: Derivation
    decisions: tuple[Step, ...]
    equations: Equations
    planned: tuple[PlannedKernel, ...]
    sizes: Mapping[str, int]
    sides: Mapping[str, int]
    given: frozenset[str]
    purpose: Purpose
    lowering: Lowering
    is_spent: bool = False
    dtypes: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def program(self) -> Equations:
        """Return the equations in kernels."""
        return self.equations.of_dtypes(self.dtypes) if self.dtypes else self.equations

    @built
    def kernels(self) -> tuple[TileProgram, ...]:
        """Return the tile programs, in the order in which they run.

        Of what is widened they do not see the 8 bits.

        Raises:
            UnsupportedError: no kernel computes the program.
        """
        kernels = self.lowering(self)
        if not self.dtypes:
            return kernels
        known = self.equations.with_slices(self.dtypes)
        is_whole = self.equations.slices is None  # else slices would be converted again and again
        wide = widened(kernels, self.sizes, known) if is_whole else frozenset()
        seen = {n: d for n, d in known.items() if n not in wide}
        return tuple(k.of_dtypes(seen) for k in kernels)

    @built
    def derivation(self) -> Derivation:
        """Return the steps that led from the program as it is written to the loops of its
        kernels."""
        return self.rewrites.then([*self.decisions, *tiling_steps(self.program, self.kernels)])

    @built
    def certificate(self) -> Certificate:
        """Certify what the kernels rest on at these sizes: laws with proofs, side conditions."""
        return self.derivation.certify()

    def of_dtypes(self, dtypes: Mapping[str, str]) -> Plan:
        """Return the plan for inputs of dtypes, as far as they are known."""
        return replace(self, dtypes=dtypes)

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
        names = {e: e.lstrip(".") for e in self.sizes}
        numbers = [f"{names[e]} = {n}" for e, n in self.sizes.items() if e in self.given]
        unknown = [names[e] for e in self.sizes if e not in self.given]
        return ", ".join([*numbers, *([f"any {', '.join(unknown)}"] if unknown else [])])

    def __str__(self) -> str:
        lines = [f"plan of {', '.join(o.name for o in self.program.declared.outputs)}"]
        lines += [f"  for {self.shown_sizes}"] if self.sizes else []
        processors = self.purpose.processors
        lines += [f"  processors {processors}"] if processors > 1 else []
        lines += ["  with no trial left"] if self.is_spent else []
        lines += [f"  {line}" for line in self.program.readable_lines()]
        for s in self.decisions:
            lines += [f"{s.rule} in {', '.join(s.place)}: {s.after}"]
            lines += [f"  {s.cost}"] if s.cost is not None else []
        for kernel, tiles in zip(self.planned, self.kernels, strict=True):
            lines.append(f"{kernel.name}: {', '.join(kernel.names)}")
            width = max((len(c.axis.name) for c in kernel.roles), default=0)
            for c in kernel.roles:
                lines.append(f"  {c.axis.name:{width}}  {c.axis.role:6}  {c.why}")
            loops = report([tiles], {})["passes"]
            lines += [f"  {n} over {index}" for index, n in loops.items()]
        return "\n".join(lines)


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
        self._lowering = Lowering()
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
            processors, in_memory, narrow, adds, matrices: see `Purpose`.
        """
        representative = self.equations.declared.extent_of
        given = {representative.get(i, i): n for i, n in (extents or {}).items()}
        processors = processors or self.processors or 1
        purpose = Purpose(processors, in_memory, adds, matrices, True, tuple(narrow.items()))
        plan = self._plan(given, purpose)
        if given and not has_same_elements(plan.program, given):
            plan = self._plan(given, replace(purpose, divides=False))
        return plan

    def _plan(self, given: Mapping[str, int], purpose: Purpose) -> Plan:
        bucket = {e: power_of_two(n) if n else 0 for e, n in sorted(given.items())}
        # Beyond that only the side of the limit matters on which a size lies.
        sides = {e: WHOLE_LIMIT + (n > WHOLE_LIMIT) for e, n in sorted(given.items())}
        key = (purpose, *bucket.items(), *sides.values())
        plan = self._plans.get(key)
        if plan is None:
            with BUILDING:
                plan = self._made(bucket, sides, purpose)
            plan = self._plans.setdefault(key, plan)
        return plan

    def _made(self, bucket: Mapping[str, int], sides: Mapping[str, int], purpose: Purpose) -> Plan:
        rewriter = self._rewriter_for(bucket)
        known = packed_extents(self.equations, bucket)
        nominal = nominal_sizes(self.equations.declared, known)
        sizes = {e: max(n, 1) for e, n in nominal.items()}
        budget = Budget()
        draft = arrange(rewriter.program, sizes, budget, purpose)
        for rule in {s.rule for s in draft.steps} & STATED.keys():
            STATED[rule].require_proved()
        program = replace(draft.program, operands=stored_operands(draft.program))
        plan = Plan(
            Derivation.of(rewriter),
            draft.steps,
            program,
            planned_kernels(program, sides, draft.sizes),
            draft.sizes,
            sides,
            frozenset(known),
            purpose,
            self._lowering,
            budget.is_spent,
        )
        return plan.of_dtypes(dict(purpose.narrow)) if purpose.narrow else plan

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


def planned_kernels(
    program: Equations, sides: Mapping[str, int], sizes: Mapping[str, int]
) -> tuple[PlannedKernel, ...]:
    """Return the kernels of equations in kernels: groups and roles.

    Args:
        program: what `arrange` leaves.
        sides: extents that are known, on which side of the limit for what is held.
        sizes: a number for every extent, by which roles are chosen.
    """
    program = guard_reads(program)
    nominal = {**nominal_sizes(program.declared), **sizes}
    fits = partial(fits_whole, sizes=sides)
    groups = kernel_groups(program, nominal)
    planned = []
    for name, group in zip(kernel_names(program, groups), groups, strict=True):
        names = {e.name: None for e in group}
        names |= {j.name: None for j in program.joined if j.beside in names}
        roles = roles_by_cost(program, group, fits, nominal)
        planned.append(PlannedKernel(name, tuple(names), tuple(group), tuple(roles.values())))
    return tuple(planned)


class Lowering:
    """Makes the tile programs of plans of one program, each once: plans for other sizes share them,
    and so does what is compiled of them."""

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], tuple[TileProgram, ...]] = {}

    def __call__(self, plan: Plan) -> tuple[TileProgram, ...]:
        """Return the tile programs of a plan, for inputs of any dtypes."""
        program, in_memory = guard_reads(plan.equations), plan.purpose.in_memory
        axes = [{c.axis.name: c.axis for c in k.roles} for k in plan.planned]
        known = tuple(a for each in axes for a in each.values()), in_memory, *plan.sides.items()
        key = (program.equations, without_elements(program), *known)
        if key not in self._made:
            fits = partial(fits_whole, sizes=plan.sides)
            nominal = {**nominal_sizes(program.declared), **plan.sizes}
            is_short = partial(fits_whole, sizes=nominal)
            self._made[key] = tuple(
                lower(program, k.group, own, fits, is_short, scan_along(k.group), k.name, in_memory)
                for k, own in zip(plan.planned, axes, strict=True)
            )
        return self._made[key]


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
