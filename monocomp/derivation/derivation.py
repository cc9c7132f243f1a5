"""A derivation as an object: the steps from a program to its kernel, to read, check and replay.

The rewriter records what it does. A derivation prints in a terminal, renders itself in
Jupyter, dumps to JSON, and gives a short outline for the header of an emitted file. Each
step holds the whole program before and after it, so whoever doubts one can have it
evaluated (`check`); whoever wants less of it can stop before any step (`first`, `undo`), take
others (`applicable`, `apply`), have the rest made (`finish`), and `compile` from there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, overload

from monocomp.declarations.record import as_data
from monocomp.derivation import rule_sets
from monocomp.display.paragraphs import LABEL, row, wrap_formula
from monocomp.display.rendering import Rendered
from monocomp.errors import UsageError, count_of
from monocomp.rewriting.driver import Rewriter, Step, result_of
from monocomp.terms.equations import Equations

PLANNING = "kernels", "what is stored, how indices are walked, and what one loop carries"

if TYPE_CHECKING:  # loaded when they are asked for: compiling needs none of them
    from monocomp.checking.steps import Checks
    from monocomp.costs.cost import Cost
    from monocomp.derivation.certificate import Certificate
    from monocomp.derivation.refusals import Refusal


@dataclass(frozen=True, repr=False)
class Derivation(Rendered):
    """The steps from a program to its normal form, a sequence of `Step`.

    Attributes:
        start: the program before the first step.
        steps: what was done, in order.
        finished: has every rule been applied that should be?
        planned: how many of the last steps are those of a plan of kernels.
    """

    start: Equations
    steps: tuple[Step, ...]
    finished: bool = False
    planned: int = 0

    @classmethod
    def of(cls, rewriter: Rewriter) -> Derivation:
        """Return the derivation that a rewriter has recorded so far."""
        return cls(rewriter.start, tuple(rewriter.steps), rewriter.finished)

    def rewriter(self) -> Rewriter:
        """Return a rewriter that goes on from here; kernels are planned again."""
        rewriter = Rewriter(self.start, self.steps[: len(self.steps) - self.planned])
        rewriter.finished = self.finished
        return rewriter

    def then(self, steps: Iterable[Step]) -> Derivation:
        """Return the same derivation with the steps of a plan at its end."""
        longer = (*self.steps, *steps)
        return replace(self, steps=longer, planned=self.planned + len(longer) - len(self.steps))

    def first(self, count: int) -> Derivation:
        """Return the first steps only."""
        steps = self.steps[:count]
        planned = self.planned - (len(self.steps) - len(steps))
        return Derivation(self.start, steps, self.finished and planned >= 0, max(0, planned))

    def apply(self, rule: str, place: str | None = None) -> Derivation:
        """Take one step more, by a rule of the caller's choice.

        Args:
            rule: its name, one of `rule_sets.RULES`.
            place: the definition to apply it in; the first in which it matches, if not given.

        Raises:
            UsageError: there is no such rule or definition, or it does not match there.
        """
        rewriter = self.rewriter()
        known = self.result.by_name
        if place is not None and place not in known:
            raise UsageError(
                f"there is no definition {place!r} here",
                notes=["definitions: " + ", ".join(known)],
            )
        if not rewriter.apply(rule_sets.chosen([rule]), place):
            raise UsageError(f"{rule} does not apply in {place or ', '.join(known)}")
        rewriter.finished = False
        return Derivation.of(rewriter)

    def undo(self, count: int = 1) -> Derivation:
        """Return the derivation without its last steps. A derivation never changes: going on from
        one in two ways gives two branches."""
        return self.first(max(0, len(self.steps) - count))

    def applicable(self) -> tuple[str, ...]:
        """Return the rules that would match now, for `apply`."""
        names = (
            name for name in rule_sets.RULES if self.rewriter().apply(rule_sets.chosen([name]))
        )
        return tuple(names)

    def finish(self) -> Derivation:
        """Return the steps that are left: every rule set in its turn, on what the last step
        gave."""
        rewriter = self.rewriter()
        rule_sets.finish(rewriter)
        return Derivation.of(rewriter)

    @property
    def compiled(self) -> Mapping[str, Any]:
        """Return the arguments of the kernel that `monocomp.compile` makes of it."""
        return {"equations": self.start, "derivation": self}

    @property
    def rewrites(self) -> tuple[Step, ...]:
        """Return the steps that keep what the program gives."""
        return self.steps

    def check(
        self,
        extents: Mapping[str, int] | None = None,
        params: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> Checks:
        """Evaluate the program before and after every step by the oracle, on random inputs.

        Args:
            extents: sizes by the name of an index; the others are small and distinct.
            params: parameters; the others have small values where their defaults are large.
            seed: of the inputs.
        """
        from monocomp.checking.steps import Case, Checks, check_steps

        case = Case.of(self.start, extents or {}, params or {}, seed, self.start.text())
        return Checks(case, tuple(check_steps(self.start, self.rewrites, case)))

    def certify(self, fresh: bool = False) -> Certificate:
        """Return the laws and facts that the steps rest on, with their proofs.

        Args:
            fresh: prove all laws anew, instead of remembering.
        """
        from monocomp.derivation.certificate import certify

        return certify(self.start, self.rewrites, fresh)

    @cached_property
    def refusals(self) -> tuple[Refusal, ...]:
        """Return why the passes that are left stay; nothing before the derivation has ended."""
        from monocomp.derivation.refusals import refusals

        return refusals(self.result, rule_sets.RULE_SETS) if self.finished else ()

    @property
    def costs(self) -> tuple[Cost, Cost]:
        """Return the costs of the program as it is written and after the last step."""
        from monocomp.costs.counting import cost

        return cost(self.start), cost(self.result)

    @property
    def result(self) -> Equations:
        """Return the program after the last step."""
        return result_of(self.start, self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    @overload
    def __getitem__(self, number: int) -> Step: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Step, ...]: ...
    def __getitem__(self, number: int | slice) -> Step | tuple[Step, ...]:
        return self.steps[number]

    @property
    def last_phases(self) -> tuple[tuple[str, str], ...]:
        """Return the name and the purpose of the phase of each last step that no rule set makes."""
        return (PLANNING,) * self.planned

    @property
    def title(self) -> str:
        """Say what is derived, and in how many steps."""
        outputs = ", ".join(output.name for output in self.start.declared.outputs)
        return f"Derivation of {outputs} in {count_of(len(self.steps), 'step')}"

    def __str__(self) -> str:
        parts = [self.title, _program_text(self.start)]
        parts += [step.shown(f"{number:2}. ") for number, step in enumerate(self.steps, 1)]
        if self.steps:
            parts += ["Result", _program_text(self.result)]
            parts += ["Cost", _costs_text(*self.costs)]
        if self.refusals:
            parts += ["Refused", "\n".join(map(_refusal_text, self.refusals))]
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        return f"<{self.title}; print it to see them>"

    def outline(self) -> list[str]:
        """Return one line for each step, rule and law; repeated applications are counted."""
        lines = []
        for (rule, law), group in groupby(self.steps, key=lambda step: (step.rule, step.law)):
            count = len(list(group))
            times = f" ({count} times)" if count > 1 else ""
            lines.append(f"{rule}{times}: {law}" if law else f"{rule}{times}")
        return lines

    def to_json(self) -> str:
        """Return everything as JSON; programs are texts of the language."""
        costs = [self.first(n).costs[1].to_json() for n in range(len(self.steps) + 1)]
        steps = [
            {
                "number": number,
                "rule": step.rule,
                "law": step.law,
                "place": list(step.place),
                "changed": list(step.changed),
                "before": step.before,
                "after": step.after,
                "program": step.program.text(),
                "cost_before": costs[number - 1],
                "cost_after": costs[number],
            }
            for number, step in enumerate(self.steps, 1)
        ]
        whole = {
            "start": self.start.text(),
            "steps": steps,
            "result": self.result.text(),
            "cost_before": costs[0],
            "cost_after": costs[-1],
            "refusals": [as_data(refusal) for refusal in self.refusals],
            "certificate": self.certify().as_data(),
        }
        return json.dumps(whole, indent=2)


# Text


def _program_text(program: Equations) -> str:
    return "\n".join(wrap_formula(line, "    ", "        ") for line in program.readable_lines())


def _costs_text(before: Cost, after: Cost) -> str:
    """Write both costs in lines; what is the same before and after stands once."""
    lines = []
    for (label, old), (_, new) in zip(before.rows(), after.rows(), strict=True):
        lines.append(row(label, str(old)))
        if new != old:
            lines.append(wrap_formula(str(new), "-> ".rjust(LABEL), " " * (LABEL + 4)))
    return "\n".join(lines)


def _refusal_text(refusal: Refusal) -> str:
    whole = f"{refusal} ({refusal.rule}, in {', '.join(refusal.place)})"
    return wrap_formula(whole, "    ", "        ")
