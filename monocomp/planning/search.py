"""Search: the moves that lead to the program in kernels which costs least.

A move goes from a draft to others, by steps: each is a law with a reason. The search is best first:
it tries the moves of the draft that takes the least time of those whose moves were not tried. It
ends when it knows what all moves lead to, or has priced as many drafts as its budget allows. Then
memory is worth a little time: of the drafts that take about as little as the fastest, it returns
the one that stores least.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from monocomp.costs.cost import ELEMENT_BYTES, STORED_BYTES
from monocomp.costs.counting import Estimate, elements, tensor_sizes
from monocomp.costs.holding import WORTHWHILE, estimate, time_of_kernels
from monocomp.costs.operands import stored_operands
from monocomp.declarations.record import record
from monocomp.extents.nominal import planned_sizes
from monocomp.rewriting.driver import Saving, Step, result_of
from monocomp.rewriting.rules import STATED
from monocomp.terms.equations import Equation, Equations

TOLERABLE = 1.02  # times the least time, for what takes less memory
SHARE = 0.05  # of the memory of inputs and outputs, which is no memory


@record(eq=False)
class Draft:
    """A program in kernels, and what it costs.

    Attributes:
        program: equations for results and stored values.
        sizes: a number for every extent.
        kernels: the work of each kernel.
        steps: those that led to the program.
    """

    program: Equations
    sizes: Mapping[str, int]
    kernels: Sequence[Estimate]
    steps: tuple[Step, ...] = ()

    @classmethod
    def of(cls, program: Equations, sizes: Mapping[str, int], steps: Iterable[Step] = ()) -> Draft:
        """Price a program; `sizes` has a number for every extent that no step has added."""
        known = planned_sizes(program, sizes)
        return cls(program, known, estimate(program, known), tuple(steps))

    def after(self, steps: Sequence[Step]) -> Draft:
        """Return the draft to which a move leads. Steps without a law of their own go with the last
        that has one, which gets the cost."""
        draft = Draft.of(steps[-1].program, self.sizes)
        last = max(n for n, step in enumerate(steps) if step.rule in STATED)
        priced = replace(steps[last], cost=Saving(self.time, draft.time))
        return replace(draft, steps=(*self.steps, *steps[:last], priced, *steps[last + 1 :]))

    def settled(self, steps: Iterable[Step]) -> Draft:
        """Return the draft after steps that are taken whatever they cost: it is not priced anew."""
        taken = tuple(steps)
        program = result_of(self.program, taken)
        return replace(self, program=program, steps=(*self.steps, *taken))

    @cached_property
    def time(self) -> float:
        """Return the time of its kernels."""
        return time_of_kernels(self.program, self.kernels, self.sizes)

    @cached_property
    def memory(self) -> float:
        """Return the bytes of what is stored on the way, as far as they are many beside those of
        what a call gives and gets."""
        tensors = ELEMENT_BYTES * sum(tensor_sizes(self.program, self.sizes))
        return max(0.0, sum(self.bytes_of(e) for e in self.stored) - SHARE * tensors)

    @property
    def stored(self) -> list[Equation]:
        """Return the equations for values on the way."""
        results = {o.name for o in self.program.outputs} | self.program.views.keys()
        return [e for e in self.program.computed if e.name not in results]

    def bytes_of(self, e: Equation) -> int:
        """Return the bytes that the value of an equation takes."""
        is_narrow = e.name in self._narrow
        return elements(e.indices, self.sizes) * (ELEMENT_BYTES if is_narrow else STORED_BYTES)

    @cached_property
    def _narrow(self) -> frozenset[str]:
        return stored_operands(self.program) | {o.name for o in self.program.outputs}

    @cached_property
    def largest(self) -> int:
        """Return the number of elements of the largest tensor that a call gives or gets."""
        return max(tensor_sizes(self.program, self.sizes))

    def is_worth(self, before: Draft) -> bool:
        """True if this is a reason to leave the draft before: a good one, where a kernel computes
        nothing that was computed before."""
        known = before.program.by_name
        has_new = any(all(e.name not in known for e in k.equations) for k in self.kernels)
        if self.time < before.time * (WORTHWHILE if has_new else 1 / TOLERABLE):
            return True
        return self.time <= TOLERABLE * before.time and self.memory < before.memory


@dataclass
class Budget:
    """The drafts that a search may price.

    Attributes:
        trials: how many.
        is_spent: True if moves were left out.
    """

    trials: int = 60
    is_spent: bool = False


Move: TypeAlias = Callable[[Draft], Iterable[Sequence[Step]]]


def search(start: Draft, moves: Sequence[Move], budget: Budget) -> Draft:
    """Return the best draft that moves lead to; see the module."""
    drafts, frontier = [start], [start]
    times = {start.time}
    trials = budget.trials
    while frontier:
        draft = min(frontier, key=lambda d: d.time)
        frontier.remove(draft)
        for steps in (steps for move in moves for steps in move(draft)):
            if not trials:
                budget.is_spent = True
                frontier.clear()
                break
            trials -= 1
            candidate = draft.after(steps)
            if candidate.time not in times and candidate.is_worth(draft):  # else another order
                times.add(candidate.time)
                drafts.append(candidate)
                frontier.append(candidate)
    least = min(d.time for d in drafts)
    return min((d for d in drafts if d.time <= TOLERABLE * least), key=lambda d: (d.memory, d.time))
